//! When a create is sent on a connection that has carried another request, and what becomes of it when the service
//! closes connections the way services do.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use dealkit::{Client, Error, Outcome, RetryPolicy};
use futures_util::{StreamExt as _, stream};
use proptest::{prelude::*, test_runner::TestRunner};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
    time::timeout,
};

use crate::peer::{
    BOTH, FINE, Http1, Http2, Peer, Protocol, Script, Step, ada, answer, at_once, builder,
};

/// Lets this much time pass for the client, at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

const TRUSTED: Duration = Duration::from_millis(900);
const TOO_OLD: Duration = Duration::from_millis(1_100);

fn fine(protocol: Protocol) -> Peer {
    Peer::start(
        protocol,
        vec![vec![Step::Hear, Step::Act, answer(200, FINE)]],
    )
}

async fn create(client: &Client) -> Result<(), Error> {
    client.agents().create(ada()).await.map(drop)
}

async fn retrieve(client: &Client) -> Result<(), Error> {
    client.deals().retrieve("x_1").await.map(drop)
}

#[tokio::test]
async fn creates_use_a_connection_again_within_a_second() {
    for protocol in BOTH {
        for (age, connections) in [(TRUSTED, 1), (TOO_OLD, 4)] {
            let peer = fine(protocol);
            let client = peer.client();
            for _ in 0..4 {
                create(&client).await.unwrap();
                pass(age).await;
            }
            drop(client);
            let counts = peer.finish().await;
            assert_eq!(counts.agents, 4);
            assert_eq!(counts.connections, connections, "{protocol:?} {age:?}");
        }
    }
}

#[tokio::test]
async fn over_http2_creates_share_the_connection_of_reads_within_a_second() {
    for (protocol, age, connections) in [
        (Http2, TRUSTED, 1),
        (Http2, TOO_OLD, 2),
        // Over HTTP/1.1, nobody can tell which of the connections of reads the next request gets.
        (Http1, TRUSTED, 2),
    ] {
        let peer = fine(protocol);
        let client = peer.client();
        retrieve(&client).await.unwrap();
        pass(age).await;
        create(&client).await.unwrap();
        drop(client);
        assert_eq!(
            peer.finish().await.connections,
            connections,
            "{protocol:?} {age:?}"
        );
    }
}

#[tokio::test]
async fn many_creates_are_few_connections() {
    let peer = fine(Http1);
    let client = peer.client();
    let creates = stream::iter(0..300).map(|_| create(&client));
    let outcomes: Vec<_> = creates.buffer_unordered(16).collect().await;
    assert!(outcomes.iter().all(Result::is_ok));
    drop(client);
    let counts = peer.finish().await;
    assert_eq!(counts.agents, 300);
    assert!(counts.connections <= 32, "{}", counts.connections);
}

/// The service closes a connection that it has kept, before the next request or just as it arrives.
fn closing(with: Step, at_next_request: bool) -> Script {
    let mut script = vec![Step::Hear, answer(200, FINE), Step::Sync];
    script.extend(at_next_request.then_some(Step::Glance));
    script.push(with);
    script
}

fn answering() -> Script {
    vec![Step::Hear, answer(200, FINE)]
}

