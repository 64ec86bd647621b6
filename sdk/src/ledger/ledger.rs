//! The public type `Ledger`: the path or URL of a ledger, and the operations on it.

#[cfg(any(feature = "ledger-postgres", feature = "__simulation"))]
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
    error::{Cause, HIDDEN_URL, LedgerError, LedgerLocation},
    job_lock::is_job_file,
    maintenance::{self, LedgerSummary},
    open_ledger::OpenLedger,
    row::{LedgerRow, RequestInfo, RowEntry},
    sqlite::{self, Sqlite},
    store::{Header, Store},
};
#[cfg(feature = "__simulation")]
use super::{
    memory::{Database as SimulatedDatabase, SimulatedLedger},
    process::Process,
};
use crate::{
    transport::base_url,
    value::{AgentId, Json},
};

/// A local log of idempotency keys, with the outcome of each create: an SQLite file, or a PostgreSQL database.
///
/// This value is only the path or URL of the log: creating the value opens nothing. The first job creates the file or the
/// tables. A ledger that this process has lost while it was open, or whose other files are still there, is not created again:
/// until it is back, operations return an error of the kind [`Moved`](super::LedgerErrorKind::Moved).
///
/// # From async code
///
/// Creates use the ledger on a separate thread, and never block the runtime. The methods of this type, such as
/// [`summary`](Self::summary) and [`resolve`](Self::resolve), read and write the file or the database before they return, and so
/// block their thread. Call them on a thread for blocking work:
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use dealkit::ledger::Ledger;
///
/// let ledger = Ledger::sqlite("agents.ledger");
/// let summary = tokio::task::spawn_blocking(move || ledger.summary()).await??;
/// println!("{} rows are unresolved", summary.unresolved.len());
/// # Ok(()) }
/// ```
///
/// # Between two runs
///
/// ```
/// # fn example() -> Result<(), dealkit::ledger::LedgerError> {
/// use dealkit::{AgentId, ledger::Ledger};
///
/// let ledger = Ledger::sqlite("agents.ledger");
/// for row in ledger.summary()?.unresolved {
///     println!("sent {:?}, request {:?}: outcome unknown", row.sent_at, row.request_id);
/// }
/// ledger.resolve([
///     ("ada@example.com", Some(AgentId::from("a_1"))), // the service has this agent
///     ("grace@example.com", None),                     // no agent: the next run creates it
/// ])?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias("idempotency", "journal", "deduplication"))]
pub struct Ledger(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sqlite {
        path: PathBuf,
        waits_for_locks: bool,
    },
    #[cfg(feature = "ledger-postgres")]
    Postgres(Arc<Database>),
    #[cfg(feature = "__simulation")]
    Memory(SimulatedLedger),
}

impl Ledger {
    /// Returns the ledger in the SQLite file with this path. Nothing is opened; the first job creates the file. For the URL of
    /// a database, call `Ledger::postgres`. If a URL is passed here, every operation returns an error, and no message
    /// shows the URL.
    pub fn sqlite(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        // Messages show the path, but any part of a URL may be a password.
        let is_shown = !may_be_database_url(&path.to_string_lossy());
        let path = if is_shown {
            path
        } else {
            Path::new(HIDDEN_URL)
        };
        Self(Kind::Sqlite {
            path: path.to_owned(),
            waits_for_locks: true,
        })
    }

    /// Returns the ledger in a PostgreSQL database, which jobs on many machines can share (feature `ledger-postgres`). The
    /// first job creates the ledger's tables, in a separate schema. Each schema holds one ledger, for one service and one kind
    /// of idempotency keys: for any other, name another schema.
    ///
    /// The URL looks like `postgresql://user:password@host:5432/database`; escape characters other than letters and digits in a
    /// user name or password, such as `%40` for `@`. The password can also come from the environment variable `PGPASSWORD`. In
    /// addition to most of libpq's parameters, the URL takes `schema`, for the tables (by default `dealkit`), and
    /// `sslrootcert`, a file of further CA certificates to trust. Connections to other machines use TLS and verify the
    /// certificate, unless the URL has `sslmode=disable`. No message shows the user or the password.
    ///
    /// # Errors
    /// If the URL is invalid.
    #[cfg(feature = "ledger-postgres")]
    pub fn postgres(url: &str) -> Result<Self, LedgerError> {
        let database = Database::parse(url)?;
        Ok(Self(Kind::Postgres(Arc::new(database))))
    }

