//! Strict JSON parsing, which a request body or a seed must pass before anything else looks at it.
//!
//! serde_json is lenient where a contract should not be: it takes the last of two equal keys, and what it keeps as raw
//! text may hold lone surrogates. This reader refuses both, and a byte order mark. Of numbers, only the syntax is
//! checked: how large one may be is up to the field that holds it.

mod error;

use std::{borrow::Cow, collections::HashSet};

use dealkit::{
    fields::{Body, Fields, PROFILE, Value},
    lexer::{Lexer, Text},
};

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
    let read = Reader::read(bytes, Keep::Nothing);
    read.map(|reader| reader.text)
        .map_err(|fault| fault.locate(bytes))
}

/// Checks a request body, and keeps its fields and those of the profile on the way: the rules look no deeper.
pub(crate) fn read_body(body: &[u8]) -> Result<Body<'_>, JsonError> {
    let read = Reader::read(body, Keep::Agent);
    read.map(|reader| Body::read(reader.text, reader.agent, reader.profile))
        .map_err(|fault| fault.locate(body))
}

/// What is kept of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Nothing,
    /// The fields, if it is an object, as those of an agent to create.
    Agent,
    /// The same, as those of its profile.
    Profile,
}

struct Reader<'j> {
    text: &'j str,
    lexer: Lexer<'j>,
    agent: Option<Fields<'j>>,
    profile: Option<Fields<'j>>,
}

impl<'j> Reader<'j> {
    fn read(bytes: &'j [u8], keep: Keep) -> Result<Self, Defect> {
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
        let mut reader = Reader {
            text,
            lexer: Lexer::new(text),
            agent: None,
            profile: None,
        };
        reader.value(0, keep)?;
        match reader.lexer.end() {
            Ok(()) => Ok(reader),
            Err(_) => Err(reader.fault("something after the JSON value")),
        }
    }

    /// Where the kept fields go.
    fn kept(&mut self, keep: Keep) -> Option<&mut Fields<'j>> {
        match keep {
            Keep::Nothing => None,
            Keep::Agent => self.agent.as_mut(),
            Keep::Profile => self.profile.as_mut(),
        }
    }

    /// The next byte is wrong.
    #[cold]
    fn fault(&self, reason: &'static str) -> Defect {
        Defect::new(reason, self.text, self.lexer.position())
    }

    /// Reads a value.
    fn value(&mut self, depth: usize, keep: Keep) -> Result<Value<'j>, Defect> {
        let first = self.lexer.peek();
        let (text, start) = (self.text, self.lexer.position());
        match first {
            b'{' => self.object(self.deeper(depth)?, keep)?,
            b'[' => self.array(self.deeper(depth)?)?,
            b'"' => match self.lexer.string() {
                Ok(Text::Plain(plain)) => return Ok(Value::Text(plain)),
                Ok(Text::Escaped(_)) => {}
                Err(_) => Defect::in_string(text, start).map_or(Ok(()), Err)?,
            },
            b'-' | b'0'..=b'9' => {
                let number = self.lexer.number().map(drop);
                number.map_err(|_| Defect::in_number(text, start))?;
            }
            b't' | b'f' => {
                let word = if first == b't' { "true" } else { "false" };
                let boolean = self.lexer.boolean().map(drop);
                boolean.map_err(|_| Defect::in_word(text, start, word))?;
            }
            b'n' => {
                let null = self.lexer.null();
                null.map_err(|_| Defect::in_word(text, start, "null"))?;
            }
            _ => return Err(self.fault("something that cannot begin a JSON value")),
        }
        Ok(Value::Json(self.lexer.slice(start, self.lexer.position())))
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
            self.value(depth, Keep::Nothing)?;
            has_more = self.lexer.item().map_err(|_| self.fault(NO_COMMA))?;
            if has_more && self.lexer.peek() == b']' {
                return Err(self.fault(TRAILING_COMMA));
            }
        }
        Ok(())
    }

    fn object(&mut self, depth: usize, keep: Keep) -> Result<(), Defect> {
        const NO_COMMA: &str = "something other than a comma or the end of an object";
        match keep {
            Keep::Nothing => {}
            Keep::Agent => self.agent = Some(Fields::of_agent()),
            Keep::Profile => self.profile = Some(Fields::of_profile()),
        }
        // Except for those that have a place in the fields.
        let mut keys = HashSet::new();
        let mut has_more = self.lexer.object().map_err(|_| self.fault(NO_COMMA))?;
        while has_more {
            let key_start = self.lexer.position();
            let key = self.key(key_start)?;
            let kept = self.kept(keep);
            let place = kept.as_ref().and_then(|fields| fields.place(&key));
            let is_new = match (kept, place) {
                (Some(fields), Some(place)) => !fields.has(place),
                _ => keys.insert(key.clone()),
            };
            if !is_new {
                return Err(Defect {
                    reason: "a key that this object already has",
                    at: key_start,
                });
            }
            let inside = match keep {
                Keep::Agent if key == PROFILE => Keep::Profile,
                _ => Keep::Nothing,
            };
            let value = self.value(depth, inside)?;
            if let Some(fields) = self.kept(keep) {
                fields.put(place, key, value);
            }
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
