//! A limit on the requests of each service key, from the start or as a fault, and clients that run into it. The clock is paused.

use std::time::Duration;

use crate::support::{
    KEY, deal,
    process::{Running, command},
    service,
};
use bytes::Bytes;
use dealkit_server::{Fault, Reading, SandboxBody, Service};
use http::{Request, Response};
use tokio::time::{Instant, advance};
use tower_service::Service as _;

const SECOND: Duration = Duration::from_secs(1);

fn limited(limit: &str) -> Service {
    service(|builder| builder.rate_limit(limit.parse().unwrap()))
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
async fn each_key_has_a_bucket_that_fills_up_at_the_rate() {
    let service = limited("6/m");
    service.accept_keys([KEY, "other"]).unwrap();
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
    // Another key is not affected, and one that is not accepted has no bucket.
    assert_eq!(
        told(&service, "other").await,
        seen(200, "\"key\";r=5;t=10", "")
    );
    for _ in 0..10 {
        assert_eq!(told(&service, "wrong").await, seen(401, "", ""));
    }
    let shown: Vec<_> = service
        .requests()
        .into_iter()
        .filter_map(|request| request.fault)
        .collect();
    assert_eq!(shown.first().unwrap(), "rate_limit=6/m");
    service.reset();
    assert_eq!(told(&service, KEY).await.0, 200);
    advance(SECOND * 60).await;
    assert_eq!(told(&service, KEY).await, seen(200, "\"key\";r=5;t=10", ""));
}

#[tokio::test(start_paused = true)]
async fn a_running_sandbox_begins_to_limit_for_a_time() {
    let service = service(|builder| builder);
    assert_eq!(told(&service, KEY).await, seen(200, "", ""));
    let fault = r#"{"rate_limit": "1/s", "lasts": 5}"#;
    let fault = Fault::from_json(fault).unwrap();
    assert_eq!(
        fault,
        Fault::rate_limit("1/s".parse().unwrap()).lasts(SECOND * 5)
    );
    service.fail_next(fault).unwrap();
    for _ in 0..5 {
        assert_eq!(told(&service, KEY).await, seen(200, "\"key\";r=0;t=1", ""));
        assert_eq!(told(&service, KEY).await, seen(429, "\"key\";r=0;t=1", "1"));
        advance(SECOND).await;
    }
    for _ in 0..5 {
        assert_eq!(told(&service, KEY).await, seen(200, "", ""));
    }
    // Something else can happen beyond the rate, and any fault can last a while.
    let slow = r#"{"rate_limit": "1/s", "delay": 3, "times": 1}"#;
    service.fail_next(Fault::from_json(slow).unwrap()).unwrap();
    service
        .fail_next(Fault::status(503).lasts(SECOND * 4))
        .unwrap();
    let began = Instant::now();
    assert_eq!(told(&service, KEY).await.0, 503);
    assert_eq!(told(&service, KEY).await, seen(200, "\"key\";r=0;t=1", ""));
    assert!(began.elapsed() == 3 * SECOND, "{:?}", began.elapsed());
    assert_eq!(told(&service, KEY).await.0, 503);
    advance(SECOND).await;
    assert_eq!(told(&service, KEY).await.0, 200);
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
