//! A whole response, and how its body becomes a Python object.

use dealkit::Json;
use pyo3::{intern, prelude::*, sync::PyOnceLock, types::PyBytes};

use crate::{
    convert, errors,
    model::read_document,
    models::{Agent, Deal},
};

/// What the body of an answer is.
#[derive(Clone, Copy)]
pub(crate) enum ReadAs {
    /// A deal.
    Deal,
    /// An agent.
    Agent,
    /// Any JSON.
    Json,
}

/// Reads the body of a response.
pub(crate) fn read<'py>(
    py: Python<'py>,
    response: &dealkit::RawResponse,
    read_as: ReadAs,
) -> PyResult<Bound<'py, PyAny>> {
    let fail = |py: Python<'_>, error| errors::to_python(py, &response.unreadable(error));
    let body = response.body();
    match read_as {
        ReadAs::Deal => read_document::<Deal>(py, body, fail).map(Bound::into_any),
        ReadAs::Agent => read_document::<Agent>(py, body, fail).map(Bound::into_any),
        ReadAs::Json => match response.json::<Json>() {
            Ok(json) => convert::json(py, &json),
            Err(error) => Err(errors::to_python(py, &error)),
        },
    }
}

/// A whole response: status, headers and raw body, beside the value.
#[pyclass(frozen, generic, module = "dealkit")]
pub(crate) struct RawResponse {
    response: dealkit::RawResponse,
    read_as: ReadAs,
}

impl RawResponse {
    pub(crate) fn new(response: dealkit::RawResponse, read_as: ReadAs) -> Self {
        Self { response, read_as }
    }
}

#[pymethods]
impl RawResponse {
    /// The status, a 2xx.
    #[getter]
    fn status_code(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The headers; names in any case.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static HEADERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        HEADERS
            .import(py, "dealkit._headers", "Headers")?
            .call1((errors::header_pairs(self.response.headers()),))
    }

    /// The request's id in the service's logs, if the service sent one.
    #[getter]
    fn request_id(&self) -> Option<&str> {
        self.response.request_id()
    }

    /// How many times the request was sent, at least 1.
    #[getter]
    fn attempts(&self) -> u32 {
        self.response.attempts()
    }

    /// The raw body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.response.body())
    }

    /// The body as what the call answers with. Raises DecodeError where it is something else.
    fn parse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        read(py, &self.response, self.read_as)
    }

    /// The body as any JSON: ints, Decimals, strings, booleans, None, lists and dicts.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        read(py, &self.response, ReadAs::Json)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let request_id = self.request_id().into_pyobject(py)?;
        let request_id = request_id.call_method0(intern!(py, "__repr__"))?;
        Ok(format!(
            "RawResponse(status_code={}, request_id={request_id}, attempts={}, body=<{} bytes>)",
            self.status_code(),
            self.attempts(),
            self.response.body().len()
        ))
    }
}
