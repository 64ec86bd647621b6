//! Results of calls, for single calls and for bulk jobs.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use dealkit::{Created, Creation, RawResponse, Retrieved, ledger::LedgerError};
use pyo3::{
    prelude::*,
    types::{PyDateTime, PyString},
};

use crate::{
    models::response::{self, BodyModel, ResponseResult},
    python::{
        builtin,
        failure::{Result, into_python},
        untrack::untrack,
    },
};

/// The result of a single call.
pub(crate) enum CallResult {
    Response(ResponseResult),
    Creation(ItemResult),
}

impl CallResult {
    /// Converts the result of a `Call` to the value of its body or, with `raw`, to the whole response. Converts the result of a
    /// `CreateOnce` to a [`BulkResult`].
    pub(crate) fn into_object(
        self,
        py: Python<'_>,
        body_model: BodyModel,
        raw: bool,
    ) -> Result<Bound<'_, PyAny>> {
        match self {
            Self::Response(result) => response::to_object(py, &result, body_model, raw),
            Self::Creation(item) => {
                let value = item.read_value(py, body_model, raw)?;
                Ok(item.into_object(py, value)?.into_any())
            }
        }
    }
}

/// The result of one input of a bulk job, or of a create with an idempotency key.
pub(crate) struct ItemResult {
    index: usize,
    /// The requested identifier, or the row's idempotency key.
    id: Option<String>,
    /// `None` if an earlier run created the agent.
    response: Option<ResponseResult>,
    ledger_record: Option<RecordFields>,
}

struct RecordFields {
    is_earlier: bool,
    agent_id: Option<String>,
    sent_at: Option<DateTime<Utc>>,
    request_differs: bool,
    error: Option<LedgerError>,
}

/// An [`ItemResult`] for Python.
#[pyclass(frozen, get_all, module = "dealkit._native")]
pub(crate) struct BulkResult {
    index: usize,
    /// The requested identifier, or the row's idempotency key. None for a row without one.
    id: Option<Py<PyString>>,
    /// A model, a RawResponse or a Failure. None if an earlier run created the agent.
    value: Py<PyAny>,
    ledger_record: Option<Py<LedgerRecord>>,
}

/// Facts that a ledger adds to the result of a create.
#[pyclass(frozen, get_all, module = "dealkit._native")]
pub(crate) struct LedgerRecord {
    /// True if the result is from an earlier run, and nothing was sent.
    is_earlier: bool,
    /// The identifier of the agent that an earlier run created.
    agent_id: Option<String>,
    /// The time at which an earlier run sent the row.
    sent_at: Option<Py<PyDateTime>>,
    /// True if the earlier run sent a different request for this row.
    request_differs: bool,
    /// A Failure if the result could not be written to the ledger.
    error: Option<Py<PyAny>>,
}

impl From<Retrieved<RawResponse>> for ItemResult {
    fn from(retrieved: Retrieved<RawResponse>) -> Self {
        Self {
            index: retrieved.index,
            id: Some(retrieved.id),
            response: Some(retrieved.result.map_err(Arc::new)),
            ledger_record: None,
        }
    }
}

impl From<Creation<RawResponse>> for ItemResult {
    fn from(creation: Creation<RawResponse>) -> Self {
        let is_earlier = creation.is_from_ledger();
        let request_differs = creation.request_differs();
        let has_record = is_earlier || creation.ledger_error.is_some();
        let (response, agent_id, sent_at) = match creation.result {
            Ok(Created::Already {
                agent_id, sent_at, ..
            }) => (None, agent_id, sent_at),
            Ok(Created::Now(response)) => (Some(Ok(response)), None, None),
            Err(error) => (Some(Err(Arc::new(error))), None, None),
        };
        Self {
            index: creation.index,
            id: creation.key,
            response,
            ledger_record: has_record.then(|| RecordFields {
                is_earlier,
                agent_id: agent_id.map(String::from),
                sent_at,
                request_differs,
                error: creation.ledger_error,
            }),
        }
    }
}

impl ItemResult {
    /// Size of the response's body, in bytes.
    pub(crate) fn body_size(&self) -> usize {
        match &self.response {
            Some(Ok(response)) => response.body().len(),
            _ => 0,
        }
    }

    /// Reads the body of the response or, with `raw`, returns the whole response. Returns None if an earlier run created the
    /// agent.
    fn read_value<'py>(
        &self,
        py: Python<'py>,
        body_model: BodyModel,
        raw: bool,
    ) -> Result<Bound<'py, PyAny>> {
        match &self.response {
            Some(result) => response::to_object(py, result, body_model, raw),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Converts the result of a bulk job's input. The value of a failed one is a Failure.
    pub(crate) fn into_bulk_result(
        self,
        py: Python<'_>,
        body_model: BodyModel,
        raw: bool,
    ) -> PyResult<Bound<'_, BulkResult>> {
        let value = into_python(py, self.read_value(py, body_model, raw))?;
        self.into_object(py, value)
    }

    fn into_object<'py>(
        self,
        py: Python<'py>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, BulkResult>> {
        let record = self.ledger_record.map(|record| record.into_object(py));
        let result = BulkResult {
            index: self.index,
            id: self.id.map(|id| PyString::new(py, &id).unbind()),
            value: value.unbind(),
            ledger_record: record.transpose()?,
        };
        Ok(untrack(Bound::new(py, result)?))
    }
}

impl RecordFields {
    fn into_object(self, py: Python<'_>) -> PyResult<Py<LedgerRecord>> {
        let sent_at = self.sent_at.map(|time| builtin::make_datetime(py, time));
        let error = self
            .error
            .map(|error| into_python::<()>(py, Err(error.into())));
        let record = LedgerRecord {
            is_earlier: self.is_earlier,
            agent_id: self.agent_id,
            sent_at: sent_at.transpose()?.map(Bound::unbind),
            request_differs: self.request_differs,
            error: error.transpose()?.map(Bound::unbind),
        };
        Ok(untrack(Bound::new(py, record)?).unbind())
    }
}
