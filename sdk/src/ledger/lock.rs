//! A job's exclusive claim to a ledger.

use std::{fs::File, io, process};

use fs4::{FileExt, TryLockError};

/// A file that nobody else has locked: neither another process nor this one, through another handle.
///
/// The lock is advisory: others can read the file meanwhile (except on Windows). It ends with the process, however the
/// process ends.
#[derive(Debug)]
pub(super) struct LockedFile {
    file: File,
    /// The process that locked it. Its forked children inherit the file, and with it the lock, but have claimed
    /// neither.
    process: u32,
}

impl LockedFile {
    /// Locks a file; `None` if somebody else has locked it.
    pub(super) fn lock(file: File) -> io::Result<Option<Self>> {
        // Written out in full, because `File` has had a method of this name since Rust 1.89.
        match FileExt::try_lock(&file) {
            Ok(()) => Ok(Some(Self {
                file,
                process: process::id(),
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether this process locked it.
    pub(super) fn is_ours(&self) -> bool {
        self.process == process::id()
    }

    /// The file itself.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // Closing the file would not be enough: a forked child may keep it open for a long time. Such a child
        // unlocks nothing, because the lock is its parent's.
        if self.is_ours() {
            let _ = FileExt::unlock(&self.file);
        }
    }
}
