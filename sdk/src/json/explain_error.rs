//! Explanation of a decoding error, found by reading the document a second time.
//!
//! A reader over the lexer reports only the position at which it stopped. This module finds the value there and compares it
//! with the field table. Public for the bindings, which have their own reader; not for use by other crates.

use serde_json::{error::Category, value::RawValue};

use crate::{
    json::{
        decode_error::{DecodeError, Expected, Position, Reason, Step},
        document_limits::without_bom,
        lexer::{LexError, LexResult, Lexer},
    },
    specification::schema::{FieldKind, Model, Presence},
    value::{JsonKind, serde_errors},
};

/// Explains the error of a reader that expected a document of this kind and stopped at `stopped_at`: in or directly after
/// an unexpected value, or at the end of an object that lacks a field.
#[cold]
pub fn explain(body: &[u8], kind: FieldKind, stopped_at: usize) -> DecodeError {
    let json = without_bom(body);
    // Check the JSON syntax first: a syntax error counts even if it follows an unexpected value.
    if let Err(error) = serde_json::from_slice::<&RawValue>(json) {
        return DecodeError::for_document(syntax_reason(&error), body);
    }
    let mut search = ErrorSearch {
        lexer: Lexer::new(str::from_utf8(json).unwrap_or_default()),
        stopped_at,
        path: Vec::new(),
        is_optional: false,
    };
    let reason = search.explain_value(kind).unwrap_or(Reason::Unexpected {
        expected: Expected::Json,
        found: None,
    });
    let mut error = DecodeError::new(&search.path, reason, body);
    error.is_optional = search.is_optional;
    error
}

/// Returns the error of a document whose decoding was cancelled.
pub fn cancelled_error(body: &[u8]) -> DecodeError {
    DecodeError::for_document(Reason::Cancelled, body)
}

/// Returns the reason of a syntax error, with serde_json's message, which repeats no value.
fn syntax_reason(error: &serde_json::Error) -> Reason {
    let at = Position::from_serde_error(error);
    match error.classify() {
        Category::Eof if at == Position::START => Reason::Empty,
        Category::Eof => Reason::EndsEarly(at),
        _ => Reason::NotJson {
            reason: serde_errors::without_position(error),
            at,
        },
    }
}

/// Returns the reason of an error of serde_json: the document is not JSON, or a type that the caller defines rejected it.
#[cfg(feature = "client")]
pub(crate) fn serde_reason(error: &serde_json::Error) -> Reason {
    if !error.is_data() {
        return syntax_reason(error);
    }
    Reason::UnexpectedAt {
        expected: Expected::Other(serde_errors::find_expectation(error)),
        at: Position::from_serde_error(error),
    }
}

/// Search in a valid JSON document for the value at which its reader stopped.
struct ErrorSearch<'a> {
    lexer: Lexer<'a>,
    stopped_at: usize,
    /// The path of the next value.
    path: Vec<Step<'a>>,
    /// Whether the next value is in an optional field.
    is_optional: bool,
}

impl ErrorSearch<'_> {
    /// Explains the error in the next value.
    fn explain_value(&mut self, kind: FieldKind) -> LexResult<Reason> {
        let found = JsonKind::from_first_byte(self.lexer.peek());
        match (kind, found, Expected::from_kind(kind)) {
            (FieldKind::Model(model), JsonKind::Object, _) => self.explain_object(Some(model)),
            (FieldKind::StringMap, JsonKind::Object, _) => self.explain_object(None),
            (FieldKind::ModelList(model), JsonKind::Array, _) => self.explain_array(model),
            (_, JsonKind::String, Expected::String) => Ok(self.lone_surrogate_reason()),
            (_, found, expected) => Ok(Reason::Unexpected {
                expected,
                found: Some(found),
            }),
        }
    }

    /// Returns the reason of a string with half of a surrogate pair, which is valid JSON but not Unicode.
    fn lone_surrogate_reason(&self) -> Reason {
        Reason::NotJson {
            reason: "lone surrogate".to_owned(),
            at: Position::from_byte_count(self.lexer.slice_from(0), self.lexer.position() + 1),
        }
    }

    /// Explains the error in an object: a model or, if `None`, a map of strings.
    fn explain_object(&mut self, model: Option<&'static Model>) -> LexResult<Reason> {
        let fields = model.map_or(&[][..], |model| model.fields);
        let required_fields = fields.iter().filter(|it| it.presence == Presence::Required);
        let mut missing_fields: Vec<_> = required_fields.collect();
        let mut position = 0;
        let mut has_more = self.lexer.begin_object()?;
        while has_more {
            let Ok(name) = self.lexer.read_name() else {
                return Ok(self.lone_surrogate_reason());
            };
            position += 1;
            missing_fields.retain(|field| field.wire != name);
            if self.stopped_in_next_value()? {
                let field = fields.iter().find(|field| field.wire == name);
                self.is_optional |= field.is_some_and(|it| it.presence != Presence::Required);
                self.path.push(Step::Field(name, Some(position)));
                return self.explain_value(field.map_or(FieldKind::String, |field| field.kind));
            }
            has_more = self.lexer.next_field()?;
        }
        let missing = missing_fields.first().ok_or(LexError)?;
        self.path.push(Step::Field(missing.wire.into(), None));
        Ok(Reason::Missing)
    }

    /// Explains the error in an array of models.
    fn explain_array(&mut self, model: &'static Model) -> LexResult<Reason> {
        let mut index = 0;
        let mut has_more = self.lexer.begin_array()?;
        while has_more {
            if self.stopped_in_next_value()? {
                self.path.push(Step::Item(index));
                return self.explain_value(FieldKind::Model(model));
            }
            index += 1;
            has_more = self.lexer.next_item()?;
        }
        Err(LexError)
    }

    /// Returns whether the reader stopped in the next value; if not, skips that value.
    fn stopped_in_next_value(&mut self) -> LexResult<bool> {
        self.lexer.peek();
        let start = self.lexer.position();
        self.lexer.read_raw()?;
        let is_in_value = self.stopped_at <= self.lexer.position();
        if is_in_value {
            self.lexer.set_position(start);
        }
        Ok(is_in_value)
    }
}
