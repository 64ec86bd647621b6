//! A ledger in an SQLite database, as specified in `sdk/contract/ledger.md`.
//!
//! Everything here may wait for the disk or for other jobs, so only threads that may do that call it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension as _, Row, ToSql, Transaction,
    TransactionBehavior, ffi, params,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use sha2::{Digest as _, Sha256};

use super::{
    error::{Cause, LedgerError, Purpose},
    key_hash::{Hasher, KeyHash},
    owner::{self, Owner},
    state::{Record, Recorded, State},
};
use crate::http::base_url;

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
    hasher: Hasher,
    salt: [u8; 32],
    pub(super) service: String,
    pub(super) keys: Option<String>,
    /// How many transactions there were, as far as is known here.
    changes: i64,
    _counted: Counted,
    /// The job, if it is one. Declared last: its lock outlives the connection.
    owner: Option<Owner>,
}

/// Something that a job writes.
pub(super) enum Write {
    /// A row is about to be sent, even if it is in doubt.
    Claim { key: KeyHash, resends_unknown: bool },
    /// What became of a row; `None` if no part of it reached the service.
    Note { key: KeyHash, noted: Option<Record> },
}

impl Sqlite {
    /// Opens the ledger of a job, or creates one, for this service and this name of the keys, if they have one.
    pub(super) fn open_for_job(
        path: &Path,
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
                create(&file, owner.number, service, keys)?;
            }
            // In case the job that created it was killed before it did this.
            sync_folder(&file)?;
            let mut this = Self::open_file(path, file, Purpose::Job, counted)?;
            this.owner = Some(owner);
            Ok(this)
        };
        let mut this = opened().map_err(|cause| LedgerError::new(path, Purpose::Job, cause))?;
        if !base_url::is_same(&this.service, service) {
            return Err(this.error(Cause::OtherService {
                theirs: this.service.clone(),
                ours: service.to_owned(),
            }));
        }
        this.refuse_other_keys(keys)?;
        if let Some(name) = keys.filter(|_| this.keys.as_deref() != keys) {
            this.in_transaction(true, |edit| edit.set("keys", name))?;
            this.keys = Some(name.to_owned());
        }
        Ok(this)
    }

    /// Opens an existing ledger, to read it or to record something in it; `None` if there is none.
    pub(super) fn open(path: &Path, purpose: Purpose) -> Result<Option<Self>, LedgerError> {
        let opened = || -> Result<Option<Self>, Cause> {
            let counted = Counted::new()?;
            let open = |file| Self::open_file(path, file, purpose, counted);
            find(path)?.map(open).transpose()
        };
        opened().map_err(|cause| LedgerError::new(path, purpose, cause))
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
            times < PATIENCE
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
        let hasher = Hasher::new(&salt);
        if hasher.check() != check {
            return Err(Cause::Broken("its salt was changed".to_owned()));
        }
        Ok(Self {
            connection,
            path: path.to_owned(),
            file,
            identity,
            purpose,
            hasher,
            salt,
            service,
            keys,
            changes,
            _counted: counted,
            owner: None,
        })
    }

    pub(super) fn error(&self, cause: impl Into<Cause>) -> LedgerError {
        let mut cause = cause.into();
        // Depending on what it was about to do, SQLite has other words for a file that is gone.
        let is_there = || identity(&self.file).is_ok_and(|found| found == self.identity);
        if matches!(cause, Cause::Io(_) | Cause::Broken(_)) && !is_there() {
            cause = Cause::Moved(VANISHED);
        }
        LedgerError::new(&self.path, self.purpose, cause)
    }

    /// Refuses keys with another name than those of the ledger: it would recognise nobody by them, so that everybody
    /// would be created again. A ledger without rows has nobody to recognise, and accepts any name.
    pub(super) fn refuse_other_keys(&self, keys: Option<&str>) -> Result<(), LedgerError> {
        let (Some(theirs), Some(ours)) = (self.keys.as_deref(), keys) else {
            return Ok(());
        };
        if theirs == ours {
            return Ok(());
        }
        let has_rows = self.connection.prepare("SELECT 1 FROM creates");
        let has_rows = has_rows.and_then(|mut rows| rows.exists([]));
        if !has_rows.map_err(|error| self.error(error))? {
            return Ok(());
        }
        Err(self.error(Cause::OtherKeys {
            theirs: theirs.to_owned(),
            ours: ours.to_owned(),
        }))
    }

    /// Checks that no row was changed by anything but dealkit, and none lost. Reads the whole ledger.
    pub(super) fn verify(&self) -> Result<(), LedgerError> {
        let verified = || -> Result<(), Cause> {
            // One transaction, so that the sum belongs to the rows.
            let reading = self.connection.unchecked_transaction()?;
            let noted: i64 = reading.query_row("SELECT sum FROM ledger", [], |row| row.get(0))?;
            let mut sum = 0_i64;
            for table in [Table::Creates, Table::History] {
                for_each(&reading, table, |key, record| {
                    sum = sum.wrapping_add(digest(table, key, &record));
                })?;
            }
            if sum == noted {
                Ok(())
            } else {
                Err(Cause::Broken("its rows were changed".to_owned()))
            }
        };
        verified().map_err(|cause| self.error(cause))
    }

    pub(super) fn hash(&self, key: &str) -> KeyHash {
        self.hasher.hash(key)
    }

    /// What is reported for each of these rows instead of sending it; `None` for a row that may be sent.
    pub(super) fn look_up(
        &self,
        keys: impl IntoIterator<Item = KeyHash>,
    ) -> Result<Vec<Option<Recorded>>, LedgerError> {
        let found = || -> Result<Vec<_>, rusqlite::Error> {
            let reading = self.connection.unchecked_transaction()?;
            let found = keys.into_iter().map(|key| get(&reading, key));
            let recorded = |row: Record| row.recorded(|job| self.is_alive(job));
            found.map(|row| Ok(row?.and_then(recorded))).collect()
        };
        found().map_err(|error| self.error(error))
    }

    /// Writes all of this in one transaction, which is on disk when this returns. For a claim that is refused, because
    /// another job was faster, the answer is what that job has recorded.
    pub(super) fn write<'a>(
        &mut self,
        writes: impl Iterator<Item = &'a Write>,
    ) -> Result<Vec<Option<Recorded>>, LedgerError> {
        let job = self.owner.as_ref().map_or(0, |owner| owner.number);
        self.in_transaction(true, |edit| {
            let answers = writes.map(|write| match write {
                Write::Claim {
                    key,
                    resends_unknown,
                } => edit.claim(*key, job, *resends_unknown),
                Write::Note { key, noted } => edit.note(*key, job, noted.clone()).map(|()| None),
            });
            answers.collect()
        })
    }

    /// Does something in one transaction, and then undoes it if it is not meant to last.
    pub(super) fn in_transaction<T>(
        &mut self,
        is_to_last: bool,
        work: impl FnOnce(&mut Edit<'_>) -> Result<T, Cause>,
    ) -> Result<T, LedgerError> {
        let done = || -> Result<T, Cause> {
            // SQLite takes a file that counts as many changes for the one that it has in memory.
            self.connection.release_memory()?;
            // Unless it is committed, it is undone when it is dropped.
            let connection =
                Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
            let header = "SELECT salt, changes, sum FROM ledger";
            let (salt, changes, sum): ([u8; 32], i64, i64) = connection
                .prepare_cached(header)?
                .query_row([], |row| row.try_into())?;
            if salt != self.salt {
                return Err(Cause::Moved("replaced"));
            }
            if changes < self.changes {
                return Err(Cause::Moved("replaced by an older copy of itself"));
            }
            self.changes = changes;
            let mut edit = Edit {
                connection: &connection,
                file: &self.file,
                now: now(),
                sum,
                has_changed: false,
            };
            let value = work(&mut edit)?;
            if is_to_last && edit.has_changed {
                let changes = changes.wrapping_add(1);
                connection
                    .prepare_cached("UPDATE ledger SET changes = ?, sum = ?")?
                    .execute([changes, edit.sum])?;
                connection.commit()?;
                self.changes = changes;
            }
            Ok(value)
        };
        done().map_err(|cause| self.error(cause))
    }

    /// Calls a function with each row.
    pub(super) fn for_each(&self, take: impl FnMut(KeyHash, Record)) -> Result<(), LedgerError> {
        for_each(&self.connection, Table::Creates, take).map_err(|error| self.error(error))
    }

    pub(super) fn is_alive(&self, job: i64) -> bool {
        owner::is_alive(&self.file, job)
    }
}

