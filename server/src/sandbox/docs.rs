//! The sandbox's page: forms that send requests, the journal, faults, agents and deals. It works offline.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::contract::{auth::ServiceKey, response::response};

/// Content-Security-Policy of the page: no external or inline resources, no framing, and no conversion of strings to markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Returns the page. It contains the service key only if that is the documented default key.
pub(super) fn page(key: &ServiceKey) -> Response<Bytes> {
    let key = if key.is_default() { key.reveal() } else { "" };
    let page = include_str!("docs/index.html").replace("{{service_key}}", key);
    browser_response("text/html; charset=utf-8", page.into())
}

/// Returns a file of the page.
pub(super) fn file(name: &str) -> Option<Response<Bytes>> {
    let (media_type, text) = match name {
        "style.css" => ("text/css; charset=utf-8", include_str!("docs/style.css")),
        "icon.svg" => ("image/svg+xml", include_str!("docs/icon.svg")),
        "main.js" => (SCRIPT, include_str!("docs/main.js")),
        "journal.js" => (SCRIPT, include_str!("docs/journal.js")),
        "curl.js" => (SCRIPT, include_str!("docs/curl.js")),
        "faults.js" => (SCRIPT, include_str!("docs/faults.js")),
        "json.js" => (SCRIPT, include_str!("docs/json.js")),
        "sandbox.js" => (SCRIPT, include_str!("docs/sandbox.js")),
        "send.js" => (SCRIPT, include_str!("docs/send.js")),
        "store.js" => (SCRIPT, include_str!("docs/store.js")),
        "element.js" => (SCRIPT, include_str!("docs/element.js")),
        _ => return None,
    };
    Some(browser_response(media_type, text.into()))
}

/// Builds a response with the security headers for browsers.
fn browser_response(media_type: &'static str, text: Bytes) -> Response<Bytes> {
    let mut response = response(StatusCode::OK, media_type, text);
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
