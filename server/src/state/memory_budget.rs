//! A memory budget that several stores share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit, in bytes, on the memory that all holders of its reservations use together. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget(Arc<Semaphore>);

/// A reserved part of a memory budget. Dropping it returns the bytes to the budget.
pub(crate) type Reservation = OwnedSemaphorePermit;

impl MemoryBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Reserves this many bytes. Returns `None` if fewer bytes are left.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()
    }
}
