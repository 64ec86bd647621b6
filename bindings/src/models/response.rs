//! A whole response, and how its body becomes a Python object.

use std::sync::Arc;

use dealkit::{Json, Unreadable, internal::schema};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    json::{
        reader::{GoOn, whole},
        value as json,
    },
    models::{schema::class, unreadable},
    python::failure::{Failure, Outcome, Returned, entry, header_pairs, version_text},
};

/// What the body of a response is: a model, or any JSON.
pub(crate) type ReadAs = Option<&'static schema::Model>;

pub(crate) type CallResult = Result<dealkit::RawResponse, Arc<dealkit::Error>>;

/// The result of a call, for Python: the value, or the whole response.
pub(crate) fn result<'py>(
    py: Python<'py>,
    result: &CallResult,
    read_as: ReadAs,
    raw: bool,
) -> Outcome<Bound<'py, PyAny>> {
    match result {
        Ok(response) if raw => {
            let response = RawResponse {
                response: response.clone(),
                read_as,
            };
            Ok(Bound::new(py, response)?.into_any())
        }
        Ok(response) => read(py, response, read_as, &response.is_in_time()),
        Err(error) => Err(Failure::Error(Arc::clone(error))),
    }
}

/// Reads the body of a response, as long as `go_on` says.
pub(crate) fn read<'py>(
    py: Python<'py>,
    response: &dealkit::RawResponse,
    read_as: ReadAs,
    go_on: GoOn<'_>,
) -> Outcome<Bound<'py, PyAny>> {
    let fail = |error| response.clone().into_decode_error(error).into();
    let body = &**response.body();
    match read_as {
        Some(model) => {
            let class = class(model);
            let unreadable = response.unreadable();
            let model = whole(py, body, model, class.read, unreadable, go_on, fail)?;
            if unreadable == Unreadable::Skip {
                response.report_skipped(&unreadable::fields(&model, class)?);
            }
            Ok(model)
        }
        None => Ok(json::value(py, &response.json::<Json>()?)?),
    }
}

/// A whole response: status, headers and raw body, along with the value.
#[pyclass(frozen, module = "dealkit")]
pub(crate) struct RawResponse {
    pub(crate) response: dealkit::RawResponse,
    read_as: ReadAs,
}

#[pymethods]
impl RawResponse {
    /// The status, a 2xx.
    #[getter]
    fn status_code(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The HTTP version: `HTTP/1.1` or `HTTP/2`.
    #[getter]
    fn http_version(&self) -> String {
        version_text(self.response.version())
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

    fn _headers<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || Ok(header_pairs(self.response.headers())))
    }

    /// The body as the model that the call returns.
    fn _parse<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || read(py, &self.response, self.read_as, &|| true))
    }

    fn _json<'py>(&self, py: Python<'py>) -> Returned<'py> {
        entry(py, || read(py, &self.response, None, &|| true))
    }
}
