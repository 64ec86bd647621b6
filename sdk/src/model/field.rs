//! How one field of a response is decoded from JSON and written back.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::{
    json::{
        decode_error::Step,
        lexer::{LexError, LexResult, Lexer},
        unreadable::UnreadableField,
    },
    specification::schema::FieldKind,
    value::{Decimal, Json, WireText},
};

/// A type that a field of a response can have. It is written as serde writes it.
pub(super) trait FieldValue: Sized {
    const KIND: FieldKind;

    /// Reads it from a JSON document, without a reason if it fails.
    ///
    /// The functions for fields and strings are inlined into their reader, so that a value is created at its final
    /// place: a processor stalls when a value that was just written in parts is moved as a whole.
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self>;

    /// Adds the fields at any depth that could not be read, each with the path that leads to it.
    fn add_unreadable<'a>(&'a self, _: &mut Vec<Step<'a>>, _: &mut Vec<UnreadableField>) {}

    /// Whether there is no value to write: an optional field is then omitted.
    fn is_none(&self) -> bool {
        false
    }
}

/// Reads a field that may be null: the type's default then stands for an absent value. A value that cannot be read and is
/// skipped is kept among the undocumented fields.
#[inline(always)]
pub(super) fn lex_lenient<T: FieldValue + Default>(
    lexer: &mut Lexer<'_>,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> LexResult<T> {
    lexer.peek();
    let start = lexer.position();
    T::lex(lexer).or_else(|LexError| {
        lex_absent(lexer, start, wire, extra)?;
        Ok(T::default())
    })
}

/// Reads a null where something else was expected, or skips what is there if it cannot be read.
///
/// Not inlined, so that what is rarely needed does not take the registers of what is always.
#[cold]
#[inline(never)]
fn lex_absent(
    lexer: &mut Lexer<'_>,
    start: usize,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> LexResult<()> {
    if lexer.slice_from(start).starts_with("null") {
        lexer.set_position(start);
        return lexer.read_null();
    }
    if let Some(value) = lexer.skip_unreadable_value(start, wire)? {
        extra.insert(wire.to_owned(), Json::from_raw(value));
    }
    Ok(())
}

/// Does the same without being inlined: where it is rarely needed, its code need not be repeated for each field.
#[inline(never)]
pub(super) fn lex_lenient_apart<T: FieldValue + Default>(
    lexer: &mut Lexer<'_>,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> LexResult<T> {
    lex_lenient(lexer, wire, extra)
}

/// Calls a reader without inlining it.
#[inline(never)]
pub(super) fn lex_apart<T: FieldValue>(lexer: &mut Lexer<'_>) -> LexResult<T> {
    T::lex(lexer)
}

impl<T: FieldValue> FieldValue for Option<T> {
    const KIND: FieldKind = T::KIND;

    #[inline(always)]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        T::lex(lexer).map(Some)
    }

    fn add_unreadable<'a>(&'a self, path: &mut Vec<Step<'a>>, found: &mut Vec<UnreadableField>) {
        if let Some(value) = self {
            value.add_unreadable(path, found);
        }
    }

    fn is_none(&self) -> bool {
        self.is_none()
    }
}

impl<T: FieldValue> FieldValue for Vec<T> {
    const KIND: FieldKind = match T::KIND {
        FieldKind::Model(model) => FieldKind::ModelList(model),
        // The table has no other lists.
        _ => FieldKind::JsonObject,
    };

    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        let mut more = lexer.begin_array()?;
        if !more {
            return Ok(Vec::new());
        }
        let mut values = Vec::with_capacity(lexer.expected_items());
        while more {
            values.push(T::lex(lexer)?);
            more = lexer.next_item()?;
        }
        lexer.record_item_count(values.len());
        Ok(values)
    }

    fn add_unreadable<'a>(&'a self, path: &mut Vec<Step<'a>>, found: &mut Vec<UnreadableField>) {
        for (index, item) in self.iter().enumerate() {
            path.push(Step::Item(index));
            item.add_unreadable(path, found);
            path.pop();
        }
    }
}

impl FieldValue for i64 {
    const KIND: FieldKind = FieldKind::Integer;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_integer()
    }
}

impl FieldValue for NaiveDate {
    const KIND: FieldKind = FieldKind::Date;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_date()
    }
}

impl FieldValue for DateTime<Utc> {
    const KIND: FieldKind = FieldKind::Timestamp;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_timestamp()
    }
}

impl FieldValue for bool {
    const KIND: FieldKind = FieldKind::Boolean;

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_boolean()
    }
}

impl FieldValue for Decimal {
    const KIND: FieldKind = FieldKind::Decimal;

    #[inline(always)]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_decimal()
    }
}

impl<T: WireText> FieldValue for T {
    const KIND: FieldKind = match (T::EXTENSIBLE_ENUM, T::IS_IDENTIFIER) {
        (Some(name), _) => FieldKind::ExtensibleEnum(name),
        (None, true) => FieldKind::Identifier,
        (None, false) => FieldKind::String,
    };

    #[inline(always)]
    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        match lexer.read_plain_string() {
            Some(text) => Ok(text.into()),
            None => Ok(lexer.read_string()?.into_owned().into()),
        }
    }
}

impl FieldValue for BTreeMap<String, String> {
    const KIND: FieldKind = FieldKind::StringMap;

    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        let mut map = BTreeMap::new();
        let mut more = lexer.begin_object()?;
        while more {
            let name = lexer.read_name()?;
            map.insert(name.into_owned(), String::lex(lexer)?);
            more = lexer.next_field()?;
        }
        Ok(map)
    }
}

/// A free-form object, kept as its exact text.
impl FieldValue for Json {
    const KIND: FieldKind = FieldKind::JsonObject;

    fn lex(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        match lexer.peek() {
            b'{' => Ok(Json::from_raw(lexer.read_raw()?)),
            _ => Err(LexError),
        }
    }
}
