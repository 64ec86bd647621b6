//! What an error is about: its kind, the facts, and the words for them.

use std::error::Error as StdError;

use http::StatusCode;

use crate::{
    error::kind::ErrorKind,
    http::{
        connect::cause::ForeignError, error::TransportCause, outcome::Outcome,
        rate::queue::LateAdmission,
    },
    json::decode_error::DecodeError,
    ledger::LedgerError,
    rules::validate::ValidationError,
    value::{
        duration::in_words,
        words::{Setting, Words, words},
    },
};

#[derive(Debug)]
#[cfg_attr(
    not(feature = "ledger"),
    expect(dead_code, reason = "only a ledger has some of them")
)]
pub(crate) enum Cause {
    Config(Words),
    Validation(ValidationError),
    Transport(TransportCause),
    Throttled(LateAdmission),
    Decode(DecodeError),
    Cancelled(Outcome),
    Ledger(LedgerError),
    Recorded {
        outcome: Outcome,
        status: Option<StatusCode>,
        request_id: Option<String>,
        in_flight: bool,
        /// The title and the violation codes of the error response, if the service rejected the row.
        reason: Option<String>,
        /// Whether the request that was sent differs from the row as it is now.
        request_differs: bool,
        /// Why the function that was asked about the row has not answered.
        unanswered: Option<Unanswered>,
    },
    /// The index of the first row with the same key.
    DuplicateKey(usize),
    ServiceKey(Words),
    /// The row that the service refused, and how, or for which there was no key.
    Stopped {
        index: usize,
        status: Option<StatusCode>,
    },
}

/// The error of a program's own function. What it says is left to the program, which may have put personal data in it.
pub(crate) type Unanswered = Box<dyn StdError + Send + Sync>;

impl Cause {
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Cause::Config(_) => ErrorKind::Config,
            Cause::Validation(_) => ErrorKind::Validation,
            Cause::Transport(cause) => match cause {
                TransportCause::Connect(..) => ErrorKind::Connect,
                TransportCause::Timeout(..) => ErrorKind::Timeout,
                TransportCause::Interrupted(_)
                | TransportCause::Malformed(..)
                | TransportCause::NotTaken(_) => ErrorKind::Interrupted,
                TransportCause::TooLarge(_) => ErrorKind::TooLarge,
                TransportCause::Unsendable(_) => ErrorKind::Config,
                TransportCause::Status(_) => ErrorKind::Status,
            },
            Cause::Throttled(_) => ErrorKind::Throttled,
            Cause::Decode(_) => ErrorKind::Decode,
            Cause::Cancelled(_) => ErrorKind::Cancelled,
            Cause::Ledger(_) => ErrorKind::Ledger,
            Cause::Recorded { .. } => ErrorKind::Recorded,
            Cause::DuplicateKey(_) => ErrorKind::DuplicateKey,
            Cause::ServiceKey(_) => ErrorKind::ServiceKey,
            Cause::Stopped { .. } => ErrorKind::Stopped,
        }
    }

    /// What the call may have done in its last attempt, to which there was a response with this status, or none.
    pub(crate) fn outcome(&self, status: Option<StatusCode>) -> Outcome {
        match (self, status) {
            (Cause::Recorded { outcome, .. }, _) => *outcome,
            (Cause::Stopped { .. }, _) => Outcome::NotSent,
            (Cause::Transport(cause), status) => cause.outcome(status),
            // The head of the response determines the outcome, however much of the body followed.
            (_, Some(status)) => Outcome::of_status(status),
            (Cause::Config(_) | Cause::Validation(_) | Cause::Throttled(_), None)
            | (Cause::Ledger(_) | Cause::DuplicateKey(_) | Cause::ServiceKey(_), None)
            // The error of a document that did not come from a call.
            | (Cause::Decode(_), None) => Outcome::NotSent,
            (Cause::Cancelled(outcome), None) => *outcome,
        }
    }

    pub(crate) fn words(&self) -> Words {
        match self {
            Cause::Config(text) => text.clone(),
            Cause::Validation(error) => error.to_string().into(),
            Cause::Transport(cause) => transport(cause),
            Cause::Throttled(late) => throttled(*late),
            Cause::Decode(error) => format!("the response could not be read: {error}").into(),
            Cause::Cancelled(outcome) => words!("cancelled {}", when_cancelled(*outcome)),
            Cause::Ledger(error) => words!("not sent: {}", error.words()),
            Cause::Recorded {
                outcome,
                status,
                in_flight,
                reason,
                request_differs,
                unanswered,
                ..
            } => {
                let text = recorded(
                    *outcome,
                    *status,
                    *in_flight,
                    reason.as_deref(),
                    unanswered.as_deref(),
                );
                match request_differs {
                    true => words!("{}. The row has changed since, and this change was not sent", text),
                    false => text,
                }
            }
            Cause::DuplicateKey(first) => format!(
                "not sent: the row at index {first} in this job has the same key; with a ledger, each row needs a key of \
                 its own"
            )
            .into(),
            Cause::ServiceKey(why) => words!("not sent: {}", why.clone()),
            Cause::Stopped { index, status: Some(status) } => format!(
                "not sent: the service refused the row at index {index} with {status}, and would refuse this one as \
                 well; no further rows are taken"
            )
            .into(),
            Cause::Stopped { index, status: None } => words!(
                "not sent: there was no {} for the row at index {}, and there would be none for this one; no further \
                 rows are taken",
                Setting::ServiceKey,
                index.to_string()
            ),
        }
    }

    pub(crate) fn foreign(&self) -> Option<&ForeignError> {
        match self {
            Cause::Transport(cause) => cause.foreign(),
            _ => None,
        }
    }

    pub(crate) fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            // `Error`'s own text contains theirs, so programs that print an error with its sources would repeat it.
            Cause::Validation(_) | Cause::Decode(_) | Cause::Ledger(_) => None,
            Cause::Recorded { unanswered, .. } => unanswered
                .as_deref()
                .filter(|error| !error.is::<LedgerError>())
                .map(|error| error as _),
            cause => cause.foreign().map(|error| error as _),
        }
    }
}

