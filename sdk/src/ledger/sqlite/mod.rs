//! A ledger in an SQLite database, as specified in `sdk/contract/ledger.md`.
//!
//! Everything here may wait for the disk or for other jobs, so only threads that may do that call it.

mod file;
mod rows;

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, config::DbConfig, ffi,
    params, types::FromSql,
};

use self::{
    file::{Counted, Identity, create, find, identity, place_of_new, sync_folder},
    rows::{ALL, Stored, Sums},
};
use super::{
    error::Cause,
    given_up::is_given_up,
    key_hash::KeyHash,
    owner::Owner,
    state::Record,
    store::{Changes, Header, Rows, Store, Touched, changed},
};

/// `deal` in ASCII.
const APPLICATION_ID: i64 = 0x6465_616c;
const VERSION: i64 = 1;

/// What happened to a file that is no longer what is found under its name.
const VANISHED: &str = "moved, deleted or replaced";

/// How long to wait for others, in milliseconds.
const PATIENCE: i32 = 30_000;

pub(super) struct Sqlite {
    connection: Connection,
    file: PathBuf,
    identity: Identity,
    header: Header,
    /// How many transactions there were, as far as is known here.
    changes: i64,
    /// The parts of its rows that were found as dealkit has left them.
    verified: HashSet<u8>,
    _counted: Counted,
    /// The job, if it is one. Declared last: its lock outlives the connection.
    owner: Option<Owner>,
}

impl Sqlite {
    /// Opens a ledger to send rows, or creates one, for this service and this name of the keys, if they have one.
    pub(super) fn open_to_send(
        path: &Path,
        service: &str,
        keys: Option<&str>,
    ) -> Result<Self, Cause> {
        let counted = Counted::new()?;
        let found = find(path)?;
        let is_new = found.is_none();
        let file = found.map_or_else(|| place_of_new(path), Ok)?;
        let owner = Owner::new(&file)?;
        if is_new {
            create(&file, owner.number, &Header::new(service, keys)?)?;
        }
        // In case the job that created it was killed before it did this.
        sync_folder(&file)?;
        let mut this = Self::open_file(file, true, counted)?;
        this.owner = Some(owner);
        Ok(this)
    }

    /// Opens an existing ledger, to read it or to record something in it; `None` if there is none.
    pub(super) fn open(path: &Path, writes: bool) -> Result<Option<Self>, Cause> {
        let counted = Counted::new()?;
        let open = |file| Self::open_file(file, writes, counted);
        find(path)?.map(open).transpose()
    }

    fn open_file(file: PathBuf, writes: bool, counted: Counted) -> Result<Self, Cause> {
        // The file is never opened by other means than SQLite's: closing it would release SQLite's locks.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_handler(Some(|times| {
            thread::sleep(Duration::from_millis(1));
            times < PATIENCE && !is_given_up()
        }))?;
        // Without this, SQLite plans some of the statements anew whenever they are executed.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
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
        if writes {
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
            file,
            identity,
            header: Header::read(salt, check, service, keys)?,
            changes,
            verified: HashSet::new(),
            _counted: counted,
            owner: None,
        })
    }

    /// Reads everything at the same time.
    fn reading<T>(
        &mut self,
        work: impl FnOnce(&Stored<'_>, &mut HashSet<u8>) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let connection = self.connection.unchecked_transaction()?;
        let mut sums = connection.prepare_cached("SELECT sums FROM ledger")?;
        let stored = Stored {
            connection: &connection,
            file: &self.file,
            sums: sums.query_row([], |row| row.get(0))?,
        };
        work(&stored, &mut self.verified)
    }

    /// Does something in one transaction that writes; undoes it if that returns false.
    fn in_transaction(
        &mut self,
        work: impl FnOnce(&mut Stored<'_>, &mut HashSet<u8>) -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        // SQLite takes a file that counts as many changes for the one that it has in memory.
        self.connection.release_memory()?;
        // Unless it is committed, it is undone when it is dropped.
        let connection = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
        let header = "SELECT salt, changes, sums FROM ledger";
        let (salt, changes, sums): ([u8; 32], i64, Sums) = connection
            .prepare_cached(header)?
            .query_row([], |row| row.try_into())?;
        if salt != self.header.salt {
            return Err(Cause::Moved("replaced"));
        }
        if changes < self.changes {
            return Err(Cause::Moved("replaced by an older copy of itself"));
        }
        self.changes = changes;
        let mut stored = Stored {
            connection: &connection,
            file: &self.file,
            sums,
        };
        if work(&mut stored, &mut self.verified)? {
            let changes = changes.wrapping_add(1);
            connection
                .prepare_cached("UPDATE ledger SET changes = ?, sums = ?")?
                .execute(params![changes, stored.sums])?;
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

    fn explain(&self, cause: Cause) -> Cause {
        // Depending on what it was about to do, SQLite has other words for a file that is gone.
        let is_there = || identity(&self.file).is_ok_and(|found| found == self.identity);
        match cause {
            Cause::Io(_) | Cause::Broken(_) if !is_there() => Cause::Moved(VANISHED),
            cause => cause,
        }
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        Ok(!self
            .connection
            .prepare("SELECT 1 FROM creates")?
            .exists([])?)
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<Record>>, Cause> {
        // Whoever only looks reads no more than that.
        let is_job = self.owner.is_some();
        self.reading(|stored, verified| {
            if is_job {
                stored.verify(keys, verified)?;
            }
            let current = |key: &KeyHash| Ok(stored.row(*key)?.0.pop());
            keys.iter().map(current).collect()
        })
    }

    fn rows_of_agents(&mut self, ids: &[&str]) -> Result<Vec<(KeyHash, String)>, Cause> {
        let sql = "SELECT key FROM creates AS it WHERE agent_id = ?
            AND entry = (SELECT max(entry) FROM creates WHERE key = it.key)";
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

    fn for_each(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Cause> {
        self.reading(|stored, _| stored.for_each(ALL, take))
    }

    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause> {
        self.in_transaction(|stored, verified| {
            stored.verify(&touched.keys, verified)?;
            let row = |key: &KeyHash| Ok((*key, stored.row(*key)?));
            let before = touched.keys.iter().map(row);
            let before = before.collect::<Result<Rows, Cause>>()?;
            let mut rows = before.clone();
            if !work(&mut rows)? {
                return Ok(false);
            }
            let mut has_changed = false;
            for changed in changed(&before, &rows) {
                stored.write(&changed)?;
                has_changed = true;
            }
            Ok(has_changed)
        })
    }

    fn rename(&mut self, service: &str, keys: Option<&str>) -> Result<(), Cause> {
        self.in_transaction(|stored, _| {
            let sql = "UPDATE ledger SET service = ?, keys = ?";
            stored.connection.execute(sql, params![service, keys])?;
            Ok(true)
        })?;
        self.header.service = service.to_owned();
        self.header.keys = keys.map(str::to_owned);
        Ok(())
    }
}

fn pragma<T: FromSql>(connection: &Connection, name: &str) -> Result<T, rusqlite::Error> {
    connection.pragma_query_value(None, name, |row| row.get(0))
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
