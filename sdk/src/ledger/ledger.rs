//! A ledger as a value.

#[cfg(any(feature = "ledger-postgres", feature = "simulation"))]
use std::sync::Arc;
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};
#[cfg(feature = "ledger-postgres")]
use std::{panic::resume_unwind, thread};

#[cfg(feature = "ledger-postgres")]
use super::postgres::{self, Database, Postgres};
use super::{
    cancellation::CancellationFlag,
    clock::Clock,
    error::{Cause, HIDDEN_URL, LedgerError, Place},
    maintenance::{self, LedgerSummary},
    owner::is_of_job,
    sqlite::{self, Sqlite},
    state::{LedgerRow, Record, RequestInfo},
    store::{Header, Store},
    writer::Writer,
};
#[cfg(feature = "simulation")]
use super::{
    memory::{Database as SimulatedDatabase, SimulatedLedger},
    process::Process,
};
use crate::{
    transport::base_url,
    value::{AgentId, Json},
};

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
/// for row in ledger.summary()?.unresolved {
///     println!("sent {:?}, request {:?}: nobody knows what became of it", row.sent_at, row.request_id);
/// }
/// ledger.resolve([
///     ("ada@example.com", Some(AgentId::from("a_1"))), // looked up: there she is
///     ("grace@example.com", None),                     // nobody there: the next run creates her
/// ])?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sqlite {
        path: PathBuf,
        waits: bool,
    },
    #[cfg(feature = "ledger-postgres")]
    Postgres(Arc<Database>),
    #[cfg(feature = "simulation")]
    Memory(SimulatedLedger),
}

impl Ledger {
    /// The ledger in this file, an SQLite database. The first job creates it. For the URL of a database, use
    /// [`postgres`](Self::postgres); one given here is not used, and no text shows it.
    pub fn sqlite(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // A password may be anywhere in it.
        let is_shown = !looks_like_database(&path.to_string_lossy());
        let path = if is_shown {
            path
        } else {
            Path::new(HIDDEN_URL)
        };
        Self(Kind::Sqlite {
            path: path.to_owned(),
            waits: true,
        })
    }

