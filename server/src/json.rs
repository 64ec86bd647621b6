//! Strict JSON validation of request bodies and initial deals, before they are parsed.
//!
//! serde_json is too lenient: it accepts duplicate keys, and raw values with lone surrogates. This module rejects both, and
//! byte order marks. It checks only the syntax of numbers; each field checks its own range.

use std::collections::HashSet;

use dealkit::internal::lexer::{LexError, Lexer};
use serde_json::value::RawValue;

/// Maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// An error in JSON text, with its reason and position. The message contains nothing of the text.
///
/// The position is the byte at which parsing stopped: the opening quote of a string with an unpaired surrogate or of a
/// duplicate key, or the end of incomplete text. Lines and columns count from 1; columns count characters (code points), as
/// editors do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at line {line} column {column}")]
pub struct JsonError {
    reason: String,
    line: usize,
    column: usize,
}

impl JsonError {
    fn new(reason: impl Into<String>, bytes: &[u8], at: usize) -> Self {
        let text_before = bytes.get(..at).unwrap_or(bytes);
        let mut lines = text_before.split(|byte| *byte == b'\n');
        let last_line = lines.next_back().unwrap_or_default();
        let is_character = |byte: &&u8| **byte & 0xC0 != 0x80;
        Self {
            reason: reason.into(),
            line: 1 + lines.count(),
            column: 1 + last_line.iter().filter(is_character).count(),
        }
    }
}

/// Checks that `bytes` are one strict JSON value, and returns them as a string.
///
/// # Errors
/// If the bytes are not one strict JSON value. The error contains the reason and the position.
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
    match check_value(&mut lexer, 0).and_then(|()| {
        let defect = Defect::Malformed("more text after the value");
        lexer.expect_end().map_err(|_| defect)
    }) {
        Ok(()) => Ok(text),
        Err(Defect::Malformed(reason)) => Err(describe_malformed(text, lexer.position(), reason)),
        Err(Defect::At(at, reason)) => Err(JsonError::new(reason, bytes, at)),
    }
}

/// The reason for which validation stopped.
enum Defect {
    /// The text is not JSON, or a string contains an unpaired surrogate. The lexer does not distinguish the two. The reason applies
    /// unless the text ends early.
    Malformed(&'static str),
    /// The text is JSON but not strict: the position and the reason.
    At(usize, &'static str),
}

/// The reason for a malformed string. [`describe_string`] replaces it with the exact reason.
const MALFORMED_STRING: &str = "a malformed string";

/// Describes why the lexer rejected the text at position `at`. The exact position is the one of serde_json. If serde_json accepts
/// the text, the string at `at` contains an unpaired surrogate.
#[cold]
fn describe_malformed(text: &str, at: usize, reason: &'static str) -> JsonError {
    let Err(error) = serde_json::from_str::<&RawValue>(text) else {
        return JsonError::new("an unpaired surrogate", text.as_bytes(), at);
    };
    if error.is_eof() {
        return JsonError::new("the text ends early", text.as_bytes(), text.len());
    }
    let line = text.split_inclusive('\n').take(error.line() - 1);
    let exact_at = line.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let reason = match reason {
        MALFORMED_STRING => describe_string(text.as_bytes().get(at..).unwrap_or_default()),
        reason => reason,
    };
    JsonError::new(reason, text.as_bytes(), exact_at)
}

/// Describes the first defect of a malformed string, which begins with its opening quote.
fn describe_string(string: &[u8]) -> &'static str {
    let mut bytes = string.get(1..).unwrap_or_default().iter();
    while let Some(byte) = bytes.next() {
        match byte {
            0..b' ' => return "a control character in a string: write it as an escape, such as \\n",
            b'\\' => {
                let is_valid = match bytes.next() {
                    Some(b'u') => {
                        let digits = bytes.as_slice().first_chunk::<4>();
                        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
                    }
                    escape => escape.is_some_and(|escape| b"\"\\/bfnrt".contains(escape)),
                };
                if !is_valid {
                    return "an invalid escape in a string";
                }
            }
            _ => {}
        }
    }
    MALFORMED_STRING
}

fn check_value(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let first = lexer.peek();
    if depth == MAX_DEPTH && matches!(first, b'{' | b'[') {
        let reason = "more than 128 levels of arrays and objects";
        return Err(Defect::At(lexer.position(), reason));
    }
    let (result, reason) = match first {
        b'{' => return check_object(lexer, depth + 1),
        b'[' => return check_array(lexer, depth + 1),
        b'"' => (lexer.read_string().map(drop), MALFORMED_STRING),
        b't' | b'f' => (lexer.read_boolean().map(drop), "expected true or false"),
        b'n' => (lexer.read_null(), "expected null"),
        b'-' | b'0'..=b'9' => (lexer.read_number().map(drop), "an invalid number"),
        _ => (Err(LexError), "expected a value"),
    };
    result.map_err(|_| Defect::Malformed(reason))
}

fn check_array(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let mut has_more = lexer
        .begin_array()
        .map_err(|_| Defect::Malformed("expected an array"))?;
    while has_more {
        check_value(lexer, depth)?;
        has_more = lexer
            .next_item()
            .map_err(|_| Defect::Malformed("expected a comma or the closing bracket"))?;
        if has_more && lexer.peek() == b']' {
            return Err(Defect::Malformed("a comma before the closing bracket"));
        }
    }
    Ok(())
}

fn check_object(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let mut keys = HashSet::new();
    let mut has_more = lexer
        .begin_object()
        .map_err(|_| Defect::Malformed("expected an object"))?;
    while has_more {
        let first = lexer.peek();
        let start = lexer.position();
        let name = lexer.read_name().map_err(|_| {
            Defect::Malformed(match first {
                // The lexer stays at a malformed string.
                b'"' if lexer.position() == start => MALFORMED_STRING,
                b'"' => "expected a colon after the name",
                b'}' => "a comma before the closing brace",
                _ => "expected a name in double quotes",
            })
        })?;
        if !keys.insert(name) {
            return Err(Defect::At(start, "a key that this object already has"));
        }
        check_value(lexer, depth)?;
        has_more = lexer
            .next_field()
            .map_err(|_| Defect::Malformed("expected a comma or the closing brace"))?;
    }
    Ok(())
}
