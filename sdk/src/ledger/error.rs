//! What can be wrong with a ledger, and what to do about it.

use std::{
    borrow::Cow,
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::value::named_enum;

/// Why a ledger cannot be used or changed.
///
/// `Display` says what to do about it.
#[derive(Clone)]
pub struct LedgerError(Arc<Facts>);

struct Facts {
    place: Place,
    cause: Cause,
}

/// In place of the URL of a database that may have a password anywhere.
pub(super) const HIDDEN_URL: &str = "postgresql://…";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    File(PathBuf),
    /// The URL of a database, without a password.
    Database(Arc<str>),
}

named_enum! {
    /// What kind of failure a [`LedgerError`] is.
    #[non_exhaustive]
    LedgerErrorKind {
        /// Another program has kept it locked for half a minute, or this process was forked from one that had a ledger open.
        InUse = "in_use",
        /// It is the ledger of another service.
        OtherService = "other_service",
        /// Its keys have another name than those of the job.
        OtherKeys = "other_keys",
        /// The file is not a ledger.
        NotALedger = "not_a_ledger",
        /// It was created by a newer version of dealkit.
        NewerFormat = "newer_format",
        /// Something other than dealkit has changed it, or the disk has.
        Broken = "broken",
        /// The file was moved, deleted or replaced while it was open.
        Moved = "moved",
        /// An entry cannot be right. If it is one of many, [`LedgerError::index`] says which.
        Refused = "refused",
        /// The operating system denies opening, reading or writing the file, or the database denies its user access.
        Io = "io",
        /// The database cannot be reached, or was out of reach for too long.
        Unreachable = "unreachable",
    }
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
        theirs: Option<String>,
        ours: Option<String>,
    },
    NotALedger(&'static str),
    NewerFormat(i64),
    Broken(String),
    /// The kind of ledger cannot do this.
    Unsupported(&'static str),
    /// The file has another name, or how it has one.
    OtherName(&'static str),
    Moved(&'static str),
    /// The problem of the base URL to be recorded.
    BaseUrl(Cow<'static, str>),
    DatabaseUrl(&'static str),
    /// Why there is no connection, or no answer.
    Unreachable(String),
    /// Other jobs may take this one for dead.
    LeaseLost,
    /// The file that shows that the job is alive is gone.
    LockDeleted,
    /// Why the user may not do it.
    Denied(String),
    Refused(usize, Refusal),
    Io(io::Error),
}

/// Why something is not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "its key is not in the ledger: pass exactly the key that the row had in the job, with all its zeros. A spreadsheet may \
         have changed it, as in 123 for 00123"
    )]
    UnknownKey,
    #[error("an earlier entry has the same key")]
    SameKey,
    #[error("an earlier entry has the same agent's identifier, and two rows cannot have one agent")]
    SameAgent,
    #[error("another row of the ledger has the agent with this identifier")]
    AgentOfAnotherRow,
    #[error(
        "its agent's identifier is empty, or a word that stands for no agent. If the service has the agent, pass the \
         identifier that it has there; only if you are sure that there is none, resolve the row as having no agent"
    )]
    Nobody,
    #[error("its agent's identifier is longer than {0} bytes")]
    LongId(usize),
    #[error("its agent's identifier contains the character U+0000, which no identifier has")]
    ZeroByte,
    #[error("the service has confirmed that it created this row's agent")]
    Succeeded,
    #[error("a job is sending this row now: wait until it has ended")]
    InFlight,
}

impl LedgerError {
    pub(super) fn new(place: Place, cause: Cause) -> Self {
        Self(Arc::new(Facts { place, cause }))
    }

    pub(super) fn of_file(path: &Path, cause: Cause) -> Self {
        Self::new(Place::File(path.to_owned()), cause)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> LedgerErrorKind {
        match &self.0.cause {
            Cause::InUse | Cause::Forked => LedgerErrorKind::InUse,
            Cause::OtherService { .. } => LedgerErrorKind::OtherService,
            Cause::OtherKeys { .. } => LedgerErrorKind::OtherKeys,
            Cause::NotALedger(_)
            | Cause::OtherName(_)
            | Cause::DatabaseUrl(_)
            | Cause::Unsupported(_) => LedgerErrorKind::NotALedger,
            Cause::NewerFormat(_) => LedgerErrorKind::NewerFormat,
            Cause::Broken(_) => LedgerErrorKind::Broken,
            Cause::Moved(_) | Cause::LockDeleted => LedgerErrorKind::Moved,
            Cause::BaseUrl(_) | Cause::Refused(..) => LedgerErrorKind::Refused,
            Cause::Io(_) | Cause::Denied(_) => LedgerErrorKind::Io,
            Cause::Unreachable(_) | Cause::LeaseLost => LedgerErrorKind::Unreachable,
        }
    }

    /// Whether nothing more is to be sent, even once it can be written again: it may know less than it did.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self.0.cause,
            Cause::Broken(_) | Cause::Moved(_) | Cause::LockDeleted
        )
    }

    /// The path of the file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0.place {
            Place::File(path) => Some(path),
            Place::Database(_) => None,
        }
    }

    /// Which of the entries to be [resolved](super::Ledger::resolve) is refused, counted from 0.
    pub fn index(&self) -> Option<usize> {
        match self.0.cause {
            Cause::Refused(index, _) => Some(index),
            _ => None,
        }
    }
}

