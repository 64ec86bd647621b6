//! Clients whose settings for connections are the same can share them, and others cannot: measured by the connections
//! that reach the service.

use std::time::Duration;

use dealkit::{Client, ClientBuilder, RetryPolicy};

use crate::peer::{BOTH, Http1, Peer, Protocol, Step, VALID_BODY, answer, builder};

const MINUTE: Duration = Duration::from_secs(60);

fn peer(protocol: Protocol) -> Peer {
    Peer::start(
        protocol,
        vec![vec![Step::ReadRequest, answer(200, VALID_BODY)]],
    )
}

async fn retrieve(client: &Client) {
    client.deals().retrieve("x_1").await.unwrap();
}

/// How many connections two clients make that call the same service, one after the other.
async fn connections(protocol: Protocol, change: fn(ClientBuilder) -> ClientBuilder) -> usize {
    let peer = peer(protocol);
    let settings = peer.builder();
    let client = settings.clone().build().unwrap();
    let other = change(settings).share_connections(&client).build().unwrap();
    for client in [&client, &other, &client, &other] {
        retrieve(client).await;
    }
    let shares = other.shares_connections(&client);
    drop((client, other));
    let counts = peer.finish().await;
    assert_eq!(counts.requests, 4);
    assert_eq!(shares, counts.connections == 1);
    counts.connections
}

#[tokio::test]
async fn what_does_not_concern_connections_may_differ() {
    let changes: [fn(ClientBuilder) -> ClientBuilder; 8] = [
        |same| same,
        |builder| builder.service_key("another-key"),
        |builder| builder.timeout(MINUTE * 10),
        |builder| builder.retry(RetryPolicy::never()),
        |builder| builder.header("x-tenant", "7"),
        |builder| builder.user_agent("another"),
        |builder| builder.max_response_bytes(10_000),
        // A proxy is never used for a loopback address.
        |builder| builder.proxy("http://proxy.example.com:3128"),
    ];
    for protocol in BOTH {
        for (at, change) in changes.into_iter().enumerate() {
            assert_eq!(connections(protocol, change).await, 1, "{protocol:?} {at}");
        }
    }
}

#[tokio::test]
async fn what_concerns_connections_may_not_differ() {
    let changes: [fn(ClientBuilder) -> ClientBuilder; 3] = [
        |builder| builder.connect_timeout(MINUTE),
        |builder| builder.attempt_timeout(MINUTE),
        |builder| builder.max_idle_connections(7),
    ];
    for protocol in BOTH {
        for (at, change) in changes.into_iter().enumerate() {
            assert_eq!(connections(protocol, change).await, 2, "{protocol:?} {at}");
        }
    }
}

/// A pool that goes through a proxy would give it the key of a service on this machine.
#[tokio::test]
async fn another_route_has_connections_of_its_own() {
    let (proxy, service) = (peer(Http1), peer(Http1));
    let elsewhere = builder("http://deals.invalid").allow_http(true);
    let through_proxy = elsewhere.proxy(&proxy.url).build().unwrap();
    retrieve(&through_proxy).await;
    let here = builder(&service.url).share_connections(&through_proxy);
    retrieve(&here.build().unwrap()).await;
    let straight = builder("http://deals.invalid")
        .allow_http(true)
        .retry(RetryPolicy::never())
        .share_connections(&through_proxy);
    let error = straight.build().unwrap().deals().retrieve("x_1").await;
    error.unwrap_err();
    drop(through_proxy);
    assert_eq!(proxy.finish().await.requests, 1);
    assert_eq!(service.finish().await.requests, 1);
}
