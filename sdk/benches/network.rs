//! Calls over a distance and through TLS, and the CPU of calls on loopback, beside bare reqwest.
//!
//! `cargo bench --package dealkit --bench network`. With `--serve FOLDER` it serves instead, until standard input
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let over_tls = Contenders::new(&far, Some(&service.certificate));
    for (together, calls, rounds) in [(1, 10, 15), (TOGETHER, 4 * TOGETHER, 15)] {
        let title = format!("over TLS at 30 ms, {together} in flight, wall clock");
        over_tls.compare(&title, &runtime, together, calls, rounds, wall_clock);
    }
    let loopback = Contenders::new(&format!("http://{}", service.plain), None);
    for together in [1, TOGETHER] {
        let title = format!("on loopback, {together} in flight, CPU");
        loopback.compare(&title, &runtime, together, 512, 31, thread_cpu);
    }
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

    fn compare(
        &self,
        title: &str,
        runtime: &Runtime,
        together: usize,
        calls: usize,
        rounds: usize,
        clock: Clock,
    ) {
        let creates: Vec<(&str, Turn<'_>)> = vec![
            (
                "reqwest + serde_json",
                turn(runtime, together, calls, clock, || self.reqwest_create()),
            ),
            (
                "dealkit",
                turn(runtime, together, calls, clock, || self.create()),
            ),
        ];
        compare(&format!("create {title}"), rounds, creates);
        let retrieves: Vec<(&str, Turn<'_>)> = vec![
            (
                "reqwest + serde_json",
                turn(runtime, together, calls, clock, || self.reqwest_retrieve()),
            ),
            (
                "dealkit",
                turn(runtime, together, calls, clock, || self.retrieve()),
            ),
        ];
        compare(&format!("retrieve {title}"), rounds, retrieves);
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
        let call = self
            .reqwest
            .get(format!("{}/v1/deals/d_1", self.url))
            .header("x-service-key", KEY);
        let body = call.send().await.unwrap().bytes().await.unwrap();
        let _: Deal = serde_json::from_slice(&body).unwrap();
    }
}

fn turn<'t, F: Future<Output = ()> + 't>(
    runtime: &'t Runtime,
    together: usize,
    calls: usize,
    clock: Clock,
    call: impl Fn() -> F + 't,
) -> Turn<'t> {
    Box::new(move || {
        let began = clock();
        runtime.block_on(async {
            let mut calls = stream::iter(0..calls)
                .map(|_| call())
                .buffer_unordered(together);
            while calls.next().await.is_some() {}
        });
        (clock() - began) / u32::try_from(calls).unwrap()
    })
}
