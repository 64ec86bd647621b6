//! Processes of the simulator, as a ledger sees them.

use std::{fmt, future, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

/// A simulated process, which decides the faults of its ledger. By default there are none, and its clocks stand still.
pub trait Process: fmt::Debug + Send + Sync {
    /// Its number, which is part of the numbers of its jobs.
    fn number(&self) -> u32 {
        0
    }

    /// Returns whether it has ended. Then its destructors reach no database.
    fn has_ended(&self) -> bool {
        false
    }

    /// The time since some moment, on a clock of its own.
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    /// Its wall clock, in milliseconds since 1970.
    fn unix_ms(&self) -> i64 {
        0
    }

    /// Runs a task, until the process ends.
    fn spawn(self: Arc<Self>, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    /// Waits before a transaction, and again before its replies.
    fn wait(&self) -> BoxFuture<'static, ()> {
        Box::pin(future::ready(()))
    }

    /// Decides how its next transaction ends.
    fn transaction_end(&self, _: Access) -> TransactionEnd {
        TransactionEnd::Committed
    }
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A job begins.
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
    /// It is committed.
    Committed,
    /// The database cannot be reached: nothing is done.
    Unreachable,
    /// The disk is full: nothing is done.
    DiskFull,
    /// The connection breaks before the response. The transaction ends before the next one that writes: with a commit, or without.
    Unanswered {
        /// True if it is committed in the end.
        commits: bool,
    },
}
