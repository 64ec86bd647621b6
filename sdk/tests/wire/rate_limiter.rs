//! The rate limiter against simulated services with a limit: how much of the limit clients use, how many of their requests are
//! rejected, and how clients share the limit.
//!
//! The service is a transport, and the clock is Tokio's paused clock, so a minute takes no time and the results depend only on
//! the seed of the latencies. `make bench-rate` measures the same in real time.

use std::{
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use dealkit::{Client, ClientBuilder, RetryPolicy};
use futures_util::future::join_all;
use http::{Request, Response, response};
use http_body_util::Full;
use tokio::{
    task::yield_now,
    time::{Instant, advance, sleep, timeout_at},
};
use tower::service_fn;

use crate::peer::{DEAL, KEY};

/// The calls that each client keeps in flight.
const IN_FLIGHT: usize = 64;

/// Clients and service start at this time, in seconds of the service's clock: fixed windows begin at whole seconds.
const START: f64 = 0.63;

/// The way in which a service counts requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Algorithm {
    /// A bucket with this many tokens.
    TokenBucket(f64),
    /// Windows that accept this many requests each.
    FixedWindow(f64),
    NoLimit,
}

/// A service's limit and the headers that describe it.
#[derive(Clone, Copy, Debug)]
struct Limit {
    algorithm: Algorithm,
    /// The average rate that the service accepts, in requests per second.
    rate: f64,
    has_retry_after: bool,
    has_rate_limit: bool,
}

impl Limit {
    /// Creates the limit of a service that accepts as many requests at once as in a second.
    fn bucket(rate: f64) -> Self {
        Self {
            algorithm: Algorithm::TokenBucket(rate),
            rate,
            has_retry_after: false,
            has_rate_limit: false,
        }
    }
}

/// A request as the service counted it.
#[derive(Clone, Copy, Debug)]
struct Counted {
    client: usize,
    /// In seconds since the start.
    at: f64,
    is_accepted: bool,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    start: Instant,
    tokens: f64,
    /// When the tokens were last updated, in seconds of the service's clock.
    updated: f64,
    counted: Vec<Counted>,
}

impl State {
    /// Counts a request. Returns the seconds after which the service accepts the next one, if it rejects this one.
    fn count(&mut self, client: usize) -> Result<(), f64> {
        let at = self.start.elapsed().as_secs_f64();
        let now = START + at;
        let (before, passed) = (self.updated, now - self.updated);
        self.updated = now;
        let wait = match self.limit.algorithm {
            Algorithm::NoLimit => {
                self.tokens = f64::INFINITY;
                0.0
            }
            Algorithm::TokenBucket(capacity) => {
                self.tokens = capacity.min(self.tokens + passed * self.limit.rate);
                (1.0 - self.tokens) / self.limit.rate
            }
            Algorithm::FixedWindow(quota) => {
                let window = quota / self.limit.rate;
                if (now / window).floor() > (before / window).floor() {
                    self.tokens = quota;
                }
                window - now % window
            }
        };
        let is_accepted = self.tokens >= 1.0;
        self.counted.push(Counted {
            client,
            at,
            is_accepted,
        });
        if !is_accepted {
            return Err(wait);
        }
        self.tokens -= 1.0;
        Ok(())
    }

    fn respond(&mut self, client: usize) -> Response<Full<Bytes>> {
        let counted = self.count(client);
        let status = if counted.is_ok() { 200 } else { 429 };
        let mut response = Response::builder().status(status);
        if let Err(wait) = counted
            && self.limit.has_retry_after
        {
            response = response.header("retry-after", wait.ceil().to_string());
        }
        if self.limit.has_rate_limit {
            response = self.add_rate_limit(response);
        }
        let body = if counted.is_ok() { DEAL } else { "" };
        response.body(Full::from(body)).unwrap()
    }

