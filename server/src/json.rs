//! Strict reading of JSON: what a request body and a seed must pass before anything else looks at them.
//!
//! serde_json is lenient where a contract should not be: it takes the last of two equal keys, and what it
//! keeps as raw text may hold lone surrogates. This reader refuses both, and a byte order mark. Numbers
//! are checked for their syntax only: how large one may be is the business of the field that holds it.

use std::{borrow::Cow, collections::HashSet};

use dealkit::{
    lexer::Lexer,
    validate::{Fields, Value},
};

use crate::json_error::Fault;
pub use crate::json_error::JsonError;

/// How many arrays and objects may enclose each other.
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
    let read = Reader::read(bytes, 0);
    read.map(|(text, _)| text)
        .map_err(|fault| fault.locate(bytes))
}

/// Checks a request body, and keeps its fields and theirs while it does: for rules that look no deeper.
pub(crate) fn read_body(body: &[u8]) -> Result<Value<'_>, JsonError> {
    let read = Reader::read(body, 2);
    read.map(|(text, fields)| Value::new(text, fields))
        .map_err(|fault| fault.locate(body))
}

struct Reader<'j> {
    text: &'j str,
    lexer: Lexer<'j>,
    keys: Vec<Cow<'j, str>>,
    /// Down to which depth the fields of objects are kept.
    kept_depth: usize,
}

impl<'j> Reader<'j> {
    fn read(bytes: &'j [u8], kept_depth: usize) -> Result<(&'j str, Option<Fields<'j>>), Fault> {
        let text = std::str::from_utf8(bytes).map_err(|error| Fault {
            reason: "a byte that is not UTF-8",
            at: error.valid_up_to(),
        })?;
        if text.starts_with('\u{feff}') {
            return Err(Fault {
                reason: "a byte order mark, which JSON must not begin with,",
                at: 0,
            });
        }
        let mut reader = Reader {
            text,
            lexer: Lexer::new(text),
            keys: Vec::with_capacity(MANY),
            kept_depth,
        };
        let fields = reader.value(0)?;
        match reader.lexer.end() {
            Ok(()) => Ok((text, fields)),
            Err(_) => Err(reader.fault("something after the JSON value")),
        }
    }

    /// The next byte is wrong.
    #[cold]
    fn fault(&self, reason: &'static str) -> Fault {
        Fault::new(reason, self.text, self.lexer.position())
    }

    /// Reads a value, and returns its fields if they are kept.
    fn value(&mut self, depth: usize) -> Result<Option<Fields<'j>>, Fault> {
        let first = self.lexer.peek();
        let (text, start) = (self.text, self.lexer.position());
        match first {
            b'{' => return self.object(self.deeper(depth)?),
            b'[' => self.array(self.deeper(depth)?)?,
            b'"' => {
                let string = self.lexer.string().map(drop);
                string.or_else(|_| Fault::in_string(text, start).map_or(Ok(()), Err))?;
            }
            b'-' | b'0'..=b'9' => {
                let number = self.lexer.number().map(drop);
                number.map_err(|_| Fault::in_number(text, start))?;
            }
            b't' | b'f' => {
                let word = if first == b't' { "true" } else { "false" };
                let boolean = self.lexer.boolean().map(drop);
                boolean.map_err(|_| Fault::in_word(text, start, word))?;
            }
            b'n' => {
                let null = self.lexer.null();
                null.map_err(|_| Fault::in_word(text, start, "null"))?;
            }
            _ => return Err(self.fault("something that cannot begin a JSON value")),
        }
        Ok(None)
    }

    fn deeper(&self, depth: usize) -> Result<usize, Fault> {
        if depth < MAX_DEPTH {
            Ok(depth + 1)
        } else {
            Err(self.fault("more than 128 levels of arrays and objects"))
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
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

    fn object(&mut self, depth: usize) -> Result<Option<Fields<'j>>, Fault> {
        const NO_COMMA: &str = "something other than a comma or the end of an object";
        let mut fields = match depth {
            // The whole body, of which there is one.
            1 if self.kept_depth > 0 => Some(Fields::with_capacity(BODY_FIELDS)),
            _ => (depth <= self.kept_depth).then(Fields::default),
        };
        let mut names = Names::new(&self.keys);
        let mut has_more = self.lexer.object().map_err(|_| self.fault(NO_COMMA))?;
        while has_more {
            let key_start = self.lexer.position();
            let key = self.key(key_start)?;
            if !names.insert(&mut self.keys, key.clone()) {
                return Err(Fault {
                    reason: "a key that this object already has",
                    at: key_start,
                });
            }
            self.lexer.peek();
            let start = self.lexer.position();
            let inside = self.value(depth)?;
            if let Some(fields) = &mut fields {
                let text = self.lexer.slice(start, self.lexer.position());
                fields.push(key, Value::new(text, inside));
            }
            has_more = self.lexer.field().map_err(|_| self.fault(NO_COMMA))?;
            if has_more && self.lexer.peek() == b'}' {
                return Err(self.fault(TRAILING_COMMA));
            }
        }
        self.keys.truncate(names.first);
        Ok(fields)
    }

    /// Reads a key and the colon after it.
    fn key(&mut self, start: usize) -> Result<Cow<'j, str>, Fault> {
        if self.lexer.peek() != b'"' {
            return Err(self.fault("something other than the quote that begins a key"));
        }
        self.lexer.name().map_err(|_| {
            Fault::in_string(self.text, start)
                .unwrap_or_else(|| self.fault("something other than the colon after a key"))
        })
    }
}

/// As many fields as a request of the specification can have, and a few more.
const BODY_FIELDS: usize = 16;

const TRAILING_COMMA: &str = "the end after a trailing comma";

/// The keys of one open object. They stand in a list with those of the objects around it, from `first` on.
struct Names<'j> {
    first: usize,
    /// A set of them once they are many.
    many: Option<HashSet<Cow<'j, str>>>,
}

/// From this many keys on, a set is faster than comparing with each, and an attacker's body of a hundred
/// thousand keys takes linear time.
const MANY: usize = 32;

impl<'j> Names<'j> {
    fn new(keys: &[Cow<'j, str>]) -> Self {
        Self {
            first: keys.len(),
            many: None,
        }
    }

    /// Whether `key` is new to the object, after unescaping.
    fn insert(&mut self, keys: &mut Vec<Cow<'j, str>>, key: Cow<'j, str>) -> bool {
        if let Some(many) = &mut self.many {
            return many.insert(key);
        }
        let known = keys.get(self.first..).unwrap_or_default();
        if known.contains(&key) {
            return false;
        }
        keys.push(key);
        if keys.len() - self.first > MANY {
            self.many = Some(keys.drain(self.first..).collect());
        }
        true
    }
}
