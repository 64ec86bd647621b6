//! What is known of each create, and when it may be sent: the ledger.
//!
//! [`CreateMany::ledger`](crate::CreateMany::ledger) keeps one, so that a job that was interrupted can be run again, even
//! after a crash of the machine, and creates no agent twice. Several jobs may share a ledger, on one machine or, in PostgreSQL, on
//! many: each row is sent by one of them. [`Call::once`](crate::Call::once) creates one agent with a key, for a program that may be run twice.
//!
//! [`Ledger`] has what people do between two runs: find out what it has on rows, resolve the unresolved ones, and
//! record that the service has another base URL. Nothing there sends anything.

// `state` has the rules of rows, without any database; `key_hash` the hashes that replace keys, requests and addresses. `store` is the
// interface of a database, implemented by `sqlite` (where `owner` knows the jobs that are alive), `postgres`, and, for the simulator,
// `memory`. A `lease` limits the time in which a job may send. The `worker` uses the store in steps, which a thread of the `writer`
// executes, for a job or for the ledgers that a client has `kept` open. `people` has manual operations; `process` and `clock` are
// replaced in the simulator. Nothing here knows requests or connections.

#[cfg(feature = "ledger")]
mod cache;
#[cfg(feature = "ledger")]
mod cancellation;
#[cfg(feature = "ledger")]
mod clock;
#[cfg_attr(
    not(feature = "ledger-postgres"),
    expect(
        dead_code,
        reason = "without the features there are no ledgers or no databases, and so not every error"
    )
)]
mod error;
#[cfg(feature = "ledger")]
mod key_hash;
#[cfg(feature = "ledger")]
mod lease;
#[cfg(feature = "ledger")]
mod ledger;
#[cfg(feature = "ledger")]
mod maintenance;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod memory;
#[cfg(feature = "ledger")]
mod owner;
#[cfg(feature = "ledger-postgres")]
mod postgres;
#[cfg(feature = "simulation")]
mod process;
#[cfg(feature = "ledger")]
mod sqlite;
#[cfg(feature = "ledger")]
mod state;
#[cfg(feature = "ledger")]
mod store;
#[cfg(feature = "ledger")]
mod worker;
#[cfg(feature = "ledger")]
mod writer;

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use process::{Access, Process, TransactionEnd};

pub use error::{LedgerError, LedgerErrorKind};
#[cfg(feature = "ledger")]
pub use {
    key_hash::normalize_key,
    ledger::Ledger,
    maintenance::{LedgerSummary, Resolution, UnresolvedRow},
    state::LedgerRow,
};

#[cfg(feature = "ledger")]
pub(crate) use {
    cache::LedgerCache,
    key_hash::{KeyHash, Salt, normalized},
    state::{LONGEST_ID, Record, RequestInfo, State, WhenUnresolved},
    worker::Found,
    writer::{Handle, Writer},
};

#[cfg(all(test, feature = "ledger-postgres", feature = "simulation"))]
#[path = "../../tests/stores/mod.rs"]
mod tests;
