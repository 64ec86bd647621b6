//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{
    collections::BinaryHeap,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard},
};

use bytes::Bytes;
use dashmap::DashMap;

use crate::state::page::Room;

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent: its number, and the JSON that was sent. The response follows from it, and not the other way round.
pub(crate) type StoredAgent = (u64, Box<[u8]>);

/// Agents and deals.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    max_bytes: u64,
    /// The deals that the server started with, to return to.
    seed: Vec<StoredDeal>,
    /// Written only to replace it as a whole.
    contents: RwLock<Contents>,
}

#[derive(Debug)]
struct Contents {
    deals: DashMap<Box<str>, Bytes>,
    /// By their numbers, from 1 on, without a gap.
    agents: DashMap<u64, Box<[u8]>>,
    taken: Mutex<Taken>,
}

/// How much room is taken.
#[derive(Debug, Default)]
struct Taken {
    agents: u64,
    /// The JSON of the agents and of the deals that were added to the seed, in bytes.
    bytes: u64,
}

/// Which limit of the store leaves no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Agents,
    Bytes,
}

impl Contents {
    fn of(seed: &[StoredDeal]) -> Self {
        Self {
            deals: seed.iter().cloned().collect(),
            agents: DashMap::new(),
            taken: Mutex::default(),
        }
    }

    /// Changes what is taken, in one step: two requests can never both get the last room.
    fn take<T>(&self, change: impl FnOnce(&mut Taken) -> T) -> T {
        change(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store {
    pub(crate) fn new(max_agents: u64, max_bytes: u64, seed: Vec<StoredDeal>) -> Self {
        Self {
            max_agents,
            max_bytes,
            contents: RwLock::new(Contents::of(&seed)),
            seed,
        }
    }

    fn contents(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was sent for an agent, and returns its number.
    pub(crate) fn add_agent(&self, body: &[u8]) -> Result<u64, Full> {
        let contents = self.contents();
        let number = contents.take(|taken| {
            if taken.agents >= self.max_agents {
                return Err(Full::Agents);
            }
            taken.bytes = self.with(taken.bytes, body.len())?;
            taken.agents += 1;
            Ok(taken.agents)
        })?;
        contents.agents.insert(number, body.into());
        Ok(number)
    }

    /// So many bytes and `more`, if there is room for them.
    fn with(&self, bytes: u64, more: usize) -> Result<u64, Full> {
        let sum = bytes.checked_add(more as u64);
        sum.filter(|sum| *sum <= self.max_bytes).ok_or(Full::Bytes)
    }

    /// What was sent for the agents after the one of this number, as many as there is room for, and whether there are
    /// more.
    pub(crate) fn agents_after(&self, number: u64, room: Room) -> (Vec<StoredAgent>, bool) {
        let contents = self.contents();
        let last = contents.take(|taken| taken.agents);
        let later = (number.saturating_add(1)..=last)
            .filter_map(|number| Some((number, contents.agents.get(&number)?.clone())));
        room.fill(later, |(_, body)| body.len())
    }

    /// The deals whose ids come after `id`, in byte order, as many as there is room for, and whether there are more.
    pub(crate) fn deals_after(&self, id: Option<&str>, room: Room) -> (Vec<StoredDeal>, bool) {
        let mut first = BinaryHeap::new();
        for deal in &self.contents().deals {
            if id.is_none_or(|id| **deal.key() > *id) {
                first.push((deal.key().clone(), deal.value().clone()));
            }
            // One more than there may be, to know whether there are more.
            if first.len() > room.entries.saturating_add(1) {
                first.pop();
            }
        }
        room.fill(first.into_sorted_vec(), |(_, text)| text.len())
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        let contents = self.contents();
        contents.deals.get(id).map(|deal| deal.clone())
    }

    /// Keeps a deal; one with the same id is replaced.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let contents = self.contents();
        contents.take(|taken| {
            // The deal that it replaces makes room for it, even if that was there from the start.
            let before = contents.deals.get(&id).map_or(0, |deal| deal.len());
            taken.bytes = match text.len().checked_sub(before) {
                Some(more) => self.with(taken.bytes, more)?,
                None => taken.bytes.saturating_sub((before - text.len()) as u64),
            };
            contents.deals.insert(id, text);
            Ok(())
        })
    }

    /// Forgets a deal; false when there is none.
    pub(crate) fn remove_deal(&self, id: &str) -> bool {
        let contents = self.contents();
        contents.take(|taken| {
            let removed = contents.deals.remove(id);
            if let Some((_, text)) = &removed {
                taken.bytes = taken.bytes.saturating_sub(text.len() as u64);
            }
            removed.is_some()
        })
    }

    /// Forgets every agent and every deal but the seed.
    pub(crate) fn reset(&self) {
        let fresh = Contents::of(&self.seed);
        *self
            .contents
            .write()
            .unwrap_or_else(PoisonError::into_inner) = fresh;
    }
}
