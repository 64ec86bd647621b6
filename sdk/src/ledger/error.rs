//! Errors of ledgers, with advice for each cause.

use std::{
    borrow::Cow,
    error::Error as StdError,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::value::named_enum;

/// Error of a ledger that cannot be used, or that rejects a manual change.
///
/// The message of `Display` also says what to do about the error.
#[derive(Clone)]
pub struct LedgerError(Arc<Inner>);

struct Inner {
    location: LedgerLocation,
    cause: Cause,
}

/// Shown in place of a database URL that is not parsed, because any part of it may be a password.
pub(super) const HIDDEN_URL: &str = "postgresql://…";

/// The events after which the name of a ledger's file no longer leads to the file that was opened.
pub(super) const MOVED_OR_REPLACED: &str = "moved, deleted or replaced";

/// The file or database of a ledger, as messages show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LedgerLocation {
    File(PathBuf),
    /// The URL of a database, without its user and password.
    Database(Arc<str>),
}

named_enum! {
    /// The kind of a [`LedgerError`].
    #[non_exhaustive]
    LedgerErrorKind {
        /// Another program has held the ledger's lock for half a minute, or this process was forked from one that had a ledger
        /// open.
        InUse = "in_use",
        /// The ledger belongs to another service.
        OtherService = "other_service",
        /// The ledger was created with a different `key_name` than the job's.
        OtherKeys = "other_keys",
        /// The file or database is not a ledger, its name or URL is unsuitable, or the operation does not exist for this kind
        /// of ledger: the message says which.
        NotALedger = "not_a_ledger",
        /// The ledger was created by a newer version of dealkit.
        NewerFormat = "newer_format",
        /// The ledger was changed by something other than dealkit, or damaged by the disk.
        Broken = "broken",
        /// The ledger was moved, deleted or replaced.
        Moved = "moved",
        /// An entry to be recorded is invalid or contradicts the ledger. [`LedgerError::index`] is its position, if there are
        /// several.
        Rejected = "rejected",
        /// The operating system denies opening, reading or writing the file, or the database denies its user access.
        Io = "io",
        /// The database cannot be reached, or could not be reached for too long.
        Unreachable = "unreachable",
    }
}

#[derive(Debug)]
pub(super) enum Cause {
    InUse,
    Forked,
    /// The ledger and the client are for different services. The fields are the services' base URLs.
    OtherService {
        ledger_url: String,
        client_url: String,
    },
    /// The ledger's keys and the keys in use have different names.
    OtherKeys {
        ledger_name: Option<String>,
        used_name: Option<String>,
    },
    NotALedger(&'static str),
    NewerFormat(i64),
    Broken(String),
    /// This kind of ledger, or this build, cannot do the operation. The text is the whole message.
    Unsupported(&'static str),
    /// The file can be reached by a second name. The text says how.
    SecondName(&'static str),
    /// The file or the tables were moved, deleted or replaced. The text says which, such as `deleted`.
    Moved(&'static str),
    /// The file is missing, but it existed: the file with this name, which belongs to it, is still next to it.
    Missing(String),
    /// The base URL to be recorded is invalid.
    InvalidBaseUrl(Cow<'static, str>),
    InvalidDatabaseUrl(&'static str),
    /// There is no connection to the database, or no response.
    Unreachable(String),
    /// The job's lease in the database has ended: other jobs may consider this job dead.
    LeaseLost,
    /// The lock file that shows that the job is alive was deleted.
    LockDeleted,
    /// The database denies access to its user.
    Denied(String),
    /// The entry with this index is rejected.
    Rejected(usize, Rejection),
    /// The operating system did not start a thread.
    Thread(io::Error),
    Io(io::Error),
}

/// The reason for which an entry is not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejection {
    #[error(
        "its key is not in the ledger: pass exactly the key that the row had in the job, with all its zeros. A spreadsheet may \
         have changed it, as in 123 for 00123"
    )]
    UnknownKey,
    #[error("an earlier entry has the same key")]
    DuplicateKey,
    #[error("an earlier entry has the same agent's identifier, and two rows cannot have one agent")]
    DuplicateAgent,
    #[error("another row of the ledger has the agent with this identifier")]
    AgentOfAnotherRow,
    #[error(
        "its agent's identifier is empty, or a placeholder for no agent. If the service has the agent, pass the \
         identifier that the service uses; only if you are sure that there is none, resolve the row as having no agent"
    )]
    Placeholder,
    #[error("its agent's identifier is longer than {0} bytes")]
    IdTooLong(usize),
    #[error("its agent's identifier contains the character U+0000, which no identifier has")]
    NulCharacter,
    #[error("the service has confirmed that it created this row's agent")]
    AlreadyCreated,
    #[error("a job is sending this row now: wait until it has ended")]
    InFlight,
}

impl LedgerError {
    pub(super) fn new(location: LedgerLocation, cause: Cause) -> Self {
        Self(Arc::new(Inner { location, cause }))
    }

