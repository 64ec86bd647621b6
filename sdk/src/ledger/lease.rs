//! Until when a job may send what it has claimed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// The time that a job has, and the number of the lease that gives it. Where the operating system says which jobs are
/// alive, there is one that has no end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease(Arc<Mutex<(u64, Option<Instant>)>>);

impl Lease {
    /// Begins another.
    #[cfg(feature = "ledger-postgres")]
    pub(super) fn begin(&self, until: Instant) {
        let mut held = self.held();
        *held = (held.0 + 1, Some(until));
    }

    #[cfg(feature = "ledger-postgres")]
    pub(super) fn renew(&self, until: Instant) {
        self.held().1 = Some(until);
    }

    pub(super) fn term(&self) -> u64 {
        self.held().0
    }

    pub(super) fn is_held(&self, now: Instant, term: u64) -> bool {
        let (current, until) = *self.held();
        term == current && until.is_none_or(|until| now < until)
    }

    fn held(&self) -> MutexGuard<'_, (u64, Option<Instant>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
