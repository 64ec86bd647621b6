//! Test what your program does when the service fails: it sees a retry, shows
//! an error, handles an unknown outcome, and avoids a duplicate.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use dealkit::{AgentProfile, Client, CreateAgent, Outcome};
use dealkit_server::{Fault, Sandbox};

type Checked = Result<(), Box<dyn Error>>;

/// A sandbox, and a client for it.
fn start() -> Result<(Sandbox, Client), Box<dyn Error>> {
    let sandbox = Sandbox::builder().start()?;
    let client = Client::builder()
        .base_url(sandbox.url())
        .service_key(sandbox.service_key())
        .build()?;
    Ok((sandbox, client))
}

fn ada() -> Result<CreateAgent, dealkit::ValidationError> {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build()
}

/// The code under test: what a page shows for a deal.
async fn page(client: &Client, id: &str) -> String {
    match client.deals().retrieve(id).await {
        Ok(deal) => format!("deal {}", deal.id),
        Err(error) if error.is_not_found() => {
            "There is no such deal.".to_owned()
        }
        Err(error) => match error.request_id() {
            Some(id) => {
                format!("Please try again later, or tell us this number: {id}")
            }
            None => "Please try again later.".to_owned(),
        },
    }
}

/// The code under test: it signs somebody up; unknown outcomes go to manual
/// review.
async fn sign_up(client: &Client, agent: CreateAgent) -> &'static str {
    match client.agents().create(agent).await {
        Ok(_) => "welcome",
        // Sending it again may make a second agent.
        Err(error) if error.may_have_acted() => {
            "we are checking, and will write to you"
        }
        Err(_) => "please try again",
    }
}

async fn a_retry_is_seen() -> Checked {
    let (sandbox, client) = start()?;
    sandbox.fail_next(Fault::status(503).retry_after(0).times(2))?;
    assert_eq!(page(&client, "d_1").await, "deal d_1");
    let seen = sandbox.requests();
    let statuses: Vec<_> =
        seen.iter().filter_map(|request| request.status).collect();
    assert_eq!(statuses, [503, 503, 200]);
    Ok(())
}

async fn an_error_is_shown() -> Checked {
    let (sandbox, client) = start()?;
    sandbox.fail_next(Fault::status(500).forever())?;
    let shown = page(&client, "d_1").await;
    let last = sandbox.requests().pop().ok_or("no request")?;
    assert!(shown.ends_with(&last.request_id), "{shown}");
    Ok(())
}

async fn an_unknown_outcome_is_handled() -> Checked {
    let (sandbox, client) = start()?;
    sandbox.fail_next(Fault::process_then_reset())?;
    assert_eq!(
        sign_up(&client, ada()?).await,
        "we are checking, and will write to you"
    );
    assert_eq!(sandbox.agents().len(), 1);
    Ok(())
}

async fn a_duplicate_is_avoided() -> Checked {
    let (sandbox, client) = start()?;
    // The agent is created, but the response is lost: dealkit does not send it
    // again.
    sandbox.fail_next(Fault::process_then_reset())?;
    let error = client
        .agents()
        .create(ada()?)
        .await
        .err()
        .ok_or("a response")?;
    assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));
    assert_eq!((sandbox.requests().len(), sandbox.agents().len()), (1, 1));

    // Refused with a 429, it was not acted on: dealkit does send it again.
    sandbox.reset();
    sandbox.fail_next(Fault::status(429).retry_after(0))?;
    assert_eq!(sign_up(&client, ada()?).await, "welcome");
    assert_eq!((sandbox.requests().len(), sandbox.agents().len()), (2, 1));
    Ok(())
}

#[tokio::main]
async fn main() -> Checked {
    a_retry_is_seen().await?;
    an_error_is_shown().await?;
    an_unknown_outcome_is_handled().await?;
    a_duplicate_is_avoided().await?;
    println!("the program handles what goes wrong");
    Ok(())
}
