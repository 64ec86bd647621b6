//! Strict JSON parsing, which a request body or a seed must pass before anything else looks at it.
//!
//! serde_json is lenient where a contract should not be: it takes the last of two equal keys, and what it keeps as raw
//! text may hold lone surrogates. This reader refuses both, and a byte order mark. Of numbers, only the syntax is
//! checked: how large one may be is up to the field that holds it.

mod error;

use std::{borrow::Cow, collections::HashSet};

use dealkit::lexer::Lexer;

use error::Defect;
pub use error::JsonError;

/// How deeply arrays and objects may be nested.
pub const MAX_DEPTH: usize = 128;

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
    read(bytes).map_err(|defect| defect.locate(bytes))
}

fn read(bytes: &[u8]) -> Result<&str, Defect> {
    let text = std::str::from_utf8(bytes).map_err(|error| Defect {
        reason: "a byte that is not UTF-8",
        at: error.valid_up_to(),
    })?;
    if text.starts_with('\u{feff}') {
        return Err(Defect {
            reason: "a byte order mark, which JSON must not begin with,",
            at: 0,
        });
    }
    let lexer = Lexer::new(text);
    let mut reader = Reader { text, lexer };
    reader.value(0)?;
    match reader.lexer.end() {
        Ok(()) => Ok(text),
        Err(_) => Err(reader.fault("something after the JSON value")),
    }
}

struct Reader<'j> {
    text: &'j str,
    lexer: Lexer<'j>,
}

impl<'j> Reader<'j> {
    /// The next byte is wrong.
    #[cold]
    fn fault(&self, reason: &'static str) -> Defect {
        Defect::new(reason, self.text, self.lexer.position())
    }

    /// Reads a value.
    fn value(&mut self, depth: usize) -> Result<(), Defect> {
        let first = self.lexer.peek();
        let (text, start) = (self.text, self.lexer.position());
        match first {
            b'{' => self.object(self.deeper(depth)?),
            b'[' => self.array(self.deeper(depth)?),
            b'"' => match self.lexer.string() {
                Ok(_) => Ok(()),
                Err(_) => Defect::in_string(text, start).map_or(Ok(()), Err),
            },
            b'-' | b'0'..=b'9' => {
                let number = self.lexer.number().map(drop);
                number.map_err(|_| Defect::in_number(text, start))
            }
            b't' | b'f' => {
                let word = if first == b't' { "true" } else { "false" };
                let boolean = self.lexer.boolean().map(drop);
                boolean.map_err(|_| Defect::in_word(text, start, word))
            }
            b'n' => {
                let null = self.lexer.null();
                null.map_err(|_| Defect::in_word(text, start, "null"))
            }
            _ => Err(self.fault("something that cannot begin a JSON value")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, Defect> {
        if depth < MAX_DEPTH {
            Ok(depth + 1)
        } else {
            Err(self.fault("more than 128 levels of arrays and objects"))
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Defect> {
        const NO_COMMA: &str = "something other than a comma or the end of an array";
        let mut has_more = self.lexer.array().map_err(|_| self.fault(NO_COMMA))?;
        while has_more {
            self.value(depth)?;
            has_more = self.lexer.item().map_err(|_| self.fault(NO_COMMA))?;
            if has_more && self.lexer.peek() == b']' {
                return Err(self.fault(TRAILING_COMMA));
            }
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), Defect> {
        const NO_COMMA: &str = "something other than a comma or the end of an object";
        let mut keys = HashSet::new();
        let mut has_more = self.lexer.object().map_err(|_| self.fault(NO_COMMA))?;
        while has_more {
            let key_start = self.lexer.position();
            if !keys.insert(self.key(key_start)?) {
                return Err(Defect {
                    reason: "a key that this object already has",
                    at: key_start,
                });
            }
            self.value(depth)?;
            has_more = self.lexer.field().map_err(|_| self.fault(NO_COMMA))?;
            if has_more && self.lexer.peek() == b'}' {
                return Err(self.fault(TRAILING_COMMA));
            }
        }
        Ok(())
    }

    /// Reads a key and the colon after it.
    fn key(&mut self, start: usize) -> Result<Cow<'j, str>, Defect> {
        if self.lexer.peek() != b'"' {
            return Err(self.fault("something other than the quote that begins a key"));
        }
        self.lexer.name().map_err(|_| {
            Defect::in_string(self.text, start)
                .unwrap_or_else(|| self.fault("something other than the colon after a key"))
        })
    }
}

const TRAILING_COMMA: &str = "the end after a trailing comma";