    fn add_rate_limit(&self, response: response::Builder) -> response::Builder {
        let (quota, reset) = match self.limit.algorithm {
            Algorithm::NoLimit => return response,
            Algorithm::TokenBucket(capacity) => {
                (capacity, (capacity - self.tokens) / self.limit.rate)
            }
            Algorithm::FixedWindow(quota) => {
                let window = quota / self.limit.rate;
                (quota, window - self.updated % window)
            }
        };
        let window = (quota / self.limit.rate).ceil();
        let (remaining, reset) = (self.tokens.floor(), reset.ceil());
        response
            .header("ratelimit-policy", format!("\"key\";q={quota};w={window}"))
            .header("ratelimit", format!("\"key\";r={remaining};t={reset}"))
    }
}

/// A simulated service, 20 to 100 ms away from its clients.
#[derive(Clone)]
struct Simulation(Arc<Mutex<State>>);

/// The results of a period, in percent.
#[derive(Debug)]
struct Shares {
    /// Accepted requests, of those that the limit allows.
    used: f64,
    /// Rejected requests, of all.
    rejected: f64,
    /// Accepted requests of the client with the fewest, divided by the number of the client with the most.
    fairness: f64,
}

impl Simulation {
    fn start(limit: Limit, seed: u64) -> Self {
        // Retry delays use the same generator.
        fastrand::seed(seed);
        let tokens = match limit.algorithm {
            Algorithm::TokenBucket(tokens) | Algorithm::FixedWindow(tokens) => tokens,
            Algorithm::NoLimit => 0.0,
        };
        Self(Arc::new(Mutex::new(State {
            limit,
            start: Instant::now(),
            tokens,
            updated: START,
            counted: Vec::new(),
        })))
    }

    fn builder(&self, client: usize) -> ClientBuilder {
        let state = Arc::clone(&self.0);
        builder().transport(service_fn(move |_: Request<Bytes>| {
            let latency = Duration::from_millis(fastrand::u64(10..50));
            let state = Arc::clone(&state);
            async move {
                sleep(latency).await;
                let response = state.lock().unwrap().respond(client);
                sleep(latency).await;
                Ok::<_, Infallible>(response)
            }
        }))
    }

    /// Runs clients that start at this interval in milliseconds, and keep calls in flight until the end, in seconds.
    async fn run(limit: Limit, seed: u64, clients: usize, interval: u64, end: f64) -> Self {
        let simulation = Self::start(limit, seed);
        let end = Instant::now() + Duration::from_secs_f64(end);
        let work = (0..).zip(0..clients).map(|(earlier, number)| {
            let client = simulation.builder(number).build().unwrap();
            async move {
                let jitter = fastrand::u64(0..50);
                sleep(Duration::from_millis(earlier * interval + jitter)).await;
                load(&client, end).await;
            }
        });
        let _ = timeout_at(end, join_all(work)).await;
        simulation
    }

    fn since_start(&self) -> f64 {
        self.0.lock().unwrap().start.elapsed().as_secs_f64()
    }

    /// Returns the numbers of accepted and rejected requests in a period, in seconds since the start.
    fn count(&self, from: f64, to: f64, client: Option<usize>) -> (f64, f64) {
        let state = self.0.lock().unwrap();
        let counted = state.counted.iter().filter(|counted| {
            (from..to).contains(&counted.at) && client.is_none_or(|client| client == counted.client)
        });
        let (accepted, rejected) =
            counted.partition::<Vec<&Counted>, _>(|counted| counted.is_accepted);
        (accepted.len() as f64, rejected.len() as f64)
    }

