//! Models can be built in one expression, as users' tests do, and equal what the same JSON is read as.

use std::collections::BTreeMap;

use dealkit::{
    Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal, Json,
    ListingAgent, ListingContract, Offer, Quote, Role, RoleAssignment, Side,
};
use serde_json::json;

#[test]
fn a_deal_is_built_in_one_expression() {
    let deal = Deal::builder()
        .id("d_1")
        .status("CLOSED")
        .maybe_phase(None::<&str>)
        .expiry_date("2030-01-31".parse().unwrap())
        .created_at("2024-01-01T00:00:00Z".parse().unwrap())
        .listing_contract(
            ListingContract::builder()
                .id("lc_1")
                .side("SELL")
                .sale_price(3_000_000_000)
                .address(Address::builder().city("Springfield").build())
                .agent(
                    ListingAgent::builder()
                        .id("a_1")
                        .email("ada@example.com")
                        .build(),
                )
                .build(),
        )
        .application(
            Application::builder()
                .status("PENDING")
                .deal_id("d_1")
                .requested_amount("5000.00".parse().unwrap())
                .offers([Offer::builder()
                    .id("o_1")
                    .percent_of_commission("10.10".parse().unwrap())
                    .build()])
                .build(),
        )
        .quotes(vec![Quote::builder().estimated_amount_min(1).build()])
        .contacts([Contact::builder()
            .r#type("BUYER")
            .contact_schema_id("s_1")
            .fields([ContactField::builder().label("Name").r#type("TEXT").build()])
            .build()])
        .sides([Side::builder()
            .side_percentage("2.50".parse().unwrap())
            .build()])
        .metadata(BTreeMap::from([("source".into(), "import".into())]))
        .external_id("crm-17")
        .build()
        .with("badge", json!({"colour": "gold"}))
        .and_then(|deal| deal.with("rank", 1))
        .unwrap();
    let read = Deal::from_json(
        r#"{"id": "d_1", "status": "CLOSED", "expiry_date": "2030-01-31", "created_at": "2024-01-01T00:00:00Z",
            "listing_contract": {"id": "lc_1", "side": "SELL", "sale_price": 3000000000,
                "address": {"city": "Springfield"}, "agent": {"id": "a_1", "email": "ada@example.com"}},
            "application": {"status": "PENDING", "deal_id": "d_1", "requested_amount": 5000.00,
                "offers": [{"id": "o_1", "percent_of_commission": 10.10}]},
            "quotes": [{"estimated_amount_min": 1}],
            "contacts": [{"type": "BUYER", "contactSchemaId": "s_1", "fields": [{"label": "Name", "type": "TEXT"}]}],
            "sides": [{"side_percentage": 2.50}], "metadata": {"source": "import"}, "external_id": "crm-17",
            "badge": {"colour": "gold"}, "rank": 1}"#,
    );
    assert_eq!(deal, read.unwrap());
}

#[test]
fn an_agent_is_built_in_one_expression() {
    let agent = Agent::builder()
        .id("a_1")
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(
            AgentProfileResponse::builder()
                .onboarding_complete(true)
                .client_metadata(Json::parse(r#"{"rate": 10.10}"#).unwrap())
                .build(),
        )
        .role_assignments(
            (Role::ALL.iter())
                .map(|&role| RoleAssignment::builder().role(role).build())
                .collect::<Vec<_>>(),
        )
        .build();
    let json = serde_json::to_string(&agent).unwrap();
    assert!(json.contains(r#"{"rate": 10.10}"#), "{json}");
    assert_eq!(Agent::from_json(&json).unwrap(), agent);
    assert_eq!(agent.role_assignments.len(), Role::ALL.len());
    assert_eq!(agent.date_of_birth, None);
}

/// A model without required fields has a default, which equals what an empty object is read as.
#[test]
fn what_requires_nothing_has_a_default() {
    macro_rules! empty {
        ($($model:ident),+) => {$(
            assert_eq!($model::default(), $model::from_json("{}").unwrap());
            assert_eq!($model::default(), $model::builder().build());
        )+};
    }
    empty!(
        ListingContract,
        Address,
        ListingAgent,
        Application,
        Offer,
        Quote,
        Contact,
        ContactField,
        Side,
        AgentProfileResponse
    );
}
