//! The contract's vectors through the SDK against every other reading of the specification.
//!
//! Nothing breaks, and what is read equals the reference wherever the reading carries the same information.

use std::io::{Read as _, Write as _};

use crate::support::{
    self, AGENT, KEY, Received, agent_cases, connect, get_deal, read_response, send,
    vectors::vectors,
};
use bytes::Bytes;
use dealkit::{Agent, Client, CreateAgent, Deal, Decimal, Error, ErrorKind, Json, UnknownFields};
use dealkit_server::{Reading, Sandbox};
use http::{Request, header};
use serde_json::Value;

fn client(sandbox: &Sandbox) -> Client {
    Client::builder()
        .base_url(sandbox.url())
        .service_key(sandbox.service_key())
        .build()
        .unwrap()
}

fn start(reading: Reading) -> Sandbox {
    let builder = Sandbox::builder().reading(reading);
    builder.deals(Vec::<String>::new()).start().unwrap()
}

/// 2^53 + 1, with which the reading `numbers` replaces every third integer.
const PAST_FLOATS: &str = "9007199254740993";

/// The replacement for a string of an open set in the reading `extra`.
const NEW: &str = "SOMETHING_NEW";

/// A model as JSON with exact numbers.
fn tree(model: &impl serde::Serialize) -> Value {
    support::tree(&serde_json::to_string(model).unwrap())
}

/// The exact text of a number in a [`tree`].
fn number(value: &Value) -> Option<&str> {
    value.get("\0")?.as_str()
}

/// Whether two numbers are equal, as the fields of a deal hold them.
fn same_number(left: &str, right: &str) -> bool {
    let decimal = |text: &str| text.parse::<Decimal>().ok();
    left == right || decimal(left).is_some_and(|left| Some(left) == decimal(right))
}

/// Whether `read` is what a reading turns `reference` into.
fn compare(reading: Reading, read: &Value, reference: &Value, place: &str) {
    if let (Some(read), Some(reference), Reading::Numbers) =
        (number(read), number(reference), reading)
    {
        let is_same = same_number(read, reference) || read == PAST_FLOATS;
        assert!(is_same, "{place}: {read} for {reference}");
        return;
    }
    match (read, reference) {
        (Value::Object(read), Value::Object(reference)) => {
            for (name, value) in reference {
                let place = format!("{place}/{name}");
                match (read.get(name), reading) {
                    (Some(read), _) => compare(reading, read, value, &place),
                    // Left out, or null, which is read the same way; only optional fields may be.
                    (None, Reading::Sparse | Reading::Nulls) => {
                        assert!(
                            !place.ends_with("/id") || place.matches('/').count() > 1,
                            "{place}"
                        );
                    }
                    (None, _) => panic!("{reading}: {place} is missing"),
                }
            }
            let new = read.keys().filter(|name| !reference.contains_key(*name));
            for name in new {
                assert!(
                    reading == Reading::Extra && name.starts_with("x_"),
                    "{reading}: {place}/{name} is new"
                );
            }
        }
        // A missing list is read as an empty one.
        (Value::Array(read), Value::Array(_))
            if read.is_empty() && matches!(reading, Reading::Sparse | Reading::Nulls) => {}
        (Value::Array(read), Value::Array(reference)) => {
            assert_eq!(read.len(), reference.len(), "{reading}: {place}");
            for (index, (read, reference)) in read.iter().zip(reference).enumerate() {
                compare(reading, read, reference, &format!("{place}/{index}"));
            }
        }
        (Value::String(read), Value::String(_)) if reading == Reading::Extra && read == NEW => {}
        (Value::Null, _) if matches!(reading, Reading::Sparse | Reading::Nulls) => {}
        _ => assert_eq!(read, reference, "{reading}: {place}"),
    }
}

/// Whether a reading changes nothing in what a success says.
fn carries_all(reading: Reading) -> bool {
    !matches!(
        reading,
        Reading::Sparse | Reading::Nulls | Reading::Extra | Reading::Numbers
    )
}

