//! The base class of all response types, with what they have in common.
//!
//! Methods that run Python code (the constructor, `from_json`, `to_dict` and the like) are added in
//! `dealkit._models.classes`, which calls the methods with an underscore.

use std::collections::BTreeMap;

use dealkit::{DecodeError, Json, Unreadable};
use pyo3::{
    basic::CompareOp,
    prelude::*,
    types::{PyBool, PyDict, PyMappingProxy, PyString, PyTuple, PyType},
};

use crate::{
    json::{
        extra::Extra,
        reader::{GoOn, whole},
        value as json,
    },
    models::{
        schema::{Class, Field, FieldKind, is_role},
        unreadable, write,
    },
    python::{
        arguments, builtin,
        failure::{Failure, Outcome, Returned, entry},
        gil,
    },
};

/// The base class of all response types. It holds nothing itself.
#[pyclass(frozen, subclass, name = "_Model", module = "dealkit._native")]
pub(crate) struct Model;

#[pymethods]
impl Model {
    /// Reads a model from a document, bytes or str. Optional fields that cannot be read may be skipped.
    #[classmethod]
    #[pyo3(signature = (document, skips=false))]
    fn _read<'py>(
        of: &Bound<'py, PyType>,
        document: &Bound<'py, PyAny>,
        skips: bool,
    ) -> Returned<'py> {
        let py = of.py();
        entry(py, || {
            let (class, document) = (Class::of(of)?, arguments::document(document)?);
            let unreadable = unreadable::choice(skips);
            read(py, class, &document, unreadable, &|| true, Failure::Decode)
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

    /// The value of the field at a position, if it is made anew each time.
    fn _attribute<'py>(this: &Bound<'py, Self>, at: usize) -> Returned<'py> {
        entry(this.py(), || {
            let class = Class::of(&this.get_type())?;
            let (values, _) = (class.parts)(this)?;
            let field = class.model.fields.get(at).zip(values.get(at));
            let shown = field.map(|(field, value)| shown(field, value.bind(this.py())));
            Ok(shown.transpose()?)
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
            if let Some(value) = unknown(extra).and_then(|unknown| unknown.get(name)) {
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
            let fields = match unknown(extra) {
                Some(unknown) => json::fields(py, unknown)?,
                None => PyDict::new(py),
            };
            Ok(PyMappingProxy::new(py, fields.as_mapping()))
        })
    }

    /// Models are equal if their attributes are, and have no order.
    fn __richcmp__<'py>(
        this: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        operation: CompareOp,
    ) -> Returned<'py> {
        let py = this.py();
        entry(py, || {
            let is_same_class = this.get_type().is(other.get_type());
            if !is_same_class || !matches!(operation, CompareOp::Eq | CompareOp::Ne) {
                return Ok(py.NotImplemented().into_bound(py));
            }
            let is_true = is_equal(this, other)? == matches!(operation, CompareOp::Eq);
            Ok(PyBool::new(py, is_true).to_owned().into_any())
        })
    }

    /// The hash, of everything that is hashable. Mappings contribute their size, which equal ones share.
    fn __hash__(this: &Bound<'_, Self>) -> PyResult<isize> {
        let py = this.py();
        gil::uncollected(py, || {
            let class = Class::of(&this.get_type())?;
            let (values, _) = (class.parts)(this)?;
            let mut parts = vec![PyString::intern(py, class.model.name).into_any()];
            for (field, value) in class.model.fields.iter().zip(values) {
                parts.push(hashable(field, value.bind(py))?);
            }
            builtin::hash(&PyTuple::new(py, parts)?)
        })
    }
}

/// Reads a model of this class from a JSON document, as long as `go_on` says. `fail` makes the failure if it cannot be
/// read.
pub(crate) fn read<'py>(
    py: Python<'py>,
    class: &Class,
    document: &[u8],
    unreadable: Unreadable,
    go_on: GoOn<'_>,
    fail: impl FnOnce(DecodeError) -> Failure,
) -> Outcome<Bound<'py, PyAny>> {
    whole(
        py,
        document,
        class.model,
        class.read,
        unreadable,
        go_on,
        fail,
    )
}

/// Whether two models of the same class are equal.
fn is_equal(this: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> Outcome<bool> {
    let py = this.py();
    if this.is(other) {
        return Ok(true);
    }
    let class = Class::of(&this.get_type())?;
    let ((values, extra), (others, other_extra)) = ((class.parts)(this)?, (class.parts)(other)?);
    for (field, (one, another)) in class
        .model
        .fields
        .iter()
        .zip(values.into_iter().zip(others))
    {
        let (one, another) = (shown(field, one.bind(py))?, shown(field, another.bind(py))?);
        if !builtin::equal(&one, &another)? {
            return Ok(false);
        }
    }
    match (unknown(extra), unknown(other_extra)) {
        (None, None) => Ok(true),
        (Some(one), Some(another)) => {
            let (one, another) = (json::fields(py, one)?, json::fields(py, another)?);
            Ok(builtin::equal(one.as_any(), another.as_any())?)
        }
        _ => Ok(false),
    }
}

/// The undocumented fields, if there are any.
fn unknown(extra: Option<&Extra>) -> Option<&BTreeMap<String, Json>> {
    let unknown = &extra?.unknown;
    (!unknown.is_empty()).then_some(unknown)
}

/// What a field contributes to the hash.
fn hashable<'py>(field: &Field, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    Ok(match field.kind {
        FieldKind::Object if !value.is_none() => {
            let object = json::raw_value(value)?.cast_into::<PyDict>()?;
            object.len().into_pyobject(py)?.into_any()
        }
        FieldKind::Strings => builtin::mapping(value)?.len().into_pyobject(py)?.into_any(),
        // An enum's own hash is Python code; equal texts have equal hashes either way.
        kind if is_role(kind) => PyString::new(py, value.cast::<PyString>()?.to_str()?).into_any(),
        _ => value.clone(),
    })
}

/// The value of an attribute, from what the model holds.
fn shown<'py>(field: &Field, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !matches!(field.kind, FieldKind::Object) || value.is_none() {
        return Ok(value.clone());
    }
    let py = value.py();
    let object = json::raw_value(value)?.cast_into::<PyDict>()?;
    Ok(PyMappingProxy::new(py, object.as_mapping()).into_any())
}
