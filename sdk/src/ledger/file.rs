//! The file of a ledger: beginning one, reading what is there, and appending whole lines.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    entries::Entries,
    error::{Cause, LedgerError},
    format::{self, Header, Line},
    lock::LockedFile,
};

/// The longest line that is read, in bytes: what dealkit writes is shorter.
const LONGEST_LINE: usize = 1024 * 1024;

/// The file of a ledger, locked for one job.
pub(super) struct LedgerFile {
    path: PathBuf,
    file: LockedFile,
}

/// What the lines of a ledger say.
#[derive(Debug)]
pub(super) struct Contents {
    /// `None` where there is no ledger yet, because nothing is there, or the beginning of its first line.
    pub(super) header: Option<Header>,
    pub(super) entries: Entries,
    /// How many bytes the whole lines are.
    pub(super) end: u64,
    /// Whether the last of them lacks its line break, which a crash has kept from being written.
    pub(super) lacks_break: bool,
}

impl LedgerFile {
    /// Opens a ledger, or begins one, and puts right what a crash has left at its end. Comes back with what stands
    /// in it, and where it ends.
    pub(super) fn open(
        path: &Path,
        service: &str,
    ) -> Result<(Self, Header, Entries, u64), LedgerError> {
        let failed = |error| LedgerError::new(path, Cause::Io(error));
        let file = open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(LedgerError::new(
                path,
                Cause::NotALedger("it is no regular file"),
            ));
        }
        let file = LockedFile::lock(file)
            .map_err(failed)?
            .ok_or_else(|| LedgerError::new(path, Cause::InUse))?;
        let contents = Contents::read(BufReader::new(file.file()))
            .map_err(|cause| LedgerError::new(path, cause))?;
        let this = Self {
            path: path.to_owned(),
            file,
        };
        let Contents {
            header,
            entries,
            mut end,
            lacks_break,
        } = contents;
        let header = match header {
            Some(header) if header.service == service => header,
            Some(header) => {
                let cause = Cause::OtherService {
                    theirs: header.service,
                    ours: service.to_owned(),
                };
                return Err(this.error(cause));
            }
            None => {
                let header = Header::new(service).map_err(failed)?;
                end = this.write(0, &header.to_line())?;
                this.sync()?;
                sync_folder(path).map_err(failed)?;
                header
            }
        };
        if lacks_break {
            end = this.write(end, "\n")?;
        } else {
            this.file.file().set_len(end).map_err(failed)?;
        }
        Ok((this, header, entries, end))
    }

    /// Whether this process has opened it.
    pub(super) fn is_ours(&self) -> bool {
        self.file.is_ours()
    }

    pub(super) fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(&self.path, cause)
    }

    /// Writes a line at the end, and says where the next one goes. Of a line that could not be written whole,
    /// nothing stays.
    pub(super) fn append(&self, end: u64, line: &Line<'_>) -> Result<u64, LedgerError> {
        self.write(end, &line.to_text(SystemTime::now()))
    }

    fn write(&self, end: u64, text: &str) -> Result<u64, LedgerError> {
        let mut file = self.file.file();
        let written = file
            .seek(SeekFrom::Start(end))
            .and_then(|_| file.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(end + text.len() as u64),
            Err(error) => {
                // Where this fails as well, the next line overwrites it, or the next run cuts it off.
                let _ = file.set_len(end);
                Err(self.error(Cause::Io(error)))
            }
        }
    }

    /// Has every line that was written reach the disk.
    pub(super) fn sync(&self) -> Result<(), LedgerError> {
        self.file
            .file()
            .sync_data()
            .map_err(|error| self.error(Cause::Io(error)))
    }
}

/// Opens a file to read and write, or makes one that only its owner reads.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Has the name of a new file reach the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened as a file, and its entries are written with the file.
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

impl Contents {
    /// Reads a ledger from its beginning.
    pub(super) fn read(mut reader: impl BufRead) -> Result<Self, Cause> {
        let mut contents = Self {
            header: None,
            entries: Entries::new(),
            end: 0,
            lacks_break: false,
        };
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            // One more than there may be, so that a longer one shows.
            let mut bounded = io::Read::take(&mut reader, LONGEST_LINE as u64 + 1);
            let length = bounded.read_until(b'\n', &mut line).map_err(Cause::Io)?;
            if length == 0 {
                break;
            }
            let is_whole = line.ends_with(b"\n");
            let is_too_long = length > LONGEST_LINE;
            let taken = contents.take(&line, number, is_too_long);
            match taken {
                Ok(()) => {}
                // The last line, which a crash has cut short.
                Err(Cause::Broken { .. }) if !is_whole && !is_too_long => break,
                Err(cause) => return Err(cause),
            }
            contents.end += length as u64;
            contents.lacks_break = !is_whole;
        }
        Ok(contents)
    }

    /// Takes in what a line says.
    fn take(&mut self, line: &[u8], number: u64, is_too_long: bool) -> Result<(), Cause> {
        let broken = |what| Cause::Broken { line: number, what };
        if self.header.is_none() {
            if format::is_torn_header(line) {
                return Err(broken("it was not written whole".to_owned()));
            }
            self.header = Some(Header::parse(line)?);
            return Ok(());
        }
        if is_too_long {
            return Err(broken(format!("it has more than {LONGEST_LINE} bytes")));
        }
        match Line::parse(line).map_err(broken)? {
            Some(Line::Intent(key)) => self.entries.entry(key).or_default().intend(),
            Some(Line::Outcome(key, state)) => {
                self.entries
                    .entry(key)
                    .or_default()
                    .settle(state.into_owned());
            }
            None => {}
        }
        Ok(())
    }
}
