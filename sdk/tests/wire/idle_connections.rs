//! Reuse of idle connections: for how long a create reuses one, and the outcome when the service closes it.

use std::{net::Ipv4Addr, time::Duration};

use dealkit::{Client, Error, Outcome, RetryPolicy};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    time::timeout,
};

use crate::peer::{
    BOTH, HANG_LIMIT, Http1, Http2, Peer, Script, Step, VALID_BODY, ada, answer, assert_pending,
    builder, clock::FrozenClock, fill_queue, immediate_retries,
};

/// Ages of an idle connection that a create reuses, and of one that it does not.
const YOUNG: Duration = Duration::from_millis(900);
const TOO_OLD: Duration = Duration::from_millis(1_100);

async fn create(client: &Client) -> Result<(), Error> {
    client.agents().create(ada()).await.map(drop)
}

async fn retrieve(client: &Client) -> Result<(), Error> {
    client.deals().retrieve("x_1").await.map(drop)
}

#[tokio::test]
async fn creates_use_a_connection_again_within_a_second() {
    let clock = FrozenClock::start();
    for protocol in BOTH {
        for (age, connections) in [(YOUNG, 1), (TOO_OLD, 4)] {
            let peer = Peer::succeeding(protocol);
            let client = peer.retrying_client();
            for _ in 0..4 {
                create(&client).await.unwrap();
                clock.advance(age).await;
            }
            drop(client);
            let counts = peer.finish().await;
            assert_eq!(counts.agents, 4);
            assert_eq!(counts.connections, connections, "{protocol:?} {age:?}");
        }
    }
}

/// Returns the steps of a service that closes an idle connection, before the next request or when it arrives.
fn closing_script(with: Step, at_next_request: bool) -> Script {
    let mut script = vec![Step::ReadRequest, answer(200, VALID_BODY), Step::Sync];
    script.extend(at_next_request.then_some(Step::PeekRequest));
    script.push(with);
    script
}

fn answering_script() -> Script {
    vec![Step::ReadRequest, answer(200, VALID_BODY)]
}

#[tokio::test]
async fn a_connection_that_the_service_has_closed_is_not_reused() {
    for protocol in BOTH {
        for with in [Step::End, Step::Reset] {
            for creates in [true, false] {
                let scripts = vec![closing_script(with.clone(), false), answering_script()];
                let peer = Peer::start(protocol, scripts);
                let client = peer.retrying_client();
                let attempts = if creates {
                    create(&client).await.unwrap();
                    peer.wait_for_end().await;
                    let call = client.agents().create(ada()).with_response();
                    call.await.unwrap().attempts()
                } else {
                    retrieve(&client).await.unwrap();
                    peer.wait_for_end().await;
                    let call = client.deals().retrieve("x_1").with_response();
                    call.await.unwrap().attempts()
                };
                // A read may be sent before the client sees the end of the connection. Then it is sent again.
                let most = if creates { 1 } else { 2 };
                assert!(attempts <= most, "{protocol:?}: {attempts}");
                drop(client);
                let counts = peer.finish().await;
                assert_eq!((counts.connections, counts.requests), (2, 2));
            }
        }
    }
}

#[tokio::test]
async fn a_read_on_a_closed_connection_is_sent_again_immediately() {
    for (protocol, with) in [
        (Http1, Step::Reset),
        (Http2, Step::Reset),
        (Http1, Step::End),
    ] {
        let stale = closing_script(with, true);
        let peer = Peer::start(protocol, vec![stale.clone(), answering_script()]);
        let client = peer.builder().retry(RetryPolicy::new()).build().unwrap();
        retrieve(&client).await.unwrap();
        let call = client.deals().retrieve("x_1").with_response();
        assert_eq!(call.await.unwrap().attempts(), 2, "{protocol:?}");

        // It is sent again only once.
        let peer = Peer::start(
            protocol,
            vec![stale.clone(), vec![Step::PeekRequest, Step::Reset]],
        );
        let policy = immediate_retries().max_retries(1);
        let client = peer.builder().retry(policy).build().unwrap();
        retrieve(&client).await.unwrap();
        let error = retrieve(&client).await.unwrap_err();
        assert_eq!(error.attempts(), 3, "{protocol:?}");

        // Without retries, it is not sent again.
        let peer = Peer::start(protocol, vec![stale, answering_script()]);
        let client = peer.builder().retry(RetryPolicy::never()).build().unwrap();
        retrieve(&client).await.unwrap();
        let error = retrieve(&client).await.unwrap_err();
        assert_eq!(error.attempts(), 1, "{protocol:?}: {error}");
        drop(client);
        assert_eq!(peer.finish().await.connections, 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_create_on_a_closed_connection_is_never_sent_again() {
    let _clock = FrozenClock::start();
    for protocol in BOTH {
        for with in [Step::End, Step::Reset] {
            let peer = Peer::start(
                protocol,
                vec![closing_script(with, true), answering_script()],
            );
            let client = peer.retrying_client();
            create(&client).await.unwrap();
            let error = create(&client).await.unwrap_err();
            let actual = (error.outcome(), error.attempts());
            assert_eq!(actual, (Outcome::Unknown, 1), "{protocol:?}: {error:?}");
            drop(client);
            let counts = peer.finish().await;
            assert_eq!(
                (counts.connections, counts.requests),
                (1, 1),
                "{protocol:?}"
            );
        }
    }
}

/// Otherwise, the pool's idle connections would stay open until the connection is made.
#[tokio::test]
async fn dropping_a_client_stops_the_making_of_connections() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let client = builder(&format!("http://{address}"))
        .connect_timeout(Duration::from_secs(600))
        .attempt_timeout(Duration::from_secs(600))
        .build()
        .unwrap();
    let mut service = {
        let (first, second) = (retrieve(&client), retrieve(&client));
        tokio::pin!(first, second);
        let mut service = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            outcome = &mut first => panic!("{outcome:?}"),
        };
        // The operating system neither accepts nor rejects further connections.
        let _waiting = fill_queue(address).await;
        assert_pending(&mut second).await;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{VALID_BODY}",
            VALID_BODY.len()
        );
        // The second call uses the first call's connection, while its own connection is still being made.
        let respond = async {
            for _ in 0..2 {
                let mut head = [0; 4096];
                assert!(service.read(&mut head).await.unwrap() > 0);
                service.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let (first, second, ()) = tokio::join!(first, second, respond);
        first.and(second).unwrap();
        service
    };
    drop(client);
    let end = timeout(HANG_LIMIT, service.read(&mut [0; 1])).await;
    assert_eq!(end.expect("it stays open").unwrap(), 0);
}
