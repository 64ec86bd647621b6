//! What can be wrong with a ledger, and what to do about it.

use std::{
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why a ledger cannot be used, or a line of it not be written.
///
/// `Display` says what to do about it.
#[derive(Clone)]
pub struct LedgerError(Arc<Inner>);

struct Inner {
    path: PathBuf,
    cause: Cause,
}

/// What kind of failure a [`LedgerError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// Another job writes it, in this process or another, or the process was forked from the one that does.
    InUse,
    /// It was begun for another service.
    OtherService,
    /// The file is something else.
    NotALedger,
    /// A newer version of dealkit has begun it.
    NewerFormat,
    /// A line in the middle cannot be read; [`LedgerError::line`] says which.
    Broken,
    /// The system refuses to open, read or write the file; `source()` says why.
    Io,
}

#[derive(Debug)]
pub(super) enum Cause {
    InUse,
    Forked,
    OtherService { theirs: String, ours: String },
    NotALedger(&'static str),
    NewerFormat(String),
    Broken { line: u64, what: String },
    Io(io::Error),
    Closed,
}

impl LedgerError {
    pub(super) fn new(path: &Path, cause: Cause) -> Self {
        Self(Arc::new(Inner {
            path: path.to_owned(),
            cause,
        }))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> LedgerErrorKind {
        match &self.0.cause {
            Cause::InUse | Cause::Forked => LedgerErrorKind::InUse,
            Cause::OtherService { .. } => LedgerErrorKind::OtherService,
            Cause::NotALedger(_) => LedgerErrorKind::NotALedger,
            Cause::NewerFormat(_) => LedgerErrorKind::NewerFormat,
            Cause::Broken { .. } => LedgerErrorKind::Broken,
            Cause::Io(_) | Cause::Closed => LedgerErrorKind::Io,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The number of the line that cannot be read, from 1.
    pub fn line(&self) -> Option<u64> {
        match self.0.cause {
            Cause::Broken { line, .. } => Some(line),
            _ => None,
        }
    }
}

impl LedgerErrorKind {
    /// `in_use`, `other_service`, `not_a_ledger`, `newer_format`, `broken` or `io`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::OtherService => "other_service",
            Self::NotALedger => "not_a_ledger",
            Self::NewerFormat => "newer_format",
            Self::Broken => "broken",
            Self::Io => "io",
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger {}: {}", self.0.path.display(), self.0.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::InUse => f.write_str(
                "another job is writing it, in this process or another; wait for its end, or give this job a ledger \
                 of its own",
            ),
            Cause::Forked => f.write_str(
                "it belongs to the process that this one was forked from; open it after the fork, in one process",
            ),
            Cause::OtherService { theirs, ours } => write!(
                f,
                "it was begun for another service, {theirs}, and this job is for {ours}; give each service a ledger \
                 of its own"
            ),
            Cause::NotALedger(why) => write!(
                f,
                "the file is not a ledger ({why}), and was left as it is; name one that does not exist yet"
            ),
            Cause::NewerFormat(version) => write!(
                f,
                "its format, version {version}, is newer than this version of dealkit knows; update dealkit"
            ),
            Cause::Broken { line, what } => write!(
                f,
                "line {line} cannot be read: {what}. Nothing was sent. Something other than dealkit has changed the \
                 file, or the disk has lost a part of it: restore it from a copy; without one, look up at the service \
                 what line {line} may have been about, and remove that line"
            ),
            Cause::Io(error) => {
                use io::ErrorKind::*;
                let advice = match error.kind() {
                    NotFound => "create the folder first",
                    PermissionDenied | ReadOnlyFilesystem => {
                        "a job writes to its ledger: allow that, or name another file"
                    }
                    StorageFull | QuotaExceeded | FileTooLarge => {
                        "make room, and run the job again: it goes on where it stopped"
                    }
                    IsADirectory => "name a file",
                    _ => "once that is mended, run the job again: it goes on where it stopped",
                };
                write!(f, "{error}; {advice}")
            }
            Cause::Closed => f.write_str("it has been closed; run the job again: it goes on where it stopped"),
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
