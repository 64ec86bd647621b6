//! Create an agent, read a deal, and show both.
//!
//! Takes the service's URL and key from `DEALKIT_BASE_URL` and
//! `DEALKIT_SERVICE_KEY`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use chrono::NaiveDate;
use dealkit::{Agent, AgentProfile, Client, CreateAgent, Deal, Role};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?;

    let request = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(
            AgentProfile::new()
                .tier("A")
                .external_id("crm-17")
                .client_metadata(serde_json::json!({"source": "quickstart"})),
        )
        .role(Role::Agent)
        .phone("+15550100")
        .date_of_birth(
            NaiveDate::from_ymd_opt(1815, 12, 10).ok_or("no such day")?,
        )
        .brokerage_id("b_1")
        .build()?; // Every violation at once, before anything is sent.
    let agent = client.agents().create(request).await?;
    show_agent(&agent);

    let deal = client.deals().retrieve("d_1").await?;
    show_deal(&deal);

    // A deal that does not exist is an error, with a predicate for its kind.
    if let Err(error) = client.deals().retrieve("no-such-deal").await {
        println!("\nA deal that does not exist");
        println!("  is_not_found  {}", error.is_not_found());
        println!("  as text       {error}");
    }
    Ok(())
}

fn show_agent(agent: &Agent) {
    println!("Created an agent");
    println!("  id            {}", agent.id);
    println!("  name          {} {}", agent.first_name, agent.last_name);
    println!("  e-mail        {}", agent.email);
    println!("  born          {}", or_dash(agent.date_of_birth));
    println!(
        "  brokerage     {}",
        or_dash(agent.current_brokerage_id.as_ref())
    );
    for assignment in &agent.role_assignments {
        println!("  role          {}", assignment.role);
    }
    println!(
        "  external id   {}",
        or_dash(agent.profile.external_id.as_ref())
    );
}

fn show_deal(deal: &Deal) {
    println!("\nRead deal {}", deal.id);
    println!("  status        {}", or_dash(deal.status.as_ref()));
    println!("  phase         {}", or_dash(deal.phase.as_ref()));
    println!("  created       {}", or_dash(deal.created_at));
    println!("  expires       {}", or_dash(deal.expiry_date));
    if let Some(contract) = &deal.listing_contract {
        if let Some(address) = &contract.address {
            println!(
                "  address       {}, {}",
                or_dash(address.line1.as_ref()),
                or_dash(address.city.as_ref())
            );
        }
        println!("  sale price    {}", or_dash(contract.sale_price));
        println!("  closes        {}", or_dash(contract.expected_close_date));
    }
    if let Some(application) = &deal.application {
        println!(
            "  application   {}, {} requested",
            or_dash(application.status.as_ref()),
            or_dash(application.requested_amount)
        );
        for offer in &application.offers {
            // Exact decimals: 10.10 stays 10.10.
            println!(
                "    offer       {} % of the commission, fee {} %, until {}",
                or_dash(offer.percent_of_commission),
                or_dash(offer.origination_fee_percent),
                or_dash(offer.expiry_date_time),
            );
        }
    }
    for quote in &deal.quotes {
        println!(
            "  quote         {} to {}",
            or_dash(quote.estimated_amount_min),
            or_dash(quote.estimated_amount_max)
        );
    }
    for contact in &deal.contacts {
        println!(
            "  contact       {}, {} fields",
            or_dash(contact.r#type.as_ref()),
            contact.fields.len()
        );
    }
    for side in &deal.sides {
        println!(
            "  side          {} gross, {} %",
            or_dash(side.gross_commission),
            or_dash(side.side_percentage)
        );
    }
    for (name, value) in &deal.metadata {
        println!("  metadata      {name} = {value}");
    }
}

/// Formats an optional field: all fields of a deal but its id may be missing.
fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
