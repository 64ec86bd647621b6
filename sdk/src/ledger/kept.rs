//! The ledgers that a client keeps open, because its single creates must not open one each.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{
    Ledger,
    error::LedgerError,
    writer::{Handle, Writer},
};

/// How many a client keeps open: each takes a thread. The one that was not used for the longest time makes room.
const MOST: usize = 16;

/// How long a client that is dropped waits for one that is itself waiting for other programs.
const PATIENCE: Duration = Duration::from_secs(1);

/// The open ledgers of a client, and of those that share its connections; the latest used is the last.
#[derive(Default)]
pub(crate) struct KeptLedgers(Mutex<Vec<(Opened, Writer)>>);

/// What a ledger was opened for.
#[derive(PartialEq, Eq)]
struct Opened {
    ledger: Ledger,
    service: String,
    keys: Option<String>,
}

impl KeptLedgers {
    /// A ledger for this service and this name of its keys, which is opened unless it is open. Nothing is waited for: that is
    /// left to what is asked of it.
    pub(crate) fn handle(
        &self,
        ledger: &Ledger,
        service: String,
        keys: Option<String>,
    ) -> Result<Handle, LedgerError> {
        let wanted = Opened {
            ledger: ledger.clone(),
            service,
            keys,
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(opened, _)| *opened == wanted);
        let (opened, writer) = if let Some(at) = found {
            kept.remove(at)
        } else {
            let (service, keys) = (wanted.service.clone(), wanted.keys.clone());
            (wanted, ledger.start(false, service, keys)?)
        };
        let handle = writer.handle().clone();
        kept.push((opened, writer));
        if kept.len() > MOST {
            // Calls that use it go on.
            kept.remove(0).1.detach();
        }
        Ok(handle)
    }
}

impl Drop for KeptLedgers {
    fn drop(&mut self) {
        let kept = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, writer) in kept.drain(..) {
            writer.close(PATIENCE);
        }
    }
}
