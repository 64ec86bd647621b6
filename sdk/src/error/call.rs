//! The error type, its kinds, and the methods to query it.

use std::{error::Error as StdError, fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version, header};

use crate::{
    contract::wire,
    error::{cause::Cause, kind::ErrorKind, problem::Problem, summary::summary},
    http::{
        connect::cause::ForeignError,
        error::{Attempts, FailedRequest, TransportCause, TransportError},
        operation::Operation,
        outcome::Outcome,
        rate::queue::LateAdmission,
        redact::short,
        response::HttpResponse,
        retry::attempts::is_safe,
    },
    json::decode_error::DecodeError,
    ledger::LedgerError,
    rules::validate::{ValidationError, Violation},
    value::words::{Setting, Words, words},
};

/// How much of an error's body is kept, in bytes.
const BODY_KEPT: usize = 64 * 1024;

/// The error of a call, or of building a client.
///
/// `Display` is one line with the method, the path template, what happened, whether the agent of a create may exist and, if there
/// was a response, its status, title, detail and request id. It never shows the service key, an identifier, or any other value that was sent or
/// received. `source()` returns a cause that the text leaves out, if there is one: the error of a library below, or of a
/// function of yours.
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
pub struct Error(Box<ErrorFacts>);

struct ErrorFacts {
    cause: Cause,
    operation: Option<Operation>,
    attempts: Attempts,
    /// The head of a response, and as much of its body as is kept.
    response: Option<HttpResponse>,
    problem: Option<Problem>,
    #[cfg(feature = "test-util")]
    outcome_of_test: Option<Outcome>,
}

impl Error {
    pub(crate) fn new(cause: Cause) -> Self {
        Self(Box::new(ErrorFacts {
            cause,
            operation: None,
            attempts: Attempts::default(),
            response: None,
            problem: None,
            #[cfg(feature = "test-util")]
            outcome_of_test: None,
        }))
    }

    pub(crate) fn config(text: impl Into<Words>) -> Self {
        Self::new(Cause::Config(text.into()))
    }

    /// Creates the error of a call that cannot be sent before its timeout.
    pub(crate) fn throttled(late: LateAdmission) -> Self {
        let mut error = Self::new(Cause::Throttled(late));
        error.0.attempts.retry_after = Some(late.wait);
        error
    }

    pub(crate) fn cancelled(outcome: Outcome, attempts: u32) -> Self {
        let mut error = Self::new(Cause::Cancelled(outcome));
        error.0.attempts.count = attempts;
        error
    }

