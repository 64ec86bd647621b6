//! Test your own code: with a stub in place of the client, and against the
//! sandbox, a real server inside the test.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use dealkit::{
    AgentProfile, Client, CreateAgent, Deal, DealStatus, Error, Operations,
    test_util::{ErrorBuilder, Stub},
};
use dealkit_server::Sandbox;

/// The code under test: creates an agent if the deal is won.
async fn reward(calls: &dyn Operations, deal_id: &str) -> Result<bool, Error> {
    let deal = calls.retrieve_deal(deal_id).await?;
    if !is_won(&deal) {
        return Ok(false);
    }
    let request = CreateAgent::builder()
        .email("grace@example.com")
        .first_name("Grace")
        .last_name("Hopper")
        .profile(AgentProfile::new())
        .build()?;
    calls.create_agent(request).await?;
    Ok(true)
}

fn is_won(deal: &Deal) -> bool {
    match &deal.status {
        Some(DealStatus::Closed) => deal.application.is_some(),
        // A status that the specification does not list.
        Some(status) => status == "SETTLED",
        None => false,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Code that needs no service can be tested with models.
    let won = || Deal::builder().id("won").status("SETTLED").build();
    assert!(is_won(&won()));
    assert!(!is_won(&Deal::builder().id("d_2").build()));

    // A stub returns the results that the test defines: here, the error of a
    // create that timed out after it was sent.
    let stub =
        Stub::new()
            .on_retrieve(move |_| Ok(won()))
            .on_create_agent(|_| {
                Err(ErrorBuilder::timeout(Duration::from_secs(60)).build())
            });
    let error = reward(&stub, "won").await.unwrap_err();
    assert!(error.is_timeout() && error.may_have_acted());

    // The sandbox responds as the service does.
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
