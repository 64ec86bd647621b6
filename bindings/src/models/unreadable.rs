//! The fields of a model that could not be read, at any depth.

use dealkit::{Expected, UnreadableField};
use pyo3::{prelude::*, types::PyTuple};

use crate::{
    models::{
        schema::{Class, FieldKind, class},
        write::Place,
    },
    python::failure::Outcome,
};

/// The fields that could not be read, which are kept among the undocumented ones.
pub(crate) fn fields(model: &Bound<'_, PyAny>, class: &Class) -> Outcome<Vec<UnreadableField>> {
    let mut found = Vec::new();
    add(model, class, Place::Whole, &mut found)?;
    Ok(found)
}

fn add(
    model: &Bound<'_, PyAny>,
    of: &Class,
    place: Place<'_>,
    found: &mut Vec<UnreadableField>,
) -> PyResult<()> {
    let (values, extra) = (of.parts)(model)?;
    for (field, value) in of.model.fields.iter().zip(values) {
        let place = Place::Field(&place, field.wire);
        let value = value.bind(model.py());
        match (
            extra.and_then(|extra| extra.unknown.get(field.wire)),
            field.kind,
        ) {
            (Some(json), kind) => found.push(UnreadableField::new(
                place.pointer(),
                Expected::from_kind(kind),
                json.clone(),
            )),
            (None, FieldKind::Model(inner)) if !value.is_none() => {
                add(value, class(inner), place, found)?;
            }
            (None, FieldKind::ModelList(inner)) => {
                for (index, item) in value.cast::<PyTuple>()?.iter().enumerate() {
                    add(&item, class(inner), Place::Item(&place, index), found)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
