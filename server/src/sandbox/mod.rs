//! Developer tools: faults on demand, variants, the journal, namespaces, and the control interface under /__sandbox/.

pub(crate) mod access;
pub(crate) mod admin;
mod docs;
pub(crate) mod fault;
mod fields;
pub(crate) mod held_requests;
pub(crate) mod journal;
pub(crate) mod namespace;
pub(crate) mod pending_faults;
pub(crate) mod rate_limit;
pub(crate) mod request_pattern;
pub(crate) mod variant;
pub(crate) mod variant_rewrite;
pub(crate) mod verify;

pub use fault::{AfterCut, Cut, Fault, InvalidFault};
pub use journal::{RecordedRequest, WaitTimeout};
pub use pending_faults::PendingFault;
pub use request_pattern::RequestPattern;
pub use variant::{UnknownVariant, Variant};
pub use verify::VerifyError;
