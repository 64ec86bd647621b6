//! Inputs of bulk jobs: identifiers to retrieve, or rows to create.

use std::collections::VecDeque;

use bytes::Bytes;
use dealkit::{Error, ValidationError, Violation, ViolationCode};
use pyo3::{prelude::*, types::PyList};

use crate::{
    calls::{
        call::Call,
        observer::{CallTrace, Observer},
    },
    python::{
        arguments::parse_text,
        failure::{EntryResult, Result, run_entry},
        untrack::untrack,
    },
};

/// One input of `retrieve_many` or `create_many`.
pub(crate) enum Input {
    Id(String),
    Row(dealkit::CreateRow),
}

/// Inputs that have not been sent, each with the observer of its call.
pub(crate) type Inputs = VecDeque<(Input, Observer)>;

/// A row of `create_many` that has an idempotency key, or that is invalid. For other rows, the `Call` is enough.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct CreateRow {
    /// `None` for an invalid row, which is not sent. The Python code that made the row has the error.
    body: Option<Bytes>,
    idempotency_key: Option<String>,
    /// The label that the ledger records.
    label: Option<String>,
}

/// Makes a row from the call that creates its agent. Without a call, the row is not sent, and its result is an error.
#[pyfunction]
#[pyo3(signature = (call, idempotency_key, label))]
pub(crate) fn create_row<'py>(
    py: Python<'py>,
    call: Option<&Bound<'py, Call>>,
    idempotency_key: Option<String>,
    label: Option<String>,
) -> EntryResult<'py> {
    run_entry(py, || {
        let row = CreateRow {
            body: call.and_then(|call| call.get().create_body().cloned()),
            idempotency_key,
            label,
        };
        Ok(untrack(Bound::new(py, row)?))
    })
}

/// Converts inputs: identifiers or, for a job of `create_many`, `Call` and `CreateRow` objects. `traces` has a `CallTrace` or None
/// for each input. `first_index` is the index of the first input, for error messages.
pub(super) fn parse_inputs(
    inputs: &Bound<'_, PyList>,
    traces: Option<&Bound<'_, PyList>>,
    first_index: usize,
    are_rows: bool,
) -> Result<Inputs> {
    let inputs = inputs.iter().enumerate().map(|(at, input)| {
        let trace = match traces {
            Some(traces) => traces.get_item(at)?.cast_into::<CallTrace>().ok(),
            None => None,
        };
        let input = if are_rows {
            Input::Row(parse_row(&input)?)
        } else {
            let index = first_index + at;
            Input::Id(parse_text(format_args!("ids[{index}]"), &input)?)
        };
        Ok((input, CallTrace::observer(trace.as_ref())))
    });
    inputs.collect()
}

fn parse_row(row: &Bound<'_, PyAny>) -> Result<dealkit::CreateRow> {
    if let Ok(call) = row.cast::<Call>() {
        return Ok(make_core_row(call.get().create_body()));
    }
    let row = row.cast::<CreateRow>().map_err(PyErr::from)?.get();
    let mut core_row = make_core_row(row.body.as_ref());
    if let Some(label) = &row.label {
        core_row = core_row.label(label.clone());
    }
    Ok(match &row.idempotency_key {
        Some(key) => core_row.key(key.clone()).into(),
        None => core_row,
    })
}

/// Makes the row of the crate `dealkit`. Without a body, the row is not sent, and its result is an error.
fn make_core_row(body: Option<&Bytes>) -> dealkit::CreateRow {
    dealkit::CreateRow::from_text(match body {
        Some(body) => Ok(body.clone()),
        None => {
            let violation = Violation::new("", ViolationCode::WrongType, "must be an agent");
            let error = ValidationError::check(vec![violation]);
            error.map(|()| Bytes::new()).map_err(Error::from)
        }
    })
}
