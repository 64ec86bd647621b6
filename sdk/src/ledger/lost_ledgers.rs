//! Ledgers that this process has open or has lost. A new ledger must not take the place of a lost one, because it would not know
//! the rows that were sent.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::error::LedgerLocation;

static LEDGERS: Mutex<BTreeMap<LedgerLocation, Usage>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Usage {
    open_count: usize,
    /// True if the ledger was moved, deleted or replaced while it was open.
    is_lost: bool,
}

fn lock_ledgers() -> MutexGuard<'static, BTreeMap<LedgerLocation, Usage>> {
    LEDGERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether this process has the ledger open, or has lost it. Call this before looking for the ledger: another job of
/// this process that creates the ledger marks it as open only once it exists.
pub(super) fn was_opened(location: &LedgerLocation) -> bool {
    lock_ledgers().contains_key(location)
}

/// Mark of a ledger that this process has open to send rows, until this value is dropped.
pub(super) struct OpenMark(LedgerLocation);

impl OpenMark {
    /// Marks an existing ledger as open, and as not lost. The path of a file must be canonical.
    pub(super) fn new(location: LedgerLocation) -> Self {
        let mut ledgers = lock_ledgers();
        let usage = ledgers.entry(location.clone()).or_default();
        usage.open_count += 1;
        usage.is_lost = false;
        Self(location)
    }

    /// Marks the ledger as lost, until it is opened again.
    pub(super) fn mark_lost(&self) {
        if let Some(usage) = lock_ledgers().get_mut(&self.0) {
            usage.is_lost = true;
        }
    }
}

impl Drop for OpenMark {
    fn drop(&mut self) {
        let mut ledgers = lock_ledgers();
        if let Some(usage) = ledgers.get_mut(&self.0) {
            usage.open_count -= 1;
            if usage.open_count == 0 && !usage.is_lost {
                ledgers.remove(&self.0);
            }
        }
    }
}
