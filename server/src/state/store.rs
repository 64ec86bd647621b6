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

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Room = Room {
        entries: usize::MAX,
        bytes: usize::MAX,
    };

    #[test]
    fn the_last_place_is_given_once() {
        let store = Store::new(100, u64::MAX, Vec::new());
        let taken = std::thread::scope(|scope| {
            let take = || (0..50).filter_map(|_| store.add_agent(b"{}").ok()).count();
            let takers: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            let taken = takers.into_iter().map(|taker| taker.join().unwrap());
            taken.sum::<usize>()
        });
        assert_eq!((taken, store.agents_after(0, ALL).0.len()), (100, 100));
    }

    #[test]
    fn what_is_not_kept_takes_no_place() {
        let store = Store::new(2, 10, vec![("d".into(), Bytes::from_static(b"[seed]"))]);
        assert_eq!(store.add_agent(&[b' '; 11]), Err(Full::Bytes));
        assert_eq!(store.add_agent(&[b' '; 4]), Ok(1));
        assert_eq!(store.add_agent(&[b' '; 7]), Err(Full::Bytes));
        // Replacing counts the difference, and the seed is free.
        let deal = |id: &str, length| (id.into(), vec![b' '; length].into());
        assert_eq!(store.insert_deal(deal("d", 12)), Ok(()));
        assert_eq!(store.insert_deal(deal("e", 1)), Err(Full::Bytes));
        assert_eq!(store.insert_deal(deal("d", 6)), Ok(()));
        assert_eq!(store.insert_deal(deal("e", 1)), Ok(()));
        assert_eq!(store.add_agent(&[b' '; 5]), Ok(2));
        assert_eq!(store.add_agent(b""), Err(Full::Agents));
        store.reset();
        assert_eq!(store.add_agent(&[b' '; 10]), Ok(1));
        assert_eq!(store.deal("d").unwrap().len(), 6);
        assert!(store.deal("e").is_none());
    }

    #[test]
    fn lists_come_in_pages() {
        let deals = ["c", "a", "d", "b"].map(|id| (id.into(), Bytes::from_static(b"{}")));
        let store = Store::new(10, 100, deals.to_vec());
        let room = |entries, bytes| Room { entries, bytes };
        let page = |after, room| {
            let (page, is_more) = store.deals_after(after, room);
            let ids: Vec<String> = page.into_iter().map(|(id, _)| id.into()).collect();
            (ids.concat(), is_more)
        };
        assert_eq!(page(None, ALL), ("abcd".into(), false));
        assert_eq!(page(None, room(2, 100)), ("ab".into(), true));
        assert_eq!(page(Some("b"), room(2, 100)), ("cd".into(), false));
        assert_eq!(page(Some("bb"), room(1, 100)), ("c".into(), true));
        assert_eq!(page(Some("d"), ALL), (String::new(), false));
        assert_eq!(page(None, room(9, 5)), ("ab".into(), true));
        assert_eq!(page(Some("b"), room(9, 1)), ("c".into(), true));
        assert!(store.remove_deal("a") && !store.remove_deal("a"));
        for _ in 0..5 {
            store.add_agent(b"{}").unwrap();
        }
        let numbers = |after, room| -> Vec<u64> {
            let (page, _) = store.agents_after(after, room);
            page.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(0, room(2, 100)), [1, 2]);
        assert_eq!(numbers(2, room(9, 5)), [3, 4]);
        assert_eq!(numbers(4, ALL), [5]);
    }
}
