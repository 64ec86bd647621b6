//! What became of an input of many calls, or of a create with a key.

use std::sync::Arc;

use dealkit::{Created, Creation, RawResponse, Retrieved, ledger::LedgerError};

use pyo3::prelude::*;

use crate::{
    models::response::{self, CallResult, ReadAs},
    python::failure::{Failure, Outcome, into_python},
};

pub(crate) struct Item {
    pub(crate) index: usize,
    /// The identifier that was requested, or the key of the row.
    pub(crate) id: Option<String>,
    /// `None` for an agent that was already created.
    pub(crate) result: Option<CallResult>,
    pub(crate) record: Option<Record>,
}

/// What the ledger says about a row: whether it is the result of an earlier run, the agent's identifier, when it was sent,
/// in milliseconds since 1970, and why the ledger does not have it.
type Record = (bool, Option<String>, Option<i64>, bool, Option<LedgerError>);

impl From<Retrieved<RawResponse>> for Item {
    fn from(retrieved: Retrieved<RawResponse>) -> Self {
        Self {
            index: retrieved.index,
            id: Some(retrieved.id),
            result: Some(retrieved.result.map_err(Arc::new)),
            record: None,
        }
    }
}

impl From<Creation<RawResponse>> for Item {
    fn from(creation: Creation<RawResponse>) -> Self {
        let is_earlier = creation.is_from_ledger();
        let request_differs = creation.request_differs();
        let has_record = is_earlier || creation.ledger_error.is_some();
        let (result, agent_id, sent_at) = match creation.result {
            Ok(Created::Already {
                agent_id, sent_at, ..
            }) => (None, agent_id, sent_at),
            Ok(Created::Now(response)) => (Some(Ok(response)), None, None),
            Err(error) => (Some(Err(Arc::new(error))), None, None),
        };
        Self {
            index: creation.index,
            id: creation.key,
            result,
            record: has_record.then(|| {
                let agent_id = agent_id.map(String::from);
                let sent_at = sent_at.map(|at| at.timestamp_millis());
                (
                    is_earlier,
                    agent_id,
                    sent_at,
                    request_differs,
                    creation.ledger_error,
                )
            }),
        }
    }
}

/// An item for Python: its index, its identifier or key, its value or failure, and its record.
type Parts<'py> = (
    usize,
    Option<String>,
    Option<Bound<'py, PyAny>>,
    Option<(
        bool,
        Option<String>,
        Option<i64>,
        bool,
        Option<Bound<'py, PyAny>>,
    )>,
);

impl Item {
    /// The item for Python; its value is `None` for an agent that was already created.
    pub(crate) fn parts(self, py: Python<'_>, read_as: ReadAs, raw: bool) -> PyResult<Parts<'_>> {
        let value = self.result.map(|result| {
            let value = response::result(py, &result, read_as, raw);
            into_python(py, value)
        });
        let record = self
            .record
            .map(|(is_earlier, agent_id, sent_at, differs, error)| {
                let failure = error.map(|error| into_python::<()>(py, Err(error.into())));
                PyResult::Ok((is_earlier, agent_id, sent_at, differs, failure.transpose()?))
            });
        Ok((self.index, self.id, value.transpose()?, record.transpose()?))
    }
}

/// What a single call comes back with.
pub(crate) enum Reply {
    Response(CallResult),
    /// What became of a key.
    Creation(Item),
}

impl Reply {
    /// The value for Python: what was read, the whole response, or the parts of an item.
    pub(crate) fn value(
        self,
        py: Python<'_>,
        read_as: ReadAs,
        raw: bool,
    ) -> Outcome<Bound<'_, PyAny>> {
        match self {
            Self::Response(result) => response::result(py, &result, read_as, raw),
            Self::Creation(Item {
                result: Some(Err(error)),
                ..
            }) => Err(Failure::Error(error)),
            Self::Creation(item) => Ok(item.parts(py, read_as, raw)?.into_pyobject(py)?.into_any()),
        }
    }
}