#[tokio::test]
async fn every_deal_of_the_vectors_is_read_in_every_reading() {
    let cases = vectors::<Value>("deals.json", 200);
    for &reading in Reading::ALL {
        let sandbox = start(reading);
        let client = client(&sandbox);
        let mut read = 0;
        for case in &cases {
            let text = match (case.get("text"), case.get("json")) {
                (Some(text), _) => text.as_str().unwrap().to_owned(),
                (None, Some(json)) => json.to_string(),
                _ => continue,
            };
            if case["expect"].get("error").is_some() || sandbox.insert_deal(text.as_str()).is_err()
            {
                continue;
            }
            let reference = Deal::from_json(&text).unwrap();
            match client.deals().retrieve(&reference.id).await {
                Ok(deal) if carries_all(reading) => {
                    assert_eq!(deal, reference, "{reading}: {}", case["name"])
                }
                Ok(deal) => {
                    assert_eq!(deal.id, reference.id);
                    compare(reading, &tree(&deal), &tree(&reference), "");
                }
                // An identifier that cannot be in any path.
                Err(error) => {
                    assert!(
                        !error.violations().is_empty(),
                        "{reading}: {}: {error}",
                        case["name"]
                    );
                    continue;
                }
            }
            read += 1;
        }
        assert!(read >= 80, "{reading}: only {read}");
    }
}

#[tokio::test]
async fn every_agent_of_the_vectors_is_read_in_every_reading() {
    for &reading in Reading::ALL {
        let sandbox = start(reading);
        let client = client(&sandbox);
        let mut created = 0;
        for case in agent_cases() {
            let bytes = case.bytes();
            let body = std::str::from_utf8(&bytes)
                .ok()
                .and_then(|text| Json::parse(text).ok());
            let Some(body) = body.filter(|_| case.expects(201) && !case.strict) else {
                continue;
            };
            let request = CreateAgent::from_json(&body, UnknownFields::Ignore).unwrap();
            let response = client.agents().create(request).with_response().await;
            let response =
                response.unwrap_or_else(|error| panic!("{reading}: {}: {error}", case.name));
            let status = if reading == Reading::Ok { 200 } else { 201 };
            assert_eq!(response.status(), status, "{reading}");
            let agent: Agent = response.into_value();
            // What is stored is what the reference would have returned.
            let reference = sandbox.agents().pop().unwrap().agent;
            if carries_all(reading) || reading == Reading::Numbers {
                assert_eq!(agent, reference, "{reading}: {}", case.name);
            } else {
                assert_eq!((&agent.id, &agent.email), (&reference.id, &reference.email));
                compare(reading, &tree(&agent), &tree(&reference), "");
            }
            created += 1;
        }
        assert!(created >= 80, "{reading}: only {created}");
    }
}

/// The identifiers in the vectors arrive unchanged.
#[tokio::test]
async fn every_identifier_reaches_its_deal() {
    let sandbox = start(Reading::Reference);
    let client = client(&sandbox);
    let mut arrived = 0;
    for case in vectors::<Value>("identifiers.json", 50) {
        let id = case["id"].as_str().unwrap();
        sandbox.insert_deal(serde_json::json!({"id": id})).unwrap();
        let outcome = client.deals().retrieve(id).await;
        if case["expect"].get("segment").is_some() {
            assert_eq!(outcome.unwrap().id, id, "{}", case["name"]);
            arrived += 1;
        } else {
            let error = outcome.unwrap_err();
            assert_eq!(
                error.violations()[0].code.as_str(),
                "invalid_id",
                "{}",
                case["name"]
            );
            assert_eq!(error.attempts(), 0);
        }
    }
    assert!(arrived >= 25, "only {arrived}");
}

/// What the SDK says about a refused request, in every reading of what errors look like.
#[tokio::test]
async fn every_refusal_is_understood_in_every_reading() {
    for &reading in Reading::ALL {
        let sandbox = start(reading);
        let error = client(&sandbox).deals().retrieve("none").await.unwrap_err();
        assert!(error.is_not_found(), "{reading}: {error}");
        let body = Json::parse("{}").unwrap();
        let call = client(&sandbox)
            .request(dealkit::Method::POST, ["agents"])
            .json(&body);
        let invalid = call.send().await.unwrap_err();
        assert_eq!(
            (invalid.kind(), invalid.status().unwrap().as_u16()),
            (
                ErrorKind::Status,
                if reading == Reading::BadRequest {
                    400
                } else {
                    422
                }
            ),
            "{reading}"
        );
        assert_eq!(invalid.outcome(), dealkit::Outcome::Rejected, "{reading}");
        assert!(invalid.request_id().is_some(), "{reading}");
        let shown = |error: &Error| error.to_string();
        let has_problem = !matches!(
            reading,
            Reading::ErrorsText
                | Reading::ErrorsHtml
                | Reading::ErrorsEmpty
                | Reading::ErrorsForeign
        );
        assert_eq!(
            invalid.violations().len(),
            if has_problem { 4 } else { 0 },
            "{reading}: {}",
            shown(&invalid)
        );
        assert_eq!(
            error
                .problem()
                .is_some_and(|problem| problem.title.is_some()),
            has_problem,
            "{reading}"
        );
        let text = shown(&error);
        assert!(
            text.starts_with("GET /v1/deals/{id}: 404 Not Found"),
            "{reading}: {text}"
        );
        assert!(
            !text.contains('<') && !text.contains('\n'),
            "{reading}: {text}"
        );
    }
}

