//! Errors made by hand, for the tests of programs that use dealkit (feature `test-util`).
//!
//! An importer that must not create an agent twice needs a test of what it does when a create times out:
//!
//! ```
//! use std::time::Duration;
//!
//! use dealkit::{Error, Method, Outcome, test_util::ErrorBuilder};
//!
//! /// What the importer under test does with a row that has failed.
//! fn next_step(error: &Error) -> &'static str {
//!     match error.outcome() {
//!         Outcome::NotSent => "send again",
//!         Outcome::Rejected => "report to the author of the row",
//!         _ => "look whether the agent exists",
//!     }
//! }
//!
//! // The create timed out after it was sent: the agent may exist.
//! let error = ErrorBuilder::timeout(Duration::from_secs(60))
//!     .operation(Method::POST, "/v1/agents")
//!     .build();
//! assert_eq!(error.to_string(), "POST /v1/agents: timed out after 60 s");
//! assert!(error.is_timeout() && error.may_have_acted());
//! assert_eq!(next_step(&error), "look whether the agent exists");
//!
//! // It timed out before a connection was made.
//! let error = ErrorBuilder::timeout(Duration::from_secs(60)).outcome(Outcome::NotSent).build();
//! assert_eq!(next_step(&error), "send again");
//! ```
//!
//! Errors of other kinds need no help: [`Error`] implements `From` for
//! [`ValidationError`](crate::ValidationError), and `Client::builder().build()` fails with one of kind `Config`.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::{
    bulk::retrieve::Retrieved,
    contract::wire,
    error::{call::Error, cause::Throttle},
    http::{
        error::{Sent, TransportCause},
        operation::Operation,
        outcome::Outcome,
        response::HttpResponse,
    },
    json::decode_error::DecodeError,
};

/// Builds an [`Error`] like one that a call returns, from what a test specifies.
///
/// Anything unspecified follows from the rest, by the same rules as in a real call: the outcome, the
/// problem and the violations from the status and the body, the time to wait from the header `Retry-After`.
///
/// ```
/// use dealkit::{Outcome, StatusCode, test_util::ErrorBuilder};
///
/// let error = ErrorBuilder::status(StatusCode::UNPROCESSABLE_ENTITY)
///     .body(r#"{"title": "Invalid", "errors": [{"pointer": "/email", "code": "invalid_email"}]}"#)
///     .request_id("r-1")
///     .build();
/// assert!(error.is_unprocessable());
/// assert_eq!(error.outcome(), Outcome::Rejected);
/// assert_eq!(error.violations()[0].pointer, "/email");
/// assert_eq!(
///     error.to_string(),
///     "422 Unprocessable Entity: Invalid: /email invalid_email [request id r-1]",
/// );
/// ```
#[derive(Clone)]
#[must_use]
pub struct ErrorBuilder {
    made: Made,
    operation: Option<Operation>,
    response: Option<HttpResponse>,
    attempts: u32,
    outcome: Option<Outcome>,
    retry_after: Option<Duration>,
}

#[derive(Clone)]
enum Made {
    Status,
    Timeout(Duration),
    Throttled(Duration),
    Connect(String),
    Interrupted(String),
    Decode(DecodeError),
}

impl ErrorBuilder {
    fn new(made: Made) -> Self {
        Self {
            made,
            operation: None,
            response: None,
            attempts: 1,
            outcome: None,
            retry_after: None,
        }
    }

    /// The service responded with this status, which is not a success.
    pub fn status(status: StatusCode) -> Self {
        Self::new(Made::Status).response_status(status)
    }

    /// The call timed out after this duration. It had been sent, and no response had arrived, so the outcome is
    /// `Unknown`.
    pub fn timeout(after: Duration) -> Self {
        Self::new(Made::Timeout(after))
    }

