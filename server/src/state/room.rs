//! Room that many things share: how many bytes all of them together may have.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Semaphore>);

/// What something takes of it for as long as this is there.
pub(crate) type Taken = OwnedSemaphorePermit;

impl Room {
    pub(crate) fn new(bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// So many bytes, if there is room for them.
    pub(crate) fn take(&self, bytes: usize) -> Option<Taken> {
        let bytes = u32::try_from(bytes).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()
    }
}
