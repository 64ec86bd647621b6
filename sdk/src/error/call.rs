//! The error type and its accessors.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, StatusCode, Version, header};

use crate::{
    error::{cause::Cause, kind::ErrorKind, problem::Problem, summary::summarize},
    json::decode_error::DecodeError,
    ledger::LedgerError,
    rules::validate::{ValidationError, Violation},
    specification::wire,
    transport::{
        connect::failure::LibraryError,
        error::{Attempts, FailedRequest, TransportCause, TransportError},
        operation::Operation,
        outcome::Outcome,
        rate::queue::LateAdmission,
        redact::shorten,
        response::HttpResponse,
    },
    value::{
        AgentId,
        message::{Message, Setting, SettingName},
    },
};

/// The maximum number of bytes of a response body that an error retains.
const MAX_BODY: usize = 64 * 1024;

/// The error of a call, or of building a client.
///
/// `Display` is one line: the method, the path template, the failure, whether the agent of a create may exist, and the status,
/// title, detail and request id of the response, if there was one. It never shows the service key. Only the title and the detail,
/// which the service writes, may repeat values that were sent. The error of a row whose outcome is unknown according to the ledger
/// has the time at which the row was sent, and its [label](crate::CreateRow::label). `Debug` begins with this line, so a `main`
/// that returns the error prints it. `source()` returns an error whose text is not in the message, if there is one: the error of
/// an underlying library, or of one of your functions.
///
/// ```no_run
/// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
/// match client.deals().retrieve("d_1").await {
///     Ok(deal) => println!("{:?}", deal.status),
///     Err(error) if error.is_not_found() => println!("no such deal"),
///     Err(error) => {
///         eprintln!("{error} (outcome: {}, attempts: {})", error.outcome(), error.attempts());
///         return Err(error);
///     }
/// }
/// # Ok(()) }
/// ```
///
/// An error is cheap to clone, so several tasks can share the result of one call.
#[cfg_attr(
    feature = "test-util",
    doc = "\nTests make their errors with an [`ErrorBuilder`](crate::test_util::ErrorBuilder)."
)]
#[derive(Clone)]
#[doc(alias("exception", "failure"))]
pub struct Error(Arc<ErrorData>);

#[derive(Clone)]
struct ErrorData {
    cause: Cause,
    operation: Option<Operation>,
    attempts: Attempts,
    /// The last response, with the beginning of its body.
    response: Option<HttpResponse>,
    problem: Option<Problem>,
    #[cfg(feature = "test-util")]
    test_outcome: Option<Outcome>,
}

impl Error {
    pub(crate) fn new(cause: Cause) -> Self {
        Self(Arc::new(ErrorData {
            cause,
            operation: None,
            attempts: Attempts::default(),
            response: None,
            problem: None,
            #[cfg(feature = "test-util")]
            test_outcome: None,
        }))
    }

    /// Returns the data, to change it. An error that is being built is not shared, so nothing is copied.
    fn data_mut(&mut self) -> &mut ErrorData {
        Arc::make_mut(&mut self.0)
    }

    pub(crate) fn config(message: impl Into<Message>) -> Self {
        Self::new(Cause::Config(message.into()))
    }

