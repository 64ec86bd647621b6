//! Error bodies: RFC 9457 problem details, one stable `type` and `title` for each kind of error.

use std::borrow::Cow;

use bytes::Bytes;
use dealkit::{Problem, Violation, wire};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::contract::request_id::RequestId;

/// A kind of error: what all errors of it have in common.
#[derive(Debug)]
pub(crate) struct Kind {
    status: StatusCode,
    /// `type`: a name to compare with, not an address to fetch.
    uri: &'static str,
    title: &'static str,
}

/// Further reasons for which the interface under /__sandbox/ refuses a request.
impl Kind {
    pub(crate) const ADMIN_REFUSED: &Self = &Self {
        status: StatusCode::FORBIDDEN,
        uri: "urn:dealkit:problem:sandbox-refused",
        title: "The sandbox's own interface is not open to this request",
    };
    pub(crate) const ADMIN_TOKEN: &Self = &Self {
        status: StatusCode::UNAUTHORIZED,
        uri: "urn:dealkit:problem:sandbox-token",
        title: "The sandbox token is missing or wrong",
    };
    pub(crate) const INVALID_QUERY: &Self = &Self {
        status: StatusCode::BAD_REQUEST,
        uri: "urn:dealkit:problem:invalid-query",
        title: "The query is invalid",
    };
    pub(crate) const INVALID_FAULT: &Self = &Self {
        status: StatusCode::BAD_REQUEST,
        uri: "urn:dealkit:problem:invalid-fault",
        title: "The fault is invalid",
    };
    pub(crate) const UNKNOWN_FAULT: &Self = &Self {
        status: StatusCode::NOT_FOUND,
        uri: "urn:dealkit:problem:unknown-fault",
        title: "There is no such fault",
    };
    pub(crate) const INVALID_READING: &Self = &Self {
        status: StatusCode::BAD_REQUEST,
        uri: "urn:dealkit:problem:invalid-reading",
        title: "There is no such reading",
    };
    pub(crate) const INVALID_DEAL: &Self = &Self {
        status: StatusCode::BAD_REQUEST,
        uri: "urn:dealkit:problem:invalid-deal",
        title: "The body is not a deal with that id",
    };
}

/// Every reason for which the server refuses a request, in the order of its checks.
impl Kind {
    pub(crate) const MALFORMED_REQUEST: &Self = &Self {
        status: StatusCode::BAD_REQUEST,
        uri: "urn:dealkit:problem:malformed-request",
        title: "The request is malformed",
    };
    pub(crate) const HEAD_TOO_LARGE: &Self = &Self {
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        uri: "urn:dealkit:problem:head-too-large",
        title: "The request line and the headers are too large",
    };
    pub(crate) const UNKNOWN_PATH: &Self = &Self {
        status: StatusCode::NOT_FOUND,
        uri: "urn:dealkit:problem:unknown-path",
        title: "There is no such path",
    };
    pub(crate) const METHOD_NOT_ALLOWED: &Self = &Self {
        status: StatusCode::METHOD_NOT_ALLOWED,
        uri: "urn:dealkit:problem:method-not-allowed",
        title: "The path does not allow this method",
    };
    pub(crate) const SERVICE_KEY: &Self = &Self {
        status: StatusCode::UNAUTHORIZED,
        uri: "urn:dealkit:problem:service-key",
        title: "The service key is missing or unknown",
    };
    pub(crate) const MEDIA_TYPE: &Self = &Self {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        uri: "urn:dealkit:problem:media-type",
        title: "The body is not declared as JSON",
    };
    pub(crate) const CONTENT_CODING: &Self = &Self {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        uri: "urn:dealkit:problem:content-coding",
        title: "The body is in a content coding",
    };
    pub(crate) const BODY_TOO_LARGE: &Self = &Self {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        uri: "urn:dealkit:problem:body-too-large",
        title: "The body is too large",
    };
    pub(crate) const BODY_TIMEOUT: &Self = &Self {
        status: StatusCode::REQUEST_TIMEOUT,
        uri: "urn:dealkit:problem:body-timeout",
        title: "The body did not arrive in time",
    };
    pub(crate) const BUSY: &Self = &Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        uri: "urn:dealkit:problem:busy",
        title: "The server is busy with other bodies",
    };
    pub(crate) const MALFORMED_BODY: &Self = &Self {
        status: StatusCode::BAD_REQUEST,
        uri: "urn:dealkit:problem:malformed-body",
        title: "The body is not valid JSON",
    };
    pub(crate) const INVALID_AGENT: &Self = &Self {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        uri: "urn:dealkit:problem:invalid-agent",
        title: "The agent breaks the rules of the contract",
    };
    pub(crate) const UNKNOWN_DEAL: &Self = &Self {
        status: StatusCode::NOT_FOUND,
        uri: "urn:dealkit:problem:unknown-deal",
        title: "There is no such deal",
    };
    pub(crate) const STORE_FULL: &Self = &Self {
        status: StatusCode::INSUFFICIENT_STORAGE,
        uri: "urn:dealkit:problem:store-full",
        title: "There is no room for another agent or deal",
    };
}

/// A refusal: its kind, and what to tell the caller about this one.
#[derive(Debug)]
pub(crate) struct Refusal {
    kind: &'static Kind,
    detail: String,
    violations: Vec<Violation>,
    header: Option<(HeaderName, Cow<'static, str>)>,
}

impl Refusal {
    /// `detail` says what was wrong and what to do about it, and never repeats the key or a value.
    pub(crate) fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
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

    /// Adds a header. `value` has to be a valid header value; the header is left out otherwise.
    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<Cow<'static, str>>) -> Self {
        self.header = Some((name, value.into()));
        self
    }

    /// The response, still without its request id header.
    pub(crate) fn into_response(self, request_id: &RequestId) -> Response<Bytes> {
        let mut problem = Problem::new(self.kind.status.as_u16(), self.kind.title, self.detail);
        problem.problem_type = Some(self.kind.uri.to_owned());
        problem.errors = self.violations;
        let mut response = written(problem, self.kind.status, request_id);
        let headers = response.headers_mut();
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::try_from(&*value)
        {
            headers.insert(name, value);
        }
        response
    }
}

/// An error that a fault makes up.
pub(crate) fn made_up(status: StatusCode, request_id: &RequestId) -> Response<Bytes> {
    let title = status.canonical_reason().unwrap_or("Error");
    let detail = "The sandbox was asked for this fault.";
    let mut problem = Problem::new(status.as_u16(), title, detail);
    problem.problem_type = Some("urn:dealkit:problem:fault".to_owned());
    written(problem, status, request_id)
}

fn written(mut problem: Problem, status: StatusCode, request_id: &RequestId) -> Response<Bytes> {
    problem.request_id = Some(request_id.to_string());
    // A problem is strings and a number, which always serialize to JSON.
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(wire::PROBLEM_JSON);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    response
}
