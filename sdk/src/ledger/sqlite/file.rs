//! File of a ledger: checks before it is opened, creation, and the guard against use after a fork.

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
        error::{Cause, HIDDEN_URL, LedgerLocation, MOVED_OR_REPLACED},
        job_lock,
        lost_ledgers::was_opened,
        store::{FORMAT, Header},
    },
    APPLICATION_ID,
    file_header::{self, InUseGuard},
    rows::{Checksums, ROWS_TABLE},
};

const HEADER_TABLE: &str = "
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

/// Finds the file of a ledger; `None` if the ledger does not exist yet. Fails if the file is missing because it was lost: this
/// process has opened it, or files that belong to it are still next to it.
pub(super) fn find_ledger(path: &Path) -> Result<Option<LedgerFile>, Cause> {
    // For a folder that does not exist, the creation of a ledger fails.
    let new_path = resolve_new_path(path).ok();
    let location = new_path.clone().map(LedgerLocation::File);
    let was_opened = location.as_ref().is_some_and(was_opened);
    let file = find_file(path)?;
    let Some(new_path) = new_path.filter(|_| file.is_none()) else {
        return Ok(file);
    };
    if was_opened {
        return Err(Cause::Moved(MOVED_OR_REPLACED));
    }
    let Some(part) = find_remaining_part(&new_path) else {
        return Ok(None);
    };
    // Another job may have created the ledger and then this file since the check above.
    match find_file(&new_path)? {
        None => Err(Cause::Missing(part)),
        file => Ok(file),
    }
}

/// Returns the name of a file that exists only if the ledger exists or existed: its journal, or the lock file of a job.
fn find_remaining_part(ledger: &Path) -> Option<String> {
    let journal = job_lock::journal_path(ledger);
    let has_journal = fs::symlink_metadata(&journal).is_ok();
    let part = has_journal.then_some(journal);
    let part = part.or_else(|| job_lock::find_lock_file(ledger))?;
    Some(part.file_name()?.to_string_lossy().into_owned())
}

/// Finds the file with this path; `None` if there is no such file. The file's header is checked without SQLite: opening a foreign
/// database with SQLite would roll back or checkpoint unfinished changes of the program to which it belongs.
fn find_file(path: &Path) -> Result<Option<LedgerFile>, Cause> {
    if path == Path::new(HIDDEN_URL) {
        return Err(Cause::Unsupported(
            "this is the URL of a database, not the path of a file; open it with Ledger::postgres",
        ));
    }
    // A symbolic link to a missing file is an error below: no ledger is created through such a link.
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
    // SQLite also opens the journal, a file next to the ledger. Opening it may block if it is a pipe.
    let journal = fs::symlink_metadata(job_lock::journal_path(&path));
    if journal.is_ok_and(|journal| !journal.is_file()) {
        return Err(Cause::NotALedger("its journal is not a regular file"));
    }
    // A new ledger gets its name only once it is complete. An empty file is therefore not a ledger, or has lost its content.
    if metadata.len() == 0 {
        return Err(Cause::NotALedger("it is empty"));
    }
    let in_use = file_header::check_file(&path, &metadata)?.map_err(Cause::NotALedger)?;
    if let Some(why) = find_second_name(&path, &metadata) {
        return Err(Cause::SecondName(why));
    }
    Ok(Some(LedgerFile {
        path,
        _in_use: in_use,
    }))
}

/// The canonical path of a ledger that exists, and the guard that shows that it is in use.
pub(super) struct LedgerFile {
    pub(super) path: PathBuf,
    pub(super) _in_use: InUseGuard,
}

/// Returns the reason why the file of a ledger has a second name; `None` if it has only one name. The lock files of jobs are
/// next to the ledger. A job that opened the ledger by a name in another folder would not find them, and would consider all
/// other jobs dead.
#[cfg(unix)]
fn find_second_name(path: &Path, metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;

    if metadata.nlink() > 1 {
        return Some("it has another name, a hard link: delete that");
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

        let mount_id = |path: &Path| {
            let status = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
            let is_known = status.stx_mask & StatxFlags::MNT_ID.bits() != 0;
            is_known.then_some(status.stx_mnt_id)
        };
        if mount_id(path) != mount_id(parent_folder(path)) {
            return Some("the file itself is mounted: mount its folder");
        }
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = path;
    None
}

#[cfg(not(unix))]
fn find_second_name(_: &Path, _: &Metadata) -> Option<&'static str> {
    None
}