impl Cause {
    /// What was wrong, and what to do about it. Whoever follows the advice must not create anybody twice: a ledger that has
    /// rows is never to be replaced by a new one.
    fn message(&self, is_database: bool) -> String {
        const AGAIN: &str = "try again with the same ledger, which knows what was sent";
        let what = if is_database { "it" } else { "the file" };
        match self {
            Cause::InUse => format!(
                "another program has kept it locked for half a minute; end that program, then {AGAIN}"
            ),
            Cause::Forked => "this process was forked from one that had a ledger open, and cannot use SQLite; start it \
                              with spawn instead of fork, or fork before the ledger is opened"
                .to_owned(),
            Cause::OtherService { theirs, ours } => {
                let another = if is_database {
                    "another schema, with ?schema=NAME at the end of the URL,"
                } else {
                    "another ledger"
                };
                format!(
                    "it is the ledger of another service, {theirs}, and this is a client of {ours}. If that is the same \
                     service, with the same agents, at another base URL, record the new base URL in the ledger. If they are \
                     separate services, with agents of their own, name {another} for {ours}"
                )
            }
            Cause::OtherKeys { theirs, ours } => {
                let name = |keys: &Option<String>| match keys {
                    Some(name) => format!("are called {name:?}"),
                    None => "have no name".to_owned(),
                };
                let differ = format!("{}, but those used here {}", name(theirs), name(ours));
                format!(
                    "its keys {differ}. Nothing was sent: with other keys the ledger would recognise none of its rows, and \
                     every agent would be created again. Use the ledger's own keys"
                )
            }
            Cause::NotALedger(why) => format!(
                "{what} is not a ledger ({why}), and was left unchanged; name the ledger of a job. If it was one, restore it \
                 from a backup. Only if these rows never had a ledger, name a file that does not exist yet"
            ),
            Cause::NewerFormat(version) => format!(
                "its format, {version}, is newer than this version of dealkit supports; update dealkit"
            ),
            Cause::Broken(what) => format!(
                "it is damaged ({what}): something other than dealkit has changed it, or the disk has lost a part of \
                 it. Restore it from a backup, and leave out the rows sent after it was made: it does not know \
                 them, and they would be created again. Do not start a new ledger: it would create every agent again"
            ),
            Cause::Unsupported(why) => (*why).to_owned(),
            Cause::OtherName(why) => format!(
                "{why}. A ledger must have one name: jobs that use another one do not see each other, and would create agents \
                 twice. Nothing was sent"
            ),
            Cause::Moved(how) => format!(
                "{what} was {how} while it was open, and nothing more was sent. Put it back before you start the program \
                 again: without it, every agent would be created again"
            ),
            Cause::DatabaseUrl(what) => format!(
                "the database URL is invalid: {what}. Expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ),
            Cause::Unreachable(why) => format!(
                "the database cannot be reached ({why}). Nothing is sent unless it can be recorded there; once it responds, \
                 {AGAIN}"
            ),
            Cause::LockDeleted => format!(
                "the file with `-job-` in its name that shows other jobs that this one is alive was deleted. Nothing more was \
                 sent; leave such files alone, and {AGAIN}"
            ),
            Cause::LeaseLost => format!(
                "the database was out of reach, or this program was stopped, for so long that other jobs take this one for \
                 dead. Nothing more was sent; {AGAIN}"
            ),
            Cause::Denied(reason) => format!(
                "the database denies access ({reason}). Its owner can create the tables (ledger init) and grant the rights \
                 that are needed; then {AGAIN}"
            ),
            Cause::BaseUrl(problem) => format!("the base URL {problem}. Nothing was recorded"),
            Cause::Refused(index, refusal) => {
                format!("the entry at index {index} is rejected: {refusal}. Nothing was recorded")
            }
            Cause::Io(error) => {
                use io::ErrorKind::*;
                match error.kind() {
                    NotFound => {
                        format!("{error}; name the ledger of a job or, for a new one, a folder that exists")
                    }
                    AlreadyExists => {
                        "there is already a file with this name; name one that does not exist yet".to_owned()
                    }
                    PermissionDenied | ReadOnlyFilesystem => {
                        format!("{error}; make the file and its folder readable and writable, and {AGAIN}")
                    }
                    StorageFull | QuotaExceeded | FileTooLarge => {
                        format!("{error}; make room, and {AGAIN}")
                    }
                    _ => format!("{error}; once that is fixed, {AGAIN}"),
                }
            }
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Cause::Io(error)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Database(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { place, cause } = &*self.0;
        let is_database = matches!(place, Place::Database(_));
        write!(f, "ledger {place}: {}", cause.message(is_database))
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

// Without a source: `Display` says all that is known.
impl StdError for LedgerError {}