    /// The ledger in this PostgreSQL database, for jobs on many machines (feature `ledger-postgres`). The first job creates
    /// its tables, in a schema of their own. For another service, or for keys with another name, name another schema.
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
        Ok(Self(Kind::Postgres(Arc::new(database))))
    }

    /// The path of the file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Sqlite { path, .. } => Some(path),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(_) => None,
            #[cfg(feature = "simulation")]
            Kind::Memory(_) => None,
        }
    }

    /// Creates the tables in the database, if they are missing, so that jobs need no permission to do so. A file needs none.
    ///
    /// # Errors
    /// If the database cannot be reached, or denies it.
    pub fn init(&self) -> Result<(), LedgerError> {
        self.apart(|| match &self.0 {
            Kind::Sqlite { .. } => Ok(()),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => postgres::init(database),
            #[cfg(feature = "simulation")]
            Kind::Memory(_) => Ok(()),
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
        let failed = |error| LedgerError::of_file(folder, Cause::Io(error));
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // A ledger that a job is creating is not in use yet, and one whose job was killed meanwhile never was.
            if !is_of_job(&path) && is_ledger(&path) {
                found.push(path);
            }
        }
        found.sort();
        Ok(found
            .into_iter()
            .map(|path| Self::sqlite(path).without_waiting())
            .collect())
    }

    /// Waits at most a second for other programs that keep the file locked, in place of half a minute: for files that the user
    /// has not named, such as those [in a folder](Self::in_folder). A database is not affected.
    pub fn without_waiting(mut self) -> Self {
        if let Kind::Sqlite { waits, .. } = &mut self.0 {
            *waits = false;
        }
        self
    }

    /// Returns what the ledger knows about each of these keys, in their order: `None` for a row that the next run
    /// sends.
    ///
    /// `key_name` is the name of the keys, as in [`CreateMany::ledger`](crate::CreateMany::ledger). Nothing is written, and
    /// jobs may have the ledger open. If the file does not exist yet, every item is `None`.
    ///
    /// # Errors
    /// If the file cannot be read, is not a ledger, or its keys have another name.
    pub fn look_up<'a, K: AsRef<str>>(
        &self,
        key_name: impl Into<Option<&'a str>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<LedgerRow>>, LedgerError> {
        let rows = keys.into_iter().map(|key| (key, None)).collect();
        self.look_up_all(key_name.into(), rows)
    }

    /// Does the same as [`look_up`](Self::look_up), and compares the requests: each row is a pair of its key and the request that
    /// it has now. [`LedgerRow::request_differs`] then says whether another request was sent.
    ///
    /// # Errors
    /// The same as for `look_up`.
    pub fn look_up_requests<'a, K: AsRef<str>>(
        &self,
        key_name: impl Into<Option<&'a str>>,
        rows: impl IntoIterator<Item = (K, Json)>,
    ) -> Result<Vec<Option<LedgerRow>>, LedgerError> {
        let rows = rows.into_iter();
        let rows = rows.map(|(key, request)| (key, Some(request))).collect();
        self.look_up_all(key_name.into(), rows)
    }

    fn look_up_all<K: AsRef<str>>(
        &self,
        key_name: Option<&str>,
        rows: Vec<(K, Option<Json>)>,
    ) -> Result<Vec<Option<LedgerRow>>, LedgerError> {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(key, request)| (key.as_ref().to_owned(), request))
            .collect();
        self.apart(|| {
            let Some(mut store) = self.open(false)? else {
                return Ok(rows.iter().map(|_| None).collect());
            };
            store.run(|store| store.refuse_other_keys(key_name))?;
            let header = store.header().clone();
            let hashes: Vec<_> = rows.iter().map(|(key, _)| header.hash(key)).collect();
            let found = store.run(|store| store.look_up(&hashes))?.into_iter();
            let compared = found.zip(&rows).map(|(recorded, (_, request))| {
                let body = request.as_ref().map(|json| json.as_str().as_bytes());
                let request = RequestInfo {
                    body: body.map(|body| header.salt.hash_request(body)),
                    ..RequestInfo::default()
                };
                Some(recorded?.compared_with(&request))
            });
            Ok(compared.collect())
        })
    }

    /// Returns what the ledger knows about a row whose agent has each of these e-mail addresses, in their order: to find rows
    /// whose keys have changed. `None` if no request with the address was sent. Addresses are compared without regard to case.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a ledger.
    pub fn look_up_emails<E: AsRef<str>>(
        &self,
        emails: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Option<LedgerRow>>, LedgerError> {
        let emails = emails.into_iter();
        let emails: Vec<_> = emails.map(|email| email.as_ref().to_owned()).collect();
        self.apart(|| {
            let Some(mut store) = self.open(false)? else {
                return Ok(emails.iter().map(|_| None).collect());
            };
            let salt = store.header().salt;
            let hashes: Vec<_> = emails.iter().map(|email| salt.hash_email(email)).collect();
            let found = store.run(|store| store.read_emails(&hashes))?.into_iter();
            let recorded = |rows: Vec<Record>| rows.iter().find_map(Record::recorded);
            Ok(found.map(recorded).collect())
        })
    }

    /// Makes sure that it is the ledger of the service with this base URL, if it is there.
    ///
    /// # Errors
    /// If it is that of another service, or cannot be read; or if this is not a base URL.
    pub fn check_service(&self, base_url: &str) -> Result<(), LedgerError> {
        self.apart(|| {
            let service = base_url::parse(base_url).map_err(Cause::BaseUrl)?;
            let store = self.open(false)?;
            store.map_or(Ok(()), |store| {
                let header = store.header();
                header.refuse_other_service(&base_url::normalize(&service))
            })
        })
    }

    /// Counts the ledger's rows, and lists the unresolved ones.
    ///
    /// # Errors
    /// If the file cannot be read, is not a ledger, or is damaged.
    pub fn summary(&self) -> Result<LedgerSummary, LedgerError> {
        self.with(false, maintenance::summary)
    }

    /// Records what became of rows, each identified by its key in the job: the agent that was found, or `None` if there
    /// is none. Returns how many rows changed.
    ///
    /// Use it for rows whose outcome is unknown: the next run reports rows with an agent as created, and sends rows
    /// without one. Use it also, with `None`, for rejected rows that you have corrected since, so that the next run
    /// sends them.
    ///
    /// A row can be resolved again. Entries that the ledger already has are skipped. When this returns, everything is on disk.
    ///
    /// # Errors
    /// If the ledger does not have a key, the service itself confirmed that it created the agent, or a job is sending
    /// the row; if a key or an agent is given twice, or another row has the agent; if an identifier is empty or a
    /// placeholder such as `n/a`. Then nothing is recorded, and [`LedgerError::index`] says which entry it is. No error
    /// shows a key. Also if the file cannot be read or written, or is not a ledger.
    pub fn resolve<K: AsRef<str>>(
        &self,
        found: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        let found = owned(found);
        self.with(true, |store| {
            maintenance::resolve(store, found, true, self.clock().unix_ms())
        })
    }

    /// What [`resolve`](Self::resolve) would return for the same, without recording anything.
    ///
    /// # Errors
    /// Those of `resolve`.
    pub fn resolve_dry_run<K: AsRef<str>>(
        &self,
        found: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        let found = owned(found);
        self.with(true, |store| {
            maintenance::resolve(store, found, false, self.clock().unix_ms())
        })
    }

    /// Records that the service has another base URL from now on, because its host was renamed, for example. Jobs for
    /// the new URL are then accepted, and jobs for the old one are not.
    ///
    /// Only do this if it is the same service, with the same agents: agents that the ledger knows as created will not
    /// be created there.
    ///
    /// # Errors
    /// If `base_url` is not a base URL, or if the file cannot be read or written, or is not a ledger.
    pub fn set_base_url(&self, base_url: &str) -> Result<(), LedgerError> {
        self.with(true, |store| {
            let url = base_url::parse(base_url).map_err(Cause::BaseUrl)?;
            let service = base_url::normalize(&url);
            store.change_header(&mut |header, _| {
                let is_news = !base_url::is_same(&header.service, &service);
                Ok(is_news.then(|| Header {
                    service: service.clone(),
                    ..header.clone()
                }))
            })
        })
    }

    /// Copies the ledger to a new file, as it is at one moment. Jobs may have it open. The copy is a ledger, too: keep it away from
    /// jobs, which would not know the rows that were sent after it was made.
    ///
    /// # Errors
    /// If the file exists, or cannot be written; or if the ledger cannot be read, or is in a database: copy that with its own tools,
    /// such as `pg_dump`.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<(), LedgerError> {
        let to = to.as_ref();
        let Some(path) = self.path() else {
            let why =
                "a ledger in a database is copied with the database's own tools, such as pg_dump";
            return Err(LedgerError::new(self.place(), Cause::Unsupported(why)));
        };
        let failed = |cause| LedgerError::of_file(path, cause);
        let store = Sqlite::open(path, false, true).map_err(failed)?;
        let mut store =
            store.ok_or_else(|| failed(io::Error::from(io::ErrorKind::NotFound).into()))?;
        // A copy of a damaged ledger would be of no use.
        maintenance::summary(&mut store).map_err(failed)?;
        store
            .backup(to)
            .map_err(|cause| LedgerError::of_file(to, cause))
    }

    fn with<T: Send>(
        &self,
        writes: bool,
        work: impl FnOnce(&mut (dyn Store + 'static)) -> Result<T, Cause> + Send,
    ) -> Result<T, LedgerError> {
        self.apart(|| {
            let store = self.open(writes)?;
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            store.ok_or_else(missing)?.run(work)
        })
    }

    /// Does something that may wait for the network, on a thread of its own then: the calling one may belong to a runtime.
    fn apart<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Cause> + Send,
    ) -> Result<T, LedgerError> {
        let done = match &self.0 {
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(_) => {
                let done = thread::scope(|scope| scope.spawn(work).join());
                done.unwrap_or_else(|panic| resume_unwind(panic))
            }
            _ => work(),
        };
        done.map_err(|cause| LedgerError::new(self.place(), cause))
    }

    fn place(&self) -> Place {
        match &self.0 {
            Kind::Sqlite { path, .. } => Place::File(path.clone()),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => database.place(),
            #[cfg(feature = "simulation")]
            Kind::Memory(ledger) => ledger.place(),
        }
    }

    fn open(&self, writes: bool) -> Result<Option<Box<dyn Store>>, Cause> {
        Ok(match &self.0 {
            Kind::Sqlite { path, waits } => {
                Sqlite::open(path, writes, *waits)?.map(|store| Box::new(store) as _)
            }
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => Postgres::open(database)?.map(|store| Box::new(store) as _),
            #[cfg(feature = "simulation")]
            Kind::Memory(ledger) => ledger.open()?.map(|store| Box::new(store) as _),
        })
    }

    /// Opens a ledger to send rows, or creates one.
    pub(super) fn open_to_send(
        &self,
        service: &str,
        keys: Option<&str>,
        cancellation: &CancellationFlag,
    ) -> Result<Box<dyn Store>, Cause> {
        if keys.is_some_and(|name| name.contains('\0')) {
            return Err(Cause::Unsupported(
                "the name of the keys contains the character U+0000",
            ));
        }
        let mut store: Box<dyn Store> = match &self.0 {
            Kind::Sqlite { path, .. } => {
                Box::new(Sqlite::open_to_send(path, service, keys, cancellation)?)
            }
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => Box::new(Postgres::open_to_send(
                database,
                service,
                keys,
                cancellation,
            )?),
            #[cfg(feature = "simulation")]
            Kind::Memory(ledger) => Box::new(ledger.open_to_send(service, keys)?),
        };
        store.run(|store| store.bind(service, keys))?;
        Ok(store)
    }

    /// Starts the worker of a job, or of a client's single creates, on a thread of its own.
    pub(crate) fn start(
        &self,
        is_job: bool,
        service: String,
        keys: Option<String>,
    ) -> Result<Writer, LedgerError> {
        let this = self.clone();
        let open = move |cancellation: &CancellationFlag| {
            this.open_to_send(&service, keys.as_deref(), cancellation)
        };
        let (writer, worker) = Writer::new(self.place(), is_job, self.clock(), Box::new(open));
        match &self.0 {
            #[cfg(feature = "simulation")]
            Kind::Memory(ledger) => {
                ledger.drive(worker);
                Ok(writer)
            }
            _ => writer.start_thread(worker),
        }
    }

    fn clock(&self) -> Clock {
        match &self.0 {
            #[cfg(feature = "simulation")]
            Kind::Memory(ledger) => ledger.clock(),
            _ => Clock::default(),
        }
    }

    /// The ledger in a simulated database, as this process uses it.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn in_memory(database: &SimulatedDatabase, process: Arc<dyn Process>) -> Self {
        let database = database.clone();
        Self(Kind::Memory(SimulatedLedger { database, process }))
    }
}

