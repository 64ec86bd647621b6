//! A ledger as a value.

use std::{fs, io, path::Path};

use super::{
    error::{Cause, LedgerError, Place, Purpose},
    people::{self, Summary},
    sqlite::Sqlite,
    state::Recorded,
    store::Store,
    writer::Writer,
};
use crate::{http::base_url, value::AgentId};

/// Where it is recorded what became of each create: an SQLite database.
///
/// This is only its name: making one does nothing. It is opened by what uses it, and created by the first job.
///
/// ```
/// # fn example() -> Result<(), dealkit::ledger::LedgerError> {
/// use dealkit::{AgentId, ledger::Ledger};
///
/// let ledger = Ledger::sqlite("agents.ledger");
/// for row in ledger.summary()?.in_doubt {
///     println!("sent {}, request {:?}: nobody knows what became of it", row.sent_at, row.request_id);
/// }
/// ledger.settle([
///     ("ada@example.com", Some(AgentId::from("a_1"))), // looked up: there she is
///     ("grace@example.com", None),                     // nobody there: the next run creates her
/// ])?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    place: Place,
}

impl Ledger {
    /// The ledger in this file, which is an SQLite database of its own. The first job creates it.
    pub fn sqlite(path: impl AsRef<Path>) -> Self {
        Self {
            place: Place::File(path.as_ref().to_owned()),
        }
    }

