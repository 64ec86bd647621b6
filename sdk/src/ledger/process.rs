//! Interface between a ledger and a process of the simulator: clocks, tasks and faults.

use std::{fmt, future, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

/// A simulated process, which decides the faults of its ledger. With the default methods, there are no faults, and the clocks
/// stand still.
pub trait Process: fmt::Debug + Send + Sync {
    /// Returns the number of the process, which is the upper 32 bits of the number of each job of the process.
    fn number(&self) -> u32 {
        0
    }

    /// Returns whether the process has ended: destructors that run after that must not change the database.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns the time on the process's monotonic clock.
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the time on the process's wall clock, in milliseconds since 1970.
    fn unix_ms(&self) -> i64 {
        0
    }

    /// Starts a task, which ends with the process.
    fn spawn(self: Arc<Self>, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    /// Waits before a transaction, and again before its replies are sent.
    fn wait(&self) -> BoxFuture<'static, ()> {
        Box::pin(future::ready(()))
    }

    /// Decides how the process's next transaction ends.
    fn transaction_end(&self, _: Access) -> TransactionEnd {
        TransactionEnd::Committed
    }
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A job opens the ledger.
    Open,
    /// Rows are read.
    Read,
    /// Rows are claimed, and perhaps outcomes recorded.
    Claim,
    /// Outcomes are recorded.
    Record,
    /// A lease is renewed.
    Renew,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// The transaction is committed.
    Committed,
    /// The database cannot be reached, and nothing changes.
    Unreachable,
    /// The disk is full, and nothing changes.
    DiskFull,
    /// The connection breaks before the response. The transaction is committed or rolled back before the next transaction that
    /// writes.
    Unanswered {
        /// True if the transaction is committed.
        commits: bool,
    },
}
