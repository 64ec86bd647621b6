//! Where a lexer is in its document: white space, punctuation and words.

use serde_json::value::RawValue;

/// The document is not what the reader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// What was read, or nothing.
pub type Lexed<T> = Result<T, Refused>;

/// Goes through a document, a token at a time.
pub struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// How many items the array had that ended last.
    items: usize,
}

impl std::fmt::Debug for Lexer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lexer")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<'a> Lexer<'a> {
    /// At the beginning of a document, from which a byte order mark was taken.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            items: 0,
        }
    }

    /// How many bytes have been read.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The document from one position to another.
    #[inline]
    pub fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    #[inline(always)]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Goes to where this much of the document is left.
    #[inline(always)]
    pub(super) fn leave(&mut self, rest: &[u8]) {
        self.at = self.text.len() - rest.len();
    }

    /// Goes past white space; the byte that comes next, 0 at the end.
    #[inline(always)]
    pub fn peek(&mut self) -> u8 {
        match self.byte() {
            Some(byte) if byte > b' ' => byte,
            _ => self.peek_far(),
        }
    }

    #[inline(never)]
    fn peek_far(&mut self) -> u8 {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return byte,
            }
        }
        0
    }

    /// Goes past the space that is common after punctuation, the quick way.
    #[inline(always)]
    fn skip_one_space(&mut self) {
        if self.byte() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Goes past this one byte of punctuation.
    #[inline(always)]
    pub(super) fn expect(&mut self, punctuation: u8) -> Lexed<()> {
        if self.peek() == punctuation {
            self.at += 1;
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Enters an array or an object; whether there is something in it.
    #[inline(always)]
    fn enter(&mut self, open: u8, close: u8) -> Lexed<bool> {
        self.expect(open)?;
        if self.peek() == close {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Goes on in an array or an object; whether there is more in it.
    #[inline(always)]
    fn go_on(&mut self, close: u8) -> Lexed<bool> {
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
            Err(Refused)
        }
    }

    /// Enters an object; whether it has fields.
    #[inline]
    pub fn object(&mut self) -> Lexed<bool> {
        self.enter(b'{', b'}')
    }

    /// Goes on after a field; whether another one follows.
    #[inline]
    pub fn field(&mut self) -> Lexed<bool> {
        self.go_on(b'}')
    }

    /// Enters an array; whether it has items.
    #[inline]
    pub fn array(&mut self) -> Lexed<bool> {
        self.enter(b'[', b']')
    }

    /// Goes on after an item; whether another one follows.
    #[inline]
    pub fn item(&mut self) -> Lexed<bool> {
        self.go_on(b']')
    }

    /// For how many items of an array to take memory at once: what is alike is often of one length, such as the fields of
    /// each contact. Not fewer than a `Vec` takes by itself, and not so many that it matters where it is wrong.
    pub(crate) fn likely_items(&self) -> usize {
        self.items.clamp(4, 16)
    }

    /// An array has ended, which had so many items.
    pub(crate) fn had_items(&mut self, items: usize) {
        self.items = items;
    }

    /// Goes past the name of a field if it is this one, given with quotes and colon: `"id":`.
    #[inline(always)]
    pub fn named(&mut self, quoted: &'static str) -> bool {
        // Not `strip_prefix`, which knows no length beforehand and compares byte by byte.
        match self.rest().split_at_checked(quoted.len()) {
            Some((name, rest)) if name == quoted.as_bytes() => {
                self.leave(rest);
                self.skip_one_space();
                true
            }
            _ => false,
        }
    }

    /// Goes past a word.
    #[inline]
    fn word(&mut self, word: &'static str) -> Lexed<()> {
        let rest = self.rest().strip_prefix(word.as_bytes()).ok_or(Refused)?;
        self.leave(rest);
        Ok(())
    }

    /// Reads a null.
    #[inline]
    pub fn null(&mut self) -> Lexed<()> {
        self.peek();
        self.word("null")
    }

    /// Reads a boolean.
    #[inline]
    pub fn boolean(&mut self) -> Lexed<bool> {
        match self.peek() {
            b't' => self.word("true").map(|()| true),
            _ => self.word("false").map(|()| false),
        }
    }

    /// Whether the document ends here, white space aside.
    pub fn end(&mut self) -> Lexed<()> {
        // Not by `peek`, to which a byte of 0 looks the same.
        self.peek();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Reads any value as the text it is; serde_json finds its end, however deep it nests.
    #[cold]
    pub fn raw(&mut self) -> Lexed<&'a RawValue> {
        let rest = self.text.get(self.at..).ok_or(Refused)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let value = values.next().ok_or(Refused)?.map_err(|_| Refused)?;
        self.at += values.byte_offset();
        Ok(value)
    }
}
