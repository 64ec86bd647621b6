//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{
    collections::{BinaryHeap, HashMap},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use dashmap::DashMap;

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent: its number, and the JSON that was sent.
pub(crate) type StoredAgent = (u64, Box<[u8]>);

/// Agents and deals.
///
/// One million agents are a legitimate load, so an agent is kept as JSON of exactly its size, which takes 40 % of what
/// the same agent takes as a struct of strings. It is the JSON that was sent: the response follows from it, and not the
/// other way round.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    max_bytes: u64,
    /// The deals that the server started with, to return to.
    seed: Vec<StoredDeal>,
    contents: RwLock<Contents>,
}

#[derive(Debug)]
struct Contents {
    deals: HashMap<Box<str>, Bytes>,
    /// Replaced as a whole by `reset`: a request in flight then finishes on the old agents and leaves no trace
    /// among the new ones.
    agents: Arc<Agents>,
}

#[derive(Debug, Default)]
struct Agents {
    /// The number of the latest agent.
    last: AtomicU64,
    /// How many agents are kept or about to be. Never more than `max_agents`, however many ask at once.
    count: AtomicU64,
    /// The JSON of the agents and deals that were added to the seed, in bytes. Never more than `max_bytes`.
    bytes: AtomicU64,
    by_number: DashMap<u64, Box<[u8]>>,
}

/// Which limit of the store leaves no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Agents,
    Bytes,
}

impl Agents {
    fn take_bytes(&self, length: usize, max_bytes: u64) -> Result<(), Full> {
        let next = |taken: u64| {
            let next = taken.checked_add(length as u64)?;
            (next <= max_bytes).then_some(next)
        };
        let taken = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.map(drop).map_err(|_| Full::Bytes)
    }

