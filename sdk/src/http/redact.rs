//! What may be shown of an answer, and how it is shown.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use url::Url;

use crate::problem::Problem;

/// The most characters of the service's own words that an error text shows.
const SHOWN: usize = 200;

/// Takes the service key out of texts that the service sent.
#[derive(Clone)]
pub(crate) struct Redactor {
    key: HeaderValue,
}

impl Redactor {
    pub(crate) fn new(key: HeaderValue) -> Self {
        Self { key }
    }

    /// The title and the detail of a problem, fit for an error text.
    pub(crate) fn summary(&self, problem: &Problem) -> Option<String> {
        let words = [&problem.title, &problem.detail];
        let words: Vec<String> = words
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .map(|text| short(&self.mask(text)))
            .collect();
        (!words.is_empty()).then(|| words.join(" - "))
    }

    /// `text` with every occurrence of the key masked.
    pub(crate) fn mask(&self, text: &str) -> String {
        match self.key.to_str() {
            Ok(key) => text.replace(key, "[service key]"),
            Err(_) => text.to_owned(),
        }
    }
}

/// `text` on one line, cut at 200 characters.
pub(crate) fn short(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(SHOWN)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The origin that a redirect of a request to `url` points to; the target's path and query may hold
/// anything and are left out.
pub(crate) fn redirect_target(
    status: StatusCode,
    headers: &HeaderMap,
    url: &Url,
) -> Option<String> {
    if !status.is_redirection() {
        return None;
    }
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let target = url.join(location).ok()?;
    Some(if target.origin() == url.origin() {
        "another path of the same host".to_owned()
    } else if target.origin().is_tuple() {
        target.origin().ascii_serialization()
    } else {
        format!("a URL of the scheme {}", target.scheme())
    })
}
