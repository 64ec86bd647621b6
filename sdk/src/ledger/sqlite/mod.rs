//! Ledgers in SQLite databases, as specified in `sdk/contract/ledger.md`.
//!
//! Every function may block on the disk or on other jobs. Call them only on threads that may block.

mod file;
mod file_header;
mod rows;

pub(super) use self::file_header::is_ledger;

use std::{
    cell::RefCell,
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior,
    config::DbConfig,
    ffi, params,
    types::{FromSql, ToSqlOutput, ValueRef},
};

use self::{
    file::{
        LedgerFile, OpenCount, create_file, find_ledger, move_without_replacing, resolve_new_path,
        sync_folder,
    },
    rows::{ALL_PARTITIONS, Checksums, StoredRows},
};
use super::{
    cancellation::CancellationFlag,
    error::{Cause, LedgerLocation, MOVED_OR_REPLACED},
    job_lock::{self, FileIdentity, JobLock, LockFile, identify},
    key_hash::{KeyHash, ValueHash},
    lease::Liveness,
    lost_ledgers::OpenMark,
    row::RowEntry,
    store::{
        Header, HeaderChange, Rows, RowsChange, Store, TransactionScope, check_format, diff_entries,
    },
};

/// `deal` in ASCII.
const APPLICATION_ID: u32 = 0x6465_616c;

/// The longest wait for a lock of another program, in milliseconds.
const LOCK_WAIT_MS: i32 = 30_000;

/// The longest wait for a lock on a file that the user did not name, in milliseconds.
const SHORT_LOCK_WAIT_MS: i32 = 1_000;

thread_local! {
    /// The flag that cancels this thread's waits for locks. SQLite's callback for locks is a plain function, which cannot
    /// capture the flag.
    static CANCELLATION: RefCell<Option<CancellationFlag>> = const { RefCell::new(None) };
}

/// Waits a millisecond for a lock. Returns whether SQLite should try again: false after the limit, or once the job is
/// cancelled.
fn wait_for_lock<const LIMIT_MS: i32>(retry_count: i32) -> bool {
    thread::sleep(Duration::from_millis(1));
    let is_cancelled =
        CANCELLATION.with_borrow(|flag| flag.as_ref().is_some_and(CancellationFlag::is_cancelled));
    retry_count < LIMIT_MS && !is_cancelled
}

/// Guard that makes this thread's waits for locks cancellable, until the guard is dropped.
struct CancellableWaits;

impl CancellableWaits {
    fn new(flag: &CancellationFlag) -> Self {
        CANCELLATION.set(Some(flag.clone()));
        Self
    }
}

impl Drop for CancellableWaits {
    fn drop(&mut self) {
        CANCELLATION.set(None);
    }
}

pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    identity: FileIdentity,
    header: Header,
    /// The number of transactions that had changed the ledger when the number was last read.
    change_count: i64,
    /// The partitions whose checksums were verified.
    verified_partitions: HashSet<u8>,
    /// Declared after the connection, which must be closed first.
    _file: LedgerFile,
    _open_count: OpenCount,
    cancellation: CancellationFlag,
    /// The mark of the ledger, if a job has opened it.
    open_mark: Option<OpenMark>,
    /// The lock file of the job, if a job has opened the ledger. Declared last, because the lock must outlive the connection.
    job_lock: Option<JobLock>,
}

impl Sqlite {
    /// Opens the ledger of a job, or creates it for this service and this name of the keys.
    pub(super) fn open_to_send(
        path: &Path,
        service: &str,
        key_name: Option<&str>,
        cancellation: &CancellationFlag,
    ) -> Result<Self, Cause> {
        let _waits = CancellableWaits::new(cancellation);
        let open_count = OpenCount::new()?;
        let file = match find_ledger(path)? {
            Some(file) => file,
            None => create_file(path, &Header::new(service, key_name)?)?,
        };
        let path = file.path.clone();
        // A lock file without a ledger shows that the ledger was lost. Therefore, it is created after the ledger.
        let job_lock = JobLock::new(&path)?;
        // The job that created the file may have been killed before it synced the folder.
        sync_folder(&path)?;
        let mut this = Self::open_file(file, true, LOCK_WAIT_MS, open_count)?;
        this.open_mark = Some(OpenMark::new(LedgerLocation::File(path)));
        this.job_lock = Some(job_lock);
        this.cancellation = cancellation.clone();
        Ok(this)
    }

