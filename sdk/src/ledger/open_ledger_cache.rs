//! Cache of the ledgers that a client has opened for its single creates, so that a create need not open its ledger again.

use std::sync::{Mutex, PoisonError};

use super::{
    Ledger,
    error::LedgerError,
    open_ledger::{LedgerHandle, OpenLedger},
};

/// The number of ledgers that stay open. Each open ledger takes a thread. Beyond this number, the least recently used ledger is
/// closed.
const MAX_OPEN: usize = 16;

/// The ledger, the base URL of the service, and the name of the keys.
type CacheKey = (Ledger, String, Option<String>);

/// The open ledgers of the clients that share connections. The last one is the most recently used.
#[derive(Default)]
pub(crate) struct OpenLedgerCache(Mutex<Vec<(CacheKey, OpenLedger)>>);

impl OpenLedgerCache {
    /// Returns a handle of the ledger for this service and this name of the keys, and starts the ledger's worker if it is not
    /// running. Does not block: the worker opens the file or database when it handles the first request.
    pub(crate) fn handle(
        &self,
        ledger: &Ledger,
        base_url: String,
        key_name: Option<String>,
    ) -> Result<LedgerHandle, LedgerError> {
        let cache_key = (ledger.clone(), base_url, key_name);
        let mut cached_ledgers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = cached_ledgers.iter().position(|(key, _)| *key == cache_key);
        let open_ledger = match position {
            Some(position) => cached_ledgers.remove(position).1,
            None => ledger.start_worker(false, cache_key.1.clone(), cache_key.2.clone())?,
        };
        let handle = open_ledger.handle().clone();
        cached_ledgers.push((cache_key, open_ledger));
        if cached_ledgers.len() > MAX_OPEN {
            // Calls that still use this ledger continue.
            cached_ledgers.remove(0).1.detach();
        }
        Ok(handle)
    }
}
