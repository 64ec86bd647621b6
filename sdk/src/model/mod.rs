//! The request, and the response types: exactly the tables of the specification, read leniently.
//!
//! What every response type has in common:
//!
//! * Fields that the service left out or sent as null read as `None`, as an empty list or as an empty
//!   map; only the fields that the specification requires must be there.
//! * Undocumented fields are kept in `extra`, digit for digit.
//! * `Serialize` writes the wire names back; `Debug` shows identifiers, statuses, dates and numbers, and
//!   hides what is personal.
//! * The types are `#[non_exhaustive]`: a test builds one with `new` or `default` and sets fields, or
//!   reads it from JSON.

mod agent;
mod create_agent;
mod deal;
mod define;
mod field;
mod table;

pub use create_agent::{AgentProfile, CreateAgent, CreateAgentBuilder};
pub use define::{
    Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal, ListingAgent,
    ListingContract, Offer, Quote, RoleAssignment, Side,
};
