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

fn limited(limit: &str) -> Service {
    service(|builder| builder.worlds("test-*").rate_limit(limit.parse().unwrap()))
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
    let service = limited("6/m");
    for left in 0..6 {
        let shown = format!("\"key\";r={};t={}", 5 - left, 10 * (left + 1));
        assert_eq!(told(&service, KEY).await, seen(200, &shown, ""));
    }
    let refused = get(&service, KEY).await;
    assert_eq!(refused.headers()["ratelimit-policy"], "\"key\";q=6;w=60");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    assert_eq!(
        told(&service, KEY).await,
        seen(429, "\"key\";r=0;t=60", "10")
    );
    // A refusal costs nothing, and what comes back comes evenly.
    advance(SECOND * 9).await;
    assert_eq!(
        told(&service, KEY).await,
        seen(429, "\"key\";r=0;t=51", "1")
    );
    advance(SECOND).await;
    assert_eq!(told(&service, KEY).await, seen(200, "\"key\";r=0;t=60", ""));
    assert_eq!(told(&service, KEY).await.0, 429);
    // Another world is not affected, and a key that is not accepted has no bucket.
    assert_eq!(
        told(&service, "test-1").await,
        seen(200, "\"key\";r=5;t=10", "")
    );
    for _ in 0..10 {
        assert_eq!(told(&service, "wrong").await, seen(401, "", ""));
    }
    service.reset();
    assert_eq!(told(&service, KEY).await.0, 200);
    advance(SECOND * 60).await;
    assert_eq!(told(&service, KEY).await, seen(200, "\"key\";r=5;t=10", ""));
}

/// A refusal is read as the service would write it.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_written_in_the_reading() {
    let service = service(|builder| {
        let builder = builder.rate_limit("1/s".parse().unwrap());
        builder.reading(Reading::ErrorsHtml)
    });
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
    let server = Running::quiet(&["--rate-limit", "1/m"]);
    assert_eq!(deal(&server, "d_1").status, 200);
    let refused = deal(&server, "d_1");
    refused.check_invariants("beyond the limit", false);
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("60"))
    );
    assert_eq!(refused.json()["type"], "urn:dealkit:problem:rate-limit");
    for wrong in ["50", "0/s", "+/s", "1/h", "100001/s", "1.5/s"] {
        let output = command(&["--rate-limit", wrong]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && told.contains("such as 50/s or 600/m"),
            "{wrong}: {told}"
        );
    }
}
