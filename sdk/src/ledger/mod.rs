//! The ledger of a job: an append-only file that records, for each key, whether its row may have been sent and what the
//! outcome was, so that an interrupted job can resume where it stopped, even after a crash of the machine.
//!
//! [`CreateMany::ledger`](crate::CreateMany::ledger) keeps one. The functions here are for use between two runs:
//! [`settle`] records what became of rows whose outcome the ledger does not know, and [`move_to`] records that the
//! service has another base URL. Neither sends anything, and both refuse a ledger that a job is writing. [`look_up`]
//! returns what the ledger has on given rows.

// `format` is a single line of the file, `key_hash` the hash that replaces a key in it, `entries` the state that the
// lines add up to, `lock` a job's exclusive claim to the file, `file` reading and writing it, `sync` the thread that
// syncs lines to disk, `notes` what people record in it, and `look_up` what they query. Nothing here knows what is
// sent, or how.

mod entries;
mod error;
mod file;
mod format;
mod key_hash;
mod lock;
mod look_up;
mod notes;
mod sync;

use std::{borrow::Cow, collections::hash_map::Entry as Slot, fmt, path::Path};

pub use error::{LedgerError, LedgerErrorKind};
pub use look_up::{Recorded, look_up};
pub use notes::{move_to, settle};

pub(crate) use entries::State;
pub(crate) use key_hash::KeyHash;

use entries::{Entries, Entry};
use file::LedgerFile;
use format::Line;
use key_hash::Hasher;
use sync::Syncer;

/// A ledger that is open for one job.
pub(crate) struct Ledger {
    entries: Entries,
    hasher: Hasher,
    file: Syncer,
}

/// What to do about a row.
#[derive(Debug, PartialEq)]
pub(crate) enum Claim {
    /// The ledger does not have its key.
    New(KeyHash),
    /// An earlier run left the row in this state.
    Known(KeyHash, State),
    /// The row with this index in this job has the same key.
    Duplicate(usize),
}

impl Ledger {
    /// Opens the ledger of a job, or creates one, for this service and this name of the keys, if they have one. The job
    /// holds it exclusively until it is dropped.
    pub(crate) fn open(
        path: &Path,
        service: &str,
        keys: Option<&str>,
    ) -> Result<Self, LedgerError> {
        let (file, header, contents) = LedgerFile::open(path, service, keys)?;
        Ok(Self {
            entries: contents.entries,
            hasher: Hasher::new(&header.salt),
            file: Syncer::start(file, contents.end)?,
        })
    }

    /// Looks up the key of a row, and claims it, so that later rows with the same key are duplicates.
    pub(crate) fn claim(&mut self, key: &str, index: usize) -> Claim {
        let hash = self.hasher.hash(key);
        match self.entries.entry(hash) {
            Slot::Vacant(slot) => {
                slot.insert(Entry::claimed(index));
                Claim::New(hash)
            }
            Slot::Occupied(mut slot) => match slot.get_mut().claim(index) {
                Ok(Some(state)) => Claim::Known(hash, state),
                Ok(None) => Claim::New(hash),
                Err(first) => Claim::Duplicate(first),
            },
        }
    }

    /// The writer of intents and outcomes.
    pub(crate) fn writer(&self) -> LedgerWriter {
        LedgerWriter(self.file.handle())
    }
}

/// Writes the intents and outcomes of rows.
#[derive(Clone)]
pub(crate) struct LedgerWriter(sync::Handle);

impl LedgerWriter {
    /// Records that a row is about to be sent. The row may be sent once this has completed: the line is then on
    /// disk.
    pub(crate) async fn intend(&self, key: KeyHash) -> Result<(), LedgerError> {
        let syncing = self.0.append_to_sync(&Line::Intent(key))?;
        self.0.synced(syncing).await
    }

    /// Records the outcome of a row. The line is written at once, so a crash of the process does not undo it; it
    /// reaches the disk with the next intent, or when the ledger is closed. A crash of the machine before that
    /// leaves only the intent, and so a row of which nobody knows whether it was sent.
    pub(crate) fn record(&self, key: KeyHash, state: &State) -> Result<(), LedgerError> {
        self.0.append(&Line::Outcome(key, Cow::Borrowed(state)))
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl fmt::Debug for LedgerWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
