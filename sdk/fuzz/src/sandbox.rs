//! Checks that every response of the server must pass.

use bytes::Bytes;
use dealkit_server::{Sandbox, SandboxBuilder, SeedDeal, Service};
use http::{Request, Response};
use serde_json::Value;

#[path = "../../../server/tests/support/invariants.rs"]
mod invariants;

pub(crate) use invariants::header;

/// The default key of a server.
pub(crate) const KEY: &str = "sandbox-key";

/// Creates a service with `deals` and a changed configuration.
pub(crate) fn service(
    deals: Vec<SeedDeal>,
    change: impl FnOnce(SandboxBuilder) -> SandboxBuilder,
) -> Service {
    let builder = Sandbox::builder().deals(deals).max_agents(u64::MAX);
    change(builder).service().unwrap()
}

/// Creates a request with the headers that every request needs.
pub(crate) fn request(method: &str, target: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", "localhost")
        .header("x-service-key", KEY)
}

/// Every status of the contract except 408, which needs a clock.
const STATUSES: [u16; 11] = [200, 201, 204, 400, 401, 404, 405, 413, 415, 422, 507];

/// Parses the body of an error.
pub(crate) fn problem(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

/// Checks a response and returns its status.
pub(crate) fn check(response: &Response<Bytes>, is_head: bool) -> u16 {
    let (status, headers) = (response.status().as_u16(), response.headers());
    assert!(STATUSES.contains(&status), "the contract has no {status}");
    let has_header = |name| header(headers, name).is_some();
    assert_eq!(has_header("allow"), [204, 405].contains(&status));
    assert_eq!(has_header("www-authenticate"), status == 401);
    assert!(!has_header("x-service-key"));
    invariants::check("response", status, headers, response.body(), is_head);
    status
}
