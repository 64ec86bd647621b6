//! What may be shown of an answer, and how it is shown.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use url::Url;

use crate::{problem::Problem, validate::pointer_token};

/// The most characters of the service's own words that an error text shows.
const SHOWN: usize = 200;

/// Takes the service key out of texts that the service sent.
#[derive(Clone)]
pub(crate) struct Redactor {
    /// The key in the ways in which a text may write it.
    forms: Arc<[String]>,
}

impl Redactor {
    pub(crate) fn new(key: &HeaderValue) -> Self {
        // Visible ASCII, as the client has checked.
        let key = key.to_str().unwrap_or_default();
        let mut forms = vec![
            key.to_owned(),
            key.escape_debug().to_string(),
            pointer_token(key),
        ];
        // How a URL's host would write it; of a key of a few letters, words would be full.
        if key.len() >= 8 {
            forms.push(key.to_ascii_lowercase());
        }
        forms.retain(|form| !form.is_empty());
        // The longest first: none may leave a part of another.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self {
            forms: forms.into(),
        }
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
        self.forms.iter().fold(text.to_owned(), |text, form| {
            text.replace(form, "[service key]")
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_masked_in_whatever_way_it_is_written() {
        let key = r#"Key/with~"odd\signs"#;
        let redactor = Redactor::new(&HeaderValue::from_str(key).unwrap());
        for text in [
            key.to_owned(),
            format!("{key:?}"),
            format!("metadata[{key:?}]"),
            format!("/metadata/{}", pointer_token(key)),
            key.to_ascii_lowercase(),
            format!("{key}{key}"),
        ] {
            let masked = redactor.mask(&text);
            assert!(masked.contains("[service key]"), "{masked}");
            assert!(!masked.to_lowercase().contains("odd"), "{masked}");
        }
    }

    #[test]
    fn a_short_key_leaves_words_alone() {
        let redactor = Redactor::new(&HeaderValue::from_static("THE"));
        assert_eq!(redactor.mask("the connection"), "the connection");
        assert_eq!(redactor.mask("is THE it?"), "is [service key] it?");
    }
}