    /// Opens an existing ledger for a manual operation; `None` if it does not exist yet.
    pub(super) fn open(path: &Path, writes: bool, waits: bool) -> Result<Option<Self>, Cause> {
        let open_count = OpenCount::new()?;
        let lock_wait_ms = if waits {
            LOCK_WAIT_MS
        } else {
            SHORT_LOCK_WAIT_MS
        };
        let open = |file| Self::open_file(file, writes, lock_wait_ms, open_count);
        find_ledger(path)?.map(open).transpose()
    }

    fn open_file(
        file: LedgerFile,
        writes: bool,
        lock_wait_ms: i32,
        open_count: OpenCount,
    ) -> Result<Self, Cause> {
        let path = file.path.clone();
        // From here on, only SQLite opens the file: closing any other descriptor of it would release SQLite's locks.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_handler(Some(if lock_wait_ms == LOCK_WAIT_MS {
            wait_for_lock::<LOCK_WAIT_MS>
        } else {
            wait_for_lock::<SHORT_LOCK_WAIT_MS>
        }))?;
        // Without this setting, SQLite plans some prepared statements again at every execution.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let version: i64 = read_pragma(&connection, "user_version")?;
        check_format(version)?;
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
            // With a write-ahead log, SQLite does not notice that its file was moved or deleted.
            let mode: String =
                connection
                    .pragma_update_and_check(None, "journal_mode", "PERSIST", |row| row.get(0))?;
            if mode != "persist" {
                return Err(Cause::Broken(format!("its journal_mode is {mode}")));
            }
        }
        let pages: i64 = read_pragma(&connection, "page_count")?;
        let page_size: i64 = read_pragma(&connection, "page_size")?;
        let expected_size = pages.saturating_mul(page_size).cast_unsigned();
        if fs::metadata(&path)?.len() < expected_size {
            return Err(Cause::Broken("its end is missing".to_owned()));
        }
        let (header, change_count) = read_header(&connection)?;
        let identity = identify(&fs::metadata(&path)?);
        Ok(Self {
            connection,
            path,
            identity,
            header,
            change_count,
            verified_partitions: HashSet::new(),
            _file: file,
            _open_count: open_count,
            cancellation: CancellationFlag::default(),
            open_mark: None,
            job_lock: None,
        })
    }

    /// Calls a function that reads the ledger, in one transaction, so that all reads see the same snapshot.
    fn read_consistently<T>(
        &mut self,
        work: impl FnOnce(&StoredRows<'_>, &mut HashSet<u8>) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let _waits = CancellableWaits::new(&self.cancellation);
        let connection = self.connection.unchecked_transaction()?;
        let stored = StoredRows {
            connection: &connection,
            path: &self.path,
            cancellation: Some(&self.cancellation),
            checksums: read_checksums(&connection)?,
        };
        work(&stored, &mut self.verified_partitions)
    }

    /// Calls a function in one transaction that writes, and rolls back if the function returns false. If `is_optional` is true,
    /// the transaction may fail once the job is cancelled.
    fn in_transaction(
        &mut self,
        is_optional: bool,
        work: impl FnOnce(&mut StoredRows<'_>, &mut HashSet<u8>, &Header) -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        let _waits = is_optional.then(|| CancellableWaits::new(&self.cancellation));
        // SQLite trusts its page cache as long as the change counter in the file has not changed. A file that replaces it may
        // have an equal counter. Therefore, empty the cache.
        self.connection.release_memory()?;
        // Dropping the transaction rolls it back, unless it was committed.
        let connection = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
        let (header, change_count) = read_header(&connection)?;
        if header.salt != self.header.salt {
            return Err(Cause::Moved("replaced"));
        }
        if change_count < self.change_count {
            return Err(Cause::Moved("replaced by an older copy of itself"));
        }
        self.change_count = change_count;
        let mut stored = StoredRows {
            connection: &connection,
            path: &self.path,
            cancellation: is_optional.then_some(&self.cancellation),
            checksums: read_checksums(&connection)?,
        };
        if work(&mut stored, &mut self.verified_partitions, &header)? {
            let change_count = change_count.wrapping_add(1);
            connection
                .prepare_cached("UPDATE ledger SET changes = ?, sums = ?")?
                .execute(params![change_count, stored.checksums])?;
            connection.commit()?;
            self.change_count = change_count;
            // A second copy of SQLite in this process does not see the locks of this copy, and may have rolled back the
            // transaction.
            let stored_changes = read_header(&self.connection)?.1;
            if stored_changes < change_count {
                return Err(Cause::Broken(
                    "another copy of SQLite in this process has rolled back a transaction"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Copies a snapshot of the ledger to a file that does not exist yet.
    pub(super) fn backup(&self, to: &Path) -> Result<(), Cause> {
        let to = resolve_new_path(to)?;
        let unfinished = job_lock::make_unfinished_path(&to)?;
        drop(job_lock::create_private_file(&unfinished)?);
        // A path need not be valid UTF-8.
        let path = ValueRef::Text(unfinished.as_os_str().as_encoded_bytes());
        let copy_result = self
            .connection
            .execute("VACUUM INTO ?", [ToSqlOutput::Borrowed(path)])
            .map_err(Cause::from)
            .and_then(|_| {
                fs::File::open(&unfinished)?.sync_all()?;
                move_without_replacing(&unfinished, &to)?;
                Ok(sync_folder(&to)?)
            });
        let _ = fs::remove_file(&unfinished);
        copy_result
    }
}

impl Store for Sqlite {
    fn header(&self) -> &Header {
        &self.header
    }

    fn job(&self) -> i64 {
        self.job_lock.as_ref().map_or(0, |job_lock| job_lock.number)
    }

    fn liveness(&self) -> Liveness {
        Liveness::Lock(
            self.job_lock
                .as_ref()
                .map(|job_lock| job_lock.lock_file().clone()),
        )
    }

    fn refine_cause(&self, cause: Cause) -> Cause {
        // SQLite reports a missing or replaced file as various other errors.
        let is_same_file =
            || fs::metadata(&self.path).is_ok_and(|found| identify(&found) == self.identity);
        let cause = match cause {
            Cause::Io(_) | Cause::Broken(_) | Cause::LockDeleted if !is_same_file() => {
                Cause::Moved(MOVED_OR_REPLACED)
            }
            cause => cause,
        };
        if let (Cause::Moved(_), Some(open_mark)) = (&cause, &self.open_mark) {
            open_mark.mark_lost();
        }
        cause
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        self.read_consistently(|stored, _| Ok(stored.is_empty()?))
    }

    fn read(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<RowEntry>>, Cause> {
        // A manual look-up only reads the rows of its keys. A job also verifies the partitions of its keys, because it sends
        // the rows that are missing.
        let is_job = self.job_lock.is_some();
        self.read_consistently(|stored, verified_partitions| {
            if is_job {
                stored.verify_partitions(keys, verified_partitions)?;
            }
            let current = |key: &KeyHash| Ok(stored.read_row(*key)?.0.pop());
            keys.iter().map(current).collect()
        })
    }

    fn read_emails(&mut self, emails: &[ValueHash]) -> Result<Vec<Vec<RowEntry>>, Cause> {
        self.read_consistently(|stored, _| {
            let keys = "SELECT DISTINCT key FROM creates WHERE email = ?";
            let mut keys = stored.connection.prepare_cached(keys)?;
            let read_entries = |email: &ValueHash| {
                let mut entries = Vec::new();
                for key in keys.query_map([email], |row| row.get(0))? {
                    entries.extend(stored.read_row(KeyHash(key?))?.0.pop());
                }
                Ok(entries)
            };
            emails.iter().map(read_entries).collect()
        })
    }

    fn for_each_row(&mut self, visit: &mut dyn FnMut(RowEntry)) -> Result<(), Cause> {
        self.read_consistently(|stored, _| stored.for_each_row(ALL_PARTITIONS, visit))
    }

    fn change_rows(&mut self, scope: &TransactionScope, work: RowsChange<'_>) -> Result<(), Cause> {
        let lock_file = self
            .job_lock
            .as_ref()
            .map(|job_lock| job_lock.lock_file().clone());
        self.in_transaction(
            scope.has_only_claims(),
            |stored, verified_partitions, header| {
                let is_alive = lock_file.as_ref().is_none_or(LockFile::exists);
                if !scope.claims.is_empty() && !is_alive {
                    return Err(Cause::LockDeleted);
                }
                stored.verify_partitions(&scope.keys, verified_partitions)?;
                let row = |key: &KeyHash| Ok((*key, stored.read_row(*key)?));
                let stored_rows = scope.keys.iter().map(row);
                let stored_rows = stored_rows.collect::<Result<Rows, Cause>>()?;
                let mut rows = stored_rows.clone();
                if !work(header, &mut rows, &mut stored.read_owners(&scope.agents)?)? {
                    return Ok(false);
                }
                let mut has_changed = false;
                for change in diff_entries(&stored_rows, &rows) {
                    stored.write_entry(&change)?;
                    has_changed = true;
                }
                Ok(has_changed)
            },
        )
    }

    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause> {
        let mut new_header = self.header.clone();
        self.in_transaction(false, |stored, _, header| {
            new_header = header.clone();
            let Some(new) = work(header, stored.is_empty()?)? else {
                return Ok(false);
            };
            let sql = "UPDATE ledger SET service = ?, keys = ?, header_check = ?";
            let values = params![new.service, new.key_name, new.compute_check()];
            stored.connection.execute(sql, values)?;
            new_header = new;
            Ok(true)
        })?;
        self.header = new_header;
        Ok(())
    }
}

/// Reads the header, and the number of transactions that have changed the ledger.
fn read_header(connection: &Connection) -> Result<(Header, i64), Cause> {
    let sql = "SELECT salt, header_check, service, keys, changes FROM ledger";
    let mut header = connection.prepare_cached(sql)?;
    let (salt, check, service, keys, change_count): ([u8; 32], [u8; 16], _, _, _) =
        header.query_row([], |row| row.try_into())?;
    Ok((
        Header::from_columns(salt, check, service, keys)?,
        change_count,
    ))
}

fn read_checksums(connection: &Connection) -> Result<Checksums, rusqlite::Error> {
    let mut sums = connection.prepare_cached("SELECT sums FROM ledger")?;
    sums.query_row([], |row| row.get(0))
}

fn read_pragma<T: FromSql>(connection: &Connection, name: &str) -> Result<T, rusqlite::Error> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Self {
        let Some(sqlite) = error.sqlite_error() else {
            // A column has a value of the wrong type.
            return Cause::Broken(error.to_string());
        };
        let io = |kind| Cause::Io(io::Error::new(kind, error.to_string()));
        match sqlite.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Cause::InUse,
            ErrorCode::NotADatabase => Cause::NotALedger("it is not an SQLite database"),
            ErrorCode::ReadOnly if sqlite.extended_code == ffi::SQLITE_READONLY_DBMOVED => {
                Cause::Moved(MOVED_OR_REPLACED)
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
