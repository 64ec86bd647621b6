//! How long a call waits before its next attempt, and whether there is one: delays, what a service asks for, the quota
//! of retries, and the pace after a refusal.
//!
//! As in `limits`, the clock is paused: nothing here takes time or depends on the machine.

use std::time::Duration;

use dealkit::{Client, Error, ErrorKind, Method, Outcome, RetryPolicy};
use tokio::time::{Instant, sleep};

use crate::{
    limits::{Judgement, SECOND, Service},
    peer::{ada, at_once},
};

/// The runtime's timer counts in milliseconds.
pub(crate) const GRAIN: Duration = Duration::from_millis(2);

async fn service(judgements: &[Judgement]) -> Service {
    Service::start(Duration::ZERO, judgements.to_vec()).await
}

async fn retrieve(client: &Client, policy: RetryPolicy) -> Error {
    let call = client.deals().retrieve("d_1").retry(policy);
    call.await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_method_that_may_change_something_is_retried_only_after_a_429() {
    for (method, is_safe) in [
        (Method::GET, true),
        (Method::HEAD, true),
        (Method::POST, false),
        (Method::PUT, false),
        (Method::PATCH, false),
        (Method::DELETE, false),
        (Method::OPTIONS, false),
    ] {
        for status in [408, 429, 500, 502, 503, 504] {
            let service = service(&[(status, None)]).await;
            let client = service.builder().retry(at_once()).build().unwrap();
            let error = client.request(method.clone(), ["x"]).await.unwrap_err();
            let attempts = if is_safe || status == 429 { 3 } else { 1 };
            assert_eq!(error.attempts(), attempts, "{method} {status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_a_random_share_of_a_span_that_doubles() {
    fastrand::seed(7);
    let service = service(&[(500, None)]).await;
    let policy = RetryPolicy::new().max_retries(6);
    let mut shares = Vec::new();
    for _ in 0..40 {
        let began = service.log().len();
        // Each has a quota of its own.
        let client = service.builder().build().unwrap();
        assert_eq!(retrieve(&client, policy).await.attempts(), 7);
        let waits = service.waits(began);
        for (wait, span) in waits.into_iter().zip([200, 400, 800, 1600, 3200, 5000]) {
            let span = Duration::from_millis(span);
            assert!(wait <= span + GRAIN, "{wait:?} of {span:?}");
            shares.push(wait.as_secs_f64() / span.as_secs_f64());
        }
    }
    // 240 numbers, which depend on the seed only.
    assert!(shares.iter().any(|share| *share < 0.1));
    assert!(shares.iter().any(|share| *share > 0.9));
    let mean = shares.iter().sum::<f64>() / 240.0;
    assert!((0.35..0.65).contains(&mean), "{mean}");
}

#[tokio::test(start_paused = true)]
async fn what_the_service_asks_for_is_the_least_delay() {
    for method in [Method::GET, Method::POST] {
        let service = service(&[(429, Some(3)), (429, Some(0))]).await;
        let client = service.builder().build().unwrap();
        let error = client.request(method, ["x"]).await.unwrap_err();
        assert_eq!(
            (error.attempts(), error.retry_after()),
            (3, Some(Duration::ZERO))
        );
        let waits = service.waits(0);
        assert!(
            (3 * SECOND..=3 * SECOND + GRAIN).contains(&waits[0]),
            "{waits:?}"
        );
        // The service has accepted nothing yet, so the rate limiter sends one call per second.
        assert!((SECOND..=SECOND + GRAIN).contains(&waits[1]), "{waits:?}");
    }
    // It is not carried over to another failure.
    let service = service(&[(503, Some(2)), (500, None)]).await;
    let client = service.builder().build().unwrap();
    let error = retrieve(&client, RetryPolicy::new()).await;
    assert_eq!((error.attempts(), error.retry_after()), (3, None));
    let waits = service.waits(0);
    assert!(
        waits[0] >= 2 * SECOND && waits[1] <= SECOND + GRAIN,
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_does_not_fit_ends_the_call_at_once() {
    for (asked, attempts) in [(59, 2), (60, 1), (61, 1), (u64::MAX, 1)] {
        let service = service(&[(429, Some(asked)), (404, None)]).await;
        let client = service.builder().timeout(60 * SECOND).build().unwrap();
        let began = Instant::now();
        let error = client.agents().create(ada()).await.unwrap_err();
        assert_eq!(error.attempts(), attempts, "{asked}");
        if attempts == 1 {
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert_eq!(error.retry_after(), Some(Duration::from_secs(asked)));
        }
    }
    let service = service(&[(500, None)]).await;
    let client = service.builder().build().unwrap();
    let endless = RetryPolicy::new().backoff(Duration::MAX, Duration::MAX);
    assert_eq!(retrieve(&client, endless).await.attempts(), 1);
    assert_eq!(service.log().len(), 1);
}

/// A retry whose turn comes too late is no attempt, and the failure before it says more.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_too_late_leaves_the_failure_before_it() {
    for (status, outcome) in [(503, Outcome::Unknown), (429, Outcome::Rejected)] {
        let service = service(&[(status, None)]).await;
        let client = service.builder().rate_limit(0.01).build().unwrap();
        let error = retrieve(&client, RetryPolicy::new()).await;
        assert_eq!(
            (error.kind(), error.outcome(), error.attempts()),
            (ErrorKind::Status, outcome, 1)
        );
        let text = error.to_string();
        assert!(
            text.contains(&status.to_string()) && !text.contains("not sent"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_tells_of_the_last_response_before_it() {
    for (judgements, end) in [
        (
            &[(503, None), (0, None)][..],
            "timed out after 1 s (after 4 attempts; the last response was 503 Service Unavailable [request id r_1])",
        ),
        (
            &[(503, None), (0, None), (502, None), (0, None)],
            "timed out after 1 s (after 4 attempts; the last response was 502 Bad Gateway [request id r_1])",
        ),
        (&[(0, None)], "timed out after 1 s (after 4 attempts)"),
        // The last failure has a response of its own.
        (
            &[(503, None), (404, None)],
            "404 Not Found (after 2 attempts) [request id r_1]",
        ),
    ] {
        let service = service(judgements).await;
        let client = service.builder().attempt_timeout(SECOND).build().unwrap();
        let error = retrieve(&client, RetryPolicy::new().max_retries(3)).await;
        assert_eq!(error.to_string(), format!("GET /v1/deals/{{id}}: {end}"));
    }
}

/// Retries as often as the quota of this client allows, while no time passes; returns how often that was.
async fn use_up(client: &Client) -> u32 {
    let mut retries = 0;
    loop {
        let error = retrieve(client, at_once()).await;
        retries += error.attempts() - 1;
        if error.to_string().contains(USED_UP) {
            return retries;
        }
    }
}

const USED_UP: &str = "not retried: the client has used up its retry quota";

#[tokio::test(start_paused = true)]
async fn a_quota_comes_back_with_time_and_successes_and_never_exceeds_itself() {
    let service = service(&[(500, None)]).await;
    let client = service.builder().build().unwrap();
    assert_eq!(use_up(&client).await, 35);
    // Ten tokens were left, a retry takes fourteen, and there is a new one every second.
    sleep(3 * SECOND).await;
    assert_eq!(use_up(&client).await, 0);
    sleep(SECOND).await;
    assert_eq!(use_up(&client).await, 1);
    sleep(10_000 * SECOND).await;
    assert_eq!(use_up(&client).await, 35);
    // Somebody with few calls never notices, even if the service is down for hours.
    sleep(1_000 * SECOND).await;
    for _ in 0..100 {
        assert_eq!(retrieve(&client, at_once()).await.attempts(), 3);
        sleep(60 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_quota_only_what_takes_none_is_retried() {
    for (judgement, policy, attempts, is_told) in [
        ((500, None), at_once(), 1, true),
        ((0, None), at_once(), 1, true),
        // The service has said when to try again.
        ((503, Some(0)), at_once(), 3, false),
        ((429, None), at_once(), 3, false),
        // Neither would be retried anyway.
        ((404, None), at_once(), 1, false),
        ((500, None), RetryPolicy::never(), 1, false),
    ] {
        // 18 calls, and 35 retries.
        let mut judgements = vec![(500, None); 53];
        judgements.push(judgement);
        let service = service(&judgements).await;
        let client = service.builder().attempt_timeout(SECOND).build().unwrap();
        assert_eq!(use_up(&client).await, 35);
        let error = retrieve(&client, policy).await;
        let text = error.to_string();
        assert_eq!(
            (error.attempts(), text.contains(USED_UP)),
            (attempts, is_told),
            "{text}"
        );
    }
}

/// However often it is refused, a client goes on, with a call a second.
#[tokio::test(start_paused = true)]
async fn the_slowest_pace() {
    let mut judgements = vec![(429, Some(2)); 20];
    judgements.push((200, None));
    let service = service(&judgements).await;
    let client = service.builder().build().unwrap();
    for _ in 0..22 {
        let call = client.deals().retrieve("d_1");
        let _ = call.retry(RetryPolicy::never()).await;
    }
    let last = *service.waits(0).last().unwrap();
    assert_eq!(last.as_millis() / 10, 100);
}

/// A limit on an attempt helps only if another one follows. One that is set always applies.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_repeated_may_take_the_whole_time() {
    let never = RetryPolicy::never();
    let any = RetryPolicy::new().retry_non_idempotent(true);
    for (is_create, policy, limit, attempts, took) in [
        (true, RetryPolicy::new(), None, 1, 120),
        (true, RetryPolicy::new(), Some(20), 1, 20),
        (true, any, None, 3, 90),
        (false, RetryPolicy::new(), None, 3, 90),
        (false, never, None, 1, 120),
        (false, never, Some(20), 1, 20),
    ] {
        let service = service(&[(0, None)]).await;
        let mut builder = service.builder().timeout(120 * SECOND).retry(policy);
        if let Some(seconds) = limit {
            builder = builder.attempt_timeout(seconds * SECOND);
        }
        let client = builder.build().unwrap();
        let began = Instant::now();
        let error = if is_create {
            client.agents().create(ada()).await.unwrap_err()
        } else {
            client.deals().retrieve("d_1").await.unwrap_err()
        };
        let seconds = began.elapsed().as_secs();
        assert_eq!(error.attempts(), attempts, "{is_create} {policy:?}");
        // The waits before retries are up to 0.6 s.
        assert!((took..=took + 1).contains(&seconds), "{seconds}: {error}");
    }
}
