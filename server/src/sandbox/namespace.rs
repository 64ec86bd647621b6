//! Namespaces: the separate state of each service key on a shared server, so that concurrent tests do not affect each other.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use dashmap::DashMap;
use dealkit::internal::json_kind::JsonKind;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::{
    contract::{
        auth::{InvalidServiceKey, NamespaceKeys, ServiceKey},
        problem::{ProblemType, Rejection},
    },
    sandbox::{
        fields::parse_object, journal::Journal, pending_faults::PendingFaults, rate_limit::Bucket,
        variant::Variant,
    },
    state::{
        memory_budget::{MemoryBudget, Reservation},
        seed::{SeedError, SeedSources},
        store::{SeedDeals, Store},
    },
};

/// Time after which an unused namespace may be deleted. It is deleted when another namespace is created.
const UNUSED_LIMIT: Duration = Duration::from_secs(3600);

/// Minimum time between two cleanups of unused namespaces, because a cleanup examines all namespaces.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// Memory reserved for an empty namespace and its key.
const NAMESPACE_BYTES: usize = 4 * 1024;

/// The agents, deals, faults, requests and settings of one service key.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// The initial key, which identifies the namespace.
    pub(crate) key: ServiceKey,
    /// The keys that requests may have. Only the default namespace can have keys other than `key`, because only its keys can be
    /// rotated.
    accepted_keys: Mutex<Vec<ServiceKey>>,
    pub(crate) store: Store,
    pub(crate) faults: PendingFaults,
    pub(crate) journal: Journal,
    pub(crate) bucket: Option<Bucket>,
    settings: Mutex<Settings>,
    last_used: Mutex<Instant>,
    /// `None` for the default namespace.
    _reservation: Option<Reservation>,
}

/// Settings that determine the responses of a namespace. A reset does not change them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) variants: Vec<Variant>,
    pub(crate) strict: bool,
}

/// The settings to change: the body of `PUT /__sandbox/namespace`.
#[derive(Debug, Default)]
pub(crate) struct SettingsChange {
    variants: Option<Vec<Variant>>,
    strict: Option<bool>,
}

impl SettingsChange {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let mut change = Self::default();
        for field in parse_object("the body", json)? {
            match &*field.name {
                // Null leaves a setting unchanged.
                "variant" | "strict" if field.kind() == JsonKind::Null => {}
                "variant" => {
                    let names = field.read_string("names of variants, separated by commas")?;
                    let variants = Variant::parse_list(&names.unwrap_or_default());
                    let variants = variants.map_err(|error| format!("variant: {error}"))?;
                    change.variants = Some(variants);
                }
                "strict" => change.strict = Some(field.read_bool()?),
                _ => return Err(field.unknown(["variant", "strict"].into_iter())),
            }
        }
        Ok(change)
    }
}

/// The initial state of each namespace, and the memory budgets that all namespaces share.
#[derive(Debug)]
pub(crate) struct InitialState {
    pub(crate) seed_sources: SeedSources,
    /// The deals of the next namespace, last read from the sources.
    pub(crate) seed_deals: Mutex<SeedDeals>,
    pub(crate) settings: Settings,
    pub(crate) max_agents: u64,
    pub(crate) rate_limit: Option<NonZeroU16>,
    pub(crate) store_budget: MemoryBudget,
    pub(crate) fault_budget: MemoryBudget,
    pub(crate) journal_budget: MemoryBudget,
}

impl Namespace {
    pub(crate) fn new(
        key: ServiceKey,
        initial: &InitialState,
        reservation: Option<Reservation>,
    ) -> Self {
        Self {
            accepted_keys: Mutex::new(vec![key.clone()]),
            key,
            store: Store::new(
                initial.max_agents,
                &initial.store_budget,
                &initial.seed_deals.lock(),
            ),
            faults: PendingFaults::new(&initial.fault_budget),
            journal: Journal::new(&initial.journal_budget),
            bucket: initial.rate_limit.map(Bucket::new),
            settings: Mutex::new(initial.settings.clone()),
            last_used: Mutex::new(Instant::now()),
            _reservation: reservation,
        }
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock()
    }

    pub(crate) fn change_settings(&self, change: SettingsChange) {
        let mut settings = self.settings();
        if let Some(variants) = change.variants {
            settings.variants = variants;
        }
        settings.strict = change.strict.unwrap_or(settings.strict);
    }

    /// Replaces the accepted keys.
    ///
    /// # Errors
    /// If a key is invalid. In that case, nothing changes.
    pub(crate) fn accept_keys<K: Into<String>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), InvalidServiceKey> {
        let keys = keys.into_iter().map(ServiceKey::new);
        *self.accepted_keys.lock() = keys.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn accepts_key(&self, key: &[u8]) -> bool {
        self.accepted_keys
            .lock()
            .iter()
            .any(|accepted| accepted.matches(key))
    }

    /// Releases all held requests and returns their number.
    pub(crate) fn release(&self) -> usize {
        self.faults.held.release(&self.journal)
    }

    /// Restores the initial agents, deals, faults, journal, rate limit and accepted keys.
    pub(crate) fn reset(&self) {
        self.store.reset();
        self.faults.clear();
        self.faults.held.clear();
        self.journal.clear();
        if let Some(bucket) = &self.bucket {
            bucket.refill();
        }
        *self.accepted_keys.lock() = vec![self.key.clone()];
    }
}

