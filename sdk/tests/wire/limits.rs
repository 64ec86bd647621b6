//! Client-side limits: `rate_limit`, pauses after `Retry-After`, and the retry quota.
//!
//! The service is a transport, and time is Tokio's paused clock: a minute takes no time, and nothing depends on how busy
//! the machine is.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dealkit::{Client, ClientBuilder, ErrorKind, Outcome, RetryPolicy};
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, sleep};

use crate::peer::{FINE, KEY, Peer, ada};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A response: its status, or 0 for no response at all, and the seconds of `Retry-After`.
pub(crate) type ScriptedResponse = (u16, Option<u64>);

/// The requests that reached the service: the time, and the status of the response.
type Log = Arc<Mutex<Vec<(Duration, u16)>>>;

pub(crate) struct ScriptedService {
    builder: ClientBuilder,
    log: Log,
}

impl ScriptedService {
    /// Starts a service with this latency, which sends the responses in order, and repeats the last one.
    pub(crate) async fn start<I>(latency: Duration, responses: I) -> Self
    where
        I: IntoIterator<Item = ScriptedResponse, IntoIter: Send + 'static>,
    {
        let (mut responses, mut response) = (responses.into_iter(), (200, None));
        let mut peer = Peer::in_memory();
        let (builder, log) = (peer.builder(), Log::default());
        let (start, service_log) = (Instant::now(), Arc::clone(&log));
        tokio::spawn(async move {
            while let Some(request) = peer.next_of_all().await {
                let at = start.elapsed();
                response = responses.next().unwrap_or(response);
                let (status, retry_after) = response;
                service_log.lock().unwrap().push((at, status));
                tokio::spawn(async move {
                    sleep(latency).await;
                    if status == 0 {
                        // The service sends nothing more.
                        std::future::pending::<()>().await;
                    }
                    let retry_after =
                        retry_after.map(|seconds| ("retry-after", seconds.to_string()));
                    let id = ("x-request-id", "r_1".to_owned());
                    let headers: Vec<_> = retry_after.into_iter().chain([id]).collect();
                    request.answer_if_there(
                        status,
                        &headers,
                        if status == 200 { FINE } else { "" },
                    );
                });
            }
        });
        Self { builder, log }
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder.clone()
    }

    pub(crate) fn log(&self) -> Vec<(Duration, u16)> {
        self.log.lock().unwrap().clone()
    }

    /// Returns the times between requests, from the request with this index on.
    pub(crate) fn waits(&self, first: usize) -> Vec<Duration> {
        let log = self.log();
        log[first..]
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect()
    }
}

/// Retrieves deals, a number of them at a time. Returns how many calls failed.
async fn retrieve(client: &Client, count: usize, concurrency: usize) -> usize {
    let ids = (0..count).map(|number| format!("d_{number}"));
    let many = client.deals().retrieve_many(ids).concurrency(concurrency);
    many.stream()
        .filter(|item| std::future::ready(item.result.is_err()))
        .count()
        .await
}

