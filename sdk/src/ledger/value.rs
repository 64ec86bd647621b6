//! A ledger as a value.

#[cfg(feature = "ledger-postgres")]
use std::sync::Arc;
use std::{
    fmt, fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
};

#[cfg(feature = "ledger-postgres")]
use super::postgres::{self, Database, Postgres};
use super::{
    error::{Cause, HIDDEN_URL, LedgerError, Place, Purpose},
    lease::Lease,
    people::{self, Summary},
    sqlite::Sqlite,
    state::Recorded,
    store::{Store, Table},
    writer::Writer,
};
use crate::{http::base_url, value::AgentId};

/// A record of what became of each create: an SQLite file, or a PostgreSQL database.
///
/// This value is only its name: creating one does nothing. Whatever uses the ledger opens it, and the first job creates
/// it.
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
    kind: Kind,
    /// Which one of several in a database.
    service: Option<String>,
    keys: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sqlite(PathBuf),
    #[cfg(feature = "ledger-postgres")]
    Postgres(Arc<Database>),
}

impl Ledger {
    /// The ledger in this file, an SQLite database. The first job creates it. For the URL of a database, use
    /// [`postgres`](Self::postgres); one given here is not used, and no text shows it.
    pub fn sqlite(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let is_url = is_database(&path.to_string_lossy());
        let path = if is_url { Path::new(HIDDEN_URL) } else { path };
        Self::new(Kind::Sqlite(path.to_owned()))
    }

