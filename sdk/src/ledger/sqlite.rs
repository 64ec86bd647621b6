//! A ledger in an SQLite database, as specified in `sdk/contract/ledger.md`.
//!
//! Everything here may wait for the disk or for other jobs, so only threads that may do that call it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension as _, ToSql, Transaction,
    TransactionBehavior, ffi, params,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use sha2::{Digest as _, Sha256};

use super::{
    error::{Cause, HIDDEN_URL, LedgerError, Purpose},
    given_up::is_given_up,
    key_hash::KeyHash,
    owner::{self, Owner},
    state::{Job, Record, Row, State},
    store::{Changes, Copied, Header, Store, Table, Touched},
};

/// `deal` in ASCII.
const APPLICATION_ID: i64 = 0x6465_616c;
const VERSION: i64 = 1;

/// What happened to a file that is no longer what is found under its name.
const VANISHED: &str = "moved, deleted or replaced";

/// How long to wait for others, in milliseconds.
const PATIENCE: i32 = 30_000;

const SCHEMA: &str = "
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    salt BLOB NOT NULL,
    salt_check BLOB NOT NULL,
    service TEXT NOT NULL,
    keys TEXT,
    changes INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE TABLE creates (
    key BLOB PRIMARY KEY,
    state TEXT NOT NULL,
    agent_id TEXT,
    status INTEGER,
    request_id TEXT,
    job INTEGER,
    claimed_at INTEGER NOT NULL,
    noted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX creates_of_agent ON creates (agent_id) WHERE agent_id IS NOT NULL;
CREATE TABLE history (
    number INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    state TEXT NOT NULL,
    agent_id TEXT,
    status INTEGER,
    request_id TEXT,
    job INTEGER,
    claimed_at INTEGER NOT NULL,
    noted_at INTEGER NOT NULL
) STRICT;
CREATE INDEX history_of_key ON history (key, number);
";

/// The columns of a [`Record`], in both tables.
const RECORD: &str = "state, agent_id, status, request_id, job, claimed_at, noted_at";

/// An open ledger.
pub(super) struct Sqlite {
    connection: Connection,
    /// The path as it was given, for errors, and that of the file itself.
    path: PathBuf,
    file: PathBuf,
    identity: Identity,
    purpose: Purpose,
    header: Header,
    /// How many transactions there were, as far as is known here.
    changes: i64,
    is_verified: bool,
    _counted: Counted,
    /// The job, if it is one. Declared last: its lock outlives the connection.
    owner: Option<Owner>,
}

impl Sqlite {
    /// Opens a ledger to send rows, or creates one, for this service and this name of the keys, if they have one.
    pub(super) fn open_to_send(
        path: &Path,
        purpose: Purpose,
        service: &str,
        keys: Option<&str>,
    ) -> Result<Self, LedgerError> {
        let opened = || -> Result<Self, Cause> {
            let counted = Counted::new()?;
            let found = find(path)?;
            let is_new = found.is_none();
            let file = found.map_or_else(|| place_of_new(path), Ok)?;
            let owner = Owner::new(&file)?;
            if is_new {
                let header = Header::new(service, keys)?;
                create(&file, owner.number, &header, None)?;
            }
            // In case the job that created it was killed before it did this.
            sync_folder(&file)?;
            let mut this = Self::open_file(path, file, purpose, counted)?;
            this.owner = Some(owner);
            Ok(this)
        };
        opened().map_err(|cause| LedgerError::of_file(path, purpose, cause))
    }

    /// Creates a ledger with rows of another.
    pub(super) fn create_with(
        path: &Path,
        header: &Header,
        rows: Copied,
    ) -> Result<(), LedgerError> {
        let created = || -> Result<(), Cause> {
            let _counted = Counted::new()?;
            if find(path)?.is_some() {
                return Err(Cause::AlreadyThere);
            }
            let file = place_of_new(path)?;
            let owner = Owner::new(&file)?;
            create(&file, owner.number, header, Some(rows))?;
            Ok(sync_folder(&file)?)
        };
        created().map_err(|cause| LedgerError::of_file(path, Purpose::Note, cause))
    }

    /// Opens an existing ledger, to read it or to record something in it; `None` if there is none.
    pub(super) fn open(path: &Path, purpose: Purpose) -> Result<Option<Self>, LedgerError> {
        let opened = || -> Result<Option<Self>, Cause> {
            let counted = Counted::new()?;
            let open = |file| Self::open_file(path, file, purpose, counted);
            find(path)?.map(open).transpose()
        };
        opened().map_err(|cause| LedgerError::of_file(path, purpose, cause))
    }

    fn open_file(
        path: &Path,
        file: PathBuf,
        purpose: Purpose,
        counted: Counted,
    ) -> Result<Self, Cause> {
        // The file is never opened by other means than SQLite's: closing it would release SQLite's locks.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_handler(Some(|times| {
            thread::sleep(Duration::from_millis(1));
            times < PATIENCE && !is_given_up()
        }))?;
        let application: i64 = pragma(&connection, "application_id")?;
        if application != APPLICATION_ID {
            return Err(Cause::NotALedger("it is another SQLite database"));
        }
        let version: i64 = pragma(&connection, "user_version")?;
        if version != VERSION {
            return Err(Cause::NewerFormat(version));
        }
        for (name, value) in [
            ("cell_size_check", "ON"),
            ("trusted_schema", "OFF"),
            ("synchronous", "FULL"),
            ("fullfsync", "ON"),
        ] {
            connection.pragma_update(None, name, value)?;
        }
        if purpose != Purpose::Read {
            if connection.is_readonly("main")? {
                return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
            }
            // With a write-ahead log, SQLite would not notice that its file was moved or deleted.
            let mode: String =
                connection
                    .pragma_update_and_check(None, "journal_mode", "PERSIST", |row| row.get(0))?;
            if mode != "persist" {
                return Err(Cause::Broken(format!("its journal_mode is {mode}")));
            }
        }
        let pages: i64 = pragma(&connection, "page_count")?;
        let page_size: i64 = pragma(&connection, "page_size")?;
        let whole = pages.saturating_mul(page_size).cast_unsigned();
        if fs::metadata(&file)?.len() < whole {
            return Err(Cause::Broken("its end is missing".to_owned()));
        }
        let header = "SELECT salt, salt_check, service, keys, changes FROM ledger";
        let (salt, check, service, keys, changes): ([u8; 32], [u8; 16], _, _, _) =
            connection.query_row(header, [], |row| row.try_into())?;
        let identity = identity(&file)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            file,
            identity,
            purpose,
            header: Header::read(salt, check, service, keys)?,
            changes,
            is_verified: false,
            _counted: counted,
            owner: None,
        })
    }

    /// Does something in one transaction that writes, with the sum of all records; undoes it if that returns false.
    fn in_transaction(
        &mut self,
        work: impl FnOnce(&Connection, &Path, &mut i64) -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        // SQLite takes a file that counts as many changes for the one that it has in memory.
        self.connection.release_memory()?;
        // Unless it is committed, it is undone when it is dropped.
        let connection = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
        let header = "SELECT salt, changes, sum FROM ledger";
        let (salt, changes, mut sum): ([u8; 32], i64, i64) = connection
            .prepare_cached(header)?
            .query_row([], |row| row.try_into())?;
        if salt != self.header.salt {
            return Err(Cause::Moved("replaced"));
        }
        if changes < self.changes {
            return Err(Cause::Moved("replaced by an older copy of itself"));
        }
        self.changes = changes;
        if work(&connection, &self.file, &mut sum)? {
            let changes = changes.wrapping_add(1);
            connection
                .prepare_cached("UPDATE ledger SET changes = ?, sum = ?")?
                .execute([changes, sum])?;
            connection.commit()?;
            self.changes = changes;
        }
        Ok(())
    }
}

