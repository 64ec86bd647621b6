//! What can be wrong with a ledger, and what to do about it.

use std::{
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why a ledger cannot be used, or why a line cannot be written to it.
///
/// `Display` says what to do about it.
#[derive(Clone)]
pub struct LedgerError(Arc<Inner>);

struct Inner {
    path: PathBuf,
    purpose: Purpose,
    cause: Cause,
}

/// Why a ledger was opened, which determines what to do when that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For a job, which creates the ledger if there is none.
    Job,
    /// To record something in an existing ledger.
    Note,
}

/// What kind of failure a [`LedgerError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// Another job is writing it, in this process or another, or this process was forked from the one that is.
    InUse,
    /// It is the ledger of another service.
    OtherService,
    /// Its keys have another name than those of the job.
    OtherKeys,
    /// The file is not a ledger.
    NotALedger,
    /// It was created by a newer version of dealkit.
    NewerFormat,
    /// A line in the middle cannot be read; [`LedgerError::line`] says which.
    Broken,
    /// What was to be recorded in it is not possible. If it is one of many entries, [`LedgerError::index`] says which.
    Refused,
    /// The operating system refuses to open, read or write the file; `source()` says why.
    Io,
}

#[derive(Debug)]
pub(super) enum Cause {
    InUse,
    Forked,
    OtherService { theirs: String, ours: String },
    OtherKeys { theirs: String, ours: String },
    Refused { index: Option<usize>, what: String },
    NotALedger(&'static str),
    NewerFormat(String),
    Broken { line: u64, what: String },
    Io(io::Error),
    Closed,
}

impl LedgerError {
    pub(super) fn new(path: &Path, purpose: Purpose, cause: Cause) -> Self {
        Self(Arc::new(Inner {
            path: path.to_owned(),
            purpose,
            cause,
        }))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> LedgerErrorKind {
        match &self.0.cause {
            Cause::InUse | Cause::Forked => LedgerErrorKind::InUse,
            Cause::OtherService { .. } => LedgerErrorKind::OtherService,
            Cause::OtherKeys { .. } => LedgerErrorKind::OtherKeys,
            Cause::Refused { .. } => LedgerErrorKind::Refused,
            Cause::NotALedger(_) => LedgerErrorKind::NotALedger,
            Cause::NewerFormat(_) => LedgerErrorKind::NewerFormat,
            Cause::Broken { .. } => LedgerErrorKind::Broken,
            Cause::Io(_) | Cause::Closed => LedgerErrorKind::Io,
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The number of the line that cannot be read, counted from 1.
    pub fn line(&self) -> Option<u64> {
        match self.0.cause {
            Cause::Broken { line, .. } => Some(line),
            _ => None,
        }
    }

    /// Which of the entries to be [settled](super::settle) is refused, counted from 0.
    pub fn index(&self) -> Option<usize> {
        match self.0.cause {
            Cause::Refused { index, .. } => index,
            _ => None,
        }
    }
}

impl LedgerErrorKind {
    /// `in_use`, `other_service`, `other_keys`, `not_a_ledger`, `newer_format`, `broken`, `refused` or `io`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::OtherService => "other_service",
            Self::OtherKeys => "other_keys",
            Self::NotALedger => "not_a_ledger",
            Self::NewerFormat => "newer_format",
            Self::Broken => "broken",
            Self::Refused => "refused",
            Self::Io => "io",
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger {}: ", self.0.path.display())?;
        self.0.cause.tell(self.0.purpose, f)
    }
}

impl Cause {
    /// Writes what was wrong, and what to do about it.
    fn tell(&self, purpose: Purpose, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_job = purpose == Purpose::Job;
        let either = |of_a_job, of_a_note| if is_job { of_a_job } else { of_a_note };
        match self {
            Cause::InUse => write!(
                f,
                "another job is writing to it, in this process or another; wait for that job to end{}",
                either(", or give this job its own ledger", "")
            ),
            Cause::Forked => f.write_str(
                "it belongs to the process that this one was forked from; open it after the fork, in one process",
            ),
            Cause::OtherService { theirs, ours } => write!(
                f,
                "it is the ledger of another service, {theirs}, and this job is for {ours}. If that is the same \
                 service under another name, record that with ledger::move_to (in Python dealkit.ledger.move), or \
                 with the command `dealkit ledger move`; if it is a different service, give this job its own ledger"
            ),
            Cause::OtherKeys { theirs, ours } => write!(
                f,
                "its keys are called {theirs:?}, and those of this job {ours:?}. Nothing was sent: with other keys \
                 the ledger would recognise none of its rows, and every agent would be created again. Use the keys \
                 that it has. If these are the same keys under another name, pass {theirs:?} as their name, or None \
                 (in Python a function as key); rows that are not in it can have a ledger of their own"
            ),
            Cause::Refused { index, what } => {
                if let Some(index) = index {
                    write!(f, "the entry at index {index} cannot be settled: ")?;
                }
                write!(f, "{what}. Nothing was written")
            }
            Cause::NotALedger(why) => write!(
                f,
                "the file is not a ledger ({why}), and was left unchanged; name {}",
                either("a file that does not exist yet", "the ledger of a job")
            ),
            Cause::NewerFormat(version) => write!(
                f,
                "its format version, {version}, is newer than this version of dealkit supports; update dealkit"
            ),
            Cause::Broken { line, what } => write!(
                f,
                "line {line} cannot be read: {what}. Nothing was {}. Something other than dealkit has changed the \
                 file, or the disk has lost part of it: restore it from a backup; if there is none, look up at the \
                 service whatever line {line} may have recorded, then remove that line",
                either("sent", "written")
            ),
            Cause::Io(error) => {
                use io::ErrorKind::*;
                let again = either("run the job again: it resumes where it stopped", "try again");
                write!(f, "{error}; ")?;
                match error.kind() {
                    NotFound => f.write_str(either(
                        "create the folder first",
                        "name the ledger of a job",
                    )),
                    PermissionDenied | ReadOnlyFilesystem => f.write_str(either(
                        "a job writes to its ledger: make it writable, or name another file",
                        "make it writable",
                    )),
                    StorageFull | QuotaExceeded | FileTooLarge => write!(f, "make room, and {again}"),
                    IsADirectory => f.write_str("name a file"),
                    _ => write!(f, "once that is fixed, {again}"),
                }
            }
            Cause::Closed => {
                f.write_str("it has been closed; run the job again: it resumes where it stopped")
            }
        }
    }
}

impl fmt::Debug for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerError")
            .field("kind", &self.kind())
            .field("message", &format_args!("{self}"))
            .finish_non_exhaustive()
    }
}

impl StdError for LedgerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.cause {
            Cause::Io(error) => Some(error),
            _ => None,
        }
    }
}
