//! The faults that are to happen, and which of them happens to a request.

use http::Method;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    sandbox::{
        fault::{Fault, InvalidFault, Matching, Play},
        rate_limit::{Buckets, Quota, RateLimit},
    },
    state::{
        room::{Room, Taken},
        split_mix::SplitMix64,
    },
};

/// How many faults there may be at once.
const MAX_FAULTS: usize = 1_000;

/// A list of faults, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Faults(Mutex<List>);

#[derive(Debug)]
struct List {
    added: u64,
    /// The first, with the number 0, is what the server was started with, `--rate-limit`. Nobody sees or removes it.
    entries: Vec<Entry>,
    /// For their texts, bodies above all.
    room: Room,
}

#[derive(Debug)]
struct Entry {
    pending: PendingFault,
    play: Play,
    matching: Matching,
    buckets: Buckets,
    until: Option<Instant>,
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

impl Entry {
    fn new(id: u64, fault: Fault, room: &Room) -> Result<Self, InvalidFault> {
        let (play, matching) = fault.check()?;
        let taken = room.take(fault.bytes()).ok_or_else(|| {
            InvalidFault("all faults together may have bodies of 64 MiB: remove some first".into())
        })?;
        let lasts = matching.lasts;
        Ok(Self {
            pending: PendingFault {
                id,
                fault,
                matched: 0,
                played: 0,
            },
            play,
            matching,
            buckets: Buckets::default(),
            until: lasts.and_then(|lasts| Instant::now().checked_add(lasts)),
            _taken: taken,
        })
    }

    /// Whether it happens to the request. If it has a rate limit, `quota` is what that leaves.
    fn happens_to(
        &mut self,
        method: &Method,
        path: &str,
        key: Option<&[u8]>,
        quota: &mut Option<Quota>,
    ) -> bool {
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
        let mut happens = index >= after && chance < probability;
        if let Some(limit) = self.matching.rate_limit.filter(|_| happens) {
            // Requests without a key that is accepted have no rate.
            let left = key.map(|key| self.buckets.take(limit, key, Instant::now()));
            happens = left.is_some_and(|left| left.wait.is_some());
            *quota = left.or(*quota);
        }
        self.pending.played += u64::from(happens);
        happens
    }
}

impl List {
    /// Removes those that are not to be kept; false when there were none.
    fn retain(&mut self, keep: impl Fn(&Entry) -> bool) -> bool {
        let before = self.entries.len();
        self.entries.retain(keep);
        self.entries.len() < before
    }
}

impl Faults {
    pub(crate) fn new(limit: Option<RateLimit>, room: &Room) -> Self {
        let always = |limit| Entry::new(0, Fault::rate_limit(limit), &Room::new(u64::MAX)).ok();
        Self(Mutex::new(List {
            added: 0,
            entries: limit.and_then(always).into_iter().collect(),
            room: room.clone(),
        }))
    }

    /// Adds a fault, and returns its number.
    pub(crate) fn add(&self, fault: Fault) -> Result<u64, InvalidFault> {
        let mut list = self.lock();
        let entry = Entry::new(list.added + 1, fault, &list.room)?;
        if list.entries.len() >= MAX_FAULTS {
            return Err(InvalidFault(
                "there are 1000 faults already: remove some first".into(),
            ));
        }
        list.added += 1;
        list.entries.push(entry);
        Ok(list.added)
    }

    /// What happens to a request: the effect of the first fault that happens to it. A fault that has happened as often
    /// as it should is gone. `key` is that of the request, if it is accepted; if there is a limit for it, `quota` is what is
    /// left.
    pub(crate) fn pick(
        &self,
        method: &Method,
        path: &str,
        key: Option<&[u8]>,
        quota: &mut Option<Quota>,
    ) -> Option<Play> {
        let mut list = self.lock();
        let mut all = list.entries.iter_mut();
        let entry = all.find_map(|entry| {
            let happens = entry.happens_to(method, path, key, quota);
            happens.then_some(entry)
        })?;
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
        pending.filter(|pending| pending.id > 0).collect()
    }

    /// Removes the fault with this number; false when there is none.
    pub(crate) fn remove(&self, id: u64) -> bool {
        id > 0 && self.lock().retain(|entry| entry.pending.id != id)
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        let mut list = self.lock();
        list.retain(|entry| entry.pending.id == 0);
        for limit in &mut list.entries {
            limit.buckets = Buckets::default();
        }
    }

    /// The list, without those whose time is over.
    fn lock(&self) -> MutexGuard<'_, List> {
        let mut list = self.0.lock();
        let is_over = |until: Instant| until <= Instant::now();
        list.retain(|entry| !entry.until.is_some_and(is_over));
        list
    }
}
