//! The error type, its kinds, and the methods to query it.

use std::{borrow::Cow, error::Error as StdError, fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use url::Url;

use crate::{
    error::{duration::in_words, outcome::Outcome, problem::Problem, redact},
    http::response::HttpResponse,
    json::decode_error::DecodeError,
    ledger::LedgerError,
    rules::validate::{ValidationError, Violation},
};

/// How much of an error's body is kept, in bytes.
const BODY_KEPT: usize = 64 * 1024;

/// The error of a call, or of building a client.
///
/// `Display` is one line with the method, the path template, what happened and, if there was a
/// response, its status, title, detail and request id. It never shows the service key, an identifier,
/// or any other value that was sent or read. `source()` returns the cause, if there is one.
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
#[cfg_attr(
    feature = "test-util",
    doc = "\nTests make their errors with an [`ErrorBuilder`](crate::test_util::ErrorBuilder)."
)]
pub struct Error(Box<Inner>);

struct Inner {
    cause: Cause,
    operation: Option<Operation>,
    attempts: u32,
    /// Whether an attempt before the last one may have made the service act.
    earlier_may_have_acted: bool,
    retry_after: Option<Duration>,
    received: Option<Received>,
    /// Whether a reused connection broke before any part of a response arrived.
    was_stale: bool,
    /// The outcome that a test asked for.
    #[cfg(feature = "test-util")]
    outcome_of_test: Option<Outcome>,
    /// What the last response said, if an earlier attempt got one and the last attempt did not.
    earlier_response: Option<String>,
    /// Whether it was not retried because the client's retry quota was used up.
    is_out_of_quota: bool,
}

/// The operation that was called, as far as it may be shown.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: http::Method,
    /// The path, with placeholders instead of identifiers.
    pub(crate) template: Cow<'static, str>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.template)
    }
}

/// The head of a response, and as much of its body as is kept.
struct Received {
    response: HttpResponse,
    problem: Option<Problem>,
    /// What the service says about the failure, truncated and without the key.
    shown: Option<String>,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.response.status)?;
        match &self.shown {
            Some(shown) => write!(f, ": {shown}"),
            None => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("{0}")]
    Config(String),
    #[error("{0}")]
    Validation(ValidationError),
    #[error("no connection could be made")]
    Connect(#[source] Source),
    #[error("no connection could be made: {0}")]
    Unconnected(&'static str, #[source] Source),
    #[error("no connection could be made: {0}")]
    Lasting(String),
    #[error("timed out after {}", in_words(*.0))]
    Timeout(Duration, Sent),
    #[error("not sent: {}, longer than its timeout allows", throttled(*.wait, *.by))]
    Throttled { wait: Duration, by: Throttle },
    #[error("the connection broke before the whole response had arrived")]
    Interrupted(#[source] Source),
    #[error("the service closed the connection before accepting the request")]
    NotTaken(#[source] Source),
    #[error(
        "the body of the response is larger than the limit of {0} bytes; raise max_response_bytes to read it"
    )]
    TooLarge(u64),
    #[error("the response could not be read: {0}")]
    Decode(DecodeError),
    #[error("the service returned an error")]
    Status,
    #[error(
        "the service redirects to {0}; redirects are never followed, because the key would be sent along"
    )]
    Redirect(String),
    #[error("cancelled {}", when_cancelled(*.0))]
    Cancelled(Outcome),
    #[error("not sent: {0}")]
    Ledger(LedgerError),
    #[cfg_attr(
        not(feature = "ledger"),
        expect(dead_code, reason = "only a ledger has it")
    )]
    #[error("{}", recorded(*.outcome, *.status, *.in_flight))]
    Recorded {
        outcome: Outcome,
        status: Option<StatusCode>,
        request_id: Option<String>,
        in_flight: bool,
    },
    #[cfg_attr(
        not(feature = "ledger"),
        expect(dead_code, reason = "only a ledger has it")
    )]
    #[error(
        "not sent: the row at index {0} in this job has the same key; with a ledger, each row needs a key of its own"
    )]
    DuplicateKey(usize),
    #[error(
        "not sent: the service refused the row at index {index} with {status}, and would refuse this one as well; no \
         further rows are taken"
    )]
    Stopped { index: usize, status: StatusCode },
}

type Source = Box<dyn StdError + Send + Sync>;