#[tokio::test]
async fn a_connection_that_was_closed_since_is_not_met() {
    for protocol in BOTH {
        for with in [Step::End, Step::Reset] {
            for creates in [true, false] {
                let scripts = vec![closing(with.clone(), false), answering()];
                let peer = Peer::start(protocol, scripts);
                let client = peer.client();
                let attempts = if creates {
                    create(&client).await.unwrap();
                    peer.an_end().await;
                    let call = client.agents().create(ada()).with_response();
                    call.await.unwrap().attempts()
                } else {
                    retrieve(&client).await.unwrap();
                    peer.an_end().await;
                    let call = client.deals().retrieve("x_1").with_response();
                    call.await.unwrap().attempts()
                };
                // A read may find out by being sent, and is then sent again.
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
async fn a_read_on_a_stale_connection_is_sent_again_at_once() {
    for (protocol, with) in [
        (Http1, Step::Reset),
        (Http2, Step::Reset),
        (Http1, Step::End),
    ] {
        let stale = closing(with, true);
        let peer = Peer::start(protocol, vec![stale.clone(), answering()]);
        let client = peer.builder().retry(RetryPolicy::new()).build().unwrap();
        retrieve(&client).await.unwrap();
        let call = client.deals().retrieve("x_1").with_response();
        assert_eq!(call.await.unwrap().attempts(), 2, "{protocol:?}");

        // Exactly once.
        let peer = Peer::start(
            protocol,
            vec![stale.clone(), vec![Step::Glance, Step::Reset]],
        );
        let policy = at_once().max_retries(1);
        let client = peer.builder().retry(policy).build().unwrap();
        retrieve(&client).await.unwrap();
        let error = retrieve(&client).await.unwrap_err();
        assert_eq!(error.attempts(), 3, "{protocol:?}");

        // And not at all without retries.
        let peer = Peer::start(protocol, vec![stale, answering()]);
        let client = peer.builder().retry(RetryPolicy::never()).build().unwrap();
        retrieve(&client).await.unwrap();
        let error = retrieve(&client).await.unwrap_err();
        assert_eq!(error.attempts(), 1, "{protocol:?}: {error}");
        drop(client);
        assert_eq!(peer.finish().await.connections, 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_create_on_a_stale_connection_is_never_sent_again() {
    for protocol in BOTH {
        for with in [Step::End, Step::Reset] {
            let peer = Peer::start(protocol, vec![closing(with, true), answering()]);
            let client = peer.client();
            create(&client).await.unwrap();
            let error = create(&client).await.unwrap_err();
            let told = (error.outcome(), error.attempts());
            assert_eq!(told, (Outcome::Unknown, 1), "{protocol:?}: {error:?}");
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

/// A connection that is still being made when its client is dropped must not keep the idle ones open.
#[tokio::test]
async fn dropping_a_client_ends_what_is_connecting() {
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
        // The queue is full now: further connections are neither accepted nor refused.
        let mut waiting = Vec::new();
        let patience = Duration::from_millis(100);
        while let Ok(stream) = timeout(patience, TcpStream::connect(address)).await {
            waiting.push(stream.unwrap());
        }
        assert!(timeout(patience, &mut second).await.is_err());
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{FINE}",
            FINE.len()
        );
        // The second call goes out on the connection of the first, and its own goes on being made.
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
    let end = timeout(Duration::from_secs(20), service.read(&mut [0; 1])).await;
    assert_eq!(end.expect("it stays open").unwrap(), 0);
}

/// A service that handles one connection after the other, and closes them as it is told to.
#[derive(Clone, Debug)]
struct Closing {
    /// How long a connection may be idle.
    idle: Duration,
    /// After how many requests a connection is closed; 0 for never.
    requests: usize,
    /// How many bytes of the request after the last one are read before the connection is closed.
    bytes: usize,
    by_reset: bool,
}

/// What the service has done.
#[derive(Default)]
struct Done {
    agents: std::sync::Mutex<Vec<usize>>,
    /// Triggered by the test when an idle connection's time is over.
    idle_is_over: Notify,
}

impl Closing {
    async fn serve(self, listener: TcpListener, done: Arc<Done>) {
        while let Ok((stream, _)) = listener.accept().await {
            let (service, done) = (self.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let stream = service.serve_one(stream, &done).await;
                if service.by_reset {
                    let _ = stream.set_zero_linger();
                }
                drop(stream);
            });
        }
    }

    /// Serves a connection to its end.
    async fn serve_one(&self, mut stream: TcpStream, done: &Done) -> TcpStream {
        let mut served = 0;
        loop {
            let is_last = self.requests != 0 && served == self.requests;
            let limit = if is_last { self.bytes } else { usize::MAX };
            let call = tokio::select! {
                call = hear(&mut stream, limit) => call,
                () = done.idle_is_over.notified() => return stream,
            };
            let Some(call) = call else { return stream };
            done.agents.lock().unwrap().push(call);
            let head = format!(
                "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{FINE}",
                FINE.len()
            );
            if is_last || stream.write_all(head.as_bytes()).await.is_err() {
                return stream;
            }
            served += 1;
        }
    }
}

/// Reads a request, but no more than `limit` bytes of it; returns the number in its header, if it is complete.
async fn hear(stream: &mut TcpStream, limit: usize) -> Option<usize> {
    let mut heard = Vec::new();
    loop {
        if heard.len() >= limit {
            return None;
        }
        heard.push(stream.read_u8().await.ok()?);
        let text = String::from_utf8_lossy(&heard);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let field = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<usize>().ok())
        };
        if body.len() == field("content-length:")? {
            return field("x-call:");
        }
    }
}

/// Waits for as long as a client needs to notice a closed connection; on loopback, with both on one thread.
async fn round_trip() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Makes the calls with these waits between them, and compares what the service has done with what they report.
async fn run(service: Closing, waits: Vec<Duration>) {
    let case = format!("{service:?} {waits:?}");
    let done = Arc::new(Done::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(service.clone().serve(listener, Arc::clone(&done)));
    let client = builder(&url).build().unwrap();
    let mut served = 0;
    for (call, wait) in waits.iter().enumerate() {
        if *wait >= service.idle {
            pass(service.idle).await;
            done.idle_is_over.notify_waiters();
            round_trip().await;
            pass(*wait - service.idle).await;
        } else {
            pass(*wait).await;
            round_trip().await;
        }
        let outcome = client
            .agents()
            .create(ada())
            .header("x-call", call.to_string())
            .await;
        let agents = done
            .agents
            .lock()
            .unwrap()
            .iter()
            .filter(|of| **of == call)
            .count();
        let said = format!("{case}, call {call}: {outcome:?}");
        match outcome.map_err(|error| error.outcome()) {
            Ok(_) => {
                assert_eq!(agents, 1, "{said}");
                served += 1;
            }
            Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(agents, 0, "{said}"),
            // The service closed the connection in the middle of the request, and only then.
            Err(Outcome::Unknown) => {
                assert!(agents <= 1, "{said}");
                assert!(service.requests != 0 && service.bytes != 0, "{said}");
                assert!(*wait < service.idle, "{said}");
                assert!(*wait < Duration::from_secs(1), "{said}");
            }
            Err(other) => panic!("{said}: {other}"),
        }
    }
    assert!(served > 0, "{case}");
    serving.abort();
}

#[test]
fn whatever_closes_connections_no_create_is_acted_on_twice() {
    let service = (900_u64..75_000, 0_usize..5, 0_usize..400, any::<bool>()).prop_map(
        |(idle, requests, bytes, by_reset)| Closing {
            idle: Duration::from_millis(idle),
            requests,
            bytes,
            by_reset,
        },
    );
    let wait = prop_oneof![
        4 => 0_u64..100,
        2 => 0_u64..2_000,
        1 => 0_u64..80_000,
    ];
    let waits = proptest::collection::vec(wait.prop_map(Duration::from_millis), 1..12);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&(service, waits), |(service, waits)| {
            runtime.block_on(run(service, waits));
            Ok(())
        })
        .unwrap();
}
