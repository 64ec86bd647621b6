//! Calls on loopback, one at a time and many in flight, over HTTP/1.1 and HTTP/2, compared with bare reqwest and bare
//! hyper-util.
#![allow(
    clippy::unwrap_used,
    reason = "a program for developers, which stops at what is wrong"
)]

use clap::Parser as _;
use dealkit_benches::{
    Arguments, Bench, Table, Turn,
    calls::{Clients, turn, turn_of},
    clock::thread_cpu,
    memory,
    service::Service,
};
use tokio::runtime::Runtime;

/// CPU time of the thread that runs the client's runtime; the service runs on another.
const UNIT: &str = "µs CPU a call";
const IN_FLIGHT: usize = 64;

fn main() {
    let mut bench = Bench::new(Arguments::parse());
    let service = Service::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let over_http1 = Clients::new(&format!("http://{}", service.http1), None, false);
    let over_http2 = Clients::new(&format!("http://{}", service.http2), None, true);
    for (protocol, clients) in [("HTTP/1.1", &over_http1), ("HTTP/2", &over_http2)] {
        for in_flight in [1, IN_FLIGHT] {
            let table = |what: &str| {
                let name = format!("rust {what} {protocol}, {in_flight} in flight");
                let title = format!("Rust: {what} over {protocol}, {in_flight} in flight");
                Table::new(&name, title, UNIT)
            };
            bench.compare(
                table("retrieve"),
                retrieves(&runtime, clients, in_flight, 256),
            );
            bench.compare(table("create"), creates(&runtime, clients, in_flight, 256));
        }
        for concurrency in [16, IN_FLIGHT] {
            let name = format!("rust retrieve_many {protocol}, {concurrency} in flight");
            let title = format!("Rust: retrieve_many over {protocol}, {concurrency} in flight");
            bench.compare(
                Table::new(&name, title, UNIT),
                many(&runtime, clients, concurrency, 512),
            );
        }
    }
    for in_flight in [1, 4, 16, 64, 256, 1_024] {
        let table = Table::at(
            "rust retrieve by calls in flight",
            "calls in flight",
            in_flight,
            UNIT,
        );
        let calls = (2 * in_flight).max(256);
        bench.compare_in(
            11,
            table,
            retrieves(&runtime, &over_http1, in_flight, calls),
        );
    }
    for ids in [1_000, 10_000, 100_000] {
        let table = Table::at("rust retrieve_many by ids", "ids", ids, UNIT);
        bench.compare_in(1, table, many(&runtime, &over_http1, IN_FLIGHT, ids));
        let curve = "rust retrieve_many by ids, memory";
        let table = Table::at(curve, "ids", ids, "MiB at most");
        if bench.wants(&table) {
            let work = || runtime.block_on(over_http1.retrieve_many(ids, IN_FLIGHT));
            if let Some(peak) = memory::peak_mib(work) {
                bench.add(&table, &["dealkit"], &[vec![peak]]);
            }
        }
    }
    bench.finish();
}

fn retrieves<'t>(
    runtime: &'t Runtime,
    clients: &'t Clients,
    in_flight: usize,
    calls: usize,
) -> Vec<(&'static str, Turn<'t>)> {
    vec![
        (
            "dealkit",
            turn(runtime, in_flight, calls, thread_cpu, || clients.retrieve()),
        ),
        (
            "reqwest + serde_json",
            turn(runtime, in_flight, calls, thread_cpu, || {
                clients.retrieve_with_reqwest()
            }),
        ),
        (
            "reqwest, read by dealkit",
            turn(runtime, in_flight, calls, thread_cpu, || {
                clients.retrieve_with_reqwest_and_decode()
            }),
        ),
        (
            "hyper-util + serde_json",
            turn(runtime, in_flight, calls, thread_cpu, || {
                clients.retrieve_with_hyper()
            }),
        ),
    ]
}

fn creates<'t>(
    runtime: &'t Runtime,
    clients: &'t Clients,
    in_flight: usize,
    calls: usize,
) -> Vec<(&'static str, Turn<'t>)> {
    vec![
        (
            "dealkit",
            turn(runtime, in_flight, calls, thread_cpu, || clients.create()),
        ),
        (
            "reqwest + serde_json",
            turn(runtime, in_flight, calls, thread_cpu, || {
                clients.create_with_reqwest()
            }),
        ),
        (
            "hyper-util + serde_json",
            turn(runtime, in_flight, calls, thread_cpu, || {
                clients.create_with_hyper()
            }),
        ),
    ]
}

fn many<'t>(
    runtime: &'t Runtime,
    clients: &'t Clients,
    concurrency: usize,
    ids: usize,
) -> Vec<(&'static str, Turn<'t>)> {
    vec![
        (
            "dealkit",
            turn_of(runtime, ids, thread_cpu, move || {
                clients.retrieve_many(ids, concurrency)
            }),
        ),
        (
            "reqwest + serde_json, buffered",
            turn_of(runtime, ids, thread_cpu, move || {
                clients.retrieve_many_with_reqwest(ids, concurrency)
            }),
        ),
    ]
}
