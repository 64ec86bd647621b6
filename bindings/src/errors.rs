//! The core's errors as Python exceptions. The classes are Python's, so that they pickle; they are
//! imported when the first one is raised.

use std::error::Error as _;

use dealkit::{DecodeError, Error, ErrorKind, Violation};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyDict},
};

/// The exception of an error.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

/// The exception of an error, as an object.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let told = PyDict::new(py);
    told.set_item(intern!(py, "delivery"), error.delivery().as_str())?;
    told.set_item(intern!(py, "attempts"), error.attempts())?;
    told.set_item(intern!(py, "request_id"), error.request_id())?;
    let retry_after = error.retry_after().map(|wait| wait.as_secs_f64());
    told.set_item(intern!(py, "retry_after"), retry_after)?;
    told.set_item(intern!(py, "errors"), violations(error.violations()))?;
    if let Some(body) = error.body() {
        told.set_item(intern!(py, "body"), PyBytes::new(py, body))?;
    }
    if let Some(status) = error.status() {
        told.set_item(intern!(py, "status_code"), status.as_u16())?;
    }
    if let Some(headers) = error.headers() {
        told.set_item(intern!(py, "headers"), header_pairs(headers))?;
    }
    if let Some(problem) = error.problem() {
        let members = PyDict::new(py);
        members.set_item("type", &problem.problem_type)?;
        members.set_item("title", &problem.title)?;
        members.set_item("status", problem.status)?;
        members.set_item("detail", &problem.detail)?;
        members.set_item("request_id", &problem.request_id)?;
        members.set_item("errors", violations(&problem.errors))?;
        let extra = problem
            .extra
            .iter()
            .map(|(name, json)| (name, json.as_str()));
        members.set_item("extra", extra.collect::<std::collections::BTreeMap<_, _>>())?;
        told.set_item(intern!(py, "problem"), members)?;
    }
    if let Some(decode) = error.decode_error() {
        tell_place(&told, decode)?;
    }
    let mut text = error.to_string();
    if matches!(error.kind(), ErrorKind::Connect | ErrorKind::Interrupted) {
        // Python has no chain of sources, and this is where the reason stands.
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
    }
    make(py, kind(error.kind()), &text, &told)
}

/// The exception of a document that could not be read, where no call was made.
pub(crate) fn of_decoding(py: Python<'_>, error: DecodeError) -> PyErr {
    let exception = || {
        let told = PyDict::new(py);
        tell_place(&told, &error)?;
        told.set_item(intern!(py, "body"), PyBytes::new(py, error.body()))?;
        make(py, "decode", &error.to_string(), &told)
    };
    exception().map_or_else(|failed| failed, PyErr::from_value)
}

/// An error of configuration, or of wrong use.
pub(crate) fn config(py: Python<'_>, text: &str) -> PyErr {
    make(py, "config", text, &PyDict::new(py)).map_or_else(|failed| failed, PyErr::from_value)
}

fn tell_place(told: &Bound<'_, PyDict>, error: &DecodeError) -> PyResult<()> {
    told.set_item("path", error.path())?;
    told.set_item("pointer", error.pointer())?;
    told.set_item("found", error.found())
}

fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Config => "config",
        ErrorKind::Validation => "validation",
        ErrorKind::Connect => "connection",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Decode => "decode",
        ErrorKind::Status => "status",
        // An answer that is too large, or broken off, and what the core may add.
        _ => "connection",
    }
}

fn violations(violations: &[Violation]) -> Vec<(&str, &str, &str)> {
    violations
        .iter()
        .map(|violation| {
            (
                violation.pointer.as_str(),
                violation.code.as_str(),
                violation.detail.as_str(),
            )
        })
        .collect()
}

/// Headers as pairs; bytes that are no text are kept as Latin-1, as HTTP has them.
pub(crate) fn header_pairs(headers: &dealkit::HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = value.as_bytes().iter().map(|byte| char::from(*byte));
            (name.as_str().to_owned(), value.collect())
        })
        .collect()
}

fn make<'py>(
    py: Python<'py>,
    kind: &str,
    text: &str,
    told: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, "dealkit.exceptions", "_make")?
        .call((kind, text), Some(told))
}
