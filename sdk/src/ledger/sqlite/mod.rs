//! A ledger in an SQLite database, as specified in `sdk/contract/ledger.md`.
//!
//! Everything here may wait for the disk or for other jobs, so only threads that may do that call it.

mod file;
mod header;
mod rows;

pub(super) use self::header::is_ledger;

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
    file::{Counted, Found, create, find, move_new, place_of_new, sync_folder},
    rows::{ALL, Stored, Sums},
};
use super::{
    cancellation::CancellationFlag,
    error::Cause,
    key_hash::{Digest, KeyHash},
    lease::Liveness,
    owner::{self, Identity, LockFile, Owner, identity},
    state::Record,
    store::{Changes, Header, HeaderChange, Rows, Store, Touched, changed, check_format},
};

/// `deal` in ASCII.
const APPLICATION_ID: u32 = 0x6465_616c;

/// What happened to a file that is no longer what is found under its name.
const VANISHED: &str = "moved, deleted or replaced";

/// How long to wait for others, in milliseconds.
const PATIENCE: i32 = 30_000;

/// The longest wait for other programs to finish with a file that the user did not name, in milliseconds.
const A_MOMENT: i32 = 1_000;

thread_local! {
    /// The flag of the job that this thread is waiting for: SQLite calls a plain function when it finds a lock.
    static WAITING: RefCell<Option<CancellationFlag>> = const { RefCell::new(None) };
}

/// Waits for others for as long as `PATIENCE` or `A_MOMENT` says, or until the job is cancelled.
fn wait<const PATIENCE: i32>(times: i32) -> bool {
    thread::sleep(Duration::from_millis(1));
    let is_cancelled =
        WAITING.with_borrow(|flag| flag.as_ref().is_some_and(CancellationFlag::is_cancelled));
    times < PATIENCE && !is_cancelled
}

/// Waits no longer for locks once the job is cancelled, until this is dropped.
struct CancellableWaits;

impl CancellableWaits {
    fn new(flag: &CancellationFlag) -> Self {
        WAITING.set(Some(flag.clone()));
        Self
    }
}

impl Drop for CancellableWaits {
    fn drop(&mut self) {
        WAITING.set(None);
    }
}

pub(super) struct Sqlite {
    connection: Connection,
    file: PathBuf,
    identity: Identity,
    header: Header,
    /// How many transactions there were, as far as is known here.
    changes: i64,
    /// The parts of its rows that were found as dealkit has left them.
    verified: HashSet<u8>,
    /// Declared after the connection, which is closed first.
    _found: Found,
    _counted: Counted,
    cancellation: CancellationFlag,
    /// The job, if it is one. Declared last: its lock outlives the connection.
    owner: Option<Owner>,
}

impl Sqlite {
    /// Opens a ledger to send rows, or creates one, for this service and this name of the keys, if they have one.
    pub(super) fn open_to_send(
        path: &Path,
        service: &str,
        keys: Option<&str>,
        cancellation: &CancellationFlag,
    ) -> Result<Self, Cause> {
        let _waits = CancellableWaits::new(cancellation);
        let counted = Counted::new()?;
        let found = find(path)?;
        let file = match &found {
            Some(found) => found.path.clone(),
            None => place_of_new(path)?,
        };
        let owner = Owner::new(&file)?;
        let found = match found {
            Some(found) => found,
            None => {
                create(&file, owner.number, &Header::new(service, keys)?)?;
                find(&file)?.ok_or(Cause::Moved(VANISHED))?
            }
        };
        // In case the job that created it was killed before it did this.
        sync_folder(&file)?;
        let mut this = Self::open_file(found, true, PATIENCE, counted)?;
        this.owner = Some(owner);
        this.cancellation = cancellation.clone();
        Ok(this)
    }

    /// Opens an existing ledger, to read it or to record something in it; `None` if there is none.
    pub(super) fn open(path: &Path, writes: bool, waits: bool) -> Result<Option<Self>, Cause> {
        let counted = Counted::new()?;
        let patience = if waits { PATIENCE } else { A_MOMENT };
        let open = |found| Self::open_file(found, writes, patience, counted);
        find(path)?.map(open).transpose()
    }

