//! A flag that says that the result of a transaction is no longer needed, so that neither a lock nor a large ledger holds up the
//! end of a job.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Set once the job has ended. Outcomes are still recorded; everything else may fail with [`Cause::InUse`](super::error::Cause).
#[derive(Clone, Debug, Default)]
pub(super) struct GivenUp(Arc<AtomicBool>);

impl GivenUp {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
