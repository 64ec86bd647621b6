//! The contract's vectors through `Service::handle`, and properties for arbitrary bodies.

use crate::support::{
    AGENT, KEY, Received, agent_cases, build_request, check_agent, handle, service, vectors::bytes,
};
use bytes::Bytes;
use dealkit::{Client, Json};
use http::{Request, Version};

#[test]
fn agent_vectors() {
    let services = [
        service(|builder| builder),
        service(|builder| builder.strict(true)),
    ];
    for case in agent_cases() {
        let is_strict = case["strict"] == true;
        let service = &services[usize::from(is_strict)];
        let request = build_request("POST", "/v1/agents", KEY);
        check_agent(&case, &handle(service, request, bytes(&case)));
    }
}

#[test]
fn no_response_and_no_debug_output_shows_a_key_or_a_value() {
    let secret = "hunter2-hunter2";
    let builder = dealkit_server::Sandbox::builder()
        .service_key(secret)
        .admin_token(secret);
    let service = builder.service().unwrap();
    assert!(!format!("{service:?} {builder:?}").contains("hunter2"));
    for key in [secret, "wrong-hunter2", ""] {
        let body = r#"{"email": "hunter2", "first_name": 2, "phone": "hunter2", "role": "hunter2", "hunter2": 1}"#;
        let response = handle(&service, build_request("POST", "/v1/agents", key), body);
        assert!(response.status == if key == secret { 422 } else { 401 });
        assert!(!format!("{response:?}").contains("hunter2"), "{response:?}");
    }
}

#[test]
fn http_2_needs_an_authority_and_no_host() {
    let service = service(|builder| builder);
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
fn a_missing_host_header_is_taken_from_the_uri() {
    let service = service(|builder| builder);
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
    // A Host header in the request must match the URI.
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
