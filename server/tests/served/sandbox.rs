//! The server as a value: started, inspected, reset, stopped.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use crate::support::{AGENT, connect, create_agent, get_deal, post_head, read_response, send};
use dealkit_server::{Sandbox, ServiceKey, StartError, Wanted};

fn create(sandbox: &Sandbox, first_name: &str) {
    let request = create_agent(&AGENT.replace("Ada", first_name));
    assert_eq!(send(sandbox.address(), request.as_bytes()).status, 201);
}

#[test]
fn what_was_created_can_be_seen_and_forgotten() {
    let sandbox = Sandbox::builder()
        .deals([r#"{"id":"kept"}"#])
        .start()
        .unwrap();
    create(&sandbox, "One");
    create(&sandbox, "Two");
    let agents = sandbox.agents();
    let names: Vec<&str> = agents
        .iter()
        .map(|agent| agent.first_name.as_str())
        .collect();
    assert_eq!(names, ["One", "Two"]);
    assert_eq!(agents[1].id.as_str(), "a_2");

    sandbox.insert_deal(r#"{"id":"added"}"#).unwrap();
    sandbox
        .insert_deal(r#"{"id":"kept","status":"CHANGED"}"#)
        .unwrap();
    sandbox.reset();
    assert!(sandbox.agents().is_empty());
    assert_eq!(
        send(sandbox.address(), get_deal("added").as_bytes()).status,
        404
    );
    assert_eq!(
        send(sandbox.address(), get_deal("kept").as_bytes()).body,
        r#"{"id":"kept"}"#
    );
    create(&sandbox, "Three");
    assert_eq!(sandbox.agents()[0].id.as_str(), "a_1");
}

#[tokio::test]
async fn too_few_requests_are_an_error_that_says_what_came() {
    let sandbox = Sandbox::builder().start().unwrap();
    let wanted = Wanted::requests(3).path("/v1/deals/d_1").status(200);
    let wait = async || {
        sandbox
            .wait_for(&wanted, Duration::from_millis(1))
            .await
            .unwrap_err()
    };
    let error = wait().await;
    assert_eq!(
        error.to_string(),
        "0 of 3 requests came in time; the sandbox has seen none"
    );
    for id in ["d_1", "secret", "d_1"] {
        let (address, request) = (sandbox.address(), get_deal(id));
        let sent = tokio::task::spawn_blocking(move || send(address, request.as_bytes()));
        sent.await.unwrap();
    }
    assert_eq!(
        wait().await.to_string(),
        "2 of 3 requests came in time; the sandbox has seen 2 × GET /v1/deals/{id} 200, 1 × GET /v1/deals/{id} 404"
    );
    assert_eq!(format!("{wanted:?}"), "Wanted { count: 3, .. }");
}

#[tokio::test]
async fn it_starts_and_drops_inside_an_async_program() {
    let sandbox = Sandbox::builder().start().unwrap();
    let address = sandbox.address();
    let response = tokio::task::spawn_blocking(move || send(address, get_deal("d_1").as_bytes()));
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
fn dropping_frees_the_port_at_once_even_with_open_connections() {
    let sandbox = Sandbox::builder().start().unwrap();
    let address = sandbox.address();
    let mut idle = connect(address);
    idle.write_all(get_deal("d_1").as_bytes()).unwrap();
    read_response(&mut idle, false);
    let mut busy = connect(address);
    busy.write_all(post_head("content-length: 100\r\n").as_bytes())
        .unwrap();
    let began = Instant::now();
    drop(sandbox);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(TcpStream::connect(address).is_err());
    let again = Sandbox::builder().listen(address).start().unwrap();
    assert_eq!(again.address(), address);
}

/// The store is bounded in bytes too: what does not fit is refused, and something smaller still fits.
#[test]
fn the_store_is_bounded_in_bytes() {
    let sandbox = Sandbox::builder().max_store_bytes(2_000).start().unwrap();
    let long = AGENT.replace(
        "{}",
        &format!(r#"{{"externalId":"{}"}}"#, "x".repeat(2_000)),
    );
    let create = |body: &str| send(sandbox.address(), create_agent(body).as_bytes());
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
    // What is replaced takes no space any more.
    for _ in 0..5 {
        sandbox.insert_deal(deal("d_9", 500)).unwrap();
    }
    let full = sandbox.insert_deal(deal("d_8", 1_500)).unwrap_err();
    assert!(full.to_string().contains("max_store_bytes"), "{full}");
    let mut created = 1;
    while create(AGENT).status == 201 {
        created += 1;
    }
    assert!((2..20).contains(&created), "{created}");
    assert_eq!(sandbox.agents().len(), created);

    sandbox.reset();
    assert_eq!(create(AGENT).json()["id"], "a_1");
}

#[test]
fn wrong_settings_start_nothing_and_show_no_key() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    for builder in [
        Sandbox::builder(),
        Sandbox::builder().service_key(ServiceKey::DEFAULT),
    ] {
        assert!(matches!(
            builder.listen(everywhere).start(),
            Err(StartError::KeyRequired { .. })
        ));
    }
    let own = Sandbox::builder().listen(everywhere).service_key("own");
    assert!(matches!(
        own.admin_token(ServiceKey::DEFAULT).start(),
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
    for builder in [
        Sandbox::builder().max_head_bytes(100),
        Sandbox::builder().max_connections(0),
        Sandbox::builder().max_worlds(0),
    ] {
        assert!(matches!(builder.start(), Err(StartError::Limit { .. })));
    }
    for (keys, valid) in [
        ("nightly, test-*", true),
        ("", false),
        ("*", false),
        ("two words", false),
        ("a**", false),
    ] {
        assert_eq!(Sandbox::builder().worlds(keys).service().is_ok(), valid);
    }
}
