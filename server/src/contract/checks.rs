//! The checks of a request's head that need nothing but the head.

use dealkit::internal::wire;
use http::{HeaderValue, Version, header, request::Parts, uri::Authority};

use crate::contract::problem::{ProblemType, Refusal};

/// Check 1: one host, a target that is a path on it, and a body on whose end everybody agrees.
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
        // HTTP/1.0 does not know the header.
        (None, _) if head.version < Version::HTTP_11 => return Ok(()),
        (None, _) => return Err("Send the header Host."),
        (Some(_), Some(_)) => return Err("Send the header Host once."),
    };
    let Some(host) = host_of(host) else {
        return Err("The header Host must be a host, with or without a port.");
    };
    match head.uri.authority() {
        Some(authority) if !without_userinfo(authority).eq_ignore_ascii_case(host) => {
            Err("The header Host must be the host of the request target.")
        }
        _ => Ok(()),
    }
}

/// Whether the transfer coding, if there is one, is exactly `chunked`. hyper accepts anything that ends with it: it
/// would let `gzip, chunked` pass for JSON, and let through codings that another server reads differently.
fn is_only_chunked(head: &Parts) -> bool {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => true,
        (Some(coding), None) => coding.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The value of a Host header, if it is a host and perhaps a port. RFC 9112 allows an empty one.
fn host_of(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim();
    let is_host = text.is_empty() || (!text.contains('@') && text.parse::<Authority>().is_ok());
    is_host.then_some(text)
}

/// A Host header never has the user and password that an absolute target may have.
fn without_userinfo(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// Adds the header Host to a request of HTTP/1.1 that no client has written: its URI names the host.
pub(crate) fn add_host(head: &mut Parts) {
    if let Some(authority) = head.uri.authority()
        && head.version == Version::HTTP_11
        && let Ok(host) = HeaderValue::from_str(without_userinfo(authority))
    {
        head.headers.entry(header::HOST).or_insert(host);
    }
}

/// Check 5: the body is declared as JSON, with no coding that has to be decoded first.
pub(crate) fn check_content(head: &Parts) -> Result<(), Refusal> {
    if !is_json(head) {
        return Err(Refusal::new(
            ProblemType::MEDIA_TYPE,
            "Send the header Content-Type: application/json, once.",
        ));
    }
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        let refusal = Refusal::new(
            ProblemType::CONTENT_CODING,
            "This server decodes no content codings. Send the body as it is, without the header Content-Encoding.",
        );
        // RFC 9110: this tells a caller that the refusal is not about the media type.
        return Err(refusal.header(header::ACCEPT_ENCODING, "identity"));
    }
    Ok(())
}

/// Check 6, for a body whose length is declared.
pub(crate) fn check_length(head: &Parts, max: usize) -> Result<(), Refusal> {
    let declared = head.headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match declared {
        Some(length) if length > max as u64 => Err(body_too_large(max)),
        _ => Ok(()),
    }
}

pub(crate) fn body_too_large(max: usize) -> Refusal {
    let detail = format!("This server takes bodies of up to {max} bytes.");
    Refusal::new(ProblemType::BODY_TOO_LARGE, detail)
}

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

pub(crate) fn has_body(head: &Parts) -> bool {
    let headers = &head.headers;
    let is_empty = |length: &HeaderValue| length.as_bytes() == b"0";
    headers.contains_key(header::TRANSFER_ENCODING)
        || !headers.get_all(header::CONTENT_LENGTH).iter().all(is_empty)
}
