//! What may be shown of a response's texts, and in what form.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use url::Url;

use crate::specification::field_names::escape_pointer_token;

/// The maximum number of characters of the service's own words in an error text.
const SHOWN: usize = 200;

/// How many keys a service can be expected to repeat: the one in use, and some that it has replaced.
const KEYS: usize = 8;

/// The length of a key, in bytes, below which only whole words are masked: its letters occur in most words, and are no secret.
const SHORT_KEY: usize = 4;

/// Removes the service key, and those that it has replaced, from texts that the service sent: wherever they occur, regardless of
/// case. A key of one to three characters is removed only where it is a word.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// The newest first.
    keys: Arc<[HeaderValue]>,
    /// The forms in which a text may contain a key, in lower case. The longest first, so that masking one form does not leave
    /// a part of another.
    forms: Arc<[String]>,
}

impl Redactor {
    /// The same, which also masks this key.
    pub(crate) fn with(&self, key: &HeaderValue) -> Self {
        let before = self
            .keys
            .iter()
            .filter(|before| *before != key)
            .take(KEYS - 1);
        let keys: Arc<[_]> = std::iter::once(key).chain(before).cloned().collect();
        let mut forms: Vec<_> = keys.iter().flat_map(forms).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self {
            keys,
            forms: forms.into(),
        }
    }

    pub(crate) fn mask(&self, text: &str) -> String {
        self.forms
            .iter()
            .fold(text.to_owned(), |text, form| masked(&text, form))
    }
}

fn forms(key: &HeaderValue) -> [String; 3] {
    // Visible ASCII, as was checked.
    let key = key.to_str().unwrap_or_default().to_ascii_lowercase();
    let (escaped, token) = (key.escape_debug().to_string(), escape_pointer_token(&key));
    [key, escaped, token]
}

fn masked(text: &str, form: &str) -> String {
    // Of the same length as the text, because only ASCII letters change.
    let searched = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut done = 0;
    for (start, found) in searched.match_indices(form) {
        let mut around = [
            searched
                .get(..start)
                .and_then(|before| before.chars().next_back()),
            searched
                .get(start + found.len()..)
                .and_then(|after| after.chars().next()),
        ]
        .into_iter()
        .flatten();
        if form.len() < SHORT_KEY && around.any(char::is_alphanumeric) {
            continue;
        }
        masked.push_str(text.get(done..start).unwrap_or_default());
        masked.push_str("[service key]");
        done = start + found.len();
    }
    masked.push_str(text.get(done..).unwrap_or_default());
    masked
}

/// `text` on one line, with every character visible, cut at 200 characters.
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

/// Whether the character is displayed as itself. A control character, a line separator, or a character that is
/// invisible or changes the direction of writing could make a line in a log or terminal look like another.
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

/// The origin to which a redirect of a request to `url` points; the target's path and query may
/// contain anything and are left out.
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
        "another path on the same host".to_owned()
    } else if target.origin().is_tuple() {
        target.origin().ascii_serialization()
    } else {
        format!("a URL with the scheme {}", target.scheme())
    })
}
