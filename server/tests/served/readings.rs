//! Other readings of the specification: how they are asked for, and what each writes. What each makes of every deal and agent of
//! the vectors is in `bindings/tests/test_readings.py`.

use std::io::{Read as _, Write as _};

use crate::support::{
    AGENT, KEY, Received, asking, connect, get_deal, handled, read_response, send,
};
use dealkit_server::{Reading, Sandbox};

#[test]
fn an_unknown_reading_is_refused_with_those_that_are_known() {
    let sandbox = Sandbox::builder().start().unwrap();
    let request = get_deal("d_1").replace("host: h", "host: h\r\nx-sandbox-reading: sparsely");
    let response = send(&sandbox, &request);
    response.check_invariants("reading", false);
    let detail = response.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("The header x-sandbox-reading: expected one of reference, ok, "),
        "{detail}"
    );
    let plain = Sandbox::builder().admin(false).start().unwrap();
    assert_eq!(send(&plain, &request).status, 200);
}

/// Chunks on the wire: no length, and odd boundaries.
#[test]
fn chunks_have_odd_borders() {
    let sandbox = Sandbox::builder()
        .reading(Reading::Chunked)
        .deals([r#"{"id":"d","external_id":"ä€😀"}"#])
        .start()
        .unwrap();
    let mut stream = connect(&sandbox);
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
    let mut stream = connect(&sandbox);
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
        Some(_) => asking("POST", "/v1/agents", KEY),
        None => asking("GET", "/v1/deals/d", KEY),
    };
    let request = request.header("x-sandbox-reading", reading.name());
    handled(&service, request, agent.unwrap_or_default().to_owned())
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
        (
            Reading::IsoTimes,
            &[
                r#""created_at":"2024-02-09T23:59:59,5+0000""#,
                r#""expiry_date_time":"99991231T235959Z""#,
                r#""created_at":"2024-02-09T00:00Z""#,
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
    let get = |request: String| send(&sandbox, &request);
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
