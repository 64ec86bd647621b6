//! The service with fixed responses, as a process of its own that runs until standard input ends.
//!
//! It prints one line: the URLs for HTTP/1.1, for HTTP/1.1 and HTTP/2 over TLS, and for the far service, which is a
//! round trip of 30 ms away. The certificate to trust is written to the given file.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers, which stops at what is wrong"
)]

use std::{fs, io::Read as _, path::PathBuf};

use clap::Parser;
use dealkit_benches::{distance, service::Service};

#[derive(Parser)]
struct Arguments {
    /// Where to write the certificate
    certificate: PathBuf,
    /// How many threads serve HTTP/1.1 without TLS
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() {
    let arguments = Arguments::parse();
    let service = Service::start_on(arguments.threads);
    fs::write(&arguments.certificate, &service.certificate).unwrap();
    let far = distance::to(service.tls_http1, distance::ROUND_TRIP);
    println!(
        "http://{} https://localhost:{} https://localhost:{} https://localhost:{}",
        service.http1,
        service.tls_http1.port(),
        service.tls_http2.port(),
        far.port()
    );
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
