//! The store of agents and deals. Agents are stored as request bodies, deals as response bodies.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::state::{
    generate,
    memory_budget::{MemoryBudget, Reservation},
};

/// Number of deals that are read at a time.
const DEALS_PER_PART: usize = 1_000;

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
    /// Returns the size of the stored text.
    fn byte_len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Generated { .. } => 0,
        }
    }

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
    deals: RwLock<Deals>,
    agents: Mutex<Vec<(Bytes, Reservation)>>,
}

/// The deals of a store.
#[derive(Debug)]
struct Deals {
    initial: SeedDeals,
    /// Deals that were added or replaced later. A changed deal hides the initial deal with the same id.
    changed: BTreeMap<Box<str>, (Bytes, Reservation)>,
    /// The memory of initial deals that were read again for this store only.
    _reservation: Option<Reservation>,
}

impl Deals {
    fn new(initial: &SeedDeals, reservation: Option<Reservation>) -> Self {
        Self {
            initial: Arc::clone(initial),
            changed: BTreeMap::new(),
            _reservation: reservation,
        }
    }
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
            deals: RwLock::new(Deals::new(seed_deals, None)),
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
        let Deals {
            initial, changed, ..
        } = &*self.deals.read();
        let initial_range = initial.range::<str, _>(later_ids);
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
        let deals = self.deals.read();
        if let Some((text, _)) = deals.changed.get(id) {
            return Some(text.clone());
        }
        deals.initial.get(id).map(SeededDeal::to_json)
    }

    /// Adds a deal, or replaces the deal with the same id and frees its memory reservation.
    pub(crate) fn insert_deal(&self, (id, text): StoredDeal) -> Result<(), StoreLimit> {
        let reservation = self.budget.reserve(text.len()).ok_or(StoreLimit::Bytes)?;
        let mut deals = self.deals.write();
        deals.changed.insert(id, (text, reservation));
        Ok(())
    }

    /// Replaces all deals. If there is a budget, the deals count towards it.
    pub(crate) fn replace_deals(
        &self,
        deals: &SeedDeals,
        budget: Option<&MemoryBudget>,
    ) -> Result<(), StoreLimit> {
        let byte_len = || deals.values().map(SeededDeal::byte_len).sum();
        let reservation = budget.map(|budget| budget.reserve(byte_len()).ok_or(StoreLimit::Bytes));
        *self.deals.write() = Deals::new(deals, reservation.transpose()?);
        Ok(())
    }

    /// Calls `visit` with the JSON of each deal whose id is greater than `id` in byte order, until it returns an error.
    pub(crate) fn try_for_each_deal<E>(
        &self,
        id: Option<&str>,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last_id: Option<Box<str>> = id.map(Box::from);
        loop {
            // The lock is released between two parts, so that requests need not wait.
            let part = self.deals_after(last_id.as_deref(), DEALS_PER_PART);
            part.iter().try_for_each(|(_, json)| visit(json))?;
            match part.into_iter().next_back() {
                Some((id, _)) => last_id = Some(id),
                None => return Ok(()),
            }
        }
    }

    /// Removes all agents and changed deals. Requests during the reset can read every initial deal.
    pub(crate) fn reset(&self) {
        self.deals.write().changed.clear();
        *self.agents.lock() = Vec::new();
    }
}