    /// Returns the path of the file, or `None` for a database.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Sqlite { path, .. } => Some(path),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(_) => None,
            #[cfg(feature = "__simulation")]
            Kind::Memory(_) => None,
        }
    }

    /// Creates the tables in the database, if they are missing, so that jobs need no permission to create them. Does nothing
    /// for a file.
    ///
    /// # Errors
    /// If the database cannot be reached, or denies access.
    pub fn init(&self) -> Result<(), LedgerError> {
        self.run_off_thread(|| match &self.0 {
            Kind::Sqlite { .. } => Ok(()),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => postgres::init(database),
            #[cfg(feature = "__simulation")]
            Kind::Memory(_) => Ok(()),
        })
    }

    /// Returns the ledgers in a folder, sorted by name. A file is recognised as a ledger by its content. Subfolders are not
    /// searched, and a missing folder has no ledgers.
    ///
    /// A ledger does not know the rows of other ledgers. Before a job starts a new ledger, [look up the job's
    /// keys](Self::look_up) in the existing ledgers.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Vec<Self>, LedgerError> {
        let folder = folder.as_ref();
        let io_error = |error| LedgerError::for_file(folder, Cause::Io(error));
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(io_error)? {
            let path = entry.map_err(io_error)?.path();
            // Skip a ledger that a job is still creating: it has no rows yet. If that job was killed, the ledger never gets any
            // rows.
            if !is_job_file(&path) && is_ledger(&path) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths
            .into_iter()
            .map(|path| Self::sqlite(path).without_waiting())
            .collect())
    }

    /// Limits the wait for a lock of another program on the file to one second. The default is half a minute. Use this limit
    /// for files that the user has not named, such as the ledgers [in a folder](Self::in_folder). A ledger in a database is not
    /// affected.
    pub fn without_waiting(mut self) -> Self {
        match &mut self.0 {
            Kind::Sqlite {
                waits_for_locks, ..
            } => *waits_for_locks = false,
            #[cfg(any(feature = "ledger-postgres", feature = "__simulation"))]
            _ => {}
        }
        self
    }

    /// Returns the ledger's row for each of these keys, in the order of the keys; `None` for a key whose row the next run
    /// sends.
    ///
    /// `key_name` says what the keys are, such as `email`: see [`CreateMany::ledger`](crate::CreateMany::ledger). Nothing is
    /// written, and jobs may have the ledger open. If the ledger does not exist yet, every item is `None`.
    ///
    /// # Errors
    /// If the ledger cannot be read or was lost, if the file or database is not a ledger, or if the ledger's keys have another
    /// name.
    pub fn look_up<'a, K: AsRef<str>>(
        &self,
        key_name: impl Into<Option<&'a str>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<LedgerRow>>, LedgerError> {
        let rows = keys.into_iter().map(|key| (key, None)).collect();
        self.look_up_all(key_name.into(), rows)
    }

    /// Looks up rows as [`look_up`](Self::look_up) does, and compares their requests. Each item of `rows` is the key of a row
    /// and its current request. [`LedgerRow::request_differs`] is true if a different request was sent for the row.
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
        self.run_off_thread(|| {
            let Some(mut store) = self.open(false)? else {
                return Ok(rows.iter().map(|_| None).collect());
            };
            store.run(|store| store.check_key_name(key_name))?;
            let header = store.header().clone();
            let hashes: Vec<_> = rows.iter().map(|(key, _)| header.hash(key)).collect();
            let existing_rows = store.run(|store| store.look_up(&hashes))?.into_iter();
            let compared_rows = existing_rows.zip(&rows).map(|(row, (_, request))| {
                let body = request.as_ref().map(|json| json.as_str().as_bytes());
                let request = RequestInfo {
                    body_hash: body.map(|body| header.salt.hash_request(body)),
                    ..RequestInfo::default()
                };
                Some(row?.compared_with(&request))
            });
            Ok(compared_rows.collect())
        })
    }

    /// Returns, for each of these e-mail addresses, a row whose request had this address; `None` if no such row was sent. Use
    /// it to find rows whose keys have changed since they were sent. Addresses are compared without regard to case.
    ///
    /// # Errors
    /// If the ledger cannot be read, or if the file or database is not a ledger.
    pub fn look_up_emails<E: AsRef<str>>(
        &self,
        emails: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Option<LedgerRow>>, LedgerError> {
        let emails = emails.into_iter();
        let emails: Vec<_> = emails.map(|email| email.as_ref().to_owned()).collect();
        self.run_off_thread(|| {
            let Some(mut store) = self.open(false)? else {
                return Ok(emails.iter().map(|_| None).collect());
            };
            let salt = store.header().salt;
            let hashes: Vec<_> = emails.iter().map(|email| salt.hash_email(email)).collect();
            let entries = store.run(|store| store.read_emails(&hashes))?.into_iter();
            let first_row =
                |entries: Vec<RowEntry>| entries.iter().find_map(RowEntry::to_ledger_row);
            Ok(entries.map(first_row).collect())
        })
    }

    /// Checks that this is the ledger of the service with this base URL. A ledger that does not exist yet passes.
    ///
    /// # Errors
    /// If the ledger belongs to another service or cannot be read, or if `base_url` is not a base URL.
    pub fn check_service(&self, base_url: &str) -> Result<(), LedgerError> {
        self.run_off_thread(|| {
            let url = base_url::parse(base_url).map_err(Cause::InvalidBaseUrl)?;
            let store = self.open(false)?;
            store.map_or(Ok(()), |store| {
                let header = store.header();
                header.check_service(&base_url::normalize(&url))
            })
        })
    }

    /// Counts the ledger's rows, and lists the unresolved ones. Blocks the thread: see [From async code](#from-async-code).
    ///
    /// # Errors
    /// If the ledger cannot be read or is damaged, or if the file or database is not a ledger.
    pub fn summary(&self) -> Result<LedgerSummary, LedgerError> {
        self.with_store(false, maintenance::summarize)
    }

    /// Records the agents that you have found for rows. Each entry is the key of a row and the row's agent, or `None` if the
    /// row has no agent. Returns the number of rows that changed. Blocks the thread: see [From async code](#from-async-code).
    ///
    /// Use it for rows whose outcome is unknown: the next run reports rows with an agent as created, and sends rows without an
    /// agent. Use it also, with `None`, for rejected rows that you have corrected: the next run then sends them.
    ///
    /// A row can be resolved more than once. Entries that the ledger already has are skipped. When this method returns, every
    /// entry is on disk.
    ///
    /// # Errors
    /// If the ledger does not have a key, if the service has confirmed that it created the row's agent, or if a job is sending
    /// the row. If two entries have the same key or agent, or if another row has the agent. If an identifier is empty, or a
    /// placeholder such as `n/a`. In these cases nothing is recorded, and [`LedgerError::index`] is the position of the entry.
    /// No error shows a key. Also if the ledger cannot be read or written, or if the file or database is not a ledger.
    pub fn resolve<K: AsRef<str>>(
        &self,
        resolutions: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        let resolutions = collect_owned(resolutions);
        self.with_store(true, |store| {
            maintenance::resolve(store, resolutions, true, self.clock().unix_ms())
        })
    }

    /// Returns the result of [`resolve`](Self::resolve) for the same entries, without recording anything.
    ///
    /// # Errors
    /// The same as for `resolve`.
    pub fn resolve_dry_run<K: AsRef<str>>(
        &self,
        resolutions: impl IntoIterator<Item = (K, Option<AgentId>)>,
    ) -> Result<usize, LedgerError> {
        let resolutions = collect_owned(resolutions);
        self.with_store(true, |store| {
            maintenance::resolve(store, resolutions, false, self.clock().unix_ms())
        })
    }

    /// Marks rows as unknown: their requests were sent, but the ledger does not know it, because it was restored from an older
    /// copy. The next run does not send them. Returns the number of rows that changed. Blocks the thread: see [From async
    /// code](#from-async-code).
    ///
    /// Rows that the ledger does not have, and rows that it has as rejected or as having no agent, become unknown. Other rows
    /// stay unchanged. Then [`resolve`](Self::resolve) records the agents that you know. `key_name` says what the keys are, such
    /// as `email`: see [`CreateMany::ledger`](crate::CreateMany::ledger). The [`LedgerRow::sent_at`] of a marked row is the
    /// current time.
    ///
    /// Pass exactly the keys that the rows had in the job: the ledger cannot notice a misspelt key.
    ///
    /// ```no_run
    /// use dealkit::ledger::Ledger;
    ///
    /// let restored = Ledger::sqlite("agents.ledger");
    /// restored.mark_unknown("email", ["ada@example.com", "grace@example.com"])?;
    /// restored.resolve([("ada@example.com", Some("a_1".into()))])?;
    /// # Ok::<(), dealkit::ledger::LedgerError>(())
    /// ```
    ///
    /// # Errors
    /// If a job is sending one of the rows; then nothing is recorded, and [`LedgerError::index`] is the position of its key. If
    /// the ledger's keys have another name. Also if the ledger cannot be read or written, or if the file or database is not a
    /// ledger.
    pub fn mark_unknown<'a, K: AsRef<str>>(
        &self,
        key_name: impl Into<Option<&'a str>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<usize, LedgerError> {
        let key_name = key_name.into();
        let keys = keys.into_iter().map(|key| key.as_ref().to_owned());
        let keys: Vec<_> = keys.collect();
        self.with_store(true, |store| {
            maintenance::mark_unknown(store, key_name, &keys, self.clock().unix_ms())
        })
    }

    /// Records a new base URL of the service, for example because the service's host was renamed. From then on, the ledger
    /// accepts jobs for the new URL, and rejects jobs for the old URL.
    ///
    /// Only do this if the new URL leads to the same service, with the same agents: jobs for the new URL will not create agents
    /// that the ledger has as created.
    ///
    /// # Errors
    /// If `base_url` is not a base URL, if the ledger cannot be read or written, or if the file or database is not a ledger.
    pub fn set_base_url(&self, base_url: &str) -> Result<(), LedgerError> {
        self.with_store(true, |store| {
            let url = base_url::parse(base_url).map_err(Cause::InvalidBaseUrl)?;
            let new_url = base_url::normalize(&url);
            store.change_header(&mut |header, _| {
                let is_changed = !base_url::is_equivalent(&header.service, &new_url);
                Ok(is_changed.then(|| Header {
                    service: new_url.clone(),
                    ..header.clone()
                }))
            })
        })
    }

    /// Copies a consistent snapshot of the ledger to a new file. Jobs may have the ledger open. The copy is a ledger, too. Do
    /// not run jobs with the copy: it lacks the rows that are sent after the backup, and a job would send these again.
    ///
    /// # Errors
    /// If the new file exists already or cannot be written, or if the ledger cannot be read. Also if the ledger is in a
    /// database: copy the database with its own tools, such as `pg_dump`.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<(), LedgerError> {
        let to = to.as_ref();
        let Some(path) = self.path() else {
            let cause = Cause::Unsupported(
                "a ledger in a database is not copied by dealkit: use the database's own tools, such as pg_dump",
            );
            return Err(LedgerError::new(self.location(), cause));
        };
        let make_error = |cause| LedgerError::for_file(path, cause);
        let store = Sqlite::open(path, false, true).map_err(make_error)?;
        let mut store =
            store.ok_or_else(|| make_error(io::Error::from(io::ErrorKind::NotFound).into()))?;
        // A copy of a damaged ledger would be of no use.
        maintenance::summarize(&mut store).map_err(make_error)?;
        store
            .backup(to)
            .map_err(|cause| LedgerError::for_file(to, cause))
    }

    /// Opens an existing ledger, and calls a function with its store. `writes` is true if the function changes the ledger.
    fn with_store<T: Send>(
        &self,
        writes: bool,
        work: impl FnOnce(&mut (dyn Store + 'static)) -> Result<T, Cause> + Send,
    ) -> Result<T, LedgerError> {
        self.run_off_thread(|| {
            let store = self.open(writes)?;
            let not_found = || io::Error::from(io::ErrorKind::NotFound);
            store.ok_or_else(not_found)?.run(work)
        })
    }

    /// Calls a function that uses the ledger. For PostgreSQL, the function runs on another thread: the PostgreSQL client blocks
    /// on an async runtime, which is impossible on a thread that already belongs to a runtime.
    fn run_off_thread<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Cause> + Send,
    ) -> Result<T, LedgerError> {
        let result = match &self.0 {
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(_) => {
                let thread_result = thread::scope(|scope| {
                    let thread = thread::Builder::new().spawn_scoped(scope, work)?;
                    io::Result::Ok(thread.join())
                });
                match thread_result {
                    Ok(Ok(result)) => result,
                    Ok(Err(panic)) => resume_unwind(panic),
                    Err(error) => Err(Cause::Thread(error)),
                }
            }
            _ => work(),
        };
        result.map_err(|cause| LedgerError::new(self.location(), cause))
    }

    fn location(&self) -> LedgerLocation {
        match &self.0 {
            Kind::Sqlite { path, .. } => LedgerLocation::File(path.clone()),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => database.location(),
            #[cfg(feature = "__simulation")]
            Kind::Memory(ledger) => ledger.location(),
        }
    }

    /// Opens the ledger; `None` if it does not exist yet.
    fn open(&self, writes: bool) -> Result<Option<Box<dyn Store>>, Cause> {
        Ok(match &self.0 {
            Kind::Sqlite {
                path,
                waits_for_locks,
            } => Sqlite::open(path, writes, *waits_for_locks)?.map(|store| Box::new(store) as _),
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => Postgres::open(database)?.map(|store| Box::new(store) as _),
            #[cfg(feature = "__simulation")]
            Kind::Memory(ledger) => ledger.open()?.map(|store| Box::new(store) as _),
        })
    }

    /// Opens the ledger for requests to be sent, or creates it. Records the name of the keys in the ledger.
    pub(super) fn open_to_send(
        &self,
        service: &str,
        key_name: Option<&str>,
        cancellation: &CancellationFlag,
    ) -> Result<Box<dyn Store>, Cause> {
        if key_name.is_some_and(|name| name.contains('\0')) {
            return Err(Cause::Unsupported(
                "the name of the keys contains the character U+0000; choose a name without it",
            ));
        }
        let mut store: Box<dyn Store> = match &self.0 {
            Kind::Sqlite { path, .. } => {
                Box::new(Sqlite::open_to_send(path, service, key_name, cancellation)?)
            }
            #[cfg(feature = "ledger-postgres")]
            Kind::Postgres(database) => Box::new(Postgres::open_to_send(
                database,
                service,
                key_name,
                cancellation,
            )?),
            #[cfg(feature = "__simulation")]
            Kind::Memory(ledger) => Box::new(ledger.open_to_send(service, key_name)?),
        };
        store.run(|store| store.bind_key_name(service, key_name))?;
        Ok(store)
    }

    /// Starts the worker of a job, or of a client's single creates if `is_job` is false, on a separate thread.
    pub(crate) fn start_worker(
        &self,
        is_job: bool,
        service: String,
        key_name: Option<String>,
    ) -> Result<OpenLedger, LedgerError> {
        let this = self.clone();
        let open_store = move |cancellation: &CancellationFlag| {
            this.open_to_send(&service, key_name.as_deref(), cancellation)
        };
        let (open_ledger, worker) =
            OpenLedger::new(self.location(), is_job, self.clock(), Box::new(open_store));
        match &self.0 {
            #[cfg(feature = "__simulation")]
            Kind::Memory(ledger) => {
                ledger.spawn_worker(worker);
                Ok(open_ledger)
            }
            _ => open_ledger.start_thread(worker),
        }
    }

    fn clock(&self) -> Clock {
        match &self.0 {
            #[cfg(feature = "__simulation")]
            Kind::Memory(ledger) => ledger.clock(),
            _ => Clock::default(),
        }
    }

    /// Returns the ledger in a simulated database, as this process uses it.
    #[cfg(feature = "__simulation")]
    #[doc(hidden)]
    pub fn in_memory(database: &SimulatedDatabase, process: Arc<dyn Process>) -> Self {
        let database = database.clone();
        Self(Kind::Memory(SimulatedLedger { database, process }))
    }
}

