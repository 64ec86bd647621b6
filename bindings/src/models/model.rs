//! The common part of all response types, and the macro that makes classes from the core's table of fields.
//!
//! Methods that run Python code (the constructor, `from_json`, `to_dict` and the like) are added in
//! `dealkit._models.classes`, which calls the methods with an underscore.

use std::collections::BTreeMap;

use dealkit::{DecodeError, Json, LineError, schema};
use pyo3::{
    PyClass,
    basic::CompareOp,
    prelude::*,
    types::{PyBool, PyDict, PyMappingProxy, PyString, PyTuple},
};

use crate::{
    json::{
        extra::Extra,
        reader::{GoOn, Read, Reader, whole},
        value as json,
    },
    models::{
        argument,
        schema::{Class, Field, FieldKind, Values, is_role, nothing},
    },
    python::{
        builtin,
        document::Document,
        failure::{Failure, Outcome, entry},
    },
};

/// A response type, made from a declaration of fields; see [`models`].
pub(crate) trait Model:
    PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync
{
    const MODEL: &'static schema::Model;

    /// Reads a model, which is an object.
    fn read(reader: &mut Reader<'_, '_>) -> Read;

    /// Makes a model from its values.
    fn build(py: Python<'_>, values: Values, extra: Extra) -> PyResult<Bound<'_, Self>>;

    /// Its values, in the order of the fields.
    fn values(&self) -> Vec<&Py<PyAny>>;

    fn extra(&self) -> Option<&Extra>;

    /// The document as the Rust model reads it, with serde rather than the lexer, and writes it back.
    #[cfg(debug_assertions)]
    fn core_json(document: &[u8]) -> Result<Json, DecodeError>;
}

impl Class {
    /// The class of a model.
    pub(crate) const fn of<M: Model>() -> Self {
        Self {
            model: M::MODEL,
            read: M::read,
            parts: |value| {
                let model = value.cast::<M>()?.get();
                Ok((model.values(), model.extra()))
            },
            is: |value| value.is_instance_of::<M>(),
        }
    }
}

/// Reads a model from a JSON document: bytes, or a string. `line` is its number if it is one of many, one per line.
pub(crate) fn read<'py, M: Model>(
    value: &Bound<'py, PyAny>,
    line: Option<usize>,
) -> Outcome<Bound<'py, M>> {
    let fail = |error| match line {
        Some(line) => Failure::Line(LineError::Decode { line, error }),
        None => Failure::Decode(error),
    };
    read_document::<M>(value.py(), &Document::of(value)?, &|| true, fail)
}

/// Reads a model from a JSON document, as long as `go_on` says. `fail` makes the failure if it cannot be read.
pub(crate) fn read_document<'py, M: Model>(
    py: Python<'py>,
    document: &Document<'_>,
    go_on: GoOn<'_>,
    fail: impl FnOnce(DecodeError) -> Failure,
) -> Outcome<Bound<'py, M>> {
    let kind = FieldKind::One(M::MODEL);
    let model = whole(py, document, kind, go_on, |reader| M::read(reader));
    let model = model.map_err(|unread| unread.into_failure(fail))?;
    Ok(model.cast_into::<M>().map_err(PyErr::from)?)
}

/// Reads a tuple of models from a JSON document that is an array.
pub(crate) fn read_list<'py, M: Model>(value: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyAny>> {
    let document = Document::of(value)?;
    let kind = FieldKind::Many(M::MODEL);
    let models = whole(value.py(), &document, kind, &|| true, |reader| {
        reader.many(M::read)
    });
    models.map_err(|unread| unread.into_failure(Failure::Decode))
}

/// What the Rust model makes of a JSON document.
#[cfg(debug_assertions)]
pub(crate) fn core_json<M: Model>(value: &Bound<'_, PyAny>) -> Outcome<String> {
    let document = Document::of(value)?;
    M::core_json(document.bytes())
        .map(|json| json.to_string())
        .map_err(Failure::Decode)
}

/// Makes a model from values by attribute.
pub(crate) fn build<'py, M: Model>(given: &Bound<'py, PyDict>) -> Outcome<Bound<'py, M>> {
    let py = given.py();
    let fields = M::MODEL.fields.iter();
    let values = fields.map(|field| Some(nothing(field.kind, py))).collect();
    changed::<M>(py, values, Extra::default(), given)
}