/// How far a cancelled call had come.
fn when_cancelled(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent => "before it was sent",
        Outcome::Rejected => "before it was sent again",
        Outcome::Unknown => "after it was sent, before the whole response had arrived",
        Outcome::Succeeded => "after it succeeded, while the response was arriving",
    }
}

/// What the ledger has on a row that an earlier run sent.
fn recorded(outcome: Outcome, status: Option<StatusCode>, in_flight: bool) -> String {
    if in_flight {
        return "another job is sending it now; nothing was sent. Once that job has ended, this one can be run again"
            .to_owned();
    }
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    match outcome {
        Outcome::Succeeded => "an earlier run created the agent; nothing was sent".to_owned(),
        Outcome::Rejected => {
            format!("the service rejected it in an earlier run{status}; nothing was sent")
        }
        Outcome::NotSent | Outcome::Unknown => format!(
            "an earlier run sent it, and its outcome is unknown{status}; nothing was sent. Find out whether the \
             agent exists, and settle the row"
        ),
    }
}

/// Why a call has to wait for its turn.
fn throttled(wait: Duration, by: Throttle) -> String {
    let wait = in_words(wait);
    match by {
        Throttle::Service => {
            format!("the service has asked for fewer requests; this one would have to wait {wait}")
        }
        Throttle::RateLimit => {
            format!("the client's rate_limit would delay this call by {wait}")
        }
    }
}

/// Keeps as much of a body as an error stores, and releases the rest.
fn keep_beginning(body: &mut Bytes) {
    if let Some(beginning) = body.get(..BODY_KEPT) {
        *body = Bytes::copy_from_slice(beginning);
    }
}

/// What kind of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client or the call is set up in a way that cannot work. Troubleshooting: the text names the
    /// setting and what it takes.
    Config,
    /// The request breaks the rules, so it was not sent. Troubleshooting: see [`Error::violations`].
    Validation,
    /// No connection could be made: name resolution, TCP or TLS failed. Troubleshooting: is the base URL
    /// right, is the service up, is there a proxy or firewall in between? If certificates or the TLS of
    /// either side are at fault, the text says why and what to do about it; such a failure is not retried.
    Connect,
    /// The call or an attempt timed out. Troubleshooting: [`Error::outcome`] says whether the service may have acted.
    Timeout,
    /// The call would have timed out before its turn to be sent, so it was not sent: the client's own
    /// [`rate_limit`](crate::ClientBuilder::rate_limit) allows it no earlier, or the service has asked for fewer
    /// requests. Troubleshooting: [`Error::retry_after`] says how long to wait; a longer timeout lets the call wait by
    /// itself.
    Throttled,
    /// The connection broke before the whole response had arrived.
    Interrupted,
    /// The response's body is larger than the client's limit.
    TooLarge,
    /// The status is a success, but the body is not what it should be, or dealkit cannot read such a
    /// response: a 205, a 206 that was not asked for, an unexpected transfer or content coding.
    /// Troubleshooting: [`Error::decode_error`] names the path, [`Error::body`] holds the body.
    Decode,
    /// The status of the response is not a success.
    Status,
    /// The call was given up before it completed, with others of [`CreateMany`](crate::CreateMany).
    /// Troubleshooting: [`Error::outcome`] says whether the service may have acted.
    Cancelled,
    /// The job's ledger could not be written, so the row was not sent. Troubleshooting: [`Error::ledger_error`].
    Ledger,
    /// The job's ledger already has the row's outcome from an earlier run, so nothing was sent.
    /// [`Error::outcome`] returns it.
    Recorded,
    /// Another row of the job has the same key, so this one was not sent. [`Error::first_index`] says which row.
    DuplicateKey,
    /// The service refused an earlier row of the job with a 401 or 403, which concerns the key more than the row. So
    /// this row was not sent, and no further rows are taken. Troubleshooting: [`Error::first_index`] says which row was
    /// refused, and [`Error::status`] with which status; once the key is right, go on from this row.
    Stopped,
}

impl ErrorKind {
    /// The kind as a word: `config`, `validation`, `connect`, `timeout`, `throttled`, `interrupted`, `too_large`,
    /// `decode`, `status`, `cancelled`, `ledger`, `recorded`, `duplicate_key` or `stopped`. Python's exceptions and
    /// tables of errors use it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Config => "config",
            ErrorKind::Validation => "validation",
            ErrorKind::Connect => "connect",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Throttled => "throttled",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Decode => "decode",
            ErrorKind::Status => "status",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Ledger => "ledger",
            ErrorKind::Recorded => "recorded",
            ErrorKind::DuplicateKey => "duplicate_key",
            ErrorKind::Stopped => "stopped",
        }
    }
}

