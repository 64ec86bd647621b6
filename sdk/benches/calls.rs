//! Calls on loopback, one at a time and many in flight, compared with bare reqwest.
#![allow(
    clippy::unwrap_used,
    reason = "a program for developers, which stops at what is wrong"
)]

use clap::Parser as _;
use dealkit_benches::{
    Arguments, Bench, Table, Turn,
    calls::{Clients, turn, turn_of},
    memory,
    service::ServiceProcess,
};
use tokio::runtime::Runtime;

/// CPU time of the thread that runs the client's runtime.
const UNIT: &str = "µs CPU a call";
const IN_FLIGHT: usize = 64;

fn main() {
    let mut bench = Bench::new(Arguments::parse());
    let service = ServiceProcess::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let clients = Clients::new(&service.url);
    let table = |what: &str, in_flight: usize| {
        let name = format!("rust {what} HTTP/1.1, {in_flight} in flight");
        Table::new(&name, format!("Rust: {what}, {in_flight} in flight"), UNIT)
    };
    for in_flight in [1, IN_FLIGHT] {
        bench.compare(
            table("retrieve", in_flight),
            retrieves(&runtime, &clients, in_flight, 256),
        );
    }
    for in_flight in [1, 16, IN_FLIGHT] {
        bench.compare(
            table("create", in_flight),
            creates(&runtime, &clients, in_flight, 256),
        );
    }
    bench.compare(
        table("retrieve_many", IN_FLIGHT),
        many(&runtime, &clients, 512),
    );
    for in_flight in [1, 4, 16, 64, 256, 1_024] {
        let table = Table::at(
            "rust retrieve by calls in flight",
            "calls in flight",
            in_flight,
            UNIT,
        );
        let calls = (2 * in_flight).max(256);
        bench.compare_in(11, table, retrieves(&runtime, &clients, in_flight, calls));
    }
    for ids in [1_000, 10_000, 100_000] {
        let table = Table::at("rust retrieve_many by ids", "ids", ids, UNIT);
        bench.compare_in(1, table, many(&runtime, &clients, ids));
        let curve = "rust retrieve_many by ids, memory";
        let table = Table::at(curve, "ids", ids, "MiB at most");
        if bench.wants(&table) {
            let work = || runtime.block_on(clients.retrieve_many(ids, IN_FLIGHT));
            if let Some(peak) = memory::peak_mib(work) {
                bench.add(&table, &["dealkit"], &[vec![peak]]);
            }
        }
    }
    bench.finish();
}

/// The contenders of a table, each with a turn of as many calls.
macro_rules! contenders {
    ($runtime:ident, $clients:ident, $in_flight:ident, $calls:ident, $($name:literal: $call:ident),+) => {
        vec![$(($name, turn($runtime, $in_flight, $calls, || $clients.$call()))),+]
    };
}

fn retrieves<'t>(
    runtime: &'t Runtime,
    clients: &'t Clients,
    in_flight: usize,
    calls: usize,
) -> Vec<(&'static str, Turn<'t>)> {
    contenders!(runtime, clients, in_flight, calls,
        "dealkit": retrieve,
        "reqwest + serde_json": retrieve_with_reqwest,
        "reqwest, read by dealkit": retrieve_with_reqwest_and_decode)
}

fn creates<'t>(
    runtime: &'t Runtime,
    clients: &'t Clients,
    in_flight: usize,
    calls: usize,
) -> Vec<(&'static str, Turn<'t>)> {
    contenders!(runtime, clients, in_flight, calls,
        "dealkit": create,
        "reqwest + serde_json": create_with_reqwest)
}

fn many<'t>(
    runtime: &'t Runtime,
    clients: &'t Clients,
    ids: usize,
) -> Vec<(&'static str, Turn<'t>)> {
    let with_reqwest = move || clients.retrieve_many_with_reqwest(ids, IN_FLIGHT);
    let and_decode = move || clients.retrieve_many_with_reqwest_and_decode(ids, IN_FLIGHT);
    vec![
        (
            "dealkit",
            turn_of(runtime, ids, move || clients.retrieve_many(ids, IN_FLIGHT)),
        ),
        (
            "reqwest + serde_json, buffered",
            turn_of(runtime, ids, with_reqwest),
        ),
        (
            "reqwest, read by dealkit, buffered",
            turn_of(runtime, ids, and_decode),
        ),
    ]
}
