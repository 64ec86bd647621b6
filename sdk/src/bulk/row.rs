//! A row of many creates, before and after: the request for an agent, and what became of it.

#[cfg(feature = "ledger")]
use std::sync::{Mutex, PoisonError};
use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
#[cfg(feature = "ledger")]
use futures_util::future::BoxFuture;
use serde::Deserialize;

#[cfg(feature = "ledger")]
use crate::ledger::LedgerRow;
use crate::{
    error::{call::Error, kind::ErrorKind},
    ledger::LedgerError,
    model::{Agent, CreateAgent},
    specification::wire,
    transport::{call_progress::CallProgress, operation::Operation, outcome::Outcome},
    value::{AgentId, Json, opaque_debug},
};

/// One agent of many: its row, and the result.
///
/// `Debug` shows no personal data. [`CreateMany`](crate::CreateMany) has an example.
#[non_exhaustive]
pub struct Creation<T = Agent> {
    /// The index of the row among those given, from 0.
    pub index: usize,
    /// The agent that was created, now or before, or the error why none is known.
    pub result: Result<Created<T>, Error>,
    /// The row's key, if it has one.
    pub key: Option<String>,
    /// Why the row's outcome could not be written to the ledger, if that failed. A later run then treats the outcome as
    /// unknown; this run sends no more rows.
    pub ledger_error: Option<LedgerError>,
}

/// The agent was created: now, or, according to a [ledger](crate::CreateMany::ledger), before.
///
/// ```
/// use dealkit::{Created, Creation};
///
/// fn report(creation: &Creation) -> String {
///     match &creation.result {
///         Ok(Created::Now(agent)) => format!("created {}", agent.id),
///         Ok(Created::Already { agent_id: Some(id), .. }) => format!("was created in an earlier run: {id}"),
///         Ok(Created::Already { .. }) => "was created in an earlier run, and nobody has read its id".to_owned(),
///         Err(error) => format!("{}: {error}", error.outcome()),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Created<T = Agent> {
    /// This run created it: the agent, or, for [`raw_responses`](crate::CreateMany::raw_responses), the response.
    Now(T),
    /// An earlier run or another job created it, so nothing was sent.
    #[non_exhaustive]
    Already {
        /// The agent's identifier, unless the response could not be read.
        agent_id: Option<AgentId>,
        /// When the row was sent.
        sent_at: Option<DateTime<Utc>>,
        /// Whether the request that was sent differs from the row, whose changes were therefore not sent.
        request_differs: bool,
    },
}

impl<T> Created<T> {
    /// What this run created, if it did.
    pub fn now(self) -> Option<T> {
        match self {
            Created::Now(agent) => Some(agent),
            Created::Already { .. } => None,
        }
    }
}

impl<T> Creation<T> {
    pub(crate) fn of(index: usize, result: Result<T, Error>) -> Self {
        Self {
            index,
            result: result.map(Created::Now),
            key: None,
            ledger_error: None,
        }
    }

    /// What is known about a row that was not sent, or was cancelled.
    pub(crate) fn not_sent(index: usize, error: Error) -> Self {
        let operation = Operation {
            method: http::Method::POST,
            template: wire::AGENTS_PATH.into(),
        };
        Self::of(index, Err(error.with_operation(&operation)))
    }

    /// The outcome of the row: `Succeeded` if the agent was created, even if the response could not be read;
    /// otherwise the [outcome of the error](Error::outcome).
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(_) => Outcome::Succeeded,
            Err(error) => error.outcome(),
        }
    }

    /// Whether the [ledger](crate::CreateMany::ledger)'s record of the row is of another request than the row has now, so that a
    /// change was not sent. False if nothing is recorded.
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

    /// Whether this is the [ledger](crate::CreateMany::ledger)'s record of an earlier run or another job, and nothing
    /// was sent: `result` is then [`Created::Already`], or an error of kind [`AlreadyAttempted`](crate::ErrorKind::AlreadyAttempted).
    pub fn is_from_ledger(&self) -> bool {
        match &self.result {
            Ok(created) => matches!(created, Created::Already { .. }),
            Err(error) => error.kind() == ErrorKind::AlreadyAttempted,
        }
    }
}