/// What keeps a call from being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Throttle {
    /// The service asked for a pause, or for fewer requests than the client's own limit allows.
    Service,
    /// The client's rate limit.
    RateLimit,
}

/// Whether any part of a request that got no response was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    /// Some or all of it may have reached the service.
    Perhaps,
}

impl Error {
    fn new(cause: Cause) -> Self {
        Self(Box::new(Inner {
            cause,
            operation: None,
            attempts: 0,
            earlier_may_have_acted: false,
            retry_after: None,
            received: None,
            was_stale: false,
            #[cfg(feature = "test-util")]
            outcome_of_test: None,
            earlier_response: None,
            is_out_of_quota: false,
        }))
    }

    pub(crate) fn config(text: impl Into<String>) -> Self {
        Self::new(Cause::Config(text.into()))
    }

    pub(crate) fn connect(source: impl Into<Source>) -> Self {
        Self::new(Cause::Connect(source.into()))
    }

    /// No connection could be made, for the reason given in the text.
    pub(crate) fn unconnected(text: &'static str, source: impl Into<Source>) -> Self {
        Self::new(Cause::Unconnected(text, source.into()))
    }

    /// No connection is possible, for the reason given in the text: trying again would not help.
    pub(crate) fn lasting(text: String) -> Self {
        Self::new(Cause::Lasting(text))
    }

    pub(crate) fn timeout(after: Duration, sent: Sent) -> Self {
        Self::new(Cause::Timeout(after, sent))
    }

    /// The call's turn comes after `wait`, when its time is over.
    pub(crate) fn throttled(wait: Duration, by: Throttle) -> Self {
        let mut error = Self::new(Cause::Throttled { wait, by });
        error.0.retry_after = Some(wait);
        error
    }

    /// Whether it ended the call before an attempt could be made: there would have been no time for one, or the job's
    /// ledger cannot be written.
    pub(crate) fn precedes_attempt(&self) -> bool {
        matches!(
            self.0.cause,
            Cause::Throttled { .. } | Cause::Ledger(_) | Cause::Recorded { .. }
        )
    }

    pub(crate) fn interrupted(source: impl Into<Source>) -> Self {
        Self::new(Cause::Interrupted(source.into()))
    }

    /// The service has said that it did not look at the request.
    pub(crate) fn not_taken(source: impl Into<Source>) -> Self {
        Self::new(Cause::NotTaken(source.into()))
    }

    /// The call was given up, with its outcome so far.
    pub(crate) fn cancelled(outcome: Outcome, attempts: u32) -> Self {
        let mut error = Self::new(Cause::Cancelled(outcome));
        error.0.attempts = attempts;
        error
    }

    /// What the ledger has on a row.
    #[cfg(feature = "ledger")]
    pub(crate) fn recorded(recorded: &crate::ledger::Recorded) -> Self {
        let status = recorded.status;
        Self::new(Cause::Recorded {
            outcome: recorded.outcome,
            status: status.and_then(|status| StatusCode::from_u16(status).ok()),
            request_id: recorded.request_id.clone(),
            in_flight: recorded.in_flight,
        })
    }

    /// The row with this index has the same key.
    #[cfg(feature = "ledger")]
    pub(crate) fn duplicate_key(first: usize) -> Self {
        Self::new(Cause::DuplicateKey(first))
    }

    /// The service has refused the row with this index, with this status, and no more rows are sent.
    pub(crate) fn stopped((index, status): (usize, StatusCode)) -> Self {
        Self::new(Cause::Stopped { index, status })
    }

    /// Records whether an earlier run may have made the service act.
    pub(crate) fn after_doubt(mut self, is_in_doubt: bool) -> Self {
        self.0.earlier_may_have_acted |= is_in_doubt;
        self
    }

    pub(crate) fn too_large(limit: u64) -> Self {
        Self::new(Cause::TooLarge(limit))
    }

    pub(crate) fn decode(error: DecodeError) -> Self {
        Self::new(Cause::Decode(error))
    }

    /// A response whose status is not a success.
    pub(crate) fn from_response(response: HttpResponse, url: &Url) -> Self {
        let error = match redact::redirect_target(response.status, &response.headers, url) {
            Some(target) => Self::new(Cause::Redirect(response.redactor.mask(&target))),
            None => Self::of_status(),
        };
        error.with_response(response)
    }

