//! The response types: exactly the tables of the specification, read leniently.
//!
//! What every type here has in common:
//!
//! * Fields that the service left out or sent as null read as `None`, as an empty list or as an empty
//!   map; only the fields that the specification requires must be there.
//! * Members that the specification does not show are kept in `extra`, digit for digit.
//! * `Serialize` writes the wire names back; `Debug` shows identifiers, statuses, dates and numbers, and
//!   hides what is personal.
//! * The types are `#[non_exhaustive]`: a test builds one with `new` or `default` and sets fields, or
//!   reads it from JSON.

mod field;
#[macro_use]
mod define;

mod agent;
mod deal;

pub use agent::{Agent, AgentProfileResponse, RoleAssignment};
pub use deal::{
    Address, Application, Contact, ContactField, Deal, ListingAgent, ListingContract, Offer, Quote,
    Side,
};

/// Whether a response type has a field of this wire name.
pub(crate) fn is_field(name: &str) -> bool {
    let models = [
        Address::FIELDS,
        Agent::FIELDS,
        AgentProfileResponse::FIELDS,
        Application::FIELDS,
        Contact::FIELDS,
        ContactField::FIELDS,
        Deal::FIELDS,
        ListingAgent::FIELDS,
        ListingContract::FIELDS,
        Offer::FIELDS,
        Quote::FIELDS,
        RoleAssignment::FIELDS,
        Side::FIELDS,
    ];
    models.iter().any(|fields| fields.contains(&name))
}