    /// Creates the error of an invalid setting. The message is the name of the setting and the problem, such as `must be more
    /// than zero`.
    pub(crate) fn invalid_setting(
        setting: Setting,
        problem: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Self {
        Self::config(Message::about(setting, problem))
    }

    /// Creates the error of a call that needed a thread, which the operating system did not start.
    #[cfg(feature = "blocking")]
    pub(crate) fn thread_not_started(error: &std::io::Error) -> Self {
        Self::config(format!(
            "the operating system did not start a thread: {error}"
        ))
    }

    /// Creates the error of a call that cannot be admitted before its deadline.
    pub(crate) fn throttled(late_admission: LateAdmission) -> Self {
        let mut error = Self::new(Cause::Throttled(late_admission));
        error.data_mut().attempts.retry_after = Some(late_admission.wait);
        error
    }

    pub(crate) fn cancelled(outcome: Outcome, attempts: u32) -> Self {
        let mut error = Self::new(Cause::Cancelled(outcome));
        error.data_mut().attempts.count = attempts;
        error
    }

    /// Creates the error of a row that the ledger has from an earlier run. `resolve_error` is the error of the caller's
    /// `resolve`, if it was called for the row and failed.
    #[cfg(feature = "ledger")]
    pub(crate) fn already_attempted(
        recorded_row: &crate::ledger::LedgerRow,
        resolve_error: Option<crate::error::cause::ResolveError>,
    ) -> Self {
        Self::new(Cause::AlreadyAttempted(
            crate::error::cause::EarlierAttempt {
                outcome: recorded_row.outcome,
                status: recorded_row.status,
                request_id: recorded_row.request_id.clone(),
                sent_at: recorded_row.sent_at,
                label: recorded_row.label.clone(),
                in_flight: recorded_row.in_flight,
                reason: recorded_row.reason(),
                request_differs: recorded_row.request_differs,
                resolve_error,
            },
        ))
    }

    /// Creates the error of a create whose idempotency key belongs to an agent with other data.
    #[cfg(feature = "ledger")]
    pub(crate) fn idempotency_key_reused(
        agent_id: Option<AgentId>,
        sent_at: Option<DateTime<Utc>>,
    ) -> Self {
        Self::new(Cause::IdempotencyKeyReused { agent_id, sent_at })
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn duplicate_key(first_index: usize) -> Self {
        Self::new(Cause::DuplicateKey(first_index))
    }

    /// Creates the error of a row that was not sent because of an earlier row: the service rejected that row with this status,
    /// or there was no service key for that row.
    pub(crate) fn stopped((index, status): (usize, Option<StatusCode>)) -> Self {
        Self::new(Cause::Stopped { index, status })
    }

    /// Records whether the service may have acted on the row in an earlier run.
    pub(crate) fn with_earlier_unknown_outcome(mut self, is_unresolved: bool) -> Self {
        self.data_mut().attempts.earlier_may_have_acted |= is_unresolved;
        self
    }

    pub(crate) fn with_operation(mut self, operation: &Operation) -> Self {
        self.data_mut().operation = Some(operation.clone());
        self
    }

    /// Sets the operation, unless the error has one.
    #[cfg(feature = "test-util")]
    pub(crate) fn with_default_operation(self, operation: &Operation) -> Self {
        match self.0.operation {
            Some(_) => self,
            None => self.with_operation(operation),
        }
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.data_mut().test_outcome = Some(outcome);
        self
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn with_attempts(mut self, count: u32, retry_after: Option<Duration>) -> Self {
        self.data_mut().attempts.count = count;
        self.data_mut().attempts.retry_after = retry_after;
        self
    }

    /// Returns the request's id, masked and shortened.
    pub(crate) fn shown_request_id(&self) -> Option<String> {
        let id = self.request_id()?;
        Some(match self.response() {
            Some(response) => shorten(&response.redactor.mask(id)),
            None => shorten(id),
        })
    }

    /// Returns the title of the error response, masked and shortened.
    #[cfg(feature = "ledger")]
    pub(crate) fn shown_title(&self) -> Option<String> {
        let title = self.problem()?.title.as_deref()?;
        let redactor = &self.response()?.redactor;
        Some(shorten(&redactor.mask(title))).filter(|title| !title.is_empty())
    }

    /// Returns the distinct codes of the violations in the error response, separated by spaces.
    #[cfg(feature = "ledger")]
    pub(crate) fn shown_codes(&self) -> Option<String> {
        use crate::error::summary::list_codes;

        let redactor = &self.response()?.redactor;
        list_codes(redactor, self.problem()?)
    }

    /// Describes the attempts in brackets: their number, an earlier response, and the reason why there was no retry.
    fn describe_attempts(&self) -> String {
        let mut parts = Vec::new();
        let attempts = &self.0.attempts;
        if attempts.count > 1 {
            parts.push(format!("after {} attempts", attempts.count));
        }
        if let (Some(earlier), None) = (&attempts.earlier_response, self.response()) {
            let earlier = Self::new(Cause::Transport(TransportCause::Status(None)))
                .with_response(earlier.clone());
            parts.push(format!("the last response was {earlier}"));
        }
        if let Some(reason) = &attempts.not_retried {
            parts.push(format!("not retried: {reason}"));
        }
        if parts.is_empty() {
            return String::new();
        }
        format!(" ({})", parts.join("; "))
    }

    /// Attaches the response. The body is parsed as a problem unless the status is a success, whose body describes no error.
    pub(crate) fn with_response(mut self, mut response: HttpResponse) -> Self {
        if !response.status.is_success() {
            self.data_mut().problem = Problem::from_json(&response.body);
        }
        if let Some(beginning) = response.body.get(..MAX_BODY) {
            // A copy of the beginning releases the memory of the rest.
            response.body = Bytes::copy_from_slice(beginning);
        }
        let data = self.data_mut();
        if let Cause::Decode(error) = &mut data.cause {
            error.mask(|text| response.redactor.mask(text));
            data.attempts.count = response.attempts;
        }
        data.response = Some(response);
        self
    }

    fn response(&self) -> Option<&HttpResponse> {
        self.0.response.as_ref()
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.cause.kind()
    }

    /// Returns the status of the response, if there was one. The status, the body, the headers and the request id belong to the
    /// last attempt. If that attempt got no response, the message reports the last earlier response. For a row that was not
    /// sent, this is the status of the response that prevented it from being sent.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0.cause {
            Cause::AlreadyAttempted(attempt) => attempt.status,
            Cause::Stopped { status, .. } => *status,
            _ => self.response().map(|response| response.status),
        }
    }

    /// Returns the response's HTTP version, if there was a response.
    pub fn version(&self) -> Option<Version> {
        self.response().map(|response| response.version)
    }

    /// Returns the problem details (RFC 9457) in the body of the error response, if it contains any.
    pub fn problem(&self) -> Option<&Problem> {
        self.0.problem.as_ref()
    }

    /// Returns the first 64 KiB of the response's body, if there was a response. A success that could not be decoded has its
    /// whole body.
    pub fn body(&self) -> Option<&[u8]> {
        if let Cause::Decode(error) = &self.0.cause {
            return Some(error.body());
        }
        self.response().map(|response| &*response.body)
    }

    /// Returns the headers of the response, if there was one.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.response().map(|response| &response.headers)
    }

