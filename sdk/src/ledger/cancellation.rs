//! Cancellation flag of a job: a lock or a large ledger must not delay its end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Cancels waits once the job has ended. Outcomes are still recorded; other transactions may fail with [`Cause::InUse`](super::error::Cause).
#[derive(Clone, Debug, Default)]
pub(super) struct CancellationFlag(Arc<AtomicBool>);

impl CancellationFlag {
    pub(super) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
