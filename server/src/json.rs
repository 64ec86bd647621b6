//! Strict reading of JSON: what a request body and a seed must pass before anything else looks at them.
//!
//! serde_json is lenient where a contract should not be: it takes the last of two equal keys, and what it
//! keeps as raw text may hold lone surrogates. This reader refuses both, and a byte order mark. Numbers
//! are checked for their syntax only: how large one may be is the business of the field that holds it.

use std::{borrow::Cow, collections::HashSet, fmt, ops::Range};

use dealkit::validate::{Fields, Value};
use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

/// How many arrays and objects may enclose each other.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not the JSON that the contract asks for, and where.
///
/// The position is that of the first wrong byte: for a repeated key, its opening quote; for a text that ends
/// too early, its end. Lines and columns count from 1, columns count
/// characters (code points), as an editor shows them. Nothing of the text is repeated.
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

/// A reason and the offset of the byte that it is about.
#[derive(Clone, Copy, Debug)]
struct Fault {
    reason: &'static str,
    at: usize,
}

impl Fault {
    fn locate(self, bytes: &[u8]) -> JsonError {
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
}

struct Reader<'j> {
    text: &'j str,
    /// Where in the text `jiter` began: not 0 once a very long number was read past it.
    base: usize,
    jiter: Jiter<'j>,
    keys: Keys,
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
            base: 0,
            jiter: Jiter::new(bytes),
            keys: Keys::default(),
            kept_depth,
        };
        let first = reader.jiter.peek().map_err(|error| reader.fault(&error))?;
        let fields = reader.value(first, 0)?;
        reader
            .jiter
            .finish()
            .map_err(|error| reader.fault(&error))?;
        Ok((text, fields))
    }

    fn at(&self) -> usize {
        self.base + self.jiter.current_index()
    }

    /// Reads a value, and returns its fields if they are kept.
    fn value(&mut self, peek: Peek, depth: usize) -> Result<Option<Fields<'j>>, Fault> {
        let read = match peek {
            Peek::Null => self.jiter.known_null(),
            Peek::True | Peek::False => self.jiter.known_bool(peek).map(drop),
            Peek::String => self.jiter.known_str().map(drop),
            Peek::Array => return self.array(self.deeper(depth)?).map(|()| None),
            Peek::Object => return self.object(self.deeper(depth)?),
            _ if peek.is_num() => return self.number(peek).map(|()| None),
            _ => {
                return Err(Fault {
                    reason: "something that cannot begin a JSON value",
                    at: self.at(),
                });
            }
        };
        read.map(|()| None).map_err(|error| self.fault(&error))
    }

    fn deeper(&self, depth: usize) -> Result<usize, Fault> {
        if depth < MAX_DEPTH {
            Ok(depth + 1)
        } else {
            Err(Fault {
                reason: "more than 128 levels of arrays and objects",
                at: self.at(),
            })
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        let mut element = self
            .jiter
            .known_array()
            .map_err(|error| self.fault(&error))?;
        while let Some(peek) = element {
            self.value(peek, depth)?;
            element = self
                .jiter
                .array_step()
                .map_err(|error| self.fault(&error))?;
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<Option<Fields<'j>>, Fault> {
        let mut fields = (depth <= self.kept_depth).then(Fields::default);
        let mut names = self.keys.enter();
        let mut from = self.at();
        let mut first = true;
        loop {
            let key = if first {
                self.jiter.known_object()
            } else {
                self.jiter.next_key()
            };
            let kept_name;
            let is_new = match key {
                Ok(None) => break,
                Ok(Some(key)) => {
                    kept_name = fields.as_ref().map(|_| borrowed(self.text, from, key));
                    self.keys.insert(&mut names, key)
                }
                Err(error) => return Err(self.fault(&error)),
            };
            if !is_new {
                return Err(Fault {
                    reason: "a key that this object already has",
                    at: quote(self.text, from),
                });
            }
            first = false;
            let peek = self.jiter.peek().map_err(|error| self.fault(&error))?;
            let start = self.at();
            let inside = self.value(peek, depth)?;
            from = self.at();
            if let (Some(fields), Some(name)) = (&mut fields, kept_name) {
                let text = self.text.get(start..from).unwrap_or_default();
                fields.push(name, Value::new(text, inside));
            }
        }
        self.keys.leave(names);
        Ok(fields)
    }

    fn number(&mut self, peek: Peek) -> Result<(), Fault> {
        match self.jiter.known_number_bytes(peek) {
            Ok(_) => Ok(()),
            // jiter gives up on integers beyond 4,300 digits, which guards Python's `int`. This reader
            // never makes a number of the digits, so it walks over them itself and lets jiter go on after.
            Err(error)
                if error.error_type
                    == JiterErrorType::JsonError(JsonErrorType::NumberOutOfRange) =>
            {
                let start = self.at();
                let end = number_end(self.text.as_bytes(), start).map_err(|at| Fault {
                    reason: "a malformed number",
                    at,
                })?;
                self.base = end;
                self.jiter = Jiter::new(self.text.as_bytes().get(end..).unwrap_or_default());
                Ok(())
            }
            Err(error) => Err(self.fault(&error)),
        }
    }

    fn fault(&self, error: &JiterError) -> Fault {
        use JsonErrorType as Kind;
        let at = (self.base + error.index).min(self.text.len());
        let JiterErrorType::JsonError(kind) = &error.error_type else {
            return Fault {
                reason: "a value of another type",
                at,
            };
        };
        let reason = match kind {
            Kind::EofWhileParsingList
            | Kind::EofWhileParsingObject
            | Kind::EofWhileParsingString
            | Kind::EofWhileParsingValue => {
                let reason = if self.text.trim_ascii().is_empty() {
                    "nothing where a JSON value was expected"
                } else {
                    "the end of the text inside a JSON value"
                };
                return Fault {
                    reason,
                    at: self.text.len(),
                };
            }
            Kind::ExpectedColon => "something other than the colon after a key",
            Kind::ExpectedListCommaOrEnd => "something other than a comma or the end of an array",
            Kind::ExpectedObjectCommaOrEnd => {
                "something other than a comma or the end of an object"
            }
            Kind::ExpectedSomeIdent => "a misspelt true, false or null",
            Kind::InvalidEscape => "an escape that JSON does not define",
            Kind::InvalidNumber => "a malformed number",
            Kind::ControlCharacterWhileParsingString => {
                "an unescaped control character in a string"
            }
            Kind::KeyMustBeAString => "something other than the quote that begins a key",
            Kind::LoneLeadingSurrogateInHexEscape | Kind::UnexpectedEndOfHexEscape => {
                "half of a surrogate pair without its other half"
            }
            Kind::TrailingComma => "the end after a trailing comma",
            Kind::TrailingCharacters => "something after the JSON value",
            _ => "something that cannot begin a JSON value",
        };
        Fault { reason, at }
    }
}

/// The first quote at or after `from`: where the key just read began, for only white space, a comma
/// or a brace can stand before it.
fn quote(text: &str, from: usize) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| *byte == b'"').unwrap_or(0)
}

