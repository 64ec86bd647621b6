//! A row of a job that creates many agents: its request, its progress and its result.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
#[cfg(feature = "ledger")]
use futures_util::future::BoxFuture;

#[cfg(feature = "ledger")]
use crate::ledger::LedgerRow;
use crate::{
    calls::agents::create_operation,
    error::{call::Error, kind::ErrorKind},
    ledger::LedgerError,
    model::{Agent, CreateAgent},
    transport::{call_progress::CallProgress, outcome::Outcome},
    value::{AgentId, Json, opaque_debug},
};

/// The result of one row of a [`CreateMany`](crate::CreateMany).
///
/// `Debug` shows no personal data except identifiers and the title and detail of an error response, which the service writes.
/// [`CreateMany`](crate::CreateMany) has an example.
#[non_exhaustive]
pub struct Creation<T = Agent> {
    /// The index of the row in the input, from 0.
    pub index: usize,
    /// The agent that was created in this or an earlier run, or an error.
    pub result: Result<Created<T>, Error>,
    /// The row's key, if it has one.
    pub key: Option<String>,
    /// The error, if the row's outcome could not be written to the ledger. A later run then treats the outcome as unknown;
    /// this run sends no more rows.
    pub ledger_error: Option<LedgerError>,
}

/// An agent that was created by this run or, according to a [ledger](crate::CreateMany::ledger), by an earlier run.
///
/// ```
/// use dealkit::{Created, Creation};
///
/// fn report(creation: &Creation) -> String {
///     match &creation.result {
///         Ok(Created::Now(agent)) => format!("created {}", agent.id),
///         Ok(Created::Already { agent_id: Some(id), .. }) => format!("was created in an earlier run: {id}"),
///         Ok(Created::Already { .. }) => "was created in an earlier run, but its id is not known".to_owned(),
///         Err(error) => format!("{}: {error}", error.outcome()),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Created<T = Agent> {
    /// This run created the agent. Contains the agent or, with [`raw_responses`](crate::CreateMany::raw_responses), the
    /// response.
    Now(T),
    /// An earlier run or another job created the agent, so nothing was sent.
    #[non_exhaustive]
    Already {
        /// The agent's identifier, unless the response could not be read.
        agent_id: Option<AgentId>,
        /// The time at which the row was sent.
        sent_at: Option<DateTime<Utc>>,
        /// True if the row has changed since it was sent. The changes were not sent.
        request_differs: bool,
    },
}

impl<T> Created<T> {
    /// Returns the agent, if this run created it.
    pub fn now(self) -> Option<T> {
        match self {
            Created::Now(agent) => Some(agent),
            Created::Already { .. } => None,
        }
    }
}

impl Created {
    /// Returns the identifier of the agent that was created in this or an earlier run.
    pub fn agent_id(&self) -> Option<&AgentId> {
        match self {
            Created::Now(agent) => Some(&agent.id),
            Created::Already { agent_id, .. } => agent_id.as_ref(),
        }
    }
}

impl<T> Creation<T> {
    pub(crate) fn from_result(index: usize, result: Result<T, Error>) -> Self {
        Self {
            index,
            result: result.map(Created::Now),
            key: None,
            ledger_error: None,
        }
    }

    pub(crate) fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// Creates the result of a row that was not sent, or was cancelled.
    pub(crate) fn not_sent(index: usize, error: Error) -> Self {
        Self::from_result(index, Err(error.with_operation(&create_operation())))
    }

