//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use dashmap::DashMap;

use crate::state::room::{Room, Share};

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent: its number, from 1 on, and the JSON that was sent. The response follows from it, and not the other way round.
pub(crate) type StoredAgent = (u64, Bytes);

/// The deals that a server started with, by their ids. All of its worlds read the same ones.
pub(crate) type SeedDeals = Arc<HashMap<Box<str>, Bytes>>;

/// How many parts a world's own deals are kept in. Many worlds have few of them.
const PARTS: usize = 2;

/// Agents and deals.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    seed: SeedDeals,
    /// The deals that are not as in the seed; `None` where one of the seed is gone. Read by every request, which waits for
    /// nobody. They change only while `added` is locked.
    changed: DashMap<Box<str>, Option<Bytes>>,
    added: Mutex<Added>,
}

/// What was added since the start.
#[derive(Debug)]
struct Added {
    agents: Vec<Bytes>,
    /// The JSON of the agents and of the deals that were added to the seed, in bytes.
    share: Share,
}

/// Which limit of the store leaves no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Agents,
    Bytes,
}

impl Store {
    pub(crate) fn new(max_agents: u64, room: &Arc<Room>, seed: &SeedDeals) -> Self {
        Self {
            max_agents,
            seed: Arc::clone(seed),
            changed: DashMap::with_shard_amount(PARTS),
            added: Mutex::new(Added {
                agents: Vec::new(),
                share: room.share(),
            }),
        }
    }

    fn added(&self) -> MutexGuard<'_, Added> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was sent for an agent, and returns its number.
    pub(crate) fn add_agent(&self, body: &[u8]) -> Result<u64, Full> {
        // Copied to its exact size, before anybody has to wait for it.
        let body = Bytes::copy_from_slice(body);
        let mut added = self.added();
        if added.agents.len() as u64 >= self.max_agents {
            return Err(Full::Agents);
        }
        added.replace(0, body.len())?;
        added.agents.push(body);
        Ok(added.agents.len() as u64)
    }

    /// At most `count` of the agents after the one of this number.
    pub(crate) fn agents_after(&self, number: u64, count: usize) -> Vec<StoredAgent> {
        let added = self.added();
        let agents = (1..).zip(&added.agents);
        let later = agents.skip(usize::try_from(number).unwrap_or(usize::MAX));
        later
            .take(count)
            .map(|(n, sent)| (n, sent.clone()))
            .collect()
    }

    /// At most `count` of the deals whose ids come after `id`, in byte order.
    pub(crate) fn deals_after(&self, id: Option<&str>, count: usize) -> Vec<StoredDeal> {
        let is_later = |of: &str| id.is_none_or(|id| of > id);
        let seed = self.seed.iter().filter(|(of, _)| is_later(of));
        let mut later: BTreeMap<Box<str>, Option<Bytes>> = seed
            .map(|(id, text)| (id.clone(), Some(text.clone())))
            .collect();
        let changed = self.changed.iter().filter(|deal| is_later(deal.key()));
        later.extend(changed.map(|deal| (deal.key().clone(), deal.value().clone())));
        let later = later.into_iter();
        let later = later.filter_map(|(id, text)| text.map(|text| (id, text)));
        later.take(count).collect()
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        match self.changed.get(id) {
            Some(deal) => deal.clone(),
            None => self.seed.get(id).cloned(),
        }
    }

    /// Keeps a deal; one with the same id is replaced.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let mut added = self.added();
        // The deal that it replaces makes room for it, even if that was there from the start.
        let before = self.deal(&id).map_or(0, |deal| deal.len());
        added.replace(before, text.len())?;
        self.changed.insert(id, Some(text));
        Ok(())
    }

    /// Forgets a deal; false when there is none.
    pub(crate) fn remove_deal(&self, id: &str) -> bool {
        let mut added = self.added();
        let Some(removed) = self.deal(id) else {
            return false;
        };
        if self.seed.contains_key(id) {
            self.changed.insert(id.into(), None);
        } else {
            self.changed.remove(id);
        }
        added.replace(removed.len(), 0).is_ok()
    }

    /// Forgets every agent and every deal but the seed. A deal of the seed is there all the time.
    pub(crate) fn reset(&self) {
        let mut added = self.added();
        self.changed.clear();
        added.agents = Vec::new();
        added.share.clear();
    }
}

impl Added {
    /// Takes the room of a text for another one, if there is enough.
    fn replace(&mut self, before: usize, after: usize) -> Result<(), Full> {
        let bytes = self.share.bytes().saturating_add(after as u64);
        let is_resized = self.share.resize(bytes.saturating_sub(before as u64));
        is_resized.then_some(()).ok_or(Full::Bytes)
    }
}
