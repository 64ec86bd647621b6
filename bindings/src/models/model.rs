//! The base class of all response types, with what they have in common.
//!
//! Methods that run Python code (the constructor, `from_json`, `to_dict` and the like) are added in
//! `dealkit._models.classes`, which calls the methods with an underscore.

use dealkit::Json;
use pyo3::{
    prelude::*,
    types::{PyDict, PyMappingProxy, PyType},
};

use crate::{
    json::{reader::whole, value as json},
    models::{schema::Class, unreadable, write},
    python::{
        arguments,
        failure::{Failure, Returned, entry},
    },
};

/// The base class of all response types. It holds nothing itself.
#[pyclass(frozen, subclass, name = "_Model", module = "dealkit._native")]
pub(crate) struct Model;

#[pymethods]
impl Model {
    #[classmethod]
    fn _read<'py>(
        of: &Bound<'py, PyType>,
        document: &Bound<'py, PyAny>,
        on_unreadable: &Bound<'py, PyAny>,
    ) -> Returned<'py> {
        let py = of.py();
        entry(py, || {
            let (class, document) = (Class::of(of)?, arguments::document(document)?);
            let unreadable = arguments::unreadable(on_unreadable)?;
            let (model, read) = (class.model, class.read);
            whole(
                py,
                &document,
                model,
                read,
                unreadable,
                &|| true,
                Failure::Decode,
            )
        })
    }

    /// The document as the Rust model of the same name reads it and writes it back; for tests that compare the two, and
    /// not in a release.
    #[cfg(debug_assertions)]
    #[classmethod]
    fn _core_json<'py>(of: &Bound<'py, PyType>, document: &Bound<'py, PyAny>) -> Returned<'py> {
        entry(of.py(), || {
            let (class, document) = (Class::of(of)?, arguments::document(document)?);
            let json = (class.core_json)(&document).map_err(Failure::Decode)?;
            Ok(json.to_string())
        })
    }

    /// The JSON, on one line.
    fn _to_json<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        entry(this.py(), || {
            let mut json = String::new();
            write::model(this, Class::of(&this.get_type())?, &mut json)?;
            Ok(json)
        })
    }

    /// The fields that could not be read, here and at any depth: the pointer of each, what was expected, and its JSON.
    fn _unreadable<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        let py = this.py();
        entry(py, || {
            let fields = unreadable::fields(this, Class::of(&this.get_type())?)?;
            let fields = fields.into_iter().map(|field| {
                let json = json::raw(py, field.json)?;
                Ok((field.pointer, field.expected.to_string(), json))
            });
            Ok(fields.collect::<PyResult<Vec<_>>>()?)
        })
    }

    /// The JSON of a field by its name on the wire, as Python objects, or as it is; None if there is none, or null.
    #[pyo3(signature = (name, raw=false))]
    fn _get<'py>(this: &Bound<'py, Self>, name: &str, raw: bool) -> Returned<'py> {
        let py = this.py();
        entry(py, || {
            let class = Class::of(&this.get_type())?;
            let (values, extra) = (class.parts)(this)?;
            let mut text = String::new();
            if let Some(value) = extra.and_then(|extra| extra.unknown.get(name)) {
                text.push_str(value.as_str());
            } else {
                let mut fields = class.model.fields.iter().zip(values).enumerate();
                match fields.find(|(_, (field, _))| field.wire == name) {
                    Some((at, (field, value))) if !value.is_none(py) => {
                        write::field(at, field, value.bind(py), extra, &mut text)?;
                    }
                    _ => return Ok(None),
                }
            }
            Ok(Some(match raw {
                true => json::raw(py, Json::parse(text).map_err(|_| write::internal())?)?,
                false => json::text_value(py, &text)?,
            }))
        })
    }

    /// The fields that no attribute holds, by their names on the wire: those that this version of dealkit does not know, and
    /// those that could not be read (see ``unreadable``). A fresh copy each time. For one of them, ``get`` is better: it still
    /// finds the field when a later version knows it.
    #[getter]
    fn extra<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        let py = this.py();
        entry(py, || {
            let (_, extra) = (Class::of(&this.get_type())?.parts)(this)?;
            let fields = match extra {
                Some(extra) => json::fields(py, &extra.unknown)?,
                None => PyDict::new(py),
            };
            Ok(PyMappingProxy::new(py, fields.as_mapping()))
        })
    }
}
