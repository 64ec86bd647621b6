//! The requests that calls send, byte for byte where that matters, and the results of successful responses.

use dealkit::{
    AgentProfile, ClientBuilder, CreateAgent, Deal, Error, ErrorKind, HeaderMap, Json, Method,
    Outcome, Role,
};
use serde_json::{Value, json};

use crate::{
    peer::{AGENT, DEAL, KEY, Peer, Request, ada, builder, client},
    vectors::{name, vectors},
};

/// Retrieves a deal from a service that responds with this status and body.
async fn retrieve_from(status: u16, body: impl AsRef<[u8]>) -> Result<Deal, Error> {
    let service = Peer::answering(status, &[("content-type", "application/json")], body);
    service.client().deals().retrieve("d_1").await
}

/// Returns the only request. Its headers must be the usual ones and `more`.
fn take_request(service: &Peer, more: &[(&str, &str)]) -> Request {
    let request = service.only_request();
    let host = service.url.as_str().replace("http://", "");
    let mut expected = vec![
        ("accept", "application/json"),
        ("host", &host),
        ("user-agent", concat!("dealkit/", env!("CARGO_PKG_VERSION"))),
        ("x-service-key", KEY),
    ];
    expected.extend(more);
    expected.sort();
    assert_eq!(request.headers(), expected);
    request
}

#[tokio::test]
async fn create_sends_exactly_this_request() {
    let service = Peer::answering(201, &[], AGENT);
    service.client().agents().create(ada()).await.unwrap();
    let body =
        r#"{"email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{}}"#;
    let length = body.len().to_string();
    let json = ("content-type", "application/json");
    let request = take_request(&service, &[("content-length", &length), json]);
    assert_eq!(request.method(), "POST");
    assert_eq!(request.target(), "/v1/agents");
    assert_eq!(request.body, body.as_bytes());
}

#[tokio::test]
async fn retrieve_sends_exactly_this_request() {
    let service = Peer::answering(200, &[], DEAL);
    service.client().deals().retrieve("d_1").await.unwrap();
    // Without a body, there is neither content-type nor content-length.
    let request = take_request(&service, &[]);
    assert_eq!(request.method(), "GET");
    assert_eq!(request.target(), "/v1/deals/d_1");
    assert!(request.body.is_empty());
}

/// Reads the request from a socket, because an HTTP library would normalize its path.
#[tokio::test]
async fn every_identifier_of_the_vectors_is_one_segment_or_is_rejected() {
    let mut peer = Peer::manual();
    let client = peer.client();
    for case in vectors::<Value>("identifiers.json", 50) {
        let (id, expect) = (case["id"].as_str().unwrap(), &case["expect"]);
        for is_documented in [true, false] {
            let call = async {
                if is_documented {
                    client.deals().retrieve(id).await.map(drop)
                } else {
                    client.request(Method::GET, ["deals", id]).await.map(drop)
                }
            };
            if let Some(segment) = expect.get("segment") {
                let serve = async {
                    let heard = peer.next().await;
                    let head = heard.head.clone();
                    heard.answer(200, DEAL);
                    head
                };
                let (outcome, head) = tokio::join!(call, serve);
                outcome.unwrap();
                let line = format!("GET /v1/deals/{} HTTP/1.1\r\n", segment.as_str().unwrap());
                assert!(head.starts_with(&line), "{}: {head}", name(&case));
                assert_eq!(head.matches(KEY).count(), 1, "{head}");
            } else {
                let error = call.await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Validation, "{}", name(&case));
                assert_eq!(error.violations()[0].code.as_str(), expect["code"]);
                assert_eq!(error.outcome(), Outcome::NotSent);
                assert_eq!((error.attempts(), error.status()), (0, None));
                assert!(peer.try_next().is_none(), "{}", name(&case));
            }
        }
    }
}