    /// Returns the request's id in the service's logs. Quote this id to the service's support.
    pub fn request_id(&self) -> Option<&str> {
        if let Cause::AlreadyAttempted(attempt) = &self.0.cause {
            return attempt.request_id.as_deref();
        }
        self.response()?
            .request_id()
            .or_else(|| self.problem()?.request_id.as_deref())
    }

    /// Returns the number of attempts; 0 if the request was never sent.
    pub fn attempts(&self) -> u32 {
        self.0.attempts.count
    }

    /// Returns the time to wait before the next attempt: the time that the service asks for (`Retry-After`) or, if the call was
    /// throttled, the time until the rate limit allows the call.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.attempts.retry_after
    }

    /// Returns the possible effect of the call at the service, which decides whether it is safe to send the request again.
    ///
    /// The outcome does not depend on the method. A GET changes nothing with any outcome: see
    /// [`may_have_acted`](Self::may_have_acted).
    ///
    /// ```
    /// use dealkit::{Client, Outcome};
    ///
    /// let error = Client::builder().build().unwrap_err();
    /// assert_eq!(error.outcome(), Outcome::NotSent); // as for every error before a request is sent
    /// assert!(!error.may_have_acted());
    /// ```
    #[doc(alias("idempotency"))]
    pub fn outcome(&self) -> Outcome {
        #[cfg(feature = "test-util")]
        if let Some(outcome) = self.0.test_outcome {
            return outcome;
        }
        let last_outcome = self.0.cause.outcome(self.status());
        last_outcome.after(self.0.attempts.earlier_may_have_acted)
    }

    /// Returns true if the service may have changed something: after a create, the agent may exist. Always false after a request with a
    /// safe method (RFC 9110, section 9.2.1), such as a GET.
    pub fn may_have_acted(&self) -> bool {
        let operation = self.0.operation.as_ref();
        let is_read_only = operation.is_some_and(|operation| operation.method.is_safe());
        self.outcome().may_have_acted() && !is_read_only
    }

    /// Returns the violations in the request, which were found before sending it or are listed in the service's error body. Of
    /// that list, the first [`Problem::MAX_ERRORS`] entries are available, and [`Problem::omitted_errors`] counts the rest.
    pub fn violations(&self) -> &[Violation] {
        match &self.0.cause {
            Cause::Validation(error) => error.violations(),
            _ => self.problem().map_or(&[], |problem| &problem.errors),
        }
    }

    /// Returns the error of decoding the response's body, if that is the failure.
    pub fn decode_error(&self) -> Option<&DecodeError> {
        match &self.0.cause {
            Cause::Decode(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the error of the job's ledger, if the row was not sent because of that error.
    pub fn ledger_error(&self) -> Option<&LedgerError> {
        match &self.0.cause {
            Cause::Ledger(error) => Some(error),
            _ => None,
        }
    }

    /// Returns true if this job did not send the row because another job is sending it right now. The other job will record the
    /// outcome.
    pub fn is_in_flight(&self) -> bool {
        matches!(&self.0.cause, Cause::AlreadyAttempted(attempt) if attempt.in_flight)
    }

    /// Returns true if the row differs from its request in the ledger. The change was not sent.
    pub fn request_differs(&self) -> bool {
        match &self.0.cause {
            Cause::AlreadyAttempted(attempt) => attempt.request_differs,
            Cause::IdempotencyKeyReused { .. } => true,
            _ => false,
        }
    }

    /// Returns the agent that was created earlier with the same idempotency key, from other data
    /// ([`IdempotencyKeyReused`](ErrorKind::IdempotencyKeyReused)).
    pub fn created_agent_id(&self) -> Option<&AgentId> {
        match &self.0.cause {
            Cause::IdempotencyKeyReused { agent_id, .. } => agent_id.as_ref(),
            _ => None,
        }
    }

    /// Returns the time at which the request for [that agent](Self::created_agent_id) was sent.
    pub fn created_agent_sent_at(&self) -> Option<DateTime<Utc>> {
        match self.0.cause {
            Cause::IdempotencyKeyReused { sent_at, .. } => sent_at,
            _ => None,
        }
    }

    /// Returns the index of the earlier row that prevented this row from being sent: the first row with the same idempotency
    /// key, the row that the service rejected, or the row for which there was no service key.
    pub fn first_index(&self) -> Option<usize> {
        match self.0.cause {
            Cause::DuplicateKey(first_index)
            | Cause::Stopped {
                index: first_index, ..
            } => Some(first_index),
            _ => None,
        }
    }

    fn has_status(&self, status: u16) -> bool {
        self.kind() == ErrorKind::Status
            && self
                .status()
                .is_some_and(|response_status| response_status == status)
    }

    /// Returns true for a 400: the service could not understand the request.
    pub fn is_bad_request(&self) -> bool {
        self.has_status(400)
    }

    /// Returns true for a 401: the service key is missing or unknown. Troubleshooting: is it the key of this service?
    #[doc(alias("401", "unauthorized"))]
    pub fn is_authentication(&self) -> bool {
        self.has_status(401)
    }

    /// Returns true for a 403: the service key does not permit this call.
    #[doc(alias("403", "forbidden"))]
    pub fn is_permission_denied(&self) -> bool {
        self.has_status(403)
    }

    /// Returns true for a 404: there is no such resource. Troubleshooting: check the identifier, and the path of the base URL, if it has
    /// one.
    #[doc(alias("404"))]
    pub fn is_not_found(&self) -> bool {
        self.has_status(404)
    }

    /// Returns true for a 409: the request conflicts with the existing state.
    #[doc(alias("409"))]
    pub fn is_conflict(&self) -> bool {
        self.has_status(409)
    }

    /// Returns true for a 422: the service rejects the request's content. Troubleshooting: see [`Error::violations`].
    #[doc(alias("422"))]
    pub fn is_unprocessable_entity(&self) -> bool {
        self.has_status(422)
    }

    /// Returns true for a 429: too many requests.
    #[doc(alias("429", "too many requests"))]
    pub fn is_rate_limited(&self) -> bool {
        self.has_status(429)
    }

    /// Returns true for a 5xx: the service failed.
    pub fn is_server_error(&self) -> bool {
        self.kind() == ErrorKind::Status
            && self.status().is_some_and(|status| status.is_server_error())
    }

    /// Returns true if no connection was made, the call timed out, or a connection broke.
    pub fn is_connection(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::Interrupted
        )
    }

    /// Returns true if no connection was made. The request was not sent.
    pub fn is_connect(&self) -> bool {
        self.kind() == ErrorKind::Connect
    }

    /// Returns true if the call or an attempt timed out.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Returns true if the call was not sent, because the client's own rate limit or a pause that the service requested would have
    /// delayed it beyond its timeout. A request that was sent and got a 429 is [`is_rate_limited`](Self::is_rate_limited).
    pub fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }
}

