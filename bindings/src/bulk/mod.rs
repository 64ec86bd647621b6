//! Bulk jobs, and operations on ledgers between jobs.

pub(crate) mod bulk_calls;
mod inputs;
mod job;
pub(crate) mod ledger;

pub(crate) use inputs::{CreateRow, create_row};
