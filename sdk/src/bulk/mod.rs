//! Many calls, a bounded number of them in flight.

pub(crate) mod create;
pub(crate) mod many;
#[cfg(feature = "ledger")]
pub(crate) mod recorder;
#[cfg(not(feature = "ledger"))]
#[path = "no_recorder.rs"]
pub(crate) mod recorder;
pub(crate) mod retrieve;
pub(crate) mod row;
pub(crate) mod window;