/// Returns whether this file is a ledger. A file that this user may not read counts as a ledger if it has the extension
/// `.ledger`, because it may be another user's.
fn is_ledger(path: &Path) -> bool {
    let has_extension = path
        .extension()
        .is_some_and(|extension| extension == "ledger");
    let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    sqlite::is_ledger(path).unwrap_or_else(|error| has_extension && is_denied(error))
}

/// Returns whether this is the URL of a PostgreSQL database.
fn is_database_url(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| ["postgresql", "postgres"].contains(&&*scheme.to_ascii_lowercase()))
}

/// Returns whether this may be the URL of a database instead of a path: a URL with any scheme, or libpq's `host=… password=…`.
fn may_be_database_url(name: &str) -> bool {
    let is_parameter = |word: &str| {
        let name = word
            .split_once('=')
            .map(|(name, _)| name.to_ascii_lowercase());
        let names = [
            "host", "hostaddr", "port", "dbname", "user", "password", "service",
        ];
        name.is_some_and(|name| names.contains(&&*name))
    };
    // libpq allows spaces around an equals sign.
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
        if !is_database_url(name) {
            return match may_be_database_url(name) {
                true => Err(LedgerError::for_file(
                    HIDDEN_URL.as_ref(),
                    Cause::InvalidDatabaseUrl("it must begin with postgresql://"),
                )),
                false => Ok(Self::sqlite(name)),
            };
        }
        #[cfg(feature = "ledger-postgres")]
        return Self::postgres(name);
        #[cfg(not(feature = "ledger-postgres"))]
        Err(LedgerError::for_file(
            HIDDEN_URL.as_ref(),
            Cause::Unsupported(
                "this program was built without dealkit's feature ledger-postgres; enable that feature, or use a file",
            ),
        ))
    }
}

/// The path of the file, or the URL of the database without the user and the password.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location().fmt(f)
    }
}

fn collect_owned<K: AsRef<str>>(
    resolutions: impl IntoIterator<Item = (K, Option<AgentId>)>,
) -> Vec<(String, Option<AgentId>)> {
    let resolutions = resolutions.into_iter();
    resolutions
        .map(|(key, id)| (key.as_ref().to_owned(), id))
        .collect()
}