/// A transaction that writes.
pub(super) struct Edit<'a> {
    connection: &'a Connection,
    file: &'a Path,
    now: i64,
    /// The sum of all records, which shows whether anything else has changed one.
    sum: i64,
    has_changed: bool,
}

impl Edit<'_> {
    pub(super) fn is_alive(&self, job: i64) -> bool {
        owner::is_alive(self.file, job)
    }

    pub(super) fn get(&self, key: KeyHash) -> Result<Option<Record>, Cause> {
        Ok(get(self.connection, key)?)
    }

    /// Sets a column of the ledger itself.
    pub(super) fn set(&mut self, column: &str, value: &str) -> Result<(), Cause> {
        self.has_changed = true;
        let sql = format!("UPDATE ledger SET {column} = ?");
        self.connection.execute(&sql, [value])?;
        Ok(())
    }

    /// Claims a row for a job, or returns why it is not to be sent.
    fn claim(
        &mut self,
        key: KeyHash,
        job: i64,
        resends_unknown: bool,
    ) -> Result<Option<Recorded>, Cause> {
        let old = self.get(key)?;
        let recorded = old.as_ref();
        let recorded = recorded.and_then(|old| old.recorded(|job| self.is_alive(job)));
        let is_free = |recorded: &Recorded| resends_unknown && recorded.is_in_doubt();
        if let Some(recorded) = recorded.filter(|recorded| !is_free(recorded)) {
            return Ok(Some(recorded));
        }
        let claimed = Record {
            job: Some(job),
            claimed_at: self.now,
            noted_at: self.now,
            ..Record::new(State::Sending)
        };
        self.replace(key, old, &claimed)?;
        Ok(None)
    }

    /// Notes what became of a row that this job has claimed.
    fn note(&mut self, key: KeyHash, job: i64, noted: Option<Record>) -> Result<(), Cause> {
        let old = self.get(key)?;
        let noted = noted.map(|noted| Record {
            claimed_at: old.as_ref().map_or(self.now, |old| old.claimed_at),
            noted_at: self.now,
            ..noted
        });
        let Some(claimed) = old.as_ref().filter(|old| old.job == Some(job)) else {
            // Somebody has changed it meanwhile, and what the job knows is the latest; or the claim was refused, or given
            // up before it was written.
            return noted.map_or(Ok(()), |noted| self.replace(key, old, &noted));
        };
        let before = self.newest_in_history(key, "")?;
        let overrules = |noted: &Record| {
            let before = before.as_ref();
            before.is_none_or(|(_, before)| before.overruled_by(noted))
        };
        if let Some(noted) = noted.filter(overrules) {
            return self.put(Table::Creates, key, Some(claimed), &noted);
        }
        // As if it had not been claimed.
        if let Some((number, before)) = before {
            self.put(Table::Creates, key, Some(claimed), &before)?;
            self.count(Table::History, key, Some(&before), None);
            let forget = "DELETE FROM history WHERE number = ?";
            self.connection.prepare_cached(forget)?.execute([number])?;
        } else {
            self.count(Table::Creates, key, Some(claimed), None);
            let forget = "DELETE FROM creates WHERE key = ?";
            self.connection.prepare_cached(forget)?.execute([key])?;
        }
        Ok(())
    }

    /// Records that somebody has found a row's agent, or that there is none.
    pub(super) fn settle(
        &mut self,
        key: KeyHash,
        old: Record,
        agent_id: Option<&str>,
    ) -> Result<(), Cause> {
        let settled = Record {
            agent_id: agent_id.map(str::to_owned),
            claimed_at: old.claimed_at,
            noted_at: self.now,
            ..Record::new(State::Settled)
        };
        self.replace(key, Some(old), &settled)
    }

    /// Makes a row again what it was before anybody settled it; returns whether that was anything.
    pub(super) fn unsettle(&mut self, key: KeyHash, old: Record) -> Result<bool, Cause> {
        match self.newest_in_history(key, "AND state <> 'settled'")? {
            Some((_, before)) => self.replace(key, Some(old), &before).map(|()| true),
            None => Ok(false),
        }
    }

    /// Replaces a row, and keeps the old one in the history.
    fn replace(&mut self, key: KeyHash, old: Option<Record>, new: &Record) -> Result<(), Cause> {
        if let Some(old) = &old {
            self.put(Table::History, key, None, old)?;
        }
        self.put(Table::Creates, key, old.as_ref(), new)
    }

    fn put(
        &mut self,
        table: Table,
        key: KeyHash,
        old: Option<&Record>,
        new: &Record,
    ) -> Result<(), Cause> {
        let name = table.name();
        let sql = format!(
            "INSERT OR REPLACE INTO {name} (key, {RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        );
        self.connection.prepare_cached(&sql)?.execute(params![
            key,
            new.state.as_str(),
            new.agent_id,
            new.status,
            new.request_id,
            new.job,
            new.claimed_at,
            new.noted_at
        ])?;
        self.count(table, key, old, Some(new));
        Ok(())
    }

    /// What a row was before it became what it is, and the number of that in the history.
    fn newest_in_history(
        &self,
        key: KeyHash,
        and: &str,
    ) -> Result<Option<(i64, Record)>, rusqlite::Error> {
        let sql = format!(
            "SELECT {RECORD}, number FROM history WHERE key = ? {and} ORDER BY number DESC LIMIT 1"
        );
        let mut found = self.connection.prepare_cached(&sql)?;
        let found = found.query_row([key], |row| Ok((row.get("number")?, record(row)?)));
        found.optional()
    }

    /// Keeps the sum.
    fn count(&mut self, table: Table, key: KeyHash, old: Option<&Record>, new: Option<&Record>) {
        let digest = |record| digest(table, key, record);
        self.has_changed = true;
        self.sum = self
            .sum
            .wrapping_sub(old.map_or(0, digest))
            .wrapping_add(new.map_or(0, digest));
    }
}