    fn give_back_bytes(&self, length: usize) {
        let next = |taken: u64| Some(taken.saturating_sub(length as u64));
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// A slot for one agent, which decides its id. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct AgentSlot {
    agents: Arc<Agents>,
    number: u64,
    max_bytes: u64,
    is_kept: bool,
}

impl AgentSlot {
    /// Counts the agents, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Keeps what was sent.
    pub(crate) fn put(mut self, body: &[u8]) -> Result<(), Full> {
        self.agents.take_bytes(body.len(), self.max_bytes)?;
        self.agents.by_number.insert(self.number, body.into());
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for AgentSlot {
    fn drop(&mut self) {
        if !self.is_kept {
            self.agents.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Store {
    pub(crate) fn new(max_agents: u64, max_bytes: u64, seed: Vec<StoredDeal>) -> Self {
        let contents = RwLock::new(Contents {
            deals: seed.iter().cloned().collect(),
            agents: Arc::default(),
        });
        Self {
            max_agents,
            max_bytes,
            seed,
            contents,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for one agent, unless all are taken. Checking and taking is one step, so that two requests
    /// can never both get the last one.
    pub(crate) fn take_slot(&self) -> Result<AgentSlot, Full> {
        let agents = Arc::clone(&self.read().agents);
        let next = |taken| (taken < self.max_agents).then_some(taken + 1);
        agents
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .map_err(|_| Full::Agents)?;
        let number = agents.last.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(AgentSlot {
            agents,
            number,
            max_bytes: self.max_bytes,
            is_kept: false,
        })
    }

    /// What was sent for each agent, by its number.
    pub(crate) fn agents(&self) -> Vec<StoredAgent> {
        self.agents_after(0, usize::MAX).0
    }

    /// The same for at most `limit` agents after the one of this number, and whether there are more.
    pub(crate) fn agents_after(&self, number: u64, limit: usize) -> (Vec<StoredAgent>, bool) {
        let agents = Arc::clone(&self.read().agents);
        let numbers = agents.by_number.iter().map(|entry| *entry.key());
        let (page, is_more) = smallest(numbers.filter(|found| *found > number), limit);
        let read = |number| Some((number, agents.by_number.get(&number)?.clone()));
        (page.into_iter().filter_map(read).collect(), is_more)
    }

    /// At most `limit` deals whose ids come after `id`, in byte order, and whether there are more.
    pub(crate) fn deals_after(&self, id: Option<&str>, limit: usize) -> (Vec<StoredDeal>, bool) {
        let contents = self.read();
        let deals = contents.deals.iter().map(|(id, text)| (&**id, text));
        let later = deals.filter(|(found, _)| id.is_none_or(|id| *found > id));
        let (page, is_more) = smallest(later, limit);
        let page = page.into_iter().map(|(id, text)| (id.into(), text.clone()));
        (page.collect(), is_more)
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        self.read().deals.get(id).cloned()
    }

    /// Keeps a deal; one with the same id is replaced.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let mut contents = self.write();
        // The deal that it replaces makes room for it, even if that was there from the start.
        let before = contents.deals.get(&id).map_or(0, Bytes::len);
        match text.len().checked_sub(before) {
            Some(more) => contents.agents.take_bytes(more, self.max_bytes)?,
            None => {
                contents.agents.give_back_bytes(before - text.len());
            }
        }
        contents.deals.insert(id, text);
        Ok(())
    }

    /// Forgets a deal; false when there is none.
    pub(crate) fn remove_deal(&self, id: &str) -> bool {
        let mut contents = self.write();
        let removed = contents.deals.remove(id);
        if let Some(text) = &removed {
            contents.agents.give_back_bytes(text.len());
        }
        removed.is_some()
    }

    /// Forgets every agent and every deal but the seed.
    pub(crate) fn reset(&self) {
        let fresh = Contents {
            deals: self.seed.iter().cloned().collect(),
            agents: Arc::default(),
        };
        *self.write() = fresh;
    }
}

/// The `limit` smallest of many, in order, and whether there are more.
fn smallest<T: Ord>(of: impl Iterator<Item = T>, limit: usize) -> (Vec<T>, bool) {
    let mut smallest = BinaryHeap::new();
    let mut is_more = false;
    for item in of {
        smallest.push(item);
        if smallest.len() > limit {
            smallest.pop();
            is_more = true;
        }
    }
    (smallest.into_sorted_vec(), is_more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_is_given_once() {
        let store = Store::new(100, u64::MAX, Vec::new());
        let taken = std::thread::scope(|scope| {
            let take = || {
                let slots = (0..50).filter_map(|_| store.take_slot().ok());
                slots.filter_map(|slot| slot.put(b"{}").ok()).count()
            };
            let takers: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            let taken = takers.into_iter().map(|taker| taker.join().unwrap());
            taken.sum::<usize>()
        });
        assert_eq!(taken, 100);
    }

    #[test]
    fn what_is_not_kept_takes_no_place() {
        let store = Store::new(2, 10, vec![("d".into(), Bytes::from_static(b"[seed]"))]);
        assert_eq!(
            store.take_slot().unwrap().put(&[b' '; 11]),
            Err(Full::Bytes)
        );
        assert_eq!(store.take_slot().unwrap().put(&[b' '; 4]), Ok(()));
        assert_eq!(store.take_slot().unwrap().put(&[b' '; 7]), Err(Full::Bytes));
        // Replacing counts the difference, and the seed is free.
        let deal = |id: &str, length| (id.into(), vec![b' '; length].into());
        assert_eq!(store.insert_deal(deal("d", 12)), Ok(()));
        assert_eq!(store.insert_deal(deal("e", 1)), Err(Full::Bytes));
        assert_eq!(store.insert_deal(deal("d", 6)), Ok(()));
        assert_eq!(store.insert_deal(deal("e", 1)), Ok(()));
        assert_eq!(store.take_slot().unwrap().put(&[b' '; 5]), Ok(()));
        assert_eq!(store.take_slot().unwrap_err(), Full::Agents);
        store.reset();
        assert_eq!(store.take_slot().unwrap().put(&[b' '; 10]), Ok(()));
    }

    #[test]
    fn a_reset_does_not_wait_for_requests_in_flight() {
        let store = Store::new(1, 100, vec![("d".into(), Bytes::from_static(b"{}"))]);
        let slot = store.take_slot().unwrap();
        store
            .insert_deal(("e".into(), Bytes::from_static(b"{}")))
            .unwrap();
        store.reset();
        slot.put(b"{}").unwrap();
        assert!(store.agents().is_empty());
        assert!(store.deal("e").is_none() && store.deal("d").is_some());
        assert_eq!(store.take_slot().unwrap().number(), 1);
    }

    #[test]
    fn lists_come_in_pages() {
        let deals = ["c", "a", "d", "b"].map(|id| (id.into(), Bytes::from_static(b"{}")));
        let store = Store::new(10, 100, deals.to_vec());
        let page = |after, limit| {
            let (page, is_more) = store.deals_after(after, limit);
            let ids: Vec<String> = page.into_iter().map(|(id, _)| id.into()).collect();
            (ids.concat(), is_more)
        };
        assert_eq!(page(None, 2), ("ab".into(), true));
        assert_eq!(page(Some("b"), 2), ("cd".into(), false));
        assert_eq!(page(Some("bb"), 1), ("c".into(), true));
        assert_eq!(page(Some("d"), 2), (String::new(), false));
        assert!(store.remove_deal("a") && !store.remove_deal("a"));
        for _ in 0..5 {
            store.take_slot().unwrap().put(b"{}").unwrap();
        }
        let numbers = |after, limit| -> Vec<u64> {
            let (page, _) = store.agents_after(after, limit);
            page.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!((numbers(0, 2), numbers(2, 9)), (vec![1, 2], vec![3, 4, 5]));
    }
}
