//! Which jobs are alive: each holds a lock on a file of its own beside the ledger, for as long as it may send rows.
//!
//! On Unix this is a lock of the process (POSIX record lock): the system releases it when the process ends, however it
//! ends, and neither a forked child nor another process with the same id has it.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The jobs of this process, each with the process's id: a forked child inherits the list, but none of the locks.
///
/// A job of the same process must not be looked up by its file: closing the file would release the lock.
static OURS: Mutex<Vec<(u32, i64)>> = Mutex::new(Vec::new());

/// A job that may have claimed rows.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) number: i64,
    lock: LockFile,
    process: u32,
    _file: File,
}

/// The locked file that shows that a job is alive.
#[derive(Clone, Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    identity: Identity,
}

impl LockFile {
    /// Whether the file is still there. Without it, other jobs take the job for dead.
    pub(super) fn exists(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity)
    }
}

/// Distinguishes a file from another one under its name.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(metadata: &Metadata) -> Identity {
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.dev(), metadata.ino())
    };
    // While a file is open there, it can be neither moved nor replaced.
    #[cfg(not(unix))]
    let identity = (u64::from(metadata.is_file()), 0);
    identity
}

impl Owner {
    pub(super) fn new(ledger: &Path) -> io::Result<Self> {
        remove_traces(ledger);
        loop {
            let number = getrandom::u64().map_err(io::Error::other)?.cast_signed();
            let path = lock_path(ledger, number);
            let file = open_new(&path)?;
            // From here on nobody in this process looks at the file.
            let ours = (process::id(), number);
            ours_locked().push(ours);
            // Someone who found the file before it was locked may have taken it for the trace of a job that has ended.
            if lock(&file).is_ok_and(|is_locked| is_locked) && path.exists() {
                let identity = identity(&file.metadata()?);
                return Ok(Self {
                    number,
                    lock: LockFile { path, identity },
                    process: process::id(),
                    _file: file,
                });
            }
            drop(file);
            let _ = fs::remove_file(&path);
            ours_locked().retain(|other| *other != ours);
        }
    }
}

impl Owner {
    pub(super) fn lock(&self) -> &LockFile {
        &self.lock
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // A forked child has not registered anything.
        if self.process == process::id() {
            let _ = fs::remove_file(&self.lock.path);
            ours_locked().retain(|other| *other != (self.process, self.number));
        }
    }
}

fn ours_locked() -> MutexGuard<'static, Vec<(u32, i64)>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the job with this number may still be sending what it has claimed. In doubt it may. Removes the file of a job
/// that was killed.
pub(super) fn is_alive(ledger: &Path, number: i64) -> bool {
    // The list stays locked, so that no job of this process can begin or end meanwhile.
    let ours = ours_locked();
    if ours.contains(&(process::id(), number)) {
        return true;
    }
    let path = lock_path(ledger, number);
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    let has_ended = lock(&file).unwrap_or(false);
    if has_ended {
        // While it is locked: the job may be about to lock it, and then finds that it is gone.
        let _ = fs::remove_file(&path);
    }
    !has_ended
}

fn remove_traces(ledger: &Path) {
    let (Some(folder), Some(name)) = (ledger.parent(), ledger.file_name()) else {
        return;
    };
    // A name need not be valid text.
    let beginning = [name.as_encoded_bytes(), JOB.as_bytes()].concat();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(&beginning[..]);
        let number = rest.and_then(|rest| str::from_utf8(rest.get(..16)?).ok());
        let Some(number) = number else {
            continue;
        };
        if let Ok(number) = u64::from_str_radix(number, 16)
            && !is_alive(ledger, number.cast_signed())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What follows the ledger's name in the names of the files beside it, before the number of the job.
const JOB: &str = "-job-";

/// Returns whether this is the name of a file that a job has next to its ledger, or had when it was killed.
pub(super) fn is_of_job(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let number = name.as_deref().and_then(|name| name.rsplit_once(JOB));
    let number = number.map(|(_, number)| number.strip_suffix("-new").unwrap_or(number));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn lock_path(ledger: &Path, number: i64) -> PathBuf {
    beside(ledger, &format!("{JOB}{:016x}", number.cast_unsigned()))
}

/// The path of a ledger that the job with this number is making.
pub(super) fn unfinished_path(ledger: &Path, number: i64) -> PathBuf {
    beside(ledger, &format!("{JOB}{:016x}-new", number.cast_unsigned()))
}

/// The ledger's path with something added to its name.
fn beside(ledger: &Path, suffix: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Creates a file that only its owner can read.
pub(super) fn open_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Locks a file for this process, until it is closed; false if another process has locked it.
#[cfg(unix)]
fn lock(file: &File) -> io::Result<bool> {
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
fn lock(file: &File) -> io::Result<bool> {
    use std::fs::TryLockError;

    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