    /// The status of the response is the failure; the response is added later.
    pub(crate) fn of_status() -> Self {
        Self::new(Cause::Status)
    }

    /// Records that the connection had carried other requests and broke before any part of a response arrived.
    pub(crate) fn on_stale_connection(mut self) -> Self {
        self.0.was_stale = matches!(self.0.cause, Cause::Interrupted(_));
        self
    }

    /// Whether a reused connection broke before any part of a response arrived: as likely as not, the
    /// service had closed it before the request.
    pub(crate) fn was_stale(&self) -> bool {
        self.0.was_stale
    }

    pub(crate) fn with_operation(mut self, operation: &Operation) -> Self {
        self.0.operation = Some(operation.clone());
        self
    }

    /// Records how the attempts went: how many there were, how long the service asks to wait, and what
    /// came of the previous attempt.
    pub(crate) fn after(
        mut self,
        attempts: u32,
        retry_after: Option<Duration>,
        before: Option<&Error>,
    ) -> Self {
        self.0.attempts = attempts;
        self.0.retry_after = retry_after;
        self.0.earlier_may_have_acted =
            before.is_some_and(|before| before.outcome().may_have_acted());
        self.0.earlier_response = before.and_then(|before| match &before.0.received {
            Some(received) => Some(format!("{received}{}", before.request_id_text())),
            None => before.0.earlier_response.clone(),
        });
        self
    }

