//! What went wrong with a request: the transport's error, which knows connections and responses only.

use std::time::Duration;

use http::StatusCode;
use url::Url;

use crate::{
    transport::{
        connect::cause::{ConnectFailure, ForeignError},
        outcome::Outcome,
        redact,
        response::HttpResponse,
    },
    value::words::Words,
};

/// The failure of a request, of which there may have been several attempts.
pub(crate) struct TransportError(pub(crate) Box<FailedRequest>);

pub(crate) struct FailedRequest {
    pub(crate) cause: TransportCause,
    /// The response to the last attempt, as far as it arrived.
    pub(crate) response: Option<HttpResponse>,
    pub(crate) attempts: Attempts,
    /// Whether a reused connection broke before any part of a response arrived: as likely as not, the service had closed
    /// it before the request.
    pub(crate) was_stale: bool,
    /// Whether the service has refused a key, so that it has not acted, and there is another one by now.
    pub(crate) has_new_key: bool,
}

/// Why there is no response that is a success.
#[derive(Debug)]
pub(crate) enum TransportCause {
    Connect(Option<ConnectFailure>, Option<ForeignError>),
    Timeout(Duration, Sent),
    Interrupted(ForeignError),
    /// The head of the response is not valid HTTP, here.
    Malformed(&'static str, ForeignError),
    /// The service has said that it did not look at the request.
    NotTaken(ForeignError),
    /// The body is larger than this limit, in bytes.
    TooLarge(u64),
    Unsendable(String),
    /// The status is not a success, and the service may redirect to this origin.
    Status(Option<String>),
}

/// Whether any part of a request that got no response was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    /// Some or all of it may have reached the service.
    Perhaps,
}

#[derive(Default)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    /// How long the service asks to wait before the next.
    pub(crate) retry_after: Option<Duration>,
    /// Whether an attempt before the last one may have made the service act.
    pub(crate) earlier_may_have_acted: bool,
    /// The last response to an attempt before the last one.
    pub(crate) earlier_response: Option<HttpResponse>,
    /// Why there was no further one, if the reason is neither the policy nor the time.
    pub(crate) not_retried: Option<Words>,
}

impl TransportCause {
    /// What the last attempt may have done, to which there was a response with this status, or none.
    pub(crate) fn outcome(&self, status: Option<StatusCode>) -> Outcome {
        if let Some(status) = status {
            // The head of the response determines the outcome, however much of the body followed.
            return Outcome::of_status(status);
        }
        match self {
            Self::Connect(..)
            | Self::NotTaken(_)
            | Self::Unsendable(_)
            | Self::Timeout(_, Sent::Nothing) => Outcome::NotSent,
            Self::Timeout(_, Sent::Perhaps)
            | Self::Interrupted(_)
            | Self::Malformed(..)
            | Self::TooLarge(_)
            | Self::Status(_) => Outcome::Unknown,
        }
    }

    /// What a library below said, if that ended the request.
    pub(crate) fn foreign(&self) -> Option<&ForeignError> {
        match self {
            Self::Connect(_, error) => error.as_ref(),
            Self::Interrupted(error) | Self::Malformed(_, error) | Self::NotTaken(error) => {
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
            was_stale: false,
            has_new_key: false,
        }))
    }

    pub(crate) fn from_response(response: HttpResponse, url: &Url) -> Self {
        let target = redact::redirect_target(response.status, &response.headers, url);
        let target = target.map(|target| response.redactor.mask(&target));
        Self::new(TransportCause::Status(target)).with_response(response)
    }

    pub(crate) fn with_response(mut self, response: HttpResponse) -> Self {
        self.0.response = Some(response);
        self
    }

    /// Records that it ended the attempt with this number, and what came of the previous one.
    pub(crate) fn after(
        mut self,
        count: u32,
        earlier_may_have_acted: bool,
        before: Option<Self>,
    ) -> Self {
        self.0.attempts = Attempts {
            count,
            retry_after: self.retry_after(),
            earlier_may_have_acted,
            earlier_response: before
                .and_then(|before| before.0.response.or(before.0.attempts.earlier_response)),
            not_retried: self.0.attempts.not_retried.take(),
        };
        self
    }

    /// Records that the request would have been retried if it were not for this.
    pub(crate) fn not_retried(mut self, why: impl Into<Words>) -> Self {
        self.0.attempts.not_retried = Some(why.into());
        self
    }

    pub(crate) fn status(&self) -> Option<StatusCode> {
        self.0.response.as_ref().map(|response| response.status)
    }

    /// How long the service asks to wait, counted from now.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.0.response.as_ref()?.retry_after()
    }

    /// Whether the response says that the service is overloaded for now.
    pub(crate) fn is_overload(&self) -> bool {
        match self.status() {
            Some(StatusCode::TOO_MANY_REQUESTS) => true,
            Some(StatusCode::SERVICE_UNAVAILABLE) => self.retry_after().is_some(),
            _ => false,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let of_last = self.0.cause.outcome(self.status());
        of_last.after(self.0.attempts.earlier_may_have_acted)
    }

    /// Whether this kind of failure may pass by itself.
    pub(crate) fn is_transient(&self) -> bool {
        match self.0.cause {
            TransportCause::Status(_) => self
                .status()
                .is_some_and(|status| matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)),
            TransportCause::Connect(ref why, _) => !why.as_ref().is_some_and(|why| why.is_lasting),
            TransportCause::Timeout(..)
            | TransportCause::Interrupted(_)
            | TransportCause::Malformed(..)
            | TransportCause::NotTaken(_) => true,
            TransportCause::TooLarge(_) | TransportCause::Unsendable(_) => false,
        }
    }

    pub(crate) fn response(&self) -> Option<&HttpResponse> {
        self.0.response.as_ref()
    }

    /// What it is, for a trace: the status, if that is the failure, or the word of its kind.
    pub(crate) fn name(&self) -> &str {
        match self.0.cause {
            TransportCause::Status(_) => self
                .response()
                .map_or("status", |response| response.status.as_str()),
            TransportCause::Connect(..) => "connect",
            TransportCause::Timeout(..) => "timeout",
            TransportCause::Interrupted(_)
            | TransportCause::Malformed(..)
            | TransportCause::NotTaken(_) => "interrupted",
            TransportCause::TooLarge(_) => "too_large",
            TransportCause::Unsendable(_) => "config",
        }
    }
}
