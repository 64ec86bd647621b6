//! Why a reader over the lexer has refused a document: one more walk through it, by the field table as data. The same walk
//! sets aside what cannot be read, where that is wanted: a field's error is either the document's, or is recorded.
//!
//! It is public for the bindings, whose reader makes objects of their own. It is not for use by others.

use serde_json::{error::Category, value::RawValue};

use crate::{
    contract::schema::{Field, FieldKind, Model, Presence},
    json::{
        decode_error::{DecodeError, Expected, Position, Reason, Step},
        document::without_bom,
        lexer::{Lexed, Lexer, Refused},
    },
    value::{JsonKind, serde_errors},
};

/// Why a document cannot be read as a value of this kind: where the first wrong value is, and what it should be.
#[cold]
pub fn refusal(body: &[u8], kind: FieldKind) -> DecodeError {
    let mut walk = Walk::new(without_bom(body));
    let walked = walk.value(kind, Presence::Required);
    walk.error(walked.err().unwrap_or(NOT_JSON), body)
}

/// A document that can be read: a null stands in the place of each optional value that cannot be, and the value is
/// beside it.
#[derive(Debug)]
pub struct SetAside<'a> {
    text: String,
    /// The values, each with the position of its null.
    values: Vec<(usize, &'a RawValue)>,
}

impl SetAside<'_> {
    /// Starts at the beginning of the document.
    pub fn lexer(&self) -> Lexer<'_> {
        Lexer::with_values_aside(&self.text, &self.values)
    }
}

/// Sets aside the optional values that cannot be read.
///
/// # Errors
/// If it is not only such values that cannot be read.
#[cold]
pub fn set_aside(body: &[u8], kind: FieldKind) -> Result<SetAside<'_>, DecodeError> {
    let json = without_bom(body);
    let mut walk = Walk::new(json);
    walk.skips = true;
    let walked = walk.value(kind, Presence::Required);
    if let Err(reason) = walked.and_then(|()| walk.lexer.end().map_err(not_json)) {
        return Err(walk.error(reason, body));
    }
    let mut text = String::with_capacity(json.len());
    let mut values = Vec::with_capacity(walk.aside.len());
    let mut from = 0;
    for Aside {
        start,
        value,
        counts,
    } in walk.aside
    {
        text.push_str(walk.lexer.slice(from, start));
        if counts {
            values.push((text.len(), value));
        }
        text.push_str("null");
        from = start + value.get().len();
    }
    text.push_str(walk.lexer.slice_from(from));
    Ok(SetAside { text, values })
}

/// The error of a document whose reader was stopped.
pub fn stopped(body: &[u8]) -> DecodeError {
    DecodeError::of_all(Reason::Stopped, body)
}

/// The reason of a text that is not JSON, in serde_json's words, which repeat no value.
fn broken(error: &serde_json::Error) -> Reason {
    let at = Position::of_error(error);
    if error.classify() == Category::Eof {
        return Reason::EndsEarly(at);
    }
    Reason::NotJson {
        reason: serde_errors::without_position(error),
        at,
    }
}

/// The reason of a text that a type of the caller's has refused, or that is not JSON.
#[cfg(feature = "client")]
pub(crate) fn refused_by_serde(error: &serde_json::Error) -> Reason {
    if !error.is_data() {
        return broken(error);
    }
    Reason::Unfit {
        expected: Expected::Other(serde_errors::what_was_expected(error)),
        at: Position::of_error(error),
    }
}

/// Walks through a document up to the first value that is not what it should be.
struct Walk<'a> {
    lexer: Lexer<'a>,
    /// Where the walk is.
    path: Vec<Step<'a>>,
    /// Whether what stopped the walk is a whole JSON value.
    is_value: bool,
    /// Whether what stopped the walk is an optional field, or in one, and could be skipped.
    is_optional: bool,
    /// Whether optional fields that cannot be read are set aside.
    skips: bool,
    /// Those that were, in their order in the document.
    aside: Vec<Aside<'a>>,
}

/// A value that was set aside.
struct Aside<'a> {
    start: usize,
    value: &'a RawValue,
    /// Whether it is the value of its field: of fields that occur twice, the last one counts.
    counts: bool,
}

/// What a field of an object was read as, when it has occurred.
#[derive(Clone, Copy)]
enum Seen {
    Value,
    /// It was set aside, with this index.
    Aside(usize),
}

/// The reason where the text is no JSON, which [`broken`] says better.
const NOT_JSON: Reason = Reason::Unexpected {
    expected: Expected::Json,
    found: None,
};

fn not_json(Refused: Refused) -> Reason {
    NOT_JSON
}

impl<'a> Walk<'a> {
    fn new(json: &'a [u8]) -> Self {
        Self {
            // What is not UTF-8 is not JSON either.
            lexer: Lexer::new(str::from_utf8(json).unwrap_or_default()),
            path: Vec::new(),
            is_value: false,
            is_optional: false,
            skips: false,
            aside: Vec::new(),
        }
    }

    /// The error of a document in which the walk was stopped for this reason, or that is not JSON.
    fn error(mut self, reason: Reason, body: &[u8]) -> DecodeError {
        match serde_json::from_slice::<&RawValue>(without_bom(body)) {
            Ok(_) => {
                let mut error = DecodeError::new(&self.path, reason, body);
                error.is_optional = self.is_optional;
                error
            }
            // A value may be wrong before the point where the text breaks: the document is still not JSON.
            Err(error) => {
                if self.is_value {
                    self.path.clear();
                }
                DecodeError::new(&self.path, broken(&error), body)
            }
        }
    }

