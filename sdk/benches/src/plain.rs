//! Models as a program without dealkit would write them with serde: strings, floats, no dates.
#![allow(
    missing_docs,
    reason = "the fields are those of the dealkit models of the same name"
)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
pub struct Deal {
    pub id: String,
    pub status: Option<String>,
    pub phase: Option<String>,
    pub expiry_date: Option<String>,
    pub created_at: Option<String>,
    pub listing_contract: Option<ListingContract>,
    pub application: Option<Application>,
    #[serde(default)]
    pub quotes: Vec<Quote>,
    #[serde(default)]
    pub contacts: Vec<Contact>,
    #[serde(default)]
    pub sides: Vec<Side>,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    pub external_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ListingContract {
    pub id: Option<String>,
    pub side: Option<String>,
    pub side_split: Option<i64>,
    pub sale_price: Option<i64>,
    pub net_agent_commission: Option<i64>,
    pub gross_agent_commission: Option<i64>,
    pub commission_rate: Option<i64>,
    pub expected_close_date: Option<String>,
    pub created_at: Option<String>,
    pub address: Option<Address>,
    pub agent: Option<ListingAgent>,
}

#[derive(Debug, Deserialize)]
pub struct Address {
    pub line1: Option<String>,
    pub line2: Option<String>,
    pub city: Option<String>,
    pub state: Option<String>,
    pub zip: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ListingAgent {
    pub id: Option<String>,
    pub email: Option<String>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Application {
    pub id: Option<String>,
    pub status: Option<String>,
    pub decisioned_on: Option<String>,
    pub created_at: Option<String>,
    pub deal_id: Option<String>,
    pub requested_amount: Option<f64>,
    #[serde(default)]
    pub offers: Vec<Offer>,
}

#[derive(Debug, Deserialize)]
pub struct Offer {
    pub id: Option<String>,
    pub expiry_date_time: Option<String>,
    pub origination_fee_percent: Option<f64>,
    pub percent_of_commission: Option<f64>,
    pub created_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Quote {
    pub id: Option<String>,
    pub created_at: Option<String>,
    pub estimated_percent_min: Option<i64>,
    pub estimated_percent_max: Option<i64>,
    pub estimated_amount_min: Option<i64>,
    pub estimated_amount_max: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contact {
    pub id: Option<String>,
    pub contact_schema_id: Option<String>,
    pub r#type: Option<String>,
    #[serde(default)]
    pub fields: Vec<ContactField>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContactField {
    pub id: Option<String>,
    pub field_schema_id: Option<String>,
    pub label: Option<String>,
    pub r#type: Option<String>,
    pub value: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Side {
    pub contact_id: Option<String>,
    pub gross_commission: Option<f64>,
    pub agent_units: Option<f64>,
    pub side_percentage: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub struct Agent {
    pub id: String,
    pub email: String,
}

#[derive(Debug, Serialize)]
pub struct CreateAgent<'a> {
    pub email: &'a str,
    pub first_name: &'a str,
    pub last_name: &'a str,
    pub profile: Profile<'a>,
    pub role: &'a str,
    pub phone: &'a str,
    pub date_of_birth: &'a str,
    pub office_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile<'a> {
    pub tier: &'a str,
    pub external_id: &'a str,
    pub onboarding_complete: bool,
}
