//! The parts from which [`CreateMany`](crate::CreateMany) and [`RetrieveMany`](crate::RetrieveMany) are made, for code that is
//! generic over the two, and for programs that push inputs one at a time instead of passing an iterator ([`Bulk::into_parts`]).

pub(crate) mod create_many;
#[cfg(feature = "ledger")]
mod create_many_ledger;
#[cfg(feature = "ledger")]
pub(crate) mod create_once;
#[cfg(feature = "ledger")]
pub(crate) mod create_with_ledger;
#[cfg(feature = "ledger")]
pub(crate) mod job_ledger;
pub(crate) mod many;
pub(crate) mod retrieve_many;
pub(crate) mod row;
pub(crate) mod window;

#[cfg(feature = "ledger")]
pub use create_many_ledger::{LabeledRow, LabeledRows};
#[doc(hidden)]
pub use many::JobState;
pub use {
    create_many::CreateOperation,
    many::{Bulk, BulkOperation, CancelHandle, InFlight},
    retrieve_many::RetrieveOperation,
};
