//! Lock files, which show that jobs are alive: each job holds a lock on its own file next to the ledger for as long as it may
//! send rows.
//!
//! On Unix this is a POSIX record lock, which belongs to the process: the system releases it when the process ends, even if it
//! is killed, and neither a forked child nor another process with the same id holds it.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The jobs of this process, as pairs of process id and job number. A forked child inherits the list, but not the locks. It
/// does not find the inherited pairs, because its process id is another.
///
/// The list is needed because a process cannot check its own lock files: opening and closing such a file would release the
/// lock.
static JOBS: Mutex<Vec<(u32, i64)>> = Mutex::new(Vec::new());

/// The lock of a job of this process. Dropping it releases the lock and removes the file.
#[derive(Debug)]
pub(super) struct JobLock {
    /// The number of the job.
    pub(super) number: i64,
    lock_file: LockFile,
    process: u32,
    /// Kept open, because closing it releases the lock.
    _file: File,
}

/// The path and identity of a lock file.
#[derive(Clone, Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    identity: FileIdentity,
}

impl LockFile {
    /// Returns whether the file still exists. Without it, other jobs consider this job dead.
    pub(super) fn exists(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| identify(&found) == self.identity)
    }
}

/// The device and inode of a file, or a substitute on systems without them.
pub(super) type FileIdentity = (u64, u64);

/// Returns the identity of a file. A later file with the same name has another identity.
pub(super) fn identify(metadata: &Metadata) -> FileIdentity {
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.dev(), metadata.ino())
    };
    // On other systems, an open file can be neither moved nor replaced.
    #[cfg(not(unix))]
    let identity = (u64::from(metadata.is_file()), 0);
    identity
}

impl JobLock {
    /// Creates and locks a file for a new job, under a random number. Removes the files of jobs that were killed.
    pub(super) fn new(ledger: &Path) -> io::Result<Self> {
        remove_leftover_files(ledger);
        loop {
            let number = getrandom::u64().map_err(io::Error::other)?.cast_signed();
            let path = lock_path(ledger, number);
            let file = create_private_file(&path)?;
            // Once the job is in the list, this process no longer opens its file.
            let job = (process::id(), number);
            lock_jobs().push(job);
            // Another job that found the file before it was locked may have removed it as a leftover.
            if try_lock(&file).is_ok_and(|is_locked| is_locked) && path.exists() {
                let identity = identify(&file.metadata()?);
                return Ok(Self {
                    number,
                    lock_file: LockFile { path, identity },
                    process: process::id(),
                    _file: file,
                });
            }
            drop(file);
            let _ = fs::remove_file(&path);
            lock_jobs().retain(|other| *other != job);
        }
    }

    pub(super) fn lock_file(&self) -> &LockFile {
        &self.lock_file
    }
}

impl Drop for JobLock {
    fn drop(&mut self) {
        // In a forked child, the file and the entry of the list belong to the parent.
        if self.process == process::id() {
            let _ = fs::remove_file(&self.lock_file.path);
            lock_jobs().retain(|other| *other != (self.process, self.number));
        }
    }
}

fn lock_jobs() -> MutexGuard<'static, Vec<(u32, i64)>> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the job with this number may still send the rows that it has claimed; also true if that cannot be
/// determined. Removes the file of a job that was killed.
pub(super) fn is_alive(ledger: &Path, number: i64) -> bool {
    // The list stays locked, so that no job of this process can begin or end during the check.
    let jobs = lock_jobs();
    if jobs.contains(&(process::id(), number)) {
        return true;
    }
    let path = lock_path(ledger, number);
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let has_ended = try_lock(&file).unwrap_or(false);
    if has_ended {
        // Remove the file while it is locked here. A job that has just created the file, and is about to lock it, then notices
        // that the file is gone.
        let _ = fs::remove_file(&path);
    }
    !has_ended
}

/// Removes the files of jobs that were killed.
fn remove_leftover_files(ledger: &Path) {
    for (number, path) in find_job_files(ledger) {
        if !is_alive(ledger, number) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Finds a lock file of a job, alive or killed. A job creates its lock file only once the ledger exists.
pub(super) fn find_lock_file(ledger: &Path) -> Option<PathBuf> {
    let is_lock_file = |(number, path): &(i64, PathBuf)| *path == lock_path(ledger, *number);
    let (_, path) = find_job_files(ledger).find(is_lock_file)?;
    Some(path)
}

/// Finds the lock files of a ledger's jobs and the unfinished ledgers at its path, with their numbers.
fn find_job_files(ledger: &Path) -> impl Iterator<Item = (i64, PathBuf)> {
    let name = ledger.file_name().unwrap_or_default();
    // A file name need not be valid UTF-8.
    let prefix = [name.as_encoded_bytes(), JOB_SUFFIX.as_bytes()].concat();
    let entries = ledger.parent().map(fs::read_dir);
    let entries = entries.into_iter().flatten().flatten().flatten();
    entries.filter_map(move |entry| {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(&prefix[..])?;
        let number = str::from_utf8(rest.get(..16)?).ok()?;
        let number = u64::from_str_radix(number, 16).ok()?;
        Some((number.cast_signed(), entry.path()))
    })
}

/// The part of a lock file's name between the ledger's name and the number of the job.
const JOB_SUFFIX: &str = "-job-";

/// Returns whether this is the name of a lock file or of an unfinished ledger.
pub(super) fn is_job_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let number = name
        .as_deref()
        .and_then(|name| name.rsplit_once(JOB_SUFFIX));
    let number = number.map(|(_, number)| number.strip_suffix("-new").unwrap_or(number));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn lock_path(ledger: &Path, number: i64) -> PathBuf {
    append_to_name(
        ledger,
        &format!("{JOB_SUFFIX}{:016x}", number.cast_unsigned()),
    )
}

/// Returns a random temporary path for a ledger that is being created. The next job that opens the ledger removes the file.
pub(super) fn make_unfinished_path(ledger: &Path) -> io::Result<PathBuf> {
    let number = getrandom::u64().map_err(io::Error::other)?;
    let suffix = format!("{JOB_SUFFIX}{number:016x}-new");
    Ok(append_to_name(ledger, &suffix))
}

/// Returns the path of the ledger's journal, which SQLite creates once the ledger has changed, and then keeps.
pub(super) fn journal_path(ledger: &Path) -> PathBuf {
    append_to_name(ledger, "-journal")
}

/// Returns the ledger's path with a suffix added to the file name.
fn append_to_name(ledger: &Path, suffix: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Creates a file that, on Unix, only its owner can read.
pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Locks a file for this process, until the process closes it. Returns false if another process holds the lock.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::{
        fs::{FlockOperation, fcntl_lock},
        io::Errno,
    };

    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn try_lock(file: &File) -> io::Result<bool> {
    use std::fs::TryLockError;

    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
