//! Headers that the caller adds to a request.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{specification::wire, value::message::Message};

/// Headers that only the client sets: the service key, and the headers that frame or route the request.
const CLIENT_HEADERS: [&str; 7] = [
    wire::SERVICE_KEY_HEADER,
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "expect",
];

/// Parses a header that the caller adds.
///
/// # Errors
/// If the name or the value is invalid, or only the client may set the header.
pub(crate) fn parse_extra_header(
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), Message> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        Message::from("a header's name contains characters that are not allowed in a header name")
    })?;
    if CLIENT_HEADERS.contains(&name.as_str()) {
        return Err(Message::from(format!(
            "the header {name} is set by the client and cannot be overridden"
        )));
    }
    let value = HeaderValue::from_str(value).map_err(|_| {
        Message::from(format!(
            "the value of the header {name} contains characters that are not allowed in a header"
        ))
    })?;
    Ok((name, value))
}

/// Adds the headers that propagate a trace. If the caller has set one of these headers, none is added, because the remaining
/// headers would refer to another trace. Headers that only the client sets are left out: a call must not fail because of its
/// trace.
pub(crate) fn add_trace(headers: &mut HeaderMap, trace: HeaderMap) {
    if trace.keys().any(|name| headers.contains_key(name)) {
        return;
    }
    for (name, value) in &trace {
        if !CLIENT_HEADERS.contains(&name.as_str()) {
            headers.append(name, value.clone());
        }
    }
}