#[tokio::test]
async fn identifiers_that_are_too_long_for_a_url_are_rejected() {
    let service = Peer::answering(200, &[], DEAL);
    let client = service.client();
    let rest = format!("{}/v1/deals/", service.url.as_str()).len();
    let longest = 65_534 - rest;
    assert!(client.deals().retrieve("x".repeat(longest)).await.is_ok());
    // Each character is escaped as three characters.
    for id in ["x".repeat(longest + 1), "/".repeat(longest / 3 + 1)] {
        for error in [
            client.deals().retrieve(&id).await.unwrap_err(),
            client
                .request(Method::GET, ["deals", &id])
                .await
                .unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Validation);
            assert_eq!(error.violations()[0].code.as_str(), "invalid_id");
            assert_eq!(error.outcome(), Outcome::NotSent);
            let text = error.to_string();
            assert!(text.contains("the identifier: must be shorter: "), "{text}");
            assert!(text.contains("at most 65534 can be sent"), "{text}");
        }
    }
    assert_eq!(service.arrived().len(), 1);
}

#[tokio::test]
async fn every_setter_of_a_request_has_its_wire_name() {
    let profile = AgentProfile::new()
        .tier("1")
        .id("2")
        .user_id("3")
        .partner_uuid("4")
        .partner_office_id("5")
        .partner_mls_agent_id("6")
        .partner_mls_id("7")
        .partner_status("8")
        .mls_id("9")
        .onboarding_complete(true)
        .processor_connected_account_id("11")
        .processor_onboarding_complete(false)
        .client_metadata(json!({"k": [1]}))
        .external_id("14")
        .with("badge", json!({"gold": null}));
    let request = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace \"ä\" \u{1f600}")
        .profile(profile)
        .role(Role::OfficeAdmin)
        .phone("+15550100")
        .image_url("https://example.com/ada.png")
        .date_of_birth("1990-02-28")
        .brokerage_id("b_1")
        .office_id("o_1")
        .collective_id("c_1")
        .build()
        .unwrap()
        .with("referral", json!(["r_1", null]))
        .unwrap();
    let service = Peer::answering(201, &[], AGENT);
    service.client().agents().create(request).await.unwrap();
    let body: Value = serde_json::from_slice(&service.only_request().body).unwrap();
    assert_eq!(
        body,
        json!({
            "email": "ada@example.com",
            "first_name": "Ada",
            "last_name": "Lovelace \"ä\" \u{1f600}",
            "profile": {
                "tier": "1",
                "id": "2",
                "userId": "3",
                "partnerUUID": "4",
                "partnerOfficeId": "5",
                "partnerMlsAgentId": "6",
                "partnerMlsId": "7",
                "partnerStatus": "8",
                "mlsId": "9",
                "onboardingComplete": true,
                "processorConnectedAccountId": "11",
                "processorOnboardingComplete": false,
                "clientMetadata": {"k": [1]},
                "externalId": "14",
                "badge": {"gold": null},
            },
            "role": "OFFICE_ADMIN",
            "phone": "+15550100",
            "image_url": "https://example.com/ada.png",
            "date_of_birth": "1990-02-28",
            "brokerage_id": "b_1",
            "office_id": "o_1",
            "collective_id": "c_1",
            "referral": ["r_1", null],
        })
    );
}

#[tokio::test]
async fn headers_of_the_client_and_of_the_call_are_sent() {
    let service = Peer::answering(200, &[], DEAL);
    let client = service
        .builder()
        .header("X-Team", "blue")
        .header("x-both", "client")
        .user_agent("mine/1.0")
        .build()
        .unwrap();
    client
        .deals()
        .retrieve("d_1")
        .header("x-both", "call")
        .header("X-Request-ID", "r-17")
        .header("accept", "application/vnd.example+json")
        .await
        .unwrap();
    client.deals().retrieve("d_2").await.unwrap();
    let arrived = service.arrived();
    assert_eq!(arrived[0].header("x-team"), Some("blue"));
    assert_eq!(arrived[0].header("x-both"), Some("call"));
    assert_eq!(arrived[0].header("x-request-id"), Some("r-17"));
    assert_eq!(
        arrived[0].header("accept"),
        Some("application/vnd.example+json")
    );
    assert_eq!(arrived[0].header("user-agent"), Some("mine/1.0"));
    // A header of one call is not sent with the next call.
    assert_eq!(arrived[1].header("x-both"), Some("client"));
    assert!(arrived[1].header("x-request-id").is_none());
    assert_eq!(arrived[1].header("accept"), Some("application/json"));
    assert_eq!(arrived[1].header("x-service-key"), Some(KEY));
}

