//! Host names: several addresses of which one is dead, IPv6 only, and names that do not exist.

use std::{
    error::Error as _,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use dealkit::{Error, ErrorKind, Outcome};

use tokio::time::timeout;

use crate::peer::{Blackhole, FINE, Http1, PATIENCE, Peer, Step, ada, answer, builder};

fn service(address: SocketAddr) -> Peer {
    let script = vec![Step::Hear, answer(200, FINE)];
    Peer::at(&address.to_string(), Http1, vec![script])
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// The addresses of `localhost`: one or two, depending on the machine.
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
async fn each_address_of_a_name_is_enough() {
    for ip in addresses_of_localhost() {
        let peer = service((ip, 0).into());
        succeed(&format!("http://localhost:{}", port(&peer.url))).await;
        assert_eq!(peer.finish().await.requests, 2, "{ip}");
    }
}

/// Of two addresses, the first neither accepts nor refuses a connection, and the call may wait for it for much longer than the
/// test lasts.
#[tokio::test]
async fn a_dead_address_costs_little_where_there_is_another() {
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
    let call = timeout(PATIENCE, client.deals().retrieve("x_1").send());
    call.await.expect("it waits for the dead address").unwrap();
    drop(client);
    assert_eq!(peer.finish().await.requests, 1);
}

#[tokio::test]
async fn a_name_that_nobody_has() {
    // RFC 6761 guarantees that nobody will ever have this name.
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
        // Without a network, nobody can say that there is no such name.
        if error.kind() != ErrorKind::Timeout {
            assert_eq!(error.kind(), ErrorKind::Connect);
            let told = "no connection could be made: the host in the base URL cannot be found; is it right, and is \
                        this machine on the network? (after 3 attempts) [see base_url]";
            assert!(error.to_string().ends_with(told), "{error}");
            assert!(error.source().is_some());
        }
    }
}
