//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use bytes::Bytes;

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
    contents: RwLock<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    deals: BTreeMap<Box<str>, Bytes>,
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
        let store = Self {
            max_agents,
            max_bytes,
            seed,
            contents: RwLock::default(),
        };
        store.reset();
        store
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        let contents = self.contents.write();
        contents.unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was sent for an agent, and returns its number.
    pub(crate) fn add_agent(&self, body: &[u8]) -> Result<u64, Full> {
        // Copied to its exact size, before anybody has to wait for it.
        let body = Bytes::copy_from_slice(body);
        let mut contents = self.write();
        if contents.agents.len() as u64 >= self.max_agents {
            return Err(Full::Agents);
        }
        contents.bytes = self.with(contents.bytes, body.len())?;
        contents.agents.push(body);
        Ok(contents.agents.len() as u64)
    }

    /// So many bytes and `more`, if there is room for them.
    fn with(&self, bytes: u64, more: usize) -> Result<u64, Full> {
        let sum = bytes.checked_add(more as u64);
        sum.filter(|sum| *sum <= self.max_bytes).ok_or(Full::Bytes)
    }

    /// At most `count` of the agents after the one of this number.
    pub(crate) fn agents_after(&self, number: u64, count: usize) -> Vec<StoredAgent> {
        let contents = self.read();
        let agents = (1..).zip(&contents.agents);
        let later = agents.skip(usize::try_from(number).unwrap_or(usize::MAX));
        later
            .take(count)
            .map(|(n, sent)| (n, sent.clone()))
            .collect()
    }

    /// At most `count` of the deals whose ids come after `id`, in byte order.
    pub(crate) fn deals_after(&self, id: Option<&str>, count: usize) -> Vec<StoredDeal> {
        let after = id.map_or(Bound::Unbounded, Bound::Excluded);
        let contents = self.read();
        let later = contents.deals.range::<str, _>((after, Bound::Unbounded));
        later
            .take(count)
            .map(|(id, text)| (id.clone(), text.clone()))
            .collect()
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        self.read().deals.get(id).cloned()
    }

    /// Keeps a deal; one with the same id is replaced.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let mut contents = self.write();
        // The deal that it replaces makes room for it, even if that was there from the start.
        let before = contents.deals.get(&id).map_or(0, Bytes::len);
        contents.bytes = match text.len().checked_sub(before) {
            Some(more) => self.with(contents.bytes, more)?,
            None => contents.bytes.saturating_sub((before - text.len()) as u64),
        };
        contents.deals.insert(id, text);
        Ok(())
    }

    /// Forgets a deal; false when there is none.
    pub(crate) fn remove_deal(&self, id: &str) -> bool {
        let mut contents = self.write();
        let removed = contents.deals.remove(id);
        let bytes = removed.as_ref().map_or(0, Bytes::len);
        contents.bytes = contents.bytes.saturating_sub(bytes as u64);
        removed.is_some()
    }

    /// Forgets every agent and every deal but the seed.
    pub(crate) fn reset(&self) {
        let deals = self.seed.iter().cloned().collect();
        *self.write() = Contents {
            deals,
            ..Contents::default()
        };
    }
}