/// Returns whether this file is a ledger. A file that may not be read is one if it is named like one: it may be a colleague's.
fn is_ledger(path: &Path) -> bool {
    let is_named = path
        .extension()
        .is_some_and(|extension| extension == "ledger");
    let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    sqlite::is_ledger(path).unwrap_or_else(|error| is_named && is_denied(error))
}

/// Whether this is the URL of a PostgreSQL database.
fn is_database(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| ["postgresql", "postgres"].contains(&&*scheme.to_ascii_lowercase()))
}

/// Whether this may be the URL of a database, such as one with another scheme, or libpq's `host=… password=…`.
fn looks_like_database(name: &str) -> bool {
    let is_parameter = |word: &str| {
        let name = word
            .split_once('=')
            .map(|(name, _)| name.to_ascii_lowercase());
        let names = [
            "host", "hostaddr", "port", "dbname", "user", "password", "service",
        ];
        name.is_some_and(|name| names.contains(&&*name))
    };
    // Around an equals sign, libpq allows spaces.
    let name = name.trim_start();
    let scheme = name
        .split_once(':')
        .map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_scheme = |scheme: &str| ["postgresql", "postgres", "psql"].contains(&scheme);
    name.contains("://")
        || scheme.is_some_and(|scheme| is_scheme(&scheme))
        || name.replace(" =", "=").split_whitespace().any(is_parameter)
}

/// The URL of a PostgreSQL database, which begins with `postgresql://` or `postgres://`, or else the path of a file.
impl FromStr for Ledger {
    type Err = LedgerError;

    fn from_str(name: &str) -> Result<Self, LedgerError> {
        if !is_database(name) {
            return match looks_like_database(name) {
                true => Err(LedgerError::of_file(
                    HIDDEN_URL.as_ref(),
                    Cause::DatabaseUrl("it must begin with postgresql://"),
                )),
                false => Ok(Self::sqlite(name)),
            };
        }
        #[cfg(feature = "ledger-postgres")]
        return Self::postgres(name);
        #[cfg(not(feature = "ledger-postgres"))]
        Err(LedgerError::of_file(
            HIDDEN_URL.as_ref(),
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
