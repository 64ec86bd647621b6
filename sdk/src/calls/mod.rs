//! Calls of the API: their description, their options, how they are sent, and how their responses are read.

pub(crate) mod agents;
pub(crate) mod call;
#[cfg(feature = "ledger")]
pub(crate) mod claim;
#[cfg(not(feature = "ledger"))]
#[path = "no_claim.rs"]
pub(crate) mod claim;
pub(crate) mod deals;
pub(crate) mod options;
pub(crate) mod response;
pub(crate) mod service;
pub(crate) mod trace;
