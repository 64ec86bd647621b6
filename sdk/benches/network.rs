//! Calls over TLS and a network with a round trip of 30 ms, compared with bare reqwest.
#![allow(
    clippy::unwrap_used,
    reason = "a program for developers, which stops at what is wrong"
)]

use clap::Parser as _;
use dealkit_benches::{
    Arguments, Bench, Table,
    calls::{Clients, turn},
    clock::wall_clock,
    distance,
    service::Service,
};

const IN_FLIGHT: usize = 16;

fn main() {
    let mut bench = Bench::new(Arguments::parse());
    let service = Service::start();
    let far = distance::to(service.tls_http1, distance::ROUND_TRIP);
    let url = format!("https://localhost:{}", far.port());
    let clients = Clients::new(&url, Some(&service.certificate), false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (in_flight, calls) in [(1, 10), (IN_FLIGHT, 4 * IN_FLIGHT)] {
        let table = |what: &str| {
            let name = format!("rust {what} at 30 ms, {in_flight} in flight");
            let title =
                format!("Rust: {what} over TLS and a round trip of 30 ms, {in_flight} in flight");
            Table::new(&name, title, "µs a call")
        };
        bench.compare(
            table("create"),
            vec![
                (
                    "dealkit",
                    turn(&runtime, in_flight, calls, wall_clock, || clients.create()),
                ),
                (
                    "reqwest + serde_json",
                    turn(&runtime, in_flight, calls, wall_clock, || {
                        clients.create_with_reqwest()
                    }),
                ),
            ],
        );
        bench.compare(
            table("retrieve"),
            vec![
                (
                    "dealkit",
                    turn(&runtime, in_flight, calls, wall_clock, || {
                        clients.retrieve()
                    }),
                ),
                (
                    "reqwest + serde_json",
                    turn(&runtime, in_flight, calls, wall_clock, || {
                        clients.retrieve_with_reqwest()
                    }),
                ),
            ],
        );
    }
    bench.finish();
}
