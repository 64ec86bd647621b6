//! Strings, and the names of fields.

use std::borrow::Cow;

use super::cursor::{Lexed, Lexer, Refused};

/// A string of a document.
#[derive(Clone, PartialEq, Eq)]
pub enum Text<'a> {
    /// As it stands in the document, and whether it is ASCII.
    Plain(&'a str, bool),
    /// What its escapes stand for.
    Escaped(String),
}

impl<'a> Text<'a> {
    /// The string.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Plain(text, _) => text,
            Self::Escaped(text) => text,
        }
    }

    /// The string, borrowed where it stands in the document.
    #[inline]
    pub fn into_cow(self) -> Cow<'a, str> {
        match self {
            Self::Plain(text, _) => Cow::Borrowed(text),
            Self::Escaped(text) => Cow::Owned(text),
        }
    }
}

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What stands in a document may be personal.
        f.write_str("Text(<hidden>)")
    }
}

impl<'a> Lexer<'a> {
    /// Reads a string.
    #[inline]
    pub fn string(&mut self) -> Lexed<Text<'a>> {
        match self.plain_and_bits() {
            Some((text, bits)) => Ok(Text::Plain(text, bits & HIGH_BITS == 0)),
            None => self.escaped(),
        }
    }

    /// Reads a string that stands in the document as it is; nothing is read of any other.
    pub fn plain(&mut self) -> Option<&'a str> {
        self.plain_and_bits().map(|(text, _)| text)
    }

    /// [`plain`](Self::plain), and the bits that its bytes have set.
    #[inline(always)]
    fn plain_and_bits(&mut self) -> Option<(&'a str, u64)> {
        if self.peek() != b'"' {
            return None;
        }
        let start = self.at + 1;
        let text = self.text.as_bytes();
        let mut end = start;
        let mut bits = 0;
        while let Some(chunk) = text.get(end..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_le_bytes(*chunk);
            let special = special_bytes(word);
            if special != 0 {
                let before = (special & special.wrapping_neg()) - 1;
                bits |= word & before;
                end += (special.trailing_zeros() / 8) as usize;
                break;
            }
            bits |= word;
            end += chunk.len();
        }
        // At the special byte, or within the last seven of the document.
        loop {
            match text.get(end)? {
                b'"' => break,
                0..b' ' | b'\\' => return None,
                byte => bits |= u64::from(*byte),
            }
            end += 1;
        }
        let plain = self.text.get(start..end)?;
        self.at = end + 1;
        Some((plain, bits))
    }

    /// Reads a string with escapes.
    #[cold]
    fn escaped(&mut self) -> Lexed<Text<'a>> {
        self.expect(b'"')?;
        let mut out = String::new();
        let mut rest = self.text.get(self.at..).ok_or(Refused)?;
        loop {
            let special = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..' '));
            let (plain, special) = rest
                .split_at_checked(special.ok_or(Refused)?)
                .ok_or(Refused)?;
            out.push_str(plain);
            if let Some(after) = special.strip_prefix('"') {
                self.leave(after.as_bytes());
                return Ok(Text::Escaped(out));
            }
            let escape = special.strip_prefix('\\').ok_or(Refused)?;
            let (c, after) = unescape(escape).ok_or(Refused)?;
            out.push(c);
            rest = after;
        }
    }

    /// Reads the name of a field, and goes past the colon.
    pub fn name(&mut self) -> Lexed<Cow<'a, str>> {
        let name = self.string()?.into_cow();
        self.expect(b':')?;
        Ok(name)
    }
}

/// A byte of ones.
const ONES: u64 = u64::MAX / 0xff;
const HIGH_BITS: u64 = ONES * 0x80;

/// Marks the bytes that end the plain part of a string, quotes, backslashes and control characters, by their highest
/// bits. Bytes above the lowest that is marked may be marked too.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    let below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (equal(b'"') | equal(b'\\') | below(word, u64::from(b' '))) & HIGH_BITS
}

/// What the escape stands for whose backslash came before, and what follows it.
fn unescape(escape: &str) -> Option<(char, &str)> {
    let mut after = escape.chars();
    let c = match after.next()? {
        c @ ('"' | '\\' | '/') => c,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unescape_unicode(after.as_str()),
        _ => return None,
    };
    Some((c, after.as_str()))
}

/// Four digits, or a pair of surrogates; no half of one.
fn unescape_unicode(digits: &str) -> Option<(char, &str)> {
    let (first, after) = hex(digits)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, after));
    }
    let (second, after) = hex(after.strip_prefix("\\u")?)?;
    let pair = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    let c = char::decode_utf16(pair).next()?.ok()?;
    Some((c, after))
}

fn hex(text: &str) -> Option<(u32, &str)> {
    let (digits, after) = text.split_at_checked(4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some((code, after))
}
