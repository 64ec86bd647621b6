//! The request, and the response types, with exactly the fields of the specification.
//!
//! The response types are read leniently, and have these properties:
//!
//! * A field that is missing or null becomes `None`, an empty list or an empty map; only fields that the specification
//!   requires must be present.
//! * An unreadable value makes the whole document an error, unless its field is optional and
//!   [skipped](crate::Unreadable::Skip).
//! * Undocumented fields stay available, unchanged. `get("name")` reads a field and `with("name", value)` sets one, documented
//!   or not; `extra()` returns the undocumented fields.
//! * `Serialize` writes the JSON names; `Debug` shows identifiers, statuses, dates and numbers, and hides personal data.
//! * The types are `#[non_exhaustive]`, so that new fields break no program. In tests, build them with `builder()`, or read them
//!   from JSON.

mod create_agent;
mod field_value;
mod responses;
mod serde_document;

pub use create_agent::{AgentProfile, CreateAgent};
pub use responses::{
    Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal, ListingAgent,
    ListingContract, Offer, Quote, RoleAssignment, Side,
};

/// The builders of the models and of the request, as returned by their `builder()`.
///
/// `build()` compiles only if all required fields are set. Lists and maps are empty by default. A setter `maybe_…` takes an
/// `Option`.
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
///     .with("badge", Json::string("gold"))?; // a later version may document it
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
/// # Returning an incomplete builder
///
/// A builder's type lists the fields that are set, the latest first, by their names in a module such as
/// [`create_agent_builder`](builder::create_agent_builder). A function can return an incomplete builder, which its callers clone
/// and complete:
///
/// ```
/// use dealkit::{
///     AgentProfile, CreateAgent,
///     builder::{CreateAgentBuilder, create_agent_builder::{SetBrokerageId, SetProfile}},
/// };
///
/// /// Sets the fields that all agents of a brokerage share.
/// fn agent_of_brokerage(id: &str) -> CreateAgentBuilder<SetBrokerageId<SetProfile>> {
///     CreateAgent::builder().profile(AgentProfile::new().tier("A")).brokerage_id(id)
/// }
///
/// let common = agent_of_brokerage("b_1");
/// let ada = common.clone().email("ada@example.com").first_name("Ada").last_name("Lovelace").build()?;
/// let grace = common.email("grace@example.com").first_name("Grace").last_name("Hopper").build()?;
/// assert_eq!(ada.brokerage_id(), grace.brokerage_id());
/// # Ok::<(), dealkit::ValidationError>(())
/// ```
pub mod builder {
    pub use super::{
        create_agent::{CreateAgentBuilder, create_agent_builder},
        responses::{
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
