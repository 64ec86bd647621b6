//! Recognises ledgers by the first bytes of their files, which are read without SQLite.

use std::{fs, io, path::Path};

use super::APPLICATION_ID;

/// The size of the header of an SQLite database, which says what kind of database it is.
const HEADER: usize = 100;

/// Checks the header of an SQLite database, or says why this is not the header of a ledger.
fn check(header: &[u8]) -> Result<(), &'static str> {
    let Some(header) = header.first_chunk::<HEADER>() else {
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

/// Tells whether this file is a ledger, damaged or not. Waits for no other program, and changes nothing.
pub(in super::super) fn is_ledger(path: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    Ok(metadata.is_file() && metadata.len() >= HEADER as u64 && read(path, &metadata)?.is_ok())
}

#[cfg(unix)]
pub(super) use unix::{InUse, read};

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

    use super::{HEADER, check, is_sqlite};

    /// The databases that were opened here, by device and inode. Closing a file releases all POSIX locks that this process has on
    /// it, those of every copy of SQLite among them. So the file of a ledger in use is not opened again, and any other database
    /// stays open until the process ends.
    static FILES: Mutex<Option<HashMap<(u64, u64), Opened>>> = Mutex::new(None);

    enum Opened {
        /// A ledger, with how many times it is in use.
        Ledger(usize),
        #[expect(dead_code, reason = "it only stays open")]
        Other(File),
    }

    fn files() -> MutexGuard<'static, Option<HashMap<(u64, u64), Opened>>> {
        FILES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ledger in use. Declare it after the connection to the ledger, which must be closed first.
    pub(in super::super) struct InUse((u64, u64));

    impl Drop for InUse {
        fn drop(&mut self) {
            let mut files = files();
            let files = files.get_or_insert_default();
            match files.get_mut(&self.0) {
                Some(Opened::Ledger(count)) if *count > 1 => *count -= 1,
                _ => drop(files.remove(&self.0)),
            }
        }
    }

    /// Reads the header of a file; returns why the file is not a ledger, or records that it is in use.
    pub(in super::super) fn read(
        path: &Path,
        metadata: &Metadata,
    ) -> io::Result<Result<InUse, &'static str>> {
        let mut files = files();
        let files = files.get_or_insert_default();
        let identity = (metadata.dev(), metadata.ino());
        match files.get_mut(&identity) {
            Some(Opened::Other(_)) => return Ok(Err("it is another SQLite database")),
            Some(Opened::Ledger(count)) => {
                *count += 1;
                return Ok(Ok(InUse(identity)));
            }
            None => {}
        }
        let mut options = OpenOptions::new();
        // Without waiting, in case the file has become a pipe.
        options
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path)?;
        let now = file.metadata()?;
        if !now.is_file() || (now.dev(), now.ino()) != identity {
            return Ok(Err("it was replaced"));
        }
        let mut header = Vec::from([0; HEADER]);
        let length = file.read_at(&mut header, 0)?;
        header.truncate(length);
        if let Err(why) = check(&header) {
            if is_sqlite(&header) {
                files.insert(identity, Opened::Other(file));
            }
            return Ok(Err(why));
        }
        files.insert(identity, Opened::Ledger(1));
        Ok(Ok(InUse(identity)))
    }
}

#[cfg(not(unix))]
pub(super) struct InUse;

/// Reads the header of a file, or returns why it is not a ledger.
#[cfg(not(unix))]
pub(super) fn read(path: &Path, _: &fs::Metadata) -> io::Result<Result<InUse, &'static str>> {
    use std::{fs::File, io::Read as _};

    let mut header = Vec::new();
    File::open(path)?
        .take(HEADER as u64)
        .read_to_end(&mut header)?;
    Ok(check(&header).map(|()| InUse))
}
