//! Services that allow a limited number of requests per second and are down at times, and clients that keep to a rate.
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

/// What the service does with a request: a status, or 0 for no response at all, and `Retry-After`.
pub(crate) type Judgement = (u16, Option<u64>);

/// What reached the service: when, and the status it got.
type Log = Arc<Mutex<Vec<(Duration, u16)>>>;

pub(crate) struct Service {
    builder: ClientBuilder,
    log: Log,
}

impl Service {
    /// A service that takes this long for each response, and responds in this way, one after the other, and then as the
    /// last time.
    pub(crate) async fn start<I>(latency: Duration, judgements: I) -> Self
    where
        I: IntoIterator<Item = Judgement, IntoIter: Send + 'static>,
    {
        let (mut judgements, mut judgement) = (judgements.into_iter(), (200, None));
        let mut peer = Peer::in_memory();
        let (builder, log) = (peer.builder(), Log::default());
        let (began, its_log) = (Instant::now(), Arc::clone(&log));
        tokio::spawn(async move {
            while let Some(heard) = peer.next_of_all().await {
                let at = began.elapsed();
                judgement = judgements.next().unwrap_or(judgement);
                let (status, retry_after) = judgement;
                its_log.lock().unwrap().push((at, status));
                tokio::spawn(async move {
                    sleep(latency).await;
                    if status == 0 {
                        // The service sends nothing more.
                        std::future::pending::<()>().await;
                    }
                    let asks = retry_after.map(|seconds| ("retry-after", seconds.to_string()));
                    let id = ("x-request-id", "r_1".to_owned());
                    let headers: Vec<_> = asks.into_iter().chain([id]).collect();
                    heard.answer_if_there(status, &headers, if status == 200 { FINE } else { "" });
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

    /// The time between each request and the next, without those before this one.
    pub(crate) fn waits(&self, first: usize) -> Vec<Duration> {
        let log = self.log();
        log[first..]
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect()
    }
}

/// Retrieves `count` deals, `concurrency` at a time; returns how many failed.
async fn retrieve(client: &Client, count: usize, concurrency: usize) -> usize {
    let ids = (0..count).map(|number| format!("d_{number}"));
    let many = client.deals().retrieve_many(ids).concurrency(concurrency);
    many.stream()
        .filter(|item| std::future::ready(item.result.is_err()))
        .count()
        .await
}

#[tokio::test(start_paused = true)]
async fn all_calls_wait_as_long_as_one_was_told() {
    for (status, is_heeded) in [(429, true), (503, true), (500, false)] {
        let service = Service::start(Duration::ZERO, [(status, Some(10)), (200, None)]).await;
        let client = service.builder().build().unwrap();
        let told = client.deals().retrieve("d_1").retry(RetryPolicy::never());
        assert_eq!(told.await.unwrap_err().retry_after(), Some(10 * SECOND));
        sleep(SECOND).await;

        // There is no time for that.
        let began = Instant::now();
        let outcome = client.agents().create(ada()).timeout(9 * SECOND).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        if is_heeded {
            let error = outcome.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome(), error.attempts()),
                (ErrorKind::Throttled, Outcome::NotSent, 0)
            );
            assert_eq!(error.retry_after().unwrap().as_millis() / 100, 90);
            assert_eq!(service.log().len(), 1);
            let text = error.to_string();
            assert!(
                text.starts_with(
                    "POST /v1/agents: not sent: the service has asked for fewer requests"
                ),
                "{text}"
            );
            assert!(
                text.ends_with(
                    "would have to wait 9 s, longer than its timeout allows [see timeout]"
                ),
                "{text}"
            );
            assert!(error.is_throttled() && !error.is_timeout() && !error.is_connection());
        } else {
            outcome.unwrap();
        }

        // Reads, creates and many at a time alike.
        let bulk = retrieve(&client, 3, 3);
        let (one, other, lost) = tokio::join!(
            client.agents().create(ada()).send(),
            client.deals().retrieve("d_1").send(),
            bulk
        );
        one.unwrap();
        other.unwrap();
        assert_eq!(lost, 0);
        let pause = if is_heeded { 10 * SECOND } else { SECOND };
        assert!(
            service.log().iter().skip(1).all(|(at, _)| *at >= pause),
            "{:?}",
            service.log()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_pause_does_not_silence_a_client_for_a_day() {
    let service = Service::start(Duration::ZERO, [(503, Some(86_400)), (200, None)]).await;
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
async fn a_refusal_counts_however_long_ago_the_last_one_was() {
    let service = Service::start(
        Duration::ZERO,
        [429, 200, 200, 429, 200].map(|status| (status, None)),
    )
    .await;
    let client = service.builder().build().unwrap();
    assert_eq!(retrieve(&client, 2, 1).await, 0);
    sleep(7_200 * SECOND).await;
    assert_eq!(retrieve(&client, 1, 1).await, 0);
    let began = Instant::now();
    assert_eq!(retrieve(&client, 100, 64).await, 0);
    assert!(began.elapsed() > SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_kept_by_all_calls_and_attempts() {
    for (rate, latency) in [(50.0, 0), (30.0, 40), (400.0, 5)] {
        // Every third request fails, and is retried.
        let judgements = [200, 200, 500].map(|status| (status, None));
        let latency = Duration::from_millis(latency);
        let service = Service::start(latency, judgements.into_iter().cycle()).await;
        let client = service.builder().rate_limit(rate).build().unwrap();
        let one_by_one = async {
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
            one_by_one
        );
        assert_eq!(creates, 50);
        let log = service.log();
        for (first, (at, _)) in log.iter().enumerate() {
            let within = log[first..]
                .iter()
                .take_while(|(other, _)| *other < *at + SECOND)
                .count();
            // The timer counts in milliseconds.
            assert!(
                within as f64 <= rate + 1.0 + rate * 0.002,
                "{rate}: {within} from {at:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_made_use_of() {
    for rate in [7.0, 50.0, 400.0, 3_000.0] {
        let service = Service::start(Duration::from_millis(5), [(200, None)]).await;
        let client = service.builder().rate_limit(rate).build().unwrap();
        let began = Instant::now();
        assert_eq!(retrieve(&client, 1_000, 64).await, 0);
        let took = began.elapsed().as_secs_f64();
        assert!(
            (0.98..1.02).contains(&(took * rate / 1_000.0)),
            "{rate}: {took} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_in_order_and_those_that_give_up_leave_no_gap() {
    let service = Service::start(Duration::ZERO, [(200, None)]).await;
    let client = service.builder().rate_limit(1.0).build().unwrap();
    let began = Instant::now();
    let finished = Mutex::new(Vec::new());
    let calls = (0..10_u64).map(|number| {
        let (client, finished) = (&client, &finished);
        async move {
            let call = client.deals().retrieve("d_1").send();
            // Those in the middle are cancelled while they wait.
            if (3..7).contains(&number) {
                let _ = tokio::time::timeout(SECOND / 2, call).await;
            } else {
                call.await.unwrap();
                finished
                    .lock()
                    .unwrap()
                    .push((number, began.elapsed().as_secs()));
            }
        }
    });
    futures_util::future::join_all(calls).await;
    let finished = finished.into_inner().unwrap();
    assert_eq!(finished, [(0, 0), (1, 1), (2, 2), (7, 3), (8, 4), (9, 5)]);
    assert_eq!(service.log().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_too_late_is_refused_at_once() {
    let service = Service::start(Duration::ZERO, [(200, None)]).await;
    let client = service
        .builder()
        .rate_limit(0.5)
        .timeout(5 * SECOND)
        .build()
        .unwrap();
    let began = Instant::now();
    let calls = (0..6).map(|_| async {
        let outcome = client.agents().create(ada()).await.map(drop);
        (outcome, began.elapsed().as_secs())
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

/// The calls of a stream stand still while its program waits for another call: they must not hold it up forever.
#[tokio::test(start_paused = true)]
async fn calls_that_nobody_looks_after_do_not_stop_the_others() {
    let service = Service::start(Duration::ZERO, [(200, None)]).await;
    let client = service.builder().rate_limit(10.0).build().unwrap();
    let ids = (0..20).map(|number| format!("d_{number}"));
    let mut deals = client.deals().retrieve_many(ids).concurrency(16).stream();
    let began = Instant::now();
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
    assert!(began.elapsed() < 15 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_shares_a_limit() {
    for (name, other_rate, key, is_shared) in [
        ("the same", Some(1.0), KEY, true),
        ("another limit", Some(2.0), KEY, false),
        ("no limit", None, KEY, false),
        ("another key", Some(1.0), "another", false),
    ] {
        let service = Service::start(Duration::ZERO, [(200, None)]).await;
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
async fn a_success_after_a_retry_gives_it_back() {
    let judgements = [(503, None), (200, None)].into_iter().cycle();
    let service = Service::start(Duration::ZERO, judgements).await;
    let client = service.builder().build().unwrap();
    for _ in 0..200 {
        let call = client.deals().retrieve("d_1").with_response();
        assert_eq!(call.await.unwrap().attempts(), 2);
    }
}
