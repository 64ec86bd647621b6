//! What can be wrong with a ledger, and what to do about it.

use std::{
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why a ledger cannot be used, or why something cannot be recorded in it.
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
    /// To read it.
    Read,
}

/// What kind of failure a [`LedgerError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// Another program has kept it locked for half a minute, or this process was forked from one that had a ledger open.
    InUse,
    /// It is the ledger of another service.
    OtherService,
    /// Its keys have another name than those of the job.
    OtherKeys,
    /// The file is not a ledger.
    NotALedger,
    /// It was created by a newer version of dealkit.
    NewerFormat,
    /// Something other than dealkit has changed it, or the disk has.
    Broken,
    /// The file was moved, deleted or replaced while it was open.
    Moved,
    /// What was to be recorded in it is not possible. If it is one of many entries, [`LedgerError::index`] says which.
    Refused,
    /// The operating system refuses to open, read or write the file.
    Io,
}

#[derive(Debug)]
pub(super) enum Cause {
    InUse,
    Forked,
    OtherService {
        theirs: String,
        ours: String,
    },
    OtherKeys {
        theirs: String,
        ours: String,
    },
    NotALedger(&'static str),
    NewerFormat(i64),
    Broken(String),
    Moved(&'static str),
    Refused(Refusal),
    /// The entry at this index.
    RefusedEntry(usize, Refusal),
    Io(io::Error),
}

/// Why something is not recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    BaseUrl(String),
    UnknownKey,
    /// The entry at this index has the same key.
    SameKey(usize),
    /// The entry at this index has the same agent.
    SameAgent(usize),
    /// Another row of the ledger has the same agent.
    AgentOfAnotherRow,
    /// The identifier is a word for nobody, or is empty.
    Nobody,
    LongId(usize),
    Succeeded,
    InFlight,
}

impl LedgerError {
    pub(super) fn new(path: &Path, purpose: Purpose, cause: Cause) -> Self {
        Self(Arc::new(Inner {
            path: path.to_owned(),
            purpose,
            cause,
        }))
    }