/// The model with some of its attributes changed.
pub(crate) fn replace<'py, M: Model>(
    this: &Bound<'py, M>,
    changes: &Bound<'py, PyDict>,
) -> Outcome<Bound<'py, M>> {
    let py = this.py();
    let model = this.get();
    let values = model.values().into_iter();
    let values = values.map(|value| Some(value.clone_ref(py))).collect();
    let extra = model.extra().cloned().unwrap_or_default();
    changed::<M>(py, values, extra, changes)
}

fn changed<'py, M: Model>(
    py: Python<'py>,
    mut values: Values,
    mut extra: Extra,
    changes: &Bound<'py, PyDict>,
) -> Outcome<Bound<'py, M>> {
    for (name, value) in changes {
        let name: String = name.extract()?;
        if name == "extra" {
            extra.unknown = argument::unknown_fields(M::NAME, M::MODEL.fields, &value)?;
            continue;
        }
        let mut fields = M::MODEL.fields.iter().zip(values.iter_mut()).enumerate();
        let Some((at, (field, slot))) = fields.find(|(_, (field, _))| field.name == name) else {
            return Err(Failure::Type(format!(
                "{} has no attribute {name}",
                M::NAME
            )));
        };
        extra.exact.retain(|(exact, _)| *exact != at);
        *slot = Some(argument::field(M::NAME, field, &value)?);
    }
    Ok(M::build(py, values, extra)?)
}

/// Compares models: they are equal if their attributes are, and have no order.
pub(crate) fn compare<M: Model>(
    this: &Bound<'_, M>,
    other: &Bound<'_, PyAny>,
    operation: CompareOp,
) -> PyResult<Py<PyAny>> {
    let py = this.py();
    let (Ok(other), CompareOp::Eq | CompareOp::Ne) = (other.cast::<M>(), operation) else {
        return Ok(py.NotImplemented());
    };
    let is_true = is_equal(this, other)? == matches!(operation, CompareOp::Eq);
    Ok(PyBool::new(py, is_true).to_owned().into_any().unbind())
}

fn is_equal<M: Model>(this: &Bound<'_, M>, other: &Bound<'_, M>) -> PyResult<bool> {
    let py = this.py();
    if this.as_any().is(other) {
        return Ok(true);
    }
    let (this, other) = (this.get(), other.get());
    for (field, (one, another)) in M::MODEL
        .fields
        .iter()
        .zip(this.values().into_iter().zip(other.values()))
    {
        let (one, another) = (shown(field, one.bind(py))?, shown(field, another.bind(py))?);
        if !builtin::equal(&one, &another)? {
            return Ok(false);
        }
    }
    match (unknown(this), unknown(other)) {
        (None, None) => Ok(true),
        (Some(one), Some(another)) => {
            let (one, another) = (json::fields(py, one)?, json::fields(py, another)?);
            builtin::equal(one.as_any(), another.as_any())
        }
        _ => Ok(false),
    }
}

/// The undocumented fields, if there are any.
fn unknown<M: Model>(model: &M) -> Option<&BTreeMap<String, Json>> {
    let unknown = &model.extra()?.unknown;
    (!unknown.is_empty()).then_some(unknown)
}

/// The hash, of everything that is hashable. Mappings contribute their size, which equal ones share.
pub(crate) fn hash<M: Model>(this: &Bound<'_, M>) -> PyResult<isize> {
    let py = this.py();
    let mut parts: Vec<Bound<'_, PyAny>> = vec![PyString::intern(py, M::NAME).into_any()];
    for (field, value) in M::MODEL.fields.iter().zip(this.get().values()) {
        let value = value.bind(py);
        parts.push(match field.kind {
            FieldKind::Object if !value.is_none() => {
                let object = json::raw_value(value)?.cast_into::<PyDict>()?;
                object.len().into_pyobject(py)?.into_any()
            }
            FieldKind::Strings => builtin::mapping(value)?.len().into_pyobject(py)?.into_any(),
            // An enum's own hash is Python code; equal texts have equal hashes either way.
            kind if is_role(kind) => {
                PyString::new(py, value.cast::<PyString>()?.to_str()?).into_any()
            }
            _ => value.clone(),
        });
    }
    builtin::hash(&PyTuple::new(py, parts)?)
}

/// The value of a field's attribute, if it is made anew each time.
pub(crate) fn attribute<'py, M: Model>(
    this: &Bound<'py, M>,
    at: usize,
) -> Outcome<Bound<'py, PyAny>> {
    match (M::MODEL.fields.get(at), this.get().values().get(at)) {
        (Some(field), Some(value)) => Ok(shown(field, value.bind(this.py()))?),
        _ => Err(Failure::Runtime(format!("{} has no such field", M::NAME))),
    }
}

