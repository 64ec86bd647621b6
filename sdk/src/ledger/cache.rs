//! The ledgers that a client keeps open, because its single creates must not open one each.

use std::sync::{Mutex, PoisonError};

use super::{
    Ledger,
    error::LedgerError,
    writer::{Handle, Writer},
};

/// How many a client keeps open: each takes a thread. The one that was not used for the longest time makes room.
const MOST: usize = 16;

/// What a ledger was opened for: its name, the service, and the name of its keys.
type Opened = (Ledger, String, Option<String>);

/// The open ledgers of a client, and of those that share its connections; the latest used is the last.
#[derive(Default)]
pub(crate) struct LedgerCache(Mutex<Vec<(Opened, Writer)>>);

impl LedgerCache {
    /// A ledger for this service and this name of its keys, which is opened unless it is open. Nothing is waited for: that is
    /// left to what is asked of it.
    pub(crate) fn handle(
        &self,
        ledger: &Ledger,
        service: String,
        keys: Option<String>,
    ) -> Result<Handle, LedgerError> {
        let wanted = (ledger.clone(), service, keys);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(opened, _)| *opened == wanted);
        let writer = match found {
            Some(at) => kept.remove(at).1,
            None => ledger.start(false, wanted.1.clone(), wanted.2.clone())?,
        };
        let handle = writer.handle().clone();
        kept.push((wanted, writer));
        if kept.len() > MOST {
            // Calls that use it go on.
            kept.remove(0).1.detach();
        }
        Ok(handle)
    }
}
