//! Writing of files of deals.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use crate::state::store::Store;

/// Writes deals as a JSON array, each byte for byte. The result is a valid file of deals.
#[derive(Debug)]
pub(crate) struct DealsWriter<W> {
    out: W,
    is_empty: bool,
}

impl<W: Write> DealsWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            is_empty: true,
        }
    }

    pub(crate) fn write_deal(&mut self, json: &[u8]) -> io::Result<()> {
        self.out
            .write_all(if self.is_empty { b"[\n" } else { b",\n" })?;
        self.is_empty = false;
        self.out.write_all(json)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out
            .write_all(if self.is_empty { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Saves all deals of a store to a file. If an error occurs, an existing file stays unchanged.
pub(crate) fn save(store: &Store, path: &Path) -> io::Result<()> {
    let mut new_path = OsString::from(path);
    new_path.push(".part");
    let write = || {
        let mut writer = DealsWriter::new(BufWriter::new(File::create(&new_path)?));
        store.try_for_each_deal(None, |json| writer.write_deal(json))?;
        writer.finish()?;
        fs::rename(&new_path, path)
    };
    write().inspect_err(|_| {
        // Ignore errors: the file may not exist.
        let _ = fs::remove_file(&new_path);
    })
}