impl Store for Sqlite {
    fn header(&self) -> &Header {
        &self.header
    }

    fn job(&self) -> i64 {
        self.owner.as_ref().map_or(0, |owner| owner.number)
    }

    fn error(&self, mut cause: Cause) -> LedgerError {
        // Depending on what it was about to do, SQLite has other words for a file that is gone.
        let is_there = || identity(&self.file).is_ok_and(|found| found == self.identity);
        if matches!(cause, Cause::Io(_) | Cause::Broken(_)) && !is_there() {
            cause = Cause::Moved(VANISHED);
        }
        LedgerError::of_file(&self.path, self.purpose, cause)
    }

    fn verify(&mut self) -> Result<(), Cause> {
        if self.is_verified {
            return Ok(());
        }
        // One transaction, so that the sum belongs to the rows.
        let reading = self.connection.unchecked_transaction()?;
        let noted: i64 = reading.query_row("SELECT sum FROM ledger", [], |row| row.get(0))?;
        let mut sum = 0_i64;
        for table in [Table::Creates, Table::History] {
            for_each(&reading, &self.file, table, |key, record| {
                sum = sum.wrapping_add(digest(table, key, &record));
            })?;
        }
        if sum != noted {
            return Err(Cause::Broken("its rows were changed".to_owned()));
        }
        drop(reading);
        self.is_verified = true;
        Ok(())
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        Ok(!self
            .connection
            .prepare("SELECT 1 FROM creates")?
            .exists([])?)
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause> {
        let reading = self.connection.unchecked_transaction()?;
        let found = keys.iter().map(|key| Ok(get(&reading, &self.file, *key)?));
        found.collect()
    }

    fn rows_of_agents(&mut self, ids: &[&str]) -> Result<Vec<(KeyHash, String)>, Cause> {
        let sql = "SELECT key FROM creates WHERE agent_id = ?";
        let mut of_agent = self.connection.prepare_cached(sql)?;
        let mut found = Vec::new();
        for id in ids {
            let rows = of_agent.query_map([id], |row| row.get(0))?;
            for key in rows {
                found.push((KeyHash(key?), (*id).to_owned()));
            }
        }
        Ok(found)
    }

    fn for_each(
        &mut self,
        table: Table,
        take: &mut dyn FnMut(KeyHash, Record),
    ) -> Result<(), Cause> {
        Ok(for_each(&self.connection, &self.file, table, take)?)
    }

    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause> {
        self.in_transaction(|connection, file, sum| {
            let row = |key: &KeyHash| Ok((*key, row(connection, file, *key)?));
            let rows = touched.keys.iter().map(row);
            let mut rows = rows.collect::<Result<BTreeMap<_, _>, Cause>>()?;
            let stored: Vec<_> = rows.values().map(|row| row.current.clone()).collect();
            if !work(&mut rows)? {
                return Ok(false);
            }
            let before = *sum;
            for ((key, row), stored) in rows.into_iter().zip(stored) {
                save(connection, sum, key, stored, row)?;
            }
            Ok(*sum != before)
        })
    }

    fn rename(&mut self, service: &str, keys: Option<&str>) -> Result<(), Cause> {
        self.in_transaction(|connection, _, _| {
            let sql = "UPDATE ledger SET service = ?, keys = ?";
            connection.execute(sql, params![service, keys])?;
            Ok(true)
        })?;
        self.header.service = service.to_owned();
        self.header.keys = keys.map(str::to_owned);
        Ok(())
    }
}

/// What there is of a row, and was before.
fn row(connection: &Connection, file: &Path, key: KeyHash) -> Result<Row, rusqlite::Error> {
    let sql = format!("SELECT {RECORD}, number FROM history WHERE key = ? ORDER BY number");
    let mut history = connection.prepare_cached(&sql)?;
    let history = history.query_map([key], |row| Ok((row.get("number")?, record(row, file)?)))?;
    Ok(Row::new(
        get(connection, file, key)?,
        history.collect::<Result<_, _>>()?,
    ))
}

/// Writes what has changed of a row.
fn save(
    connection: &Connection,
    sum: &mut i64,
    key: KeyHash,
    stored: Option<Record>,
    row: Row,
) -> Result<(), rusqlite::Error> {
    for (number, record) in &row.forgotten {
        let forget = "DELETE FROM history WHERE number = ?";
        connection.prepare_cached(forget)?.execute([number])?;
        *sum = sum.wrapping_sub(digest(Table::History, key, record));
    }
    for (_, record) in row.history.iter().filter(|(number, _)| number.is_none()) {
        put(connection, sum, Table::History, key, record)?;
    }
    if row.current == stored {
        return Ok(());
    }
    if let Some(stored) = &stored {
        *sum = sum.wrapping_sub(digest(Table::Creates, key, stored));
    }
    if let Some(current) = &row.current {
        return put(connection, sum, Table::Creates, key, current);
    }
    let forget = "DELETE FROM creates WHERE key = ?";
    connection.prepare_cached(forget)?.execute([key])?;
    Ok(())
}

fn put(
    connection: &Connection,
    sum: &mut i64,
    table: Table,
    key: KeyHash,
    new: &Record,
) -> Result<(), rusqlite::Error> {
    let name = table.name();
    let sql =
        format!("INSERT OR REPLACE INTO {name} (key, {RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    connection.prepare_cached(&sql)?.execute(params![
        key,
        new.state.as_str(),
        new.agent_id,
        new.status,
        new.request_id,
        new.job.map(|job| job.number),
        new.claimed_at,
        new.noted_at
    ])?;
    *sum = sum.wrapping_add(digest(table, key, new));
    Ok(())
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        State::of_word(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for KeyHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// Reads the columns of [`RECORD`].
fn record(row: &rusqlite::Row<'_>, file: &Path) -> Result<Record, rusqlite::Error> {
    let job = |number| Job {
        number,
        is_alive: owner::is_alive(file, number),
    };
    Ok(Record {
        state: row.get(0)?,
        agent_id: row.get(1)?,
        status: row.get(2)?,
        request_id: row.get(3)?,
        job: row.get::<_, Option<i64>>(4)?.map(job),
        claimed_at: row.get(5)?,
        noted_at: row.get(6)?,
    })
}

fn get(
    connection: &Connection,
    file: &Path,
    key: KeyHash,
) -> Result<Option<Record>, rusqlite::Error> {
    let sql = format!("SELECT {RECORD} FROM creates WHERE key = ?");
    let mut found = connection.prepare_cached(&sql)?;
    found.query_row([key], |row| record(row, file)).optional()
}

fn for_each(
    connection: &Connection,
    file: &Path,
    table: Table,
    mut take: impl FnMut(KeyHash, Record),
) -> Result<(), rusqlite::Error> {
    let (name, order) = match table {
        Table::Creates => (table.name(), "key"),
        Table::History => (table.name(), "number"),
    };
    let mut rows = connection.prepare(&format!(
        "SELECT {RECORD}, key FROM {name} ORDER BY {order}"
    ))?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        if is_given_up() {
            let given_up = ffi::Error::new(ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(given_up, None));
        }
        take(KeyHash(row.get("key")?), record(row, file)?);
    }
    Ok(())
}

/// A number that changes with everything that is recorded of a row.
fn digest(table: Table, key: KeyHash, record: &Record) -> i64 {
    let mut hash = Sha256::new();
    hash.update(table.name());
    hash.update(key.0);
    let state = Some(record.state.as_str());
    for text in [
        state,
        record.agent_id.as_deref(),
        record.request_id.as_deref(),
    ] {
        hash.update([u8::from(text.is_some())]);
        let text = text.unwrap_or_default();
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.update(record.status.unwrap_or_default().to_be_bytes());
    for number in [
        record.job.map_or(0, |job| job.number),
        record.claimed_at,
        record.noted_at,
    ] {
        hash.update(number.to_be_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let [beginning, ..] = hash.as_chunks::<8>().0 else {
        return 0;
    };
    i64::from_be_bytes(*beginning)
}

fn pragma<T: FromSql>(connection: &Connection, name: &str) -> Result<T, rusqlite::Error> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// The file behind a path that is to be a ledger; `None` if nothing is there.
fn find(path: &Path) -> Result<Option<PathBuf>, Cause> {
    if path == Path::new(HIDDEN_URL) {
        return Err(Cause::NotALedger(
            "it is the URL of a database, for Ledger::postgres",
        ));
    }
    let is_link = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?.is_symlink(),
    };
    let file = match fs::canonicalize(path) {
        Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
            return Err(Cause::NotALedger("it is a link to a file that is missing"));
        }
        file => file?,
    };
    // Opening anything but a file, such as a pipe, may block for ever.
    let metadata = fs::metadata(&file)?;
    if !metadata.is_file() {
        return Err(Cause::NotALedger("it is not a regular file"));
    }
    // A new ledger appears as a whole, so an empty file never was one, or has lost everything.
    if metadata.len() == 0 {
        return Err(Cause::NotALedger("it is empty"));
    }
    Ok(Some(file))
}

/// What tells a file from another that takes its name.
type Identity = (u64, u64);

fn identity(file: &Path) -> io::Result<Identity> {
    let metadata = fs::metadata(file)?;
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.dev(), metadata.ino())
    };
    // While a file is open there, it can be neither moved nor replaced.
    #[cfg(not(unix))]
    let identity = (u64::from(metadata.is_file()), 0);
    Ok(identity)
}

