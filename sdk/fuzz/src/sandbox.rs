//! What holds for every response of the server, whatever was asked.

use bytes::Bytes;
use dealkit_server::{Sandbox, SandboxBuilder, SeedDeal, Service};
use http::{Request, Response};
use serde_json::Value;

#[path = "../../../server/tests/support/invariants.rs"]
mod invariants;

pub(crate) use invariants::header;

/// The key of a server that was given none.
pub(crate) const KEY: &str = "sandbox-key";

/// A service with `deals` and a changed configuration.
pub(crate) fn service(
    deals: Vec<SeedDeal>,
    change: impl FnOnce(SandboxBuilder) -> SandboxBuilder,
) -> Service {
    let builder = Sandbox::builder().deals(deals).max_agents(u64::MAX);
    change(builder).service().unwrap()
}

/// A request with what every request needs.
pub(crate) fn request(method: &str, target: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", "localhost")
        .header("x-service-key", KEY)
}

/// Every status of the contract except 408, which needs a clock.
const STATUSES: [u16; 11] = [200, 201, 204, 400, 401, 404, 405, 413, 415, 422, 507];

/// The body of an error.
pub(crate) fn problem(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

/// Checks a response and returns its status.
pub(crate) fn check(response: &Response<Bytes>, is_head: bool) -> u16 {
    let (status, headers) = (response.status().as_u16(), response.headers());
    assert!(STATUSES.contains(&status), "the contract has no {status}");
    let is_there = |name| header(headers, name).is_some();
    assert_eq!(is_there("allow"), [204, 405].contains(&status));
    assert_eq!(is_there("www-authenticate"), status == 401);
    assert!(!is_there("x-service-key"));
    invariants::check("response", status, headers, response.body(), is_head);
    status
}
