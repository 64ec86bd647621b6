//! Calls over a distance and through TLS, and the CPU of calls on loopback, beside bare reqwest.
//!
//! `cargo bench --package dealkit --bench network`. Words after `--` choose: the tables whose titles hold one of them,
//! such as `CPU`, are measured and the others are not. With `--serve FOLDER` it serves instead, until standard input
//! ends, for the benchmark in Python: it writes the certificate into the folder, and prints the URL.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a program for developers, which prints"
)]

mod support;

use std::{
    io::Read as _,
    time::{Duration, Instant},
};

use bytes::Bytes;
use dealkit::{Agent, AgentProfile, Client, CreateAgent, Deal};
use futures_util::{StreamExt as _, stream};
use support::{
    distance,
    rounds::{Turn, compare},
    service::{KEY, Service},
};
use tokio::runtime::Runtime;

const ROUND_TRIP: Duration = Duration::from_millis(30);
const TOGETHER: usize = 16;
const MANY: usize = 64;

const BARE: &str = "reqwest + serde_json";
const OURS: &str = "dealkit";

fn main() {
    let service = Service::start();
    let far = distance::to(service.tls, ROUND_TRIP);
    let far = format!("https://localhost:{}", far.port());
    let arguments: Vec<_> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--serve") {
        let certificate = format!("{}/certificate.pem", arguments[at + 1]);
        std::fs::write(&certificate, &service.certificate).unwrap();
        println!("{far} {certificate}");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        return;
    }
    let chosen: Vec<_> = arguments[1..]
        .iter()
        .filter(|word| !word.starts_with("--"))
        .cloned()
        .collect();
    let compare = |title: &str, rounds, contenders| {
        if chosen.is_empty() || chosen.iter().any(|word| title.contains(word)) {
            compare(title, rounds, contenders);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let over_tls = Contenders::new(&far, Some(&service.certificate));
    for (together, calls, rounds) in [(1, 10, 15), (TOGETHER, 4 * TOGETHER, 15)] {
        let title = format!("over TLS at 30 ms, {together} in flight, wall clock");
        let turn = Turns::new(&runtime, together, calls, wall_clock);
        compare(&format!("create {title}"), rounds, over_tls.creates(turn));
        compare(
            &format!("retrieve {title}"),
            rounds,
            over_tls.retrieves(turn),
        );
    }
    let loopback = Contenders::new(&format!("http://{}", service.plain), None);
    for together in [1, TOGETHER, MANY] {
        let title = format!("on loopback, {together} in flight, CPU");
        let turn = Turns::new(&runtime, together, 512, thread_cpu);
        compare(&format!("create {title}"), 31, loopback.creates(turn));
        compare(&format!("retrieve {title}"), 31, loopback.retrieves(turn));
        let title = format!("retrieve without reading {title}");
        compare(&title, 31, loopback.raw_retrieves(turn));
    }
    let title = format!("on loopback, {MANY} in flight, CPU");
    let turn = Turns::new(&runtime, MANY, 512, thread_cpu);
    compare(
        &format!("retrieve_many {title}"),
        31,
        loopback.retrieves_of_many(turn),
    );
    let title = format!("retrieve_many without reading {title}");
    compare(&title, 31, loopback.raw_retrieves_of_many(turn));
}

/// Time since some moment.
type Clock = fn() -> Duration;

fn wall_clock() -> Duration {
    static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    BEGAN.elapsed()
}

/// CPU time of this thread, on which the client's runtime runs; the service is on others.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

struct Contenders {
    url: String,
    dealkit: Client,
    reqwest: reqwest::Client,
    request: CreateAgent,
}

fn request() -> CreateAgent {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new().tier("A"))
        .build()
        .unwrap()
}

impl Contenders {
    fn new(url: &str, certificate: Option<&str>) -> Self {
        let mut dealkit = Client::builder().base_url(url).service_key(KEY);
        let mut reqwest = reqwest::Client::builder();
        if let Some(pem) = certificate {
            dealkit = dealkit.only_root_certificates(pem);
            reqwest =
                reqwest.tls_certs_only([reqwest::Certificate::from_pem(pem.as_bytes()).unwrap()]);
        }
        Self {
            url: url.to_owned(),
            dealkit: dealkit.build().unwrap(),
            reqwest: reqwest.no_proxy().build().unwrap(),
            request: request(),
        }
    }