    /// Sets the outcome, whatever is known.
    #[cfg(feature = "test-util")]
    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome_of_test = Some(outcome);
        self
    }

    /// Records that it would have been retried if the client had not used up its retries.
    pub(crate) fn without_quota(mut self) -> Self {
        self.0.is_out_of_quota = true;
        self
    }

    /// The request's id, in brackets, if there is one.
    fn request_id_text(&self) -> String {
        match self.shown_request_id() {
            Some(id) => format!(" [request id {id}]"),
            None => String::new(),
        }
    }

    /// The request's id, in a form that may be shown and kept.
    pub(crate) fn shown_request_id(&self) -> Option<String> {
        let id = self.request_id()?;
        Some(match self.response() {
            Some(response) => redact::short(&response.redactor.mask(id)),
            None => redact::short(id),
        })
    }

    /// What is known about the attempts, in brackets, if anything.
    fn attempts_text(&self) -> String {
        let mut parts = Vec::new();
        if self.0.attempts > 1 {
            parts.push(format!("after {} attempts", self.0.attempts));
        }
        if let (Some(earlier), None) = (&self.0.earlier_response, &self.0.received) {
            parts.push(format!("the last response was {earlier}"));
        }
        if self.0.is_out_of_quota {
            parts.push("not retried: the client has used up its retry quota".to_owned());
        }
        if parts.is_empty() {
            return String::new();
        }
        format!(" ({})", parts.join("; "))
    }

    /// Keeps the response. The body is read as a problem only if the status is not a success: the body of a
    /// success does not describe an error.
    pub(crate) fn with_response(mut self, mut response: HttpResponse) -> Self {
        let problem = if response.status.is_success() {
            None
        } else if response.is_cut {
            Problem::from_cut_json(&response.body)
        } else {
            Problem::from_json(&response.body)
        };
        let shown = problem
            .as_ref()
            .and_then(|problem| response.redactor.summary(problem));
        keep_beginning(&mut response.body);
        if let Cause::Decode(error) = &mut self.0.cause {
            error.mask(|text| response.redactor.mask(text));
        }
        self.0.attempts = response.attempts;
        self.0.received = Some(Received {
            response,
            problem,
            shown,
        });
        self
    }

    fn response(&self) -> Option<&HttpResponse> {
        self.0.received.as_ref().map(|received| &received.response)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self.0.cause {
            Cause::Config(_) => ErrorKind::Config,
            Cause::Validation(_) => ErrorKind::Validation,
            Cause::Connect(_) | Cause::Unconnected(..) | Cause::Lasting(_) => ErrorKind::Connect,
            Cause::Timeout(..) => ErrorKind::Timeout,
            Cause::Throttled { .. } => ErrorKind::Throttled,
            Cause::Interrupted(_) | Cause::NotTaken(_) => ErrorKind::Interrupted,
            Cause::TooLarge(_) => ErrorKind::TooLarge,
            Cause::Decode(_) => ErrorKind::Decode,
            Cause::Status | Cause::Redirect(_) => ErrorKind::Status,
            Cause::Cancelled(_) => ErrorKind::Cancelled,
            Cause::Ledger(_) => ErrorKind::Ledger,
            Cause::Recorded { .. } => ErrorKind::Recorded,
            Cause::DuplicateKey(_) => ErrorKind::DuplicateKey,
            Cause::Stopped { .. } => ErrorKind::Stopped,
        }
    }

    /// The status of the response, if there was one. Like the body, the headers and the request id, it is that
    /// of the last attempt; if that attempt got no response, the text reports the last one before it. Of a row that was not
    /// sent, it is the status because of which it was not.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0.cause {
            Cause::Recorded { status, .. } => *status,
            Cause::Stopped { status, .. } => Some(*status),
            _ => self.response().map(|response| response.status),
        }
    }

    /// The response's HTTP version, if there was a response.
    pub fn version(&self) -> Option<Version> {
        self.response().map(|response| response.version)
    }

    /// The error body as problem details (RFC 9457), if it was one.
    pub fn problem(&self) -> Option<&Problem> {
        self.0.received.as_ref()?.problem.as_ref()
    }

    /// The first 64 KiB of the response's body, if there was a response; the whole body if it could not
    /// be decoded. Of the body of an error, at most 1 MiB is read.
    pub fn body(&self) -> Option<&[u8]> {
        if let Cause::Decode(error) = &self.0.cause {
            return Some(error.body());
        }
        self.response().map(|response| &*response.body)
    }

    /// The headers of the response, if there was one.
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.response().map(|response| &response.headers)
    }

    /// The request's id in the service's logs: include it when contacting support.
    pub fn request_id(&self) -> Option<&str> {
        if let Cause::Recorded { request_id, .. } = &self.0.cause {
            return request_id.as_deref();
        }
        self.response()?
            .request_id()
            .or_else(|| self.problem()?.request_id.as_deref())
    }

    /// How many times the request was attempted; 0 if it was never attempted.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// How long to wait before the next attempt: as the service asks (`Retry-After`), or, if the call was throttled, until
    /// its turn would have come.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What the call may have done at the service, which decides whether sending it again could do it twice.
    ///
    /// It is determined in the same way for every method. A GET changes nothing, whatever its outcome: ask
    /// [`may_have_acted`](Self::may_have_acted).
    ///
    /// ```
    /// use dealkit::{Client, Outcome};
    ///
    /// let error = Client::builder().build().unwrap_err();
    /// assert_eq!(error.outcome(), Outcome::NotSent); // as of every error found before anything was sent
    /// assert!(!error.may_have_acted());
    /// ```
    pub fn outcome(&self) -> Outcome {
        #[cfg(feature = "test-util")]
        if let Some(outcome) = self.0.outcome_of_test {
            return outcome;
        }
        let of_last = match (&self.0.cause, self.status()) {
            (Cause::Recorded { outcome, .. }, _) => *outcome,
            (Cause::Stopped { .. }, _) => Outcome::NotSent,
            // The head of the response determines the outcome, however much of the body followed.
            (_, Some(status)) => Outcome::of_status(status),
            (Cause::Config(_) | Cause::Validation(_) | Cause::NotTaken(_), None)
            | (Cause::Ledger(_) | Cause::DuplicateKey(_), None)
            | (Cause::Connect(_) | Cause::Unconnected(..) | Cause::Lasting(_), None)
            | (Cause::Timeout(_, Sent::Nothing) | Cause::Throttled { .. }, None)
            // The error of a document that did not come from a call.
            | (Cause::Decode(_), None) => Outcome::NotSent,
            (Cause::Timeout(_, Sent::Perhaps) | Cause::Interrupted(_), None)
            | (Cause::TooLarge(_) | Cause::Status | Cause::Redirect(_), None) => Outcome::Unknown,
            (Cause::Cancelled(outcome), None) => *outcome,
        };
        of_last.after(self.0.earlier_may_have_acted)
    }

    /// Whether trying again would fail in the same way: the two sides cannot make a secure connection, or the proxy
    /// lets nobody through.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self.0.cause, Cause::Lasting(_))
    }

    /// Whether the service may have changed something: after a create, whether the agent may exist. Always false after
    /// a request with a safe method (RFC 9110, section 9.2.1), such as a GET: it changes nothing, whatever its outcome.
    pub fn may_have_acted(&self) -> bool {
        let operation = self.0.operation.as_ref();
        let changes_nothing = operation.is_some_and(|operation| operation.method.is_safe());
        self.outcome().may_have_acted() && !changes_nothing
    }

    /// What is wrong with the request: as found before sending, or as listed in the service's error body. Of that list,
    /// the first [`Problem::MAX_ERRORS`] entries are kept, and [`Problem::omitted_errors`] counts the rest.
    pub fn violations(&self) -> &[Violation] {
        match &self.0.cause {
            Cause::Validation(error) => error.violations(),
            _ => self.problem().map_or(&[], |problem| &problem.errors),
        }
    }

    /// Where and why the response's body could not be decoded, if that is the failure.
    pub fn decode_error(&self) -> Option<&DecodeError> {
        match &self.0.cause {
            Cause::Decode(error) => Some(error),
            _ => None,
        }
    }

    /// What is wrong with the job's ledger, if that is why the row was not sent.
    pub fn ledger_error(&self) -> Option<&LedgerError> {
        match &self.0.cause {
            Cause::Ledger(error) => Some(error),
            _ => None,
        }
    }

    /// Whether another job is sending the row right now, so that this one has not sent it: its outcome is unknown here, but
    /// that job will know it.
    pub fn is_in_flight(&self) -> bool {
        matches!(
            self.0.cause,
            Cause::Recorded {
                in_flight: true,
                ..
            }
        )
    }

    /// The index of the earlier row of the job because of which this one was not sent: the first with the same key, or the
    /// one that the service refused.
    pub fn first_index(&self) -> Option<usize> {
        match self.0.cause {
            Cause::DuplicateKey(first) | Cause::Stopped { index: first, .. } => Some(first),
            _ => None,
        }
    }

    fn has_status(&self, status: u16) -> bool {
        self.kind() == ErrorKind::Status && self.status().is_some_and(|got| got == status)
    }

    /// 400: the service could not understand the request.
    pub fn is_bad_request(&self) -> bool {
        self.has_status(400)
    }

    /// 401: the service key is missing or unknown. Troubleshooting: is it the key of this service?
    pub fn is_authentication(&self) -> bool {
        self.has_status(401)
    }

    /// 403: the key does not permit this.
    pub fn is_permission_denied(&self) -> bool {
        self.has_status(403)
    }

    /// 404: there is no such resource. Troubleshooting: check the identifier, and the path of the base URL,
    /// if it has one.
    pub fn is_not_found(&self) -> bool {
        self.has_status(404)
    }

    /// 409: the request conflicts with the existing state.
    pub fn is_conflict(&self) -> bool {
        self.has_status(409)
    }

    /// 422: the service rejects the request's content. Troubleshooting: see [`Error::violations`].
    pub fn is_unprocessable(&self) -> bool {
        self.has_status(422)
    }

    /// 429: too many requests.
    pub fn is_rate_limited(&self) -> bool {
        self.has_status(429)
    }

    /// 5xx: the service failed.
    pub fn is_server_error(&self) -> bool {
        self.kind() == ErrorKind::Status
            && self.status().is_some_and(|status| status.is_server_error())
    }

    /// No connection, a timeout, or a broken connection.
    pub fn is_connection(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Connect | ErrorKind::Timeout | ErrorKind::Interrupted
        )
    }

    /// The call or an attempt timed out.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// The call was not sent, because its turn would have come too late: the client's own rate limit, or the service's
    /// wish for fewer requests, did not let it go out in time. [`is_rate_limited`](Self::is_rate_limited) is for a
    /// request that was sent and got a 429.
    pub fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            cause,
            operation,
            received,
            ..
        } = &*self.0;
        let mut line = String::new();
        if let Some(operation) = operation {
            line.push_str(&format!("{operation}: "));
        }
        match (cause, received) {
            (Cause::Status, Some(received)) => line.push_str(&received.to_string()),
            (cause, Some(Received { response, .. })) => {
                line.push_str(&format!("{}: {cause}", response.status));
            }
            (cause, None) => line.push_str(&cause.to_string()),
        }
        line.push_str(&self.attempts_text());
        line.push_str(&self.request_id_text());
        f.write_str(&line)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("outcome", &self.outcome())
            .field("attempts", &self.0.attempts)
            .field("status", &self.status())
            .field("message", &format_args!("{self}"))
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.cause {
            Cause::Validation(error) => Some(error),
            Cause::Decode(error) => Some(error),
            Cause::Ledger(error) => Some(error),
            cause => cause.source(),
        }
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
        Self::decode(error)
    }
}
