//! The file of a ledger: how it is found, told from others, and created.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
};

use rusqlite::{Connection, OpenFlags, params};

use super::{
    super::{
        error::{Cause, HIDDEN_URL},
        owner,
        store::Header,
    },
    APPLICATION_ID, VERSION,
    rows::{Sums, TABLES},
};

const HEADER: &str = "
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    salt BLOB NOT NULL,
    salt_check BLOB NOT NULL,
    service TEXT NOT NULL,
    keys TEXT,
    changes INTEGER NOT NULL,
    sums BLOB NOT NULL
) STRICT;
";

/// The file behind a path that is to be a ledger; `None` if nothing is there.
pub(super) fn find(path: &Path) -> Result<Option<PathBuf>, Cause> {
    if path == Path::new(HIDDEN_URL) {
        return Err(Cause::NotALedger(
            "it is the URL of a database, for Ledger::postgres",
        ));
    }
    // A link to a file that is missing is not the place of a new one.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let file = fs::canonicalize(path)?;
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
pub(super) type Identity = (u64, u64);

pub(super) fn identity(file: &Path) -> io::Result<Identity> {
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
pub(super) fn place_of_new(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    Ok(fs::canonicalize(folder_of(path))?.join(name))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Creates a ledger. It appears under its name as a whole, unless somebody else was faster.
pub(super) fn create(file: &Path, job: i64, header: &Header) -> Result<(), Cause> {
    let unfinished = owner::unfinished_path(file, job);
    let made = fill(&unfinished, header).and_then(|()| {
        match fs::hard_link(&unfinished, file) {
            // Some file systems have no hard links.
            Err(_) if !file.exists() => Ok(fs::rename(&unfinished, file)?),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(()),
        }
    });
    let _ = fs::remove_file(&unfinished);
    made
}

fn fill(unfinished: &Path, header: &Header) -> Result<(), Cause> {
    drop(owner::open_new(unfinished)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(unfinished, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; BEGIN; \
         {HEADER} {TABLES}"
    ))?;
    connection.execute(
        "INSERT INTO ledger VALUES (1, ?, ?, ?, ?, 0, ?)",
        params![
            &header.salt[..],
            &header.check()[..],
            header.service,
            header.keys,
            Sums::none()
        ],
    )?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(File::open(unfinished)?.sync_all()?)
}

/// Makes sure that the name of a new file reaches the disk.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    // On other systems a folder cannot be opened as a file, and its entries are written with the file.
    #[cfg(unix)]
    File::open(folder_of(file))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Counts the open ledgers of this process. SQLite's state does not survive a fork: where a parent had a ledger open, a
/// child must not open any.
pub(super) struct Counted;

static OPEN: AtomicUsize = AtomicUsize::new(0);
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

impl Counted {
    pub(super) fn new() -> Result<Self, Cause> {
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
