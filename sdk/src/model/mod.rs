//! The request, and the response types: exactly the tables of the specification, decoded leniently.
//!
//! All response types have this in common:
//!
//! * Fields that the service omits or sends as null are read as `None`, as an empty list or as an empty map;
//!   only the fields that the specification requires must be present.
//! * Undocumented fields are kept, digit for digit. `get("name")` finds a field and `with("name", value)` sets one,
//!   whether this version knows it or not; `extra()` has those that it does not know.
//! * `Serialize` writes the wire names back; `Debug` shows identifiers, statuses, dates and numbers, and hides
//!   personal data.
//! * The types are `#[non_exhaustive]`: a new field breaks nobody. A test builds one with `builder()`, or
//!   decodes it from JSON.

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
