//! Lease of a job: the time within which it may send the rows that it has claimed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{clock::Clock, job_lock::LockFile};

/// The time for which a database considers a job alive after the last renewal of its lease.
#[cfg_attr(
    not(feature = "ledger-postgres"),
    allow(dead_code, reason = "only a database has leases")
)]
pub(super) const LEASE: Duration = Duration::from_secs(60);

/// The time between two renewals of a lease.
pub(super) const RENEWAL_INTERVAL: Duration = Duration::from_secs(10);

/// The time for which a job may send claimed rows, from the moment at which it began to renew its lease. It is shorter than
/// [`LEASE`], so that requests arrive before other jobs may claim the rows.
const SEND_LIMIT: Duration = Duration::from_secs(40);

/// The way in which other jobs learn that a job is alive.
#[cfg_attr(
    not(feature = "ledger-postgres"),
    allow(dead_code, reason = "only a database has leases")
)]
pub(super) enum Liveness {
    /// The job holds a lock on this file, which the operating system releases when the process ends. `None` if the ledger is
    /// only read.
    Lock(Option<LockFile>),
    /// The job renews its lease in the database.
    Lease,
}

/// The lease of a job, shared by its worker and its handles. A job that holds a file lock may send for as long as the file
/// exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    state: Arc<Mutex<LeaseState>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// The number of leases that have begun. Rows claimed under an earlier lease must not be sent.
    number: u64,
    /// The end of the lease in the database, on the job's own clock.
    ends_at: Option<Duration>,
    /// The locked file, if the job has one in place of a lease in a database.
    lock: Option<LockFile>,
}

impl Lease {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    /// Begins a new lease at this time.
    pub(super) fn begin(&self, liveness: Liveness, now: Duration) {
        let mut state = self.lock_state();
        state.number += 1;
        (state.ends_at, state.lock) = match liveness {
            Liveness::Lock(lock) => (None, lock),
            Liveness::Lease => (Some(now + SEND_LIMIT), None),
        };
    }

    /// Extends the lease, counted from this time.
    pub(super) fn renew(&self, now: Duration) {
        self.lock_state().ends_at = Some(now + SEND_LIMIT);
    }

    /// Ends the lease, because other jobs may already consider this job dead.
    pub(super) fn end(&self) {
        self.lock_state().ends_at = Some(Duration::ZERO);
    }

    pub(super) fn number(&self) -> u64 {
        self.lock_state().number
    }

    /// Returns the time for which rows claimed under the lease with this number may still be sent: zero if that lease is over,
    /// `None` if there is no limit.
    pub(super) fn remaining_time(&self, number: u64) -> Option<Duration> {
        let now = self.clock.elapsed();
        let current = self.lock_state();
        if number != current.number || current.lock.as_ref().is_some_and(|lock| !lock.exists()) {
            return Some(Duration::ZERO);
        }
        Some(current.ends_at?.saturating_sub(now))
    }

    /// Returns whether the current lease is over.
    pub(super) fn has_ended(&self) -> bool {
        self.remaining_time(self.number()) == Some(Duration::ZERO)
    }

    fn lock_state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
