//! Whole responses: the value of a call, with the status, headers and body.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    calls::trace,
    error::call::Error,
    json::{
        decode,
        decode_error::DecodeError,
        unreadable::{Unreadable, UnreadableField},
    },
    transport::{
        error::{SentPart, TransportCause, TransportError},
        operation::Operation,
        response::HttpResponse,
    },
};

/// A successful response and the value decoded from it.
///
/// ```no_run
/// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
/// let response = client.deals().retrieve("d_1").with_response().await?;
/// println!("{} after {} attempt(s)", response.status(), response.attempts());
/// let deal = response.into_value();
/// # let _ = deal; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Response<T> {
    /// `None` in a response that a test makes.
    pub(crate) operation: Option<Operation>,
    pub(crate) response: HttpResponse,
    pub(crate) unreadable: Unreadable,
    /// The function that runs code within the span of the call.
    pub(crate) run_in_span: Option<RunInSpan>,
    pub(crate) value: T,
}

/// Calls a function within the span of a call.
type RunInSpan = Arc<dyn Fn(&dyn Fn()) + Send + Sync>;

/// A successful response whose body you read yourself; the result of [`Client::request`](crate::Client::request).
pub type RawResponse = Response<Bytes>;

impl<T> Response<T> {
    /// Returns the status, which is a 2xx.
    pub fn status(&self) -> StatusCode {
        self.response.status
    }

    /// Returns the HTTP version that the service and the client agreed on.
    pub fn version(&self) -> Version {
        self.response.version
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.response.headers
    }

    /// Returns the request's id in the service's logs, if the service sent one.
    pub fn request_id(&self) -> Option<&str> {
        self.response.request_id()
    }

    /// Returns the number of times that the request was sent, at least once.
    pub fn attempts(&self) -> u32 {
        self.response.attempts
    }

    /// Returns the raw body.
    pub fn body(&self) -> &Bytes {
        &self.response.body
    }

    /// Returns the decoded value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the decoded value, without the rest of the response.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl RawResponse {
    /// Returns a function that checks whether there is time left to decode the body, for bindings, which decode it themselves.
    #[doc(hidden)]
    pub fn is_in_time(&self) -> impl Fn() -> bool + use<> {
        self.response.is_in_time()
    }

    /// Returns the handling of optional fields that cannot be read, for bindings.
    #[doc(hidden)]
    pub fn unreadable(&self) -> Unreadable {
        self.unreadable
    }

    /// Sets the function that runs code within the span of the call, for bindings, which decode the body after the call has
    /// ended.
    #[doc(hidden)]
    pub fn in_context(mut self, run_in_span: impl Fn(&dyn Fn()) + Send + Sync + 'static) -> Self {
        self.run_in_span = Some(Arc::new(run_in_span));
        self
    }

    /// Reports the fields that were skipped, for bindings.
    #[doc(hidden)]
    pub fn report_skipped(&self, fields: &[UnreadableField]) {
        if let (Some(operation), Some(run_in_span)) = (&self.operation, &self.run_in_span) {
            run_in_span(&|| trace::report_skipped(operation, fields));
        }
    }

    pub(crate) fn from_response(
        response: HttpResponse,
        operation: Operation,
        unreadable: Unreadable,
    ) -> Self {
        let value = response.body.clone();
        Self {
            operation: Some(operation),
            response,
            unreadable,
            run_in_span: None,
            value,
        }
    }

    /// Decodes the body as JSON.
    ///
    /// # Errors
    /// Of kind `Decode`, with the line and column at which decoding failed; also for a document of more than a
    /// million values.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        decode::decode_with_serde(&self.response.body)
            .map_err(|error| self.clone().into_decode_error(error))
    }
}

impl<T> Response<T> {
    /// Returns the error of a body that could not be decoded, with the data of the call.
    pub fn into_decode_error(self, error: DecodeError) -> Error {
        let error = make_decode_error(self.response, error);
        match &self.operation {
            Some(operation) => error.with_operation(operation),
            None => error,
        }
    }
}

/// Returns the error of a response that could not be decoded. The error is a timeout if decoding was stopped at the call's
/// deadline.
pub(super) fn make_decode_error(response: HttpResponse, error: DecodeError) -> Error {
    if error.was_cancelled() {
        let attempts = response.attempts;
        return TransportError::new(TransportCause::Timeout(
            response.time_left.limit,
            SentPart::Possibly,
        ))
        .with_response(response)
        .after(attempts, false, None)
        .into();
    }
    Error::from(error).with_response(response)
}

/// Returns the field `id` in the body of a response, even if other fields are invalid.
pub(crate) fn find_id(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct BodyWithId {
        id: String,
    }
    serde_json::from_slice(body)
        .ok()
        .map(|BodyWithId { id }| id)
}

impl<T> fmt::Debug for Response<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status())
            .field(
                "request_id",
                &self.request_id().map(|id| self.response.redactor.mask(id)),
            )
            .field("attempts", &self.attempts())
            .field("body", &format_args!("<{} bytes>", self.body().len()))
            .finish_non_exhaustive()
    }
}