#[tokio::test]
async fn base_urls_with_a_path_keep_it() {
    let service = Peer::answering(200, &[], DEAL);
    let url = service.url.clone();
    for (base, path) in [
        (url.clone(), "/v1/deals/d_1"),
        (format!("{url}/"), "/v1/deals/d_1"),
        (format!("{url}/api"), "/api/v1/deals/d_1"),
        (format!("{url}/api/"), "/api/v1/deals/d_1"),
        (format!("{url}/a%2Fb/c"), "/a%2Fb/c/v1/deals/d_1"),
    ] {
        client(base.as_str()).deals().retrieve("d_1").await.unwrap();
        assert_eq!(service.arrived().last().unwrap().target(), path, "{base}");
    }
}

#[tokio::test]
async fn undocumented_operations_are_sent_like_documented_ones() {
    let service = Peer::answering(202, &[("x-request-id", "r-9")], r#"{"id":"a/1","n":10.10}"#);
    let response = service
        .client()
        .request(Method::PATCH, ["agents", "a/1", "roles"])
        .query("q", "ä b&c=d")
        .query("q", "2")
        .json(&json!({"first_name": "Ada"}))
        .header("x-team", "blue")
        .await
        .unwrap();
    assert_eq!(response.status(), 202);
    assert_eq!(response.request_id(), Some("r-9"));
    let json: Json = response.json().unwrap();
    assert_eq!(json.as_str(), r#"{"id":"a/1","n":10.10}"#);
    let request = service.only_request();
    assert_eq!(request.method(), "PATCH");
    let (path, _) = request.target().split_once('?').unwrap();
    assert_eq!(path, "/v1/agents/a%2F1/roles");
    let url = url::Url::parse(&format!("http://h{}", request.target())).unwrap();
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    assert_eq!(
        pairs,
        [("q".into(), "ä b&c=d".into()), ("q".into(), "2".into())]
    );
    assert_eq!(request.body, br#"{"first_name":"Ada"}"#);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("x-service-key"), Some(KEY));
    assert_eq!(request.header("x-team"), Some("blue"));
}

#[tokio::test]
async fn undocumented_operations_need_no_body_and_return_any_body() {
    let service = Peer::answering(204, &[], "");
    let response = service
        .client()
        .request(Method::DELETE, ["agents", "a_1"])
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 204);
    assert!(response.body().is_empty());
    let error = response.json::<Value>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    let request = service.only_request();
    assert_eq!(request.method(), "DELETE");
    assert_eq!(request.target(), "/v1/agents/a_1");
    assert!(request.header("content-type").is_none());
}

#[tokio::test]
async fn a_body_that_cannot_be_written_is_not_sent() {
    let service = Peer::answering(200, &[], DEAL);
    let keys_that_are_no_strings = std::collections::BTreeMap::from([(vec![1], 1)]);
    let call = service
        .client()
        .request(Method::POST, ["x"])
        .json(&keys_that_are_no_strings);
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Config);
    assert!(service.arrived().is_empty());
}

/// A whole path in one segment would be escaped, and name a resource that does not exist.
#[test]
fn the_segments_of_a_path_are_passed_separately() {
    let client = client("http://127.0.0.1:9");
    let outcome = |segments: &[&str]| client.request(Method::GET, segments).into_request();
    for segments in [
        &["/v1/deals/d_1"][..],
        &["deals/d_1"],
        &["v1", "deals", "d_1"],
        &["/deals", "d_1"],
        &["http://127.0.0.1:9/v1/deals", ".."],
    ] {
        let error = outcome(segments).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(
            text.contains("pass the segments separately and without /v1"),
            "{text}"
        );
    }
    // The segments after the first may be identifiers, which can contain any character.
    let request = outcome(&["deals", "/v1/deals", "v1"]).unwrap();
    assert_eq!(request.uri().path(), "/v1/deals/%2Fv1%2Fdeals/v1");
    let request = client.request(Method::GET, []).into_request().unwrap();
    assert_eq!(request.uri().path(), "/v1");
}

#[tokio::test]
async fn the_error_of_a_wrong_body_has_the_body_and_the_location() {
    // Longer than the 64 KiB of an error response's body that an error keeps.
    let body = format!(
        r#"{{"id":"CANARY","application":{{"offers":[{{"id":"o"}},{{"expiry_date_time":"soon CANARY"}}]}},"more":"{}"}}"#,
        "x".repeat(100_000)
    );
    let error = retrieve_from(200, &body).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert_eq!(error.outcome(), Outcome::Succeeded);
    assert_eq!(error.status().unwrap(), 200);
    assert_eq!(error.body(), Some(body.as_bytes()));
    assert_eq!(error.headers().unwrap()["content-type"], "application/json");
    let decode = error.decode_error().unwrap();
    assert_eq!(decode.path(), "application.offers[1].expiry_date_time");
    assert_eq!(decode.found(), "a string");
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("application.offers[1].expiry_date_time"),
        "{text}"
    );
    assert!(!text.contains("CANARY") && !text.contains("soon"), "{text}");
    assert!(!error.is_not_found() && !error.is_server_error() && !error.is_connection());
}