/// Generated deals, including over HTTP/2 and through the header of a single request.
#[tokio::test]
async fn a_reading_can_be_asked_for() {
    let sandbox = Sandbox::builder().generate(20, 5).start().unwrap();
    let http2 = Client::builder().http2_prior_knowledge(true);
    let http2 = http2
        .base_url(sandbox.url())
        .service_key(sandbox.service_key())
        .build()
        .unwrap();
    for client in [client(&sandbox), http2] {
        for &reading in Reading::ALL {
            for index in 0..20 {
                let id = format!("g_{index}");
                let reference = client.deals().retrieve(&id).await.unwrap();
                let call = client
                    .deals()
                    .retrieve(&id)
                    .header("x-sandbox-reading", reading.name());
                let deal = call.await.unwrap();
                compare(reading, &tree(&deal), &tree(&reference), "");
                assert_eq!(deal == reference, carries_all(reading), "{reading}");
            }
        }
    }
}

#[test]
fn an_unknown_reading_is_refused_with_those_that_are_known() {
    let sandbox = Sandbox::builder().start().unwrap();
    let request = get_deal("d_1").replace("host: h", "host: h\r\nx-sandbox-reading: sparsely");
    let response = send(sandbox.address(), request.as_bytes());
    response.check_invariants("reading", false);
    let detail = response.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("The header x-sandbox-reading: expected one of reference, ok, "),
        "{detail}"
    );
    let plain = Sandbox::builder().admin(false).start().unwrap();
    assert_eq!(send(plain.address(), request.as_bytes()).status, 200);
}