    /// The call was not sent, because the service has asked for fewer requests and its turn would have come too late,
    /// after this wait. The outcome is `NotSent`, there was no attempt, and
    /// [`retry_after`](Error::retry_after) returns the wait.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dealkit::{Method, test_util::ErrorBuilder};
    ///
    /// let error = ErrorBuilder::throttled(Duration::from_secs(90)).operation(Method::POST, "/v1/agents").build();
    /// assert!(error.is_throttled() && !error.is_timeout() && !error.may_have_acted());
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(90)));
    /// ```
    pub fn throttled(wait: Duration) -> Self {
        Self::new(Made::Throttled(wait))
            .attempts(0)
            .retry_after(wait)
    }

    /// No connection could be made, for this reason, which is the error's [`source`](std::error::Error::source).
    /// The outcome is `NotSent`.
    pub fn connect(reason: impl Into<String>) -> Self {
        Self::new(Made::Connect(reason.into()))
    }

    /// The connection broke before a response had arrived, for this reason, which is the error's
    /// [`source`](std::error::Error::source). The outcome is `Unknown`.
    pub fn interrupted(reason: impl Into<String>) -> Self {
        Self::new(Made::Interrupted(reason.into()))
    }

    /// The service responded with this status, a success, and a body that could not be decoded, so the outcome
    /// is `Succeeded`. To get the error of a body, decode it:
    ///
    /// ```
    /// use dealkit::{Agent, Outcome, StatusCode, test_util::ErrorBuilder};
    ///
    /// let cut = Agent::from_json(r#"{"id": "a_1""#).unwrap_err();
    /// let error = ErrorBuilder::decode(StatusCode::CREATED, cut).build();
    /// assert_eq!(error.outcome(), Outcome::Succeeded);
    /// assert_eq!(error.body(), Some(&br#"{"id": "a_1""#[..]));
    /// ```
    pub fn decode(status: StatusCode, error: DecodeError) -> Self {
        let body = Bytes::copy_from_slice(error.body());
        Self::new(Made::Decode(error))
            .response_status(status)
            .body(body)
    }

    /// The operation: a method and the path with placeholders, such as `/v1/deals/{id}`. The error text begins with it.
    pub fn operation(mut self, method: Method, template: impl Into<String>) -> Self {
        let template = template.into().into();
        self.operation = Some(Operation { method, template });
        self
    }

    /// How many times the request was attempted. Default: 1.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The outcome, instead of the one that follows from the rest: for a timeout before anything was sent, for
    /// example, or after an earlier attempt that may have acted.
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// How long to wait before the next attempt, instead of what the headers say.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The status of the response. A timeout or a broken connection has one if the response had begun to arrive;
    /// setting its headers, its body or its request id implies a 200. The outcome is then `Succeeded`.
    pub fn response_status(mut self, status: StatusCode) -> Self {
        self.response().status = status;
        self
    }

    /// The headers of the response.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.response().headers.extend(headers);
        self
    }

    /// The body of the response, or as much of it as arrived.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.response().body = body.into();
        self
    }

    /// The request's id in the service's logs, as a header of the response. Characters that a header cannot
    /// contain become `?`.
    pub fn request_id(mut self, id: impl AsRef<str>) -> Self {
        let is_fit = |c: char| c.is_ascii_graphic() || c == ' ';
        let id: String = id
            .as_ref()
            .chars()
            .map(|c| if is_fit(c) { c } else { '?' })
            .collect();
        if let Ok(value) = HeaderValue::from_str(&id) {
            self.response()
                .headers
                .insert(wire::REQUEST_ID_HEADER, value);
        }
        self
    }

    fn response(&mut self) -> &mut HttpResponse {
        self.response.get_or_insert_with(HttpResponse::by_hand)
    }

    /// Builds the error.
    pub fn build(self) -> Error {
        let asked = self.response.as_ref().and_then(HttpResponse::retry_after);
        let mut error = match self.made {
            Made::Status => TransportCause::Status.into(),
            Made::Timeout(after) => TransportCause::Timeout(after, Sent::Perhaps).into(),
            Made::Throttled(wait) => Error::throttled(wait, Throttle::Service),
            Made::Connect(reason) => TransportCause::Connect(reason.into()).into(),
            Made::Interrupted(reason) => TransportCause::Interrupted(reason.into()).into(),
            Made::Decode(error) => Error::decode(error),
        };
        if let Some(response) = self.response {
            error = error.with_response(response);
        }
        if let Some(operation) = self.operation {
            error = error.with_operation(&operation);
        }
        if let Some(outcome) = self.outcome {
            error = error.with_outcome(outcome);
        }
        error.with_attempts(self.attempts, self.retry_after.or(asked))
    }
}

impl From<ErrorBuilder> for Error {
    fn from(builder: ErrorBuilder) -> Self {
        builder.build()
    }
}

impl fmt::Debug for ErrorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErrorBuilder")
            .field(&self.clone().build())
            .finish()
    }
}

/// One deal of many, made by hand (feature `test-util`).
impl<T> Retrieved<T> {
    /// The result for the identifier with this index among those given.
    ///
    /// ```
    /// use dealkit::{Deal, Retrieved, StatusCode, test_util::ErrorBuilder};
    ///
    /// let found = Retrieved::new(0, "d_1", Ok(Deal::builder().id("d_1").build()));
    /// let missing: Retrieved = Retrieved::new(1, "d_2", Err(ErrorBuilder::status(StatusCode::NOT_FOUND).build()));
    /// assert_eq!(found.result.unwrap().id, found.id.as_str());
    /// assert!(missing.result.unwrap_err().is_not_found());
    /// ```
    pub fn new(index: usize, id: impl Into<String>, result: Result<T, Error>) -> Self {
        Self {
            index,
            id: id.into(),
            result,
        }
    }
}
