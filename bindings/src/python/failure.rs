//! Failures for Python: returned as values, and raised by Python code.
//!
//! Making an exception runs Python code, which native code does not do (see [`gil`](crate::python::gil)).

use std::sync::Arc;

use dealkit::{
    DecodeError, Error, ErrorKind, Problem, ValidationError, Violation, ledger::LedgerError,
};
use pyo3::{
    IntoPyObjectExt, intern,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{json::value as json, python::gil};

pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why an entry point of the module has failed.
pub(crate) enum Failure {
    Error(Arc<Error>),
    /// A ledger in which something could not be noted, outside any call.
    Note(LedgerError),
    /// A document that could not be read, outside any call.
    Decode(DecodeError),
    /// A setting that cannot work: a ConfigError.
    Config(String),
    /// An invalid setting: its name in Python, and the problem, which continues the name. A ConfigError.
    Setting(&'static str, String),
    /// An argument of the wrong type: a TypeError.
    Type(String),
    /// An argument with an invalid value: a ValueError.
    Value(String),
    /// Something that cannot be done now, or a bug: a RuntimeError.
    Runtime(String),
    /// Python could not make an object: it is out of memory.
    Python(PyErr),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(Arc::new(error))
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Error::from(error).into()
    }
}

impl From<ValidationError> for Failure {
    fn from(error: ValidationError) -> Self {
        Error::from(error).into()
    }
}

/// What an entry point of the module returns: a value, or a failure as a value.
pub(crate) type Returned<'py> = PyResult<Bound<'py, PyAny>>;

/// The outcome of an entry point, for Python.
pub(crate) fn into_python<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    outcome: Outcome<T>,
) -> Returned<'py> {
    match outcome {
        Ok(value) => value.into_bound_py_any(py),
        Err(Failure::Python(error)) => Err(error),
        Err(failure) => NativeFailure(failure).into_bound_py_any(py),
    }
}

/// Does the work of an entry point of the module: returns what it makes, or the failure for Python code to raise.
pub(crate) fn entry<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    work: impl FnOnce() -> Outcome<T>,
) -> Returned<'py> {
    let outcome = gil::uncollected(py, || {
        let outcome = work();
        let has_failed = outcome.is_err();
        Ok((into_python(py, outcome)?, has_failed))
    });
    if !matches!(outcome, Ok((_, false))) {
        gil::end_if_left_behind(py);
    }
    outcome.map(|(outcome, _)| outcome)
}

/// A failure that Python code has yet to raise.
#[pyclass(frozen, name = "Failure", module = "dealkit._native")]
pub(crate) struct NativeFailure(Failure);

#[pymethods]
impl NativeFailure {
    /// The parts of the exception: its kind, its text, and its attributes by name.
    fn parts<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || Ok(self.0.parts(py)?))
    }
}

impl NativeFailure {
    pub(crate) fn error(&self) -> Option<Arc<Error>> {
        match &self.0 {
            Failure::Error(error) => Some(Arc::clone(error)),
            _ => None,
        }
    }
}

impl Failure {
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, String, Bound<'py, PyDict>)> {
        let attributes = PyDict::new(py);
        Ok(match self {
            Failure::Error(error) => {
                let setting = error.setting().map(python_name);
                attributes.set_item("setting", setting)?;
                attributes.set_item("details", details(error))?;
                tell_call(&attributes, error)?;
                (error.kind().as_str(), text(error), attributes)
            }
            Failure::Note(error) => {
                tell_ledger(&attributes, error)?;
                ("ledger", error.to_string(), attributes)
            }
            Failure::Decode(error) => {
                tell_place(&attributes, error)?;
                attributes.set_item(intern!(py, "body"), PyBytes::new(py, error.body()))?;
                (ErrorKind::Decode.as_str(), error.to_string(), attributes)
            }
            Failure::Config(text) => (ErrorKind::Config.as_str(), text.clone(), attributes),
            Failure::Setting(setting, problem) => {
                attributes.set_item("setting", setting)?;
                let text = format!("{setting} {problem}");
                (ErrorKind::Config.as_str(), text, attributes)
            }
            Failure::Type(text) => ("type", text.clone(), attributes),
            Failure::Value(text) => ("value", text.clone(), attributes),
            Failure::Runtime(text) => ("runtime", text.clone(), attributes),
            Failure::Python(error) => ("runtime", error.to_string(), attributes),
        })
    }
}

