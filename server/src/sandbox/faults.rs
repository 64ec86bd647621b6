//! The faults that are to happen, and which of them happens to a request.

use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    sandbox::{
        fault::{Fault, InvalidFault, Play},
        held::{HeldRequests, Hold},
    },
    state::{
        room::{Room, Taken},
        split_mix::SplitMix64,
    },
};

const MAX_FAULTS: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Faults {
    list: Mutex<List>,
    /// The requests that are held by one of them.
    pub(crate) held: HeldRequests,
    /// For their texts, bodies above all.
    room: Room,
}

/// The fault of a request, and the hold on it.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) play: Arc<Play>,
    pub(crate) hold: Option<Hold>,
}

#[derive(Debug, Default)]
struct List {
    added: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    pending: PendingFault,
    play: Arc<Play>,
    _taken: Taken,
}

/// A fault that is still to happen: see [`Service::faults`](crate::Service::faults).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PendingFault {
    /// Its number, from 1, in the order in which they were added.
    pub id: u64,
    /// What is to happen, and to which requests.
    #[serde(flatten)]
    pub fault: Fault,
    /// How many requests it would have happened to but for its [`after`](Fault::after) and its
    /// [`probability`](Fault::probability).
    pub matched: u64,
    /// How many times it has happened.
    pub played: u64,
}

impl PendingFault {
    /// Whether it happens to the request.
    fn happens_to(&mut self, method: &Method, path: &str) -> bool {
        if !self.fault.selects(method, path) {
            return false;
        }
        let index = self.matched;
        self.matched += 1;
        // What decides is the index of the request, not how often chance was asked before: the same seed hits the same
        // requests.
        let chance = SplitMix64::of(self.fault.seed.unwrap_or_default(), index).unit();
        let happens = index >= self.fault.after.unwrap_or_default()
            && chance < self.fault.probability.unwrap_or(1.0);
        self.played += u64::from(happens);
        happens
    }
}

impl Faults {
    pub(crate) fn new(room: &Room) -> Self {
        Self {
            list: Mutex::default(),
            held: HeldRequests::default(),
            room: room.clone(),
        }
    }

    /// Adds a fault, and returns its number.
    pub(crate) fn add(&self, fault: Fault) -> Result<u64, InvalidFault> {
        let play = Arc::new(fault.check()?);
        let taken = self.room.take(fault.bytes()).ok_or_else(|| {
            InvalidFault("all faults together may have bodies of 64 MiB: remove some first".into())
        })?;
        let mut list = self.list.lock();
        if list.entries.len() >= MAX_FAULTS {
            return Err(InvalidFault(
                "there are 1000 faults already: remove some first".into(),
            ));
        }
        list.added += 1;
        let pending = PendingFault {
            id: list.added,
            fault,
            matched: 0,
            played: 0,
        };
        list.entries.push(Entry {
            pending,
            play,
            _taken: taken,
        });
        Ok(list.added)
    }

    /// Picks what happens to a request: the effect of the first fault that happens to it. A fault that has happened as often
    /// as it should is gone.
    pub(crate) fn pick(&self, method: &Method, path: &str) -> Option<Picked> {
        let mut list = self.list.lock();
        let mut entries = list.entries.iter_mut();
        let index = entries.position(|entry| entry.pending.happens_to(method, path))?;
        let entry = list.entries.get(index)?;
        let play = Arc::clone(&entry.play);
        let limit = entry.pending.fault.limit();
        if limit.is_some_and(|times| entry.pending.played >= times) {
            list.entries.remove(index);
        }
        // The list is still locked: once it is cleared, a release applies to all requests that were picked before.
        Some(self.picked(play))
    }

    /// Holds the request that this happens to, if it is to be held.
    pub(crate) fn picked(&self, play: Arc<Play>) -> Picked {
        let hold = play.hold.then(|| self.held.add());
        Picked { play, hold }
    }

    pub(crate) fn pending(&self) -> Vec<PendingFault> {
        let list = self.list.lock();
        list.entries
            .iter()
            .map(|entry| entry.pending.clone())
            .collect()
    }

    /// Removes the fault with this number; false when there is none.
    pub(crate) fn remove(&self, id: u64) -> bool {
        let entries = &mut self.list.lock().entries;
        let index = entries.iter().position(|entry| entry.pending.id == id);
        index.map(|index| entries.remove(index)).is_some()
    }

    pub(crate) fn clear(&self) {
        self.list.lock().entries.clear();
    }
}
