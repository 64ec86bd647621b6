//! Why a text is not strict JSON, and where: what the lexer does not say about the text that it refuses.

use std::fmt;

/// Why a text is not the JSON that the contract asks for, and where.
///
/// The position is that of the first wrong byte: for a repeated key, its opening quote; for a text that ends too early,
/// its end. Lines and columns count from 1, and columns count characters (code points), as an editor shows them.
/// Nothing of the text is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    reason: &'static str,
    line: usize,
    column: usize,
}

impl JsonError {
    /// What is wrong, without the position.
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, from 1, in characters.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at line {} column {}",
            self.reason, self.line, self.column
        )
    }
}

impl std::error::Error for JsonError {}

/// A reason and the offset of the byte that it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defect {
    pub(crate) reason: &'static str,
    pub(crate) at: usize,
}

impl Defect {
    /// The fault as it is reported to whoever sent `bytes`.
    pub(crate) fn locate(self, bytes: &[u8]) -> JsonError {
        let before = bytes.get(..self.at).unwrap_or(bytes);
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let is_character = |byte: &&u8| **byte & 0xC0 != 0x80;
        JsonError {
            reason: self.reason,
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            column: 1 + before.iter().skip(line_start).filter(is_character).count(),
        }
    }

    /// The byte at `at` is wrong; if the text ends there, that is what is wrong.
    pub(crate) fn new(reason: &'static str, text: &str, at: usize) -> Self {
        let reason = if at < text.len() {
            reason
        } else if text.trim_ascii().is_empty() {
            "nothing where a JSON value was expected"
        } else {
            "the end of the text inside a JSON value"
        };
        Self { reason, at }
    }

    /// What is wrong with the string that begins at `start`, if anything is.
    pub(crate) fn in_string(text: &str, start: usize) -> Option<Self> {
        let fault = |reason, at| Some(Self::new(reason, text, at));
        let mut at = start + 1;
        loop {
            match text.as_bytes().get(at) {
                Some(b'"') => return None,
                Some(b'\\') => match escape_end(text.as_bytes(), at) {
                    Ok(end) => at = end,
                    Err((reason, at)) => return fault(reason, at),
                },
                Some(b' '..) => at += 1,
                Some(_) | None => {
                    return fault("an unescaped control character in a string", at);
                }
            }
        }
    }

    /// What is wrong with the number that begins at `start`.
    pub(crate) fn in_number(text: &str, start: usize) -> Self {
        Self::new(
            "a malformed number",
            text,
            wrong_in_number(text.as_bytes(), start),
        )
    }

    /// What is wrong with the word at `start`, which should be `word`.
    pub(crate) fn in_word(text: &str, start: usize, word: &str) -> Self {
        let found = text.as_bytes().get(start..).unwrap_or_default();
        let same = found.iter().zip(word.as_bytes());
        let same = same.take_while(|(found, right)| found == right).count();
        Self::new("a misspelt true, false or null", text, start + same)
    }
}

/// Where the escape whose backslash is at `start` ends, including the other half of a surrogate pair; or what is wrong
/// with it.
fn escape_end(text: &[u8], start: usize) -> Result<usize, (&'static str, usize)> {
    const HALF: &str = "an unpaired surrogate";
    match text.get(start + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(start + 2),
        Some(b'u') => {}
        _ => return Err((UNDEFINED_ESCAPE, start + 1)),
    }
    let (first, end) = hex(text, start + 2)?;
    match first {
        0xD800..=0xDBFF => {}
        0xDC00..=0xDFFF => return Err((HALF, start)),
        _ => return Ok(end),
    }
    for (at, right) in [(end, b'\\'), (end + 1, b'u')] {
        if text.get(at) != Some(&right) {
            return Err((HALF, at));
        }
    }
    match hex(text, end + 2)? {
        (0xDC00..=0xDFFF, after) => Ok(after),
        _ => Err((HALF, end)),
    }
}

const UNDEFINED_ESCAPE: &str = "an escape that JSON does not define";

/// The four hexadecimal digits at `start`, and where they end.
fn hex(text: &[u8], start: usize) -> Result<(u32, usize), (&'static str, usize)> {
    let end = start + 4;
    let code = (start..end).try_fold(0, |code, at| {
        let digit = text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let digit = digit.ok_or((UNDEFINED_ESCAPE, at))?;
        Ok(code * 16 + digit)
    })?;
    Ok((code, end))
}

/// The first wrong byte of the malformed number that begins at `start`.
fn wrong_in_number(text: &[u8], start: usize) -> usize {
    let digits_end = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let whole = start + usize::from(text.get(start) == Some(&b'-'));
    let mut end = digits_end(whole);
    if end == whole {
        return end;
    }
    if text.get(whole) == Some(&b'0') && end > whole + 1 {
        return whole + 1;
    }
    if text.get(end) == Some(&b'.') {
        let fraction = end + 1;
        end = digits_end(fraction);
        if end == fraction {
            return end;
        }
    }
    // All that is left is an exponent without a digit.
    let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
    end + 1 + sign
}