    fn open_file(
        found: Found,
        writes: bool,
        patience: i32,
        counted: Counted,
    ) -> Result<Self, Cause> {
        let file = found.path.clone();
        // The file is never opened by other means than SQLite's: closing it would release SQLite's locks.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_handler(Some(if patience == PATIENCE {
            wait::<PATIENCE>
        } else {
            wait::<A_MOMENT>
        }))?;
        // Without this, SQLite plans some of the statements anew whenever they are executed.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let version: i64 = pragma(&connection, "user_version")?;
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
        let (header, changes) = read_header(&connection)?;
        let identity = identity(&fs::metadata(&file)?);
        Ok(Self {
            connection,
            file,
            identity,
            header,
            changes,
            verified: HashSet::new(),
            _found: found,
            _counted: counted,
            cancellation: CancellationFlag::default(),
            owner: None,
        })
    }

    /// Reads everything at the same time.
    fn reading<T>(
        &mut self,
        work: impl FnOnce(&Stored<'_>, &mut HashSet<u8>) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let _waits = CancellableWaits::new(&self.cancellation);
        let connection = self.connection.unchecked_transaction()?;
        let stored = Stored {
            connection: &connection,
            file: &self.file,
            cancellation: Some(&self.cancellation),
            sums: read_sums(&connection)?,
        };
        work(&stored, &mut self.verified)
    }

    /// Does something in one transaction that writes; undoes it if that returns false. It may fail once the job is cancelled, if it
    /// `is_optional`.
    fn in_transaction(
        &mut self,
        is_optional: bool,
        work: impl FnOnce(&mut Stored<'_>, &mut HashSet<u8>, &Header) -> Result<bool, Cause>,
    ) -> Result<(), Cause> {
        let _waits = is_optional.then(|| CancellableWaits::new(&self.cancellation));
        // SQLite takes a file that counts as many changes for the one that it has in memory.
        self.connection.release_memory()?;
        // Unless it is committed, it is undone when it is dropped.
        let connection = Transaction::new(&mut self.connection, TransactionBehavior::Immediate)?;
        let (header, changes) = read_header(&connection)?;
        if header.salt != self.header.salt {
            return Err(Cause::Moved("replaced"));
        }
        if changes < self.changes {
            return Err(Cause::Moved("replaced by an older copy of itself"));
        }
        self.changes = changes;
        let mut stored = Stored {
            connection: &connection,
            file: &self.file,
            cancellation: is_optional.then_some(&self.cancellation),
            sums: read_sums(&connection)?,
        };
        if work(&mut stored, &mut self.verified, &header)? {
            let changes = changes.wrapping_add(1);
            connection
                .prepare_cached("UPDATE ledger SET changes = ?, sums = ?")?
                .execute(params![changes, stored.sums])?;
            connection.commit()?;
            self.changes = changes;
            // Another copy of SQLite in this process sees no locks of this one, and may have undone the transaction.
            let written = read_header(&self.connection)?.1;
            if written < changes {
                return Err(Cause::Broken(
                    "another copy of SQLite in this process has undone a transaction".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Copies the ledger, as it is at one moment, to a file that does not exist yet.
    pub(super) fn backup(&self, to: &Path) -> Result<(), Cause> {
        let to = place_of_new(to)?;
        let number = getrandom::u64().map_err(io::Error::other)?.cast_signed();
        let unfinished = owner::unfinished_path(&to, number);
        drop(owner::open_new(&unfinished)?);
        // A path need not be valid text.
        let path = ValueRef::Text(unfinished.as_os_str().as_encoded_bytes());
        let copied = self
            .connection
            .execute("VACUUM INTO ?", [ToSqlOutput::Borrowed(path)])
            .map_err(Cause::from)
            .and_then(|_| {
                fs::File::open(&unfinished)?.sync_all()?;
                move_new(&unfinished, &to)?;
                Ok(sync_folder(&to)?)
            });
        let _ = fs::remove_file(&unfinished);
        copied
    }
}

impl Store for Sqlite {
    fn header(&self) -> &Header {
        &self.header
    }

    fn job(&self) -> i64 {
        self.owner.as_ref().map_or(0, |owner| owner.number)
    }

    fn liveness(&self) -> Liveness {
        Liveness::Lock(self.owner.as_ref().map(|owner| owner.lock().clone()))
    }

    fn explain(&self, cause: Cause) -> Cause {
        // Depending on what it was about to do, SQLite has other words for a file that is gone.
        let is_there =
            || fs::metadata(&self.file).is_ok_and(|found| identity(&found) == self.identity);
        match cause {
            Cause::Io(_) | Cause::Broken(_) if !is_there() => Cause::Moved(VANISHED),
            cause => cause,
        }
    }

    fn is_empty(&mut self) -> Result<bool, Cause> {
        self.reading(|stored, _| Ok(stored.is_empty()?))
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

    fn read_emails(&mut self, emails: &[Digest]) -> Result<Vec<Vec<Record>>, Cause> {
        self.reading(|stored, _| {
            let keys = "SELECT DISTINCT key FROM creates WHERE email = ?";
            let mut keys = stored.connection.prepare_cached(keys)?;
            let read = |email: &Digest| {
                let mut records = Vec::new();
                for key in keys.query_map([email], |row| row.get(0))? {
                    records.extend(stored.row(KeyHash(key?))?.0.pop());
                }
                Ok(records)
            };
            emails.iter().map(read).collect()
        })
    }

    fn for_each(&mut self, take: &mut dyn FnMut(Record)) -> Result<(), Cause> {
        self.reading(|stored, _| stored.for_each(ALL, take))
    }

    fn change(&mut self, touched: &Touched, work: Changes<'_>) -> Result<(), Cause> {
        let lock = self.owner.as_ref().map(|owner| owner.lock().clone());
        self.in_transaction(touched.are_claims(), |stored, verified, header| {
            let is_alive = lock.as_ref().is_none_or(LockFile::exists);
            if !touched.claims.is_empty() && !is_alive {
                return Err(Cause::LockDeleted);
            }
            stored.verify(&touched.keys, verified)?;
            let row = |key: &KeyHash| Ok((*key, stored.row(*key)?));
            let before = touched.keys.iter().map(row);
            let before = before.collect::<Result<Rows, Cause>>()?;
            let mut rows = before.clone();
            if !work(header, &mut rows, &mut stored.owners(&touched.agents)?)? {
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

    fn change_header(&mut self, work: HeaderChange<'_>) -> Result<(), Cause> {
        let mut current = self.header.clone();
        self.in_transaction(false, |stored, _, header| {
            current = header.clone();
            let Some(new) = work(header, stored.is_empty()?)? else {
                return Ok(false);
            };
            let sql = "UPDATE ledger SET service = ?, keys = ?, header_check = ?";
            let values = params![new.service, new.keys, new.check()];
            stored.connection.execute(sql, values)?;
            current = new;
            Ok(true)
        })?;
        self.header = current;
        Ok(())
    }
}

/// Reads the header, and how many transactions there were.
fn read_header(connection: &Connection) -> Result<(Header, i64), Cause> {
    let sql = "SELECT salt, header_check, service, keys, changes FROM ledger";
    let mut header = connection.prepare_cached(sql)?;
    let (salt, check, service, keys, changes): ([u8; 32], [u8; 16], _, _, _) =
        header.query_row([], |row| row.try_into())?;
    Ok((Header::read(salt, check, service, keys)?, changes))
}

fn read_sums(connection: &Connection) -> Result<Sums, rusqlite::Error> {
    let mut sums = connection.prepare_cached("SELECT sums FROM ledger")?;
    sums.query_row([], |row| row.get(0))
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
