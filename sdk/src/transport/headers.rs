//! Headers that a caller adds.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{specification::wire, value::words::Words};

/// Only the client sets the key; the others determine where the message goes and where it ends.
const OURS: [&str; 7] = [
    wire::SERVICE_KEY_HEADER,
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "expect",
];

pub(crate) fn extra_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Words> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        Words::from("a header's name contains characters that are not allowed in a header name")
    })?;
    if OURS.contains(&name.as_str()) {
        return Err(Words::from(format!(
            "the header {name} is set by the client and cannot be overridden"
        )));
    }
    let value = HeaderValue::from_str(value).map_err(|_| {
        Words::from(format!(
            "the value of the header {name} contains characters that are not allowed in a header"
        ))
    })?;
    Ok((name, value))
}

/// Adds the headers that propagate a trace, all of them or none: if the caller has set one of them, the others would
/// refer to another trace. No trace is worth a failed call, so headers that cannot be added are left out.
pub(crate) fn add_trace(headers: &mut HeaderMap, trace: HeaderMap) {
    if trace.keys().any(|name| headers.contains_key(name)) {
        return;
    }
    for (name, value) in &trace {
        if !OURS.contains(&name.as_str()) {
            headers.append(name, value.clone());
        }
    }
}
