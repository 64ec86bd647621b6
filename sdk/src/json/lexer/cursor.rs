//! The lexer's position in its document, and the reading of white space, punctuation and literals such as `null`.

use serde_json::value::RawValue;

/// The next token is not the expected one, or decoding was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexError;

/// Result of reading a token.
pub type LexResult<T> = Result<T, LexError>;

/// Reads a document one token at a time.
pub struct Lexer<'a> {
    /// The document.
    pub(super) text: &'a str,
    /// The position of the next byte.
    pub(super) at: usize,
    /// The number of items in the last array that was read completely.
    last_item_count: usize,
    /// The cancellation check.
    should_continue: Option<&'a dyn Fn() -> bool>,
    /// The position from which on `should_continue` is called again.
    next_check_at: usize,
    is_cancelled: bool,
    skips_unreadable: bool,
}

/// The number of bytes between two calls of `should_continue`.
const BYTES_BETWEEN_CHECKS: usize = 64 * 1024;

impl<'a> Lexer<'a> {
    /// Starts at the beginning of a document without a byte order mark.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            last_item_count: 0,
            should_continue: None,
            next_check_at: usize::MAX,
            is_cancelled: false,
            skips_unreadable: false,
        }
    }

    /// Enables [`skip_unreadable_value`](Self::skip_unreadable_value).
    pub fn enable_skip_unreadable(&mut self) {
        self.skips_unreadable = true;
    }

    /// Sets a cancellation check, which is called every 64 KB. Once it returns false, reading fails.
    pub fn set_should_continue(&mut self, should_continue: &'a dyn Fn() -> bool) {
        self.should_continue = Some(should_continue);
        self.next_check_at = BYTES_BETWEEN_CHECKS;
    }

    /// Returns whether reading failed because `should_continue` returned false.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Calls `should_continue`, if it is set and 64 KB were read since the last call; fails if it returns false.
    ///
    /// The lexer calls this at each object, and at each name that is not the expected one. Every part of a document that can
    /// repeat contains an object or such a name.
    #[inline(always)]
    pub(super) fn check_cancelled(&mut self) -> LexResult<()> {
        if self.at < self.next_check_at {
            Ok(())
        } else {
            self.call_should_continue()
        }
    }

    #[cold]
    fn call_should_continue(&mut self) -> LexResult<()> {
        if self
            .should_continue
            .is_some_and(|should_continue| should_continue())
        {
            self.next_check_at = self.at + BYTES_BETWEEN_CHECKS;
            Ok(())
        } else {
            self.is_cancelled = true;
            Err(LexError)
        }
    }

    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    #[inline(always)]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn slice_from(&self, start: usize) -> &'a str {
        self.slice(start, self.text.len())
    }

    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Moves forward until only `rest` of the document remains.
    #[inline(always)]
    pub(super) fn advance_to(&mut self, rest: &[u8]) {
        self.at = self.text.len() - rest.len();
    }

    /// Skips white space, and returns the next byte without reading it, or 0 at the end.
    #[inline(always)]
    pub fn peek(&mut self) -> u8 {
        match self.byte() {
            Some(byte) if byte > b' ' => byte,
            _ => self.skip_space(),
        }
    }

    #[inline(never)]
    fn skip_space(&mut self) -> u8 {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return byte,
            }
        }
        0
    }

    /// Skips the single space that often follows punctuation.
    #[inline(always)]
    fn skip_one_space(&mut self) {
        if self.byte() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Reads this punctuation mark; fails if another character is next.
    #[inline(always)]
    pub(super) fn expect(&mut self, punctuation: u8) -> LexResult<()> {
        if self.peek() == punctuation {
            self.at += 1;
            Ok(())
        } else {
            Err(LexError)
        }
    }

    /// Reads the start of an array or an object, and returns whether it has content.
    #[inline(always)]
    fn begin_container(&mut self, open: u8, close: u8) -> LexResult<bool> {
        self.expect(open)?;
        if self.peek() == close {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads the comma or the end after an element, and returns whether another element follows.
    #[inline(always)]
    fn next_element(&mut self, close: u8) -> LexResult<bool> {
        let byte = self.peek();
        if byte == b',' {
            self.at += 1;
            self.skip_one_space();
            self.peek();
            Ok(true)
        } else if byte == close {
            self.at += 1;
            Ok(false)
        } else {
            Err(LexError)
        }
    }

    /// Reads the start of an object, and returns whether it has fields.
    #[inline]
    pub fn begin_object(&mut self) -> LexResult<bool> {
        self.check_cancelled()?;
        self.begin_container(b'{', b'}')
    }

    /// Reads the comma or the end after a field, and returns whether another field follows.
    #[inline]
    pub fn next_field(&mut self) -> LexResult<bool> {
        self.next_element(b'}')
    }

    /// Reads the start of an array, and returns whether it has items.
    #[inline]
    pub fn begin_array(&mut self) -> LexResult<bool> {
        self.begin_container(b'[', b']')
    }

    /// Reads the comma or the end after an item, and returns whether another item follows.
    #[inline]
    pub fn next_item(&mut self) -> LexResult<bool> {
        self.next_element(b']')
    }

    /// Estimates the number of items of the next array, to reserve memory. Similar arrays often have the same length, such as
    /// the fields of each contact. The estimate is at least a `Vec`'s own minimum, and so low that a wrong estimate wastes
    /// little memory.
    pub(crate) fn expected_items(&self) -> usize {
        self.last_item_count.clamp(4, 16)
    }

    /// Records the number of items of an array, for [`expected_items`](Self::expected_items).
    pub(crate) fn record_item_count(&mut self, items: usize) {
        self.last_item_count = items;
    }

    /// Skips the next field name if it is `quoted`, a name with quotes and colon such as `"id":`. Returns whether the name was
    /// skipped.
    #[inline(always)]
    pub fn skip_name(&mut self, quoted: &'static str) -> bool {
        // `strip_prefix` would be slower: it does not know the length at compile time and compares byte by byte.
        match self.rest().split_at_checked(quoted.len()) {
            Some((name, rest)) if name == quoted.as_bytes() => {
                self.advance_to(rest);
                self.skip_one_space();
                true
            }
            _ => false,
        }
    }

    /// Reads a literal such as `true`.
    #[inline]
    fn read_literal(&mut self, literal: &'static str) -> LexResult<()> {
        let rest = self
            .rest()
            .strip_prefix(literal.as_bytes())
            .ok_or(LexError)?;
        self.advance_to(rest);
        Ok(())
    }

    #[inline]
    pub fn read_null(&mut self) -> LexResult<()> {
        self.peek();
        self.read_literal("null")
    }

    /// Skips the unreadable value of an optional field, which begins at `start`; fails unless skipping is enabled. Returns the
    /// value, or `None` if a field of the same name follows in the object: of several fields with one name, the last counts.
    #[cold]
    pub fn skip_unreadable_value(
        &mut self,
        start: usize,
        field: &str,
    ) -> LexResult<Option<&'a RawValue>> {
        if !self.skips_unreadable || self.is_cancelled {
            return Err(LexError);
        }
        self.at = start;
        let value = self.read_raw()?;
        let (end, next_check_at) = (self.at, self.next_check_at);
        let occurs_again = self.has_field(field)?;
        (self.at, self.next_check_at) = (end, next_check_at);
        Ok((!occurs_again).then_some(value))
    }

    /// Returns whether the rest of the object has a field of this name.
    fn has_field(&mut self, field: &str) -> LexResult<bool> {
        while self.next_field()? {
            if self.read_name()? == field {
                return Ok(true);
            }
            self.read_raw()?;
        }
        Ok(false)
    }

    /// Returns to an earlier position, to read the text from there in another way.
    pub(crate) fn set_position(&mut self, position: usize) {
        self.at = position;
    }

    #[inline]
    pub fn read_boolean(&mut self) -> LexResult<bool> {
        match self.peek() {
            b't' => self.read_literal("true").map(|()| true),
            _ => self.read_literal("false").map(|()| false),
        }
    }

    /// Fails unless only white space is left in the document.
    pub fn expect_end(&mut self) -> LexResult<()> {
        // Compare positions, because `peek` returns 0 both at the end and for a byte of 0.
        self.peek();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(LexError)
        }
    }

    /// Reads any value as its text. serde_json finds the end of the value without recursion: values may be nested to any depth.
    #[cold]
    pub fn read_raw(&mut self) -> LexResult<&'a RawValue> {
        let rest = self.text.get(self.at..).ok_or(LexError)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let value = values.next().ok_or(LexError)?.map_err(|_| LexError)?;
        self.at += values.byte_offset();
        Ok(value)
    }
}
