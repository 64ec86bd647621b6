//! Identifiers: the SDK's URL leads to the deal with exactly this id.

use bytes::Bytes;
use dealkit::{Client, ErrorKind, Method, ViolationCode};
use dealkit_server::Service;
use http::Version;
use serde_json::json;

use crate::sandbox::{self, KEY};

const BASE: &str = "http://127.0.0.1:8080";

/// The maximum length of a URL in the `http` crate.
const LONGEST: usize = 60_000;

/// Retrieves a deal with any string as its id. Bytes that are not UTF-8 are replaced.
pub fn identifier(data: &[u8]) {
    thread_local! {
        static CLIENT_AND_SERVICE: (Client, Service) = (
            Client::builder()
                .base_url(BASE)
                .service_key(KEY)
                .build()
                .unwrap(),
            sandbox::service(Vec::new(), |builder| builder),
        );
    }
    let id = String::from_utf8_lossy(data);
    CLIENT_AND_SERVICE.with(|(client, service)| retrieve(&id, client, service));
}

fn retrieve(id: &str, client: &Client, service: &Service) {
    let segment = escape(id);
    if segment.len() > LONGEST {
        return;
    }
    let request = match client.deals().retrieve(id).into_request() {
        Ok(request) => request,
        Err(error) => {
            assert!(matches!(id, "" | "." | ".."), "rejected: {error}");
            assert_eq!(error.kind(), ErrorKind::Validation);
            assert_eq!(error.violations().len(), 1);
            assert_eq!(error.violations()[0].code, ViolationCode::InvalidId);
            return;
        }
    };
    assert!(!matches!(id, "" | "." | ".."), "{id:?} cannot be sent");
    let target = format!("/v1/deals/{segment}");
    assert_eq!(request.method(), Method::GET);
    assert_eq!(request.uri().to_string(), format!("{BASE}{target}"));
    assert_eq!(request.uri().path(), target);
    assert_eq!(request.uri().query(), None);

    // The server finds the deal with this id among deals with similar ids.
    let deal = json!({ "id": id }).to_string();
    service.insert_deal(deal.as_str()).unwrap();
    for other in [
        format!("{id}/"),
        format!("/{id}"),
        segment.clone(),
        format!("{id}%"),
    ] {
        if other != id {
            service
                .insert_deal(json!({ "id": other, "phase": "decoy" }))
                .unwrap();
        }
    }
    let origin = sandbox::request("GET", &target).body(Bytes::new()).unwrap();
    let mut absolute = request;
    *absolute.version_mut() = Version::HTTP_2;
    for request in [origin.clone(), absolute] {
        let response = service.handle(request);
        assert_eq!(sandbox::check(&response, false), 200);
        assert_eq!(response.body(), &deal);
    }
    service.reset();
    assert_eq!(sandbox::check(&service.handle(origin), false), 404);
}

/// Escapes the id as one path segment: all but the unreserved characters of RFC 3986 as `%` and two hex digits.
fn escape(id: &str) -> String {
    id.bytes().fold(String::new(), |mut segment, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
        segment
    })
}
