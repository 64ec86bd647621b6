//! Reading of strings and field names.

use std::borrow::Cow;

use crate::{
    json::lexer::cursor::{LexError, LexResult, Lexer},
    value::Wtf8,
};

impl<'a> Lexer<'a> {
    /// Reads a string, which is borrowed from the document if it contains no escapes.
    #[inline]
    pub fn read_string(&mut self) -> LexResult<Cow<'a, str>> {
        match self.read_plain_string() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.read_escaped_string(),
        }
    }

    /// Reads a string without escapes; reads nothing and returns `None` if the next value is anything else.
    #[inline(always)]
    pub fn read_plain_string(&mut self) -> Option<&'a str> {
        match self.peek() {
            b'"' => self.read_plain_string_at_quote(),
            _ => None,
        }
    }

    /// Reads a string without escapes, whose opening quote is the next byte. Not inlined: everything that it calls is inlined,
    /// so as a leaf function it saves no registers.
    #[inline(never)]
    fn read_plain_string_at_quote(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        let end = start + plain_string_length(self.text.as_bytes().get(start..)?)?;
        let plain = self.text.get(start..end)?;
        self.at = end + 1;
        Some(plain)
    }

    /// Reads a string with escapes, using serde_json.
    #[cold]
    fn read_escaped_string(&mut self) -> LexResult<Cow<'a, str>> {
        if self.peek() != b'"' {
            return Err(LexError);
        }
        let start = self.at;
        let text = serde_json::from_str(self.read_raw()?.get());
        text.map(Cow::Owned).map_err(|_| {
            // Report the error at the start of the string.
            self.at = start;
            LexError
        })
    }

    /// Reads a string as WTF-8: UTF-8 extended by unpaired surrogates, which a JSON string may contain.
    pub fn read_wtf8(&mut self) -> LexResult<Cow<'a, [u8]>> {
        match self.read_plain_string() {
            Some(text) => Ok(Cow::Borrowed(text.as_bytes())),
            None => Wtf8::from_json(self.read_raw()?.get())
                .map(|it| it.0)
                .ok_or(LexError),
        }
    }

    /// Reads a field name as WTF-8, and the colon after it.
    pub fn read_wtf8_name(&mut self) -> LexResult<Cow<'a, [u8]>> {
        let name = self.read_wtf8()?;
        self.expect(b':')?;
        Ok(name)
    }

    /// Reads a field name and the colon after it.
    pub fn read_name(&mut self) -> LexResult<Cow<'a, str>> {
        self.check_cancelled()?;
        let name = self.read_string()?;
        self.expect(b':')?;
        Ok(name)
    }
}

/// Returns whether JSON can contain the string without escapes.
#[inline]
pub fn is_plain(text: &str) -> bool {
    let (chunks, rest) = text.as_bytes().as_chunks();
    let is_plain = |chunk: &[u8; 8]| special_bytes(u64::from_le_bytes(*chunk)) == 0;
    chunks.iter().all(is_plain)
        && match text.as_bytes().last_chunk() {
            // The last eight bytes overlap the words before, unless the length is a multiple of eight.
            Some(last) => is_plain(last),
            None => !rest.iter().any(is_special),
        }
}

fn is_special(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

/// A 64-bit word in which every byte is 1.
const ONES: u64 = u64::MAX / 0xff;

/// Returns the number of bytes before the closing quote; `None` if an escape or a control character comes first.
#[inline(always)]
fn plain_string_length(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            let length = text.len() - rest.len() + (special.trailing_zeros() / 8) as usize;
            return (text.get(length) == Some(&b'"')).then_some(length);
        }
        rest = after;
    }
    // At most the last seven bytes of the document are left.
    let end = rest.iter().position(is_special)?;
    (rest.get(end) == Some(&b'"')).then_some(text.len() - rest.len() + end)
}

/// Returns a word with the highest bit set in each byte that is a quote, a backslash or a control character in `word`. Only the
/// lowest set bit is exact: higher bytes may be marked by mistake.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit));
    // Flipping the second bit turns a quote (0x22) into a space (0x20), directly above the control characters.
    let quotes_and_controls = below(word ^ (ONES * 0b10), b' ' + 1);
    let backslashes = below(word ^ (ONES * u64::from(b'\\')), 1);
    // Remove bytes whose highest bit was set before: they are not ASCII.
    (quotes_and_controls | backslashes) & !word & (ONES * 0x80)
}
