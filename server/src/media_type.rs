//! What a request's head says about its body.

use dealkit::wire;
use http::{HeaderValue, header, request::Parts};

/// Whether there is exactly one Content-Type, and it is `application/json` in any case, with or without parameters.
pub(crate) fn is_json(head: &Parts) -> bool {
    let mut types = head.headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(media_type), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = media_type
        .as_bytes()
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default();
    essence
        .trim_ascii()
        .eq_ignore_ascii_case(wire::JSON.as_bytes())
}

/// Whether a body is announced.
pub(crate) fn has_body(head: &Parts) -> bool {
    let headers = &head.headers;
    let is_empty = |length: &HeaderValue| length.as_bytes() == b"0";
    headers.contains_key(header::TRANSFER_ENCODING)
        || !headers.get_all(header::CONTENT_LENGTH).iter().all(is_empty)
}
