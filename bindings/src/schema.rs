//! What a field of a model is: data, without how it is read or written.

use pyo3::{prelude::*, types::PyTuple};

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A string that comes again and again, of which one is kept.
    Interned,
    /// A role.
    Role,
    /// True or false.
    Boolean,
    /// An integer of 64 bits.
    Integer,
    /// An exact decimal number.
    Decimal,
    /// A day.
    Date,
    /// A moment.
    Timestamp,
    /// A JSON object of free form.
    Object,
    /// Strings by name.
    Strings,
    /// Another model.
    One(&'static Class),
    /// Any number of another model.
    Many(&'static Class),
}

/// Whether a field must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It must, and must not be null.
    Required,
    /// It need not, and nothing is written when there is nothing.
    Optional,
    /// It need not, and null is written when there is nothing.
    Nullable,
}

/// Where the value of a field is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// In the repr, and in a notebook.
    Brief,
    /// In a notebook.
    Shown,
    /// Nowhere: it is personal, or of unknown content.
    Hidden,
}

/// One field of a model.
pub(crate) struct Field {
    /// The attribute.
    pub(crate) name: &'static str,
    /// The name on the wire.
    pub(crate) wire: &'static str,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    pub(crate) show: Show,
    /// What it is, for the stubs.
    pub(crate) doc: &'static str,
}

/// A model as the fields of others know it: its functions for values that may be it.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) read: crate::read::ReadModel,
    pub(crate) write: fn(&Bound<'_, PyAny>, &mut String) -> PyResult<()>,
    pub(crate) is: fn(&Bound<'_, PyAny>) -> bool,
}

/// The name of an attribute: `r#type` is `type` in Python.
pub(crate) const fn attribute(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// The fields, for the stubs, for notebooks and for tests: a tuple of (attribute, wire name, kind,
/// presence, show, doc) each.
pub(crate) fn describe<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyTuple>> {
    let fields = fields.iter().map(|field| {
        let kind = match field.kind {
            Kind::Text | Kind::Interned => "text".to_owned(),
            Kind::Role => "role".to_owned(),
            Kind::Boolean => "boolean".to_owned(),
            Kind::Integer => "integer".to_owned(),
            Kind::Decimal => "decimal".to_owned(),
            Kind::Date => "date".to_owned(),
            Kind::Timestamp => "timestamp".to_owned(),
            Kind::Object => "object".to_owned(),
            Kind::Strings => "strings".to_owned(),
            Kind::One(class) => class.name.to_owned(),
            Kind::Many(class) => format!("[{}]", class.name),
        };
        let presence = match field.presence {
            Presence::Required => "required",
            Presence::Optional => "optional",
            Presence::Nullable => "nullable",
        };
        let show = match field.show {
            Show::Brief => "brief",
            Show::Shown => "shown",
            Show::Hidden => "hidden",
        };
        (
            field.name,
            field.wire,
            kind,
            presence,
            show,
            field.doc.trim(),
        )
    });
    PyTuple::new(py, fields.collect::<Vec<_>>())
}
