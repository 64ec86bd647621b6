//! What became of an input of many calls.

use std::sync::Arc;

use dealkit::{Creation, LedgerError, RawResponse, Retrieved};
use pyo3::prelude::*;

use crate::{models::response::CallResult, python::failure::into_python};

/// The result of a call.
pub(super) struct Item {
    pub(super) index: usize,
    /// The identifier that was requested, or the key of the row.
    pub(super) id: Option<String>,
    pub(super) result: CallResult,
    pub(super) record: Option<Record>,
}

/// What the ledger says about it.
pub(super) struct Record {
    /// Whether it is the result of an earlier run.
    is_earlier: bool,
    agent_id: Option<String>,
    /// Why the ledger does not have it.
    error: Option<LedgerError>,
}

impl From<Retrieved<RawResponse>> for Item {
    fn from(retrieved: Retrieved<RawResponse>) -> Self {
        Self {
            index: retrieved.index,
            id: Some(retrieved.id),
            result: retrieved.result.map_err(Arc::new),
            record: None,
        }
    }
}

impl From<Creation<RawResponse>> for Item {
    fn from(creation: Creation<RawResponse>) -> Self {
        let agent_id = creation.recorded_agent_id().map(ToString::to_string);
        let has_record = creation.recorded || creation.ledger_error.is_some();
        Self {
            index: creation.index,
            id: creation.key,
            result: creation.result.map_err(Arc::new),
            record: has_record.then_some(Record {
                is_earlier: creation.recorded,
                agent_id,
                error: creation.ledger_error,
            }),
        }
    }
}

pub(super) type RecordParts<'py> = (bool, Option<String>, Option<Bound<'py, PyAny>>);

impl Record {
    pub(super) fn into_python(self, py: Python<'_>) -> PyResult<RecordParts<'_>> {
        let failure = self
            .error
            .map(|error| into_python::<()>(py, Err(error.into())));
        Ok((self.is_earlier, self.agent_id, failure.transpose()?))
    }
}