    /// The path of the file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) => Some(path),
        }
    }

    /// The ledgers in a folder, whatever they are called, by name. Subfolders are not searched, and a folder that does
    /// not exist has none.
    ///
    /// Two ledgers do not know of each other's rows. So before a job begins a new one, [look its keys
    /// up](Self::look_up) in those that are there.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Vec<Self>, LedgerError> {
        let folder = folder.as_ref();
        let failed = |error| LedgerError::of_file(folder, Purpose::Read, Cause::Io(error));
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // Damaged ones, too: whoever asks must not overlook them.
            let is_one = match Sqlite::open(&path, Purpose::Read) {
                Ok(opened) => opened.is_some(),
                Err(error) => error.is_of_a_ledger(),
            };
            if is_one {
                found.push(path);
            }
        }
        found.sort();
        Ok(found.into_iter().map(Self::sqlite).collect())
    }

    /// Returns what the ledger has on each of these keys, in their order: `None` for a row that the next run sends.
    ///
    /// `keys` is the name of the keys, as in [`CreateMany::ledger`](crate::CreateMany::ledger). Nothing is written, and
    /// jobs may have the ledger open. If the file does not exist yet, every item is `None`.
    ///
    /// # Errors
    /// If the file cannot be read, is not a ledger, or its keys have another name.
    pub fn look_up<'a, K: AsRef<str>>(
        &self,
        keys: impl Into<Option<&'a str>>,
        rows: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Recorded>>, LedgerError> {
        let rows = rows.into_iter();
        let Some(store) = self.open_if_there(Purpose::Read)? else {
            return Ok(rows.map(|_| None).collect());
        };
        store.refuse_other_keys(keys.into())?;
        let rows = rows.map(|key| store.header().hash(key.as_ref()));
        store.look_up(&rows.collect::<Vec<_>>())
    }

    /// Counts what the ledger has, and lists the rows in doubt.
    ///
    /// # Errors
    /// If the file cannot be read, is not a ledger, or is damaged.
    pub fn summary(&self) -> Result<Summary, LedgerError> {
        people::summary(&*self.open(Purpose::Read)?)
    }

    /// Records what became of rows, each named by the key that the job gave it: the agent that was found, or `None` if
    /// there is none. Returns how many rows this has changed.
    ///
    /// This is for rows whose outcome is unknown: the next run reports a row with an agent as created, and sends a row
    /// without one. It is also for rows that the service rejected and that were corrected since: `None` makes the next
    /// run send such a row.
    ///
    /// A row can be settled again, and [`unsettle`](Self::unsettle) undoes it. Whatever the ledger already says is
    /// skipped. When this returns, all of it is on disk.
    ///
    /// # Errors
    /// If the ledger does not have a key, or the service itself has said that it created the agent, or a job is sending the
    /// row; if a key or an agent is given twice, or another row has the agent; if an identifier is empty or a word for
    /// nobody, such as `n/a`. Then nothing is recorded, and [`LedgerError::index`] says which entry it is. No error shows a
    /// key. Also if the file cannot be read or written, or is not a ledger.
    pub fn settle<K: AsRef<str>>(
        &self,
        found: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        people::settle(&mut *self.open(Purpose::Note)?, owned(found), true)
    }

    /// What [`settle`](Self::settle) would return for the same, without recording anything.
    ///
    /// # Errors
    /// Those of `settle`.
    pub fn check_settle<K: AsRef<str>>(
        &self,
        found: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        people::settle(&mut *self.open(Purpose::Note)?, owned(found), false)
    }

    /// Undoes [`settle`](Self::settle): each of these rows that is settled is again what jobs have recorded of it. Returns
    /// how many there were.
    ///
    /// # Errors
    /// If the ledger does not have a key: then nothing is recorded, and [`LedgerError::index`] says which entry it is. Also
    /// if the file cannot be read or written, or is not a ledger.
    pub fn unsettle<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<usize, LedgerError> {
        let keys = keys.into_iter().map(|key| key.as_ref().to_owned());
        people::unsettle(&mut *self.open(Purpose::Note)?, keys.collect())
    }

    /// Records that the service has another base URL from now on, because its host was renamed, for example. Jobs for
    /// the new URL are then accepted, and jobs for the old one are not.
    ///
    /// Only do this if it is the same service, with the same agents: agents that the ledger has as created are not
    /// created there.
    ///
    /// # Errors
    /// If `base_url` is not a base URL, or if the file cannot be read or written, or is not a ledger.
    pub fn move_to(&self, base_url: &str) -> Result<(), LedgerError> {
        let mut store = self.open(Purpose::Note)?;
        let url = base_url::parse(base_url).map_err(|what| store.error(Cause::BaseUrl(what)))?;
        let service = base_url::normal(&url);
        let (before, keys) = (&store.header().service, store.header().keys.clone());
        if base_url::is_same(before, &service) {
            return Ok(());
        }
        let renamed = store.rename(&service, keys.as_deref());
        renamed.map_err(|cause| store.error(cause))
    }

    /// Opens a ledger that exists, and checks that nothing has damaged it.
    fn open(&self, purpose: Purpose) -> Result<Box<dyn Store>, LedgerError> {
        let missing = || {
            let error = io::Error::from(io::ErrorKind::NotFound);
            LedgerError::new(self.place.clone(), purpose, Cause::Io(error))
        };
        let store = self.open_if_there(purpose)?.ok_or_else(missing)?;
        store.verify().map_err(|cause| store.error(cause))?;
        Ok(store)
    }

    fn open_if_there(&self, purpose: Purpose) -> Result<Option<Box<dyn Store>>, LedgerError> {
        match &self.place {
            Place::File(path) => Ok(Sqlite::open(path, purpose)?.map(|store| Box::new(store) as _)),
        }
    }

    /// Opens a ledger to send rows, or creates one.
    pub(super) fn open_to_send(
        &self,
        purpose: Purpose,
        service: &str,
        keys: Option<&str>,
    ) -> Result<Box<dyn Store>, LedgerError> {
        let mut store: Box<dyn Store> = match &self.place {
            Place::File(path) => Box::new(Sqlite::open_to_send(path, purpose, service, keys)?),
        };
        store.bind(service, keys)?;
        Ok(store)
    }

    /// Starts the thread of a job, or of a client's single creates.
    pub(crate) fn start(
        &self,
        purpose: Purpose,
        service: String,
        keys: Option<String>,
    ) -> Result<Writer, LedgerError> {
        let this = self.clone();
        Writer::start(self.place.clone(), purpose, move || {
            this.open_to_send(purpose, &service, keys.as_deref())
        })
    }
}

fn owned<K: AsRef<str>>(
    found: impl IntoIterator<Item = (K, Option<AgentId>)>,
) -> Vec<(String, Option<AgentId>)> {
    let found = found.into_iter();
    found
        .map(|(key, id)| (key.as_ref().to_owned(), id))
        .collect()
}
