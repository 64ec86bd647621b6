//! The base class of all response models.
//!
//! `dealkit._models.classes` adds the methods that run Python code, such as the constructor, `from_json` and `to_dict`. They call
//! the methods of this class whose names begin with an underscore.

use dealkit::Json;
use pyo3::{
    prelude::*,
    types::{PyDict, PyMappingProxy, PyType},
};

use crate::{
    json::{reader::read_document, value as json},
    models::{schema::Class, unreadable_fields, write},
    python::{
        arguments,
        failure::{EntryResult, Failure, run_entry},
    },
};

/// The base class of all response models. It has no data.
#[pyclass(frozen, subclass, name = "_Model", module = "dealkit._native")]
pub(crate) struct Model;

#[pymethods]
impl Model {
    #[classmethod]
    fn _read<'py>(
        class: &Bound<'py, PyType>,
        document: &Bound<'py, PyAny>,
        on_unreadable: &Bound<'py, PyAny>,
    ) -> EntryResult<'py> {
        let py = class.py();
        run_entry(py, || {
            let (class, document) = (Class::find(class)?, arguments::document_bytes(document)?);
            let unreadable = arguments::parse_unreadable(on_unreadable)?;
            let (model, read) = (class.model, class.read);
            read_document(
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

    /// Reads the document with the Rust model of the same name, and returns that model as JSON. Only in debug builds, for tests
    /// that compare the two languages.
    #[cfg(debug_assertions)]
    #[classmethod]
    fn _core_json<'py>(
        class: &Bound<'py, PyType>,
        document: &Bound<'py, PyAny>,
    ) -> EntryResult<'py> {
        run_entry(class.py(), || {
            let (class, document) = (Class::find(class)?, arguments::document_bytes(document)?);
            let json = (class.core_json)(&document).map_err(Failure::Decode)?;
            Ok(json.to_string())
        })
    }

    /// Writes the model as JSON on one line.
    fn _to_json<'py>(this: &Bound<'py, Self>) -> EntryResult<'py> {
        run_entry(this.py(), || {
            let mut json = String::new();
            write::write_model(this, Class::find(&this.get_type())?, &mut json)?;
            Ok(json)
        })
    }

    /// Lists the unreadable fields of this model and of nested models, each as `(pointer, expected kind, RawJson)`.
    fn _unreadable<'py>(this: &Bound<'py, Self>) -> EntryResult<'py> {
        let py = this.py();
        run_entry(py, || {
            let fields = unreadable_fields::find(this, Class::find(&this.get_type())?)?;
            let fields = fields.into_iter().map(|field| {
                let json = json::make_raw_json(py, field.json)?;
                Ok((field.pointer, field.expected.to_string(), json))
            });
            Ok(fields.collect::<PyResult<Vec<_>>>()?)
        })
    }

    /// Returns the value of the field with this wire name as plain Python objects or, with `raw`, as RawJson. None if it is
    /// missing or null.
    #[pyo3(signature = (name, raw=false))]
    fn _get<'py>(this: &Bound<'py, Self>, name: &str, raw: bool) -> EntryResult<'py> {
        let py = this.py();
        run_entry(py, || {
            let class = Class::find(&this.get_type())?;
            let (values, extra) = (class.parts)(this)?;
            let mut text = String::new();
            if let Some(value) = extra.and_then(|extra| extra.unknown_fields.get(name)) {
                text.push_str(value.as_str());
            } else {
                let mut fields = class.model.fields.iter().zip(values).enumerate();
                match fields.find(|(_, (field, _))| field.wire == name) {
                    Some((at, (field, value))) if !value.is_none(py) => {
                        write::write_field(at, field, value.bind(py), extra, &mut text)?;
                    }
                    _ => return Ok(None),
                }
            }
            Ok(Some(match raw {
                true => json::make_raw_json(
                    py,
                    Json::parse(text).map_err(|_| write::internal_error())?,
                )?,
                false => json::parse_valid_text(py, &text)?,
            }))
        })
    }

    /// The fields that no attribute holds, by their wire names: fields that this version of dealkit does not know, and
    /// unreadable fields (see ``unreadable``). Each access makes a copy. For one field, use ``get``, which still finds the field
    /// when a later version knows it.
    #[getter]
    fn extra<'py>(this: &Bound<'py, Self>) -> EntryResult<'py> {
        let py = this.py();
        run_entry(py, || {
            let (_, extra) = (Class::find(&this.get_type())?.parts)(this)?;
            let fields = match extra {
                Some(extra) => json::fields_to_dict(py, &extra.unknown_fields)?,
                None => PyDict::new(py),
            };
            Ok(PyMappingProxy::new(py, fields.as_mapping()))
        })
    }
}