/// Undocumented fields, as a read-only mapping, made anew each time.
pub(crate) fn extra<'py, M: Model>(this: &Bound<'py, M>) -> PyResult<Bound<'py, PyMappingProxy>> {
    let py = this.py();
    let fields = match unknown(this.get()) {
        Some(unknown) => json::fields(py, unknown)?,
        None => PyDict::new(py),
    };
    Ok(PyMappingProxy::new(py, fields.as_mapping()))
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

/// Does the work of a method that can fail only for lack of memory.
pub(crate) fn method<'py, T>(
    py: Python<'py>,
    work: impl FnOnce() -> PyResult<T>,
) -> PyResult<Bound<'py, PyAny>>
where
    T: IntoPyObject<'py>,
{
    entry(py, || Ok(work()?))
}

/// Makes a class for each response type; see [`dealkit::__response_models`] for the declaration of its fields.
macro_rules! models {
    ($(
        $(#[doc = $about:literal])+
        $model:ident {
            $(
                $(#[doc = $doc:literal])+
                $presence:ident $show:ident $field:ident: $type:ty = $wire:literal,
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[pyo3::pyclass(frozen, module = "dealkit")]
        pub(crate) struct $model {
            $( $(#[doc = $doc])+ #[pyo3(get)] $field: pyo3::Py<pyo3::PyAny>, )+
            extra: Option<Box<$crate::json::extra::Extra>>,
        }

        impl $crate::models::model::Model for $model {
            const MODEL: &'static dealkit::schema::Model = dealkit::$model::SCHEMA;

            fn read(reader: &mut $crate::json::reader::Reader<'_, '_>) -> $crate::json::reader::Read {
                #[allow(non_camel_case_types)]
                enum Position { $( $field ),+ }

                $( let mut $field = None; )+
                let mut extra = None;
                dealkit::__read_fields!(reader.lexer, {
                    $(
                        $wire => $field = $crate::models::model::models!(@read reader $field, extra),
                        $field = $crate::models::model::models!(@read reader $field, extra);
                    )+
                    name => $crate::models::read::unknown(reader, name.into_owned(), &mut extra)?,
                });
                let model = Self {
                    $( $field: match $field {
                        Some(value) => value,
                        None => $crate::models::model::models!(@missing reader $field),
                    }, )+
                    extra,
                };
                let model = pyo3::Py::new(reader.py, model);
                Ok(reader.made(model)?.into_any())
            }

            fn build(
                py: pyo3::Python<'_>,
                values: $crate::models::schema::Values,
                extra: $crate::json::extra::Extra,
            ) -> pyo3::PyResult<pyo3::Bound<'_, Self>> {
                let mut fields = Self::MODEL.fields.iter();
                let mut values = values.into_iter();
                let mut next = || match (fields.next(), values.next().flatten()) {
                    (Some(_), Some(value)) => value,
                    (Some(field), None) => $crate::models::schema::nothing(field.kind, py),
                    (None, _) => py.None(),
                };
                // The expressions are evaluated in the order in which they are written.
                pyo3::Bound::new(py, Self {
                    $( $field: next(), )+
                    extra: extra.boxed(),
                })
            }

            fn values(&self) -> Vec<&pyo3::Py<pyo3::PyAny>> {
                vec![$( &self.$field ),+]
            }

            fn extra(&self) -> Option<&$crate::json::extra::Extra> {
                self.extra.as_deref()
            }

            #[cfg(debug_assertions)]
            fn core_json(document: &[u8]) -> Result<dealkit::Json, dealkit::DecodeError> {
                let json = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
                serde_json::from_slice::<dealkit::$model>(json)
                    .and_then(|model| dealkit::Json::from_serialize(&model))
                    .or_else(|_| {
                        let error = dealkit::$model::from_json(document);
                        Err(error.expect_err("serde has refused it"))
                    })
            }
        }

        #[pyo3::pymethods]
        impl $model {
            /// Reads a model from a document, bytes or str; `line` is its number if it is one of many.
            #[staticmethod]
            #[pyo3(signature = (document, line=None))]
            fn _read<'py>(
                document: &pyo3::Bound<'py, pyo3::PyAny>,
                line: Option<usize>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::python::failure::entry(document.py(), || {
                    $crate::models::model::read::<Self>(document, line)
                })
            }

            /// Reads the models of a document that is an array.
            #[staticmethod]
            fn _read_list<'py>(
                document: &pyo3::Bound<'py, pyo3::PyAny>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::python::failure::entry(document.py(), || {
                    $crate::models::model::read_list::<Self>(document)
                })
            }

            /// The document as the Rust model of the same name reads it and writes it back; for tests that compare
            /// the two, and not in a release.
            #[cfg(debug_assertions)]
            #[staticmethod]
            fn _core_json<'py>(
                document: &pyo3::Bound<'py, pyo3::PyAny>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::python::failure::entry(document.py(), || $crate::models::model::core_json::<Self>(document))
            }

            /// Makes a model from values by attribute, of built-in types.
            #[staticmethod]
            fn _build<'py>(
                given: &pyo3::Bound<'py, pyo3::types::PyDict>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::python::failure::entry(given.py(), || $crate::models::model::build::<Self>(given))
            }

            /// The model with some values replaced, by attribute, of built-in types.
            fn _replace<'py>(
                this: &pyo3::Bound<'py, Self>,
                changes: &pyo3::Bound<'py, pyo3::types::PyDict>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::python::failure::entry(this.py(), || $crate::models::model::replace(this, changes))
            }

            /// The value of the field at a position, if it is made anew each time.
            fn _attribute<'py>(
                this: &pyo3::Bound<'py, Self>,
                at: usize,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::python::failure::entry(this.py(), || $crate::models::model::attribute(this, at))
            }

            /// The JSON, on one line.
            fn _to_json<'py>(
                this: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::models::model::method(this.py(), || {
                    let mut json = String::new();
                    $crate::models::write::model(this.as_any(), &const { $crate::models::schema::Class::of::<Self>() }, &mut json)?;
                    Ok(json)
                })
            }

            /// Undocumented fields, by name: a fresh copy each time.
            #[getter]
            fn extra<'py>(
                this: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::models::model::method(this.py(), || $crate::models::model::extra(this))
            }

            #[classattr]
            fn __match_args__(
                py: pyo3::Python<'_>,
            ) -> pyo3::PyResult<pyo3::Bound<'_, pyo3::types::PyTuple>> {
                let names = <Self as $crate::models::model::Model>::MODEL.fields.iter().map(|field| field.name);
                pyo3::types::PyTuple::new(py, names.collect::<Vec<_>>())
            }

            #[classattr]
            fn __dealkit_fields__(
                py: pyo3::Python<'_>,
            ) -> pyo3::PyResult<pyo3::Bound<'_, pyo3::types::PyTuple>> {
                $crate::models::schema::describe(py, <Self as $crate::models::model::Model>::MODEL.fields)
            }

            fn __richcmp__<'py>(
                this: &pyo3::Bound<'py, Self>,
                other: &pyo3::Bound<'py, pyo3::PyAny>,
                operation: pyo3::basic::CompareOp,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::models::model::method(this.py(), || $crate::models::model::compare(this, other, operation))
            }

            fn __hash__(this: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<isize> {
                $crate::python::gil::uncollected(this.py(), || $crate::models::model::hash(this))
            }

            /// A model cannot change, so a copy of it is the model itself.
            fn __copy__(this: pyo3::Bound<'_, Self>) -> pyo3::Bound<'_, Self> {
                this
            }

            /// A model cannot change, so a copy of it is the model itself.
            fn __deepcopy__<'py>(
                this: pyo3::Bound<'py, Self>,
                _memo: &pyo3::Bound<'py, pyo3::PyAny>,
            ) -> pyo3::Bound<'py, Self> {
                this
            }
        }
    )+

        /// The class of each model, in the order of the table.
        pub(crate) const CLASSES: &[$crate::models::schema::Class] =
            &[$( $crate::models::schema::Class::of::<$model>() ),+];
    };

    (@field $field:ident) => {
        const {
            $crate::models::schema::field(
                <Self as $crate::models::model::Model>::MODEL,
                Position::$field as usize,
            )
        }
    };

    (@read $reader:ident $field:ident, $extra:ident) => {
        $crate::models::read::value(
            $reader,
            $crate::models::model::models!(@field $field),
            Position::$field as usize,
            &mut $extra,
        )?
    };

    (@missing $reader:ident $field:ident) => {
        $crate::models::read::missing($reader, $crate::models::model::models!(@field $field))?
    };
}
pub(crate) use models;