/// All namespaces of a server.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// The namespace of the server's own keys. This namespace also records requests with unknown
    /// keys. It is never deleted.
    pub(crate) default: Arc<Namespace>,
    /// The keys that create namespaces.
    pub(crate) keys: NamespaceKeys,
    /// Maximum number of namespaces in addition to the default one.
    pub(crate) max_count: usize,
    pub(crate) initial: InitialState,
    /// The other namespaces, by key. Lookups do not wait while a namespace is created.
    pub(crate) key_namespaces: DashMap<Box<str>, Arc<Namespace>>,
    /// Time of the last cleanup of unused namespaces. Locked while a namespace is created, which enforces the maximum number.
    pub(crate) last_cleanup: Mutex<Option<Instant>>,
}

/// An error in the lookup of a key's namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamespaceError {
    UnknownKey,
    Full,
}

impl Namespaces {
    /// Returns the namespace of this key. Creates the namespace first if necessary and permitted.
    pub(crate) fn find_or_create(&self, key: &[u8]) -> Result<Arc<Namespace>, NamespaceError> {
        if self.default.accepts_key(key) {
            return Ok(Arc::clone(&self.default));
        }
        let text = str::from_utf8(key).unwrap_or_default();
        if let Some(namespace) = self.key_namespaces.get(text) {
            *namespace.last_used.lock() = Instant::now();
            return Ok(Arc::clone(&namespace));
        }
        self.create(self.keys.match_key(key))
    }

    /// Returns the namespace for a call of the control interface. The call names the namespace by its key, in the query or else in
    /// the header `x-service-key`. The header is ignored if the server has no keys that create namespaces.
    pub(crate) fn find_for_admin_call(
        &self,
        query: Option<&str>,
        header: Option<&[u8]>,
    ) -> Result<Arc<Namespace>, Rejection> {
        let header = header.filter(|_| !self.keys.is_empty());
        match query.map(str::as_bytes).or(header) {
            Some(key) if !self.default.key.matches(key) => Ok(self.find_or_create(key)?),
            _ => Ok(Arc::clone(&self.default)),
        }
    }

    /// Creates a namespace with an unused key.
    pub(crate) fn create_with_new_key(&self) -> Result<Arc<Namespace>, NamespaceError> {
        self.create(self.keys.generate_key())
    }

    fn create(&self, key: Option<ServiceKey>) -> Result<Arc<Namespace>, NamespaceError> {
        let key = key.ok_or(NamespaceError::UnknownKey)?;
        let mut last_cleanup = self.last_cleanup.lock();
        if let Some(namespace) = self.key_namespaces.get(key.reveal()) {
            return Ok(Arc::clone(&namespace));
        }
        if last_cleanup.is_none_or(|at| at.elapsed() >= CLEANUP_INTERVAL) {
            // Delete the namespaces of tests that were killed.
            let is_used = |namespace: &Arc<Namespace>| {
                Arc::strong_count(namespace) > 1
                    || namespace.last_used.lock().elapsed() < UNUSED_LIMIT
            };
            self.key_namespaces
                .retain(|_, namespace| is_used(namespace));
            *last_cleanup = Some(Instant::now());
        }
        if self.key_namespaces.len() >= self.max_count {
            return Err(NamespaceError::Full);
        }
        let reservation = self.initial.journal_budget.reserve(NAMESPACE_BYTES);
        let reservation = Some(reservation.ok_or(NamespaceError::Full)?);
        let name = key.reveal().into();
        let namespace = Arc::new(Namespace::new(key, &self.initial, reservation));
        self.key_namespaces.insert(name, Arc::clone(&namespace));
        Ok(namespace)
    }

    /// Reads the files of deals again, and replaces the namespace's deals. The default namespace's deals are also the initial deals of
    /// later namespaces.
    ///
    /// # Errors
    /// If there is no file, or a deal is invalid. In that case, nothing changes.
    pub(crate) fn reload_deals(&self, namespace: &Namespace) -> Result<(), SeedError> {
        let deals = self.initial.seed_sources.reload()?;
        let is_default = std::ptr::eq(namespace, &*self.default);
        // Only the deals of other namespaces count towards the budget, as at the start of the server.
        let budget = (!is_default).then_some(&self.initial.store_budget);
        namespace
            .store
            .replace_deals(&deals, budget)
            .map_err(|_| SeedError::StoreFull)?;
        if is_default {
            *self.initial.seed_deals.lock() = deals;
        }
        Ok(())
    }

    /// Deletes a namespace. Returns false for the default one, which cannot be deleted. Requests in flight get their responses;
    /// held requests are dropped.
    pub(crate) fn delete(&self, namespace: &Namespace) -> bool {
        let deleted_entry = self.key_namespaces.remove(namespace.key.reveal());
        if let Some((_, namespace)) = &deleted_entry {
            namespace.faults.held.clear();
        }
        deleted_entry.is_some()
    }
}

impl From<NamespaceError> for Rejection {
    fn from(error: NamespaceError) -> Self {
        match error {
            NamespaceError::UnknownKey => Self::new(
                ProblemType::UNKNOWN_NAMESPACE,
                "This server has no namespace for that key: start it with --namespaces, such as --namespaces 'test-*'.",
            ),
            NamespaceError::Full => Self::new(
                ProblemType::NAMESPACES_FULL,
                "Delete a namespace with DELETE /__sandbox/namespace, or start the server with a higher --max-namespaces.",
            ),
        }
    }
}