#[tokio::test]
async fn with_response_returns_the_whole_response() {
    let body = r#"{ "id" : "d_1", "sides": [{"side_percentage": 10.10}] }"#;
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "r-1"),
        ("etag", "\"7\""),
    ];
    let service = Peer::answering(203, &headers, body);
    let response = service
        .client()
        .deals()
        .retrieve("d_1")
        .with_response()
        .await
        .unwrap();
    assert_eq!(response.status(), 203);
    assert_eq!(response.headers()["etag"], "\"7\"");
    assert_eq!(response.request_id(), Some("r-1"));
    assert_eq!(response.attempts(), 1);
    assert_eq!(&response.body()[..], body.as_bytes());
    assert_eq!(
        response.value().sides[0]
            .side_percentage
            .unwrap()
            .to_string(),
        "10.10"
    );
    let shown = format!("{response:?}");
    assert!(shown.contains("203") && !shown.contains("10.10"), "{shown}");
    assert_eq!(response.into_value().id, "d_1");
}

#[tokio::test]
async fn bodies_are_read_in_every_framing_of_http() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    for bytes in [
        format!("{hints}{hints}HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole"),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwh\r\n3;x=y\r\nole\r\n0\r\n\r\n"
            .to_owned(),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole".to_owned(),
        "HTTP/1.0 200 OK\r\n\r\nwhole".to_owned(),
    ] {
        let mut peer = Peer::manual();
        let call = peer.client().request(Method::GET, ["x"]);
        let serve = async { peer.next().await.answer_and_close(&bytes) };
        let (response, ()) = tokio::join!(call.send(), serve);
        assert_eq!(&response.unwrap().body()[..], b"whole", "{bytes}");
    }
}

/// Returns the headers of a trace context, as a propagator writes them.
fn trace_context() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", "00-1-2-01".parse().unwrap());
    headers.insert("tracestate", "vendor=1".parse().unwrap());
    headers
}

#[test]
fn all_headers_of_a_trace_are_sent_or_none() {
    let client = |builder: ClientBuilder| {
        let writes = |headers: &mut HeaderMap| {
            headers.extend(trace_context());
            // A header that the client sets is not replaced.
            headers.insert("host", "other".parse().unwrap());
        };
        builder.propagate(writes).build().unwrap()
    };
    let traced = client(builder("http://127.0.0.1:9"));
    let of_client = client(builder("http://127.0.0.1:9").header("Traceparent", "own"));
    let retrieve = || traced.deals().retrieve("d_1");
    let own = |name| retrieve().header(name, "own");
    for (call, parent, state) in [
        (retrieve(), Some("00-1-2-01"), Some("vendor=1")),
        (own("traceparent"), Some("own"), None),
        (own("tracestate"), None, Some("own")),
        (of_client.deals().retrieve("d_1"), Some("own"), None),
        // The caller manages the span of the call.
        (retrieve().propagate(HeaderMap::new()), None, None),
    ] {
        let request = call.into_request().unwrap();
        let header = |name| {
            let value = request.headers().get(name);
            value.map(|value| value.to_str().unwrap())
        };
        assert_eq!(header("traceparent"), parent);
        assert_eq!(header("tracestate"), state);
        assert_eq!(header("host"), None);
    }
}
