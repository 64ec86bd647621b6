//! The store of agents and deals. Agents are stored as request bodies, deals as response bodies.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::state::{
    generate,
    memory_budget::{MemoryBudget, Reservation},
};

/// A deal's id and its response body.
pub(crate) type StoredDeal = (Box<str>, Bytes);

/// An agent's number, from 1, and the request body that created it. The response is derived from the request.
pub(crate) type StoredAgent = (u64, Bytes);

/// The initial deals of a server, by id. All namespaces share them.
pub(crate) type SeedDeals = Arc<BTreeMap<Box<str>, SeededDeal>>;

/// An initial deal.
#[derive(Clone, Debug)]
pub(crate) enum SeededDeal {
    Text(Bytes),
    /// A generated deal. Its JSON is generated for each request: a million deals as JSON would use five gigabytes.
    Generated {
        index: usize,
        seed: u64,
    },
}

impl SeededDeal {
    fn to_json(&self) -> Bytes {
        match self {
            Self::Text(text) => text.clone(),
            Self::Generated { index, seed } => generate::deal(*index, *seed).into(),
        }
    }
}

/// The agents and deals of one namespace. Agents, and deals other than the initial ones, count towards the memory budget.
#[derive(Debug)]
pub(crate) struct Store {
    max_agents: u64,
    budget: MemoryBudget,
    seed_deals: SeedDeals,
    /// Deals that were added or replaced after the start.
    changed_deals: RwLock<BTreeMap<Box<str>, (Bytes, Reservation)>>,
    agents: Mutex<Vec<(Bytes, Reservation)>>,
}

/// The exhausted limit of a full store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreLimit {
    Agents,
    Bytes,
}

impl Store {
    pub(crate) fn new(max_agents: u64, budget: &MemoryBudget, seed_deals: &SeedDeals) -> Self {
        Self {
            max_agents,
            budget: budget.clone(),
            seed_deals: Arc::clone(seed_deals),
            changed_deals: RwLock::default(),
            agents: Mutex::default(),
        }
    }

    pub(crate) fn add_agent(&self, body: &[u8]) -> Result<u64, StoreLimit> {
        // Copy to the exact size before taking the lock, so that other requests do not wait for the copy.
        let body = Bytes::copy_from_slice(body);
        let mut agents = self.agents.lock();
        if agents.len() as u64 >= self.max_agents {
            return Err(StoreLimit::Agents);
        }
        let reservation = self.budget.reserve(body.len()).ok_or(StoreLimit::Bytes)?;
        agents.push((body, reservation));
        Ok(agents.len() as u64)
    }

    /// Returns up to `count` agents with numbers above `number`.
    pub(crate) fn agents_after(&self, number: u64, count: usize) -> Vec<StoredAgent> {
        let agents = self.agents.lock();
        let agents = (1..).zip(&*agents);
        let later_agents = agents.skip(usize::try_from(number).unwrap_or(usize::MAX));
        later_agents
            .take(count)
            .map(|(n, (sent, _))| (n, sent.clone()))
            .collect()
    }

    /// Returns up to `count` deals whose ids are greater than `id` in byte order.
    pub(crate) fn deals_after(&self, id: Option<&str>, count: usize) -> Vec<StoredDeal> {
        let later_ids = (
            id.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        );
        let changed = self.changed_deals.read();
        let initial_range = self.seed_deals.range::<str, _>(later_ids);
        // A changed deal hides the initial deal with the same id.
        let initial_range = initial_range
            .filter(|(id, _)| !changed.contains_key(*id))
            .take(count);
        let changed_range = changed.range::<str, _>(later_ids).take(count);
        let mut deals: BTreeMap<_, _> = initial_range.map(|(id, deal)| (id, Ok(deal))).collect();
        deals.extend(changed_range.map(|(id, (text, _))| (id, Err(text))));
        let deals = deals.into_iter().take(count);
        deals
            .map(|(id, deal)| {
                let text = deal.map_or_else(Bytes::clone, SeededDeal::to_json);
                (id.clone(), text)
            })
            .collect()
    }

    pub(crate) fn find_deal(&self, id: &str) -> Option<Bytes> {
        if let Some((text, _)) = self.changed_deals.read().get(id) {
            return Some(text.clone());
        }
        self.seed_deals.get(id).map(SeededDeal::to_json)
    }

    /// Adds a deal, or replaces the deal with the same id and frees its memory reservation.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), StoreLimit> {
        let reservation = self.budget.reserve(text.len()).ok_or(StoreLimit::Bytes)?;
        self.changed_deals.write().insert(id, (text, reservation));
        Ok(())
    }

    /// Removes all agents and changed deals. Requests during the reset can read every initial deal.
    pub(crate) fn reset(&self) {
        self.changed_deals.write().clear();
        *self.agents.lock() = Vec::new();
    }
}
