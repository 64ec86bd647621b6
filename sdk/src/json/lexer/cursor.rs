//! The lexer's position in its document: white space, punctuation and words.

use serde_json::value::RawValue;

/// The document is not what the reader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A value that was read, or a refusal.
pub type Lexed<T> = Result<T, Refused>;

/// Steps through a document one token at a time.
pub struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// How many items the last completed array had.
    items: usize,
    /// Who is asked whether to go on.
    go_on: Option<&'a dyn Fn() -> bool>,
    /// From which position on to ask.
    ask_at: usize,
    is_stopped: bool,
    skips_unreadable: bool,
}

/// How much of a document is read before it is asked again whether to go on.
const STEP: usize = 64 * 1024;

impl<'a> Lexer<'a> {
    /// Starts at the beginning of a document without a byte order mark.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            items: 0,
            go_on: None,
            ask_at: usize::MAX,
            is_stopped: false,
            skips_unreadable: false,
        }
    }

    /// Has optional values that cannot be read [skipped](Self::skipped).
    pub fn skip_unreadable(&mut self) {
        self.skips_unreadable = true;
    }

    /// Has `go_on` asked every 64 KB whether to go on. If not, everything that follows is refused.
    pub fn ask(&mut self, go_on: &'a dyn Fn() -> bool) {
        self.go_on = Some(go_on);
        self.ask_at = STEP;
    }

    /// Whether the document was refused because it was not to be read to its end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Asks whether to go on, when there is somebody to ask and enough has been read.
    ///
    /// It is called at each object, and at each name that is not the expected one: no other part of a document repeats
    /// without one of them.
    #[inline(always)]
    pub(super) fn may_go_on(&mut self) -> Lexed<()> {
        if self.at < self.ask_at {
            Ok(())
        } else {
            self.ask_now()
        }
    }

    #[cold]
    fn ask_now(&mut self) -> Lexed<()> {
        if self.go_on.is_some_and(|go_on| go_on()) {
            self.ask_at = self.at + STEP;
            Ok(())
        } else {
            self.is_stopped = true;
            Err(Refused)
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

    /// Moves to the point where this much of the document is left.
    #[inline(always)]
    pub(super) fn leave(&mut self, rest: &[u8]) {
        self.at = self.text.len() - rest.len();
    }

    /// Skips white space, and returns the next byte, or 0 at the end.
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

    /// Quickly skips the space that is common after punctuation.
    #[inline(always)]
    fn skip_one_space(&mut self) {
        if self.byte() == Some(b' ') {
            self.at += 1;
        }
    }

    #[inline(always)]
    pub(super) fn expect(&mut self, punctuation: u8) -> Lexed<()> {
        if self.peek() == punctuation {
            self.at += 1;
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Enters an array or an object, and returns whether it has any content.
    #[inline(always)]
    fn enter(&mut self, open: u8, close: u8) -> Lexed<bool> {
        self.expect(open)?;
        if self.peek() == close {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Continues in an array or an object, and returns whether there is more in it.
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

    /// Enters an object, and returns whether it has fields.
    #[inline]
    pub fn object(&mut self) -> Lexed<bool> {
        self.may_go_on()?;
        self.enter(b'{', b'}')
    }

    /// Continues after a field, and returns whether another one follows.
    #[inline]
    pub fn field(&mut self) -> Lexed<bool> {
        self.go_on(b'}')
    }

    /// Enters an array, and returns whether it has items.
    #[inline]
    pub fn array(&mut self) -> Lexed<bool> {
        self.enter(b'[', b']')
    }

    /// Continues after an item, and returns whether another one follows.
    #[inline]
    pub fn item(&mut self) -> Lexed<bool> {
        self.go_on(b']')
    }

    /// For how many items of an array to reserve memory up front: similar arrays often have the same length, such as
    /// the fields of each contact. At least as many as a `Vec` reserves by itself, and few enough that a wrong guess
    /// does not matter.
    pub(crate) fn likely_items(&self) -> usize {
        self.items.clamp(4, 16)
    }

    pub(crate) fn had_items(&mut self, items: usize) {
        self.items = items;
    }

    /// Skips the name of a field if it is this one, given with quotes and colon: `"id":`.
    #[inline(always)]
    pub fn named(&mut self, quoted: &'static str) -> bool {
        // Not `strip_prefix`, which does not know the length in advance and compares byte by byte.
        match self.rest().split_at_checked(quoted.len()) {
            Some((name, rest)) if name == quoted.as_bytes() => {
                self.leave(rest);
                self.skip_one_space();
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn word(&mut self, word: &'static str) -> Lexed<()> {
        let rest = self.rest().strip_prefix(word.as_bytes()).ok_or(Refused)?;
        self.leave(rest);
        Ok(())
    }

    #[inline]
    pub fn null(&mut self) -> Lexed<()> {
        self.peek();
        self.word("null")
    }

    /// Skips the value of an optional field that begins at `start` and could not be read, if such values are to be skipped.
    /// Returns it, unless the field occurs again: the last one counts.
    #[cold]
    pub fn skipped(&mut self, start: usize, field: &str) -> Lexed<Option<&'a RawValue>> {
        if !self.skips_unreadable || self.is_stopped {
            return Err(Refused);
        }
        self.at = start;
        let value = self.raw()?;
        let (end, ask_at) = (self.at, self.ask_at);
        let occurs_again = self.find(field)?;
        (self.at, self.ask_at) = (end, ask_at);
        Ok((!occurs_again).then_some(value))
    }

    /// Whether the rest of an object has a field of this name.
    fn find(&mut self, field: &str) -> Lexed<bool> {
        while self.field()? {
            if self.name()? == field {
                return Ok(true);
            }
            self.raw()?;
        }
        Ok(false)
    }

    /// Returns to a position, to read what follows in another way.
    pub(crate) fn go_back(&mut self, position: usize) {
        self.at = position;
    }

    #[inline]
    pub fn boolean(&mut self) -> Lexed<bool> {
        match self.peek() {
            b't' => self.word("true").map(|()| true),
            _ => self.word("false").map(|()| false),
        }
    }

    /// Whether the document ends here, apart from white space.
    pub fn end(&mut self) -> Lexed<()> {
        // Does not use the result of `peek`, in which a byte of 0 looks the same.
        self.peek();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Reads any value as its text; serde_json finds its end, however deeply it nests.
    #[cold]
    pub fn raw(&mut self) -> Lexed<&'a RawValue> {
        let rest = self.text.get(self.at..).ok_or(Refused)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let value = values.next().ok_or(Refused)?.map_err(|_| Refused)?;
        self.at += values.byte_offset();
        Ok(value)
    }
}
