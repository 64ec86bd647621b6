//! The blocking client, for a program without an async runtime.
//!
//! Takes the service's URL and key from `DEALKIT_BASE_URL` and
//! `DEALKIT_SERVICE_KEY`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use dealkit::blocking::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    let response = client
        .deals()
        .retrieve("d_1")
        .timeout(Duration::from_secs(5))
        .with_response()
        .send()?;
    println!(
        "{} after {} attempt(s)",
        response.status(),
        response.attempts()
    );
    println!(
        "deal {} is {:?}",
        response.value().id,
        response.value().status
    );
    Ok(())
}