    /// What the ledger has on a row, and, if a function was asked about it, why that has not answered.
    #[cfg(feature = "ledger")]
    pub(crate) fn recorded(
        recorded: &crate::ledger::Recorded,
        unanswered: Option<crate::error::cause::Unanswered>,
    ) -> Self {
        Self::new(Cause::Recorded {
            outcome: recorded.outcome,
            status: recorded.status,
            request_id: recorded.request_id.clone(),
            in_flight: recorded.in_flight,
            reason: recorded.reason(),
            request_differs: recorded.request_differs,
            unanswered,
        })
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn duplicate_key(first: usize) -> Self {
        Self::new(Cause::DuplicateKey(first))
    }

    /// The service has refused the row with this index, with this status, or there was no key for it, and no more rows are
    /// sent.
    pub(crate) fn stopped((index, status): (usize, Option<StatusCode>)) -> Self {
        Self::new(Cause::Stopped { index, status })
    }

    /// Records whether an earlier run may have made the service act.
    pub(crate) fn with_earlier_doubt(mut self, is_in_doubt: bool) -> Self {
        self.0.attempts.earlier_may_have_acted |= is_in_doubt;
        self
    }

    pub(crate) fn with_operation(mut self, operation: &Operation) -> Self {
        self.0.operation = Some(operation.clone());
        self
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome_of_test = Some(outcome);
        self
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn with_attempts(mut self, count: u32, retry_after: Option<Duration>) -> Self {
        self.0.attempts.count = count;
        self.0.attempts.retry_after = retry_after;
        self
    }

    /// The request's id, in a form that may be shown and kept.
    pub(crate) fn shown_request_id(&self) -> Option<String> {
        let id = self.request_id()?;
        Some(match self.response() {
            Some(response) => short(&response.redactor.mask(id)),
            None => short(id),
        })
    }

    /// The title of the error response, fit to be shown.
    #[cfg(feature = "ledger")]
    pub(crate) fn shown_title(&self) -> Option<String> {
        let title = self.problem()?.title.as_deref()?;
        let redactor = &self.response()?.redactor;
        Some(short(&redactor.mask(title))).filter(|title| !title.is_empty())
    }

    /// The different codes of the violations in the error response, separated by spaces.
    #[cfg(feature = "ledger")]
    pub(crate) fn shown_codes(&self) -> Option<String> {
        use crate::error::summary::codes;

        let redactor = &self.response()?.redactor;
        codes(redactor, self.problem()?)
    }

    /// What is known about the attempts, in brackets, if anything.
    fn attempts_text(&self) -> Words {
        let mut parts: Vec<Words> = Vec::new();
        let attempts = &self.0.attempts;
        if attempts.count > 1 {
            parts.push(format!("after {} attempts", attempts.count).into());
        }
        if let (Some(earlier), None) = (&attempts.earlier_response, self.response()) {
            let earlier = Self::new(Cause::Transport(TransportCause::Status(None)))
                .with_response(earlier.clone());
            parts.push(format!("the last response was {earlier}").into());
        }
        if let Some(why) = &attempts.not_retried {
            parts.push(words!("not retried: {}", why.clone()));
        }
        match parts
            .into_iter()
            .reduce(|all, part| words!("{}; {}", all, part))
        {
            Some(all) => words!(" ({})", all),
            None => Words::default(),
        }
    }

    /// Keeps the response. The body is read as a problem only if the status is not a success: the body of a
    /// success does not describe an error.
    pub(crate) fn with_response(mut self, mut response: HttpResponse) -> Self {
        if !response.status.is_success() {
            self.0.problem = Problem::from_json(&response.body);
        }
        if let Some(beginning) = response.body.get(..BODY_KEPT) {
            // A copy, so that the rest is released.
            response.body = Bytes::copy_from_slice(beginning);
        }
        if let Cause::Decode(error) = &mut self.0.cause {
            error.mask(|text| response.redactor.mask(text));
            self.0.attempts.count = response.attempts;
        }
        self.0.response = Some(response);
        self
    }

    fn response(&self) -> Option<&HttpResponse> {
        self.0.response.as_ref()
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.cause.kind()
    }

    /// The status of the response, if there was one. Like the body, the headers and the request id, it is that of the
    /// last attempt; if that attempt got no response, the text reports the last one before it. For a row that was not
    /// sent, it is the status that prevented it.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0.cause {
            Cause::Recorded { status, .. } => *status,
            Cause::Stopped { status, .. } => *status,
            _ => self.response().map(|response| response.status),
        }
    }

    /// The response's HTTP version, if there was a response.
    pub fn version(&self) -> Option<Version> {
        self.response().map(|response| response.version)
    }

    /// The error body as problem details (RFC 9457), if it was one.
    pub fn problem(&self) -> Option<&Problem> {
        self.0.problem.as_ref()
    }

    /// The first 64 KiB of the response's body, if there was a response; the whole body if it could not be decoded. At
    /// most 1 MiB of an error body is read.
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

    /// The request's id in the service's logs: quote it to the service's support.
    pub fn request_id(&self) -> Option<&str> {
        if let Cause::Recorded { request_id, .. } = &self.0.cause {
            return request_id.as_deref();
        }
        self.response()?
            .request_id()
            .or_else(|| self.problem()?.request_id.as_deref())
    }

    /// How often the request was attempted; 0 if never.
    pub fn attempts(&self) -> u32 {
        self.0.attempts.count
    }

    /// How long to wait before the next attempt: as the service asks (`Retry-After`), or, if the call was throttled, until
    /// it could have been sent.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.attempts.retry_after
    }

    /// What the call may have done at the service, which decides whether it is safe to send it again.
    ///
    /// It is determined in the same way for every method, but a GET changes nothing, whatever its outcome: ask
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
        let of_last = self.0.cause.outcome(self.status());
        of_last.after(self.0.attempts.earlier_may_have_acted)
    }

    /// Whether the service may have changed anything: after a create, whether the agent may exist. Always false after a
    /// request with a safe method (RFC 9110, section 9.2.1), such as a GET.
    pub fn may_have_acted(&self) -> bool {
        let operation = self.0.operation.as_ref();
        let changes_nothing = operation.is_some_and(|operation| operation.method.is_safe());
        self.outcome().may_have_acted() && !changes_nothing
    }

    /// What is wrong with the request: as found before sending it, or as listed in the service's error body. Of that
    /// list, the first [`Problem::MAX_ERRORS`] entries are kept, and [`Problem::omitted_errors`] counts the rest.
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

    /// Whether another job is sending the row right now, so that this one did not. Its outcome is unknown here, but
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

    /// Whether the ledger's record of the row is of another request than the row has now, so that a change was not sent.
    pub fn request_differs(&self) -> bool {
        matches!(
            self.0.cause,
            Cause::Recorded {
                request_differs: true,
                ..
            }
        )
    }

    /// The index of the earlier row that prevented this one from being sent: the first with the same key, or the one
    /// that the service rejected, or for which there was no key.
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

    /// Returns true if the call was not sent before its timeout, because of the client's own rate limit or because
    /// the service asked for fewer requests. [`is_rate_limited`](Self::is_rate_limited) is for a request that was sent
    /// and got a 429.
    pub fn is_throttled(&self) -> bool {
        self.kind() == ErrorKind::Throttled
    }
}

