//! Reading of a response's fields from JSON.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};

use crate::{
    json::{
        decode_error::Step,
        lexer::{LexError, LexResult, Lexer},
        unreadable::UnreadableField,
    },
    specification::schema::FieldKind,
    value::{Decimal, Json, StringValue},
};

/// A type of a response's field. This trait reads its values; serde writes them.
pub(super) trait FieldValue: Sized {
    const KIND: FieldKind;

    /// Reads a value. Errors have no reason: a second reader explains them.
    ///
    /// Implementations for fields and strings are inlined into the model's reader, so that a value is created at its final
    /// address: a processor stalls if a value is moved as a whole directly after it was written in parts.
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self>;

    /// Adds the unreadable fields at any depth to `unreadable`. `path` leads to this value.
    fn add_unreadable<'a>(&'a self, _: &mut Vec<Step<'a>>, _: &mut Vec<UnreadableField>) {}

    /// Returns whether the value is absent, so that an optional field is omitted when written.
    fn is_none(&self) -> bool {
        false
    }
}

/// Reads a field that may be null, which becomes the type's default. If the lexer skips an unreadable value, the value is added
/// to `extra`.
#[inline(always)]
pub(super) fn read_optional<T: FieldValue + Default>(
    lexer: &mut Lexer<'_>,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> LexResult<T> {
    lexer.peek();
    let start = lexer.position();
    T::read(lexer).or_else(|LexError| {
        read_null_or_skip(lexer, start, wire, extra)?;
        Ok(T::default())
    })
}

/// Reads a null, or skips an unreadable value and adds it to `extra`.
///
/// Not inlined, so that this rare case does not use the registers of the common one.
#[cold]
#[inline(never)]
fn read_null_or_skip(
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

/// Calls [`read_optional`] without inlining it, so that the code of this rare case is not repeated for each field.
#[inline(never)]
pub(super) fn read_optional_outlined<T: FieldValue + Default>(
    lexer: &mut Lexer<'_>,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> LexResult<T> {
    read_optional(lexer, wire, extra)
}

/// Calls [`FieldValue::read`] without inlining it.
#[inline(never)]
pub(super) fn read_outlined<T: FieldValue>(lexer: &mut Lexer<'_>) -> LexResult<T> {
    T::read(lexer)
}

impl<T: FieldValue> FieldValue for Option<T> {
    const KIND: FieldKind = T::KIND;

    #[inline(always)]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        T::read(lexer).map(Some)
    }

    fn add_unreadable<'a>(
        &'a self,
        path: &mut Vec<Step<'a>>,
        unreadable: &mut Vec<UnreadableField>,
    ) {
        if let Some(value) = self {
            value.add_unreadable(path, unreadable);
        }
    }

    fn is_none(&self) -> bool {
        self.is_none()
    }
}

impl<T: FieldValue> FieldValue for Vec<T> {
    const KIND: FieldKind = match T::KIND {
        FieldKind::Model(model) => FieldKind::ModelList(model),
        // Never used: every list in the table is a list of models.
        _ => FieldKind::JsonObject,
    };

    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        let mut has_more = lexer.begin_array()?;
        if !has_more {
            return Ok(Vec::new());
        }
        let mut values = Vec::with_capacity(lexer.expected_items());
        while has_more {
            values.push(T::read(lexer)?);
            has_more = lexer.next_item()?;
        }
        lexer.record_item_count(values.len());
        Ok(values)
    }

    fn add_unreadable<'a>(
        &'a self,
        path: &mut Vec<Step<'a>>,
        unreadable: &mut Vec<UnreadableField>,
    ) {
        for (index, item) in self.iter().enumerate() {
            path.push(Step::Item(index));
            item.add_unreadable(path, unreadable);
            path.pop();
        }
    }
}

impl FieldValue for i64 {
    const KIND: FieldKind = FieldKind::Integer;

    #[inline]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_integer()
    }
}

impl FieldValue for NaiveDate {
    const KIND: FieldKind = FieldKind::Date;

    #[inline]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_date()
    }
}

impl FieldValue for DateTime<Utc> {
    const KIND: FieldKind = FieldKind::Timestamp;

    #[inline]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_timestamp()
    }
}

impl FieldValue for bool {
    const KIND: FieldKind = FieldKind::Boolean;

    #[inline]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_boolean()
    }
}

impl FieldValue for Decimal {
    const KIND: FieldKind = FieldKind::Decimal;

    #[inline(always)]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        lexer.read_decimal()
    }
}

impl<T: StringValue> FieldValue for T {
    const KIND: FieldKind = match (T::EXTENSIBLE_ENUM, T::IS_IDENTIFIER) {
        (Some(name), _) => FieldKind::ExtensibleEnum(name),
        (None, true) => FieldKind::Identifier,
        (None, false) => FieldKind::String,
    };

    #[inline(always)]
    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        match lexer.read_plain_string() {
            Some(text) => Ok(text.into()),
            None => Ok(lexer.read_string()?.into_owned().into()),
        }
    }
}

impl FieldValue for BTreeMap<String, String> {
    const KIND: FieldKind = FieldKind::StringMap;

    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        let mut map = BTreeMap::new();
        let mut has_more = lexer.begin_object()?;
        while has_more {
            let name = lexer.read_name()?;
            map.insert(name.into_owned(), String::read(lexer)?);
            has_more = lexer.next_field()?;
        }
        Ok(map)
    }
}

/// A free-form object, stored as its exact text.
impl FieldValue for Json {
    const KIND: FieldKind = FieldKind::JsonObject;

    fn read(lexer: &mut Lexer<'_>) -> LexResult<Self> {
        match lexer.peek() {
            b'{' => Ok(Json::from_raw(lexer.read_raw()?)),
            _ => Err(LexError),
        }
    }
}