    /// Returns the outcome of the row: `Succeeded` if the agent was created, even if the response could not be read;
    /// otherwise the [outcome of the error](Error::outcome).
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(_) => Outcome::Succeeded,
            Err(error) => error.outcome(),
        }
    }

    /// Returns whether the row differs from its request in the [ledger](crate::CreateMany::ledger). The change was not sent.
    /// False if the ledger has no record of the row.
    pub fn request_differs(&self) -> bool {
        match &self.result {
            Ok(created) => matches!(
                created,
                Created::Already {
                    request_differs: true,
                    ..
                }
            ),
            Err(error) => error.request_differs(),
        }
    }

    /// Returns whether this result comes from the [ledger](crate::CreateMany::ledger), which has it from an earlier run or
    /// another job. Nothing was then sent, and `result` is [`Created::Already`], or an error of kind
    /// [`AlreadyAttempted`](crate::ErrorKind::AlreadyAttempted) or
    /// [`IdempotencyKeyReused`](crate::ErrorKind::IdempotencyKeyReused).
    pub fn is_from_ledger(&self) -> bool {
        match &self.result {
            Ok(created) => matches!(created, Created::Already { .. }),
            Err(error) => matches!(
                error.kind(),
                ErrorKind::AlreadyAttempted | ErrorKind::IdempotencyKeyReused
            ),
        }
    }
}

impl Creation {
    /// Returns the identifier of the agent that was created in this or an earlier run.
    pub fn agent_id(&self) -> Option<&AgentId> {
        self.result.as_ref().ok()?.agent_id()
    }
}

impl<T: fmt::Debug> fmt::Debug for Creation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Creation")
            .field("index", &self.index)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "ledger")]
impl<T> Creation<T> {
    /// Creates the result of a row that is not sent, because the ledger has this record of the row.
    pub(crate) fn from_record(index: usize, recorded_row: LedgerRow) -> Self {
        if recorded_row.outcome != Outcome::Succeeded {
            return Self::not_sent(index, Error::already_attempted(&recorded_row, None));
        }
        let created = Created::Already {
            agent_id: recorded_row.agent_id,
            sent_at: recorded_row.sent_at,
            request_differs: recorded_row.request_differs,
        };
        Self {
            index,
            result: Ok(created),
            key: None,
            ledger_error: None,
        }
    }
}

/// The progress of a row. The row's future updates the progress, and when the job is cancelled, the progress shows how far the
/// row got.
pub(crate) struct RowProgress {
    /// The progress of the row's call.
    pub(crate) call: Arc<CallProgress>,
    state: Mutex<RowState>,
}

#[derive(Default)]
struct RowState {
    has_effects: bool,
    is_cancelled: bool,
    may_exist: bool,
    /// Records the outcome of a row that was cancelled.
    #[cfg(feature = "ledger")]
    last_record: Option<RecordFuture>,
}

/// Writes a record to a ledger, and completes once the record is durable.
#[cfg(feature = "ledger")]
pub(crate) type RecordFuture = BoxFuture<'static, Result<Option<LedgerRow>, LedgerError>>;

impl RowProgress {
    pub(crate) fn new(call: Arc<CallProgress>) -> Self {
        Self {
            call,
            state: Mutex::default(),
        }
    }

    /// Sets whether polling the row's future may send the request or run the caller's `resolve`. While this is true, the future of
    /// a cancelled row must not be polled.
    pub(crate) fn set_has_effects(&self, has_effects: bool) {
        self.lock_state().has_effects = has_effects;
    }

    pub(crate) fn has_effects(&self) -> bool {
        self.lock_state().has_effects
    }

    /// Sets whether a request of an earlier run may have created the agent.
    #[cfg(feature = "ledger")]
    pub(crate) fn set_may_exist(&self, may_exist: bool) {
        self.lock_state().may_exist = may_exist;
    }

    pub(crate) fn may_exist(&self) -> bool {
        self.lock_state().may_exist
    }

