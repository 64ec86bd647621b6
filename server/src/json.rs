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
    match check_value(&mut lexer, 0).and_then(|()| Ok(lexer.expect_end()?)) {
        Ok(()) => Ok(text),
        Err(Defect::Malformed) => Err(describe_malformed(text, lexer.position())),
        Err(Defect::At(at, reason)) => Err(JsonError::new(reason, bytes, at)),
    }
}

/// The reason for which validation stopped.
enum Defect {
    /// The text is not JSON, or a string contains an unpaired surrogate. The lexer does not distinguish the two.
    Malformed,
    /// The text is JSON but not strict: the position and the reason.
    At(usize, &'static str),
}

impl From<LexError> for Defect {
    fn from(_: LexError) -> Self {
        Self::Malformed
    }
}

/// Describes why the lexer rejected the text, with the message of serde_json. If serde_json accepts the text, the string at
/// position `at` contains an unpaired surrogate.
#[cold]
fn describe_malformed(text: &str, at: usize) -> JsonError {
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

fn check_value(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let first = lexer.peek();
    if depth == MAX_DEPTH && matches!(first, b'{' | b'[') {
        let reason = "more than 128 levels of arrays and objects";
        return Err(Defect::At(lexer.position(), reason));
    }
    match first {
        b'{' => check_object(lexer, depth + 1)?,
        b'[' => {
            let mut has_more = lexer.begin_array()?;
            while has_more {
                check_value(lexer, depth + 1)?;
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

fn check_object(lexer: &mut Lexer<'_>, depth: usize) -> Result<(), Defect> {
    let mut keys = HashSet::new();
    let mut has_more = lexer.begin_object()?;
    while has_more {
        lexer.peek();
        let start = lexer.position();
        if !keys.insert(lexer.read_name()?) {
            return Err(Defect::At(start, "a key that this object already has"));
        }
        check_value(lexer, depth)?;
        has_more = lexer.next_field()?;
    }
    Ok(())
}