/// The whole path of a file that is to be created.
fn place_of_new(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    Ok(fs::canonicalize(folder_of(path))?.join(name))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Creates a ledger, perhaps with rows. It appears under its name as a whole, unless somebody else was faster.
fn create(file: &Path, job: i64, header: &Header, rows: Option<Copied>) -> Result<(), Cause> {
    let unfinished = owner::unfinished_path(file, job);
    let has_rows = rows.is_some();
    let made = fill(&unfinished, header, rows).and_then(|()| {
        match fs::hard_link(&unfinished, file) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if has_rows {
                    Err(Cause::AlreadyThere)
                } else {
                    Ok(())
                }
            }
            // Some file systems have no hard links.
            Err(_) if !file.exists() => Ok(fs::rename(&unfinished, file)?),
            Err(error) => Err(error.into()),
        }
    });
    let _ = fs::remove_file(&unfinished);
    made
}

fn fill(unfinished: &Path, header: &Header, rows: Option<Copied>) -> Result<(), Cause> {
    drop(owner::open_new(unfinished)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(unfinished, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; BEGIN; \
         {SCHEMA}"
    ))?;
    let mut sum = 0;
    for (table, key, record) in rows.into_iter().flatten() {
        put(&connection, &mut sum, table, key, &record)?;
    }
    connection.execute(
        "INSERT INTO ledger VALUES (1, ?, ?, ?, ?, 0, ?)",
        params![
            &header.salt[..],
            &header.check()[..],
            header.service,
            header.keys,
            sum
        ],
    )?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(File::open(unfinished)?.sync_all()?)
}

