//! Sharing of connections between clients, measured by the connections that reach the service.

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

/// Returns the number of connections that two clients make to the same service, one after the other.
async fn count_connections(
    protocol: Protocol,
    change: fn(ClientBuilder) -> ClientBuilder,
) -> usize {
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
async fn clients_with_other_call_settings_share_connections() {
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
            assert_eq!(
                count_connections(protocol, change).await,
                1,
                "{protocol:?} {at}"
            );
        }
    }
}

#[tokio::test]
async fn clients_with_other_connection_settings_do_not_share_connections() {
    let changes: [fn(ClientBuilder) -> ClientBuilder; 3] = [
        |builder| builder.connect_timeout(MINUTE),
        |builder| builder.attempt_timeout(MINUTE),
        |builder| builder.max_idle_connections(7),
    ];
    for protocol in BOTH {
        for (at, change) in changes.into_iter().enumerate() {
            assert_eq!(
                count_connections(protocol, change).await,
                2,
                "{protocol:?} {at}"
            );
        }
    }
}

/// If a service on this machine were called through a proxy's pool, the proxy would get the key.
#[tokio::test]
async fn clients_with_another_route_do_not_share_connections() {
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