    /// The ledgers in this PostgreSQL database, for jobs on many machines (feature `ledger-postgres`). A service has one
    /// for each name of its keys; the first job creates it, and the tables.
    ///
    /// The URL looks like `postgresql://user:password@host:5432/database`; escape characters other than letters and
    /// digits in a user name or password, such as `%40` for `@`. The password can also come from the environment
    /// variable `PGPASSWORD`. Besides most of libpq's parameters, the URL takes `schema`, for the tables (by default
    /// `dealkit`), and `sslrootcert`, a file of further CA certificates to trust. Connections to other machines use TLS
    /// and verify the certificate, unless the URL has `sslmode=disable`. No text shows the user or the password.
    ///
    /// # Errors
    /// If it is not such a URL.
    #[cfg(feature = "ledger-postgres")]
    pub fn postgres(url: &str) -> Result<Self, LedgerError> {
        let database = Database::parse(url)?;
        Ok(Self::new(Kind::Postgres(Arc::new(database))))
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            service: None,
            keys: None,
        }
    }

    /// The ledger of this service, given by its base URL, and of keys with this name: for a database that has several.
    /// Jobs find their own, and do not need this.
    pub fn of<'a, 'b>(
        self,
        base_url: impl Into<Option<&'a str>>,
        keys: impl Into<Option<&'b str>>,
    ) -> Self {
        Self {
            service: base_url.into().map(str::to_owned),
            keys: keys.into().map(str::to_owned),
            ..self
        }
    }

    /// The path of the file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Sqlite(path) => Some(path),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(_) => None,
        }
    }

    /// Creates missing tables, so that jobs need no permission to do so; and the ledger itself, if you name its
    /// [service](Self::of). This is also how a service gets a second ledger, whose keys have another name: a job does
    /// not create one by itself, because that is more often a mistake that would create every agent again.
    ///
    /// # Errors
    /// If the file or the database cannot be reached or written.
    pub fn init(&self) -> Result<(), LedgerError> {
        self.apart(Purpose::Job, || {
            let service = self.service()?;
            let ledger = service
                .as_deref()
                .map(|service| (service, self.keys.as_deref()));
            match (&self.kind, ledger) {
                (Kind::Sqlite(_), None) => Ok(()),
                (Kind::Sqlite(_), Some((service, keys))) => self
                    .open_to_send(Purpose::Job, service, keys, Lease::default())
                    .map(drop),
                #[cfg(feature = "ledger-postgres")]
                (Kind::Postgres(database), ledger) => postgres::init(database, ledger),
            }
        })
    }

    /// The ledgers in a folder, whatever their names, sorted by name. Subfolders are not searched, and a missing folder
    /// has none.
    ///
    /// Two ledgers know nothing of each other's rows. So before a job starts a new one, [look up its
    /// keys](Self::look_up) in the existing ones.
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
            let is_one = match Sqlite::open(&path, false) {
                Ok(opened) => opened.is_some(),
                Err(cause) => cause.is_of_a_ledger(),
            };
            if is_one {
                found.push(path);
            }
        }
        found.sort();
        Ok(found.into_iter().map(Self::sqlite).collect())
    }

    /// Returns what the ledger knows about each of these keys, in their order: `None` for a row that the next run
    /// sends.
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
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.as_ref().to_owned())
            .collect();
        let keys = keys.into().or(self.keys.as_deref());
        self.apart(Purpose::Read, || {
            let Some(mut store) = self.open_if_there(keys, Purpose::Read)? else {
                return Ok(rows.iter().map(|_| None).collect());
            };
            let rows: Vec<_> = rows.iter().map(|key| store.header().hash(key)).collect();
            store.run(|store| store.look_up(&rows))
        })
    }

    /// Counts the ledger's rows, and lists those in doubt.
    ///
    /// # Errors
    /// If the file cannot be read, is not a ledger, or is damaged.
    pub fn summary(&self) -> Result<Summary, LedgerError> {
        self.with(Purpose::Read, people::summary)
    }

    /// Records what became of rows, each identified by its key in the job: the agent that was found, or `None` if there
    /// is none. Returns how many rows changed.
    ///
    /// Use it for rows whose outcome is unknown: the next run reports rows with an agent as created, and sends rows
    /// without one. Use it also, with `None`, for rejected rows that you have corrected since, so that the next run
    /// sends them.
    ///
    /// A row can be settled again, and [`unsettle`](Self::unsettle) undoes it. Entries that the ledger already has are
    /// skipped. When this returns, everything is on disk.
    ///
    /// # Errors
    /// If the ledger does not have a key, the service itself confirmed that it created the agent, or a job is sending
    /// the row; if a key or an agent is given twice, or another row has the agent; if an identifier is empty or a
    /// placeholder such as `n/a`. Then nothing is recorded, and [`LedgerError::index`] says which entry it is. No error
    /// shows a key. Also if the file cannot be read or written, or is not a ledger.
    pub fn settle<K: AsRef<str>>(
        &self,
        found: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        let found = owned(found);
        self.with(Purpose::Note, |store| people::settle(store, found, true))
    }

    /// What [`settle`](Self::settle) would return for the same, without recording anything.
    ///
    /// # Errors
    /// Those of `settle`.
    pub fn check_settle<K: AsRef<str>>(
        &self,
        found: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        let found = owned(found);
        self.with(Purpose::Note, |store| people::settle(store, found, false))
    }

    /// Undoes [`settle`](Self::settle): settled rows go back to what jobs recorded. Returns how many there were.
    ///
    /// # Errors
    /// If the ledger does not have a key: then nothing is recorded, and [`LedgerError::index`] says which entry it is. Also
    /// if the file cannot be read or written, or is not a ledger.
    pub fn unsettle<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<usize, LedgerError> {
        let keys: Vec<_> = keys
            .into_iter()
            .map(|key| key.as_ref().to_owned())
            .collect();
        self.with(Purpose::Note, |store| people::unsettle(store, keys))
    }

    /// Records that the service has another base URL from now on, because its host was renamed, for example. Jobs for
    /// the new URL are then accepted, and jobs for the old one are not.
    ///
    /// Only do this if it is the same service, with the same agents: agents that the ledger knows as created will not
    /// be created there.
    ///
    /// # Errors
    /// If `base_url` is not a base URL, or if the file cannot be read or written, or is not a ledger.
    pub fn move_to(&self, base_url: &str) -> Result<(), LedgerError> {
        self.with(Purpose::Note, |store| {
            let url = base_url::parse(base_url).map_err(Cause::BaseUrl)?;
            let service = base_url::normal(&url);
            let (before, keys) = (&store.header().service, store.header().keys.clone());
            if base_url::is_same(before, &service) {
                return Ok(());
            }
            store.rename(&service, keys.as_deref())
        })
    }

    /// Copies all rows and their history into another ledger, which continues where this one stops: from a file into a
    /// database, for example. Returns the number of rows. From then on, use only the copy: neither ledger knows what is
    /// sent with the other. All rows are in memory meanwhile.
    ///
    /// # Errors
    /// If the other ledger has rows, or, as a file, exists at all; if a job is using this one; or if one of them cannot be
    /// read or written. Then nothing is copied.
    pub fn copy_to(&self, other: &Self) -> Result<usize, LedgerError> {
        let (header, rows) = self.with(Purpose::Read, |store| {
            Ok((store.header().clone(), store.rows_to_copy()?))
        })?;
        let of_history = rows.iter().filter(|(table, ..)| *table == Table::History);
        let number = rows.len() - of_history.count();
        other.apart(Purpose::Note, || match &other.kind {
            Kind::Sqlite(path) => Sqlite::create_with(path, &header, rows),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => postgres::create_with(database, &header, &rows),
        })?;
        Ok(number)
    }

    /// Does something with a ledger that exists.
    fn with<T: Send>(
        &self,
        purpose: Purpose,
        work: impl FnOnce(&mut (dyn Store + 'static)) -> Result<T, Cause> + Send,
    ) -> Result<T, LedgerError> {
        self.apart(purpose, || {
            let store = self.open_if_there(self.keys.as_deref(), purpose)?;
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            store.ok_or_else(missing)?.run(work)
        })
    }

    /// Does something on a thread where nothing else waits for the network: the calling one may belong to a runtime.
    fn apart<T: Send>(
        &self,
        purpose: Purpose,
        work: impl FnOnce() -> Result<T, Cause> + Send,
    ) -> Result<T, LedgerError> {
        let done = if self.path().is_some() {
            work()
        } else {
            let done = thread::scope(|scope| scope.spawn(work).join());
            done.unwrap_or_else(|panic| resume_unwind(panic))
        };
        done.map_err(|cause| LedgerError::new(self.place(), purpose, cause))
    }

    fn place(&self) -> Place {
        match &self.kind {
            Kind::Sqlite(path) => Place::File(path.clone()),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => database.place(),
        }
    }

    /// The base URL of the service in its normal form, if one was given.
    fn service(&self) -> Result<Option<String>, Cause> {
        let url = self.service.as_deref().map(base_url::parse).transpose();
        Ok(url.map_err(Cause::BaseUrl)?.as_ref().map(base_url::normal))
    }

    fn open_if_there(
        &self,
        keys: Option<&str>,
        purpose: Purpose,
    ) -> Result<Option<Box<dyn Store>>, Cause> {
        let service = self.service()?;
        let store: Option<Box<dyn Store>> = match &self.kind {
            Kind::Sqlite(path) => {
                Sqlite::open(path, purpose != Purpose::Read)?.map(|store| Box::new(store) as _)
            }
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => Postgres::open(database, service.as_deref(), keys)?
                .map(|store| Box::new(store) as _),
        };
        let Some(mut store) = store else {
            return Ok(None);
        };
        store.run(|store| {
            service.map_or(Ok(()), |service| store.refuse_other_service(&service))?;
            store.refuse_other_keys(keys)
        })?;
        Ok(Some(store))
    }

    /// Opens a ledger to send rows, or creates one.
    pub(super) fn open_to_send(
        &self,
        purpose: Purpose,
        service: &str,
        keys: Option<&str>,
        lease: Lease,
    ) -> Result<Box<dyn Store>, Cause> {
        let mut store: Box<dyn Store> = match &self.kind {
            Kind::Sqlite(path) => Box::new(Sqlite::open_to_send(path, service, keys)?),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => Box::new(Postgres::open_to_send(
                database,
                purpose,
                service,
                keys,
                lease.clone(),
            )?),
        };
        // Files have no lease: the operating system knows who is alive.
        drop((purpose, lease));
        store.run(|store| store.bind(service, keys))?;
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
        Writer::start(self.place(), purpose, move |lease| {
            this.open_to_send(purpose, &service, keys.as_deref(), lease)
        })
    }
}

fn is_database(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| ["postgresql", "postgres"].contains(&&*scheme.to_ascii_lowercase()))
}

/// The URL of a PostgreSQL database, which begins with `postgresql://` or `postgres://`, or else the path of a file.
impl FromStr for Ledger {
    type Err = LedgerError;

    fn from_str(name: &str) -> Result<Self, LedgerError> {
        if !is_database(name) {
            return Ok(Self::sqlite(name));
        }
        #[cfg(feature = "ledger-postgres")]
        return Self::postgres(name);
        #[cfg(not(feature = "ledger-postgres"))]
        Err(LedgerError::of_file(
            HIDDEN_URL.as_ref(),
            Purpose::Read,
            Cause::NotALedger("this program was built without dealkit's feature ledger-postgres"),
        ))
    }
}

/// The path of the file, or the URL of the database without the user and the password.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place().fmt(f)
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
