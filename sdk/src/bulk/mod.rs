//! Many calls, a bounded number of them in flight, and what a ledger has of creates: of many, or of one with a key.

pub(crate) mod create;
pub(crate) mod many;
#[cfg(feature = "ledger")]
pub(crate) mod once;
#[cfg(feature = "ledger")]
pub(crate) mod recorder;
pub(crate) mod retrieve;
pub(crate) mod row;
pub(crate) mod window;
