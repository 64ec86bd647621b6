//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use dashmap::DashMap;

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent: its number, from 1 on, and the JSON that was sent. The response follows from it, and not the other way round.
pub(crate) type StoredAgent = (u64, Bytes);

/// Agents and deals.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    max_bytes: u64,
    /// The deals that the server started with, to return to.
    seed: Vec<StoredDeal>,
    /// Read by every request, which waits for nobody. They change only while `added` is locked.
    deals: DashMap<Box<str>, Bytes>,
    added: Mutex<Added>,
}

/// What was added since the start.
#[derive(Debug, Default)]
struct Added {
    agents: Vec<Bytes>,
    /// The JSON of the agents and of the deals that were added to the seed, in bytes.
    bytes: u64,
}

/// Which limit of the store leaves no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Agents,
    Bytes,
}

impl Store {
    pub(crate) fn new(max_agents: u64, max_bytes: u64, seed: Vec<StoredDeal>) -> Self {
        Self {
            max_agents,
            max_bytes,
            deals: seed.iter().cloned().collect(),
            seed,
            added: Mutex::default(),
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
        added.bytes = self.with(added.bytes, body.len())?;
        added.agents.push(body);
        Ok(added.agents.len() as u64)
    }

    /// So many bytes and `more`, if there is room for them.
    fn with(&self, bytes: u64, more: usize) -> Result<u64, Full> {
        let sum = bytes.checked_add(more as u64);
        sum.filter(|sum| *sum <= self.max_bytes).ok_or(Full::Bytes)
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
        let later = self.deals.iter().filter(|deal| is_later(deal.key()));
        let mut later: Vec<_> = later
            .map(|deal| (deal.key().clone(), deal.value().clone()))
            .collect();
        later.sort_unstable();
        later.truncate(count);
        later
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        self.deals.get(id).map(|deal| deal.clone())
    }

    /// Keeps a deal; one with the same id is replaced.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let mut added = self.added();
        // The deal that it replaces makes room for it, even if that was there from the start.
        let before = self.deals.get(&id).map_or(0, |deal| deal.len());
        added.bytes = match text.len().checked_sub(before) {
            Some(more) => self.with(added.bytes, more)?,
            None => added.bytes.saturating_sub((before - text.len()) as u64),
        };
        self.deals.insert(id, text);
        Ok(())
    }

    /// Forgets a deal; false when there is none.
    pub(crate) fn remove_deal(&self, id: &str) -> bool {
        let mut added = self.added();
        let removed = self.deals.remove(id);
        let bytes = removed.as_ref().map_or(0, |(_, text)| text.len());
        added.bytes = added.bytes.saturating_sub(bytes as u64);
        removed.is_some()
    }

    /// Forgets every agent and every deal but the seed. A deal of the seed is there all the time.
    pub(crate) fn reset(&self) {
        let mut added = self.added();
        let seed: HashSet<&str> = self.seed.iter().map(|(id, _)| &**id).collect();
        self.deals.retain(|id, _| seed.contains(&**id));
        for (id, text) in &self.seed {
            self.deals.insert(id.clone(), text.clone());
        }
        *added = Added::default();
    }
}
