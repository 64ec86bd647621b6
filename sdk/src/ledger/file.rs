//! The file of a ledger: creating it, reading its contents, and appending whole lines.

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    entries::Entries,
    error::{Cause, LedgerError, Purpose},
    format::{self, Header, Line},
    lock::LockedFile,
};
use crate::http::base_url;

/// The longest line that is read, in bytes; the lines that dealkit writes are shorter.
const LONGEST_LINE: usize = 1024 * 1024;

/// The file of a ledger, locked for one job, or to record something.
pub(super) struct LedgerFile {
    path: PathBuf,
    purpose: Purpose,
    file: LockedFile,
}

/// What the lines of a ledger say in total.
#[derive(Debug)]
pub(super) struct Contents {
    /// As changed by later lines. `None` if there is no ledger yet, because the file is missing, empty, or holds
    /// only the beginning of a first line.
    pub(super) header: Option<Header>,
    pub(super) entries: Entries,
    /// The total length of the whole lines, in bytes.
    pub(super) end: u64,
    /// Whether the last of them lacks its line break because a crash kept it from being written.
    pub(super) lacks_break: bool,
}

impl LedgerFile {
    /// Opens the ledger of a job, or creates one, for this service and this name of the keys, if they have one. Returns
    /// it with its contents.
    pub(super) fn open(
        path: &Path,
        service: &str,
        keys: Option<&str>,
    ) -> Result<(Self, Header, Contents), LedgerError> {
        let (this, mut contents) = Self::open_as(path, Purpose::Job)?;
        let Some(mut header) = contents.header.take() else {
            let header =
                Header::new(service, keys).map_err(|error| this.error(Cause::Io(error)))?;
            contents.end = this.write(0, &header.to_line())?;
            this.mend(&mut contents)?;
            this.sync()?;
            sync_folder(path).map_err(|error| this.error(Cause::Io(error)))?;
            return Ok((this, header, contents));
        };
        if !base_url::is_same(&header.service, service) {
            return Err(this.error(Cause::OtherService {
                theirs: header.service,
                ours: service.to_owned(),
            }));
        }
        refuse_other_keys(&header, &contents, keys).map_err(|cause| this.error(cause))?;
        this.mend(&mut contents)?;
        if let Some(name) = keys.filter(|_| header.keys.as_deref() != keys) {
            header.keys = Some(name.to_owned());
            contents.end = this.append(contents.end, &[Line::Keys(name.into())])?;
        }
        Ok((this, header, contents))
    }

    /// Opens an existing ledger, to record something in it.
    pub(super) fn open_to_note(path: &Path) -> Result<(Self, Header, Contents), LedgerError> {
        let (this, mut contents) = Self::open_as(path, Purpose::Note)?;
        let Some(header) = contents.header.take() else {
            return Err(this.error(Cause::NotALedger("its first line is missing or incomplete")));
        };
        Ok((this, header, contents))
    }

