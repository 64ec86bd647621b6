//! Building, validating and encoding a create request, compared with serde_json alone, which validates nothing.
#![allow(
    clippy::unwrap_used,
    reason = "a program for developers, which stops at the first error"
)]

use std::hint::black_box;

use clap::Parser as _;
use dealkit_benches::{Arguments, Bench, Table, Turn, clock::thread_cpu, request};

const TIMES: u32 = 500;

fn main() {
    let mut bench = Bench::new(Arguments::parse());
    let ours: serde_json::Value =
        serde_json::from_str(request::checked().unwrap().to_json().as_str()).unwrap();
    let its = serde_json::to_value(request::unchecked()).unwrap();
    assert_eq!(ours, its, "both write the same");
    bench.compare(
        Table::new(
            "rust create",
            "Rust: build, validate and encode a create request",
            "µs CPU",
        ),
        vec![
            (
                "dealkit",
                turn(|| request::checked().unwrap().to_json().as_str().len()),
            ),
            (
                "serde_json, no validation",
                turn(|| {
                    serde_json::to_vec(&black_box(request::unchecked()))
                        .unwrap()
                        .len()
                }),
            ),
        ],
    );
    bench.finish();
}

fn turn(write: impl Fn() -> usize + 'static) -> Turn<'static> {
    Box::new(move || {
        let began = thread_cpu();
        for _ in 0..TIMES {
            black_box(write());
        }
        (thread_cpu() - began) / TIMES
    })
}
