//! The claim of one job to a ledger.

use std::{fs::File, io, process};

use fs4::{FileExt, TryLockError};

/// A file that nobody else has locked: neither another process nor, opened once more, this one.
///
/// The lock is advisory: others can read the file meanwhile (not on Windows). It ends with the process, however that ends.
#[derive(Debug)]
pub(super) struct LockedFile {
    file: File,
    /// The process that locked it. Its forked children have the file, and with it the lock, without having claimed
    /// either.
    process: u32,
}

impl LockedFile {
    /// Locks a file, unless somebody has: then it is `None`.
    pub(super) fn lock(file: File) -> io::Result<Option<Self>> {
        // In full, because `File` has a method of this name since Rust 1.89.
        match FileExt::try_lock(&file) {
            Ok(()) => Ok(Some(Self {
                file,
                process: process::id(),
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether this process has locked it.
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
        // Closing the file would not do: a forked child may have it open for long. In such a child nothing is
        // unlocked, because the lock is its parent's.
        if self.is_ours() {
            let _ = FileExt::unlock(&self.file);
        }
    }
}
