//! The first program of README.md: creates an agent and reads a deal.

use dealkit::{AgentProfile, Client, CreateAgent, Role};

#[tokio::main]
async fn main() -> Result<(), dealkit::Error> {
    let client = Client::from_env()?;

    let request = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new().tier("A"))
        .role(Role::Agent)
        .build()?;
    let agent = client.agents().create(request).await?;
    println!("created {}", agent.id);

    let deal = client.deals().retrieve("d_1").await?;
    for offer in deal.application.iter().flat_map(|it| &it.offers) {
        // A decimal, with every digit that the service has sent.
        if let Some(percent) = offer.percent_of_commission {
            println!("{percent} % of the commission");
        }
    }
    Ok(())
}