impl Creation {
    /// The agent that was created, in this run or an earlier one.
    pub fn agent_id(&self) -> Option<&AgentId> {
        match &self.result {
            Ok(Created::Now(agent)) => Some(&agent.id),
            Ok(Created::Already { agent_id, .. }) => agent_id.as_ref(),
            Err(_) => None,
        }
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

/// How far a row has come.
#[derive(Default)]
pub(crate) struct Course {
    /// That of its call, if it has one.
    pub(crate) progress: Arc<CallProgress>,
    /// Whether something may be sent the next time that its future is polled.
    pub(crate) may_send: AtomicBool,
    /// Whether it must no longer be sent.
    pub(crate) is_given_up: AtomicBool,
    /// Whether an earlier run may have created the agent.
    pub(crate) is_unresolved: AtomicBool,
    /// The note that was made of the row when it was given up.
    #[cfg(feature = "ledger")]
    pub(crate) last_note: Mutex<Option<Noting>>,
}

/// A note in a ledger, which completes once it is durable.
#[cfg(feature = "ledger")]
pub(crate) type Noting = BoxFuture<'static, Result<Option<LedgerRow>, LedgerError>>;

#[cfg(feature = "ledger")]
impl Course {
    pub(crate) fn set_last_note(&self, note: Noting) {
        let mut last = self
            .last_note
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(note);
    }

    pub(crate) fn take_last_note(&self) -> Option<Noting> {
        let mut last = self
            .last_note
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.take()
    }
}

/// The identifier in the body of a response, whatever else it contains.
pub(crate) fn id_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        id: String,
    }
    serde_json::from_slice(body).ok().map(|Created { id }| id)
}

/// A row of a [`CreateMany`](crate::CreateMany): the request for an agent, or the error why there is none.
///
/// | made from | |
/// |---|---|
/// | [`CreateAgent`] | the request is sent as it was built: [`build`](crate::CreateAgent::builder) has checked every rule, `build_unvalidated` none |
/// | [`Json`] | a body that is sent as it is, for services that accept more than the rules allow |
/// | a `Result` of these | such as the return value of [`build`](crate::CreateAgent::builder): an error becomes the row's error |
/// | `(key, row)` | a row with its key, for a [ledger](crate::CreateMany::ledger) |
pub struct CreateRow {
    pub(crate) body: Result<Bytes, Error>,
    pub(crate) key: Option<String>,
    pub(crate) label: Option<String>,
}

impl CreateRow {
    /// A row made from the text of a JSON value, or from an error: for bindings, which write the JSON themselves.
    #[doc(hidden)]
    pub fn written(body: Result<Bytes, Error>) -> Self {
        Self {
            body,
            key: None,
            label: None,
        }
    }

    /// Sets the key that identifies the row in a [ledger](crate::CreateMany::ledger), in this run and the next.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl CreateRow {
    /// The maximum length of a label, in bytes.
    pub const MAX_LABEL: usize = 256;

    /// Sets a label that the [ledger](crate::CreateMany::ledger) records with the row, such as an identifier in your own system. It
    /// is stored as text and shown with the row, so it must not be personal data. A longer label than
    /// [`MAX_LABEL`](Self::MAX_LABEL) is the row's error.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }
}

impl<K: Into<String>, R: Into<CreateRow>> From<(K, R)> for CreateRow {
    fn from((key, row): (K, R)) -> Self {
        row.into().key(key)
    }
}

impl From<CreateAgent> for CreateRow {
    fn from(request: CreateAgent) -> Self {
        Self::written(Ok(request.to_json().into_text().into()))
    }
}

impl From<Json> for CreateRow {
    fn from(body: Json) -> Self {
        Self::written(Ok(body.into_text().into()))
    }
}

impl<R: Into<CreateRow>, E: Into<Error>> From<Result<R, E>> for CreateRow {
    fn from(row: Result<R, E>) -> Self {
        match row {
            Ok(row) => row.into(),
            Err(error) => Self::written(Err(error.into())),
        }
    }
}

opaque_debug!(CreateRow);
