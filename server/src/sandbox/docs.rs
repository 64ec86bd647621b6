//! The page for people: the operations, a form that tries each, and what the server saw. It works offline.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::contract::auth::ServiceKey;
use crate::sandbox::reading::Reading;

/// Nothing from elsewhere, nothing inline, no page around it, and no text of a request ever becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file for a browser.
pub(super) struct PageFile {
    pub(super) text: Bytes,
    media_type: &'static str,
}

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
    "operations.js" SCRIPT;
    "journal.js" SCRIPT;
    "faults.js" SCRIPT;
    "presets.js" SCRIPT;
    "schema.js" SCRIPT;
    "json.js" SCRIPT;
    "sandbox.js" SCRIPT;
    "element.js" SCRIPT;
}

impl PageFile {
    /// The page. It contains the service key only if that is the one that everybody knows.
    pub(super) fn page(key: &ServiceKey) -> Self {
        let key = if key.is_default() {
            ServiceKey::DEFAULT
        } else {
            ""
        };
        let mut readings = String::new();
        for reading in Reading::ALL {
            // Writing to a string does not fail.
            let _ = write!(readings, "<option>{reading}</option>");
        }
        let page = include_str!("docs/index.html")
            .replace("{{service_key}}", key)
            .replace("{{readings}}", &readings);
        Self {
            text: page.into(),
            media_type: HTML,
        }
    }

    /// One of the files that the page is made of.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (_, media_type, text) = FILES.iter().find(|(found, ..)| *found == name)?;
        Some(Self {
            text: Bytes::from_static(text.as_bytes()),
            media_type,
        })
    }

    pub(super) fn write_headers(&self, headers: &mut HeaderMap) {
        let fields: [(HeaderName, &'static str); 4] = [
            (header::CONTENT_TYPE, self.media_type),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, "no-referrer"),
            (
                HeaderName::from_static("cross-origin-resource-policy"),
                "same-origin",
            ),
        ];
        for (name, value) in fields {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}
