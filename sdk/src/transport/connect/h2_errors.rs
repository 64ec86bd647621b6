//! Classification of the errors of h2.
//!
//! The classification uses only typed values: the type of an error and its reason code show whether the service processed a
//! request, and whether only one stream was reset. The text of an error is only shortened before it is shown.

use crate::transport::connect::find::find_source;

/// Returns the text of an error without the debug data of a GOAWAY, which a service chooses and h2 appends.
pub(crate) fn strip_debug_data(text: &str) -> &str {
    text.split(" (b\"").next().unwrap_or_default()
}

/// Returns true if the service has declared over HTTP/2 that it did not process the request (RFC 9113, 8.7): it reset the
/// stream with REFUSED_STREAM, or sent a GOAWAY whose last stream is before this stream. If the GOAWAY's last stream is not
/// before this stream, h2 reports a broken connection.
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
