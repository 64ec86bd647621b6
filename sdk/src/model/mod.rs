//! The request, and the response types: exactly the tables of the specification, read leniently.
//!
//! What every response type has in common:
//!
//! * Fields that the service left out or sent as null read as `None`, as an empty list or as an empty
//!   map; only the fields that the specification requires must be there.
//! * Undocumented fields are kept in `extra`, digit for digit.
//! * `Serialize` writes the wire names back; `Debug` shows identifiers, statuses, dates and numbers, and
//!   hides what is personal.
//! * The types are `#[non_exhaustive]`: a new field breaks nobody. A test builds one with `builder()`, or reads
//!   it from JSON.

mod create_agent;
mod define;
mod field;
mod table;

pub use create_agent::{AgentProfile, CheckedAgent, CreateAgent};
pub use define::{
    Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal, ListingAgent,
    ListingContract, Offer, Quote, RoleAssignment, Side,
};

/// The builders of the models and of the request, which their `builder()` begins.
///
/// What a model requires must be set, or `build()` does not compile; lists, maps and `extra` are empty where they
/// are not. A setter `maybe_…` takes an `Option`.
///
/// ```
/// use dealkit::{Application, Deal, DealStatus, Offer};
///
/// let deal = Deal::builder()
///     .id("d_1")
///     .status(DealStatus::Closed) // or "CLOSED"
///     .application(
///         Application::builder()
///             .offers([Offer::builder().percent_of_commission("10.10".parse()?).build()])
///             .build(),
///     )
///     .extra([("badge", "gold")]) // undocumented
///     .build();
/// assert_eq!(deal.status, Some(DealStatus::Closed));
/// assert!(deal.quotes.is_empty());
/// # Ok::<(), dealkit::ParseDecimalError>(())
/// ```
///
/// ```compile_fail
/// # use dealkit::Deal;
/// let deal = Deal::builder().status("CLOSED").build(); // no id
/// ```
pub mod builder {
    pub use super::{
        create_agent::CreateAgentBuilder,
        define::{
            AddressBuilder, AgentBuilder, AgentProfileResponseBuilder, ApplicationBuilder,
            ContactBuilder, ContactFieldBuilder, DealBuilder, ListingAgentBuilder,
            ListingContractBuilder, OfferBuilder, QuoteBuilder, RoleAssignmentBuilder, SideBuilder,
        },
    };
}