/// Chunks on the wire: no length, and odd boundaries.
#[test]
fn chunks_have_odd_borders() {
    let sandbox = Sandbox::builder()
        .reading(Reading::Chunked)
        .deals([r#"{"id":"d","external_id":"ä€😀"}"#])
        .start()
        .unwrap();
    let mut stream = connect(sandbox.address());
    let request = get_deal("d").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let text = String::from_utf8_lossy(&response).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("transfer-encoding: chunked") && !head.contains("content-length"),
        "{head}"
    );
    assert!(
        body.starts_with("1\r\n{\r\n2\r\n\"i\r\n3\r\nd\":\r\n4\r\n"),
        "{body}"
    );
    assert!(response.ends_with(b"\r\n0\r\n\r\n"));
    // A HEAD response has no length then, either, and the connection stays open.
    let mut stream = connect(sandbox.address());
    stream
        .write_all(get_deal("d").replace("GET", "HEAD").as_bytes())
        .unwrap();
    assert_eq!(
        read_response(&mut stream, true).header("content-length"),
        None
    );
}

// ---- what each writes, to the letter ---------------------------------------------------------------------------

/// The response to a request for the deal `d`, or to one that creates an agent.
fn response(reading: Reading, deal: &str, agent: Option<&str>) -> Received {
    let service = Sandbox::builder().deals([deal]).service().unwrap();
    let request = match agent {
        Some(_) => Request::post("/v1/agents"),
        None => Request::get("/v1/deals/d"),
    };
    let request = request
        .header("host", "h")
        .header("x-service-key", KEY)
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-sandbox-reading", reading.name());
    let body = Bytes::copy_from_slice(agent.unwrap_or_default().as_bytes());
    service.handle(request.body(body).unwrap()).into()
}

fn written(reading: Reading, deal: &str) -> String {
    let response = response(reading, deal, None);
    String::from_utf8(response.body.to_vec()).unwrap()
}

#[test]
fn a_reading_writes_what_its_name_says() {
    let deal = r#"{"id": "d", "status": "CLOSED", "created_at": "2024-02-09T23:59:59.5Z",
        "listing_contract": {"side_split": 4500, "sale_price": 0, "commission_rate": 7, "agent": null, "own": 1.0},
        "application": {"requested_amount": 10.10, "offers": [
            {"percent_of_commission": 0.05, "expiry_date_time": "9999-12-31T23:59:59Z"},
            {"percent_of_commission": -12.5, "created_at": "2024-02-09T00:00:00"}
        ]}, "quotes": [], "metadata": {"a": "b"}}"#;
    assert_eq!(written(Reading::Sparse, deal), r#"{"id":"d"}"#);
    assert_eq!(written(Reading::ErrorsHtml, deal), deal);
    for (reading, expected) in [
        (
            Reading::Nulls,
            &[
                concat!(
                    r#"{"id":"d","status":null,"created_at":null,"listing_contract":{"side_split":null,"#,
                    r#""sale_price":null,"commission_rate":null,"agent":null,"own":1.0,"id":null,"side":null,"#
                ),
                concat!(
                    r#""quotes":[],"metadata":null,"phase":null,"expiry_date":null,"contacts":null,"sides":null,"#,
                    r#""external_id":null}"#
                ),
            ][..],
        ),
        (
            Reading::Numbers,
            &[
                r#""side_split":4500.0,"sale_price":0e0,"commission_rate":9007199254740993,"#,
                r#""requested_amount":1010e-2,"#,
                r#""percent_of_commission":0.0500000000000000000000000000,"#,
                r#""percent_of_commission":-1.25E1,"#,
            ],
        ),
        (
            Reading::Times,
            &[
                r#""created_at":"2024-02-10T05:29:59.5+05:30","#,
                r#""expiry_date_time":"9999-12-31T15:59:59.0-08:00""#,
                r#""created_at":"2024-02-09T00:00:00.00""#,
            ],
        ),
        (Reading::Extra, &[r#""status":"SOMETHING_NEW""#]),
    ] {
        let written = written(reading, deal);
        for expected in expected {
            assert!(written.contains(expected), "{expected} in {written}");
        }
    }
    // The deal, its contract, its application and two offers.
    let extra = written(Reading::Extra, deal);
    assert_eq!(extra.matches(r#""x_number":10.10"#).count(), 5);
    let agent = AGENT.replace("{}", r#"{"clientMetadata":{"a":1.10}}"#);
    assert_eq!(
        response(Reading::Sparse, deal, Some(&agent)).body,
        r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#
    );
}

#[test]
fn several_readings_are_played_one_after_the_other() {
    let sandbox = Sandbox::builder()
        .reading(Reading::Sparse)
        .reading(Reading::Extra)
        .reading(Reading::Forbidden)
        .reading(Reading::ErrorsForeign);
    let sandbox = sandbox.start().unwrap();
    let get = |request: String| send(sandbox.address(), request.as_bytes());
    let deal = get(get_deal("d_1"));
    assert!(deal.body.starts_with(br#"{"id":"d_1","x_text":"new","#));
    let refused = get(get_deal("d_1").replace(KEY, "another"));
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (403, None)
    );
    assert_eq!(refused.json()["error"]["code"], "forbidden");
    // A request's header replaces them all.
    let asked = get_deal("d_2").replace("host: h", "host: h\r\nx-sandbox-reading: nulls, extra");
    let body = get(asked).body;
    assert!(body.starts_with(br#"{"id":"d_2","status":null,"#));
}

#[test]
fn errors_have_other_bodies() {
    for (reading, media_type, body) in [
        (
            Reading::ErrorsText,
            Some("text/plain; charset=utf-8"),
            "Not Found\n",
        ),
        (Reading::ErrorsEmpty, None, ""),
        (
            Reading::ErrorsForeign,
            Some("application/json"),
            r#"{"error":{"code":"not_found","message":"Not Found"}}"#,
        ),
        (
            Reading::ErrorsHtml,
            Some("text/html; charset=utf-8"),
            "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>\n\
             <body><center><h1>404 Not Found</h1></center><hr></body></html>\n",
        ),
    ] {
        let response = response(reading, r#"{"id":"other"}"#, None);
        assert_eq!(response.header("content-type"), media_type);
        assert_eq!(response.body, body);
    }
    let extra = response(Reading::Extra, r#"{"id":"other"}"#, Some("{}"));
    let extra = dealkit::Problem::from_json(&extra.body).unwrap();
    assert!(extra.errors.len() == 4 && extra.extra.contains_key("x_object"));
}
