//! Redaction of text from the service: keys are masked, and long or invisible text is cut.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use url::Url;

use crate::specification::field_names::escape_pointer_token;

/// The maximum number of characters of a text from the service in an error message.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// The maximum number of masked keys: the current key and the latest keys before it.
const MAX_KEYS: usize = 8;

/// The minimum length in bytes of a key that is masked everywhere in a text. A shorter key may occur within ordinary words, so
/// it is masked only where it is a whole word.
const MIN_SUBSTRING_KEY_LENGTH: usize = 4;

/// Masks the current service key and earlier keys in text from the service, regardless of case. A key of one to three
/// characters is masked only where it is a whole word.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// The keys, newest first.
    keys: Arc<[HeaderValue]>,
    /// The keys as a text may contain them (plain or escaped), in lower case. The longest comes first, so that masking a short form
    /// leaves no part of a long one.
    forms: Arc<[String]>,
}

impl Redactor {
    /// Returns a redactor that also masks this key.
    pub(crate) fn with_key(&self, key: &HeaderValue) -> Self {
        let other_keys = self
            .keys
            .iter()
            .filter(|other| *other != key)
            .take(MAX_KEYS - 1);
        let keys: Arc<[_]> = std::iter::once(key).chain(other_keys).cloned().collect();
        let mut forms: Vec<_> = keys.iter().flat_map(text_forms).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self {
            keys,
            forms: forms.into(),
        }
    }

    /// Masks the keys in a text.
    pub(crate) fn mask(&self, text: &str) -> String {
        self.forms
            .iter()
            .fold(text.to_owned(), |text, form| mask_form(&text, form))
    }
}

/// Returns the forms of a key in lower case: plain, with Rust's escapes, and as a JSON pointer's token.
fn text_forms(key: &HeaderValue) -> [String; 3] {
    // A key is visible ASCII: `Keys` checks it.
    let key = key.to_str().unwrap_or_default().to_ascii_lowercase();
    let (escaped, token) = (key.escape_debug().to_string(), escape_pointer_token(&key));
    [key, escaped, token]
}

fn mask_form(text: &str, form: &str) -> String {
    // The lower-case copy has the same length as the text, because only ASCII letters change.
    let lowercase_text = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut copied_end = 0;
    for (start, occurrence) in lowercase_text.match_indices(form) {
        let mut adjacent_chars = [
            lowercase_text
                .get(..start)
                .and_then(|before| before.chars().next_back()),
            lowercase_text
                .get(start + occurrence.len()..)
                .and_then(|after| after.chars().next()),
        ]
        .into_iter()
        .flatten();
        if form.len() < MIN_SUBSTRING_KEY_LENGTH && adjacent_chars.any(char::is_alphanumeric) {
            continue;
        }
        masked.push_str(text.get(copied_end..start).unwrap_or_default());
        masked.push_str("[service key]");
        copied_end = start + occurrence.len();
    }
    masked.push_str(text.get(copied_end..).unwrap_or_default());
    masked
}

/// Returns a text on one line with visible characters only, cut at 200 characters.
pub(crate) fn shorten(text: &str) -> String {
    let mut shortened: String = text
        .chars()
        .take(MAX_SHOWN_CHARACTERS)
        .map(|c| if is_visible(c) { c } else { ' ' })
        .collect();
    if text.chars().nth(MAX_SHOWN_CHARACTERS).is_some() {
        shortened.push('…');
    }
    shortened
}

/// Returns true if a log or terminal displays the character as itself. Control characters, line separators, invisible characters
/// and direction marks could disguise a line.
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

/// Returns the origin to which a redirect of a request to `url` points. The target's path and query are left out, because they
/// may contain anything.
pub(crate) fn find_redirect_target(
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
