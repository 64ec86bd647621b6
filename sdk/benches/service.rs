//! Runs the service with fixed responses until standard input ends. Prints its URL first.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers, which stops at the first error"
)]

use std::io::Read as _;

use clap::Parser;
use dealkit_benches::service::Service;

#[derive(Parser)]
struct Arguments {
    /// The number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() {
    let service = Service::start_on(Arguments::parse().threads);
    println!("http://{}", service.address);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
