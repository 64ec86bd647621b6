//! Classification of the errors of h2.
//!
//! Typed values decide: whether the service processed a request, and whether only one stream was reset, is read from the type
//! of the error and its reason code. Text decides nothing: it is only shortened before it is shown.

use crate::transport::connect::find::find_source;

/// Returns the text of an error without the debug data of a GOAWAY, which a service chooses and h2 appends.
pub(crate) fn without_debug_data(text: &str) -> &str {
    text.split(" (b\"").next().unwrap_or_default()
}

/// Returns true if the service has declared in a way of HTTP/2 that it did not process the request (RFC 9113, 8.7): it refused
/// the stream, or sent a GOAWAY below the stream. For a stream that the GOAWAY covers, h2 reports a broken connection.
pub(crate) fn was_not_processed(error: &reqwest::Error) -> bool {
    find_source::<h2::Error>(error).is_some_and(|error| {
        let is_unprocessed = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (is_unprocessed || error.is_go_away())
    })
}

/// Returns true if the service reset only this request, on an HTTP/2 connection that continues.
pub(crate) fn is_reset_stream(error: &reqwest::Error) -> bool {
    find_source(error).is_some_and(h2::Error::is_reset)
}
