//! The faults that are to happen, and which of them happens to a request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Method;
use serde::Serialize;

use crate::{
    sandbox::fault::{Fault, InvalidFault, Matching, Play},
    state::{room::Share, split_mix::SplitMix64},
};

/// How many faults there may be at once.
const MAX_FAULTS: usize = 1_000;

/// How many bytes their texts may have, bodies above all.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A list of faults, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Faults(Mutex<List>);

#[derive(Debug)]
struct List {
    added: u64,
    entries: Vec<Entry>,
    /// What the texts of all of them take.
    share: Share,
}

#[derive(Debug)]
struct Entry {
    pending: PendingFault,
    play: Play,
    matching: Matching,
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

impl Entry {
    /// Whether it happens to the request.
    fn happens_to(&mut self, method: &Method, path: &str) -> bool {
        let Matching {
            after,
            probability,
            seed,
            ..
        } = self.matching;
        if !self.matching.selects(method, path) {
            return false;
        }
        let index = self.pending.matched;
        self.pending.matched += 1;
        // What decides is the index of the request, not how often chance was asked before: the same seed hits the same
        // requests.
        let chance = SplitMix64::of(seed, index).unit();
        let happens = index >= after && chance < probability;
        self.pending.played += u64::from(happens);
        happens
    }
}

impl List {
    /// How many bytes the texts of all of them have.
    fn bytes(&self) -> usize {
        let faults = self.entries.iter().map(|entry| &entry.pending.fault);
        faults.map(Fault::bytes).sum()
    }

    /// Removes those that are not to be kept; false when there were none.
    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(keep);
        self.entries.len() < before && self.share.resize(self.bytes() as u64)
    }
}

impl Faults {
    pub(crate) fn new(share: Share) -> Self {
        Self(Mutex::new(List {
            added: 0,
            entries: Vec::new(),
            share,
        }))
    }

    /// Adds a fault, and returns its number.
    pub(crate) fn add(&self, fault: Fault) -> Result<u64, InvalidFault> {
        let (play, matching) = fault.check()?;
        let mut list = self.lock();
        if list.entries.len() >= MAX_FAULTS {
            return Err(InvalidFault(
                "there are 1000 faults already: remove some first".into(),
            ));
        }
        let bytes = list.bytes() + fault.bytes();
        if bytes > MAX_BYTES || !list.share.resize(bytes as u64) {
            return Err(InvalidFault(
                "all faults together may have bodies of 64 MiB, and no more than what max_store_bytes leaves: remove some \
                 first"
                    .into(),
            ));
        }
        list.added += 1;
        let id = list.added;
        list.entries.push(Entry {
            pending: PendingFault {
                id,
                fault,
                matched: 0,
                played: 0,
            },
            play,
            matching,
        });
        Ok(id)
    }

    /// What happens to a request: the effect of the first fault that happens to it. A fault that has happened as often
    /// as it should is gone.
    pub(crate) fn pick(&self, method: &Method, path: &str) -> Option<Play> {
        let mut list = self.lock();
        let at = list
            .entries
            .iter_mut()
            .position(|entry| entry.happens_to(method, path))?;
        let entry = list.entries.get(at)?;
        let (id, played, play) = (entry.pending.id, entry.pending.played, entry.play.clone());
        if entry.matching.times.is_some_and(|times| played >= times) {
            list.retain(|entry| entry.pending.id != id);
        }
        Some(play)
    }

    /// Those that are still to happen, in the order in which they were added.
    pub(crate) fn pending(&self) -> Vec<PendingFault> {
        let list = self.lock();
        let pending = list.entries.iter().map(|entry| entry.pending.clone());
        pending.collect()
    }

    /// Removes the fault with this number; false when there is none.
    pub(crate) fn remove(&self, id: u64) -> bool {
        self.lock().retain(|entry| entry.pending.id != id)
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        self.lock().retain(|_| false);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