    fn value(&mut self, kind: FieldKind, presence: Presence) -> Result<(), Reason> {
        let found = JsonKind::beginning_with(self.lexer.peek());
        let start = self.lexer.position();
        let read = match (kind, found) {
            (FieldKind::One(model), JsonKind::Object) => return self.model(model),
            (FieldKind::Many(model), JsonKind::Array) => return self.items(model),
            (FieldKind::Strings, JsonKind::Object) => return self.strings(),
            (_, JsonKind::Null) if presence != Presence::Required => self.lexer.null(),
            _ => scalar(&mut self.lexer, kind),
        };
        read.map_err(|Refused| {
            let rest = self.lexer.slice_from(start);
            self.is_value = Lexer::new(rest).raw().is_ok();
            match (found, Expected::of(kind)) {
                (JsonKind::String, Expected::String) => self.half_a_character(start),
                (_, expected) => Reason::Unexpected {
                    expected,
                    found: Some(found),
                },
            }
        })
    }

    /// The reason of a string that is JSON, but not text: half of a surrogate pair is in it.
    fn half_a_character(&self, start: usize) -> Reason {
        Reason::NotJson {
            reason: "lone surrogate".to_owned(),
            at: Position::of(self.lexer.slice_from(0), start + 1),
        }
    }

    fn model(&mut self, model: &'static Model) -> Result<(), Reason> {
        let mut seen = vec![None; model.fields.len()];
        self.object(|walk, name| {
            let mut fields = model.fields.iter().zip(&mut seen);
            match fields.find(|(field, _)| field.wire == name) {
                Some((field, seen)) => {
                    if let Some(Seen::Aside(earlier)) = *seen
                        && let Some(earlier) = walk.aside.get_mut(earlier)
                    {
                        earlier.counts = false;
                    }
                    *seen = Some(walk.field(field)?);
                    Ok(())
                }
                None => walk.lexer.raw().map(drop).map_err(not_json),
            }
        })?;
        let mut fields = model.fields.iter().zip(seen);
        let missing =
            fields.find(|(field, seen)| field.presence == Presence::Required && seen.is_none());
        match missing {
            Some((field, _)) => {
                self.path.push(Step::Missing(field.wire.into()));
                self.is_value = true;
                Err(Reason::Missing)
            }
            None => Ok(()),
        }
    }

    /// Walks through the value of a field, or sets it aside.
    fn field(&mut self, field: &Field) -> Result<Seen, Reason> {
        self.lexer.peek();
        let start = self.lexer.position();
        let (depth, count) = (self.path.len(), self.aside.len());
        let Err(reason) = self.value(field.kind, field.presence) else {
            return Ok(Seen::Value);
        };
        if field.presence == Presence::Required || self.is_optional {
            return Err(reason);
        }
        self.lexer.go_back(start);
        let Ok(value) = self.lexer.raw() else {
            return Err(reason);
        };
        if !self.skips {
            self.is_optional = true;
            return Err(reason);
        }
        self.path.truncate(depth);
        self.is_value = false;
        self.aside.truncate(count);
        self.aside.push(Aside {
            start,
            value,
            counts: true,
        });
        Ok(Seen::Aside(count))
    }

    fn strings(&mut self) -> Result<(), Reason> {
        self.object(|walk, _| walk.value(FieldKind::Text, Presence::Required))
    }

    fn object(
        &mut self,
        mut field: impl FnMut(&mut Self, &str) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        let mut position = 0;
        let mut more = self.lexer.object().map_err(not_json)?;
        while more {
            let start = self.lexer.position();
            let name = self.lexer.name();
            let name = name.map_err(|Refused| self.half_a_character(start))?;
            position += 1;
            self.path.push(Step::Field(name.clone(), Some(position)));
            field(self, &name)?;
            self.path.pop();
            more = self.lexer.field().map_err(not_json)?;
        }
        Ok(())
    }

    fn items(&mut self, model: &'static Model) -> Result<(), Reason> {
        let mut index = 0;
        let mut more = self.lexer.array().map_err(not_json)?;
        while more {
            if self.lexer.peek() == 0 {
                return Err(NOT_JSON);
            }
            self.path.push(Step::Item(index));
            self.value(FieldKind::One(model), Presence::Required)?;
            self.path.pop();
            index += 1;
            more = self.lexer.item().map_err(not_json)?;
        }
        Ok(())
    }
}

/// Reads a value that the walk does not enter.
fn scalar(lexer: &mut Lexer<'_>, kind: FieldKind) -> Lexed<()> {
    match kind {
        FieldKind::Text | FieldKind::Identifier | FieldKind::OpenSet(_) => lexer.string().map(drop),
        FieldKind::Boolean => lexer.boolean().map(drop),
        FieldKind::Integer => lexer.integer().map(drop),
        FieldKind::Decimal => lexer.decimal().map(drop),
        FieldKind::Date => lexer.date().map(drop),
        FieldKind::Timestamp => lexer.timestamp().map(drop),
        FieldKind::Object if lexer.peek() == b'{' => lexer.raw().map(drop),
        FieldKind::Object | FieldKind::Strings | FieldKind::One(_) | FieldKind::Many(_) => {
            Err(Refused)
        }
    }
}
