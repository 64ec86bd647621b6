//! The list of pending faults, and the selection of a request's fault.

use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    sandbox::{
        fault::{Fault, InvalidFault, ResolvedFault},
        held_requests::{HeldRequests, Hold},
    },
    state::{
        memory_budget::{MemoryBudget, Reservation},
        split_mix::SplitMix64,
    },
};

const MAX_FAULTS: usize = 1_000;

/// The pending faults of a namespace.
#[derive(Debug)]
pub(crate) struct PendingFaults {
    list: Mutex<FaultList>,
    /// The requests held by these faults.
    pub(crate) held: HeldRequests,
    /// Limits the strings and bodies of all pending faults.
    budget: MemoryBudget,
}

/// The fault of a request. A request that the fault holds has a `hold`.
#[derive(Debug)]
pub(crate) struct SelectedFault {
    pub(crate) fault: Arc<ResolvedFault>,
    pub(crate) hold: Option<Hold>,
}

#[derive(Debug, Default)]
struct FaultList {
    added_count: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    pending: PendingFault,
    resolved_fault: Arc<ResolvedFault>,
    _reservation: Reservation,
}

/// A pending fault: see [`Service::faults`](crate::Service::faults).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PendingFault {
    /// The fault's number, from 1, in the order of addition.
    pub id: u64,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
    /// The number of requests that matched its method and path, including those that its [`after`](Fault::after) or
    /// [`probability`](Fault::probability) excluded.
    pub matched: u64,
    /// The number of requests to which the fault was applied.
    pub applied: u64,
}

impl PendingFault {
    /// Counts the request, and decides whether the fault applies to it.
    fn count_and_decide(&mut self, method: &Method, path: &str) -> bool {
        if !self.fault.matches(method, path) {
            return false;
        }
        let index = self.matched;
        self.matched += 1;
        // The random number depends on the request's index only, so that the same seed affects the same requests.
        let random =
            SplitMix64::for_index(self.fault.seed.unwrap_or_default(), index).next_fraction();
        let applies = index >= self.fault.after.unwrap_or_default()
            && random < self.fault.probability.unwrap_or(1.0);
        self.applied += u64::from(applies);
        applies
    }
}

impl PendingFaults {
    pub(crate) fn new(budget: &MemoryBudget) -> Self {
        Self {
            list: Mutex::default(),
            held: HeldRequests::default(),
            budget: budget.clone(),
        }
    }

    /// Adds a fault and returns its number.
    pub(crate) fn add(&self, fault: Fault) -> Result<u64, InvalidFault> {
        let resolved_fault = Arc::new(fault.resolve()?);
        let reservation = self.budget.reserve(fault.byte_len()).ok_or_else(|| {
            InvalidFault("all faults together may have bodies of 64 MiB: remove some first".into())
        })?;
        let mut list = self.list.lock();
        if list.entries.len() >= MAX_FAULTS {
            return Err(InvalidFault(
                "there are 1000 faults already: remove some first".into(),
            ));
        }
        list.added_count += 1;
        let pending = PendingFault {
            id: list.added_count,
            fault,
            matched: 0,
            applied: 0,
        };
        list.entries.push(Entry {
            pending,
            resolved_fault,
            _reservation: reservation,
        });
        Ok(list.added_count)
    }

    /// Selects the first fault that applies to a request. Removes the fault from the list if it applies to no further requests.
    pub(crate) fn select(&self, method: &Method, path: &str) -> Option<SelectedFault> {
        let mut list = self.list.lock();
        let mut entries = list.entries.iter_mut();
        let index = entries.position(|entry| entry.pending.count_and_decide(method, path))?;
        let entry = list.entries.get(index)?;
        let fault = Arc::clone(&entry.resolved_fault);
        let limit = entry.pending.fault.max_requests();
        if limit.is_some_and(|times| entry.pending.applied >= times) {
            list.entries.remove(index);
        }
        // The list is still locked here: a release after `clear` must reach every request whose fault was selected before `clear`.
        Some(self.hold_if_needed(fault))
    }

    /// Adds the request to the held requests if its fault holds it.
    pub(crate) fn hold_if_needed(&self, fault: Arc<ResolvedFault>) -> SelectedFault {
        let hold = fault.hold.then(|| self.held.add());
        SelectedFault { fault, hold }
    }

    pub(crate) fn list(&self) -> Vec<PendingFault> {
        let list = self.list.lock();
        list.entries
            .iter()
            .map(|entry| entry.pending.clone())
            .collect()
    }

    /// Removes the fault with this number. Returns false if there is none.
    pub(crate) fn remove(&self, id: u64) -> bool {
        let entries = &mut self.list.lock().entries;
        let index = entries.iter().position(|entry| entry.pending.id == id);
        index.map(|index| entries.remove(index)).is_some()
    }

    pub(crate) fn clear(&self) {
        self.list.lock().entries.clear();
    }
}