/// The key just read, as a part of `text` unless that has escapes in its place.
fn borrowed<'j>(text: &'j str, from: usize, key: &str) -> Cow<'j, str> {
    let start = quote(text, from) + 1;
    match text.get(start..start + key.len()) {
        Some(plain) if plain == key => Cow::Borrowed(plain),
        _ => Cow::Owned(key.to_owned()),
    }
}

/// Where the number that begins at `start` ends, or the offset of the first wrong byte.
fn number_end(text: &[u8], start: usize) -> Result<usize, usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let at_least_one = |from: usize| {
        if digits(from) > from {
            Ok(digits(from))
        } else {
            Err(from)
        }
    };
    let minus = usize::from(text.get(start) == Some(&b'-'));
    let mut end = at_least_one(start + minus)?;
    if text.get(end) == Some(&b'.') {
        end = at_least_one(end + 1)?;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        end = at_least_one(end + 1 + sign)?;
    }
    Ok(end)
}

/// The keys of the objects that are open, in one buffer, so that a body costs no allocation for each key.
#[derive(Default)]
struct Keys {
    text: String,
    spans: Vec<Range<usize>>,
}

/// The keys of one open object: where they begin in [`Keys`], and a set of them once they are many.
struct Names {
    text_start: usize,
    first_span: usize,
    many: Option<HashSet<Box<str>>>,
}

/// From this many keys on, a set is faster than comparing with each, and an attacker's body of a hundred
/// thousand keys takes linear time.
const MANY: usize = 32;

impl Keys {
    fn enter(&self) -> Names {
        Names {
            text_start: self.text.len(),
            first_span: self.spans.len(),
            many: None,
        }
    }

    /// Whether `key` is new to the object, after unescaping.
    fn insert(&mut self, names: &mut Names, key: &str) -> bool {
        if let Some(many) = &mut names.many {
            return many.insert(key.into());
        }
        let known = self.spans.get(names.first_span..).unwrap_or_default();
        let mut known = known.iter().filter_map(|span| self.text.get(span.clone()));
        if known.clone().any(|name| name == key) {
            return false;
        }
        if known.clone().count() >= MANY {
            let mut many: HashSet<Box<str>> = known.by_ref().map(Box::from).collect();
            many.insert(key.into());
            names.many = Some(many);
        } else {
            let start = self.text.len();
            self.text.push_str(key);
            self.spans.push(start..self.text.len());
        }
        true
    }

    fn leave(&mut self, names: Names) {
        self.text.truncate(names.text_start);
        self.spans.truncate(names.first_span);
    }
}
