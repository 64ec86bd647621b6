//! The list of pending faults, and the selection of a request's fault.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    sandbox::{
        fault::{Fault, InvalidFault, ResolvedFault},
        held_requests::{HeldRequests, Hold},
        request_pattern::RequestParts,
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

/// The result of selecting the fault of a request.
#[derive(Debug, Default)]
pub(crate) struct FaultSelection {
    /// `None` if no fault applies.
    pub(crate) fault: Option<Arc<ResolvedFault>>,
    /// Set if the fault holds the request.
    pub(crate) hold: Option<Hold>,
    /// True if the fault can only be selected when the body has arrived, because a pending fault depends on it.
    pub(crate) needs_body: bool,
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
    /// The number of requests that matched its method, path, headers and body, including those that its [`after`](Fault::after)
    /// or [`probability`](Fault::probability) excluded.
    pub matched: u64,
    /// The number of requests to which the fault was applied.
    pub applied: u64,
}

impl PendingFault {
    /// Counts the request, and decides whether the fault applies to it.
    fn count_and_decide(&mut self, request: RequestParts<'_>) -> bool {
        if !self.fault.pattern.matches(request) {
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
    ///
    /// Selects and counts nothing if the body has not arrived and a fault depends on it.
    pub(crate) fn select(&self, request: RequestParts<'_>) -> FaultSelection {
        let mut list = self.list.lock();
        let depends_on_body = |entry: &Entry| {
            let pattern = &entry.pending.fault.pattern;
            pattern.has_body() && pattern.matches(request)
        };
        if request.body.is_none() && list.entries.iter().any(depends_on_body) {
            return FaultSelection {
                needs_body: true,
                ..FaultSelection::default()
            };
        }
        let mut entries = list.entries.iter_mut();
        let index = entries.position(|entry| entry.pending.count_and_decide(request));
        let Some((index, entry)) = index.and_then(|index| Some((index, list.entries.get(index)?)))
        else {
            return FaultSelection::default();
        };
        let fault = Arc::clone(&entry.resolved_fault);
        let limit = entry.pending.fault.max_requests();
        if limit.is_some_and(|times| entry.pending.applied >= times) {
            list.entries.remove(index);
        }
        // The list is still locked here: a release after `clear` must reach every request whose fault was selected before `clear`.
        self.hold_if_needed(fault)
    }

    /// Adds the request to the held requests if its fault holds it.
    pub(crate) fn hold_if_needed(&self, fault: Arc<ResolvedFault>) -> FaultSelection {
        FaultSelection {
            hold: fault.hold.then(|| self.held.add()),
            fault: Some(fault),
            needs_body: false,
        }
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
