//! The field table of the crate `dealkit` as seen from Python: kinds of fields, and the class of each model.

use std::sync::OnceLock;

use dealkit::internal::schema;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyMappingProxy, PyTuple, PyType},
};

pub(crate) use dealkit::internal::schema::{Field, FieldKind, Presence};

use crate::json::{extra::Extra, reader::ReadModel};

/// Returns the value of a missing field: an empty tuple or mapping, or None.
#[inline]
pub(crate) fn empty_value(kind: FieldKind, py: Python<'_>) -> Py<PyAny> {
    match kind {
        FieldKind::ModelList(_) => PyTuple::empty(py).into_any().unbind(),
        FieldKind::StringMap => {
            let proxy = PyMappingProxy::new(py, PyDict::new(py).as_mapping());
            proxy.into_any().unbind()
        }
        _ => py.None(),
    }
}

/// True if a field of this kind holds a role: a member of the enum Role, or a str if the role is undocumented.
pub(crate) const fn is_role(kind: FieldKind) -> bool {
    matches!(kind, FieldKind::ExtensibleEnum(name) if matches!(name.as_bytes(), b"AssignedRole"))
}

/// True if the field's strings often repeat, so that caching them saves memory.
pub(crate) const fn often_repeats(field: &Field) -> bool {
    matches!(field.kind, FieldKind::ExtensibleEnum(_))
        || matches!(
            field.wire.as_bytes(),
            b"label" | b"contactSchemaId" | b"fieldSchemaId"
        )
}

/// The parts of a model: its values, in the order of its fields, and the JSON that they do not hold.
pub(crate) type Parts<'a> = (Vec<&'a Py<PyAny>>, Option<&'a Extra>);

/// The class of a model, with the functions that read it and return its attributes.
pub(crate) struct Class {
    pub(crate) model: &'static schema::Model,
    pub(crate) get_type: for<'py> fn(Python<'py>) -> Bound<'py, PyType>,
    pub(crate) read: ReadModel,
    pub(crate) parts: for<'a> fn(&'a Bound<'_, PyAny>) -> PyResult<Parts<'a>>,
    /// Reads a document into the Rust model, and writes that as JSON.
    #[cfg(debug_assertions)]
    pub(crate) core_json: fn(&[u8]) -> Result<dealkit::Json, dealkit::DecodeError>,
}

impl Class {
    /// Finds the entry of a Python class in the table of classes.
    pub(crate) fn find(class: &Bound<'_, PyType>) -> PyResult<&'static Self> {
        let mut entries = CLASSES.get().copied().unwrap_or_default().iter();
        entries
            .find(|entry| entry.is(class))
            .ok_or_else(|| PyTypeError::new_err("this class is not a model of dealkit"))
    }

    /// True if `class` is the model's class, which has no subclasses.
    pub(crate) fn is(&self, class: &Bound<'_, PyType>) -> bool {
        class.is((self.get_type)(class.py()))
    }
}

/// The class of each model, in the order of the field table. Code that reads and writes nested models finds their classes here.
static CLASSES: OnceLock<&[Class]> = OnceLock::new();

/// Stores the classes. Called before any model is made.
pub(crate) fn register_classes(classes: &'static [Class]) {
    CLASSES.get_or_init(|| classes);
}

/// Returns the class of a model.
#[inline]
#[allow(
    clippy::indexing_slicing,
    reason = "CLASSES has one entry for each model of the field table, in its order"
)]
pub(crate) fn get_class(model: &schema::Model) -> &'static Class {
    &CLASSES.get().copied().unwrap_or_default()[model.index]
}

/// Returns the field of a model at a position in the field table.
#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
pub(crate) const fn field_at(model: &'static schema::Model, position: usize) -> &'static Field {
    &model.fields[position]
}

/// Describes the fields for Python code, the stubs and tests. Each is a tuple `(attribute, wire name, kind, presence, show,
/// doc)`.
pub(crate) fn describe_fields<'py>(
    py: Python<'py>,
    fields: &[Field],
) -> PyResult<Bound<'py, PyTuple>> {
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
