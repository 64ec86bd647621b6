//! Kinds of errors.

use crate::value::named_enum;

named_enum! {
    /// The kind of an [`Error`](crate::Error). Its [name](Self::as_str) is the `kind` of an exception in Python, and appears in
    /// tables of errors.
    ///
    /// ```
    /// use dealkit::{Error, ErrorKind};
    ///
    /// fn advice(error: &Error) -> &'static str {
    ///     match error.kind() {
    ///         ErrorKind::Config => "correct the settings",
    ///         ErrorKind::Validation => "correct the entry",
    ///         ErrorKind::Connect | ErrorKind::Throttled => "try again later",
    ///         _ => "ask for help", // more kinds may be added
    ///     }
    /// }
    /// ```
    #[non_exhaustive]
    ErrorKind {
        /// A setting of the client or the call is invalid, or the key or the label of a row: the key is missing, for example, or
        /// the job has no ledger. Troubleshooting: the message names the setting and the values that it accepts.
        Config = "config",
        /// The request breaks the rules, so it was not sent. Troubleshooting: see
        /// [`Error::violations`](crate::Error::violations).
        Validation = "validation",
        /// No connection was made: name resolution, TCP or TLS failed. Troubleshooting: is the base URL right, is the
        /// service up, is a proxy or firewall in the way? If certificates or TLS are at fault, the message gives the reason and
        /// advice; such a failure is not retried.
        Connect = "connect",
        /// The call or an attempt timed out. Troubleshooting: [`Error::outcome`](crate::Error::outcome) says whether the
        /// service may have acted.
        Timeout = "timeout",
        /// The call was not sent, because the client's own [`rate_limit`](crate::ClientBuilder::rate_limit) or a pause that the
        /// service asked for would have delayed it beyond its timeout. Troubleshooting: wait for
        /// [`Error::retry_after`](crate::Error::retry_after), or set a longer timeout, with which the call waits by itself.
        Throttled = "throttled",
        /// The connection broke before the whole response arrived.
        Interrupted = "interrupted",
        /// The response's body is larger than the client's limit.
        TooLarge = "too_large",
        /// The status is a success, but the body does not have the expected form. Troubleshooting:
        /// [`Error::decode_error`](crate::Error::decode_error) has the path, and [`Error::body`](crate::Error::body) the body.
        Decode = "decode",
        /// The status of the response is unsuccessful.
        Status = "status",
        /// The call was cancelled before it completed, with the rest of its [`CreateMany`](crate::CreateMany). Troubleshooting:
        /// [`Error::outcome`](crate::Error::outcome) says whether the service may have acted.
        Cancelled = "cancelled",
        /// The job's ledger could not be written, so the row was not sent. Troubleshooting:
        /// [`Error::ledger_error`](crate::Error::ledger_error).
        Ledger = "ledger",
        /// According to the job's ledger, the service rejected the row or may have acted on it in an earlier run, or another
        /// job is sending it, so nothing was sent. [`Error::outcome`](crate::Error::outcome) and
        /// [`Error::is_in_flight`](crate::Error::is_in_flight) distinguish these cases.
        AlreadyAttempted = "already_attempted",
        /// The idempotency key of a [`CreateOnce`](crate::CreateOnce) belongs to an agent that was created from other data, so
        /// nothing was sent. Troubleshooting: [`Error::created_agent_id`](crate::Error::created_agent_id) is that agent. If
        /// another agent was meant, use another key.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// An earlier row of the job has the same idempotency key, so this row was not sent.
        /// [`Error::first_index`](crate::Error::first_index) is the index of the earlier row.
        DuplicateKey = "duplicate_key",
        /// There was no service key to send: the provider failed or did not return within the call's timeout, or the key's file
        /// is empty. Troubleshooting: the message gives the reason; log errors in your provider.
        ServiceKey = "service_key",
        /// The service rejected an earlier row of the job with a 401 or 403, which probably concerns the service key and not
        /// the row, or there was no service key for that row. So this row was not sent, and no further rows are taken.
        /// Troubleshooting: [`Error::first_index`](crate::Error::first_index) is the index of the earlier row, and
        /// [`Error::status`](crate::Error::status) the status of its response. Correct the service key, and continue from this
        /// row.
        Stopped = "stopped",
    }
}
