//! Name resolution: several addresses, a dead address, IPv6 only, and unknown names.

use std::{
    error::Error as _,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use dealkit::{Error, ErrorKind, Outcome};

use tokio::time::timeout;

use crate::peer::{Blackhole, HANG_LIMIT, Http1, Peer, Step, VALID_BODY, ada, answer, builder};

fn service(address: SocketAddr) -> Peer {
    let script = vec![Step::ReadRequest, answer(200, VALID_BODY)];
    Peer::at(&address.to_string(), Http1, vec![script])
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Returns the addresses of `localhost`: one or two, depending on the machine.
fn addresses_of_localhost() -> Vec<IpAddr> {
    let all = ("localhost", 0).to_socket_addrs().unwrap();
    let mut all: Vec<_> = all.map(|address| address.ip()).collect();
    all.dedup();
    all.retain(|ip| std::net::TcpListener::bind((*ip, 0)).is_ok());
    all
}

async fn succeed(url: &str) {
    let client = builder(url).build().unwrap();
    client.deals().retrieve("x_1").await.unwrap();
    client.agents().create(ada()).await.unwrap();
}

#[tokio::test]
async fn a_service_at_any_address_of_a_name_is_reached() {
    for ip in addresses_of_localhost() {
        let peer = service((ip, 0).into());
        succeed(&format!("http://localhost:{}", port(&peer.url))).await;
        assert_eq!(peer.finish().await.requests, 2, "{ip}");
    }
}

/// The first of two addresses neither accepts nor rejects a connection, and the timeouts are much longer than the test.
#[tokio::test]
async fn the_second_address_is_tried_while_the_first_does_not_respond() {
    let [dead, alive] = addresses_of_localhost()[..] else {
        return;
    };
    let blackhole = Blackhole::at(dead).await;
    let peer = service((alive, port(&blackhole.url)).into());
    let hour = Duration::from_secs(3_600);
    let client = builder(&format!("http://localhost:{}", port(&blackhole.url)))
        .connect_timeout(hour)
        .attempt_timeout(hour)
        .timeout(hour)
        .build()
        .unwrap();
    let call = timeout(HANG_LIMIT, client.deals().retrieve("x_1").send());
    call.await.expect("it waits for the dead address").unwrap();
    drop(client);
    assert_eq!(peer.finish().await.requests, 1);
}

#[tokio::test]
async fn an_unknown_host_is_an_error_with_advice() {
    // RFC 6761 reserves this top-level domain, so the name never exists.
    let client = builder("https://deals.invalid")
        .connect_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let errors: [Error; 2] = [
        client.deals().retrieve("x_1").await.unwrap_err(),
        client.agents().create(ada()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.outcome(), error.attempts()), (Outcome::NotSent, 3));
        // Without a network, name resolution times out.
        if error.kind() != ErrorKind::Timeout {
            assert_eq!(error.kind(), ErrorKind::Connect);
            let message = "no connection could be made: the host in the base URL cannot be found; is it right, and is \
                        this machine on the network? (after 3 attempts) [see base_url]";
            assert!(error.to_string().ends_with(message), "{error}");
            assert!(error.source().is_some());
        }
    }
}
