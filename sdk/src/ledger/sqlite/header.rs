//! Recognises ledgers by the first bytes of their files, which are read without SQLite.

use std::{fs::Metadata, io, path::Path};

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

/// Whether this file is a ledger, damaged or not. Waits for no other program.
pub(super) fn is_ledger(path: &Path, metadata: &Metadata) -> io::Result<bool> {
    Ok(metadata.is_file() && metadata.len() >= HEADER as u64 && read(path, metadata)?.is_ok())
}

#[cfg(unix)]
pub(super) use unix::{Descriptor, read};

#[cfg(unix)]
mod unix {
    use std::{
        collections::HashMap,
        fs::{File, Metadata, OpenOptions},
        io,
        os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
        path::Path,
        sync::{Arc, Mutex, PoisonError, Weak},
    };

    use super::{HEADER, check, is_sqlite};

    /// The files of databases that were opened here, by device and inode. Closing a file releases all POSIX locks that this
    /// process has on it, those of every copy of SQLite among them. So a ledger is opened once for as long as it is in use,
    /// and any other database stays open until the process ends.
    static FILES: Mutex<Option<HashMap<(u64, u64), Opened>>> = Mutex::new(None);

    enum Opened {
        InUse(Weak<File>),
        #[expect(dead_code, reason = "it only stays open")]
        Forever(File),
    }

    /// Keeps the file of a ledger open. Declare it after the connection to the ledger: it must be closed last.
    pub(in super::super) struct Descriptor(Option<Arc<File>>);

    impl Drop for Descriptor {
        fn drop(&mut self) {
            // Not while another thread opens the file and locks it.
            let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
            self.0 = None;
        }
    }

    /// Reads the header of a file; returns why the file is not a ledger, or keeps it open.
    pub(in super::super) fn read(
        path: &Path,
        metadata: &Metadata,
    ) -> io::Result<Result<Descriptor, &'static str>> {
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.get_or_insert_default();
        let identity = (metadata.dev(), metadata.ino());
        match files.get(&identity) {
            Some(Opened::Forever(_)) => return Ok(Err("it is another SQLite database")),
            Some(Opened::InUse(file)) => {
                if let Some(file) = file.upgrade() {
                    return Ok(Ok(Descriptor(Some(file))));
                }
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
                files.insert(identity, Opened::Forever(file));
            }
            return Ok(Err(why));
        }
        files
            .retain(|_, opened| !matches!(opened, Opened::InUse(file) if file.strong_count() == 0));
        let file = Arc::new(file);
        files.insert(identity, Opened::InUse(Arc::downgrade(&file)));
        Ok(Ok(Descriptor(Some(file))))
    }
}

#[cfg(not(unix))]
pub(super) struct Descriptor;

/// Reads the header of a file, or returns why it is not a ledger.
#[cfg(not(unix))]
pub(super) fn read(path: &Path, _: &Metadata) -> io::Result<Result<Descriptor, &'static str>> {
    use std::{fs::File, io::Read as _};

    let mut header = Vec::new();
    File::open(path)?
        .take(HEADER as u64)
        .read_to_end(&mut header)?;
    Ok(check(&header).map(|()| Descriptor))
}