    pub(super) fn for_file(path: &Path, cause: Cause) -> Self {
        Self::new(LedgerLocation::File(path.to_owned()), cause)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> LedgerErrorKind {
        match &self.0.cause {
            Cause::InUse | Cause::Forked => LedgerErrorKind::InUse,
            Cause::OtherService { .. } => LedgerErrorKind::OtherService,
            Cause::OtherKeys { .. } => LedgerErrorKind::OtherKeys,
            Cause::NotALedger(_)
            | Cause::SecondName(_)
            | Cause::InvalidDatabaseUrl(_)
            | Cause::Unsupported(_) => LedgerErrorKind::NotALedger,
            Cause::NewerFormat(_) => LedgerErrorKind::NewerFormat,
            Cause::Broken(_) => LedgerErrorKind::Broken,
            Cause::Moved(_) | Cause::Missing(_) | Cause::LockDeleted => LedgerErrorKind::Moved,
            Cause::InvalidBaseUrl(_) | Cause::Rejected(..) => LedgerErrorKind::Rejected,
            Cause::Io(_) | Cause::Thread(_) | Cause::Denied(_) => LedgerErrorKind::Io,
            Cause::Unreachable(_) | Cause::LeaseLost => LedgerErrorKind::Unreachable,
        }
    }

    /// Returns whether the job must stop for good: the ledger may have lost rows, so sending stays unsafe even if the ledger becomes
    /// writable again.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self.0.cause,
            Cause::Broken(_) | Cause::Moved(_) | Cause::Missing(_) | Cause::LockDeleted
        )
    }

    /// Returns the path of the file, or `None` for a database.
    pub fn path(&self) -> Option<&Path> {
        match &self.0.location {
            LedgerLocation::File(path) => Some(path),
            LedgerLocation::Database(_) => None,
        }
    }

    /// Returns the position of the rejected entry among those passed to [`resolve`](super::Ledger::resolve) or
    /// [`mark_unknown`](super::Ledger::mark_unknown), counted from 0.
    pub fn index(&self) -> Option<usize> {
        match self.0.cause {
            Cause::Rejected(index, _) => Some(index),
            _ => None,
        }
    }
}

