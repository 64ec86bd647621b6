//! Checks of a request's head that need no server state. The server performs its checks in a fixed order, numbered from 1 to 11.

use dealkit::internal::wire;
use http::{HeaderValue, Version, header, request::Parts, uri::Authority};

use crate::contract::problem::{ProblemType, Rejection};

/// Performs check 1: the request must have exactly one host, a path as its target and, against request smuggling, an unambiguous
/// body length.
pub(crate) fn check_target(head: &Parts) -> Result<(), &'static str> {
    let has_path = head.uri.path().starts_with('/');
    if head.version >= Version::HTTP_2 {
        return match head.uri.authority() {
            Some(_) if has_path => Ok(()),
            Some(_) => Err("The :path must begin with a slash."),
            None => Err("Send the pseudo-header :authority."),
        };
    }
    let is_origin_form = head.uri.authority().is_none();
    let is_absolute_form = head.uri.scheme().is_some();
    if !has_path || !(is_origin_form || is_absolute_form) {
        return Err("The request target must be a path, or an absolute URL.");
    }
    if !matches!(head.uri.scheme_str(), None | Some("http" | "https")) {
        return Err("An absolute request target must begin with http:// or https://.");
    }
    if !is_only_chunked(head) {
        return Err("The only Transfer-Encoding that this server accepts is chunked, given once.");
    }
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        // HTTP/1.0 has no Host header.
        (None, _) if head.version < Version::HTTP_11 => return Ok(()),
        (None, _) => return Err("Send the header Host."),
        (Some(_), Some(_)) => return Err("Send the header Host once."),
    };
    let Some(host) = parse_host(host) else {
        return Err("The header Host must be a host, with or without a port.");
    };
    match head.uri.authority() {
        Some(authority) if !without_userinfo(authority).eq_ignore_ascii_case(host) => {
            Err("The header Host must be the host of the request target.")
        }
        _ => Ok(()),
    }
}

/// Returns true if Transfer-Encoding is absent or exactly `chunked`.
///
/// hyper accepts any list that ends with `chunked`, such as `gzip, chunked`. This server would treat a compressed body as
/// JSON, and accept requests that a proxy splits differently.
fn is_only_chunked(head: &Parts) -> bool {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// Parses a Host header: a host, optionally with a port. RFC 9112 allows an empty value.
fn parse_host(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim();
    let is_host = text.is_empty() || (!text.contains('@') && text.parse::<Authority>().is_ok());
    is_host.then_some(text)
}

/// Removes the user and password, which an absolute target can have but a Host header cannot.
fn without_userinfo(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// Adds the header Host to an HTTP/1.1 request that was constructed without a client, from the host in its URI.
pub(crate) fn add_host(head: &mut Parts) {
    if let Some(authority) = head.uri.authority()
        && head.version == Version::HTTP_11
        && let Ok(host) = HeaderValue::from_str(without_userinfo(authority))
    {
        head.headers.entry(header::HOST).or_insert(host);
    }
}

/// Performs check 5: the body must be declared as JSON, without a Content-Encoding.
pub(crate) fn check_content(head: &Parts) -> Result<(), Rejection> {
    if !is_json(head) {
        return Err(Rejection::new(
            ProblemType::MEDIA_TYPE,
            "Send the header Content-Type: application/json, once.",
        ));
    }
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        let rejection = Rejection::new(
            ProblemType::CONTENT_CODING,
            "This server decodes no content codings. Send the body as it is, without the header Content-Encoding.",
        );
        // With this header, a 415 is about the Content-Encoding and not about the media type (RFC 9110, section 12.5.3).
        return Err(rejection.header(header::ACCEPT_ENCODING, "identity"));
    }
    Ok(())
}

/// Performs check 6, the limit on the body's size, for a body with a declared length.
pub(crate) fn check_length(head: &Parts, max: usize) -> Result<(), Rejection> {
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > max as u64 => Err(body_too_large_rejection(max)),
        _ => Ok(()),
    }
}

pub(crate) fn body_too_large_rejection(max: usize) -> Rejection {
    let detail = format!("This server takes bodies of up to {max} bytes.");
    Rejection::new(ProblemType::BODY_TOO_LARGE, detail)
}

/// Returns true if the request has exactly one Content-Type, `application/json`, in any case and with any parameters.
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

pub(crate) fn has_body(head: &Parts) -> bool {
    let headers = &head.headers;
    let is_empty = |length: &HeaderValue| length.as_bytes() == b"0";
    headers.contains_key(header::TRANSFER_ENCODING)
        || !headers.get_all(header::CONTENT_LENGTH).iter().all(is_empty)
}
