//! Reading JSON documents into models: how the value of each field is read.

use pyo3::prelude::*;

use crate::{
    json::{
        extra::Extra,
        reader::{Read, Reader, Stopped},
    },
    models::schema::{Field, FieldKind, Presence, class, is_role, nothing},
};

/// Reads the value of a field; `None` for a null if the field may be missing. A value that cannot be read and is skipped is
/// kept among the undocumented fields.
///
/// The field is known at each call site, so that after inlining only the call of one method is left. Whether its
/// texts recur is asked there in a `const` block: the compiler would leave that comparison of names to the running program.
#[inline(always)]
pub(crate) fn value(
    reader: &mut Reader<'_, '_>,
    field: &'static Field,
    recurs: bool,
    position: usize,
    extra: &mut Option<Box<Extra>>,
) -> Read<Option<Py<PyAny>>> {
    let kind = field.kind;
    if let (FieldKind::Timestamp, Some(extra)) = (kind, extra.as_mut()) {
        // If a name occurs twice, the last field counts.
        extra.forget_exact(position);
    }
    if field.presence != Presence::Required && reader.lexer.peek() == b'n' {
        reader.lexer.read_null()?;
        return Ok(None);
    }
    let start = reader.lexer.position();
    let value = match kind {
        kind if is_role(kind) => reader.role(),
        FieldKind::String | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => {
            if recurs {
                reader.word()
            } else {
                reader.text()
            }
        }
        FieldKind::Boolean => reader.boolean(),
        FieldKind::Integer => reader.integer(),
        FieldKind::Decimal => reader.decimal(),
        FieldKind::Date => reader.date(),
        FieldKind::Timestamp => reader.timestamp(position, extra),
        FieldKind::JsonObject => reader.object(),
        FieldKind::StringMap => reader.strings(),
        FieldKind::Model(model) => (class(model).read)(reader),
        FieldKind::ModelList(model) => reader.many(class(model).read),
    };
    match value {
        Err(Stopped) if field.presence != Presence::Required => {
            skipped(reader, field, start, extra)?;
            Ok(None)
        }
        value => value.map(Some),
    }
}

/// Skips the value of an optional field that could not be read. Apart, so that a model takes little stack while it is read.
#[cold]
#[inline(never)]
fn skipped(
    reader: &mut Reader<'_, '_>,
    field: &'static Field,
    start: usize,
    extra: &mut Option<Box<Extra>>,
) -> Read<()> {
    if let Some(json) = reader.skipped(start, field.wire)? {
        let unknown = &mut extra.get_or_insert_default().unknown;
        unknown.insert(field.wire.to_owned(), json);
    }
    Ok(())
}

/// Reads the value of an undocumented field.
#[cold]
pub(crate) fn unknown(
    reader: &mut Reader<'_, '_>,
    name: String,
    extra: &mut Option<Box<Extra>>,
) -> Read<()> {
    let value = reader.raw()?;
    extra.get_or_insert_default().unknown.insert(name, value);
    Ok(())
}

/// The value for a field that the document does not have, or has as null.
#[inline(always)]
pub(crate) fn missing(reader: &Reader<'_, '_>, field: &'static Field) -> Read {
    match field.presence {
        Presence::Required => Err(Stopped),
        Presence::Optional | Presence::Nullable => Ok(nothing(field.kind, reader.py)),
    }
}