impl Error {
    /// Returns the setting that the error concerns, if there is one, as the name of the method that sets it: a method of
    /// [`ClientBuilder`](crate::ClientBuilder), or of a call.
    ///
    /// If the setting is invalid, the message begins with its name. Otherwise the message ends with a reference to the setting,
    /// such as `[see max_response_bytes]`.
    ///
    /// ```
    /// use dealkit::Client;
    ///
    /// let error = Client::builder().base_url("deals.example.com").service_key("k").build().unwrap_err();
    /// assert_eq!(error.setting(), Some("base_url"));
    /// assert!(error.to_string().starts_with("base_url is not an absolute URL"));
    /// ```
    pub fn setting(&self) -> Option<&'static str> {
        Some(self.cause_message().setting()?.as_str())
    }

    /// Returns the message of `Display`, in which `name` replaces the name of a setting. For the bindings, where settings have
    /// other names.
    #[doc(hidden)]
    pub fn message(&self, name: fn(&'static str) -> &'static str) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = self.write_message(&mut text, name);
        text
    }

    fn cause_message(&self) -> Message {
        let message = self.0.cause.message();
        if self.can_skip_field() {
            message.see(Setting::Unreadable)
        } else {
            message
        }
    }

    fn write_message(&self, out: &mut dyn fmt::Write, name: SettingName) -> fmt::Result {
        let message = self.cause_message();
        let operation = match &self.0.operation {
            Some(operation) => format!("{operation}: "),
            None => String::new(),
        };
        let failure = match (&self.0.cause, self.response()) {
            (Cause::Transport(TransportCause::Status(None)), Some(response)) => {
                let summary = self
                    .problem()
                    .and_then(|problem| summarize(&response.redactor, problem));
                let summary = summary.map_or_else(String::new, |summary| format!(": {summary}"));
                format!("{}{summary}", response.status)
            }
            (_, Some(response)) => format!("{}: {}", response.status, message.text(name)),
            (_, None) => message.text(name),
        };
        write!(out, "{operation}{failure}")?;
        if let Some(encoding) = self.content_encoding() {
            write!(
                out,
                "; it came with Content-Encoding: {encoding}, which dealkit neither asks for nor decodes"
            )?;
        }
        if self.can_skip_field() {
            out.write_str("; the field can be skipped")?;
        }
        if let Some(effect) = self.describe_effect() {
            write!(out, "; {effect}")?;
        }
        out.write_str(&self.describe_attempts())?;
        if let Some(id) = self.shown_request_id() {
            write!(out, " [request id {id}]")?;
        }
        out.write_str(&message.reference(name))
    }

    /// Returns the Content-Encoding of a response that could not be decoded, if it has one.
    fn content_encoding(&self) -> Option<String> {
        let response = self.response().filter(|_| self.decode_error().is_some())?;
        let encoding = response
            .headers
            .get(header::CONTENT_ENCODING)?
            .to_str()
            .ok()?;
        let is_identity = encoding.trim().eq_ignore_ascii_case("identity");
        (!is_identity).then(|| shorten(&response.redactor.mask(encoding)))
    }

    /// Describes the possible effect of a failed create. Rows from the ledger have messages of their own.
    fn describe_effect(&self) -> Option<&'static str> {
        match (&self.0.cause, &self.0.operation) {
            (Cause::AlreadyAttempted(_) | Cause::IdempotencyKeyReused { .. }, _) => None,
            (_, None) => None,
            (_, Some(operation)) => find_effect(operation, self.outcome()),
        }
    }

    /// Returns true if the call would succeed with the option to skip unreadable fields, and may be sent again. A create must
    /// not be sent again, so its message never suggests the option.
    fn can_skip_field(&self) -> bool {
        let is_read = |operation: &Operation| operation.method.is_safe();
        self.0.operation.as_ref().is_some_and(is_read)
            && self.decode_error().is_some_and(DecodeError::is_optional)
    }

    /// Returns the messages of the underlying libraries if no connection was made or a connection broke: the texts of the
    /// [`source`](std::error::Error::source)s. For the analysis of network failures.
    pub fn transport_messages(&self) -> impl Iterator<Item = &str> {
        self.0
            .cause
            .library_error()
            .into_iter()
            .flat_map(LibraryError::texts)
    }
}

