//! What the server keeps: for agents, the JSON that came in; for deals, the JSON that goes out.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::state::{
    generate,
    room::{Room, Taken},
};

/// A deal, ready to be served: its id and its exact text.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent: its number, from 1 on, and the JSON that was sent. The response follows from it, and not the other way round.
pub(crate) type StoredAgent = (u64, Bytes);

/// The deals that a server started with, by their ids. All of its worlds read the same ones.
pub(crate) type SeedDeals = Arc<BTreeMap<Box<str>, SeededDeal>>;

/// A deal that a server started with.
#[derive(Clone, Debug)]
pub(crate) enum SeededDeal {
    Text(Bytes),
    /// A generated deal, whose text is made for each request: a million texts would take five gigabytes.
    Generated {
        index: usize,
        seed: u64,
    },
}

impl SeededDeal {
    fn text(&self) -> Bytes {
        match self {
            Self::Text(text) => text.clone(),
            Self::Generated { index, seed } => generate::deal(*index, *seed).into(),
        }
    }
}

/// Agents and deals. What was added to the seed keeps the room that it takes.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    room: Room,
    seed: SeedDeals,
    /// The deals that are not as in the seed.
    changed: RwLock<BTreeMap<Box<str>, (Bytes, Taken)>>,
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
            changed: RwLock::default(),
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
        let later = (
            id.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        );
        let changed = self.changed.read();
        let seed = self.seed.range::<str, _>(later);
        // A deal that is not as in the seed takes its place.
        let seed = seed
            .filter(|(id, _)| !changed.contains_key(*id))
            .take(count);
        let own = changed.range::<str, _>(later).take(count);
        let mut deals: BTreeMap<_, _> = seed.map(|(id, deal)| (id, Ok(deal))).collect();
        deals.extend(own.map(|(id, (text, _))| (id, Err(text))));
        let deals = deals.into_iter().take(count);
        deals
            .map(|(id, deal)| {
                let text = deal.map_or_else(Bytes::clone, SeededDeal::text);
                (id.clone(), text)
            })
            .collect()
    }

    pub(crate) fn deal(&self, id: &str) -> Option<Bytes> {
        if let Some((text, _)) = self.changed.read().get(id) {
            return Some(text.clone());
        }
        self.seed.get(id).map(SeededDeal::text)
    }

    /// Keeps a deal; one with the same id is replaced, whose room is free afterwards.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), Full> {
        let taken = self.room.take(text.len()).ok_or(Full::Bytes)?;
        self.changed.write().insert(id, (text, taken));
        Ok(())
    }

    /// Forgets every agent and every deal but the seed. A deal of the seed is there all the time.
    pub(crate) fn reset(&self) {
        self.changed.write().clear();
        *self.agents.lock() = Vec::new();
    }
}
