//! Failures of entry points, the functions that Python calls. A failure is returned to Python as a value, and Python code raises
//! the exception: making an exception runs bytecode, and native code runs no bytecode (see [`gil`](crate::python::gil)).

use std::{result::Result as StdResult, sync::Arc};

use dealkit::{
    DecodeError, Error, ErrorKind, Problem, ValidationError, Violation, ledger::LedgerError,
};
use pyo3::{
    IntoPyObjectExt, intern,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    json::value as json,
    python::{builtin, gil},
};

/// The result of native code.
pub(crate) type Result<T, E = Failure> = StdResult<T, E>;

/// The reason why an entry point has failed.
pub(crate) enum Failure {
    Error(Arc<Error>),
    /// A ledger operation failed outside any call.
    Ledger(LedgerError),
    /// A document could not be read outside any call.
    Decode(DecodeError),
    /// A setting is invalid: a ConfigError with this message.
    Config(String),
    /// A setting is invalid: a ConfigError whose message is the setting's name followed by this text.
    Setting(String, String),
    /// An argument has the wrong type: a TypeError.
    Type(String),
    /// An argument has an invalid value: a ValueError.
    Value(String),
    /// The operation is impossible in this state, or dealkit has a bug: a RuntimeError.
    Runtime(String),
    /// Python could not make an object because it is out of memory.
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

/// The return value of an entry point: an object, which is a `Failure` if the entry point has failed.
pub(crate) type EntryResult<'py> = PyResult<Bound<'py, PyAny>>;

/// Converts a result to a Python object. A failure becomes a `Failure` object. Only a Python exception ([`Failure::Python`]) is
/// returned as an error, and so raised.
pub(crate) fn into_python<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    result: Result<T>,
) -> EntryResult<'py> {
    match result {
        Ok(value) => value.into_bound_py_any(py),
        Err(Failure::Python(error)) => Err(error),
        Err(failure) => NativeFailure(failure).into_bound_py_any(py),
    }
}

/// Runs the body of an entry point with the garbage collector disabled, and converts its result for Python.
pub(crate) fn run_entry<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    work: impl FnOnce() -> Result<T>,
) -> EntryResult<'py> {
    let result = gil::without_gc(py, || {
        let result = work();
        let has_failed = result.is_err();
        Ok((into_python(py, result)?, has_failed))
    });
    if !matches!(result, Ok((_, false))) {
        gil::park_if_finalizing(py);
    }
    result.map(|(object, _)| object)
}

/// A failure as a Python object, from which Python code makes an exception.
#[pyclass(frozen, name = "Failure", module = "dealkit._native")]
pub(crate) struct NativeFailure(Failure);

#[pymethods]
impl NativeFailure {
    /// Returns the kind of the exception, its message, and its attributes by name.
    fn parts<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || Ok(self.0.parts(py)?))
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
    /// Makes the failure for an invalid setting. The message is the setting's name followed by the problem.
    pub(crate) fn setting(name: &str, problem: &str) -> Self {
        Self::Setting(name.to_owned(), problem.to_owned())
    }

    fn parts<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, String, Bound<'py, PyDict>)> {
        let attributes = PyDict::new(py);
        Ok(match self {
            Failure::Error(error) => {
                let setting = error.setting().map(python_name);
                attributes.set_item("setting", setting)?;
                attributes.set_item("details", join_details(error))?;
                add_call_attributes(&attributes, error)?;
                (error.kind().as_str(), format_error(error), attributes)
            }
            Failure::Ledger(error) => {
                add_ledger_attributes(&attributes, error)?;
                ("ledger", error.to_string(), attributes)
            }
            Failure::Decode(error) => {
                add_location_attributes(&attributes, error)?;
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

/// Formats the error on one line, followed by the messages of its sources, because Python's exceptions have no sources.
pub(crate) fn format_error(error: &Error) -> String {
    let text = error.message(python_name);
    match join_details(error) {
        Some(details) => format!("{text} ({details})"),
        None => text,
    }
}

/// Joins the distinct messages of the HTTP, TLS and socket libraries. They come last in the error's message.
fn join_details(error: &Error) -> Option<String> {
    let mut details: Vec<&str> = Vec::new();
    for message in error.transport_messages() {
        // Libraries often repeat the message of the library below.
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
        unchanged_name => unchanged_name,
    }
}

/// Adds attributes that describe the call. An attribute is None if its value is unknown.
fn add_call_attributes(attributes: &Bound<'_, PyDict>, error: &Error) -> PyResult<()> {
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
    if error.kind() == ErrorKind::IdempotencyKeyReused {
        let agent_id = error.created_agent_id().map(|id| id.as_str());
        attributes.set_item("agent_id", agent_id)?;
        let sent_at = error.created_agent_sent_at();
        let sent_at = sent_at.map(|time| builtin::make_datetime(py, time));
        attributes.set_item("sent_at", sent_at.transpose()?)?;
    }
    if let Some(decode) = error.decode_error() {
        add_location_attributes(attributes, decode)?;
    }
    if let Some(ledger) = error.ledger_error() {
        add_ledger_attributes(attributes, ledger)?;
    }
    Ok(())
}

fn add_ledger_attributes(attributes: &Bound<'_, PyDict>, error: &LedgerError) -> PyResult<()> {
    attributes.set_item("reason", error.kind().as_str())?;
    attributes.set_item("index", error.index())
}

fn add_location_attributes(attributes: &Bound<'_, PyDict>, error: &DecodeError) -> PyResult<()> {
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
    fields.set_item("extra", json::fields_to_dict(py, &problem.extra)?)?;
    Ok(fields)
}

fn violations(violations: &[Violation]) -> Vec<(&str, &str, &str)> {
    violations
        .iter()
        .map(|violation| {
            (
                &*violation.pointer,
                violation.code.as_str(),
                &*violation.detail,
            )
        })
        .collect()
}

/// Formats the version as `HTTP/1.1` or `HTTP/2`.
pub(crate) fn version_text(version: dealkit::http::Version) -> String {
    if version == dealkit::http::Version::HTTP_2 {
        return "HTTP/2".to_owned();
    }
    format!("{version:?}")
}

/// Converts headers to pairs. Values are decoded as Latin-1, HTTP's historical encoding, which accepts all bytes.
pub(crate) fn header_pairs(headers: &dealkit::HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = value.as_bytes().iter().map(|byte| char::from(*byte));
            (name.as_str().to_owned(), value.collect())
        })
        .collect()
}