fn transport(cause: &TransportCause) -> Words {
    match cause {
        TransportCause::Connect(None, _) => words!("no connection could be made"),
        TransportCause::Connect(Some(why), _) => {
            words!("no connection could be made: {}", why.words.clone())
        }
        TransportCause::Timeout(after, _) => words!("timed out after {}", in_words(*after)),
        TransportCause::Interrupted(_) => {
            words!("the connection broke before the whole response had arrived")
        }
        TransportCause::Malformed(place, _) => words!(
            "the head of the response is not valid HTTP, in {}; `curl --include` shows it",
            *place
        ),
        TransportCause::NotTaken(_) => {
            words!("the service closed the connection before accepting the request")
        }
        TransportCause::TooLarge(limit) => words!(
            "the body of the response is larger than the limit of {} bytes; raise {} to read it",
            limit.to_string(),
            Setting::MaxResponseBytes
        ),
        TransportCause::Status(None) => words!("the service returned an error"),
        TransportCause::Status(Some(target)) => words!(
            "the service redirects to {}; redirects are never followed, because the key would be sent along",
            target.clone()
        ),
        TransportCause::Unsendable(why) => words!("the request cannot be sent: {}", why.clone()),
    }
}

fn throttled(late: LateAdmission) -> Words {
    let wait = in_words(late.wait);
    let why = if late.is_due_to_service {
        words!(
            "the service has asked for fewer requests; this one would have to wait {}",
            wait
        )
    } else {
        words!(
            "the client's {} would delay this call by {}",
            Setting::RateLimit,
            wait
        )
    };
    words!(
        "not sent: {}, longer than its {} allows",
        why,
        Setting::Timeout
    )
}

fn when_cancelled(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent => "before it was sent",
        Outcome::Rejected => "before it was sent again",
        Outcome::Unknown => "after it was sent, before the whole response had arrived",
        Outcome::Succeeded => "after it succeeded, while the response was arriving",
    }
}

fn recorded(
    outcome: Outcome,
    status: Option<StatusCode>,
    in_flight: bool,
    reason: Option<&str>,
    unanswered: Option<&(dyn StdError + Send + Sync + 'static)>,
) -> Words {
    if in_flight {
        return words!(
            "it is being sent elsewhere right now; nothing was sent here. Once that has ended, send it again with the \
             same ledger and key: if the agent was created, the ledger says so"
        );
    }
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let why = match unanswered.map(|error| error.downcast_ref::<LedgerError>()) {
        None => words!(""),
        Some(None) => words!(", and the function that was asked to resolve it failed"),
        Some(Some(error)) => words!(
            ", and the answer of the function that was asked to resolve it is refused: {}",
            error.words()
        ),
    };
    match outcome {
        Outcome::Succeeded => words!("the agent was created earlier; nothing was sent"),
        Outcome::Rejected => {
            words!(
                "the service rejected it earlier{}{}; nothing was sent",
                status,
                reason
            )
        }
        Outcome::NotSent | Outcome::Unknown => words!(
            "it was sent earlier, and its outcome is unknown{}{}; nothing was sent. Find out whether the agent exists, \
             and settle the row",
            status,
            why
        ),
    }
}
