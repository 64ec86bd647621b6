//! The page for people: forms that send requests, and what the server saw. It works offline.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::contract::{auth::ServiceKey, response::response};

/// Nothing from elsewhere, nothing inline, no page around it, and no text of a request ever becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($( $name:literal $media_type:ident; )+) => {
        /// The files that the page is made of: name, media type and text.
        const FILES: &[(&str, &str, &str)] =
            &[$( ($name, $media_type, include_str!(concat!("docs/", $name))) ),+];
    };
}

files! {
    "style.css" CSS;
    "icon.svg" SVG;
    "main.js" SCRIPT;
    "journal.js" SCRIPT;
    "faults.js" SCRIPT;
    "json.js" SCRIPT;
    "sandbox.js" SCRIPT;
    "send.js" SCRIPT;
    "store.js" SCRIPT;
    "element.js" SCRIPT;
}

/// The page. It contains the service key only if that is the one that everybody knows.
pub(super) fn page(key: &ServiceKey) -> Response<Bytes> {
    let key = if key.is_default() {
        ServiceKey::DEFAULT
    } else {
        ""
    };
    let page = include_str!("docs/index.html").replace("{{service_key}}", key);
    for_browsers(HTML, page.into())
}

/// One of the files that the page is made of.
pub(super) fn file(name: &str) -> Option<Response<Bytes>> {
    let (_, media_type, text) = FILES.iter().find(|(found, ..)| *found == name)?;
    Some(for_browsers(
        media_type,
        Bytes::from_static(text.as_bytes()),
    ))
}

fn for_browsers(media_type: &'static str, text: Bytes) -> Response<Bytes> {
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
