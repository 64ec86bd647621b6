//! What holds for every response of the server, whatever was asked.

use bytes::Bytes;
use dealkit_server::{Sandbox, SandboxBuilder, SeedDeal, Service};
use http::{Request, Response, header};
use serde_json::{Value, value::RawValue};

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

/// The one value of a header.
pub(crate) fn header<'a>(response: &'a Response<Bytes>, name: &str) -> Option<&'a str> {
    let mut all = response.headers().get_all(name).iter();
    let first = all.next().map(|value| value.to_str().unwrap());
    assert!(all.next().is_none(), "{name} is there twice");
    first
}

/// The body of an error.
pub(crate) fn problem(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

/// Checks a response and returns its status.
pub(crate) fn check(response: &Response<Bytes>, is_head: bool) -> u16 {
    let status = response.status().as_u16();
    assert!(STATUSES.contains(&status), "the contract has no {status}");
    let id = header(response, "x-request-id").expect("every response has a request id");
    assert!((1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(
        header(response, "allow").is_some(),
        [204, 405].contains(&status)
    );
    assert_eq!(
        header(response, "www-authenticate").is_some(),
        status == 401
    );
    assert_eq!(header(response, "x-service-key"), None);
    if is_head || status == 204 {
        assert!(response.body().is_empty(), "{status} with a body");
        return status;
    }
    let media_type = header(response, header::CONTENT_TYPE.as_str());
    if status < 400 {
        assert_eq!(media_type, Some("application/json"));
        serde_json::from_slice::<&RawValue>(response.body()).unwrap();
        return status;
    }
    assert_eq!(media_type, Some("application/problem+json"));
    let problem = problem(response);
    assert_eq!(problem["status"], status);
    assert_eq!(problem["request_id"], id);
    for name in ["type", "title", "detail"] {
        assert!(problem[name].as_str().is_some_and(|text| !text.is_empty()));
    }
    let errors = problem["errors"].as_array().map_or(0, Vec::len);
    assert_eq!(
        errors > 0,
        status == 422,
        "{errors} violations with {status}"
    );
    status
}
