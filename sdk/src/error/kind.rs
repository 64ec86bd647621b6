//! The kinds of errors.

use std::fmt;

/// What kind of failure an [`Error`](crate::Error) is. `Display` shows it as the [word](Self::as_str).
///
/// ```
/// use dealkit::{Error, ErrorKind};
///
/// fn advice(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::Config => "correct the settings",
///         ErrorKind::Validation => "correct the entry",
///         ErrorKind::Connect | ErrorKind::Throttled => "try again later",
///         _ => "ask for help", // there can be more kinds
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client or the call is set up in a way that cannot work. Troubleshooting: the text names the
    /// setting and what it takes.
    Config,
    /// The request breaks the rules, so it was not sent. Troubleshooting: see
    /// [`Error::violations`](crate::Error::violations).
    Validation,
    /// No connection could be made: name resolution, TCP or TLS failed. Troubleshooting: is the base URL
    /// right, is the service up, is there a proxy or firewall in between? If certificates or the TLS of
    /// either side are at fault, the text says why and what to do about it; such a failure is not retried.
    Connect,
    /// The call or an attempt timed out. Troubleshooting: [`Error::outcome`](crate::Error::outcome) says whether the
    /// service may have acted.
    Timeout,
    /// The call would have timed out before its turn to be sent, so it was not sent: the client's own
    /// [`rate_limit`](crate::ClientBuilder::rate_limit) allows it no earlier, or the service has asked for fewer
    /// requests. Troubleshooting: [`Error::retry_after`](crate::Error::retry_after) says how long to wait; a longer
    /// timeout lets the call wait by itself.
    Throttled,
    /// The connection broke before the whole response had arrived.
    Interrupted,
    /// The response's body is larger than the client's limit.
    TooLarge,
    /// The status is a success, but the body is not what it should be, or dealkit cannot read such a response: a 205, a
    /// 206 that was not asked for, an unexpected content coding. Troubleshooting:
    /// [`Error::decode_error`](crate::Error::decode_error) names the path, [`Error::body`](crate::Error::body) holds
    /// the body.
    Decode,
    /// The status of the response is not a success.
    Status,
    /// The call was given up before it completed, with others of [`CreateMany`](crate::CreateMany).
    /// Troubleshooting: [`Error::outcome`](crate::Error::outcome) says whether the service may have acted.
    Cancelled,
    /// The job's ledger could not be written, so the row was not sent. Troubleshooting:
    /// [`Error::ledger_error`](crate::Error::ledger_error).
    Ledger,
    /// The job's ledger has it that the service rejected the row, or may have acted on it, in an earlier run, or that
    /// another job is sending it, so nothing was sent. [`Error::outcome`](crate::Error::outcome) returns which.
    Recorded,
    /// Another row of the job has the same key, so this one was not sent.
    /// [`Error::first_index`](crate::Error::first_index) says which row.
    DuplicateKey,
    /// There was no service key to send: its provider failed, or did not answer within the call's time, or its file has no
    /// key. Troubleshooting: the text says which; a provider that logs its errors says why.
    ServiceKey,
    /// The service refused an earlier row of the job with a 401 or 403, which concerns the key more than the row, or there
    /// was no key for it. So this row was not sent, and no further rows are taken. Troubleshooting:
    /// [`Error::first_index`](crate::Error::first_index) says which row that was, and
    /// [`Error::status`](crate::Error::status) with which status it was refused; once the key is right, go on from this
    /// row.
    Stopped,
}

impl ErrorKind {
    /// The kind as a word: `config`, `validation`, `connect`, `timeout`, `throttled`, `interrupted`, `too_large`,
    /// `decode`, `status`, `cancelled`, `ledger`, `recorded`, `duplicate_key`, `service_key` or `stopped`. Python's
    /// exceptions and tables of errors use it.
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
            ErrorKind::ServiceKey => "service_key",
            ErrorKind::Stopped => "stopped",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
