//! The rate limit of each namespace, and clients that exceed it. The clock is paused.

use std::time::Duration;

use crate::support::{
    KEY,
    process::{Running, command},
    retrieve_deal, service,
};
use bytes::Bytes;
use dealkit_server::{SandboxBody, Service, Variant};
use http::{Request, Response};
use tokio::time::advance;
use tower_service::Service as _;

const SECOND: Duration = Duration::from_secs(1);

fn limited_service(limit: u16) -> Service {
    service(|builder| builder.namespaces("test-*").rate_limit(limit))
}

async fn get(service: &Service, key: &str) -> Response<SandboxBody> {
    let request = Request::get("http://localhost/v1/deals/d_1").header("x-service-key", key);
    let request = request.body(Bytes::new()).unwrap();
    service.clone().call(request).await.unwrap()
}

/// Returns the status, `RateLimit` and `Retry-After` of a response.
async fn limit_headers(service: &Service, key: &str) -> (u16, String, String) {
    let response = get(service, key).await;
    let header = |name| {
        let mut all = response.headers().get_all(name).iter();
        let first = all.next().map_or("", |value| value.to_str().unwrap());
        assert!(all.next().is_none(), "{name} is there twice");
        first.to_owned()
    };
    let policy = header("ratelimit-policy");
    assert_eq!(policy.is_empty(), header("ratelimit").is_empty());
    (
        response.status().as_u16(),
        header("ratelimit"),
        header("retry-after"),
    )
}

fn expected(status: u16, left: &str, retry_after: &str) -> (u16, String, String) {
    (status, left.to_owned(), retry_after.to_owned())
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_a_token_bucket() {
    let service = limited_service(5);
    for left in (0..5).rev() {
        let shown = format!("\"key\";r={left};t=1");
        assert_eq!(
            limit_headers(&service, KEY).await,
            expected(200, &shown, "")
        );
    }
    let refused = get(&service, KEY).await;
    assert_eq!(refused.headers()["ratelimit-policy"], "\"key\";q=5;w=1");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    let none_left = "\"key\";r=0;t=1";
    assert_eq!(
        limit_headers(&service, KEY).await,
        expected(429, none_left, "1")
    );
    // A rejected request takes no token, and tokens return evenly.
    advance(SECOND / 10).await;
    assert_eq!(
        limit_headers(&service, KEY).await,
        expected(429, none_left, "1")
    );
    advance(SECOND / 10).await;
    assert_eq!(
        limit_headers(&service, KEY).await,
        expected(200, none_left, "")
    );
    assert_eq!(limit_headers(&service, KEY).await.0, 429);
    // Other namespaces are not affected, and unknown keys have no bucket.
    let first = expected(200, "\"key\";r=4;t=1", "");
    assert_eq!(limit_headers(&service, "test-1").await, first);
    for _ in 0..10 {
        assert_eq!(
            limit_headers(&service, "wrong").await,
            expected(401, "", "")
        );
    }
    service.reset();
    assert_eq!(limit_headers(&service, KEY).await.0, 200);
    advance(SECOND).await;
    assert_eq!(limit_headers(&service, KEY).await, first);
}

/// The variants apply to rejections of the rate limit.
#[tokio::test(start_paused = true)]
async fn variants_apply_to_rejections() {
    let service = service(|builder| builder.rate_limit(1).variant(Variant::ErrorsHtml));
    assert_eq!(get(&service, KEY).await.status(), 200);
    let refused = get(&service, KEY).await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    assert_eq!(
        refused.headers()["content-type"],
        "text/html; charset=utf-8"
    );
}

#[test]
fn a_dealkit_client_is_limited() {
    let server = Running::quiet(&["--rate-limit", "1"]);
    assert_eq!(retrieve_deal(&server, "d_1").status, 200);
    let mut further = (0..100).map(|_| retrieve_deal(&server, "d_1"));
    let refused = further.find(|response| response.status != 200).unwrap();
    refused.check_invariants("beyond the limit", false);
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("1"))
    );
    assert_eq!(refused.json()["type"], "urn:dealkit:problem:rate-limit");
    for wrong in ["0", "1.5", "50/s", "65536"] {
        let output = command(&["--rate-limit", wrong]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}
