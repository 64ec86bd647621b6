//! Many calls at a time, and the ledger between two jobs.

mod inputs;
mod job;
pub(crate) mod ledger;
pub(crate) mod many;
pub(crate) mod questions;