#[derive(Clone, Copy)]
enum Table {
    Creates,
    History,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Creates => "creates",
            Table::History => "history",
        }
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word = value.as_str()?;
        let state = State::ALL.into_iter().find(|state| state.as_str() == word);
        state.ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for KeyHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// Reads the columns of [`RECORD`].
fn record(row: &Row<'_>) -> Result<Record, rusqlite::Error> {
    Ok(Record {
        state: row.get(0)?,
        agent_id: row.get(1)?,
        status: row.get(2)?,
        request_id: row.get(3)?,
        job: row.get(4)?,
        claimed_at: row.get(5)?,
        noted_at: row.get(6)?,
    })
}

fn get(connection: &Connection, key: KeyHash) -> Result<Option<Record>, rusqlite::Error> {
    let sql = format!("SELECT {RECORD} FROM creates WHERE key = ?");
    let mut found = connection.prepare_cached(&sql)?;
    found.query_row([key], record).optional()
}

fn for_each(
    connection: &Connection,
    table: Table,
    mut take: impl FnMut(KeyHash, Record),
) -> Result<(), rusqlite::Error> {
    let name = table.name();
    let mut rows = connection.prepare(&format!("SELECT {RECORD}, key FROM {name}"))?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        take(KeyHash(row.get("key")?), record(row)?);
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
        record.job.unwrap_or_default(),
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

/// Creates a ledger. It appears under its name as a whole, unless somebody else was faster.
fn create(file: &Path, job: i64, service: &str, keys: Option<&str>) -> Result<(), Cause> {
    let unfinished = owner::unfinished_path(file, job);
    let made = fill(&unfinished, service, keys).and_then(|()| {
        match fs::hard_link(&unfinished, file) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Some file systems have no hard links.
            Err(_) if !file.exists() => Ok(fs::rename(&unfinished, file)?),
            Err(error) => Err(error.into()),
        }
    });
    let _ = fs::remove_file(&unfinished);
    made
}

fn fill(unfinished: &Path, service: &str, keys: Option<&str>) -> Result<(), Cause> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    drop(owner::open_new(unfinished)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(unfinished, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; BEGIN; \
         {SCHEMA}"
    ))?;
    connection.execute(
        "INSERT INTO ledger VALUES (1, ?, ?, ?, ?, 0, 0)",
        params![&salt[..], &Hasher::new(&salt).check()[..], service, keys],
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

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
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

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Cause::Io(error)
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
