//! What may be shown of a response, and how it is shown.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use url::Url;

use crate::{names::pointer_token, problem::Problem};

/// The most characters of the service's own words that an error text shows.
const SHOWN: usize = 200;

/// Takes the service key out of texts that the service sent.
#[derive(Clone)]
pub(crate) struct Redactor {
    /// The key in the ways in which a text may write it, in lower case where the case does not count.
    forms: Arc<[String]>,
    /// Whether letters of the other case are the key, too: of a key of a few letters, words would be full.
    ignores_case: bool,
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
        let ignores_case = key.len() >= 8;
        if ignores_case {
            forms
                .iter_mut()
                .for_each(|form| form.make_ascii_lowercase());
        }
        forms.retain(|form| !form.is_empty());
        // The longest first: none may leave a part of another.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self {
            forms: forms.into(),
            ignores_case,
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
            // Of the same length as the text: ASCII letters alone change.
            let searched = if self.ignores_case {
                text.to_ascii_lowercase()
            } else {
                text.clone()
            };
            let mut masked = String::with_capacity(text.len());
            let mut end = 0;
            for (start, found) in searched.match_indices(form.as_str()) {
                masked.push_str(text.get(end..start).unwrap_or_default());
                masked.push_str("[service key]");
                end = start + found.len();
            }
            masked.push_str(text.get(end..).unwrap_or_default());
            masked
        })
    }
}

/// `text` on one line that shows as it reads, cut at 200 characters.
pub(crate) fn short(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(SHOWN)
        .map(|c| if is_visible(c) { c } else { ' ' })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

/// Whether the character shows as itself. A control character, a separator of lines, or one that is
/// invisible or turns the direction of writing, could make a line of a log or terminal look like another.
fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            // Soft hyphen, Arabic letter mark, Hangul fillers, Khmer and Mongolian marks.
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            // Zero width, direction marks, separators of lines and paragraphs, embeddings and overrides.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            // Joiners, invisible operators, isolates, old format characters.
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            // Annotations, shorthand and musical formats, tags.
            | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
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
            key.to_ascii_uppercase(),
            format!("{key}{key}"),
        ] {
            let masked = redactor.mask(&text);
            assert!(masked.contains("[service key]"), "{masked}");
            assert!(!masked.to_lowercase().contains("odd"), "{masked}");
        }
    }

    #[test]
    fn what_could_disguise_a_line_is_not_shown() {
        for c in "\n\r\u{1b}\u{7f}\u{85}\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\
            \u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{3164}\u{feff}\u{fffb}\u{e0041}"
            .chars()
        {
            assert_eq!(short(&format!("a{c}b")), "a b", "{c:?}");
        }
        for text in ["Ünïcödé €", "שלום", "مرحبا", "日本語", "😀"] {
            assert_eq!(short(text), text);
        }
        let long = "\u{202e}".repeat(201);
        assert_eq!(short(&long), format!("{}…", " ".repeat(200)));
    }

    #[test]
    fn a_short_key_leaves_words_alone() {
        let redactor = Redactor::new(&HeaderValue::from_static("THE"));
        assert_eq!(redactor.mask("the connection"), "the connection");
        assert_eq!(redactor.mask("is THE it?"), "is [service key] it?");
    }
}
