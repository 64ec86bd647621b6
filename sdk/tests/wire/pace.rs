//! The rate of a service that does not let its clients know it, or does: how much of it they use, how many of their
//! requests it refuses, and how they share it.
//!
//! The service is a transport, and time is Tokio's paused clock: nothing depends on how busy the machine is.

use std::{
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use dealkit::{Client, ClientBuilder};
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::peer::{DEAL, KEY};

/// How a service counts requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counts {
    /// As many as this at once, filled up evenly.
    Bucket(f64),
    /// As many as this in each window, which begins when the clock has gone round.
    Window(f64),
    Nothing,
}

/// What a service allows each second, on average, and what it says of that.
#[derive(Clone, Copy, Debug)]
struct Limit {
    counts: Counts,
    rate: f64,
    says_when: bool,
    says_how_many: bool,
}

#[derive(Debug)]
struct State {
    limit: Limit,
    began: Instant,
    /// What is left, and as of when.
    left: f64,
    at: f64,
    /// For each client, when it was let in.
    good: Vec<Vec<f64>>,
    refused: Vec<f64>,
}

impl State {
    /// Lets a request in, or says after how many seconds to come back; and how much is left.
    fn take(&mut self, client: usize) -> Result<(), f64> {
        // The clock of the service did not go round just as the clients began.
        let now = self.began.elapsed().as_secs_f64() + 0.63;
        let (before, passed) = (self.at, now - self.at);
        self.at = now;
        let wait = match self.limit.counts {
            Counts::Nothing => {
                self.good[client].push(now);
                return Ok(());
            }
            Counts::Bucket(burst) => {
                self.left = burst.min(self.left + passed * self.limit.rate);
                (1.0 - self.left) / self.limit.rate
            }
            Counts::Window(quota) => {
                let window = quota / self.limit.rate;
                if (now / window).floor() > (before / window).floor() {
                    self.left = quota;
                }
                window - now % window
            }
        };
        if self.left < 1.0 {
            self.refused.push(now);
            return Err(wait);
        }
        self.left -= 1.0;
        self.good[client].push(now);
        Ok(())
    }

    fn respond(&mut self, client: usize) -> Response<Full<Bytes>> {
        let taken = self.take(client);
        let mut response = Response::builder().status(if taken.is_ok() { 200 } else { 429 });
        if let Err(wait) = taken
            && self.limit.says_when
        {
            response = response.header("retry-after", wait.ceil().to_string());
        }
        if let (Counts::Bucket(quota) | Counts::Window(quota), true) =
            (self.limit.counts, self.limit.says_how_many)
        {
            let window = (quota / self.limit.rate).ceil();
            response = response
                .header("ratelimit-policy", format!("\"key\";q={quota};w={window}"))
                .header(
                    "ratelimit",
                    format!("\"key\";r={};t={window}", self.left.floor()),
                );
        }
        let body = if taken.is_ok() { DEAL } else { "" };
        response.body(Full::from(body)).unwrap()
    }
}

/// What came of clients with work that never ends, in percent.
#[derive(Debug)]
struct Outcome {
    /// Of what the service allows, without the first seconds.
    good: u32,
    refused: u32,
    /// Of the rate of the client that had the most, the rate of the one that had the least.
    fair: u32,
}

