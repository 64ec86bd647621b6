//! Retries: their delays, `Retry-After`, the retry quota, and the lowest rate after rejections.
//!
//! As in `limits`, the clock is paused: the tests take no time and do not depend on the machine.

use std::time::Duration;

use dealkit::{Client, Error, ErrorKind, Method, Outcome, RetryPolicy};
use tokio::time::{Instant, sleep};

use crate::{
    limits::{SECOND, ScriptedResponse, ScriptedService},
    peer::{ada, immediate_retries},
};

/// The resolution of the runtime's timer, with a margin.
pub(crate) const GRAIN: Duration = Duration::from_millis(2);

async fn service(responses: &[ScriptedResponse]) -> ScriptedService {
    ScriptedService::start(Duration::ZERO, responses.to_vec()).await
}

async fn retrieve(client: &Client, policy: RetryPolicy) -> Error {
    let call = client.deals().retrieve("d_1").retry(policy);
    call.await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_method_that_may_change_something_is_retried_only_after_a_429() {
    for (method, is_read) in [
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
            let client = service
                .builder()
                .retry(immediate_retries())
                .build()
                .unwrap();
            let error = client.request(method.clone(), ["x"]).await.unwrap_err();
            let attempts = if is_read || status == 429 { 3 } else { 1 };
            assert_eq!(error.attempts(), attempts, "{method} {status}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_a_random_fraction_of_a_bound_that_doubles() {
    fastrand::seed(7);
    let service = service(&[(500, None)]).await;
    let policy = RetryPolicy::new().max_retries(6);
    let mut fractions = Vec::new();
    for _ in 0..40 {
        let first = service.log().len();
        // Each client has its own retry quota.
        let client = service.builder().build().unwrap();
        assert_eq!(retrieve(&client, policy).await.attempts(), 7);
        let waits = service.waits(first);
        for (wait, bound) in waits.into_iter().zip([200, 400, 800, 1600, 3200, 5000]) {
            let bound = Duration::from_millis(bound);
            assert!(wait <= bound + GRAIN, "{wait:?} of {bound:?}");
            fractions.push(wait.as_secs_f64() / bound.as_secs_f64());
        }
    }
    // These 240 numbers depend only on the seed.
    assert!(fractions.iter().any(|fraction| *fraction < 0.1));
    assert!(fractions.iter().any(|fraction| *fraction > 0.9));
    let mean = fractions.iter().sum::<f64>() / 240.0;
    assert!((0.35..0.65).contains(&mean), "{mean}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_the_lower_bound_of_the_delay() {
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
    // It does not apply to the delay after the next failure.
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
async fn a_delay_beyond_the_timeout_ends_the_call_immediately() {
    for (retry_after, attempts) in [(59, 2), (60, 1), (61, 1), (u64::MAX, 1)] {
        let service = service(&[(429, Some(retry_after)), (404, None)]).await;
        let client = service.builder().timeout(60 * SECOND).build().unwrap();
        let start = Instant::now();
        let error = client.agents().create(ada()).await.unwrap_err();
        assert_eq!(error.attempts(), attempts, "{retry_after}");
        if attempts == 1 {
            assert_eq!(start.elapsed(), Duration::ZERO);
            assert_eq!(error.retry_after(), Some(Duration::from_secs(retry_after)));
            let message = error.to_string();
            assert!(message.contains("(not retried: the wait of "), "{message}");
            assert!(
                message.contains(" s exceeds the remaining time of the call)"),
                "{message}"
            );
        }
    }
    let service = service(&[(500, None)]).await;
    let client = service.builder().build().unwrap();
    let endless = RetryPolicy::new()
        .initial_backoff(Duration::MAX)
        .max_backoff(Duration::MAX);
    assert_eq!(retrieve(&client, endless).await.attempts(), 1);
    assert_eq!(service.log().len(), 1);
}

/// A retry that the rate limit delays beyond the timeout is not an attempt, and the error of the attempt before says more.
#[tokio::test(start_paused = true)]
async fn a_retry_beyond_the_timeout_leaves_the_error_before_it() {
    for (status, outcome) in [(503, Outcome::Unknown), (429, Outcome::Rejected)] {
        let service = service(&[(status, None)]).await;
        let client = service.builder().rate_limit(0.01).build().unwrap();
        let error = retrieve(&client, RetryPolicy::new()).await;
        assert_eq!(
            (error.kind(), error.outcome(), error.attempts()),
            (ErrorKind::Status, outcome, 1)
        );
        let message = error.to_string();
        assert!(
            message.contains(&status.to_string()) && !message.contains("not sent"),
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_last_response_before_it() {
    for (responses, end) in [
        (
            &[(503, None), (0, None)][..],
            "timed out after 1 s (after 4 attempts; the last response was 503 Service Unavailable [request id r_1])",
        ),
        (
            &[(503, None), (0, None), (502, None), (0, None)],
            "timed out after 1 s (after 4 attempts; the last response was 502 Bad Gateway [request id r_1])",
        ),
        (&[(0, None)], "timed out after 1 s (after 4 attempts)"),
        // The last attempt has its own response.
        (
            &[(503, None), (404, None)],
            "404 Not Found (after 2 attempts) [request id r_1]",
        ),
    ] {
        let service = service(responses).await;
        let client = service.builder().attempt_timeout(SECOND).build().unwrap();
        let error = retrieve(&client, RetryPolicy::new().max_retries(3)).await;
        assert_eq!(error.to_string(), format!("GET /v1/deals/{{id}}: {end}"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_ends_at_the_deadline_needs_no_reason_for_not_being_retried() {
    let service = service(&[(0, None)]).await;
    let client = service.builder().timeout(SECOND).build().unwrap();
    let error = retrieve(&client, RetryPolicy::new().max_retries(3)).await;
    assert_eq!(error.to_string(), "GET /v1/deals/{id}: timed out after 1 s");
}

/// Retries as often as the client's retry quota allows, while no time passes. Returns the number of retries.
async fn use_up_quota(client: &Client) -> u32 {
    let mut retries = 0;
    loop {
        let error = retrieve(client, immediate_retries()).await;
        retries += error.attempts() - 1;
        if error.to_string().contains(USED_UP) {
            return retries;
        }
    }
}

const USED_UP: &str = "not retried: the client has used up its retry quota";

#[tokio::test(start_paused = true)]
async fn the_retry_quota_is_restored_over_time_up_to_its_capacity() {
    let service = service(&[(500, None)]).await;
    let client = service.builder().build().unwrap();
    assert_eq!(use_up_quota(&client).await, 35);
    // Ten tokens were left, a retry takes fourteen, and every second adds one.
    sleep(3 * SECOND).await;
    assert_eq!(use_up_quota(&client).await, 0);
    sleep(SECOND).await;
    assert_eq!(use_up_quota(&client).await, 1);
    sleep(10_000 * SECOND).await;
    assert_eq!(use_up_quota(&client).await, 35);
    // A client with few calls never uses up its quota, even if the service is down for hours.
    sleep(1_000 * SECOND).await;
    for _ in 0..100 {
        assert_eq!(retrieve(&client, immediate_retries()).await.attempts(), 3);
        sleep(60 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_used_up_quota_only_free_retries_are_made() {
    for (response, policy, attempts, is_mentioned) in [
        ((500, None), immediate_retries(), 1, true),
        ((0, None), immediate_retries(), 1, true),
        // After 429, or 503 with Retry-After, a retry is free.
        ((503, Some(0)), immediate_retries(), 3, false),
        ((429, None), immediate_retries(), 3, false),
        // These calls are not retried in any case.
        ((404, None), immediate_retries(), 1, false),
        ((500, None), RetryPolicy::never(), 1, false),
    ] {
        // 18 calls with 35 retries use up the quota.
        let mut responses = vec![(500, None); 53];
        responses.push(response);
        let service = service(&responses).await;
        let client = service.builder().attempt_timeout(SECOND).build().unwrap();
        assert_eq!(use_up_quota(&client).await, 35);
        let error = retrieve(&client, policy).await;
        let message = error.to_string();
        assert_eq!(
            (error.attempts(), message.contains(USED_UP)),
            (attempts, is_mentioned),
            "{message}"
        );
    }
}

/// However many calls are rejected, a client sends one call per second.
#[tokio::test(start_paused = true)]
async fn the_lowest_rate_is_one_call_per_second() {
    let mut responses = vec![(429, Some(2)); 20];
    responses.push((200, None));
    let service = service(&responses).await;
    let client = service.builder().build().unwrap();
    for _ in 0..22 {
        let call = client.deals().retrieve("d_1");
        let _ = call.retry(RetryPolicy::never()).await;
    }
    let last = *service.waits(0).last().unwrap();
    assert_eq!(last.as_millis() / 10, 100);
}

/// The default limit of an attempt applies only if a retry would follow. A limit that is set always applies.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_retry_may_take_the_whole_timeout() {
    let never = RetryPolicy::never();
    let any = RetryPolicy::new().retry_non_idempotent(true);
    for (is_create, policy, limit, attempts, duration) in [
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
        let start = Instant::now();
        let error = if is_create {
            client.agents().create(ada()).await.unwrap_err()
        } else {
            client.deals().retrieve("d_1").await.unwrap_err()
        };
        let seconds = start.elapsed().as_secs();
        assert_eq!(error.attempts(), attempts, "{is_create} {policy:?}");
        // The delays before retries are up to 0.6 s.
        assert!(
            (duration..=duration + 1).contains(&seconds),
            "{seconds}: {error}"
        );
    }
}