    fn creates<'t>(&'t self, turns: Turns<'t>) -> Vec<(&'t str, Turn<'t>)> {
        vec![
            (BARE, turns.of_calls(|| self.reqwest_create())),
            (OURS, turns.of_calls(|| self.create())),
        ]
    }

    fn retrieves<'t>(&'t self, turns: Turns<'t>) -> Vec<(&'t str, Turn<'t>)> {
        vec![
            (BARE, turns.of_calls(|| self.reqwest_retrieve())),
            (OURS, turns.of_calls(|| self.retrieve())),
        ]
    }

    /// What is left without the reading of deals.
    fn raw_retrieves<'t>(&'t self, turns: Turns<'t>) -> Vec<(&'t str, Turn<'t>)> {
        vec![
            (
                BARE,
                turns.of_calls(|| async { drop(self.reqwest_body().await) }),
            ),
            (OURS, turns.of_calls(|| self.raw_retrieve())),
        ]
    }

    fn retrieves_of_many<'t>(&'t self, turns: Turns<'t>) -> Vec<(&'t str, Turn<'t>)> {
        let Turns {
            together, calls, ..
        } = turns;
        let bare = async move || {
            let mut deals = stream::iter(0..calls)
                .map(|_| self.reqwest_retrieve())
                .buffered(together);
            while deals.next().await.is_some() {}
        };
        let ours = async move || {
            let many = self.dealkit.deals().retrieve_many(ids(calls));
            let mut deals = many.concurrency(together).stream();
            while let Some(deal) = deals.next().await {
                deal.result.unwrap();
            }
        };
        vec![
            (BARE, turns.of(move |runtime| runtime.block_on(bare()))),
            (OURS, turns.of(move |runtime| runtime.block_on(ours()))),
        ]
    }

    fn raw_retrieves_of_many<'t>(&'t self, turns: Turns<'t>) -> Vec<(&'t str, Turn<'t>)> {
        let Turns {
            together, calls, ..
        } = turns;
        let bare = async move || {
            let mut bodies = stream::iter(0..calls)
                .map(|_| self.reqwest_body())
                .buffered(together);
            while bodies.next().await.is_some() {}
        };
        let ours = async move || {
            let many = self.dealkit.deals().retrieve_many(ids(calls));
            let mut responses = many.raw_responses().concurrency(together).stream();
            while let Some(response) = responses.next().await {
                response.result.unwrap();
            }
        };
        vec![
            (BARE, turns.of(move |runtime| runtime.block_on(bare()))),
            (OURS, turns.of(move |runtime| runtime.block_on(ours()))),
        ]
    }

    async fn create(&self) {
        let agent = self
            .dealkit
            .agents()
            .create(self.request.clone())
            .await
            .unwrap();
        assert_eq!(agent.id, "a_1");
    }

    async fn retrieve(&self) {
        self.dealkit.deals().retrieve("d_1").await.unwrap();
    }

    async fn raw_retrieve(&self) {
        let call = self.dealkit.deals().retrieve("d_1").raw_response();
        call.await.unwrap();
    }

    async fn reqwest_create(&self) {
        let body = serde_json::to_vec(&self.request).unwrap();
        let call = self
            .reqwest
            .post(format!("{}/v1/agents", self.url))
            .header("x-service-key", KEY)
            .header("content-type", "application/json")
            .body(body);
        let body = call.send().await.unwrap().bytes().await.unwrap();
        let agent: Agent = serde_json::from_slice(&body).unwrap();
        assert_eq!(agent.id, "a_1");
    }

    async fn reqwest_retrieve(&self) {
        let body = self.reqwest_body().await;
        let _: Deal = serde_json::from_slice(&body).unwrap();
    }

    async fn reqwest_body(&self) -> Bytes {
        let call = self
            .reqwest
            .get(format!("{}/v1/deals/d_1", self.url))
            .header("x-service-key", KEY);
        call.send().await.unwrap().bytes().await.unwrap()
    }
}

fn ids(count: usize) -> impl Iterator<Item = &'static str> {
    std::iter::repeat_n("d_1", count)
}

/// How turns are measured.
#[derive(Clone, Copy)]
struct Turns<'t> {
    runtime: &'t Runtime,
    together: usize,
    /// How many calls a turn makes.
    calls: usize,
    clock: Clock,
}

impl<'t> Turns<'t> {
    fn new(runtime: &'t Runtime, together: usize, calls: usize, clock: Clock) -> Self {
        Self {
            runtime,
            together,
            calls,
            clock,
        }
    }

    /// Turns that make calls, so many of them together.
    fn of_calls<F: Future<Output = ()> + 't>(self, call: impl Fn() -> F + 't) -> Turn<'t> {
        self.of(move |runtime| {
            runtime.block_on(async {
                let mut calls = stream::iter(0..self.calls)
                    .map(|_| call())
                    .buffer_unordered(self.together);
                while calls.next().await.is_some() {}
            });
        })
    }

    fn of(self, turn: impl Fn(&Runtime) + 't) -> Turn<'t> {
        Box::new(move || {
            let began = (self.clock)();
            turn(self.runtime);
            ((self.clock)() - began) / u32::try_from(self.calls).unwrap()
        })
    }
}