/// Makes sure that the name of a new file reaches the disk.
fn sync_folder(file: &Path) -> io::Result<()> {
    // On other systems a folder cannot be opened as a file, and its entries are written with the file.
    #[cfg(unix)]
    File::open(folder_of(file))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Counts the open ledgers of this process. SQLite's state does not survive a fork: where a parent had a ledger open, a
/// child must not open any.
struct Counted;

static OPEN: AtomicUsize = AtomicUsize::new(0);
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

impl Counted {
    fn new() -> Result<Self, Cause> {
        let this_process = process::id();
        if OPEN.load(SeqCst) == 0 {
            OPENED_BY.store(this_process, SeqCst);
        } else if OPENED_BY.load(SeqCst) != this_process {
            return Err(Cause::Forked);
        }
        OPEN.fetch_add(1, SeqCst);
        Ok(Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if OPENED_BY.load(SeqCst) == process::id() {
            OPEN.fetch_sub(1, SeqCst);
        }
    }
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Self {
        let Some(sqlite) = error.sqlite_error() else {
            // A value of the wrong type.
            return Cause::Broken(error.to_string());
        };
        let io = |kind| Cause::Io(io::Error::new(kind, error.to_string()));
        match sqlite.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Cause::InUse,
            ErrorCode::NotADatabase => Cause::NotALedger("it is not an SQLite database"),
            ErrorCode::ReadOnly if sqlite.extended_code == ffi::SQLITE_READONLY_DBMOVED => {
                Cause::Moved(VANISHED)
            }
            ErrorCode::ReadOnly => io(io::ErrorKind::ReadOnlyFilesystem),
            ErrorCode::PermissionDenied => io(io::ErrorKind::PermissionDenied),
            ErrorCode::DiskFull => io(io::ErrorKind::StorageFull),
            ErrorCode::SystemIoFailure if sqlite.extended_code == ffi::SQLITE_IOERR_WRITE => {
                io(io::ErrorKind::FileTooLarge)
            }
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::OutOfMemory => {
                io(io::ErrorKind::Other)
            }
            _ => Cause::Broken(error.to_string()),
        }
    }
}
