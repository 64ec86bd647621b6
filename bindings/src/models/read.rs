//! Reading JSON documents into models: how the value of each field is read.

use pyo3::prelude::*;

use crate::{
    json::{
        extra::Extra,
        reader::{Read, Reader, Stopped},
    },
    models::schema::{Class, Kind, Presence},
};

/// Reads a document that is one model. A leading byte order mark is skipped. `None` if it is not one.
pub(crate) fn document<'py>(
    py: Python<'py>,
    document: &str,
    class: &Class,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    Reader::whole(py, document, class.read)
}

/// Reads a document that is an array of models, into a tuple.
pub(crate) fn list<'py>(
    py: Python<'py>,
    document: &str,
    class: &Class,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    Reader::whole(py, document, |reader| reader.many(class.read))
}

/// Reads the value of a field; `None` for a null if the field may be missing.
///
/// The kind of field is known at each call site, so that after inlining only the call of one method is left.
#[inline(always)]
pub(crate) fn value(
    reader: &mut Reader<'_, '_>,
    kind: Kind,
    presence: Presence,
    position: usize,
    extra: &mut Option<Box<Extra>>,
) -> Read<Option<Py<PyAny>>> {
    if let (Kind::Timestamp, Some(extra)) = (kind, extra.as_mut()) {
        // If a name occurs twice, the last field counts.
        extra.forget_exact(position);
    }
    if presence != Presence::Required && reader.lexer.peek() == b'n' {
        reader.lexer.null()?;
        return Ok(None);
    }
    let value = match kind {
        Kind::Text => reader.text(),
        Kind::Interned => reader.word(),
        Kind::Role => reader.role(),
        Kind::Boolean => reader.boolean(),
        Kind::Integer => reader.integer(),
        Kind::Decimal => reader.decimal(),
        Kind::Date => reader.date(),
        Kind::Timestamp => reader.timestamp(position, extra),
        Kind::Object => reader.object(),
        Kind::Strings => reader.strings(),
        Kind::One(class) => (class.read)(reader),
        Kind::Many(class) => reader.many(class.read),
    };
    value.map(Some)
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
pub(crate) fn missing(reader: &Reader<'_, '_>, kind: Kind, presence: Presence) -> Read {
    match presence {
        Presence::Required => Err(Stopped),
        Presence::Optional | Presence::Nullable => Ok(kind.nothing(reader.py)),
    }
}
