//! The contract's vectors through the pure handler, and that no body makes it behave strangely.

use std::collections::BTreeMap;

use crate::support::{AGENT, KEY, Received, agent_cases, request_cases, service};
use bytes::Bytes;
use dealkit::{Client, Json};
use dealkit_server::Service;
use http::{Request, Version};
use proptest::prelude::*;

fn create(service: &Service, body: Bytes) -> Received {
    let request = Request::post("/v1/agents")
        .header("host", "sandbox.test")
        .header("x-service-key", KEY)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    service.handle(request).into()
}

#[test]
fn agent_vectors() {
    let services = [service(|_| ()), service(|config| config.strict = true)];
    for case in agent_cases() {
        let response = create(&services[usize::from(case.strict)], case.bytes());
        case.check(&response);
    }
}

#[test]
fn request_vectors() {
    let mut services = BTreeMap::new();
    for case in request_cases().into_iter().filter(|case| !case.raw) {
        let service = services.entry(case.limits).or_insert_with(|| {
            service(|config| {
                config.max_body_bytes = case.limits.max_body_bytes.unwrap_or(config.max_body_bytes);
                config.max_agents = case.limits.max_agents.unwrap_or(config.max_agents);
            })
        });
        let sent = &case.request;
        let mut request = Request::builder()
            .method(sent.method.as_str())
            .uri(&sent.target)
            .version(Version::HTTP_11)
            .header("host", "sandbox.test");
        for (name, value) in sent.headers() {
            request = request.header(name, value);
        }
        let body = sent.body();
        if let Some(body) = &body {
            request = request.header("content-length", body.len());
        }
        let request = request.body(body.unwrap_or_default()).unwrap();
        case.check(&service.handle(request).into());
    }
}

#[test]
fn agents_are_kept_in_order_and_served_from_what_was_answered() {
    let service = service(|_| ());
    let ids: Vec<String> = (0..100)
        .map(|_| {
            create(&service, AGENT.into()).json()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let kept: Vec<String> = service
        .agents()
        .iter()
        .map(|agent| agent.id.to_string())
        .collect();
    assert_eq!(ids, kept);
    assert_eq!(ids[0], "a_1");
    service.reset();
    assert!(service.agents().is_empty());
}

#[test]
fn a_number_beyond_any_range_comes_back_digit_for_digit() {
    let digits = "9".repeat(10_000);
    let body = AGENT.replace(
        "{}",
        &format!(r#"{{"clientMetadata":{{"n":-{digits}.50e{digits}}}}}"#),
    );
    let response = create(&service(|_| ()), body.into());
    assert_eq!(response.status, 201);
    let text = std::str::from_utf8(&response.body).unwrap();
    assert!(text.contains(&format!(r#"{{"n":-{digits}.50e{digits}}}"#)));
}

#[test]
fn no_response_and_no_debug_output_shows_a_key_or_a_value() {
    let secret = "hunter2-hunter2";
    let service = service(|config| {
        config.service_key = Some(dealkit_server::ServiceKey::new(secret).unwrap())
    });
    let mut config = dealkit_server::Config::default();
    config.service_key = Some(dealkit_server::ServiceKey::new(secret).unwrap());
    assert!(!format!("{service:?} {config:?}").contains("hunter2"));
    for key in [secret, "wrong-hunter2", ""] {
        let body = r#"{"email": "hunter2", "first_name": 2, "phone": "hunter2", "role": "hunter2", "hunter2": 1}"#;
        let request = Request::post("/v1/agents")
            .header("host", "h")
            .header("x-service-key", key)
            .header("content-type", "application/json")
            .body(Bytes::from(body))
            .unwrap();
        let response = Received::from(service.handle(request));
        assert!(response.status == if key == secret { 422 } else { 401 });
        assert!(!format!("{response:?}").contains("hunter2"), "{response:?}");
    }
}

#[test]
fn http_2_needs_an_authority_and_no_host() {
    let service = service(|_| ());
    let response = |uri: &str| {
        let request = Request::get(uri)
            .version(Version::HTTP_2)
            .header("x-service-key", KEY);
        Received::from(service.handle(request.body(Bytes::new()).unwrap())).status
    };
    assert_eq!(response("http://any.test/v1/deals/d_1"), 200);
    assert_eq!(response("/v1/deals/d_1"), 400);
}

#[test]
fn a_request_that_was_not_sent_has_the_host_of_its_uri() {
    let service = service(|_| ());
    for base_url in [
        "http://localhost:8080",
        "http://localhost",
        "http://127.0.0.1:80",
        "http://[::1]:1",
    ] {
        let client = Client::builder().base_url(base_url).service_key(KEY);
        let client = client.build().unwrap();
        let read = client.deals().retrieve("d_1").into_request().unwrap();
        assert_eq!(service.handle(read).status(), 200, "{base_url}");
        let body = Json::parse(AGENT).unwrap();
        let create = client.agents().create_json(body).into_request().unwrap();
        assert_eq!(service.handle(create).status(), 201, "{base_url}");
    }
    // A Host that the caller has written has to be the right one.
    for host in ["localhost:8080", "localhost", "b.test"] {
        let request = Request::get("http://localhost:8080/v1/deals/d_1");
        let request = request.header("host", host).header("x-service-key", KEY);
        let response = service.handle(request.body(Bytes::new()).unwrap());
        let is_right = host == "localhost:8080";
        assert_eq!(
            response.status(),
            if is_right { 200 } else { 400 },
            "{host}"
        );
    }
}

/// The statuses that the contract has for this route.
const STATUSES: [u16; 6] = [201, 400, 413, 415, 422, 507];

/// Bodies that are almost agents: the interesting ones are close to the line.
fn nearly_an_agent() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just("email"),
        Just("first_name"),
        Just("last_name"),
        Just("profile"),
        Just("role"),
        Just("phone"),
        Just("image_url"),
        Just("date_of_birth"),
        Just("brokerage_id"),
        Just("clientMetadata"),
    ];
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("{}".to_owned()),
        Just("[1e999]".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        Just("\"1990-02-28\"".to_owned()),
        Just("\"ada@example.com\"".to_owned()),
        Just("true".to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    prop::collection::vec((field, value), 0..8).prop_flat_map(|fields| {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        let text = format!("{{{}}}", fields.join(",")).into_bytes();
        let length = text.len();
        (Just(text), prop::option::of((0..length, any::<u8>()))).prop_map(|(mut text, change)| {
            if let Some((at, byte)) = change {
                text[at] = byte;
            }
            text
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_body_gets_a_well_formed_response(
        body in prop_oneof![prop::collection::vec(any::<u8>(), 0..256), nearly_an_agent()],
        strict in any::<bool>(),
    ) {
        let service = service(|config| config.strict = strict);
        let response = create(&service, body.into());
        prop_assert!(STATUSES.contains(&response.status));
        response.check_invariants("any body", false);
        prop_assert_eq!(service.agents().len(), usize::from(response.status == 201));
    }

    #[test]
    fn any_path_gets_a_well_formed_response(path in "/[ -~]{0,40}", method in "[A-Z]{1,8}") {
        let Ok(request) = Request::builder().method(method.as_str()).uri(path).header("host", "h").body(Bytes::new())
        else { return Ok(()) };
        let response = Received::from(service(|_| ()).handle(request));
        prop_assert!([204, 401, 404, 405].contains(&response.status), "{}", response.status);
        response.check_invariants("any path", method == "HEAD");
    }
}
