//! A limit on the requests of each world, and clients that run into it. The clock is paused.

use std::time::Duration;

use crate::support::{
    KEY, deal,
    process::{Running, command},
    service,
};
use bytes::Bytes;
use dealkit_server::{Reading, SandboxBody, Service};
use http::{Request, Response};
use tokio::time::advance;
use tower_service::Service as _;

const SECOND: Duration = Duration::from_secs(1);

fn limited(limit: u16) -> Service {
    service(|builder| builder.worlds("test-*").rate_limit(limit))
}

async fn get(service: &Service, key: &str) -> Response<SandboxBody> {
    let request = Request::get("http://localhost/v1/deals/d_1").header("x-service-key", key);
    let request = request.body(Bytes::new()).unwrap();
    service.clone().call(request).await.unwrap()
}

/// The status, `RateLimit` and `Retry-After` of a response.
async fn told(service: &Service, key: &str) -> (u16, String, String) {
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

fn seen(status: u16, left: &str, retry_after: &str) -> (u16, String, String) {
    (status, left.to_owned(), retry_after.to_owned())
}

#[tokio::test(start_paused = true)]
async fn each_world_has_a_bucket_that_fills_up_at_the_rate() {
    let service = limited(5);
    for left in (0..5).rev() {
        let shown = format!("\"key\";r={left};t=1");
        assert_eq!(told(&service, KEY).await, seen(200, &shown, ""));
    }
    let refused = get(&service, KEY).await;
    assert_eq!(refused.headers()["ratelimit-policy"], "\"key\";q=5;w=1");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    let none_left = "\"key\";r=0;t=1";
    assert_eq!(told(&service, KEY).await, seen(429, none_left, "1"));
    // A refusal costs nothing, and what comes back comes evenly.
    advance(SECOND / 10).await;
    assert_eq!(told(&service, KEY).await, seen(429, none_left, "1"));
    advance(SECOND / 10).await;
    assert_eq!(told(&service, KEY).await, seen(200, none_left, ""));
    assert_eq!(told(&service, KEY).await.0, 429);
    // Another world is not affected, and a key that is not accepted has no bucket.
    let first = seen(200, "\"key\";r=4;t=1", "");
    assert_eq!(told(&service, "test-1").await, first);
    for _ in 0..10 {
        assert_eq!(told(&service, "wrong").await, seen(401, "", ""));
    }
    service.reset();
    assert_eq!(told(&service, KEY).await.0, 200);
    advance(SECOND).await;
    assert_eq!(told(&service, KEY).await, first);
}

/// A refusal is read as the service would write it.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_written_in_the_reading() {
    let service = service(|builder| builder.rate_limit(1).reading(Reading::ErrorsHtml));
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
fn a_program_is_limited_too() {
    let server = Running::quiet(&["--rate-limit", "1"]);
    assert_eq!(deal(&server, "d_1").status, 200);
    let mut further = (0..100).map(|_| deal(&server, "d_1"));
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