/// The error in one line, with its reason: Python has no chain of sources.
pub(crate) fn text(error: &Error) -> String {
    let text = error.message(python_name);
    match details(error) {
        Some(details) => format!("{text} ({details})"),
        None => text,
    }
}

/// Joins the messages of the libraries below, which end the text.
fn details(error: &Error) -> Option<String> {
    let mut details: Vec<&str> = Vec::new();
    for message in error.transport_messages() {
        // Libraries repeat each other.
        if !details.contains(&message) {
            details.push(message);
        }
    }
    (!details.is_empty()).then(|| details.join(": "))
}

/// Returns the keyword in Python for a setting, given its name in Rust.
fn python_name(rust_name: &'static str) -> &'static str {
    match rust_name {
        "root_certificates" | "only_root_certificates" => "ca_file",
        "identity" => "client_cert",
        "attempt_timeout" => "attempt",
        "connect_timeout" => "connect",
        "unreadable" => "on_unreadable",
        same => same,
    }
}

/// What is known of the call; None stands for what is not.
fn tell_call(attributes: &Bound<'_, PyDict>, error: &Error) -> PyResult<()> {
    let py = attributes.py();
    attributes.set_item(intern!(py, "outcome"), error.outcome().as_str())?;
    attributes.set_item(intern!(py, "may_have_acted"), error.may_have_acted())?;
    attributes.set_item(intern!(py, "attempts"), error.attempts())?;
    attributes.set_item(intern!(py, "request_id"), error.request_id())?;
    let retry_after = error.retry_after().map(|wait| wait.as_secs_f64());
    attributes.set_item(intern!(py, "retry_after"), retry_after)?;
    attributes.set_item(intern!(py, "errors"), violations(error.violations()))?;
    let body = error.body().map(|body| PyBytes::new(py, body));
    attributes.set_item(intern!(py, "body"), body)?;
    let status = error.status().map(u16::from);
    attributes.set_item(intern!(py, "status_code"), status)?;
    let version = error.version().map(version_text);
    attributes.set_item(intern!(py, "http_version"), version)?;
    let headers = error.headers().map(header_pairs);
    attributes.set_item(intern!(py, "headers"), headers)?;
    let problem = error.problem().map(|problem| problem_fields(py, problem));
    attributes.set_item(intern!(py, "problem"), problem.transpose()?)?;
    attributes.set_item(intern!(py, "in_flight"), error.is_in_flight())?;
    attributes.set_item(intern!(py, "first_index"), error.first_index())?;
    if let Some(decode) = error.decode_error() {
        tell_place(attributes, decode)?;
    }
    if let Some(ledger) = error.ledger_error() {
        tell_ledger(attributes, ledger)?;
    }
    Ok(())
}

fn tell_ledger(attributes: &Bound<'_, PyDict>, error: &LedgerError) -> PyResult<()> {
    attributes.set_item("reason", error.kind().as_str())?;
    attributes.set_item("index", error.index())
}

fn tell_place(attributes: &Bound<'_, PyDict>, error: &DecodeError) -> PyResult<()> {
    attributes.set_item("path", error.path())?;
    attributes.set_item("pointer", error.pointer())?;
    attributes.set_item("detail", error.detail().to_string())?;
    attributes.set_item("found", error.found())
}

fn problem_fields<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("type", &problem.problem_type)?;
    fields.set_item("title", &problem.title)?;
    fields.set_item("status", problem.status)?;
    fields.set_item("detail", &problem.detail)?;
    fields.set_item("request_id", &problem.request_id)?;
    fields.set_item("errors", violations(&problem.errors))?;
    fields.set_item("omitted_errors", problem.omitted_errors)?;
    fields.set_item("extra", json::fields(py, &problem.extra)?)?;
    Ok(fields)
}

fn violations(violations: &[Violation]) -> Vec<(&str, &str, &str)> {
    let all = violations.iter();
    all.map(|one| (&*one.pointer, one.code.as_str(), &*one.detail))
        .collect()
}

/// `HTTP/1.1`, `HTTP/2`.
pub(crate) fn version_text(version: dealkit::http::Version) -> String {
    if version == dealkit::http::Version::HTTP_2 {
        return "HTTP/2".to_owned();
    }
    format!("{version:?}")
}

/// Headers as pairs; bytes that are not text are kept as Latin-1, as HTTP has them.
pub(crate) fn header_pairs(headers: &dealkit::HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = value.as_bytes().iter().map(|byte| char::from(*byte));
            (name.as_str().to_owned(), value.collect())
        })
        .collect()
}