    fn shares(&self, clients: usize, from: f64, to: f64) -> Shares {
        let rate = self.0.lock().unwrap().limit.rate;
        let (accepted, rejected) = self.count(from, to, None);
        let of_client = |client| self.count(from, to, Some(client)).0;
        let fewest = (0..clients).map(of_client).fold(f64::INFINITY, f64::min);
        let most = (0..clients).map(of_client).fold(1.0, f64::max);
        Shares {
            used: 100.0 * accepted / (rate * (to - from)),
            rejected: 100.0 * rejected / (accepted + rejected).max(1.0),
            fairness: 100.0 * fewest / most,
        }
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .base_url("https://deals.example.com")
        .service_key(KEY)
}

/// Keeps calls in flight until the end.
async fn load(client: &Client, end: Instant) {
    let calls = (0..IN_FLIGHT).map(|_| async {
        while Instant::now() < end {
            let _ = client.deals().retrieve("d_1").await;
        }
    });
    join_all(calls).await;
}

#[tokio::test(start_paused = true)]
async fn one_or_two_clients_use_a_token_bucket_and_are_rarely_rejected() {
    for (clients, interval) in [(1, 0), (2, 0), (2, 500)] {
        for seed in 0..3 {
            let simulation =
                Simulation::run(Limit::bucket(500.0), seed, clients, interval, 20.0).await;
            let shares = simulation.shares(clients, 5.0, 20.0);
            let case = format!("{clients} clients, {interval} ms apart, seed {seed}: {shares:?}");
            assert!(shares.used >= 85.0, "{case}");
            assert!(shares.rejected <= 2.0, "{case}");
        }
    }
}

/// A client that has reached the limit, and then sends little for a while, does not exceed the limit much when it is busy again.
#[tokio::test(start_paused = true)]
async fn a_client_is_rarely_rejected_after_a_quiet_minute() {
    for has_retry_after in [false, true] {
        for busy_before in [0, 10] {
            let limit = Limit {
                has_retry_after,
                ..Limit::bucket(100.0)
            };
            let simulation = Simulation::start(limit, 7);
            let client = simulation.builder(0).build().unwrap();
            let retrieve = || async { client.deals().retrieve("d_1").await };
            join_all((0..150).map(|_| retrieve())).await;
            load(&client, Instant::now() + Duration::from_secs(busy_before)).await;
            let (_, rejected) = simulation.count(0.0, simulation.since_start(), None);
            assert!(rejected > 0.0, "no rejection");
            for _ in 0..60 {
                sleep(Duration::from_secs(1)).await;
                retrieve().await.unwrap();
            }
            let busy = simulation.since_start();
            load(&client, Instant::now() + Duration::from_secs(10)).await;
            let (accepted, rejected) = simulation.count(busy, busy + 10.0, None);
            let case = format!(
                "Retry-After: {has_retry_after}, busy before for {busy_before} s: {accepted} accepted, {rejected} rejected"
            );
            assert!(rejected <= 10.0, "{case}");
            assert!(accepted >= 850.0, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_rate_limit_sends_at_exactly_that_rate() {
    for rate_limit in [20.0, 400.0, 500.0] {
        let simulation = Simulation::start(Limit::bucket(500.0), 7);
        let client = simulation.builder(0).rate_limit(rate_limit);
        let client = client.build().unwrap();
        load(&client, Instant::now() + Duration::from_secs(15)).await;
        let (accepted, rejected) = simulation.count(5.0, 15.0, None);
        // The latencies of the first and last requests of the period differ by up to 40 ms.
        let difference = (accepted - 10.0 * rate_limit).abs();
        assert!(
            difference <= 1.0 + 0.04 * rate_limit,
            "{accepted} at {rate_limit}"
        );
        assert!(rejected == 0.0, "{rejected} rejected at {rate_limit}");
    }
}

/// On a busy machine, timers fire late: here, the clock advances in steps of several intervals.
#[tokio::test(start_paused = true)]
async fn late_timers_do_not_lower_a_rate_limit() {
    let simulation = Simulation::start(Limit::bucket(500.0), 7);
    let client = simulation.builder(0).rate_limit(400.0).build().unwrap();
    let work = load(&client, Instant::now() + Duration::from_secs(6));
    let clock = async {
        loop {
            for _ in 0..20 {
                yield_now().await;
            }
            advance(Duration::from_millis(7)).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = clock => {}
    }
    let (accepted, rejected) = simulation.count(1.0, 6.0, None);
    assert!((1_980.0..=2_020.0).contains(&accepted), "{accepted}");
    assert!(rejected == 0.0, "{rejected} rejected");
}

/// If a service rejects all calls for the length of a round trip, the rate falls to 70 %, and not further.
#[tokio::test(start_paused = true)]
async fn rejections_of_calls_in_flight_together_count_once() {
    let round_trip = Duration::from_millis(100);
    let start = Instant::now();
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&accepted);
    let overloaded = service_fn(move |_: Request<Bytes>| {
        let log = Arc::clone(&log);
        async move {
            sleep(round_trip / 2).await;
            let at = start.elapsed();
            let is_rejected = (2.0..2.1).contains(&at.as_secs_f64());
            if !is_rejected {
                log.lock().unwrap().push(at.as_secs_f64());
            }
            sleep(round_trip / 2).await;
            let response = Response::builder().status(if is_rejected { 429 } else { 200 });
            let body = Full::<Bytes>::from(if is_rejected { "" } else { DEAL });
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    });
    let client = builder().transport(overloaded).retry(RetryPolicy::never());
    let client = client.build().unwrap();
    load(&client, start + Duration::from_secs(4)).await;
    let accepted = accepted.lock().unwrap();
    let between = |from: f64, to: f64| {
        accepted
            .iter()
            .filter(|at| (from..to).contains(*at))
            .count()
    };
    let (before, after) = (between(1.0, 2.0), between(2.2, 2.7) * 2);
    assert!((600..=640).contains(&before), "{before} per second before");
    assert!((440..=470).contains(&after), "{after} per second after");
}

#[tokio::test(start_paused = true)]
async fn rate_limit_headers_determine_the_interval() {
    // The lines of both headers, and the milliseconds that three calls take.
    for (policies, limits, duration) in [
        // Half of the quota is left: the interval is that at which the service restores the quota.
        (&[r#""key";q=10;w=1"#][..], &[r#""key";r=5;t=1"#][..], 100),
        (&[r#""key";q=10;w=1"#], &[r#""key";r=1;t=1"#], 900),
        (&["key; q=10; w=1; pk=:a2V5:"], &["key; r=5; t=1"], 100),
        // The slowest of several quotas counts, in one line or in several.
        (
            &[r#""a";q=10;w=1, "b";q=100;w=10"#],
            &[r#""a";r=9, "b";r=10"#],
            900,
        ),
        (
            &[r#""a";q=10;w=1"#, r#""b";q=100;w=10"#],
            &[r#""a";r=9"#, r#""b";r=10"#],
            900,
        ),
        (
            &[r#""a";q=10;w=1, "b";q=100;w=10"#],
            &[r#""b";r=10"#, r#""a";r=9"#],
            900,
        ),
        // Names may contain separators and escaped quotation marks.
        (&[r#""a,b;w=9";q=10;w=1"#], &[r#""a,b;w=9";r=1"#], 900),
        (&[r#""x", "a\",";q=10;w=1"#], &[r#""a\",";r=1"#], 900),
        // A quota that is used up pauses the client until its reset.
        (&[r#""key";q=10;w=9"#], &[r#""key";r=0;t=2"#], 4_000),
        (&[r#""key";q=10;w=2"#], &[r#""key";r=0"#], 4_000),
        // These do not slow down a client.
        (&[r#""key";q=10;w=1"#], &[r#""key";r=10;t=1"#], 0),
        (&[r#""key";q=10;w=1"#], &[r#""another";r=0;t=1"#], 0),
        (&[r#""key";q=1000;w=86400"#], &[r#""key";r=0;t=86400"#], 0),
        (
            &[r#""key";q=10;w=1;qu="content-bytes""#],
            &[r#""key";r=0"#],
            0,
        ),
        (&[r#""key";q=0;w=0"#], &[r#""key";r=0"#], 0),
        (&["10"], &["0"], 0),
        (&[r#"", ";;"#], &[r#"";"#], 0),
    ] {
        let transport = service_fn(move |_: Request<Bytes>| {
            let mut response = Response::builder();
            for policy in policies {
                response = response.header("ratelimit-policy", *policy);
            }
            for limit in limits {
                response = response.header("ratelimit", *limit);
            }
            ready(Ok::<_, Infallible>(
                response.body(Full::<Bytes>::from(DEAL)).unwrap(),
            ))
        });
        let client = builder().transport(transport).build().unwrap();
        let start = Instant::now();
        for _ in 0..3 {
            client.deals().retrieve("d_1").await.unwrap();
        }
        // The timer has a resolution of a millisecond.
        let difference = start.elapsed().as_millis().abs_diff(duration);
        assert!(
            difference <= 3,
            "{policies:?} {limits:?}: {:?}",
            start.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_without_a_limit_is_used_in_full() {
    let limit = Limit {
        algorithm: Algorithm::NoLimit,
        // Each call takes 59 ms on average.
        rate: IN_FLIGHT as f64 / 0.059,
        ..Limit::bucket(0.0)
    };
    let simulation = Simulation::run(limit, 7, 1, 0, 3.0).await;
    let shares = simulation.shares(1, 0.0, 3.0);
    assert!(shares.used > 95.0, "{shares:?}");
}

/// Prints the tables of `docs/reference/appendix.md`.
#[tokio::test(start_paused = true)]
#[ignore = "measures, and asserts nothing"]
async fn print_the_tables_of_the_guide() {
    const SEEDS: u64 = 5;
    let bucket = Limit::bucket(500.0);
    let window = Limit {
        algorithm: Algorithm::FixedWindow(500.0),
        ..bucket
    };
    let small = Limit {
        algorithm: Algorithm::TokenBucket(50.0),
        ..bucket
    };
    let slow = Limit::bucket(10.0);
    println!(
        "limit | headers | clients, interval | used: mean, least | rejected: mean, most | before 5 s | fairness"
    );
    for (name, limit) in [
        ("bucket", bucket),
        ("window", window),
        ("small", small),
        ("slow", slow),
    ] {
        for (headers, has_retry_after, has_rate_limit) in [
            ("none", false, false),
            ("Retry-After", true, false),
            ("RateLimit", false, true),
            ("both", true, true),
        ] {
            for (clients, interval) in [(1, 0), (2, 0), (2, 500), (8, 0), (8, 100)] {
                let limit = Limit {
                    has_retry_after,
                    has_rate_limit,
                    ..limit
                };
                let (mut later, mut first) = (Vec::new(), Vec::new());
                for seed in 0..SEEDS {
                    let simulation = Simulation::run(limit, seed, clients, interval, 20.0).await;
                    later.push(simulation.shares(clients, 5.0, 20.0));
                    first.push(simulation.shares(clients, 0.0, 5.0).rejected);
                }
                let mean =
                    |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / SEEDS as f64;
                let used = mean(&mut later.iter().map(|shares| shares.used));
                let least = later
                    .iter()
                    .map(|shares| shares.used)
                    .fold(f64::INFINITY, f64::min);
                let rejected = mean(&mut later.iter().map(|shares| shares.rejected));
                let most = later
                    .iter()
                    .map(|shares| shares.rejected)
                    .fold(0.0, f64::max);
                let first = mean(&mut first.into_iter());
                let fairness = mean(&mut later.iter().map(|shares| shares.fairness));
                println!(
                    "{name} | {headers} | {clients}, {interval} | {used:.0}, {least:.0} | {rejected:.1}, {most:.1} | \
                     {first:.1} | {fairness:.0}"
                );
            }
        }
    }
}
