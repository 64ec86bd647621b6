//! Recognises ledgers by the first bytes of the file, which are read without SQLite.

use std::{fs, io, path::Path};

use super::APPLICATION_ID;

/// The size of the header of an SQLite database. It contains the application id, by which ledgers are recognised.
const HEADER_SIZE: usize = 100;

/// Checks that this is the header of a ledger. The error is the reason why it is not.
fn check_header(header: &[u8]) -> Result<(), &'static str> {
    let Some(header) = header.first_chunk::<HEADER_SIZE>() else {
        return Err("it is too short");
    };
    if !is_sqlite(header) {
        return Err("it is not an SQLite database");
    }
    if header.get(68..72) != Some(&APPLICATION_ID.to_be_bytes()) {
        return Err("it is another SQLite database");
    }
    Ok(())
}

fn is_sqlite(header: &[u8]) -> bool {
    header.starts_with(b"SQLite format 3\0")
}

/// Returns whether this file is a ledger, damaged or not. Does not wait for other programs, and changes nothing.
pub(in super::super) fn is_ledger(path: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    Ok(metadata.is_file()
        && metadata.len() >= HEADER_SIZE as u64
        && check_file(path, &metadata)?.is_ok())
}

#[cfg(unix)]
pub(super) use unix::{InUseGuard, check_file};

#[cfg(unix)]
mod unix {
    use std::{
        collections::HashMap,
        fs::{File, Metadata, OpenOptions},
        io,
        os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
        path::Path,
        sync::{Mutex, MutexGuard, PoisonError},
    };

    use super::{HEADER_SIZE, check_header, is_sqlite};

    /// The databases that this process has opened, by device and inode. Closing a file releases all POSIX locks that the
    /// process has on it, including the locks of every copy of SQLite in the process. Therefore, the file of a ledger in use is
    /// not opened again, and any other database stays open until the process ends.
    static OPENED_FILES: Mutex<Option<HashMap<(u64, u64), OpenedFile>>> = Mutex::new(None);

    enum OpenedFile {
        /// A ledger, with the number of its guards that exist.
        Ledger(usize),
        #[expect(dead_code, reason = "the file must stay open")]
        Other(File),
    }

    fn lock_files() -> MutexGuard<'static, Option<HashMap<(u64, u64), OpenedFile>>> {
        OPENED_FILES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows that a ledger is in use. In a struct, declare it after the connection to the ledger, which must be closed first.
    pub(in super::super) struct InUseGuard((u64, u64));

    impl Drop for InUseGuard {
        fn drop(&mut self) {
            let mut files = lock_files();
            let files = files.get_or_insert_default();
            match files.get_mut(&self.0) {
                Some(OpenedFile::Ledger(count)) if *count > 1 => *count -= 1,
                _ => drop(files.remove(&self.0)),
            }
        }
    }

    /// Checks the header of a file. If the file is a ledger, returns a guard that shows that the ledger is in use; otherwise,
    /// the inner error is the reason.
    pub(in super::super) fn check_file(
        path: &Path,
        metadata: &Metadata,
    ) -> io::Result<Result<InUseGuard, &'static str>> {
        let mut files = lock_files();
        let files = files.get_or_insert_default();
        let identity = (metadata.dev(), metadata.ino());
        match files.get_mut(&identity) {
            Some(OpenedFile::Other(_)) => return Ok(Err("it is another SQLite database")),
            Some(OpenedFile::Ledger(count)) => {
                *count += 1;
                return Ok(Ok(InUseGuard(identity)));
            }
            None => {}
        }
        let mut options = OpenOptions::new();
        // Do not block, in case the file was replaced by a pipe.
        options
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path)?;
        let opened_metadata = file.metadata()?;
        if !opened_metadata.is_file() || (opened_metadata.dev(), opened_metadata.ino()) != identity
        {
            return Ok(Err("it was replaced"));
        }
        let mut header = Vec::from([0; HEADER_SIZE]);
        let length = file.read_at(&mut header, 0)?;
        header.truncate(length);
        if let Err(why) = check_header(&header) {
            if is_sqlite(&header) {
                files.insert(identity, OpenedFile::Other(file));
            }
            return Ok(Err(why));
        }
        files.insert(identity, OpenedFile::Ledger(1));
        Ok(Ok(InUseGuard(identity)))
    }
}

#[cfg(not(unix))]
pub(super) struct InUseGuard;

/// Checks the header of a file. The inner error is the reason why the file is not a ledger.
#[cfg(not(unix))]
pub(super) fn check_file(
    path: &Path,
    _: &fs::Metadata,
) -> io::Result<Result<InUseGuard, &'static str>> {
    use std::{fs::File, io::Read as _};

    let mut header = Vec::new();
    File::open(path)?
        .take(HEADER_SIZE as u64)
        .read_to_end(&mut header)?;
    Ok(check_header(&header).map(|()| InUseGuard))
}
