//! Causes of errors: their data, kinds, outcomes and messages.

use std::{error::Error as StdError, sync::Arc};

use chrono::{DateTime, SecondsFormat, Utc};
use http::StatusCode;

use crate::{
    error::kind::ErrorKind,
    json::decode_error::DecodeError,
    ledger::LedgerError,
    rules::validate::ValidationError,
    transport::{
        connect::failure::LibraryError, error::TransportCause, outcome::Outcome,
        rate::queue::LateAdmission, redact::shorten,
    },
    value::{
        AgentId,
        format_duration::format_seconds,
        message::{Message, Setting},
    },
};

/// The cause of an error, with its data.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "ledger"),
    expect(dead_code, reason = "some causes need a ledger")
)]
pub(crate) enum Cause {
    Config(Message),
    Validation(ValidationError),
    Transport(TransportCause),
    Throttled(LateAdmission),
    Decode(DecodeError),
    Cancelled(Outcome),
    Ledger(LedgerError),
    AlreadyAttempted(EarlierAttempt),
    /// The ledger has the key with an agent that was created from other data.
    IdempotencyKeyReused {
        agent_id: Option<AgentId>,
        sent_at: Option<DateTime<Utc>>,
    },
    /// The index of the first row with the same key.
    DuplicateKey(usize),
    ServiceKey(Message),
    /// The index of the row that the service rejected with this status, or for which there was no service key.
    Stopped {
        index: usize,
        status: Option<StatusCode>,
    },
}

/// An earlier attempt to create a row, according to the ledger.
#[derive(Clone, Debug)]
pub(crate) struct EarlierAttempt {
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<StatusCode>,
    pub(crate) request_id: Option<String>,
    /// The time at which the row was sent.
    pub(crate) sent_at: Option<DateTime<Utc>>,
    /// The caller's label of the row, which is not personal data.
    pub(crate) label: Option<String>,
    pub(crate) in_flight: bool,
    /// The title and the violation codes of the error response, if the service rejected the row.
    pub(crate) reason: Option<String>,
    /// True if the row has changed since its request was sent.
    pub(crate) request_differs: bool,
    /// The error of the caller's `resolve`, if it was called for the row and failed.
    pub(crate) resolve_error: Option<ResolveError>,
}

/// The error of the caller's `resolve` function. Messages never show the error's text, which may contain personal data.
pub(crate) type ResolveError = Arc<dyn StdError + Send + Sync>;

impl Cause {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Cause::Config(_) => ErrorKind::Config,
            Cause::Validation(_) => ErrorKind::Validation,
            Cause::Transport(cause) => match cause {
                TransportCause::Connect(..) => ErrorKind::Connect,
                TransportCause::Timeout(..) => ErrorKind::Timeout,
                TransportCause::Interrupted(..)
                | TransportCause::Malformed(..)
                | TransportCause::NotProcessed(_) => ErrorKind::Interrupted,
                TransportCause::TooLarge(_) => ErrorKind::TooLarge,
                TransportCause::Unsendable(_) => ErrorKind::Config,
                TransportCause::Status(_) => ErrorKind::Status,
            },
            Cause::Throttled(_) => ErrorKind::Throttled,
            Cause::Decode(_) => ErrorKind::Decode,
            Cause::Cancelled(_) => ErrorKind::Cancelled,
            Cause::Ledger(_) => ErrorKind::Ledger,
            Cause::AlreadyAttempted(_) => ErrorKind::AlreadyAttempted,
            Cause::IdempotencyKeyReused { .. } => ErrorKind::IdempotencyKeyReused,
            Cause::DuplicateKey(_) => ErrorKind::DuplicateKey,
            Cause::ServiceKey(_) => ErrorKind::ServiceKey,
            Cause::Stopped { .. } => ErrorKind::Stopped,
        }
    }

    /// Returns the outcome of the last attempt, given the status of its response, if there was one.
    pub(crate) fn outcome(&self, status: Option<StatusCode>) -> Outcome {
        match (self, status) {
            (Cause::AlreadyAttempted(attempt), _) => attempt.outcome,
            (Cause::IdempotencyKeyReused { .. }, _) => Outcome::Succeeded,
            (Cause::Stopped { .. }, _) => Outcome::NotSent,
            (Cause::Transport(cause), status) => cause.outcome(status),
            // The head of the response determines the outcome, however much of the body followed.
            (_, Some(status)) => Outcome::from_status(status),
            (Cause::Config(_) | Cause::Validation(_) | Cause::Throttled(_), None)
            | (Cause::Ledger(_) | Cause::DuplicateKey(_) | Cause::ServiceKey(_), None)
            // A document that was decoded outside of a call.
            | (Cause::Decode(_), None) => Outcome::NotSent,
            (Cause::Cancelled(outcome), None) => *outcome,
        }
    }

    pub(crate) fn message(&self) -> Message {
        match self {
            Cause::Config(message) => message.clone(),
            Cause::Validation(error) => error.to_string().into(),
            Cause::Transport(cause) => describe_transport(cause),
            Cause::Throttled(late_admission) => describe_throttled(*late_admission),
            Cause::Decode(error) => format!("the response could not be read: {error}").into(),
            Cause::Cancelled(outcome) => {
                format!("cancelled {}", describe_cancellation(*outcome)).into()
            }
            Cause::Ledger(error) => format!("not sent: {error}").into(),
            Cause::AlreadyAttempted(attempt) => {
                let text = describe_earlier_attempt(attempt);
                match attempt.request_differs {
                    true => format!("{text}. The row has changed since, and this change was not sent").into(),
                    false => text.into(),
                }
            }
            Cause::IdempotencyKeyReused { .. } => "an agent was created earlier with this idempotency key from other data; \
                 nothing was sent now. The API cannot change an agent: if this is another agent, give it a key of its own"
                .into(),
            Cause::DuplicateKey(first) => format!(
                "not sent: the row at index {first} in this job has the same key; with a ledger, each row needs a key of \
                 its own"
            )
            .into(),
            Cause::ServiceKey(message) => message.clone().with_prefix("not sent: "),
            Cause::Stopped { index, status: Some(status) } => format!(
                "not sent: the service rejected the row at index {index} with {status}, and would reject this row as \
                 well; no further rows are taken"
            )
            .into(),
            Cause::Stopped { index, status: None } => Message::from(format!(
                "not sent: there was no service key for the row at index {index}, and there would be none for this row; no \
                 further rows are taken"
            ))
            .see(Setting::ServiceKey),
        }
    }

    pub(crate) fn library_error(&self) -> Option<&LibraryError> {
        match self {
            Cause::Transport(cause) => cause.library_error(),
            _ => None,
        }
    }

    pub(crate) fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            // The message of `Error` contains the text of these errors. A program that prints an error with its sources would show the
            // text twice.
            Cause::Validation(_) | Cause::Decode(_) | Cause::Ledger(_) => None,
            Cause::AlreadyAttempted(attempt) => attempt
                .resolve_error
                .as_deref()
                .filter(|error| !error.is::<LedgerError>())
                .map(|error| error as _),
            cause => cause.library_error().map(|error| error as _),
        }
    }
}