    /// An error of this kind, made by hand (feature `test-util`): of a job, whose ledger is the file at `path`.
    ///
    /// ```
    /// use dealkit::{ErrorKind, LedgerError, LedgerErrorKind, test_util::ErrorBuilder};
    ///
    /// let full = LedgerError::of_kind(LedgerErrorKind::Io, "agents.ledger");
    /// let error = ErrorBuilder::ledger(full).build();
    /// assert_eq!(error.kind(), ErrorKind::Ledger);
    /// assert_eq!(error.ledger_error().unwrap().kind(), LedgerErrorKind::Io);
    /// ```
    #[cfg(all(feature = "ledger", feature = "test-util"))]
    pub fn of_kind(kind: LedgerErrorKind, path: impl AsRef<Path>) -> Self {
        let (theirs, ours) = ("another".to_owned(), "this".to_owned());
        let cause = match kind {
            LedgerErrorKind::InUse => Cause::InUse,
            LedgerErrorKind::OtherService => Cause::OtherService { theirs, ours },
            LedgerErrorKind::OtherKeys => Cause::OtherKeys { theirs, ours },
            LedgerErrorKind::NotALedger => Cause::NotALedger("it was made by hand"),
            LedgerErrorKind::NewerFormat => Cause::NewerFormat(i64::MAX),
            LedgerErrorKind::Broken => Cause::Broken("it was made by hand".to_owned()),
            LedgerErrorKind::Moved => Cause::Moved("moved"),
            LedgerErrorKind::Refused => Cause::Refused(Refusal::UnknownKey),
            LedgerErrorKind::Io => Cause::Io(io::ErrorKind::StorageFull.into()),
        };
        Self::new(path.as_ref(), Purpose::Job, cause)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> LedgerErrorKind {
        match &self.0.cause {
            Cause::InUse | Cause::Forked => LedgerErrorKind::InUse,
            Cause::OtherService { .. } => LedgerErrorKind::OtherService,
            Cause::OtherKeys { .. } => LedgerErrorKind::OtherKeys,
            Cause::NotALedger(_) => LedgerErrorKind::NotALedger,
            Cause::NewerFormat(_) => LedgerErrorKind::NewerFormat,
            Cause::Broken(_) => LedgerErrorKind::Broken,
            Cause::Moved(_) => LedgerErrorKind::Moved,
            Cause::Refused(_) | Cause::RefusedEntry(..) => LedgerErrorKind::Refused,
            Cause::Io(_) => LedgerErrorKind::Io,
        }
    }

    /// Whether the file is a ledger all the same.
    pub(super) fn is_of_a_ledger(&self) -> bool {
        matches!(
            self.0.cause,
            Cause::InUse | Cause::NewerFormat(_) | Cause::Broken(_) | Cause::Moved(_)
        )
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Which of the entries to be [settled](super::Ledger::settle) is refused, counted from 0.
    pub fn index(&self) -> Option<usize> {
        match self.0.cause {
            Cause::RefusedEntry(index, _) => Some(index),
            _ => None,
        }
    }
}

impl LedgerErrorKind {
    /// `in_use`, `other_service`, `other_keys`, `not_a_ledger`, `newer_format`, `broken`, `moved`, `refused` or `io`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::OtherService => "other_service",
            Self::OtherKeys => "other_keys",
            Self::NotALedger => "not_a_ledger",
            Self::NewerFormat => "newer_format",
            Self::Broken => "broken",
            Self::Moved => "moved",
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
    /// Writes what was wrong, and what to do about it. Whoever follows the advice must not create anybody twice: a
    /// ledger that has rows is never to be replaced by a new one.
    fn tell(&self, purpose: Purpose, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = match purpose {
            Purpose::Job => "run the job again with the same ledger: it resumes where it stopped",
            Purpose::Note | Purpose::Read => "try again",
        };
        match self {
            Cause::InUse => write!(
                f,
                "another program has kept it locked for half a minute; end that program, then {again}"
            ),
            Cause::Forked => f.write_str(
                "this process was forked from one that had a ledger open, and cannot use SQLite; start it with spawn \
                 instead of fork, or fork before the ledger is opened",
            ),
            Cause::OtherService { theirs, ours } => write!(
                f,
                "it is the ledger of another service, {theirs}, and this job is for {ours}. If that is the same \
                 service, with the same agents, under another address, record the new address with `dealkit ledger \
                 move`. If the agents of the two have nothing to do with each other, name another ledger for {ours}"
            ),
            Cause::OtherKeys { theirs, ours } => write!(
                f,
                "its keys are called {theirs:?}, and those of this job {ours:?}. Nothing was sent: with other keys \
                 the ledger would recognise none of its rows, and every agent would be created again. Use the keys \
                 that it has"
            ),
            Cause::NotALedger(why) => {
                write!(f, "the file is not a ledger ({why}), and was left unchanged; ")?;
                f.write_str(match purpose {
                    Purpose::Job => {
                        "if it was one, restore it from a backup. Only if these rows never had a ledger, name a file that \
                         does not exist yet"
                    }
                    Purpose::Note | Purpose::Read => "name the ledger of a job",
                })
            }
            Cause::NewerFormat(version) => write!(
                f,
                "its format, {version}, is newer than this version of dealkit supports; update dealkit"
            ),
            Cause::Broken(what) => write!(
                f,
                "it is damaged ({what}): something other than dealkit has changed it, or the disk has lost a part of \
                 it. Restore it from a backup, and leave out the rows that were sent since: the backup does not know \
                 them, and would have them created again. Do not begin a new ledger, which would create everybody again"
            ),
            Cause::Moved(how) => write!(
                f,
                "the file was {how} while it was open, and nothing more was sent. Put it back before you run the job \
                 again: without it, everybody would be created again"
            ),
            Cause::Refused(refusal) => write!(f, "{refusal}. Nothing was recorded"),
            Cause::RefusedEntry(index, refusal) => write!(
                f,
                "the entry at index {index} is refused: {refusal}. Nothing was recorded"
            ),
            Cause::Io(error) => {
                use io::ErrorKind::*;
                write!(f, "{error}; ")?;
                match (error.kind(), purpose) {
                    (NotFound, Purpose::Job) => f.write_str("create the folder first"),
                    (NotFound, _) => f.write_str("name the ledger of a job"),
                    (PermissionDenied | ReadOnlyFilesystem, Purpose::Read) => {
                        f.write_str("make it readable")
                    }
                    (PermissionDenied | ReadOnlyFilesystem, _) => {
                        write!(f, "make the file and its folder writable, and {again}")
                    }
                    (StorageFull | QuotaExceeded | FileTooLarge, _) => {
                        write!(f, "make room, and {again}")
                    }
                    _ => write!(f, "once that is fixed, {again}"),
                }
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::BaseUrl(what) => f.write_str(what),
            Refusal::UnknownKey => f.write_str(
                "its key is not in the ledger: pass exactly the key that the row had in the job",
            ),
            Refusal::SameKey(first) => write!(f, "the one at index {first} has the same key"),
            Refusal::SameAgent(first) => write!(
                f,
                "the one at index {first} has the same agent's identifier, and two rows cannot have one agent"
            ),
            Refusal::AgentOfAnotherRow => {
                f.write_str("another row of the ledger has the agent with this identifier")
            }
            Refusal::Nobody => f.write_str(
                "its agent's identifier is empty or a word for nobody. If the service has the agent, pass the \
                 identifier that it has there; only if you are sure that there is none, settle the row as having no \
                 agent",
            ),
            Refusal::LongId(longest) => {
                write!(f, "its agent's identifier is longer than {longest} bytes")
            }
            Refusal::Succeeded => {
                f.write_str("the service itself has said that it created this row's agent")
            }
            Refusal::InFlight => {
                f.write_str("a job is sending this row now: wait until it has ended")
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
