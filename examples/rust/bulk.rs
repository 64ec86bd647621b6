//! Read many deals: a limited number at a time, in order, with an error in
//! place of each one that could not be retrieved.
//!
//! Takes the service's URL and key from `DEALKIT_BASE_URL` and
//! `DEALKIT_SERVICE_KEY`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use dealkit::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;
    let ids = ["d_1", "d_2", "no-such-deal", "d_3", ".."];

    let mut failed = 0;
    let mut deals = client.deals().retrieve_many(ids).concurrency(32).stream();
    while let Some(item) = deals.next().await {
        match item.result {
            Ok(deal) => println!("{}: {:?}", item.id, deal.status),
            Err(error) => {
                failed += 1;
                println!("{}: {error}", item.id);
            }
        }
    }
    println!("{failed} of {} failed", ids.len());
    Ok(())
}