impl Limit {
    /// Clients begin this many milliseconds apart, and a little more.
    async fn serve(self, clients: usize, apart: u64, first: f64, last: f64) -> Outcome {
        // The clients' jitter is of this thread too.
        fastrand::seed(7);
        let quota = match self.counts {
            Counts::Bucket(quota) | Counts::Window(quota) => quota,
            Counts::Nothing => 0.0,
        };
        let state = Arc::new(Mutex::new(State {
            limit: self,
            began: Instant::now(),
            left: quota,
            at: 0.63,
            good: vec![Vec::new(); clients],
            refused: Vec::new(),
        }));
        let end = Instant::now() + Duration::from_secs_f64(last);
        let work = (0..).zip(0..clients).map(|(before, by)| {
            let state = Arc::clone(&state);
            // Each is 20 to 100 ms away.
            let reached = service_fn(move |_: Request<Bytes>| {
                let (there, state) = (Duration::from_millis(fastrand::u64(10..50)), state.clone());
                async move {
                    sleep(there).await;
                    let response = state.lock().unwrap().respond(by);
                    sleep(there).await;
                    Ok::<_, Infallible>(response)
                }
            });
            let client = builder().transport(reached).build().unwrap();
            async move {
                sleep(Duration::from_millis(before * apart + fastrand::u64(0..50))).await;
                let calls = (0..64).map(|_| async {
                    while Instant::now() < end {
                        let _ = client.deals().retrieve("d_1").await;
                    }
                });
                join_all(calls).await;
            }
        });
        let _ = tokio::time::timeout_at(end, join_all(work)).await;
        let state = state.lock().unwrap();
        let count = |times: &Vec<f64>| {
            let within = times.iter().map(|at| at - 0.63);
            within.filter(|at| (first..last).contains(at)).count() as f64
        };
        let good: Vec<_> = state.good.iter().map(count).collect();
        let (all, refused) = (good.iter().sum::<f64>(), count(&state.refused));
        let most = good.iter().copied().fold(0.0, f64::max);
        let least = good.iter().copied().fold(f64::MAX, f64::min);
        let percent = |part: f64, whole: f64| (100.0 * part / whole) as u32;
        Outcome {
            good: percent(all, self.rate * (last - first)),
            refused: percent(refused, all + refused),
            fair: percent(least, most),
        }
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .base_url("https://deals.example.com")
        .service_key(KEY)
}

#[tokio::test(start_paused = true)]
async fn clients_find_the_rate_and_share_it() {
    // Whether the service says when to come back, and how much is left.
    let (silent, when, how_many) = ((false, false), (true, false), (false, true));
    let (bucket, window) = (Counts::Bucket(500.0), Counts::Window(500.0));
    // How many percent of the rate are used at least, and how the client with the least compares with the one with the most.
    for (counts, (says_when, says_how_many), clients, good, fair) in [
        (bucket, silent, 1, 98, 100),
        (bucket, silent, 8, 98, 60),
        (bucket, when, 1, 95, 100),
        (bucket, when, 8, 95, 40),
        (bucket, how_many, 8, 99, 90),
        (window, silent, 1, 93, 100),
        (window, silent, 8, 95, 60),
        (window, when, 1, 75, 100),
        (window, how_many, 8, 93, 60),
    ] {
        let limit = Limit {
            counts,
            rate: 500.0,
            says_when,
            says_how_many,
        };
        let outcome = limit.serve(clients, 0, 5.0, 15.0).await;
        let what = format!("{clients} clients, {limit:?}: {outcome:?}");
        assert!(outcome.good >= good, "{what}");
        assert!(outcome.refused <= 1, "{what}");
        assert!(outcome.fair >= fair, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_begin_apart_share_the_rate() {
    let (bucket, window) = (Counts::Bucket(500.0), Counts::Window(500.0));
    for (counts, says_when, clients, apart, good, fair) in [
        (bucket, false, 2, 500, 93, 45),
        (bucket, false, 8, 100, 93, 45),
        (window, false, 2, 500, 93, 45),
        (window, false, 8, 100, 93, 45),
        (bucket, true, 2, 500, 95, 90),
        (bucket, true, 8, 100, 95, 40),
        (window, true, 2, 500, 65, 90),
        (window, true, 8, 100, 65, 50),
    ] {
        let limit = Limit {
            counts,
            rate: 500.0,
            says_when,
            says_how_many: false,
        };
        let outcome = limit.serve(clients, apart, 5.0, 20.0).await;
        let what = format!("{clients} clients, {limit:?}: {outcome:?}");
        assert!(outcome.good >= good, "{what}");
        assert!(outcome.refused <= 1, "{what}");
        assert!(outcome.fair >= fair, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn little_that_is_left_makes_clients_slow() {
    // What the service says, and how many milliseconds there are between two calls.
    for (policy, left, interval) in [
        (r#""key";q=10;w=1"#, r#""key";r=1;t=1"#, 391),
        ("key; q=10; w=1; pk=:a2V5:", "key; r=5; t=1", 44),
        (
            r#""a";q=10;w=1, "b";q=100;w=10"#,
            r#""a";r=9, "b";r=10"#,
            391,
        ),
        (r#""key";q=10;w=1"#, r#""key";r=0;t=1"#, 1_000),
        (r#""key";q=100;w=1"#, r#""key";r=0"#, 200),
        // None, as far as a client knows.
        (r#""key";q=10;w=1"#, r#""key";r=10;t=1"#, 0),
        (r#""key";q=10;w=1"#, r#""another";r=0;t=1"#, 0),
        (r#""key";q=1000;w=86400"#, r#""key";r=0;t=86400"#, 0),
        (r#""key";q=10;w=1;qu="content-bytes""#, r#""key";r=0"#, 0),
        (r#""key";q=0;w=0"#, r#""key";r=0"#, 0),
        ("10", "0", 0),
    ] {
        let says = service_fn(move |_: Request<Bytes>| {
            let response = Response::builder().header("ratelimit-policy", policy);
            let response = response
                .header("ratelimit", left)
                .body(Full::<Bytes>::from(DEAL));
            ready(Ok::<_, Infallible>(response.unwrap()))
        });
        let client = builder().transport(says).build().unwrap();
        let began = Instant::now();
        for _ in 0..3 {
            client.deals().retrieve("d_1").await.unwrap();
        }
        // The timer counts in milliseconds.
        let took = began.elapsed().as_millis().abs_diff(interval);
        assert!(took <= 2, "{policy} {left}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_without_a_limit_is_used_in_full() {
    let limit = Limit {
        counts: Counts::Nothing,
        rate: 64.0 / 0.06,
        says_when: false,
        says_how_many: false,
    };
    assert!(limit.serve(1, 0, 0.0, 3.0).await.good > 95);
}

/// A client that is limited once, has little to send for a while, and then much. The rate must not have grown unused.
#[tokio::test(start_paused = true)]
async fn a_quiet_minute_raises_no_rate() {
    for says_when in [false, true] {
        fastrand::seed(7);
        let limit = Limit {
            counts: Counts::Bucket(100.0),
            rate: 100.0,
            says_when,
            says_how_many: false,
        };
        let began = Instant::now();
        let state = Arc::new(Mutex::new(State {
            limit,
            began,
            left: 100.0,
            at: 0.63,
            good: vec![Vec::new()],
            refused: Vec::new(),
        }));
        let service = Arc::clone(&state);
        let reached = service_fn(move |_: Request<Bytes>| {
            let (there, state) = (
                Duration::from_millis(fastrand::u64(10..50)),
                service.clone(),
            );
            async move {
                sleep(there).await;
                let response = state.lock().unwrap().respond(0);
                sleep(there).await;
                Ok::<_, Infallible>(response)
            }
        });
        let client = builder().transport(reached).build().unwrap();
        let retrieve = || async { client.deals().retrieve("d_1").await };
        join_all((0..150).map(|_| retrieve())).await;
        assert!(!state.lock().unwrap().refused.is_empty(), "no 429");
        for _ in 0..45 {
            sleep(Duration::from_secs(1)).await;
            retrieve().await.unwrap();
        }
        state.lock().unwrap().refused.clear();
        let (load, end) = (began.elapsed(), Instant::now() + Duration::from_secs(30));
        let calls = (0..64).map(|_| async {
            while Instant::now() < end {
                let _ = retrieve().await;
            }
        });
        join_all(calls).await;
        let state = state.lock().unwrap();
        let loaded = load.as_secs_f64() + 0.63;
        for seconds in [0.0, 10.0, 20.0].map(|later| loaded + later) {
            let within = |times: &[f64]| {
                let times = times.iter();
                times
                    .filter(|at| (seconds..seconds + 10.0).contains(*at))
                    .count()
            };
            let (good, refused) = (within(&state.good[0]), within(&state.refused));
            let what =
                format!("says when: {says_when}, from {seconds}: {good} and {refused} refused");
            assert!(refused <= 50, "{what}");
            assert!(good >= 700, "{what}");
        }
    }
}