impl Cause {
    /// Writes the message: the event, and what to do. The advice must not lead to a second agent: it never suggests replacing a
    /// ledger that has rows by a new ledger.
    fn message(&self, is_database: bool) -> String {
        const TRY_AGAIN: &str = "try again with the same ledger, which knows what was sent";
        let subject = if is_database { "it" } else { "the file" };
        match self {
            Cause::InUse => format!(
                "another program has held its lock for half a minute; end that program, then {TRY_AGAIN}"
            ),
            Cause::Forked => "this process was forked from one that had a ledger open, and cannot use SQLite; start it \
                              with spawn instead of fork, or fork before the ledger is opened"
                .to_owned(),
            Cause::OtherService {
                ledger_url,
                client_url,
            } => {
                let new_ledger = if is_database {
                    "another schema, with ?schema=NAME at the end of the URL,"
                } else {
                    "another ledger"
                };
                format!(
                    "it is the ledger of another service, {ledger_url}, and this is a client of {client_url}. If that is the same \
                     service, with the same agents, at another base URL, record the new base URL in the ledger. If they are \
                     separate services, each with its own agents, name {new_ledger} for {client_url}"
                )
            }
            Cause::OtherKeys {
                ledger_name,
                used_name,
            } => {
                let describe_name = |key_name: &Option<String>| match key_name {
                    Some(name) => format!("are called {name:?}"),
                    None => "have no name".to_owned(),
                };
                let difference = format!(
                    "{}, but the keys in use {}",
                    describe_name(ledger_name),
                    describe_name(used_name)
                );
                format!(
                    "its keys {difference}. Nothing was sent: with other keys the ledger would recognise none of its rows, and \
                     every agent would be created again. Use the ledger's own keys"
                )
            }
            Cause::NotALedger(why) => {
                let new_target = if is_database {
                    "another schema, with ?schema=NAME at the end of the URL"
                } else {
                    "a file that does not exist yet"
                };
                format!(
                    "{subject} is not a ledger ({why}), and was left unchanged; name the ledger of a job. If it was one, \
                     restore it from a backup. Only if these rows never had a ledger, name {new_target}"
                )
            }
            Cause::NewerFormat(version) => format!(
                "its format, {version}, is newer than this version of dealkit supports; update dealkit"
            ),
            Cause::Broken(damage) => format!(
                "it is damaged ({damage}): something other than dealkit has changed it, or the disk has lost a part of \
                 it. Restore it from a backup, and mark the rows sent after it was made as unknown: it does not know \
                 them, and they would be created again. Do not start a new ledger: it would create every agent again"
            ),
            Cause::Unsupported(why) => (*why).to_owned(),
            Cause::SecondName(why) => format!(
                "{why}. A ledger must have one name: jobs that open it under different names do not see each other, and would \
                 create agents twice. Nothing was sent"
            ),
            Cause::Moved(how) => format!(
                "{subject} was {how} while it was open, and nothing more was sent. Put it back before you start the program \
                 again: without it, every agent would be created again"
            ),
            Cause::Missing(part) => format!(
                "the file is missing, but {part}, which belongs to it, is still there. Nothing was sent: a new ledger would create \
                 every agent again. Put the file back. If it is lost, move {part} to another folder, restore a backup, and mark \
                 the rows sent after it was made as unknown. Only if none of these rows was ever sent, name a ledger that does \
                 not exist yet"
            ),
            Cause::InvalidDatabaseUrl(fault) => format!(
                "the database URL is invalid: {fault}. Expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            ),
            Cause::Unreachable(why) => format!(
                "the database cannot be reached ({why}). Nothing is sent unless it can be recorded there; once it responds, \
                 {TRY_AGAIN}"
            ),
            Cause::LockDeleted => format!(
                "the file with `-job-` in its name, which shows other jobs that this one is alive, was deleted. Nothing more \
                 was sent; do not delete such files, and {TRY_AGAIN}"
            ),
            Cause::LeaseLost => format!(
                "the database could not be reached, or this program was stopped, for so long that other jobs consider this \
                 one dead. Nothing more was sent; {TRY_AGAIN}"
            ),
            Cause::Denied(reason) => format!(
                "the database denies access ({reason}). Have its owner create the tables (ledger init) and grant the rights \
                 that are needed; then {TRY_AGAIN}"
            ),
            Cause::InvalidBaseUrl(problem) => format!("the base URL {problem}. Nothing was recorded"),
            Cause::Rejected(index, rejection) => {
                format!("the entry at index {index} is rejected: {rejection}. Nothing was recorded")
            }
            Cause::Thread(error) => format!(
                "the operating system did not start a thread ({error}). Nothing was sent; end other programs or raise the limit of \
                 threads, and {TRY_AGAIN}"
            ),
            Cause::Io(error) => {
                use io::ErrorKind::*;
                match error.kind() {
                    NotFound => "there is no such file or folder; name the ledger of a job or, for a new one, a file in a folder that exists".to_owned(),
                    AlreadyExists => {
                        "there is already a file with this name; name one that does not exist yet".to_owned()
                    }
                    PermissionDenied | ReadOnlyFilesystem => {
                        format!("{error}; make the file and its folder readable and writable, and {TRY_AGAIN}")
                    }
                    StorageFull | QuotaExceeded | FileTooLarge => {
                        format!("{error}; free some disk space, and {TRY_AGAIN}")
                    }
                    _ => format!("{error}; once that is fixed, {TRY_AGAIN}"),
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

impl fmt::Display for LedgerLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Database(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { location, cause } = &*self.0;
        let is_database = matches!(location, LedgerLocation::Database(_));
        write!(f, "ledger {location}: {}", cause.message(is_database))
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

// There is no `source`: the message contains all that is known.
impl StdError for LedgerError {}
