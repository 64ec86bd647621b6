//! Cancellation flag of a job. Without it, a locked or a large ledger would delay the end of a cancelled job.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that ends waits for the ledger once the job is cancelled. Outcomes are still recorded; transactions that record no
/// outcome may fail with [`Cause::InUse`](super::error::Cause).
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
