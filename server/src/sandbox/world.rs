//! Worlds: what one test has to itself on a server that many share. The key of a request says which world it is in.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use dashmap::DashMap;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::time::Instant;

use crate::{
    contract::{
        auth::{InvalidServiceKey, ServiceKey, WorldKeys},
        problem::{ProblemType, Refusal},
    },
    sandbox::{faults::Faults, journal::Journal, rate_limit::Bucket, reading::Reading},
    state::{
        room::{Room, Taken},
        store::{SeedDeals, Store},
    },
};

/// How long a world is kept that nobody uses, if another one begins.
const IDLE: Duration = Duration::from_secs(3600);

/// The shortest time between two searches for unused worlds, because each search looks at all worlds.
const SEARCH_AGAIN: Duration = Duration::from_secs(1);

/// The memory that a world reserves, beyond its agents, deals, faults and requests: for itself and its key.
const WORLD_BYTES: usize = 4 * 1024;

/// The agents, deals, faults and requests of those who have its key.
#[derive(Debug)]
pub(crate) struct World {
    /// The one that it began with.
    pub(crate) key: ServiceKey,
    accepted: Mutex<Vec<ServiceKey>>,
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) bucket: Option<Bucket>,
    settings: Mutex<Settings>,
    used: Mutex<Instant>,
    /// `None` for the first one.
    _reserved: Option<Taken>,
}

/// How a world responds. A reset does not change it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) readings: Vec<Reading>,
    pub(crate) strict: bool,
}

/// Settings to change: the body of a call of the interface.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    reading: Option<String>,
    pub(crate) strict: Option<bool>,
}

impl Change {
    pub(crate) fn readings(&self) -> Result<Option<Vec<Reading>>, String> {
        let readings = self.reading.as_deref().map(Reading::list).transpose();
        readings.map_err(|error| format!("reading: {error}"))
    }
}

/// What every world begins with.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) seed: SeedDeals,
    pub(crate) settings: Settings,
    pub(crate) max_agents: u64,
    pub(crate) rate_limit: Option<NonZeroU16>,
    /// All worlds share these: for agents and deals, for faults, and for requests.
    pub(crate) room: Room,
    pub(crate) for_faults: Room,
    pub(crate) for_requests: Room,
}

impl World {
    pub(crate) fn new(key: ServiceKey, beginning: &Beginning, reserved: Option<Taken>) -> Self {
        Self {
            accepted: Mutex::new(vec![key.clone()]),
            key,
            store: Store::new(beginning.max_agents, &beginning.room, &beginning.seed),
            faults: Faults::new(&beginning.for_faults),
            journal: Journal::new(&beginning.for_requests),
            bucket: beginning.rate_limit.map(Bucket::new),
            settings: Mutex::new(beginning.settings.clone()),
            used: Mutex::new(Instant::now()),
            _reserved: reserved,
        }
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    /// Accepts these keys instead, if all of them are valid.
    pub(crate) fn accept_keys<K: Into<String>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), InvalidServiceKey> {
        let keys = keys.into_iter().map(ServiceKey::new);
        *self.accepted.lock() = keys.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn accepts(&self, key: &[u8]) -> bool {
        self.accepted
            .lock()
            .iter()
            .any(|accepted| accepted.matches(key))
    }

    /// Releases all held requests, and returns their number.
    pub(crate) fn release(&self) -> usize {
        self.faults.held.release(&self.journal)
    }

    /// Returns agents, deals, faults, journal and accepted keys to how the world began.
    pub(crate) fn reset(&self) {
        self.store.reset();
        self.faults.clear();
        self.faults.held.clear();
        self.journal.clear();
        if let Some(bucket) = &self.bucket {
            bucket.fill();
        }
        *self.accepted.lock() = vec![self.key.clone()];
    }
}

#[derive(Debug)]
pub(crate) struct Worlds {
    /// That of the server's own keys, and of requests whose key nobody knows. It lasts as long as the server.
    pub(crate) first: Arc<World>,
    pub(crate) keys: WorldKeys,
    pub(crate) max: usize,
    pub(crate) beginning: Beginning,
    /// The others, by their keys. Every request finds its world here, without waiting for one that begins elsewhere.
    pub(crate) others: DashMap<Box<str>, Arc<World>>,
    /// When unused worlds were last searched for. Locked while a world begins, so that their number stays below the limit.
    pub(crate) searched: Mutex<Option<Instant>>,
}

/// Why a key has no world.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoWorld {
    UnknownKey,
    Full,
}

impl Worlds {
    /// The world that a request with this key is in. It begins with its first request.
    pub(crate) fn of(&self, key: &[u8]) -> Result<Arc<World>, NoWorld> {
        if self.first.accepts(key) {
            return Ok(Arc::clone(&self.first));
        }
        let text = str::from_utf8(key).unwrap_or_default();
        if let Some(world) = self.others.get(text) {
            *world.used.lock() = Instant::now();
            return Ok(Arc::clone(&world));
        }
        self.begin(self.keys.find(key))
    }

    /// The world that a call of the interface names by its key: in the query, or else in the header of requests to /v1, which
    /// means nothing to a server that has one world only.
    pub(crate) fn named(
        &self,
        query: Option<&str>,
        header: Option<&[u8]>,
    ) -> Result<Arc<World>, Refusal> {
        let header = header.filter(|_| !self.keys.is_empty());
        match query.map(str::as_bytes).or(header) {
            Some(key) if !self.first.key.matches(key) => Ok(self.of(key)?),
            _ => Ok(Arc::clone(&self.first)),
        }
    }

    /// A world whose key nobody has used.
    pub(crate) fn begin_own(&self) -> Result<Arc<World>, NoWorld> {
        self.begin(self.keys.made_up())
    }

    fn begin(&self, key: Option<ServiceKey>) -> Result<Arc<World>, NoWorld> {
        let key = key.ok_or(NoWorld::UnknownKey)?;
        let mut searched = self.searched.lock();
        if let Some(world) = self.others.get(key.reveal()) {
            return Ok(Arc::clone(&world));
        }
        if searched.is_none_or(|at| at.elapsed() >= SEARCH_AGAIN) {
            // A test that was killed has left its world behind.
            let is_used = |world: &Arc<World>| {
                Arc::strong_count(world) > 1 || world.used.lock().elapsed() < IDLE
            };
            self.others.retain(|_, world| is_used(world));
            *searched = Some(Instant::now());
        }
        if self.others.len() >= self.max {
            return Err(NoWorld::Full);
        }
        let reserved = self.beginning.for_requests.take(WORLD_BYTES);
        let reserved = Some(reserved.ok_or(NoWorld::Full)?);
        let text = key.reveal().into();
        let world = Arc::new(World::new(key, &self.beginning, reserved));
        self.others.insert(text, Arc::clone(&world));
        Ok(world)
    }

    /// Ends a world; false for the first one. Requests that are being answered in it are answered; held ones are dropped.
    pub(crate) fn end(&self, world: &World) -> bool {
        let ended = self.others.remove(world.key.reveal());
        if let Some((_, world)) = &ended {
            world.faults.held.clear();
        }
        ended.is_some()
    }
}

impl From<NoWorld> for Refusal {
    fn from(reason: NoWorld) -> Self {
        match reason {
            NoWorld::UnknownKey => Self::new(
                ProblemType::UNKNOWN_WORLD,
                "This server has no world for that key: start it with --worlds, such as --worlds 'test-*'.",
            ),
            NoWorld::Full => Self::new(
                ProblemType::WORLDS_FULL,
                "End a world with DELETE /__sandbox/world, or start the server with a higher --max-worlds.",
            ),
        }
    }
}
