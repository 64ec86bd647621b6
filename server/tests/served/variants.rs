//! Variants: their selection and their exact output. `bindings/tests/test_variants.py` tests them with all deals and agents of
//! the vectors.

use std::io::{Read as _, Write as _};

use crate::support::{
    AGENT, KEY, Received, build_request, connect, get_deal, handle, read_response, send,
};
use dealkit_server::{Sandbox, Variant};

#[test]
fn an_unknown_variant_is_rejected_with_the_known_ones() {
    let sandbox = Sandbox::builder().start().unwrap();
    let request = get_deal("d_1").replace("host: h", "host: h\r\nx-sandbox-variant: sparsely");
    let response = send(&sandbox, &request);
    response.check_invariants("variant", false);
    let detail = response.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("The header x-sandbox-variant: expected one of reference, ok, "),
        "{detail}"
    );
    let plain = Sandbox::builder().admin(false).start().unwrap();
    assert_eq!(send(&plain, &request).status, 200);
}

/// Chunked bodies have no length, and odd boundaries.
#[test]
fn chunks_have_odd_boundaries() {
    let sandbox = Sandbox::builder()
        .variant(Variant::Chunked)
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
    // A HEAD response has no length either, and the connection stays open.
    let mut stream = connect(&sandbox);
    stream
        .write_all(get_deal("d").replace("GET", "HEAD").as_bytes())
        .unwrap();
    assert_eq!(
        read_response(&mut stream, true).header("content-length"),
        None
    );
}

// ---- exact output ---------------------------------------------------------------------------

/// Returns the response to a request for the deal `d`, or to the creation of an agent.
fn response(variant: Variant, deal: &str, agent: Option<&str>) -> Received {
    let service = Sandbox::builder().deals([deal]).service().unwrap();
    let request = match agent {
        Some(_) => build_request("POST", "/v1/agents", KEY),
        None => build_request("GET", "/v1/deals/d", KEY),
    };
    let request = request.header("x-sandbox-variant", variant.name());
    handle(&service, request, agent.unwrap_or_default().to_owned())
}

fn body_with_variant(variant: Variant, deal: &str) -> String {
    let response = response(variant, deal, None);
    String::from_utf8(response.body.to_vec()).unwrap()
}

#[test]
fn each_variant_changes_the_response() {
    let deal = r#"{"id": "d", "status": "CLOSED", "created_at": "2024-02-09T23:59:59.5Z",
        "listing_contract": {"side_split": 4500, "sale_price": 0, "commission_rate": 7, "agent": null, "own": 1.0},
        "application": {"requested_amount": 10.10, "offers": [
            {"percent_of_commission": 0.05, "expiry_date_time": "9999-12-31T23:59:59Z"},
            {"percent_of_commission": -12.5, "created_at": "2024-02-09T00:00:00"}
        ]}, "quotes": [], "metadata": {"a": "b"}}"#;
    assert_eq!(body_with_variant(Variant::Sparse, deal), r#"{"id":"d"}"#);
    assert_eq!(body_with_variant(Variant::ErrorsHtml, deal), deal);
    for (variant, expected) in [
        (
            Variant::Nulls,
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
            Variant::Numbers,
            &[
                r#""side_split":4500.0,"sale_price":0e0,"commission_rate":9007199254740993,"#,
                r#""requested_amount":1010e-2,"#,
                r#""percent_of_commission":0.0500000000000000000000000000,"#,
                r#""percent_of_commission":-1.25E1,"#,
            ],
        ),
        (
            Variant::Times,
            &[
                r#""created_at":"2024-02-10T05:29:59.5+05:30","#,
                r#""expiry_date_time":"9999-12-31T15:59:59.0-08:00""#,
                r#""created_at":"2024-02-09T00:00:00.00""#,
            ],
        ),
        (
            Variant::IsoTimes,
            &[
                r#""created_at":"2024-02-09T23:59:59,5+0000""#,
                r#""expiry_date_time":"99991231T235959Z""#,
                r#""created_at":"2024-02-09T00:00Z""#,
            ],
        ),
        (Variant::Extra, &[r#""status":"SOMETHING_NEW""#]),
    ] {
        let body = body_with_variant(variant, deal);
        for expected in expected {
            assert!(body.contains(expected), "{expected} in {body}");
        }
    }
    // The deal, its contract, its application and two offers.
    let extra = body_with_variant(Variant::Extra, deal);
    assert_eq!(extra.matches(r#""x_number":10.10"#).count(), 5);
    let agent = AGENT.replace("{}", r#"{"clientMetadata":{"a":1.10}}"#);
    assert_eq!(
        response(Variant::Sparse, deal, Some(&agent)).body,
        r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#
    );
}

#[test]
fn several_variants_apply_one_after_another() {
    let sandbox = Sandbox::builder()
        .variant(Variant::Sparse)
        .variant(Variant::Extra)
        .variant(Variant::Forbidden)
        .variant(Variant::ErrorsForeign);
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
    // A request's header replaces the server's variants.
    let asked = get_deal("d_2").replace("host: h", "host: h\r\nx-sandbox-variant: nulls, extra");
    let body = get(asked).body;
    assert!(body.starts_with(br#"{"id":"d_2","status":null,"#));
}

#[test]
fn errors_have_other_bodies() {
    for (variant, media_type, body) in [
        (
            Variant::ErrorsText,
            Some("text/plain; charset=utf-8"),
            "Not Found\n",
        ),
        (Variant::ErrorsEmpty, None, ""),
        (
            Variant::ErrorsForeign,
            Some("application/json"),
            r#"{"error":{"code":"not_found","message":"Not Found"}}"#,
        ),
        (
            Variant::ErrorsHtml,
            Some("text/html; charset=utf-8"),
            "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head>\n\
             <body><center><h1>404 Not Found</h1></center><hr></body></html>\n",
        ),
    ] {
        let response = response(variant, r#"{"id":"other"}"#, None);
        assert_eq!(response.header("content-type"), media_type);
        assert_eq!(response.body, body);
    }
    let extra = response(Variant::Extra, r#"{"id":"other"}"#, Some("{}"));
    let extra = dealkit::Problem::from_json(&extra.body).unwrap();
    assert!(extra.errors.len() == 4 && extra.extra.contains_key("x_object"));
}
