//! Strings, and the names of fields.

use std::borrow::Cow;

use crate::{
    json::lexer::cursor::{Lexed, Lexer, Refused},
    value::Wtf8,
};

impl<'a> Lexer<'a> {
    /// Reads a string, which is borrowed if it is in the document as it is.
    #[inline]
    pub fn string(&mut self) -> Lexed<Cow<'a, str>> {
        match self.plain() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.escaped(),
        }
    }

    /// Reads a string that contains no escapes; reads nothing if the string is any other.
    #[inline(always)]
    pub fn plain(&mut self) -> Option<&'a str> {
        match self.peek() {
            b'"' => self.plain_here(),
            _ => None,
        }
    }

    /// The same, after white space. It is a separate function because it calls nothing, and so need not save registers.
    #[inline(never)]
    fn plain_here(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        let end = start + plain_length(self.text.as_bytes().get(start..)?)?;
        let plain = self.text.get(start..end)?;
        self.at = end + 1;
        Some(plain)
    }

    /// Reads a string with escapes, as serde_json does.
    #[cold]
    fn escaped(&mut self) -> Lexed<Cow<'a, str>> {
        if self.peek() != b'"' {
            return Err(Refused);
        }
        let start = self.at;
        let text = serde_json::from_str(self.raw()?.get());
        text.map(Cow::Owned).map_err(|_| {
            // What is wrong is found where the string begins.
            self.at = start;
            Refused
        })
    }

    /// Reads a string as bytes: UTF-8, but for halves of surrogate pairs, which JSON can hold and text cannot.
    pub fn wtf8(&mut self) -> Lexed<Cow<'a, [u8]>> {
        match self.plain() {
            Some(text) => Ok(Cow::Borrowed(text.as_bytes())),
            None => Wtf8::from_json(self.raw()?.get())
                .map(|it| it.0)
                .ok_or(Refused),
        }
    }

    /// Reads the name of a field as bytes, and skips the colon.
    pub fn wtf8_name(&mut self) -> Lexed<Cow<'a, [u8]>> {
        let name = self.wtf8()?;
        self.expect(b':')?;
        Ok(name)
    }

    /// Reads the name of a field, and skips the colon.
    pub fn name(&mut self) -> Lexed<Cow<'a, str>> {
        self.may_go_on()?;
        let name = self.string()?;
        self.expect(b':')?;
        Ok(name)
    }
}

/// Whether a string is written in a document as it is, without escapes.
#[inline]
pub fn is_plain(text: &str) -> bool {
    let (words, rest) = text.as_bytes().as_chunks();
    let is_plain = |word: &[u8; 8]| special_bytes(u64::from_le_bytes(*word)) == 0;
    words.iter().all(is_plain)
        && match text.as_bytes().last_chunk() {
            // This last word overlaps the others unless the length is a multiple of a word's.
            Some(last) => is_plain(last),
            None => !rest.iter().any(is_special),
        }
}

fn is_special(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..b' ')
}

/// A word in which every byte is one.
const ONES: u64 = u64::MAX / 0xff;

/// How many bytes of a string come before its closing quote, if nothing before it needs attention.
#[inline(always)]
fn plain_length(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            let length = text.len() - rest.len() + (special.trailing_zeros() / 8) as usize;
            return (text.get(length) == Some(&b'"')).then_some(length);
        }
        rest = after;
    }
    // The last seven bytes of the document.
    let end = rest.iter().position(is_special)?;
    (rest.get(end) == Some(&b'"')).then_some(text.len() - rest.len() + end)
}

/// Marks, by their highest bits, the bytes that end the plain part of a string: quotes, backslashes and control
/// characters. Bytes above the lowest marked one may be marked too.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit));
    // With its second bit flipped, a quote comes right after the control characters, where the space would be.
    let quotes_and_controls = below(word ^ (ONES * 0b10), b' ' + 1);
    let backslashes = below(word ^ (ONES * u64::from(b'\\')), 1);
    // Bytes whose highest bit was set before are not ASCII.
    (quotes_and_controls | backslashes) & !word & (ONES * 0x80)
}
