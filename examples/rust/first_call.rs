//! The first program of README.md: creates an agent and reads a deal.

use dealkit::{AgentProfile, Client, CreateAgent, Role};

#[tokio::main]
async fn main() -> Result<(), dealkit::Error> {
    let client = Client::from_env()?; // or Client::builder().base_url("https://…").service_key("…").build()?

    let request = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new().tier("A"))
        .role(Role::Agent)
        .build()?; // every violation at once
    let agent = client.agents().create(request).await?;
    println!("created {}", agent.id);

    let deal = client.deals().retrieve("d_1").await?;
    if let Some(application) = &deal.application {
        for offer in &application.offers {
            println!("{:?} % of the commission", offer.percent_of_commission); // exact: 10.10
        }
    }
    Ok(())
}
