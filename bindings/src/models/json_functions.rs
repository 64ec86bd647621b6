//! Functions for Python code that parse or write JSON, or format violations.

use dealkit::{Json, Violation};
use pyo3::{prelude::*, types::PyString};

use crate::{
    json::value as json,
    models::write,
    python::failure::{EntryResult, Failure, run_entry},
};

/// Makes a RawJson from JSON text. This is a function, because a native constructor could not return a
/// `Failure`.
#[pyfunction]
pub(crate) fn raw_json<'py>(text: &Bound<'py, PyString>) -> EntryResult<'py> {
    let py = text.py();
    run_entry(py, || {
        let text = text
            .to_str()
            .map_err(|_| Failure::Value("text contains an unpaired surrogate".to_owned()))?;
        let json = Json::parse(text)
            .map_err(|error| Failure::Value(format!("text is not JSON: {error}")))?;
        Ok(json::make_raw_json(py, json)?)
    })
}

/// Writes a value as JSON text. `name` names the value in the error message.
#[pyfunction]
pub(crate) fn json_text<'py>(name: &str, value: &Bound<'py, PyAny>) -> EntryResult<'py> {
    run_entry(value.py(), || {
        write::to_json(value)?
            .map(|json| json.to_string())
            // The message may contain field names from the value, because the value is test data that a developer has written.
            .map_err(
                |Violation {
                     pointer, detail, ..
                 }| {
                    Failure::Config(format!("{name} is not JSON: {pointer}: {detail}"))
                },
            )
    })
}

/// Formats a violation for messages: its masked pointer, and the whole violation.
#[pyfunction]
pub(crate) fn violation_texts<'py>(
    py: Python<'py>,
    pointer: String,
    code: String,
    detail: String,
) -> EntryResult<'py> {
    run_entry(py, || {
        let violation = Violation::new(pointer, code.into(), detail);
        Ok((violation.masked_pointer(), violation.to_string()))
    })
}
