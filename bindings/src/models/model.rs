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
        argument,
        schema::{Class, Field, FieldKind, is_role, nothing},
        unreadable, write,
    },
    python::{
        builtin,
        document::Document,
        failure::{Failure, Outcome, entry},
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
    ) -> PyResult<Bound<'py, PyAny>> {
        entry(of.py(), || {
            let document = Document::of(document)?;
            let class = Class::of(of)?;
            read(
                of.py(),
                class,
                &document,
                unreadable::choice(skips),
                &|| true,
                Failure::Decode,
            )
        })
    }

    /// Reads the models of a document that is an array.
    #[classmethod]
    #[pyo3(signature = (document, skips=false))]
    fn _read_list<'py>(
        of: &Bound<'py, PyType>,
        document: &Bound<'py, PyAny>,
        skips: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = of.py();
        entry(py, || {
            let (class, document) = (Class::of(of)?, Document::of(document)?);
            let kind = FieldKind::Many(class.model);
            let models = whole(
                py,
                &document,
                kind,
                unreadable::choice(skips),
                &|| true,
                |reader| reader.many(class.read),
            );
            models.map_err(|unread| unread.into_failure(Failure::Decode))
        })
    }

    /// The document as the Rust model of the same name reads it and writes it back; for tests that compare the two, and
    /// not in a release.
    #[cfg(debug_assertions)]
    #[classmethod]
    fn _core_json<'py>(
        of: &Bound<'py, PyType>,
        document: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        entry(of.py(), || {
            let (class, document) = (Class::of(of)?, Document::of(document)?);
            let json = (class.core_json)(document.bytes()).map_err(Failure::Decode)?;
            Ok(json.to_string())
        })
    }

    /// Makes a model from values by attribute, of built-in types.
    #[classmethod]
    fn _build<'py>(
        of: &Bound<'py, PyType>,
        given: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = of.py();
        entry(py, || {
            let class = Class::of(of)?;
            let fields = class.model.fields.iter();
            let values = fields.map(|field| nothing(field.kind, py)).collect();
            changed(py, class, values, Extra::default(), given, false)
        })
    }

    /// The model with some values replaced, by attribute, of built-in types. Documented fields in `extra` that cannot be read
    /// may be skipped; they are in any case if the model has such fields.
    #[pyo3(signature = (changes, skips=false))]
    fn _replace<'py>(
        this: &Bound<'py, Self>,
        changes: &Bound<'py, PyDict>,
        skips: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        entry(py, || {
            let class = Class::of(&this.get_type())?;
            let skips = skips || !unreadable::fields(this, class)?.is_empty();
            let (values, extra) = (class.parts)(this)?;
            let values = values
                .into_iter()
                .map(|value| value.clone_ref(py))
                .collect();
            changed(
                py,
                class,
                values,
                extra.cloned().unwrap_or_default(),
                changes,
                skips,
            )
        })
    }

    /// The value of the field at a position, if it is made anew each time.
    fn _attribute<'py>(this: &Bound<'py, Self>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        entry(this.py(), || {
            let class = Class::of(&this.get_type())?;
            let (values, _) = (class.parts)(this)?;
            match (class.model.fields.get(at), values.get(at)) {
                (Some(field), Some(value)) => Ok(shown(field, value.bind(this.py()))?),
                _ => Err(Failure::Runtime(format!(
                    "{} has no such field",
                    class.model.name
                ))),
            }
        })
    }

    /// The JSON, on one line.
    fn _to_json<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        entry(this.py(), || {
            let mut json = String::new();
            write::model(this, Class::of(&this.get_type())?, &mut json)?;
            Ok(json)
        })
    }

    /// The fields that could not be read, here and at any depth: the pointer of each, what was expected, and its JSON.
    fn _unreadable<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
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

    /// The JSON of a field by its name on the wire, as Python objects; None if there is none, or null.
    fn _get<'py>(this: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        entry(py, || {
            let class = Class::of(&this.get_type())?;
            let (values, extra) = (class.parts)(this)?;
            if let Some(value) = unknown(extra).and_then(|unknown| unknown.get(name)) {
                return Ok(Some(json::value(py, value)?));
            }
            let mut fields = class.model.fields.iter().zip(values).enumerate();
            let Some((at, (field, value))) = fields.find(|(_, (field, _))| field.wire == name)
            else {
                return Ok(None);
            };
            let value = value.bind(py);
            if value.is_none() {
                return Ok(None);
            }
            let mut text = String::new();
            write::field(at, field, value, extra, &mut text)?;
            Ok(Some(json::text_value(py, &text)?))
        })
    }

    /// The fields that no attribute holds, by their names on the wire: those that this version of dealkit does not know, and
    /// those that could not be read (see ``unreadable``). A fresh copy each time. For one of them, ``get`` is better: it still
    /// finds the field when a later version knows it.
    #[getter]
    fn extra<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
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
    ) -> PyResult<Bound<'py, PyAny>> {
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

    /// A model cannot change, so a copy of it is the model itself.
    fn __copy__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    /// A model cannot change, so a copy of it is the model itself.
    fn __deepcopy__<'py>(this: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        this
    }
}

