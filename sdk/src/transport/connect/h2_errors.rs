//! What h2's errors mean.

use crate::transport::connect::find::find;

/// The text of an error without the debug data of a GOAWAY, which a service chooses and h2 appends.
pub(crate) fn without_debug_data(text: &str) -> &str {
    text.split(" (b\"").next().unwrap_or_default()
}

/// Whether the service has said, in the ways that HTTP/2 provides, that it did not process the request (RFC
/// 9113, 8.7): it refused the stream, or went away (GOAWAY) without having reached it. For a stream that it
/// had reached, h2 reports that the connection broke.
pub(crate) fn was_not_taken(error: &reqwest::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|error| {
        let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (is_refused || error.is_go_away())
    })
}

/// Whether the service reset only this request, on an HTTP/2 connection that continues.
pub(crate) fn is_reset_stream(error: &reqwest::Error) -> bool {
    find(error).is_some_and(h2::Error::is_reset)
}
