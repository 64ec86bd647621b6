//! What the fields of models are in Python: the core's table of fields, and the class of each model in it.

use std::sync::OnceLock;

use dealkit::internal::schema;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyMappingProxy, PyTuple, PyType},
};

pub(crate) use dealkit::internal::schema::{Field, FieldKind, Presence};

use crate::json::{extra::Extra, reader::ReadModel};

/// The value of a missing field of this kind.
#[inline]
pub(crate) fn nothing(kind: FieldKind, py: Python<'_>) -> Py<PyAny> {
    match kind {
        FieldKind::ModelList(_) => PyTuple::empty(py).into_any().unbind(),
        FieldKind::StringMap => {
            let proxy = PyMappingProxy::new(py, PyDict::new(py).as_mapping());
            proxy.into_any().unbind()
        }
        _ => py.None(),
    }
}

/// Whether a field holds a role: a member of the enum Role, or a str.
pub(crate) const fn is_role(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::ExtensibleEnum(name) if matches!(name.as_bytes(), b"AssignedRole"))
}

/// Whether the strings of a field are the same few again and again, of which one copy is kept.
pub(crate) const fn recurs(field: &Field) -> bool {
    matches!(field.kind, FieldKind::ExtensibleEnum(_))
        || matches!(
            field.wire.as_bytes(),
            b"label" | b"contactSchemaId" | b"fieldSchemaId"
        )
}

/// The parts of a model: its values, in the order of its fields, and what they do not hold.
pub(crate) type Parts<'a> = (Vec<&'a Py<PyAny>>, Option<&'a Extra>);

/// A model: its fields, its class, and how it is read and taken apart.
pub(crate) struct Class {
    pub(crate) model: &'static schema::Model,
    pub(crate) of: for<'py> fn(Python<'py>) -> Bound<'py, PyType>,
    pub(crate) read: ReadModel,
    pub(crate) parts: for<'a> fn(&'a Bound<'_, PyAny>) -> PyResult<Parts<'a>>,
    /// The document as the Rust model reads it and writes it back.
    #[cfg(debug_assertions)]
    pub(crate) core_json: fn(&[u8]) -> Result<dealkit::Json, dealkit::DecodeError>,
}

impl Class {
    pub(crate) fn of(class: &Bound<'_, PyType>) -> PyResult<&'static Self> {
        let mut all = CLASSES.get().copied().unwrap_or_default().iter();
        all.find(|one| one.is(class))
            .ok_or_else(|| PyTypeError::new_err("this is no model of dealkit"))
    }

    /// Whether this is the class of the model, which nobody can derive another from.
    pub(crate) fn is(&self, class: &Bound<'_, PyType>) -> bool {
        class.is((self.of)(class.py()))
    }
}

/// The class of each model, in the order of the table. They refer to each other by way of this, so that reading and
/// writing need not know them.
static CLASSES: OnceLock<&[Class]> = OnceLock::new();

/// Makes the classes known, before there is a model of any of them.
pub(crate) fn prepare(classes: &'static [Class]) {
    CLASSES.get_or_init(|| classes);
}

/// The class of a model.
#[inline]
#[allow(
    clippy::indexing_slicing,
    reason = "there is a class for each model of the table, in its order"
)]
pub(crate) fn class(model: &schema::Model) -> &'static Class {
    &CLASSES.get().copied().unwrap_or_default()[model.index]
}

/// A field of a model, at a position in the table.
#[allow(clippy::indexing_slicing, reason = "the compiler evaluates it")]
pub(crate) const fn field(model: &'static schema::Model, at: usize) -> &'static Field {
    &model.fields[at]
}

/// The fields, for Python code, the stubs and tests: a tuple of (attribute, wire name, kind,
/// presence, show, doc) each.
pub(crate) fn describe<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyTuple>> {
    let fields = fields.iter().map(|field| {
        let kind = match field.kind {
            kind if is_role(kind) => "role".to_owned(),
            FieldKind::String | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => {
                "text".to_owned()
            }
            FieldKind::Boolean => "boolean".to_owned(),
            FieldKind::Integer => "integer".to_owned(),
            FieldKind::Decimal => "decimal".to_owned(),
            FieldKind::Date => "date".to_owned(),
            FieldKind::Timestamp => "timestamp".to_owned(),
            FieldKind::JsonObject => "object".to_owned(),
            FieldKind::StringMap => "strings".to_owned(),
            FieldKind::Model(model) => model.name.to_owned(),
            FieldKind::ModelList(model) => format!("[{}]", model.name),
        };
        let presence = match field.presence {
            Presence::Required => "required",
            Presence::Optional => "optional",
            Presence::Nullable => "nullable",
        };
        let show = if field.is_shown { "shown" } else { "hidden" };
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
