//! The ledger of a job: an append-only file that says of each key whether it may have been sent and what came of
//! it, so that a job which was interrupted, even by a crash of the machine, can go on where it stopped.
//!
//! [`CreateMany::ledger`](crate::CreateMany::ledger) keeps one. What is here is for the time between two runs: [`settle`]
//! notes what has become of rows of which the ledger does not know it, and [`move_to`] that the service has another base
//! URL. Neither sends anything. Both refuse a ledger that a job is writing. [`look_up`] says what there is of rows.

// `format` is one line of it, `key_hash` what stands for a key there, `entries` what the lines together say, `lock` the
// claim of one job to the file, `file` reading and writing it, `sync` the thread that has lines reach the disk, `notes`
// what people have to say, and `look_up` what they ask. Nothing here knows what is sent, or how.

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

/// What there is to do about a row.
#[derive(Debug, PartialEq)]
pub(crate) enum Claim {
    /// The ledger does not know its key.
    New(KeyHash),
    /// An earlier run has left this of it.
    Known(KeyHash, State),
    /// The row of this index in this job has the same key.
    Duplicate(usize),
}

impl Ledger {
    /// Opens the ledger of a job at a service, whose keys may have a name, or begins one. It is the job's alone until it
    /// is dropped.
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

    /// Looks up the key of a row, and keeps it from the rows that come after.
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

    /// What intents and outcomes are written with.
    pub(crate) fn writer(&self) -> LedgerWriter {
        LedgerWriter(self.file.handle())
    }
}

/// Writes what becomes of rows.
#[derive(Clone)]
pub(crate) struct LedgerWriter(sync::Handle);

impl LedgerWriter {
    /// Records that a row is about to be sent. It may be sent once this has come to its end: then the line is on the
    /// disk.
    pub(crate) async fn intend(&self, key: KeyHash) -> Result<(), LedgerError> {
        let syncing = self.0.append_to_sync(&Line::Intent(key))?;
        self.0.synced(syncing).await
    }

    /// Records what became of a row. The line is written at once, which a crash of the process does not undo, and
    /// reaches the disk with the next intent, or when the ledger is closed. A crash of the machine before that
    /// leaves the intent, and so a row of which nobody knows whether it was sent.
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
