//! Reads the value of one field of a model.

use pyo3::prelude::*;

use crate::{
    json::{
        extra::Extra,
        reader::{ReadError, ReadResult, Reader},
    },
    models::schema::{Field, FieldKind, Presence, empty_value, get_class, is_role},
};

/// Reads the value of a field; `None` if an optional field is null, or unreadable and skipped. `extra` gets the JSON of a
/// skipped value.
///
/// Always inlined: each call site has a constant field, so that the compiler keeps one branch of the match. `often_repeats` is
/// an argument because the compiler would not compute it at compile time outside a `const` block.
#[inline(always)]
pub(crate) fn read_value(
    reader: &mut Reader<'_, '_>,
    field: &'static Field,
    often_repeats: bool,
    position: usize,
    extra: &mut Option<Box<Extra>>,
) -> ReadResult<Option<Py<PyAny>>> {
    let kind = field.kind;
    if let (FieldKind::Timestamp, Some(extra)) = (kind, extra.as_mut()) {
        // If a field occurs twice in the document, its last value counts.
        extra.remove_exact(position);
    }
    if field.presence != Presence::Required && reader.lexer.peek() == b'n' {
        reader.lexer.read_null()?;
        return Ok(None);
    }
    let start = reader.lexer.position();
    let value = match kind {
        kind if is_role(kind) => reader.read_role(),
        FieldKind::String | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => {
            if often_repeats {
                reader.read_cached_text()
            } else {
                reader.read_text()
            }
        }
        FieldKind::Boolean => reader.read_boolean(),
        FieldKind::Integer => reader.read_integer(),
        FieldKind::Decimal => reader.read_decimal(),
        FieldKind::Date => reader.read_date(),
        FieldKind::Timestamp => reader.read_timestamp(position, extra),
        FieldKind::JsonObject => reader.read_raw_object(),
        FieldKind::StringMap => reader.read_string_map(),
        FieldKind::Model(model) => (get_class(model).read)(reader),
        FieldKind::ModelList(model) => reader.read_array(get_class(model).read),
    };
    match value {
        Err(ReadError) if field.presence != Presence::Required => {
            skip_unreadable(reader, field, start, extra)?;
            Ok(None)
        }
        value => value.map(Some),
    }
}

/// Skips the unreadable value of an optional field. Never inlined, so that reading nested models needs little stack.
#[cold]
#[inline(never)]
fn skip_unreadable(
    reader: &mut Reader<'_, '_>,
    field: &'static Field,
    start: usize,
    extra: &mut Option<Box<Extra>>,
) -> ReadResult<()> {
    if let Some(json) = reader.skip_value(start, field.wire)? {
        let unknown = &mut extra.get_or_insert_default().unknown_fields;
        unknown.insert(field.wire.to_owned(), json);
    }
    Ok(())
}

#[cold]
pub(crate) fn read_undocumented(
    reader: &mut Reader<'_, '_>,
    name: String,
    extra: &mut Option<Box<Extra>>,
) -> ReadResult<()> {
    let value = reader.read_raw()?;
    extra
        .get_or_insert_default()
        .unknown_fields
        .insert(name, value);
    Ok(())
}

/// Returns the value of a field that is missing or null in the document.
#[inline(always)]
pub(crate) fn default_value(reader: &Reader<'_, '_>, field: &'static Field) -> ReadResult {
    match field.presence {
        Presence::Required => Err(ReadError),
        Presence::Optional | Presence::Nullable => Ok(empty_value(field.kind, reader.py)),
    }
}
