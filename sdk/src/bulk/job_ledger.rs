//! The ledger of a job.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};

use crate::{
    bulk::row::check_label,
    calls::claim::LookedUpKey,
    error::call::Error,
    ledger::{Ledger, LedgerError, OpenLedger, normalize},
};

/// The ledger of a job, which also rejects duplicate keys within the job.
pub(crate) struct JobLedger {
    /// The open ledger, or the error if its thread could not be started.
    open_ledger: Result<OpenLedger, LedgerError>,
    key_name: Option<String>,
    /// The index of the first row with each key, by a 64-bit hash of the key. If two different keys have the same hash, the
    /// second row gets an error. Of forty million jobs with a million rows, that happens to one. A B-tree needs 30 bytes a row;
    /// a hash table would need twice its size while it grows.
    first_rows: BTreeMap<u64, usize>,
    hash_state: RandomState,
}

impl JobLedger {
    pub(crate) fn new(ledger: &Ledger, base_url: String, key_name: Option<&str>) -> Self {
        let key_name = key_name.map(str::to_owned);
        Self {
            open_ledger: ledger.start_worker(true, base_url, key_name.clone()),
            key_name,
            first_rows: BTreeMap::new(),
            hash_state: RandomState::new(),
        }
    }

    /// Starts to look up the key of the row with this index.
    ///
    /// # Errors
    /// If the key or the label is invalid, an earlier row has the same key, or the ledger's thread could not be started.
    pub(crate) fn look_up(
        &mut self,
        key: Option<&str>,
        label: Option<String>,
        index: usize,
    ) -> Result<LookedUpKey, Error> {
        let normal_key = key.map(|key| normalize(self.key_name.as_deref(), key));
        let Some(normal_key) = normal_key.filter(|key| !key.is_empty()) else {
            return Err(Error::config(
                "not sent: the row's key is missing or empty; with a ledger, each row needs a key of its own",
            ));
        };
        check_label(label.as_deref())?;
        let hash = self.hash_state.hash_one(&normal_key);
        let first_index = *self.first_rows.entry(hash).or_insert(index);
        if first_index != index {
            return Err(Error::duplicate_key(first_index));
        }
        let open_ledger = self.open_ledger.as_ref().map_err(LedgerError::clone)?;
        let key = key.unwrap_or_default();
        Ok(LookedUpKey::new(open_ledger.handle().clone(), key, label))
    }

    /// Waits until all outcomes recorded so far are durable.
    pub(crate) async fn finish(&self) {
        if let Ok(open_ledger) = &self.open_ledger {
            // An error is ignored here: each row whose outcome could not be recorded reports that in its own result.
            open_ledger.flush().await;
        }
    }

    /// Closes the ledger. The future completes once it is closed. No further row can be looked up.
    pub(crate) fn close(&mut self) -> BoxFuture<'static, ()> {
        match &mut self.open_ledger {
            Ok(open_ledger) => open_ledger.close().boxed(),
            Err(_) => ready(()).boxed(),
        }
    }
}
