//! The lease of a job: the time within which it may send the rows that it has claimed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{clock::Clock, owner::LockFile};

/// The time for which a database takes a job for alive after it was last heard from.
#[cfg_attr(
    not(feature = "ledger-postgres"),
    allow(dead_code, reason = "only a database has leases")
)]
pub(super) const LEASE: Duration = Duration::from_secs(60);

/// The time between two renewals of a lease.
pub(super) const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// The time for which a job may send the rows that it has claimed, from the moment at which it began to renew its lease. The rest of
/// the lease is for what was sent to arrive.
const MAY_SEND: Duration = Duration::from_secs(40);

/// The way in which other jobs learn that a job is alive.
#[cfg_attr(
    not(feature = "ledger-postgres"),
    allow(dead_code, reason = "only a database has leases")
)]
pub(super) enum Liveness {
    /// It has locked this file, and the operating system unlocks it when the process ends. `None` if it only reads.
    Lock(Option<LockFile>),
    /// It renews its lease in the database.
    Lease,
}

/// The lease of a job. A job that has locked a file may send for as long as the file exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    term: Arc<Mutex<Term>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Term {
    /// The number of leases that have begun: rows claimed with an earlier one must not be sent.
    number: u64,
    /// The end of the lease, on the clock.
    until: Option<Duration>,
    /// The locked file, in place of an end.
    lock: Option<LockFile>,
}

impl Lease {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    /// Begins another lease, at this time.
    pub(super) fn begin(&self, liveness: Liveness, now: Duration) {
        let mut term = self.term_locked();
        term.number += 1;
        (term.until, term.lock) = match liveness {
            Liveness::Lock(lock) => (None, lock),
            Liveness::Lease => (Some(now + MAY_SEND), None),
        };
    }

    /// Extends the lease from this time on.
    pub(super) fn renew(&self, now: Duration) {
        self.term_locked().until = Some(now + MAY_SEND);
    }

    /// Ends the lease, because other jobs may already take this one for dead.
    pub(super) fn end(&self) {
        self.term_locked().until = Some(Duration::ZERO);
    }

    pub(super) fn term(&self) -> u64 {
        self.term_locked().number
    }

    /// Returns the time for which rows claimed in this term may still be sent: zero once it is over, `None` without a limit.
    pub(super) fn remaining(&self, term: u64) -> Option<Duration> {
        let now = self.clock.elapsed();
        let current = self.term_locked();
        if term != current.number || current.lock.as_ref().is_some_and(|lock| !lock.exists()) {
            return Some(Duration::ZERO);
        }
        Some(current.until?.saturating_sub(now))
    }

    /// Returns whether the current lease is over.
    pub(super) fn has_ended(&self) -> bool {
        self.remaining(self.term()) == Some(Duration::ZERO)
    }

    fn term_locked(&self) -> MutexGuard<'_, Term> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