/// The effects of failed or cancelled calls, for messages and logs: the method and path template of the operation, the outcome, and
/// the effect.
#[doc(hidden)]
pub const EFFECTS: [(&str, &str, Outcome, &str); 2] = [
    (
        "POST",
        wire::AGENTS_PATH,
        Outcome::Unknown,
        "the agent may exist",
    ),
    (
        "POST",
        wire::AGENTS_PATH,
        Outcome::Succeeded,
        "the agent exists",
    ),
];

/// Returns the possible effect of a failed or cancelled call with this outcome, if there is one to report.
pub(crate) fn find_effect(operation: &Operation, outcome: Outcome) -> Option<&'static str> {
    EFFECTS
        .into_iter()
        .find_map(|(method, template, effect_outcome, effect)| {
            let is_match = operation.method == method
                && operation.template == template
                && outcome == effect_outcome;
            is_match.then_some(effect)
        })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_message(f, |name| name)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{self} (kind: {}, outcome: {}, attempts: {})",
            self.kind(),
            self.outcome(),
            self.attempts()
        )
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.source()
    }
}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        let FailedRequest {
            cause,
            response,
            attempts,
            ..
        } = *error.0;
        let mut error = Self::new(Cause::Transport(cause));
        if let Some(response) = response {
            error = error.with_response(response);
        }
        error.data_mut().attempts = attempts;
        error
    }
}

impl From<ValidationError> for Error {
    fn from(error: ValidationError) -> Self {
        Self::new(Cause::Validation(error))
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Self {
        Self::new(Cause::Ledger(error))
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::new(Cause::Decode(error))
    }
}