    /// Reads the ledger of a future job, even while another job writes it; `None` if the job would create it.
    pub(super) fn read(
        path: &Path,
        keys: Option<&str>,
    ) -> Result<Option<(Header, Contents)>, LedgerError> {
        let failed = |cause| LedgerError::new(path, Purpose::Job, cause);
        // Opening anything but a file, such as a pipe, may block for ever.
        let metadata = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(|error| failed(Cause::Io(error)))?,
        };
        if !metadata.is_file() {
            return Err(failed(Cause::NotALedger("it is not a regular file")));
        }
        let file = File::open(path).map_err(|error| failed(Cause::Io(error)))?;
        let mut contents = Contents::read(BufReader::new(file)).map_err(failed)?;
        let Some(header) = contents.header.take() else {
            return Ok(None);
        };
        refuse_other_keys(&header, &contents, keys).map_err(failed)?;
        Ok(Some((header, contents)))
    }

    fn open_as(path: &Path, purpose: Purpose) -> Result<(Self, Contents), LedgerError> {
        let failed = |cause| LedgerError::new(path, purpose, cause);
        let file = open(path, purpose).map_err(|error| failed(Cause::Io(error)))?;
        let metadata = file.metadata().map_err(|error| failed(Cause::Io(error)))?;
        if !metadata.is_file() {
            return Err(failed(Cause::NotALedger("it is not a regular file")));
        }
        let file = LockedFile::lock(file)
            .map_err(|error| failed(Cause::Io(error)))?
            .ok_or_else(|| failed(Cause::InUse))?;
        let contents = Contents::read(BufReader::new(file.file())).map_err(failed)?;
        let this = Self {
            path: path.to_owned(),
            purpose,
            file,
        };
        Ok((this, contents))
    }

    /// Repairs what a crash left at the end, so that lines can be appended.
    pub(super) fn mend(&self, contents: &mut Contents) -> Result<(), LedgerError> {
        if contents.lacks_break {
            contents.end = self.write(contents.end, "\n")?;
            contents.lacks_break = false;
            return Ok(());
        }
        let cut = self.file.file().set_len(contents.end);
        cut.map_err(|error| self.error(Cause::Io(error)))
    }

    /// Whether this process opened it.
    pub(super) fn is_ours(&self) -> bool {
        self.file.is_ours()
    }

    pub(super) fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(&self.path, self.purpose, cause)
    }

    /// Appends lines, and returns where the next one goes. If they could not be written whole, none of them remains.
    pub(super) fn append(&self, end: u64, lines: &[Line<'_>]) -> Result<u64, LedgerError> {
        let now = SystemTime::now();
        let lines: String = lines.iter().map(|line| line.to_text(now)).collect();
        self.write(end, &lines)
    }

    fn write(&self, end: u64, text: &str) -> Result<u64, LedgerError> {
        let mut file = self.file.file();
        let written = file
            .seek(SeekFrom::Start(end))
            .and_then(|_| file.write_all(text.as_bytes()));
        match written {
            Ok(()) => Ok(end + text.len() as u64),
            Err(error) => {
                // If this fails as well, the next line overwrites the remains, or the next run cuts them off.
                let _ = file.set_len(end);
                Err(self.error(Cause::Io(error)))
            }
        }
    }

    /// Makes sure that every line written so far reaches the disk.
    pub(super) fn sync(&self) -> Result<(), LedgerError> {
        self.file
            .file()
            .sync_data()
            .map_err(|error| self.error(Cause::Io(error)))
    }
}

/// Refuses keys with another name than those of the ledger: it would recognise nobody by them, so that everybody
/// would be created again. A ledger without rows has nobody to recognise, and accepts any name.
fn refuse_other_keys(
    header: &Header,
    contents: &Contents,
    keys: Option<&str>,
) -> Result<(), Cause> {
    match (&header.keys, keys) {
        (Some(theirs), Some(ours)) if theirs != ours && !contents.entries.is_empty() => {
            Err(Cause::OtherKeys {
                theirs: theirs.clone(),
                ours: ours.to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Opens a file to read and write; if a job has none yet, creates one that only its owner can read.
fn open(path: &Path, purpose: Purpose) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).truncate(false);
    options.create(purpose == Purpose::Job);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes sure that the name of a new file reaches the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    // On other systems a folder cannot be opened as a file, and its entries are written with the file.
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
    /// Reads a ledger from the beginning.
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
            // One byte more than the limit, to detect a line that is longer.
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
                // The last line, truncated by a crash.
                Err(Cause::Broken { .. }) if !is_whole && !is_too_long => break,
                Err(cause) => return Err(cause),
            }
            contents.end += length as u64;
            contents.lacks_break = !is_whole;
        }
        Ok(contents)
    }

    /// Applies one line.
    fn take(&mut self, line: &[u8], number: u64, is_too_long: bool) -> Result<(), Cause> {
        let broken = |what| Cause::Broken { line: number, what };
        let Some(header) = &mut self.header else {
            if format::is_torn_header(line) {
                return Err(broken("it is incomplete".to_owned()));
            }
            self.header = Some(Header::parse(line)?);
            return Ok(());
        };
        if is_too_long {
            return Err(broken(format!("it is longer than {LONGEST_LINE} bytes")));
        }
        match Line::parse(line).map_err(broken)? {
            Some(Line::Intent(key)) => self.entries.entry(key).or_default().intend(),
            Some(Line::Outcome(key, state)) => {
                self.entries
                    .entry(key)
                    .or_default()
                    .record(state.into_owned());
            }
            Some(Line::Settled(key, agent_id)) => {
                let agent_id = agent_id.map(Cow::into_owned);
                self.entries.entry(key).or_default().settle(agent_id);
            }
            Some(Line::Service(base_url)) => header.service = base_url.into_owned(),
            Some(Line::Keys(name)) => header.keys = Some(name.into_owned()),
            None => {}
        }
        Ok(())
    }
}
