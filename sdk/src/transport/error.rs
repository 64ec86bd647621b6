//! Errors of requests, for connections and responses. This code does not depend on operations or models.

use std::time::Duration;

use http::StatusCode;
use url::Url;

use crate::{
    transport::{
        connect::failure::{ConnectFailure, LibraryError},
        outcome::Outcome,
        redact,
        response::HttpResponse,
    },
    value::message::Message,
};

/// The failure of a request after one or several attempts. The data is boxed, because results would otherwise be large.
pub(crate) struct TransportError(pub(crate) Box<FailedRequest>);

pub(crate) struct FailedRequest {
    pub(crate) cause: TransportCause,
    /// The response to the last attempt, complete or in part.
    pub(crate) response: Option<HttpResponse>,
    pub(crate) attempts: Attempts,
    /// True if a reused connection broke before any part of a response arrived: the service had probably closed it before the
    /// request.
    pub(crate) had_stale_connection: bool,
    /// True if the service rejected the key (and so did not act), and the source has a new key since.
    pub(crate) has_new_key: bool,
}

/// The cause of a failed request.
#[derive(Clone, Debug)]
pub(crate) enum TransportCause {
    Connect(Option<ConnectFailure>, Option<LibraryError>),
    Timeout(Duration, SentPart),
    /// The connection broke. The message is advice, if there is any.
    Interrupted(LibraryError, Option<Message>),
    /// The named part of the response head is not valid HTTP.
    Malformed(&'static str, LibraryError),
    /// The service declared that it did not process the request, or the connection closed before the request was sent.
    NotProcessed(LibraryError),
    /// The body is larger than this limit, in bytes.
    TooLarge(u64),
    Unsendable(String),
    /// The status is not a success. For a redirect, contains the origin of the redirect's target.
    Status(Option<String>),
}

/// The part of a request without a response that may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentPart {
    Nothing,
    /// Some or all of the request may have reached the service.
    Possibly,
}

/// The attempts of a request.
#[derive(Clone, Default)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    /// The wait before the next attempt that the service asks for.
    pub(crate) retry_after: Option<Duration>,
    /// True if the service may have acted on an attempt before the last one.
    pub(crate) earlier_may_have_acted: bool,
    /// The last response to an attempt before the last one.
    pub(crate) earlier_response: Option<HttpResponse>,
    /// The reason why the request was not retried, if neither the retry policy nor the deadline explains it.
    pub(crate) not_retried: Option<String>,
}

impl TransportCause {
    /// Returns the outcome of the last attempt, given the status of its response, if there was one.
    pub(crate) fn outcome(&self, status: Option<StatusCode>) -> Outcome {
        if let Some(status) = status {
            // The head of the response determines the outcome, however much of the body followed.
            return Outcome::from_status(status);
        }
        match self {
            Self::Connect(..)
            | Self::NotProcessed(_)
            | Self::Unsendable(_)
            | Self::Timeout(_, SentPart::Nothing) => Outcome::NotSent,
            Self::Timeout(_, SentPart::Possibly)
            | Self::Interrupted(..)
            | Self::Malformed(..)
            | Self::TooLarge(_)
            | Self::Status(_) => Outcome::Unknown,
        }
    }

    /// Returns the error of an underlying library, if such an error ended the request.
    pub(crate) fn library_error(&self) -> Option<&LibraryError> {
        match self {
            Self::Connect(_, error) => error.as_ref(),
            Self::Interrupted(error, _) | Self::Malformed(_, error) | Self::NotProcessed(error) => {
                Some(error)
            }
            _ => None,
        }
    }
}

impl TransportError {
    pub(crate) fn new(cause: TransportCause) -> Self {
        Self(Box::new(FailedRequest {
            cause,
            response: None,
            attempts: Attempts::default(),
            had_stale_connection: false,
            has_new_key: false,
        }))
    }

    pub(crate) fn from_response(response: HttpResponse, url: &Url) -> Self {
        let target = redact::find_redirect_target(response.status, &response.headers, url);
        let target = target.map(|target| response.redactor.mask(&target));
        Self::new(TransportCause::Status(target)).with_response(response)
    }

    pub(crate) fn with_response(mut self, response: HttpResponse) -> Self {
        self.0.response = Some(response);
        self
    }

    /// Records the number of the attempt that failed, and the error of the attempt before.
    pub(crate) fn after(
        mut self,
        count: u32,
        earlier_may_have_acted: bool,
        previous_error: Option<Self>,
    ) -> Self {
        self.0.attempts = Attempts {
            count,
            retry_after: self.retry_after(),
            earlier_may_have_acted,
            earlier_response: previous_error
                .and_then(|error| error.0.response.or(error.0.attempts.earlier_response)),
            not_retried: self.0.attempts.not_retried.take(),
        };
        self
    }

    /// Records the reason why the request was not retried.
    pub(crate) fn not_retried(mut self, reason: impl Into<String>) -> Self {
        self.0.attempts.not_retried = Some(reason.into());
        self
    }

    pub(crate) fn status(&self) -> Option<StatusCode> {
        self.0.response.as_ref().map(|response| response.status)
    }

    /// Returns the wait that the service asks for, counted from now.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.0.response.as_ref()?.retry_after()
    }

    /// Returns true if the response reports a temporary overload of the service.
    pub(crate) fn is_overload(&self) -> bool {
        match self.status() {
            Some(StatusCode::TOO_MANY_REQUESTS) => true,
            Some(StatusCode::SERVICE_UNAVAILABLE) => self.retry_after().is_some(),
            _ => false,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let last_outcome = self.0.cause.outcome(self.status());
        last_outcome.after(self.0.attempts.earlier_may_have_acted)
    }

    /// Returns true if another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self.0.cause {
            TransportCause::Status(_) => self
                .status()
                .is_some_and(|status| matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)),
            TransportCause::Connect(ref failure, _) => {
                !failure.as_ref().is_some_and(|failure| failure.is_permanent)
            }
            TransportCause::Timeout(..)
            | TransportCause::Interrupted(..)
            | TransportCause::Malformed(..)
            | TransportCause::NotProcessed(_) => true,
            TransportCause::TooLarge(_) | TransportCause::Unsendable(_) => false,
        }
    }

    pub(crate) fn response(&self) -> Option<&HttpResponse> {
        self.0.response.as_ref()
    }

    /// Returns the error's name in traces: the status if that is the failure, otherwise the name of the kind.
    pub(crate) fn name(&self) -> &str {
        match self.0.cause {
            TransportCause::Status(_) => self
                .response()
                .map_or("status", |response| response.status.as_str()),
            TransportCause::Connect(..) => "connect",
            TransportCause::Timeout(..) => "timeout",
            TransportCause::Interrupted(..)
            | TransportCause::Malformed(..)
            | TransportCause::NotProcessed(_) => "interrupted",
            TransportCause::TooLarge(_) => "too_large",
            TransportCause::Unsendable(_) => "config",
        }
    }
}
