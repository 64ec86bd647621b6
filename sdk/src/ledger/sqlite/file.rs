//! The file of a ledger: how it is found, told from others, and created.

use std::{
    fs::{self, File, Metadata},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
};

use rusqlite::{Connection, OpenFlags, params};

use super::{
    super::{
        error::{Cause, HIDDEN_URL},
        owner,
        store::{FORMAT, Header},
    },
    APPLICATION_ID,
    header::{self, InUse},
    rows::{Sums, TABLES},
};

const HEADER: &str = "
CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    salt BLOB NOT NULL,
    service TEXT NOT NULL,
    keys TEXT,
    header_check BLOB NOT NULL,
    changes INTEGER NOT NULL,
    sums BLOB NOT NULL
) STRICT;
";

/// Finds the file of a ledger; `None` if nothing is there. The file's header is checked without SQLite, which would roll back
/// or checkpoint what another program has left in a database of its own.
pub(super) fn find(path: &Path) -> Result<Option<Found>, Cause> {
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
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    if !metadata.is_file() {
        return Err(Cause::NotALedger("it is not a regular file"));
    }
    // Opening anything else, such as a pipe, may block.
    let mut journal = path.clone().into_os_string();
    journal.push("-journal");
    if fs::symlink_metadata(journal).is_ok_and(|journal| !journal.is_file()) {
        return Err(Cause::NotALedger("its journal is not a regular file"));
    }
    // A new ledger appears as a whole, so an empty file never was one, or has lost everything.
    if metadata.len() == 0 {
        return Err(Cause::NotALedger("it is empty"));
    }
    let in_use = header::read(&path, &metadata)?.map_err(Cause::NotALedger)?;
    if let Some(why) = other_name(&path, &metadata) {
        return Err(Cause::OtherName(why));
    }
    Ok(Some(Found {
        path,
        _in_use: in_use,
    }))
}

/// The file of a ledger.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) _in_use: InUse,
}

/// Explains why the file of a ledger can be reached by a name in another folder. The locks of jobs are files next to the
/// ledger: a job that reaches the ledger by another name would take all others for dead.
#[cfg(unix)]
fn other_name(path: &Path, metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;

    if metadata.nlink() > 1 {
        return Some("it has another name, a hard link: delete that");
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

        let mount = |path: &Path| {
            let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
            let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
            is_known.then_some(found.stx_mnt_id)
        };
        if mount(path) != mount(folder_of(path)) {
            return Some("the file itself is mounted: mount its folder");
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = path;
    None
}

#[cfg(not(unix))]
fn other_name(_: &Path, _: &Metadata) -> Option<&'static str> {
    None
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

/// Creates a ledger. It appears under its name as a whole, unless another job was faster.
pub(super) fn create(file: &Path, job: i64, header: &Header) -> Result<(), Cause> {
    let unfinished = owner::unfinished_path(file, job);
    let created = fill(&unfinished, header).and_then(|()| match move_new(&unfinished, file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    });
    let _ = fs::remove_file(&unfinished);
    created
}

/// Moves a file to a name that no file has.
pub(super) fn move_new(file: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::{
            fs::{CWD, RenameFlags, renameat_with},
            io::Errno,
        };

        match renameat_with(CWD, file, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            moved => return Ok(moved?),
        }
    }
    match fs::hard_link(file, to) {
        Ok(()) => fs::remove_file(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // The file system has no hard links, and cannot rename without replacing. A crash may leave a part of the file, which
        // is no ledger.
        Err(_) => {
            let content = fs::read(file)?;
            let mut new = owner::open_new(to)?;
            new.write_all(&content)?;
            new.sync_all()
        }
    }
}

fn fill(unfinished: &Path, header: &Header) -> Result<(), Cause> {
    drop(owner::open_new(unfinished)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(unfinished, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; BEGIN; \
         {HEADER} {TABLES}"
    ))?;
    connection.execute(
        "INSERT INTO ledger VALUES (1, ?, ?, ?, ?, 0, ?)",
        params![
            &header.salt.0[..],
            header.service,
            header.keys,
            &header.check()[..],
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
