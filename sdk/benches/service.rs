//! The service with fixed responses, as a process of its own that runs until standard input ends. It prints its URL.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers, which stops at what is wrong"
)]

use std::io::Read as _;

use clap::Parser;
use dealkit_benches::service::Service;

#[derive(Parser)]
struct Arguments {
    /// How many threads serve it
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() {
    let service = Service::start_on(Arguments::parse().threads);
    println!("http://{}", service.address);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
