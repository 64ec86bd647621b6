//! Why a reader over the lexer has refused a document: what the field table, as data, expects where the reader stopped.
//!
//! It is public for the bindings, whose reader makes objects of their own. It is not for use by others.

use serde_json::{error::Category, value::RawValue};

use crate::{
    contract::schema::{FieldKind, Model, Presence},
    json::{
        decode_error::{DecodeError, Expected, Position, Reason, Step},
        document::without_bom,
        lexer::{Lexed, Lexer, Refused},
    },
    value::{JsonKind, serde_errors},
};

/// Why a document cannot be read as a value of this kind, by a reader that stopped in or right after the value that it
/// refused, or at the end of an object that lacks a field.
#[cold]
pub fn refusal(body: &[u8], kind: FieldKind, stopped_at: usize) -> DecodeError {
    let json = without_bom(body);
    // A value may be wrong before the point where the text breaks: the document is still not JSON.
    if let Err(error) = serde_json::from_slice::<&RawValue>(json) {
        return DecodeError::of_all(broken(&error), body);
    }
    let mut search = Search {
        lexer: Lexer::new(str::from_utf8(json).unwrap_or_default()),
        stopped_at,
        path: Vec::new(),
        is_optional: false,
    };
    let reason = search.value(kind).unwrap_or(Reason::Unexpected {
        expected: Expected::Json,
        found: None,
    });
    let mut error = DecodeError::new(&search.path, reason, body);
    error.is_optional = search.is_optional;
    error
}

/// The error of a document whose reader was stopped.
pub fn stopped(body: &[u8]) -> DecodeError {
    DecodeError::of_all(Reason::Stopped, body)
}

/// The reason of a text that is not JSON, in serde_json's words, which repeat no value.
fn broken(error: &serde_json::Error) -> Reason {
    let at = Position::of_error(error);
    match error.classify() {
        Category::Eof if at == Position::START => Reason::Empty,
        Category::Eof => Reason::EndsEarly(at),
        _ => Reason::NotJson {
            reason: serde_errors::without_position(error),
            at,
        },
    }
}

/// The reason of a text that a type of the caller's has refused, or that is not JSON.
#[cfg(feature = "client")]
pub(crate) fn refused_by_serde(error: &serde_json::Error) -> Reason {
    if !error.is_data() {
        return broken(error);
    }
    Reason::Unfit {
        expected: Expected::Other(serde_errors::find_expectation(error)),
        at: Position::of_error(error),
    }
}

/// Looks in a document, which is JSON, for the value where its reader stopped.
struct Search<'a> {
    lexer: Lexer<'a>,
    stopped_at: usize,
    /// The way to the value that comes next.
    path: Vec<Step<'a>>,
    /// Whether that value is an optional field, or within one.
    is_optional: bool,
}

impl Search<'_> {
    /// What is wrong with the value that comes next, or with one in it.
    fn value(&mut self, kind: FieldKind) -> Lexed<Reason> {
        let found = JsonKind::beginning_with(self.lexer.peek());
        match (kind, found, Expected::of(kind)) {
            (FieldKind::One(model), JsonKind::Object, _) => self.object(Some(model)),
            (FieldKind::Strings, JsonKind::Object, _) => self.object(None),
            (FieldKind::Many(model), JsonKind::Array, _) => self.array(model),
            (_, JsonKind::String, Expected::String) => Ok(self.lone_surrogate()),
            (_, found, expected) => Ok(Reason::Unexpected {
                expected,
                found: Some(found),
            }),
        }
    }

    /// The reason of a string that is JSON, but not text: half of a surrogate pair is in it.
    fn lone_surrogate(&self) -> Reason {
        Reason::NotJson {
            reason: "lone surrogate".to_owned(),
            at: Position::of(self.lexer.slice_from(0), self.lexer.position() + 1),
        }
    }

    /// What is wrong in an object: a model, or strings by name.
    fn object(&mut self, model: Option<&'static Model>) -> Lexed<Reason> {
        let fields = model.map_or(&[][..], |model| model.fields);
        let required = fields.iter().filter(|it| it.presence == Presence::Required);
        let mut missing: Vec<_> = required.collect();
        let mut position = 0;
        let mut more = self.lexer.object()?;
        while more {
            let Ok(name) = self.lexer.name() else {
                return Ok(self.lone_surrogate());
            };
            position += 1;
            missing.retain(|field| field.wire != name);
            if self.is_next()? {
                let field = fields.iter().find(|field| field.wire == name);
                self.is_optional |= field.is_some_and(|it| it.presence != Presence::Required);
                self.path.push(Step::Field(name, Some(position)));
                return self.value(field.map_or(FieldKind::Text, |field| field.kind));
            }
            more = self.lexer.field()?;
        }
        let missing = missing.first().ok_or(Refused)?;
        self.path.push(Step::Field(missing.wire.into(), None));
        Ok(Reason::Missing)
    }

    fn array(&mut self, model: &'static Model) -> Lexed<Reason> {
        let mut index = 0;
        let mut more = self.lexer.array()?;
        while more {
            if self.is_next()? {
                self.path.push(Step::Item(index));
                return self.value(FieldKind::One(model));
            }
            index += 1;
            more = self.lexer.item()?;
        }
        Err(Refused)
    }

    /// Whether the reader stopped at the value that comes next. If not, the value is skipped.
    fn is_next(&mut self) -> Lexed<bool> {
        self.lexer.peek();
        let start = self.lexer.position();
        self.lexer.raw()?;
        let is_next = self.stopped_at <= self.lexer.position();
        if is_next {
            self.lexer.go_back(start);
        }
        Ok(is_next)
    }
}
