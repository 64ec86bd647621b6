//! The lease of a job: the time within which it may send the rows that it has claimed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::owner::LockFile;

/// The lease of a job. Where the operating system knows which jobs are alive, it has no end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease(Arc<Mutex<Term>>);

#[derive(Debug, Default)]
struct Term {
    /// The number of leases that have begun: rows claimed with an earlier one must not be sent.
    number: u64,
    /// The end of the lease, by [`now`].
    until: Option<Duration>,
    /// The locked file that shows that the job is alive, in place of an end.
    lock: Option<LockFile>,
}

impl Lease {
    /// Begins another lease.
    #[cfg(feature = "ledger-postgres")]
    pub(super) fn begin(&self, until: Duration) {
        let mut term = self.term_locked();
        term.number += 1;
        term.until = Some(until);
    }

    /// Begins another lease, which lasts for as long as the file is there.
    pub(super) fn begin_locked(&self, lock: LockFile) {
        let mut term = self.term_locked();
        term.number += 1;
        (term.until, term.lock) = (None, Some(lock));
    }

    #[cfg(feature = "ledger-postgres")]
    pub(super) fn renew(&self, until: Duration) {
        self.term_locked().until = Some(until);
    }

    /// Ends the lease, because other jobs may already take this one for dead.
    #[cfg(feature = "ledger-postgres")]
    pub(super) fn end(&self) {
        self.term_locked().until = Some(Duration::ZERO);
    }

    pub(super) fn term(&self) -> u64 {
        self.term_locked().number
    }

    /// Returns the time for which rows claimed in this term may still be sent: zero once it is over, `None` without a limit.
    pub(super) fn remaining(&self, now: Duration, term: u64) -> Option<Duration> {
        let current = self.term_locked();
        if term != current.number || current.lock.as_ref().is_some_and(|lock| !lock.exists()) {
            return Some(Duration::ZERO);
        }
        Some(current.until?.saturating_sub(now))
    }

    fn term_locked(&self) -> MutexGuard<'_, Term> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time since some moment, on a clock that also runs while the machine is suspended: a lease ends then, too.
/// `std::time::Instant` stops on Linux and Apple's systems.
#[cfg(unix)]
pub(super) fn now() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    // The time of these clocks is never negative.
    clock_gettime(CLOCK).try_into().unwrap_or_default()
}

#[cfg(not(unix))]
pub(super) fn now() -> Duration {
    use std::{sync::OnceLock, time::Instant};

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
