//! Finds the fields of a model, and of its nested models, that could not be read.

use dealkit::{Expected, UnreadableField};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    models::{
        schema::{self, Class, FieldKind},
        write::Location,
    },
    python::failure::Result,
};

/// Returns the unreadable fields. Their JSON is in `extra`, with the undocumented fields.
pub(crate) fn find(model: &Bound<'_, PyAny>, class: &Class) -> Result<Vec<UnreadableField>> {
    let mut unreadable_fields = Vec::new();
    add_unreadable_fields(model, class, Location::Root, &mut unreadable_fields)?;
    Ok(unreadable_fields)
}

fn add_unreadable_fields(
    model: &Bound<'_, PyAny>,
    class: &Class,
    location: Location<'_>,
    unreadable_fields: &mut Vec<UnreadableField>,
) -> PyResult<()> {
    let (values, extra) = (class.parts)(model)?;
    for (field, value) in class.model.fields.iter().zip(values) {
        let location = Location::Field(&location, field.wire);
        let value = value.bind(model.py());
        match (
            extra.and_then(|extra| extra.unknown_fields.get(field.wire)),
            field.kind,
        ) {
            (Some(json), kind) => unreadable_fields.push(UnreadableField::new(
                location.pointer(),
                Expected::from_kind(kind),
                json.clone(),
            )),
            (None, FieldKind::Model(inner)) if !value.is_none() => {
                add_unreadable_fields(
                    value,
                    schema::get_class(inner),
                    location,
                    unreadable_fields,
                )?;
            }
            (None, FieldKind::ModelList(inner)) => {
                for (index, item) in value.cast::<PyTuple>()?.iter().enumerate() {
                    let location = Location::Item(&location, index);
                    add_unreadable_fields(
                        &item,
                        schema::get_class(inner),
                        location,
                        unreadable_fields,
                    )?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