impl Error {
    /// What `Display` says, with the settings in it as data: for programs whose users know them by other names.
    pub fn words(&self) -> Words {
        let operation = match &self.0.operation {
            Some(operation) => format!("{operation}: "),
            None => String::new(),
        };
        let what = match (&self.0.cause, self.response()) {
            (Cause::Transport(TransportCause::Status(None)), Some(response)) => {
                let said = self
                    .problem()
                    .and_then(|problem| summary(&response.redactor, problem));
                let said = said.map_or_else(String::new, |said| format!(": {said}"));
                format!("{}{said}", response.status).into()
            }
            (cause, Some(response)) => {
                words!("{}: {}", response.status.to_string(), cause.words())
            }
            (cause, None) => cause.words(),
        };
        let encoding = self.encoding().map_or_else(Words::default, |encoding| {
            words!(
                "; it came with Content-Encoding: {}, which dealkit neither asks for nor decodes",
                encoding
            )
        });
        let advice = if self.can_skip() {
            words!(
                "; with the option {}, it can be left out",
                Setting::Unreadable
            )
        } else {
            Words::default()
        };
        let effect = self
            .effect()
            .map_or_else(Words::default, |effect| words!("; {}", effect));
        let id = self.shown_request_id();
        let id = id.map_or_else(String::new, |id| format!(" [request id {id}]"));
        let attempts = self.attempts_text();
        words!(
            "{}{}{}{}{}{}{}",
            operation,
            what,
            encoding,
            advice,
            effect,
            attempts,
            id
        )
    }

    /// Returns the Content-Encoding of a response that cannot be read, if it has one.
    fn encoding(&self) -> Option<String> {
        let response = self.response().filter(|_| self.decode_error().is_some())?;
        let encoding = response
            .headers
            .get(header::CONTENT_ENCODING)?
            .to_str()
            .ok()?;
        let is_none = encoding.trim().eq_ignore_ascii_case("identity");
        (!is_none).then(|| short(&response.redactor.mask(encoding)))
    }

    /// Returns what a failed create may have done. Rows of the ledger have messages of their own.
    fn effect(&self) -> Option<&'static str> {
        match (&self.0.cause, &self.0.operation) {
            (Cause::Recorded { .. }, _) | (_, None) => None,
            (_, Some(operation)) => find_effect(operation, self.outcome()),
        }
    }

    /// Whether the same call would succeed with the option to skip what cannot be read. Of a create that is never said: it has
    /// acted, and must not be sent again.
    fn can_skip(&self) -> bool {
        let is_read = |operation: &Operation| is_safe(&operation.method);
        self.0.operation.as_ref().is_some_and(is_read)
            && self.decode_error().is_some_and(DecodeError::is_optional)
    }

    /// What the libraries below said when no connection was made, or one broke: the texts of the chain of
    /// [`source`](std::error::Error::source)s, most often for those who look into a network's failures.
    pub fn transport_words(&self) -> impl Iterator<Item = &Words> {
        self.0
            .cause
            .foreign()
            .into_iter()
            .flat_map(ForeignError::chain)
    }
}

/// The consequences of calls that have failed or were cancelled, for texts and logs: the method and path template of the operation,
/// the outcome, and the consequence.
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

/// Returns what a call with this outcome that has failed or was cancelled may have done, if that can be said.
pub(crate) fn find_effect(operation: &Operation, outcome: Outcome) -> Option<&'static str> {
    EFFECTS
        .into_iter()
        .find_map(|(method, template, of, effect)| {
            let is_it =
                operation.method == method && operation.template == template && outcome == of;
            is_it.then_some(effect)
        })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("outcome", &self.outcome())
            .field("attempts", &self.0.attempts.count)
            .field("status", &self.status())
            .field("message", &format_args!("{self}"))
            .finish_non_exhaustive()
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
        error.0.attempts = attempts;
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
