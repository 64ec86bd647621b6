//! Arguments of a model's class, checked and converted to the value that the field holds.
//!
//! Python code has converted them to built-in types: any mapping to a dict, any iterable to a tuple, any aware
//! datetime to one in UTC. Anything else is refused here, by its type alone.

use std::collections::BTreeMap;

use dealkit::{Json, Role};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDate, PyDateTime, PyDict, PyInt, PyMappingProxy, PyString, PyTuple},
};

use crate::{
    json::value as json,
    models::{
        schema::{Field, FieldKind, Presence, class, is_role, nothing},
        write,
    },
    python::{
        builtin::{self, type_name},
        failure::{Failure, Outcome},
    },
};

/// Checks an argument for a field.
pub(crate) fn field(model: &str, field: &Field, value: &Bound<'_, PyAny>) -> Outcome<Py<PyAny>> {
    let py = value.py();
    if value.is_none() && field.presence != Presence::Required {
        return Ok(nothing(field.kind, py));
    }
    let wrong = |expected: &str| {
        let (name, found) = (field.name, type_name(value));
        Failure::Type(format!("{model}.{name} must be {expected}, not {found}"))
    };
    let unfit = |why: &str| Failure::Value(format!("{model}.{} {why}", field.name));
    let text = |expected: &str| {
        let text = value.cast::<PyString>().map_err(|_| wrong(expected))?;
        text.to_str()
            .map_err(|_| unfit("contains an unpaired surrogate, which JSON text cannot contain"))
    };
    Ok(match field.kind {
        kind if is_role(kind) => {
            let text = text("a Role or a str")?;
            match text.parse::<Role>() {
                Ok(known) => builtin::role(py, known)?.unbind(),
                Err(_) => PyString::new(py, text).into_any().unbind(),
            }
        }
        FieldKind::Text | FieldKind::Identifier | FieldKind::OpenSet(_) => {
            PyString::new(py, text("a str")?).into_any().unbind()
        }
        FieldKind::Boolean => {
            let truth = value.cast::<PyBool>().map_err(|_| wrong("a bool"))?;
            truth.clone().into_any().unbind()
        }
        FieldKind::Integer => {
            if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
                return Err(wrong("an int"));
            }
            let integer: i64 = value.extract().map_err(|_| unfit("must fit 64 bits"))?;
            builtin::small_int(py, integer).into_any().unbind()
        }
        FieldKind::Decimal => {
            let digits = match value.cast::<PyInt>() {
                Ok(int) if !value.is_instance_of::<PyBool>() => builtin::int_text(int)?,
                _ if builtin::is_decimal(value) => Some(builtin::decimal_text(value)?),
                _ => return Err(wrong("a Decimal or an int")),
            };
            let decimal = digits
                .and_then(|digits| digits.parse::<dealkit::Decimal>().ok())
                .ok_or_else(|| unfit("must be a finite number of at most 28 digits"))?;
            builtin::decimal(py, &decimal.to_string())?.unbind()
        }
        FieldKind::Date => match value.cast::<PyDate>() {
            Ok(date) if !value.is_instance_of::<PyDateTime>() => {
                builtin::day(date).ok_or_else(|| unfit("is not a day that exists"))?;
                value.clone().unbind()
            }
            Ok(_) => {
                let name = field.name;
                return Err(Failure::Type(format!(
                    "{model}.{name} must be a date, not datetime; pass .date()"
                )));
            }
            Err(_) => return Err(wrong("a date")),
        },
        FieldKind::Timestamp => {
            let datetime = value
                .cast::<PyDateTime>()
                .map_err(|_| wrong("a datetime"))?;
            builtin::moment(datetime).ok_or_else(|| {
                unfit("must be an aware datetime; give it a tzinfo such as timezone.utc")
            })?;
            value.clone().unbind()
        }
        FieldKind::Object => {
            let dict = value.cast::<PyDict>().map_err(|_| wrong("a mapping"))?;
            let json = write::any(dict)?
                .map_err(|why| unfit(&format!("cannot be written as JSON: {why}")))?;
            json::raw(py, json)?.unbind()
        }
        FieldKind::Strings => {
            let dict = value.cast::<PyDict>().map_err(|_| wrong("a mapping"))?;
            let copy = PyDict::new(py);
            for (name, value) in dict {
                match (plain_text(&name), plain_text(&value)) {
                    (Some(name), Some(value)) => copy.set_item(name, value)?,
                    _ => {
                        return Err(wrong(
                            "a mapping of str to str, without unpaired surrogates",
                        ));
                    }
                }
            }
            let proxy = PyMappingProxy::new(py, copy.as_mapping());
            proxy.into_any().unbind()
        }
        FieldKind::One(model) => {
            if !class(model).is(&value.get_type()) {
                return Err(wrong(&format!("of type {}", model.name)));
            }
            value.clone().unbind()
        }
        FieldKind::Many(of) => {
            let items = value
                .cast::<PyTuple>()
                .map_err(|_| wrong(&format!("an iterable of {}", of.name)))?;
            let is_wrong = |(_, item): &(usize, Bound<'_, PyAny>)| !class(of).is(&item.get_type());
            if let Some((at, item)) = items.iter().enumerate().find(is_wrong) {
                let (name, found) = (field.name, type_name(&item));
                return Err(Failure::Type(format!(
                    "{model}.{name}[{at}] must be of type {}, not {found}",
                    of.name
                )));
            }
            items.clone().into_any().unbind()
        }
    })
}

/// A string that JSON can hold.
fn plain_text<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyString>> {
    let text = value.cast::<PyString>().ok()?.to_str().ok()?;
    Some(PyString::new(value.py(), text))
}

/// Checks the argument `extra`: fields by their names on the wire.
pub(crate) fn extra(model: &str, value: &Bound<'_, PyAny>) -> Outcome<BTreeMap<String, Json>> {
    if value.is_none() {
        return Ok(BTreeMap::new());
    }
    let dict = value.cast::<PyDict>().map_err(|_| {
        let found = type_name(value);
        Failure::Type(format!("{model}.extra must be a mapping, not {found}"))
    })?;
    let mut fields = BTreeMap::new();
    for (name, value) in dict {
        let name: String = name
            .extract()
            .map_err(|_| Failure::Type(format!("{model}.extra must have names that are str")))?;
        let json = write::any(&value)?.map_err(|why| {
            Failure::Value(format!("{model}.extra cannot be written as JSON: {why}"))
        })?;
        fields.insert(name, json);
    }
    Ok(fields)
}
