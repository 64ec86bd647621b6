//! Converts responses to Python objects.

use std::sync::Arc;

use dealkit::{Json, Unreadable, internal::schema};
use pyo3::{prelude::*, types::PyBytes};

use crate::{
    json::{
        reader::{ShouldContinue, read_document},
        value as json,
    },
    models::{schema::get_class, unreadable_fields},
    python::failure::{EntryResult, Failure, Result, header_pairs, run_entry, version_text},
};

/// The model in the body of a response; `None` if the body may be any JSON.
pub(crate) type BodyModel = Option<&'static schema::Model>;

pub(crate) type ResponseResult = Result<dealkit::RawResponse, Arc<dealkit::Error>>;

/// Converts the result of a call: to the body's value or, with `raw`, to the whole response.
pub(crate) fn to_object<'py>(
    py: Python<'py>,
    result: &ResponseResult,
    body_model: BodyModel,
    raw: bool,
) -> Result<Bound<'py, PyAny>> {
    match result {
        Ok(response) if raw => {
            let response = RawResponse {
                response: response.clone(),
                body_model,
            };
            Ok(Bound::new(py, response)?.into_any())
        }
        Ok(response) => read_body(py, response, body_model, &response.is_in_time()),
        Err(error) => Err(Failure::Error(Arc::clone(error))),
    }
}

/// Reads the body of a response. `should_continue` is a cancellation check.
pub(crate) fn read_body<'py>(
    py: Python<'py>,
    response: &dealkit::RawResponse,
    body_model: BodyModel,
    should_continue: ShouldContinue<'_>,
) -> Result<Bound<'py, PyAny>> {
    let to_failure = |error| response.clone().into_decode_error(error).into();
    let body = &**response.body();
    match body_model {
        Some(model) => {
            let class = get_class(model);
            let unreadable = response.unreadable();
            let model = read_document(
                py,
                body,
                model,
                class.read,
                unreadable,
                should_continue,
                to_failure,
            )?;
            if unreadable == Unreadable::Skip {
                response.report_skipped(&unreadable_fields::find(&model, class)?);
            }
            Ok(model)
        }
        None => Ok(json::to_objects(py, &response.json::<Json>()?)?),
    }
}

/// A whole response: status, headers and raw body, along with the value.
#[pyclass(frozen, module = "dealkit")]
pub(crate) struct RawResponse {
    pub(crate) response: dealkit::RawResponse,
    body_model: BodyModel,
}

#[pymethods]
impl RawResponse {
    /// The status code, 200 to 299.
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

    /// Number of times the request was sent, at least 1.
    #[getter]
    fn attempts(&self) -> u32 {
        self.response.attempts()
    }

    /// The raw body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.response.body())
    }

    fn _headers<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || Ok(header_pairs(self.response.headers())))
    }

    /// Reads the body as the model that the call returns.
    fn _parse<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || {
            read_body(py, &self.response, self.body_model, &|| true)
        })
    }

    fn _json<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        run_entry(py, || read_body(py, &self.response, None, &|| true))
    }
}