    /// Records that the row must not be sent any more.
    pub(crate) fn cancel(&self) {
        self.lock_state().is_cancelled = true;
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock_state().is_cancelled
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn set_last_record(&self, record: RecordFuture) {
        self.lock_state().last_record = Some(record);
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn take_last_record(&self) -> Option<RecordFuture> {
        self.lock_state().last_record.take()
    }

    fn lock_state(&self) -> MutexGuard<'_, RowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row of a [`CreateMany`](crate::CreateMany): the request for an agent, or an error if the request could not be built.
///
/// | from | |
/// |---|---|
/// | [`CreateAgent`] | the request is sent unchanged: [`build`](crate::CreateAgent::builder) has checked every rule, `build_unvalidated` none |
/// | [`Json`] | a body that is sent unchanged, for services that accept more than the rules allow |
/// | a `Result` with one of these | such as the return value of [`build`](crate::CreateAgent::builder): an error becomes the row's error |
/// | `(key, row)`, [`KeyedRow`] | a row with its key, for a job with a [ledger](crate::CreateMany::ledger) |
pub struct CreateRow {
    pub(crate) body: Result<Bytes, Error>,
    pub(crate) key: Option<String>,
    pub(crate) label: Option<String>,
}

impl CreateRow {
    /// The maximum length of a label, in bytes.
    pub const MAX_LABEL: usize = 256;

    /// Makes a row from a JSON text, or from an error, for bindings, which write the JSON themselves.
    #[doc(hidden)]
    pub fn from_text(body: Result<Bytes, Error>) -> Self {
        Self {
            body,
            key: None,
            label: None,
        }
    }

    /// Sets the key that identifies the row in a [ledger](crate::CreateMany::ledger), in this run and the next. A job without a
    /// ledger does not send a row with a key, because the next run would create its agent again: the row's result is an error
    /// of kind [`Config`](ErrorKind::Config).
    pub fn key(mut self, key: impl Into<String>) -> KeyedRow {
        self.key = Some(key.into());
        KeyedRow(self)
    }

    /// Sets a label that the [ledger](crate::CreateMany::ledger) records with the row, such as an identifier in your own
    /// system. The label is stored as text and shown with the row and in its error, so it must not be personal data. A label
    /// longer than [`MAX_LABEL`](Self::MAX_LABEL) is the row's error.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

/// Checks that a ledger can record this label.
#[cfg(feature = "ledger")]
pub(crate) fn check_label(label: Option<&str>) -> Result<(), Error> {
    let is_valid = |label: &str| label.len() <= CreateRow::MAX_LABEL && !label.contains('\0');
    if label.is_none_or(is_valid) {
        return Ok(());
    }
    Err(Error::config(format!(
        "not sent: the row's label is longer than {} bytes, or contains the character U+0000",
        CreateRow::MAX_LABEL
    )))
}

/// A [`CreateRow`] with its key, as a job with a [ledger](crate::CreateMany::ledger) needs it: from a pair `(key, row)`, or
/// [`CreateRow::key`].
///
/// The key identifies the row in the ledger, in this run and the next, and is never sent to the service. A job without a ledger
/// does not send the row: see [`CreateRow::key`].
///
/// ```
/// use dealkit::{CreateRow, Json, KeyedRow};
///
/// # fn example(body: Json) {
/// let row = KeyedRow::from(("crm-4711", CreateRow::from(body).label("batch 7")));
/// # }
/// ```
pub struct KeyedRow(CreateRow);

impl KeyedRow {
    /// Sets the label of the row; see [`CreateRow::label`].
    pub fn label(self, label: impl Into<String>) -> Self {
        Self(self.0.label(label))
    }
}

impl<K: Into<String>, R: Into<CreateRow>> From<(K, R)> for KeyedRow {
    fn from((key, row): (K, R)) -> Self {
        row.into().key(key)
    }
}

impl From<KeyedRow> for CreateRow {
    fn from(row: KeyedRow) -> Self {
        row.0
    }
}

impl<K: Into<String>, R: Into<CreateRow>> From<(K, R)> for CreateRow {
    fn from(row: (K, R)) -> Self {
        KeyedRow::from(row).0
    }
}

impl From<CreateAgent> for CreateRow {
    fn from(request: CreateAgent) -> Self {
        request.to_json().into()
    }
}

impl From<Json> for CreateRow {
    fn from(body: Json) -> Self {
        Self::from_text(Ok(body.into_text().into()))
    }
}

impl<R: Into<CreateRow>, E: Into<Error>> From<Result<R, E>> for CreateRow {
    fn from(row: Result<R, E>) -> Self {
        match row {
            Ok(row) => row.into(),
            Err(error) => Self::from_text(Err(error.into())),
        }
    }
}

opaque_debug!(CreateRow);
opaque_debug!(KeyedRow);