#[tokio::test(start_paused = true)]
async fn all_calls_wait_as_long_as_retry_after_says() {
    for (status, has_pause) in [(429, true), (503, true), (500, false)] {
        let service =
            ScriptedService::start(Duration::ZERO, [(status, Some(10)), (200, None)]).await;
        let client = service.builder().build().unwrap();
        let rejected = client.deals().retrieve("d_1").retry(RetryPolicy::never());
        assert_eq!(rejected.await.unwrap_err().retry_after(), Some(10 * SECOND));
        sleep(SECOND).await;

        // The timeout is shorter than the pause.
        let start = Instant::now();
        let outcome = client.agents().create(ada()).timeout(9 * SECOND).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        if has_pause {
            let error = outcome.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome(), error.attempts()),
                (ErrorKind::Throttled, Outcome::NotSent, 0)
            );
            assert_eq!(error.retry_after().unwrap().as_millis() / 100, 90);
            assert_eq!(service.log().len(), 1);
            let message = error.to_string();
            assert!(
                message.starts_with(
                    "POST /v1/agents: not sent: the service has asked for fewer requests"
                ),
                "{message}"
            );
            assert!(
                message.ends_with(
                    "would have to wait 9 s, longer than its timeout allows [see timeout]"
                ),
                "{message}"
            );
            assert!(error.is_throttled() && !error.is_timeout() && !error.is_connection());
        } else {
            outcome.unwrap();
        }

        // The pause applies to reads, creates and bulk jobs.
        let bulk = retrieve(&client, 3, 3);
        let (create, read, failed) = tokio::join!(
            client.agents().create(ada()).send(),
            client.deals().retrieve("d_1").send(),
            bulk
        );
        create.unwrap();
        read.unwrap();
        assert_eq!(failed, 0);
        let pause = if has_pause { 10 * SECOND } else { SECOND };
        assert!(
            service.log().iter().skip(1).all(|(at, _)| *at >= pause),
            "{:?}",
            service.log()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_a_day_pauses_other_calls_for_a_minute() {
    let service = ScriptedService::start(Duration::ZERO, [(503, Some(86_400)), (200, None)]).await;
    let client = service.builder().timeout(90 * SECOND).build().unwrap();
    let error = client.deals().retrieve("d_1").await.unwrap_err();
    assert_eq!(
        (error.status().unwrap().as_u16(), error.attempts()),
        (503, 1)
    );
    client.deals().retrieve("d_1").await.unwrap();
    assert_eq!(service.log()[1].0.as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_long_after_the_last_one_lowers_the_rate() {
    let service = ScriptedService::start(
        Duration::ZERO,
        [429, 200, 200, 429, 200].map(|status| (status, None)),
    )
    .await;
    let client = service.builder().build().unwrap();
    assert_eq!(retrieve(&client, 2, 1).await, 0);
    sleep(7_200 * SECOND).await;
    assert_eq!(retrieve(&client, 1, 1).await, 0);
    let start = Instant::now();
    assert_eq!(retrieve(&client, 100, 64).await, 0);
    assert!(start.elapsed() > SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_calls_and_attempts_together_keep_to_the_rate_limit() {
    for (rate, latency) in [(50.0, 0), (30.0, 40), (400.0, 5)] {
        // Every third request fails, and is retried.
        let responses = [200, 200, 500].map(|status| (status, None));
        let latency = Duration::from_millis(latency);
        let service = ScriptedService::start(latency, responses.into_iter().cycle()).await;
        let client = service.builder().rate_limit(rate).build().unwrap();
        let sequential = async {
            for _ in 0..20 {
                let _ = client.deals().retrieve("d_1").await;
            }
        };
        let (_, creates, ()) = tokio::join!(
            retrieve(&client, 400, 64),
            stream::iter(0..50)
                .map(|_| client.agents().create(ada()).send())
                .buffer_unordered(8)
                .count(),
            sequential
        );
        assert_eq!(creates, 50);
        let log = service.log();
        for (first, (at, _)) in log.iter().enumerate() {
            let within = log[first..]
                .iter()
                .take_while(|(other, _)| *other < *at + SECOND)
                .count();
            // The timer has a resolution of a millisecond.
            assert!(
                within as f64 <= rate + 1.0 + rate * 0.002,
                "{rate}: {within} from {at:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_used_in_full() {
    for rate in [7.0, 50.0, 400.0, 3_000.0] {
        let service = ScriptedService::start(Duration::from_millis(5), [(200, None)]).await;
        let client = service.builder().rate_limit(rate).build().unwrap();
        let start = Instant::now();
        assert_eq!(retrieve(&client, 1_000, 64).await, 0);
        let duration = start.elapsed().as_secs_f64();
        assert!(
            (0.98..1.02).contains(&(duration * rate / 1_000.0)),
            "{rate}: {duration} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_sent_in_order_and_cancelled_calls_leave_no_gap() {
    let service = ScriptedService::start(Duration::ZERO, [(200, None)]).await;
    let client = service.builder().rate_limit(1.0).build().unwrap();
    let start = Instant::now();
    let finished = Mutex::new(Vec::new());
    let calls = (0..10_u64).map(|number| {
        let (client, finished) = (&client, &finished);
        async move {
            let call = client.deals().retrieve("d_1").send();
            // The calls in the middle are cancelled while they wait.
            if (3..7).contains(&number) {
                let _ = tokio::time::timeout(SECOND / 2, call).await;
            } else {
                call.await.unwrap();
                finished
                    .lock()
                    .unwrap()
                    .push((number, start.elapsed().as_secs()));
            }
        }
    });
    futures_util::future::join_all(calls).await;
    let finished = finished.into_inner().unwrap();
    assert_eq!(finished, [(0, 0), (1, 1), (2, 2), (7, 3), (8, 4), (9, 5)]);
    assert_eq!(service.log().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_rate_limit_delays_beyond_its_timeout_fails_immediately() {
    let service = ScriptedService::start(Duration::ZERO, [(200, None)]).await;
    let client = service
        .builder()
        .rate_limit(0.5)
        .timeout(5 * SECOND)
        .build()
        .unwrap();
    let start = Instant::now();
    let calls = (0..6).map(|_| async {
        let outcome = client.agents().create(ada()).await.map(drop);
        (outcome, start.elapsed().as_secs())
    });
    let outcomes = futures_util::future::join_all(calls).await;
    for (number, (outcome, at)) in (0_u64..).zip(outcomes) {
        if number < 3 {
            outcome.unwrap();
            assert_eq!(at, 2 * number);
            continue;
        }
        let error = outcome.unwrap_err();
        assert_eq!(at, 0);
        assert_eq!(
            (
                error.kind(),
                error.outcome(),
                error.attempts(),
                error.retry_after()
            ),
            (ErrorKind::Throttled, Outcome::NotSent, 0, Some(6 * SECOND))
        );
        assert_eq!(
            error.to_string(),
            "POST /v1/agents: not sent: the client's rate limit would delay this call by 6 s, longer than its \
             timeout allows [see rate_limit]"
        );
    }
    assert_eq!(service.log().len(), 3);
}

/// While a program awaits another call, it does not poll a stream, whose calls must not delay the other call for long.
#[tokio::test(start_paused = true)]
async fn calls_that_are_not_polled_do_not_block_the_others() {
    let service = ScriptedService::start(Duration::ZERO, [(200, None)]).await;
    let client = service.builder().rate_limit(10.0).build().unwrap();
    let ids = (0..20).map(|number| format!("d_{number}"));
    let mut deals = client.deals().retrieve_many(ids).concurrency(16).stream();
    let start = Instant::now();
    let mut count = 0;
    while let Some(item) = deals.next().await {
        item.result.unwrap();
        client.agents().create(ada()).await.unwrap();
        count += 2;
    }
    assert_eq!(count, 40);
    let log = service.log();
    assert!(
        log.windows(2)
            .all(|pair| pair[1].0 - pair[0].0 >= Duration::from_millis(98))
    );
    assert!(start.elapsed() < 15 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn clients_share_limits_if_base_url_key_and_rate_limit_are_equal() {
    for (name, other_rate, key, is_shared) in [
        ("equal", Some(1.0), KEY, true),
        ("another limit", Some(2.0), KEY, false),
        ("no limit", None, KEY, false),
        ("another key", Some(1.0), "another", false),
    ] {
        let service = ScriptedService::start(Duration::ZERO, [(200, None)]).await;
        let client = service.builder().rate_limit(1.0).build().unwrap();
        let mut other = service
            .builder()
            .service_key(key)
            .share_connections(&client);
        if let Some(rate) = other_rate {
            other = other.rate_limit(rate);
        }
        let other = other.build().unwrap();
        assert!(other.shares_connections(&client));
        assert_eq!(other.shares_limits(&client), is_shared, "{name}");
        for client in [&client, &other, &client.clone()] {
            client.deals().retrieve("d_1").await.unwrap();
        }
        let seconds: Vec<_> = service.log().iter().map(|(at, _)| at.as_secs()).collect();
        assert_eq!(
            seconds,
            if is_shared { [0, 1, 2] } else { [0, 0, 1] },
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_after_a_retry_returns_its_tokens() {
    let responses = [(503, None), (200, None)].into_iter().cycle();
    let service = ScriptedService::start(Duration::ZERO, responses).await;
    let client = service.builder().build().unwrap();
    for _ in 0..200 {
        let call = client.deals().retrieve("d_1").with_response();
        assert_eq!(call.await.unwrap().attempts(), 2);
    }
}