/// Returns the canonical path of a file that does not exist yet.
pub(super) fn resolve_new_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    Ok(fs::canonicalize(parent_folder(path))?.join(name))
}

fn parent_folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Creates a ledger. The file gets its name only once it is complete. If another job has created the ledger meanwhile, that
/// ledger stays.
pub(super) fn create_file(path: &Path, header: &Header) -> Result<LedgerFile, Cause> {
    let path = resolve_new_path(path)?;
    let unfinished = job_lock::make_unfinished_path(&path)?;
    let create_result = write_new_ledger(&unfinished, header)
        .and_then(|()| Ok(move_without_replacing(&unfinished, &path)?));
    let _ = fs::remove_file(&unfinished);
    // A job that has created the ledger meanwhile has perhaps removed the unfinished file.
    match (find_file(&path)?, create_result) {
        (Some(file), _) => Ok(file),
        (None, Err(cause)) => Err(cause),
        (None, Ok(())) => Err(Cause::Moved(MOVED_OR_REPLACED)),
    }
}

/// Moves a file to a new name; fails if a file with that name exists.
pub(super) fn move_without_replacing(file: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::{
            fs::{CWD, RenameFlags, renameat_with},
            io::Errno,
        };

        match renameat_with(CWD, file, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            rename_result => return Ok(rename_result?),
        }
    }
    match fs::hard_link(file, to) {
        Ok(()) => fs::remove_file(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // The file system supports neither hard links nor renaming without replacing. If the copy is interrupted by a crash,
        // the incomplete file is rejected as not a ledger.
        Err(_) => {
            let content = fs::read(file)?;
            let mut new = job_lock::create_private_file(to)?;
            new.write_all(&content)?;
            new.sync_all()
        }
    }
}

/// Creates the database of an empty ledger, and syncs it to disk.
fn write_new_ledger(unfinished: &Path, header: &Header) -> Result<(), Cause> {
    drop(job_lock::create_private_file(unfinished)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(unfinished, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; BEGIN; \
         {HEADER_TABLE} {ROWS_TABLE}"
    ))?;
    connection.execute(
        "INSERT INTO ledger VALUES (1, ?, ?, ?, ?, 0, ?)",
        params![
            &header.salt.0[..],
            header.service,
            header.key_name,
            &header.compute_check()[..],
            Checksums::zero()
        ],
    )?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(File::open(unfinished)?.sync_all()?)
}

/// Syncs the folder of a new file, so that the file's name is on disk.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    // On other systems, a folder cannot be opened as a file, and the system writes its entries together with the file.
    #[cfg(unix)]
    File::open(parent_folder(file))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Counts one open ledger of this process in [`OPEN_COUNT`], until this value is dropped. SQLite's state does not survive a
/// fork: if the parent had a ledger open, the child must not open any.
pub(super) struct OpenCount;

/// The number of open ledgers.
static OPEN_COUNT: AtomicUsize = AtomicUsize::new(0);
/// The id of the process that has opened the counted ledgers.
static OPENER_PROCESS_ID: AtomicU32 = AtomicU32::new(0);

impl OpenCount {
    pub(super) fn new() -> Result<Self, Cause> {
        let this_process = process::id();
        if OPEN_COUNT.load(SeqCst) == 0 {
            OPENER_PROCESS_ID.store(this_process, SeqCst);
        } else if OPENER_PROCESS_ID.load(SeqCst) != this_process {
            return Err(Cause::Forked);
        }
        OPEN_COUNT.fetch_add(1, SeqCst);
        Ok(Self)
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        if OPENER_PROCESS_ID.load(SeqCst) == process::id() {
            OPEN_COUNT.fetch_sub(1, SeqCst);
        }
    }
}
