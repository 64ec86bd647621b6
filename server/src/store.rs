//! What the server remembers: agents and deals, both as the JSON that goes out.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use dashmap::DashMap;

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// Agents and deals. One million agents are a legitimate load, so an agent is kept as JSON of exactly its
/// size: that takes 40 % of what the same agent takes as a struct of strings.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    /// The deals that the server started with, to return to.
    seed: Vec<StoredDeal>,
    /// Replaced as a whole by `reset`: a request in flight then finishes on the old contents and
    /// leaves no trace in the new ones.
    contents: RwLock<Arc<Contents>>,
}

#[derive(Debug, Default)]
struct Contents {
    /// How many agents were given a slot. Never more than `max_agents`, however many ask at once.
    taken: AtomicU64,
    agents: DashMap<u64, Box<[u8]>>,
    deals: DashMap<Box<str>, Bytes>,
}

impl Contents {
    fn with(seed: &[StoredDeal]) -> Arc<Self> {
        let contents = Self::default();
        for (id, text) in seed {
            contents.deals.insert(id.clone(), text.clone());
        }
        Arc::new(contents)
    }
}

/// A slot for one agent, which decides its id.
#[derive(Debug)]
pub(crate) struct AgentSlot {
    contents: Arc<Contents>,
    number: u64,
}

impl AgentSlot {
    pub(crate) fn agent_id(&self) -> String {
        format!("a_{}", self.number)
    }

    pub(crate) fn put(self, agent: &[u8]) {
        self.contents.agents.insert(self.number, agent.into());
    }
}

impl Store {
    pub(crate) fn new(max_agents: u64, seed: Vec<StoredDeal>) -> Self {
        let contents = RwLock::new(Contents::with(&seed));
        Self {
            max_agents,
            seed,
            contents,
        }
    }

    fn contents(&self) -> Arc<Contents> {
        Arc::clone(&self.contents.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a slot for one agent, or `None` when all are taken. Checking and taking is one step, so
    /// that two requests can never both get the last one.
    pub(crate) fn take_slot(&self) -> Option<AgentSlot> {
        let contents = self.contents();
        let next = |taken| (taken < self.max_agents).then_some(taken + 1);
        let before = contents
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()?;
        Some(AgentSlot {
            contents,
            number: before + 1,
        })
    }

    /// Every agent's JSON, in the order of creation.
    pub(crate) fn agents(&self) -> Vec<Box<[u8]>> {
        let contents = self.contents();
        let entries = contents
            .agents
            .iter()
            .map(|entry| (*entry.key(), entry.value().clone()));
        let mut agents: Vec<_> = entries.collect();
        agents.sort_unstable_by_key(|(number, _)| *number);
        agents.into_iter().map(|(_, agent)| agent).collect()
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        self.contents().deals.get(id).map(|text| text.clone())
    }

    /// Keeps a deal; one with the same id is replaced.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) {
        self.contents().deals.insert(id, text);
    }

    /// Forgets every agent and every deal but the seed.
    pub(crate) fn reset(&self) {
        let fresh = Contents::with(&self.seed);
        *self
            .contents
            .write()
            .unwrap_or_else(PoisonError::into_inner) = fresh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_is_given_once() {
        let store = Store::new(100, Vec::new());
        let taken = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..50).filter(|_| store.take_slot().is_some()).count()))
                .collect();
            takers
                .into_iter()
                .map(|taker| taker.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!(taken, 100);
    }

    #[test]
    fn a_reset_does_not_wait_for_requests_in_flight() {
        let store = Store::new(1, vec![("d".into(), Bytes::from_static(b"{}"))]);
        let slot = store.take_slot().unwrap();
        store.insert_deal(("e".into(), Bytes::from_static(b"{}")));
        store.reset();
        slot.put(b"{}");
        assert!(store.agents().is_empty());
        assert!(store.deal("e").is_none() && store.deal("d").is_some());
        assert_eq!(store.take_slot().unwrap().agent_id(), "a_1");
    }
}
