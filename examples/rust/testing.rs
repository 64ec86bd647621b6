//! Test your own code against the sandbox: a real server inside the test, with the deals it needs.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use dealkit::{AgentProfile, Client, CreateAgent, Deal, DealStatus, Error};
use dealkit_server::Sandbox;

/// The code under test: it creates an agent if the deal is won.
async fn reward(client: &Client, deal_id: &str) -> Result<bool, Error> {
    let deal = client.deals().retrieve(deal_id).await?;
    if !is_won(&deal) {
        return Ok(false);
    }
    let request = CreateAgent::builder()
        .email("grace@example.com")
        .first_name("Grace")
        .last_name("Hopper")
        .profile(AgentProfile::new())
        .build()?;
    client.agents().create(request).await?;
    Ok(true)
}

fn is_won(deal: &Deal) -> bool {
    match &deal.status {
        Some(DealStatus::Closed) => deal.application.is_some(),
        // A status that the specification does not show.
        Some(status) => status == "SETTLED",
        None => false,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Code that needs no service is tested with models that the test builds.
    let settled = Deal::builder().id("d_1").status("SETTLED").build();
    assert!(is_won(&settled));
    assert!(!is_won(&Deal::builder().id("d_2").build()));

    let sandbox = Sandbox::builder()
        .deals([
            r#"{"id": "won", "status": "CLOSED", "application": {}}"#,
            r#"{"id": "open", "status": "OPEN"}"#,
        ])
        .start()?;
    let client = Client::builder()
        .base_url(sandbox.url())
        .service_key(sandbox.service_key())
        .build()?;

    assert!(reward(&client, "won").await?);
    assert!(!reward(&client, "open").await?);
    assert_eq!(sandbox.agents().len(), 1);
    println!("the sandbox holds {} agent", sandbox.agents().len());
    Ok(())
}
