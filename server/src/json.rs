//! Strict JSON parsing, which a request body or a seed must pass before anything else looks at it.
//!
//! serde_json is lenient where a contract should not be: it takes the last of two equal keys, and what it keeps as raw
//! text may hold lone surrogates. This reader refuses both, and a byte order mark. Of numbers, only the syntax is
//! checked: how large one may be is up to the field that holds it.

use std::collections::HashSet;

use dealkit::internal::lexer::{LexError, Lexer};
use serde_json::value::RawValue;

/// How deeply arrays and objects may be nested.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not the JSON that the contract asks for, and where.
///
/// The position is that of the byte at which reading stopped: for an unpaired surrogate, or a key that the object already
/// has, the string's opening quote; for a text that ends too early, its end. Lines and columns count from 1, and columns count characters (code
/// points), as an editor shows them. Nothing of the text is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
pub struct JsonError {
    reason: String,
    line: usize,
    column: usize,
}

impl JsonError {
    fn new(reason: impl Into<String>, bytes: &[u8], at: usize) -> Self {
        let before = bytes.get(..at).unwrap_or(bytes);
        let mut lines = before.split(|byte| *byte == b'\n');
        let last = lines.next_back().unwrap_or_default();
        let is_character = |byte: &&u8| **byte & 0xC0 != 0x80;
        Self {
            reason: reason.into(),
            line: 1 + lines.count(),
            column: 1 + last.iter().filter(is_character).count(),
        }
    }
}

/// Checks that `bytes` are one strict JSON value, and returns them as text.
///
/// # Errors
/// When they are not; the error says why and where.
///
/// ```
/// use dealkit_server::json;
///
/// assert_eq!(json::check(b"[1.10]"), Ok("[1.10]"));
/// let error = json::check(br#"{"a": 1, "a": 2}"#).unwrap_err();
/// assert_eq!(error.to_string(), "a key that this object already has at line 1 column 10");
/// ```
pub fn check(bytes: &[u8]) -> Result<&str, JsonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError::new("a byte that is not UTF-8", bytes, error.valid_up_to()))?;
    if text.starts_with('\u{feff}') {
        return Err(JsonError::new("a byte order mark", bytes, 0));
    }
    let mut lexer = Lexer::new(text);
    match value(&mut lexer, 0).and_then(|()| Ok(lexer.expect_end()?)) {
        Ok(()) => Ok(text),
        Err(Defect::Broken) => Err(broken(text, lexer.position())),
        Err(Defect::At(at, reason)) => Err(JsonError::new(reason, bytes, at)),
    }
}

/// Why a reader goes no further.
enum Defect {
    /// It is not JSON, or a string is not text: the lexer does not say which.
    Broken,
    /// It is JSON, but not strict.
    At(usize, &'static str),
}

impl From<LexError> for Defect {
    fn from(_: LexError) -> Self {
        Self::Broken
    }
}

/// Why the lexer has refused the text: in serde_json's words, unless it is JSON with a string, which begins `at`, that
/// is not text.
#[cold]
fn broken(text: &str, at: usize) -> JsonError {
    let Err(error) = serde_json::from_str::<&RawValue>(text) else {
        return JsonError::new("an unpaired surrogate", text.as_bytes(), at);
    };
    if error.is_eof() {
        return JsonError::new("the text ends early", text.as_bytes(), text.len());
    }
    let line = text.split_inclusive('\n').take(error.line() - 1);
    let at = line.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    JsonError::new(reason, text.as_bytes(), at)
}

fn value(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let first = lexer.peek();
    if depth == MAX_DEPTH && matches!(first, b'{' | b'[') {
        let reason = "more than 128 levels of arrays and objects";
        return Err(Defect::At(lexer.position(), reason));
    }
    match first {
        b'{' => object(lexer, depth + 1)?,
        b'[' => {
            let mut has_more = lexer.begin_array()?;
            while has_more {
                value(lexer, depth + 1)?;
                has_more = lexer.next_item()?;
            }
        }
        b'"' => drop(lexer.read_string()?),
        b't' | b'f' => drop(lexer.read_boolean()?),
        b'n' => lexer.read_null()?,
        _ => drop(lexer.read_number()?),
    }
    Ok(())
}

fn object(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let mut keys = HashSet::new();
    let mut has_more = lexer.begin_object()?;
    while has_more {
        lexer.peek();
        let start = lexer.position();
        if !keys.insert(lexer.read_name()?) {
            return Err(Defect::At(start, "a key that this object already has"));
        }
        value(lexer, depth)?;
        has_more = lexer.next_field()?;
    }
    Ok(())
}
