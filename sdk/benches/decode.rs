//! Decoding a deal from JSON, compared with serde_json alone.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program for developers, which stops at the first error"
)]

use std::{cell::Cell, hint::black_box};

use clap::Parser as _;
use dealkit_benches::{
    Arguments, Bench, Table, Turn,
    clock::thread_cpu,
    document::{LARGE, TYPICAL, deal},
    plain,
};

const UNIT: &str = "µs CPU";

fn main() {
    let mut bench = Bench::new(Arguments::parse());
    for (name, contacts, times) in [("typical", TYPICAL, 100), ("large", LARGE, 1)] {
        let documents = [deal(contacts)];
        let title = format!("Rust: decode a {name} deal, {} bytes", documents[0].len());
        bench.compare(
            Table::new(&format!("rust decode {name}"), title, UNIT),
            contenders(&documents, times, true),
        );
    }
    for contacts in [1, 10, 100, 1_000, 10_000] {
        let table = Table::at("rust decode by contacts", "contacts", contacts, UNIT);
        let documents = [deal(contacts)];
        let times = (1_000 / contacts).clamp(1, 200);
        bench.compare_in(11, table, contenders(&documents, times, false));
    }
    bench.finish();
}

/// Makes the contenders. Each decodes `times` documents in a turn, one after the other.
fn contenders(documents: &[String], times: usize, all: bool) -> Vec<(&'static str, Turn<'_>)> {
    check(documents);
    let mut contenders = vec![
        (
            "dealkit",
            turn(documents, times, |json| {
                dealkit::Deal::from_json(json).unwrap()
            }),
        ),
        (
            "serde_json into String, f64, no dates",
            turn(documents, times, |json| {
                serde_json::from_str::<plain::Deal>(json).unwrap()
            }),
        ),
    ];
    if all {
        contenders.push((
            "the same from bytes",
            turn(documents, times, |json| {
                serde_json::from_slice::<plain::Deal>(json.as_bytes()).unwrap()
            }),
        ));
        contenders.push((
            "serde_json::Value",
            turn(documents, times, |json| {
                serde_json::from_str::<serde_json::Value>(json).unwrap()
            }),
        ));
    }
    contenders
}

/// Checks that dealkit and serde_json decode the same values.
fn check(documents: &[String]) {
    for json in documents {
        let ours = dealkit::Deal::from_json(json).unwrap();
        let its: plain::Deal = serde_json::from_str(json).unwrap();
        assert_eq!(ours.id, its.id);
        assert_eq!(ours.contacts.len(), its.contacts.len());
        let (ours, its) = (ours.application.unwrap(), its.application.unwrap());
        assert_eq!(
            ours.requested_amount.unwrap().to_string(),
            format!("{:.2}", its.requested_amount.unwrap())
        );
    }
}

fn turn<'t, T>(documents: &'t [String], times: usize, decode: impl Fn(&str) -> T + 't) -> Turn<'t> {
    let next = Cell::new(0);
    Box::new(move || {
        let began = thread_cpu();
        for _ in 0..times {
            let document = &documents[next.get() % documents.len()];
            next.set(next.get() + 1);
            black_box(decode(black_box(document)));
        }
        (thread_cpu() - began) / u32::try_from(times).unwrap()
    })
}
