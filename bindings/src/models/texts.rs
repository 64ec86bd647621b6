//! Texts that Python code asks for: JSON, and violations as error texts show them.

use dealkit::{Json, Violation};
use pyo3::{prelude::*, types::PyString};

use crate::{
    json::value as json,
    models::write,
    python::failure::{Failure, Returned, entry},
};

/// Makes a RawJson from JSON text. The class itself has no constructor, since that could only raise.
#[pyfunction]
pub(crate) fn raw_json<'py>(text: &Bound<'py, PyString>) -> Returned<'py> {
    let py = text.py();
    entry(py, || {
        let text = text
            .to_str()
            .map_err(|_| Failure::Value("text contains an unpaired surrogate".to_owned()))?;
        let json = Json::parse(text)
            .map_err(|error| Failure::Value(format!("text is not JSON: {error}")))?;
        Ok(json::raw(py, json)?)
    })
}

/// A value as JSON text; `name` says what it is in the error if it cannot be written.
#[pyfunction]
pub(crate) fn json_text<'py>(name: &str, value: &Bound<'py, PyAny>) -> Returned<'py> {
    entry(value.py(), || {
        write::any(value)?
            .map(|json| json.to_string())
            // It is the developer's own deal: saying where it is wrong is worth more than hiding its names.
            .map_err(
                |Violation {
                     pointer, detail, ..
                 }| {
                    Failure::Config(format!("{name} is not JSON: {pointer}: {detail}"))
                },
            )
    })
}

/// A violation's pointer and the violation itself, as texts show them.
#[pyfunction]
pub(crate) fn violation_texts<'py>(
    py: Python<'py>,
    pointer: String,
    code: String,
    detail: String,
) -> Returned<'py> {
    entry(py, || {
        let violation = Violation::new(pointer, code.into(), detail);
        Ok((violation.masked_pointer(), violation.to_string()))
    })
}
