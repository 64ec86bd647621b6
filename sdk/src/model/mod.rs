//! The request, and the response types: exactly the tables of the specification, decoded leniently.
//!
//! All response types have this in common:
//!
//! * Fields that are missing or null become `None`, an empty list or an empty map; only the fields that the
//!   specification requires must be present.
//! * An unreadable value is an error of the whole document, unless its field is optional and
//!   [skipped](crate::Unreadable::Skip).
//! * Undocumented fields are kept, digit for digit. `get("name")` finds a field and `with("name", value)` sets one,
//!   whether this version knows it or not; `extra()` has those that it does not know.
//! * `Serialize` writes the wire names back; `Debug` shows identifiers, statuses, dates and numbers, and hides
//!   personal data.
//! * The types are `#[non_exhaustive]`: new fields break nothing. In tests, build them with `builder()`, or decode them
//!   from JSON.

mod any_format;
mod create_agent;
mod define;
mod field;

pub use create_agent::{AgentProfile, CreateAgent};
pub use define::{
    Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal, ListingAgent,
    ListingContract, Offer, Quote, RoleAssignment, Side,
};

/// The builders of the models and of the request, as returned by their `builder()`.
///
/// Fields that a model requires must be set, or `build()` does not compile; lists and maps are empty if
/// not set. A setter `maybe_…` takes an `Option`.
///
/// ```
/// use dealkit::{Application, Deal, DealStatus, Json, Offer};
///
/// let deal = Deal::builder()
///     .id("d_1")
///     .status(DealStatus::Closed) // or "CLOSED"
///     .application(
///         Application::builder()
///             .offers([Offer::builder().percent_of_commission("10.10".parse()?).build()])
///             .build(),
///     )
///     .build()
///     .with("badge", Json::string("gold"))?; // undocumented, or documented one day
/// assert_eq!(deal.status, Some(DealStatus::Closed));
/// assert!(deal.quotes.is_empty());
/// assert_eq!(deal.get("badge").unwrap(), Json::string("gold"));
/// assert_eq!(deal.get("status").unwrap(), Json::string("CLOSED"));
/// assert_eq!(deal.with("status", 7).unwrap_err().path(), "status");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// # use dealkit::Deal;
/// let deal = Deal::builder().status("CLOSED").build(); // no id
/// ```
///
/// # Returned from a function
///
/// What is set is part of a builder's type, by the names in its module, such as
/// [`create_agent_builder`](builder::create_agent_builder): the latest first. So a function can return an incomplete
/// builder, and each use can be a clone:
///
/// ```
/// use dealkit::{
///     AgentProfile, CreateAgent,
///     builder::{CreateAgentBuilder, create_agent_builder::{SetBrokerageId, SetProfile}},
/// };
///
/// /// What all agents of a brokerage have in common.
/// fn of_brokerage(id: &str) -> CreateAgentBuilder<SetBrokerageId<SetProfile>> {
///     CreateAgent::builder().profile(AgentProfile::new().tier("A")).brokerage_id(id)
/// }
///
/// let common = of_brokerage("b_1");
/// let ada = common.clone().email("ada@example.com").first_name("Ada").last_name("Lovelace").build()?;
/// let grace = common.email("grace@example.com").first_name("Grace").last_name("Hopper").build()?;
/// assert_eq!(ada.brokerage_id(), grace.brokerage_id());
/// # Ok::<(), dealkit::ValidationError>(())
/// ```
pub mod builder {
    pub use super::{
        create_agent::{CreateAgentBuilder, create_agent_builder},
        define::{
            AddressBuilder, AgentBuilder, AgentProfileResponseBuilder, ApplicationBuilder,
            ContactBuilder, ContactFieldBuilder, DealBuilder, ListingAgentBuilder,
            ListingContractBuilder, OfferBuilder, QuoteBuilder, RoleAssignmentBuilder, SideBuilder,
            address_builder, agent_builder, agent_profile_response_builder, application_builder,
            contact_builder, contact_field_builder, deal_builder, listing_agent_builder,
            listing_contract_builder, offer_builder, quote_builder, role_assignment_builder,
            side_builder,
        },
    };
}