/// Reads a model of this class from a JSON document, as long as `go_on` says. `fail` makes the failure if it cannot be
/// read.
pub(crate) fn read<'py>(
    py: Python<'py>,
    class: &Class,
    document: &Document<'_>,
    unreadable: Unreadable,
    go_on: GoOn<'_>,
    fail: impl FnOnce(DecodeError) -> Failure,
) -> Outcome<Bound<'py, PyAny>> {
    let kind = FieldKind::One(class.model);
    let model = whole(py, document, kind, unreadable, go_on, |reader| {
        (class.read)(reader)
    });
    model.map_err(|unread| unread.into_failure(fail))
}

fn changed<'py>(
    py: Python<'py>,
    class: &Class,
    mut values: Vec<Py<PyAny>>,
    mut extra: Extra,
    changes: &Bound<'py, PyDict>,
    skips: bool,
) -> Outcome<Bound<'py, PyAny>> {
    let model = class.model;
    let replaces_extra = changes.contains("extra")?;
    for (name, value) in changes {
        let name: String = name.extract()?;
        if name == "extra" {
            extra.unknown = argument::extra(model.name, &value)?;
            continue;
        }
        let mut fields = model.fields.iter().zip(values.iter_mut()).enumerate();
        let Some((at, (field, slot))) = fields.find(|(_, (field, _))| field.name == name) else {
            let text = format!("{} has no attribute {name}", model.name);
            return Err(Failure::Type(text));
        };
        extra.forget_exact(at);
        if !replaces_extra {
            extra.unknown.remove(field.wire);
        }
        *slot = argument::field(model.name, field, &value)?;
    }
    let mut is_complete = true;
    for Field { name, wire, .. } in model.fields {
        if replaces_extra && extra.unknown.contains_key(*wire) {
            is_complete = false;
            let given = changes.get_item(name)?;
            if given.is_some_and(|given| !is_nothing(&given)) {
                let of = model.name;
                let text = format!("{of}.extra must not hold {wire}, which is given as {name}");
                return Err(Failure::Value(text));
            }
        }
    }
    let made = (class.build)(py, values, extra)?;
    if is_complete {
        return Ok(made);
    }
    // A documented field in `extra` is read as it is in a response.
    let mut json = String::new();
    write::model(&made, class, &mut json)?;
    let json = PyString::new(py, &json);
    let document = Document::of(&json)?;
    read(
        py,
        class,
        &document,
        unreadable::choice(skips),
        &|| true,
        Failure::Decode,
    )
}

/// Whether an argument stands for an absent value.
fn is_nothing(value: &Bound<'_, PyAny>) -> bool {
    let tuple = value.cast::<PyTuple>().map(PyTupleMethods::len);
    let dict = value.cast::<PyDict>().map(PyDictMethods::len);
    value.is_none() || tuple.or(dict).is_ok_and(|len| len == 0)
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