fn describe_transport(cause: &TransportCause) -> Message {
    match cause {
        TransportCause::Connect(None, _) => "no connection could be made".into(),
        TransportCause::Connect(Some(failure), _) => failure
            .message
            .clone()
            .with_prefix("no connection could be made: "),
        TransportCause::Timeout(after, _) => format!("timed out after {}", format_seconds(*after)).into(),
        TransportCause::Interrupted(_, advice) => {
            match advice {
                None => "the connection broke before the whole response had arrived".into(),
                Some(advice) => advice
                    .clone()
                    .with_prefix("the connection broke before the whole response had arrived: "),
            }
        }
        TransportCause::Malformed(part, _) => format!(
            "the head of the response is not valid HTTP, in {part}; report this to the service's operator"
        )
        .into(),
        TransportCause::NotProcessed(_) => {
            "the service closed the connection before accepting the request".into()
        }
        TransportCause::TooLarge(limit) => Message::from(format!(
            "the body of the response is larger than the limit of {limit} bytes; raise the limit to read it"
        ))
        .see(Setting::MaxResponseBytes),
        TransportCause::Status(None) => "the service returned an error".into(),
        TransportCause::Status(Some(target)) => format!(
            "the service redirects to {target}; redirects are never followed, because the key would be sent along"
        )
        .into(),
        TransportCause::Unsendable(reason) => {
            format!("the request cannot be sent: {reason}").into()
        }
    }
}

fn describe_throttled(late_admission: LateAdmission) -> Message {
    let wait = format_seconds(late_admission.wait);
    let (reason, setting) = if late_admission.is_due_to_service {
        let reason =
            format!("the service has asked for fewer requests; this one would have to wait {wait}");
        (reason, Setting::Timeout)
    } else {
        let reason = format!("the client's rate limit would delay this call by {wait}");
        (reason, Setting::RateLimit)
    };
    Message::from(format!(
        "not sent: {reason}, longer than its timeout allows"
    ))
    .see(setting)
}

fn describe_cancellation(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent => "before it was sent",
        Outcome::Rejected => "before it was sent again",
        Outcome::Unknown => "after it was sent, before the whole response had arrived",
        Outcome::Succeeded => "after it succeeded, while the response was arriving",
    }
}

fn describe_earlier_attempt(attempt: &EarlierAttempt) -> String {
    if attempt.in_flight {
        return "it is being sent elsewhere right now; nothing was sent here. Once that has ended, send it again with the \
             same ledger and key: if the agent was created, the ledger has it"
            .to_owned();
    }
    let status = attempt.status.map(|status| status.to_string());
    let resolve_error = attempt.resolve_error.as_deref();
    let resolution = match resolve_error.map(|error| error.downcast_ref::<LedgerError>()) {
        None => String::new(),
        Some(None) => ", and the function that was called to resolve it failed".to_owned(),
        Some(Some(error)) => format!(
            ", and the resolution of the function that was called to resolve it is rejected: {error}"
        ),
    };
    match attempt.outcome {
        Outcome::Succeeded => "the agent was created earlier; nothing was sent now".to_owned(),
        Outcome::Rejected => {
            let status = list_in_brackets([status]);
            let reason = attempt.reason.as_deref();
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            format!("the service rejected it earlier{status}{reason}; nothing was sent now")
        }
        Outcome::NotSent | Outcome::Unknown => {
            // The service's operator looks up the request by its time, and the caller finds the record by its label.
            let sent_at = attempt.sent_at.map(|time| {
                format!(
                    "sent at {}",
                    time.to_rfc3339_opts(SecondsFormat::Secs, true)
                )
            });
            let label = attempt.label.as_deref().filter(|label| !label.is_empty());
            let label = label.map(|label| format!("label {}", shorten(label)));
            let facts = list_in_brackets([status, sent_at, label]);
            format!(
                "it was sent earlier, and its outcome is unknown{facts}{resolution}; nothing was sent now. Find out whether the \
                 agent exists, and resolve the row"
            )
        }
    }
}

/// Lists the known facts in brackets, after a space. Returns an empty string if no fact is known.
fn list_in_brackets<const N: usize>(facts: [Option<String>; N]) -> String {
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    if facts.is_empty() {
        return String::new();
    }
    format!(" ({})", facts.join("; "))
}
