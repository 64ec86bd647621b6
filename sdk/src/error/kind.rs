//! The kinds of errors.

use crate::value::named;

named! {
    /// What kind of failure an [`Error`](crate::Error) is. Python's exceptions and tables of errors
    /// call it by its [name](Self::as_str).
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
    #[non_exhaustive]
    ErrorKind {
        /// The client or the call is configured in a way that cannot work. Troubleshooting: the message names the setting
        /// and what it accepts.
        Config = "config",
        /// The request breaks the rules, so it was not sent. Troubleshooting: see
        /// [`Error::violations`](crate::Error::violations).
        Validation = "validation",
        /// No connection was made: name resolution, TCP or TLS failed. Troubleshooting: is the base URL right, is the
        /// service up, is a proxy or firewall in the way? If certificates or TLS are at fault, the message says why and
        /// what to do about it; such a failure is not retried.
        Connect = "connect",
        /// The call or an attempt timed out. Troubleshooting: [`Error::outcome`](crate::Error::outcome) says whether the
        /// service may have acted.
        Timeout = "timeout",
        /// The call could not be sent before its timeout: because of the client's own
        /// [`rate_limit`](crate::ClientBuilder::rate_limit), or because the service asked for fewer requests.
        /// Troubleshooting: [`Error::retry_after`](crate::Error::retry_after) says how long to wait; with a longer timeout,
        /// the call waits by itself.
        Throttled = "throttled",
        /// The connection broke before the whole response arrived.
        Interrupted = "interrupted",
        /// The response's body is larger than the client's limit.
        TooLarge = "too_large",
        /// The status is a success, but the body is not what it should be. Troubleshooting:
        /// [`Error::decode_error`](crate::Error::decode_error) names the path, [`Error::body`](crate::Error::body) has the
        /// body.
        Decode = "decode",
        /// The status of the response is unsuccessful.
        Status = "status",
        /// The call was cancelled before it completed, with others of [`CreateMany`](crate::CreateMany). Troubleshooting:
        /// [`Error::outcome`](crate::Error::outcome) says whether the service may have acted.
        Cancelled = "cancelled",
        /// The job's ledger could not be written, so the row was not sent. Troubleshooting:
        /// [`Error::ledger_error`](crate::Error::ledger_error).
        Ledger = "ledger",
        /// According to the job's ledger, the service rejected the row or may have acted on it in an earlier run, or
        /// another job is sending it, so nothing was sent. [`Error::outcome`](crate::Error::outcome) says which.
        Recorded = "recorded",
        /// Another row of the job has the same key, so this one was not sent.
        /// [`Error::first_index`](crate::Error::first_index) says which row.
        DuplicateKey = "duplicate_key",
        /// There was no service key to send: its provider failed, or did not answer within the call's timeout, or its file
        /// is empty. Troubleshooting: the message says which; have your provider log its errors.
        ServiceKey = "service_key",
        /// The service rejected an earlier row of the job with a 401 or 403, which is more likely about the key than the
        /// row, or there was no key for it. So this row was not sent, and no further rows are taken. Troubleshooting:
        /// [`Error::first_index`](crate::Error::first_index) says which row that was, and
        /// [`Error::status`](crate::Error::status) its status; once the key is right, continue from this row.
        Stopped = "stopped",
    }
}
