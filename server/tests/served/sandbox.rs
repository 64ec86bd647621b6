//! The embedded server: start, reset, stop, limits and errors.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use crate::support::{
    AGENT, KEY, connect, create, get_deal, post_head, read_response, retrieve_deal,
};
use dealkit_server::{Sandbox, StartError};

#[tokio::test]
async fn it_starts_and_stops_in_an_async_program() {
    let sandbox = Sandbox::builder().start().unwrap();
    let address = sandbox.address();
    let response = tokio::task::spawn_blocking(move || retrieve_deal(address, "d_1"));
    assert_eq!(response.await.unwrap().status, 200);
    drop(sandbox);
    Sandbox::builder().start().unwrap().shutdown();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap();
    assert!(matches!(
        Sandbox::builder().listen(taken).start(),
        Err(StartError::Listen { .. })
    ));
}

#[test]
fn dropping_frees_the_port_despite_open_connections() {
    // A separate loopback address, so that no other program takes the port.
    let listen = (
        [127, 0, 0, if cfg!(target_os = "linux") { 2 } else { 1 }],
        0,
    );
    let hour = Duration::from_secs(3_600);
    let builder = Sandbox::builder().listen(listen).shutdown_timeout(hour);
    let sandbox = builder
        .head_timeout(hour)
        .body_timeout(hour)
        .start()
        .unwrap();
    let address = sandbox.address();
    let mut idle = connect(address);
    idle.write_all(get_deal("d_1").as_bytes()).unwrap();
    read_response(&mut idle, false);
    let mut busy = connect(address);
    busy.write_all(post_head("content-length: 100\r\n").as_bytes())
        .unwrap();
    drop(sandbox);
    assert!(TcpStream::connect(address).is_err());
    let again = Sandbox::builder().listen(address).start().unwrap();
    assert_eq!(again.address(), address);
}

/// The store's size is limited. A smaller agent still fits after the rejection of a larger one.
#[test]
fn the_size_of_the_store_is_limited() {
    let sandbox = Sandbox::builder().max_store_bytes(2_000).start().unwrap();
    let long = AGENT.replace(
        "{}",
        &format!(r#"{{"externalId":"{}"}}"#, "x".repeat(2_000)),
    );
    let create = |body: &str| create(&sandbox, body);
    let refused = create(&long);
    assert_eq!(refused.status, 507);
    refused.check_invariants("507", false);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("--max-store-bytes"), "{detail}");

    assert_eq!(create(AGENT).status, 201);
    let deal = |id: &str, length| {
        let text = "x".repeat(length);
        format!(r#"{{"id": "{id}", "external_id": "{text}"}}"#)
    };
    // A replaced deal frees its memory.
    for _ in 0..5 {
        sandbox.insert_deal(deal("d_9", 500)).unwrap();
    }
    let full = sandbox.insert_deal(deal("d_8", 1_500)).unwrap_err();
    assert!(full.to_string().contains("max_store_bytes"), "{full}");
    sandbox.reset();
    assert_eq!(create(AGENT).json()["id"], "a_1");
}

#[test]
fn invalid_settings_are_errors_without_keys() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    for builder in [Sandbox::builder(), Sandbox::builder().service_key(KEY)] {
        assert!(matches!(
            builder.listen(everywhere).start(),
            Err(StartError::KeyRequired { .. })
        ));
    }
    let own = Sandbox::builder().listen(everywhere).service_key("own");
    assert!(matches!(
        own.admin_token(KEY).start(),
        Err(StartError::KeyRequired { .. })
    ));
    assert!(
        Sandbox::builder()
            .listen(everywhere)
            .service_key("own")
            .start()
            .is_ok()
    );
    for key in ["", "two words", "schlüssel", &"k".repeat(1025)] {
        let error = Sandbox::builder().service_key(key).start().unwrap_err();
        assert!(matches!(error, StartError::ServiceKey(_)));
        assert!(key.is_empty() || !format!("{error} {error:?}").contains(key));
    }
    assert!(
        Sandbox::builder()
            .service_key("k".repeat(1024))
            .start()
            .is_ok()
    );
    for (keys, valid) in [
        ("nightly, test-*", true),
        ("", false),
        ("*", false),
        ("two words", false),
        ("a**", false),
    ] {
        assert_eq!(Sandbox::builder().namespaces(keys).service().is_ok(), valid);
    }
}
