//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use dashmap::DashMap;
use parking_lot::Mutex;

use crate::state::room::{Room, Taken};

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent: its number, from 1 on, and the JSON that was sent. The response follows from it, and not the other way round.
pub(crate) type StoredAgent = (u64, Bytes);

/// The deals that a server started with, by their ids. All of its worlds read the same ones.
pub(crate) type SeedDeals = Arc<HashMap<Box<str>, Bytes>>;

/// How many parts a world's own deals are kept in. Many worlds have few of them.
const PARTS: usize = 2;

/// Agents and deals. What was added to the seed keeps the room that it takes.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    room: Room,
    seed: SeedDeals,
    /// The deals that are not as in the seed. Read by every request, which waits for nobody.
    changed: DashMap<Box<str>, (Bytes, Taken)>,
    agents: Mutex<Vec<(Bytes, Taken)>>,
}

/// Which limit of the store leaves no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Agents,
    Bytes,
}

impl Store {
    pub(crate) fn new(max_agents: u64, room: &Room, seed: &SeedDeals) -> Self {
        Self {
            max_agents,
            room: room.clone(),
            seed: Arc::clone(seed),
            changed: DashMap::with_shard_amount(PARTS),
            agents: Mutex::default(),
        }
    }

    pub(crate) fn add_agent(&self, body: &[u8]) -> Result<u64, Full> {
        // Copied to its exact size, before anybody has to wait for it.
        let body = Bytes::copy_from_slice(body);
        let mut agents = self.agents.lock();
        if agents.len() as u64 >= self.max_agents {
            return Err(Full::Agents);
        }
        let taken = self.room.take(body.len()).ok_or(Full::Bytes)?;
        agents.push((body, taken));
        Ok(agents.len() as u64)
    }

    /// At most `count` of the agents after the one of this number.
    pub(crate) fn agents_after(&self, number: u64, count: usize) -> Vec<StoredAgent> {
        let agents = self.agents.lock();
        let agents = (1..).zip(&*agents);
        let later = agents.skip(usize::try_from(number).unwrap_or(usize::MAX));
        later
            .take(count)
            .map(|(n, (sent, _))| (n, sent.clone()))
            .collect()
    }

    /// At most `count` of the deals whose ids come after `id`, in byte order.
    pub(crate) fn deals_after(&self, id: Option<&str>, count: usize) -> Vec<StoredDeal> {
        let is_later = |of: &str| id.is_none_or(|id| of > id);
        let seed = self.seed.iter().filter(|(of, _)| is_later(of));
        let mut later: BTreeMap<Box<str>, Bytes> =
            seed.map(|(id, text)| (id.clone(), text.clone())).collect();
        let changed = self.changed.iter().filter(|deal| is_later(deal.key()));
        later.extend(changed.map(|deal| (deal.key().clone(), deal.0.clone())));
        later.into_iter().take(count).collect()
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        match self.changed.get(id) {
            Some(deal) => Some(deal.0.clone()),
            None => self.seed.get(id).cloned(),
        }
    }

    /// Keeps a deal; one with the same id is replaced, whose room is free afterwards.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let taken = self.room.take(text.len()).ok_or(Full::Bytes)?;
        self.changed.insert(id, (text, taken));
        Ok(())
    }

    /// Forgets every agent and every deal but the seed. A deal of the seed is there all the time.
    pub(crate) fn reset(&self) {
        self.changed.clear();
        *self.agents.lock() = Vec::new();
    }
}
