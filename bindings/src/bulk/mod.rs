//! Many calls at a time, as deals, as creations or as a table; and the ledger between two jobs.

pub(crate) mod columns;
mod inputs;
mod job;
pub(crate) mod ledger;
pub(crate) mod many;
mod questions;
mod reader;
