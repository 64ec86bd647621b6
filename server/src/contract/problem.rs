//! Error bodies: RFC 9457 problem details, with a stable `type` and `title` for each type of problem.

use std::borrow::Cow;

use bytes::Bytes;
use dealkit::{Problem, Violation, internal::wire};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::contract::response::response;

/// A type of problem: the status, `type` and `title` of its errors.
#[derive(Debug)]
pub(crate) struct ProblemType {
    status: StatusCode,
    /// The member `type`: a URN to compare, not a URL to fetch.
    uri: &'static str,
    title: &'static str,
}

macro_rules! problem_types {
    ($( $name:ident $status:ident $uri:literal $title:literal; )+) => {
        impl ProblemType {
            $( pub(crate) const $name: &Self = &Self {
                status: StatusCode::$status,
                uri: concat!("urn:dealkit:problem:", $uri),
                title: $title,
            }; )+
        }
    };
}

// Rejections of requests to /v1, in the order of the checks.
problem_types! {
    MALFORMED_REQUEST BAD_REQUEST "malformed-request" "The request is malformed";
    UNKNOWN_PATH NOT_FOUND "unknown-path" "There is no such path";
    METHOD_NOT_ALLOWED METHOD_NOT_ALLOWED "method-not-allowed" "The path does not allow this method";
    SERVICE_KEY UNAUTHORIZED "service-key" "The service key is missing or unknown";
    RATE_LIMIT TOO_MANY_REQUESTS "rate-limit" "The service key has sent too many requests";
    MEDIA_TYPE UNSUPPORTED_MEDIA_TYPE "media-type" "The body is not declared as JSON";
    CONTENT_CODING UNSUPPORTED_MEDIA_TYPE "content-coding" "The body is in a content coding";
    BODY_TOO_LARGE PAYLOAD_TOO_LARGE "body-too-large" "The body is too large";
    BODY_TIMEOUT REQUEST_TIMEOUT "body-timeout" "The body did not arrive in time";
    BUSY SERVICE_UNAVAILABLE "busy" "The server is busy with other bodies";
    MALFORMED_BODY BAD_REQUEST "malformed-body" "The body is not valid JSON";
    INVALID_AGENT UNPROCESSABLE_ENTITY "invalid-agent" "The agent breaks the rules of the contract";
    UNKNOWN_DEAL NOT_FOUND "unknown-deal" "There is no such deal";
    STORE_FULL INSUFFICIENT_STORAGE "store-full" "There is no room for another agent or deal";
}

// Rejections of requests to the control interface under /__sandbox/.
problem_types! {
    ADMIN_DENIED FORBIDDEN "sandbox-denied" "The sandbox's own interface is not open to this request";
    ADMIN_TOKEN UNAUTHORIZED "sandbox-token" "The sandbox token is missing or wrong";
    INVALID_QUERY BAD_REQUEST "invalid-query" "The query is invalid";
    INVALID_FAULT BAD_REQUEST "invalid-fault" "The fault is invalid";
    UNKNOWN_FAULT NOT_FOUND "unknown-fault" "There is no such fault";
    INVALID_VARIANT BAD_REQUEST "invalid-variant" "There is no such variant";
    INVALID_KEYS BAD_REQUEST "invalid-keys" "The body is not a list of service keys";
    UNKNOWN_NAMESPACE NOT_FOUND "unknown-namespace" "There is no such namespace";
    NAMESPACES_FULL INSUFFICIENT_STORAGE "namespaces-full" "There is no room for another namespace";
    INVALID_SETTINGS BAD_REQUEST "invalid-settings" "The body is not the settings of a namespace";
    INVALID_PATTERN BAD_REQUEST "invalid-pattern" "The expected requests are invalid";
    VERIFICATION_FAILED CONFLICT "verification-failed" "Other requests arrived than expected";
    INVALID_DEALS_FILE CONFLICT "invalid-deals-file" "The deals cannot be reloaded";
    INVALID_DEAL BAD_REQUEST "invalid-deal" "The body is not a deal with that id";
}

/// A rejected request: the type of problem, and the details of this occurrence.
#[derive(Debug)]
pub(crate) struct Rejection {
    problem_type: &'static ProblemType,
    detail: String,
    violations: Vec<Violation>,
    header: Option<(HeaderName, Cow<'static, str>)>,
}

impl Rejection {
    /// Creates a rejection. `detail` names the error and its remedy, and never contains a key or value of the request.
    pub(crate) fn new(problem_type: &'static ProblemType, detail: impl Into<String>) -> Self {
        Self {
            problem_type,
            detail: detail.into(),
            violations: Vec::new(),
            header: None,
        }
    }

    pub(crate) fn violations(mut self, violations: &[Violation]) -> Self {
        self.violations = violations.to_vec();
        self
    }

    /// Adds a header, unless `value` is an invalid header value.
    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<Cow<'static, str>>) -> Self {
        self.header = Some((name, value.into()));
        self
    }

    /// Builds the response, without the header `x-request-id`.
    pub(crate) fn into_response(self, request_id: &HeaderValue) -> Response<Bytes> {
        let mut problem = Problem::new(
            self.problem_type.status.as_u16(),
            self.problem_type.title,
            self.detail,
        );
        problem.problem_type = Some(self.problem_type.uri.to_owned());
        problem.errors = self.violations;
        let mut response = problem_response(problem, self.problem_type.status, request_id);
        let headers = response.headers_mut();
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::try_from(&*value)
        {
            headers.insert(name, value);
        }
        response
    }
}

/// Builds the error response of a fault that has a status but no body.
pub(crate) fn fault_response(status: StatusCode, request_id: &HeaderValue) -> Response<Bytes> {
    let title = status.canonical_reason().unwrap_or("Error");
    let detail = "The sandbox was asked for this fault.";
    let mut problem = Problem::new(status.as_u16(), title, detail);
    problem.problem_type = Some("urn:dealkit:problem:fault".to_owned());
    problem_response(problem, status, request_id)
}

fn problem_response(
    mut problem: Problem,
    status: StatusCode,
    request_id: &HeaderValue,
) -> Response<Bytes> {
    problem.request_id = request_id.to_str().ok().map(str::to_owned);
    // Serialization cannot fail: a problem contains only strings and a number.
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    response(status, wire::PROBLEM_JSON, body)
}
