//! A row of many creates, before and after: the request for an agent, and what became of it.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use bytes::Bytes;
use serde::Deserialize;

use crate::{
    contract::wire,
    error::call::Error,
    http::{call_progress::CallProgress, operation::Operation, outcome::Outcome},
    ledger::LedgerError,
    model::{Agent, CreateAgent},
    value::{AgentId, Json},
};

/// One agent of many: which row it belongs to, and the result.
///
/// `Debug` shows no personal data.
#[non_exhaustive]
pub struct Creation<T = Agent> {
    /// The index of the row among those given, from 0.
    pub index: usize,
    /// The agent, or the error because of which no agent is known.
    pub result: Result<T, Error>,
    /// The row's key, if it has one.
    pub key: Option<String>,
    /// Whether this is the ledger's record from an earlier run, and nothing was sent: `result` is then an error of
    /// kind [`Recorded`](crate::ErrorKind::Recorded), even if the agent was created.
    pub recorded: bool,
    /// Why the outcome of the row could not be written to the ledger, if that failed. A later run then treats the
    /// outcome as unknown; this run sends no more rows.
    pub ledger_error: Option<LedgerError>,
    pub(super) recorded_id: Option<AgentId>,
}

impl<T> Creation<T> {
    pub(crate) fn of(index: usize, result: Result<T, Error>) -> Self {
        Self {
            index,
            result,
            key: None,
            recorded: false,
            ledger_error: None,
            recorded_id: None,
        }
    }

    /// What is known of a row that was not sent, or was given up.
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

    /// The agent that an earlier run created, if the row is [recorded](Self::recorded). `None` if the response
    /// to that create could not be read.
    pub fn recorded_agent_id(&self) -> Option<&AgentId> {
        self.recorded_id.as_ref()
    }
}

impl Creation {
    /// The agent that was created, in this run or an earlier one.
    pub fn agent_id(&self) -> Option<&AgentId> {
        match &self.result {
            Ok(agent) => Some(&agent.id),
            Err(_) => self.recorded_agent_id(),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Creation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Creation")
            .field("index", &self.index)
            .field("result", &self.result)
            .field("recorded", &self.recorded)
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
    pub(crate) is_in_doubt: AtomicBool,
}

/// The identifier in the body of a response, whatever else it contains.
pub(crate) fn id_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        id: String,
    }
    serde_json::from_slice(body).ok().map(|Created { id }| id)
}

/// A row of a [`CreateMany`](crate::CreateMany): the request for an agent, or the error because of which there is none.
///
/// | made from | |
/// |---|---|
/// | [`CreateAgent`] | every rule is checked before it is sent, however it was built |
/// | [`Json`] | a body that is sent as it is, for services that accept more than the rules allow |
/// | a `Result` of these | such as the return value of [`build`](crate::CreateAgent::builder): an error becomes the row's error |
/// | `(key, row)` | a row with its key, for a [ledger](crate::CreateMany::ledger) |
pub struct CreateRow {
    pub(crate) body: Result<Bytes, Error>,
    pub(crate) key: Option<String>,
}

impl CreateRow {
    /// A row made from the text of a JSON value, or from an error: for bindings, which write the JSON themselves.
    #[doc(hidden)]
    pub fn written(body: Result<Bytes, Error>) -> Self {
        Self { body, key: None }
    }

    /// Sets the key that identifies the row in a [ledger](crate::CreateMany::ledger), in this run and the next.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
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
        Self::written(match request.validate() {
            Ok(()) => Ok(request.to_json().into_text().into()),
            Err(error) => Err(error.into()),
        })
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

impl fmt::Debug for CreateRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateRow").finish_non_exhaustive()
    }
}
