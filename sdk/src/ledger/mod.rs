//! Ledgers: local logs of idempotency keys, which keep programs from creating an agent twice.
//!
//! With [`CreateMany::ledger`](crate::CreateMany::ledger), an interrupted job can be run again, even after a crash of the
//! machine: the ledger records which rows were sent, so that no row creates a second agent. Several jobs may share a ledger, on
//! one machine or, with PostgreSQL, on many: each row is sent by only one job. [`Call::once`](crate::Call::once) creates one
//! agent under an idempotency key, for a program that may be run twice.
//!
//! [`Ledger`] also has the manual operations between two runs: look up rows, resolve the unresolved ones, and record that the
//! service has another base URL. None of these sends a request.

// `row` has the rules of one row, without any database, and `key_hash` the hashes stored in place of keys, requests and e-mail
// addresses. `store` is the interface of a database; `sqlite`, `postgres` and, for the simulator, `memory` implement it. A
// `lease` in a database limits the time in which a job may send; with SQLite, `job_lock` has a locked file instead. The
// `worker` of an open ledger uses the store in steps, which the thread in `open_ledger` executes, for a job or for the single
// creates of a client (`open_ledger_cache`). `lost_ledgers` prevents a new ledger in place of a lost one. `maintenance` has the
// manual operations. The simulator replaces `process` and `clock`. No code in this folder sends requests.

#[cfg(feature = "ledger")]
mod cancellation;
#[cfg(feature = "ledger")]
mod clock;
#[cfg_attr(
    not(feature = "ledger-postgres"),
    expect(
        dead_code,
        reason = "without these features, some of the errors cannot occur"
    )
)]
mod error;
#[cfg(feature = "ledger")]
mod job_lock;
#[cfg(feature = "ledger")]
mod key_hash;
#[cfg(feature = "ledger")]
mod lease;
#[cfg(feature = "ledger")]
#[expect(
    clippy::module_inception,
    reason = "the file has the type `Ledger` and nothing else"
)]
mod ledger;
#[cfg(feature = "ledger")]
mod lost_ledgers;
#[cfg(feature = "ledger")]
mod maintenance;
#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub mod memory;
#[cfg(feature = "ledger")]
mod open_ledger;
#[cfg(feature = "ledger")]
mod open_ledger_cache;
#[cfg(feature = "ledger-postgres")]
mod postgres;
#[cfg(feature = "__simulation")]
mod process;
#[cfg(feature = "ledger")]
mod row;
#[cfg(feature = "ledger")]
mod sqlite;
#[cfg(feature = "ledger")]
mod store;
#[cfg(feature = "ledger")]
mod worker;

#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub use process::{Access, Process, TransactionEnd};

pub use error::{LedgerError, LedgerErrorKind};
#[cfg(feature = "ledger")]
pub use {
    key_hash::normalize_key,
    ledger::Ledger,
    maintenance::{LedgerSummary, Resolution, UnresolvedRow},
    row::LedgerRow,
};

#[cfg(feature = "ledger")]
pub(crate) use {
    key_hash::{KeyHash, Salt, normalize},
    open_ledger::{LedgerHandle, OpenLedger},
    open_ledger_cache::OpenLedgerCache,
    row::{MAX_ID_BYTES, RequestInfo, RowEntry, State, WhenUnresolved},
    worker::LookUpResult,
};

#[cfg(all(test, feature = "ledger-postgres", feature = "__simulation"))]
#[path = "../../tests/stores/mod.rs"]
mod tests;
