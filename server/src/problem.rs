//! Error bodies: RFC 9457 problem details, one stable `type` and `title` for each kind of error.

use bytes::Bytes;
use dealkit::{Problem, Violation, wire};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::request_id::RequestId;

/// Everything that the server refuses a request for, in the order of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    MalformedRequest,
    UnknownPath,
    MethodNotAllowed,
    ServiceKey,
    MediaType,
    BodyTooLarge,
    BodyTimeout,
    MalformedBody,
    InvalidAgent,
    UnknownDeal,
    StoreFull,
}

impl Kind {
    fn status(self) -> StatusCode {
        match self {
            Kind::MalformedRequest | Kind::MalformedBody => StatusCode::BAD_REQUEST,
            Kind::UnknownPath | Kind::UnknownDeal => StatusCode::NOT_FOUND,
            Kind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Kind::ServiceKey => StatusCode::UNAUTHORIZED,
            Kind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Kind::InvalidAgent => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::StoreFull => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    /// `type`: a name to compare with, not an address to fetch.
    fn uri(self) -> &'static str {
        match self {
            Kind::MalformedRequest => "urn:dealkit:problem:malformed-request",
            Kind::UnknownPath => "urn:dealkit:problem:unknown-path",
            Kind::MethodNotAllowed => "urn:dealkit:problem:method-not-allowed",
            Kind::ServiceKey => "urn:dealkit:problem:service-key",
            Kind::MediaType => "urn:dealkit:problem:media-type",
            Kind::BodyTooLarge => "urn:dealkit:problem:body-too-large",
            Kind::BodyTimeout => "urn:dealkit:problem:body-timeout",
            Kind::MalformedBody => "urn:dealkit:problem:malformed-body",
            Kind::InvalidAgent => "urn:dealkit:problem:invalid-agent",
            Kind::UnknownDeal => "urn:dealkit:problem:unknown-deal",
            Kind::StoreFull => "urn:dealkit:problem:store-full",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Kind::MalformedRequest => "The request is malformed",
            Kind::UnknownPath => "There is no such path",
            Kind::MethodNotAllowed => "The path does not have this method",
            Kind::ServiceKey => "The service key is missing or unknown",
            Kind::MediaType => "The body is not declared as JSON",
            Kind::BodyTooLarge => "The body is too large",
            Kind::BodyTimeout => "The body did not arrive in time",
            Kind::MalformedBody => "The body is not valid JSON",
            Kind::InvalidAgent => "The agent breaks the rules of the contract",
            Kind::UnknownDeal => "There is no such deal",
            Kind::StoreFull => "There is no room for another agent",
        }
    }
}

/// A refusal: what kind, and what to tell the caller about this one.
#[derive(Debug)]
pub(crate) struct Refusal {
    kind: Kind,
    detail: String,
    violations: Vec<Violation>,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    /// `detail` says what was wrong and what to do about it, and never repeats the key or a value.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            violations: Vec::new(),
            header: None,
        }
    }

    pub(crate) fn violations(mut self, violations: &[Violation]) -> Self {
        self.violations = violations.to_vec();
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// The answer, still without its request id header.
    pub(crate) fn answer(self, request_id: &RequestId) -> Response<Bytes> {
        let status = self.kind.status();
        let mut problem = Problem::new(status.as_u16(), self.kind.title(), self.detail);
        problem.problem_type = Some(self.kind.uri().to_owned());
        problem.request_id = Some(request_id.to_string());
        problem.errors = self.violations;
        // A problem is strings and a number, which JSON always takes.
        let body = serde_json::to_vec(&problem).unwrap_or_default();

        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(wire::PROBLEM_JSON),
        );
        if let Some((name, value)) = self.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
