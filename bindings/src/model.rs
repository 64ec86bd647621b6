//! What every response type has in common, and the macro that makes a class of a statement of fields.

use std::{collections::BTreeMap, fmt::Write as _};

use dealkit::{DecodeError, Json};
use pyo3::{
    PyClass,
    basic::CompareOp,
    exceptions::{PyRuntimeError, PyTypeError},
    prelude::*,
    types::{PyDict, PyMappingProxy, PyString, PyTuple},
};

use crate::{
    convert, errors,
    read::{Failed, Reader},
    write,
};

/// The most fields that a model has.
pub(crate) const MOST: usize = 12;

/// The values of a model's fields, in the order of its statement.
pub(crate) type Values = [Option<Py<PyAny>>; MOST];

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A string that comes again and again.
    Word,
    /// A role.
    Role,
    /// True or false.
    Boolean,
    /// An integer of 64 bits.
    Integer,
    /// An exact decimal number.
    Decimal,
    /// A day.
    Date,
    /// A moment.
    Timestamp,
    /// A JSON object of free form.
    Object,
    /// Strings by name.
    Strings,
    /// Another model.
    One(&'static Class),
    /// Any number of another model.
    Many(&'static Class),
}

/// Whether a field must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It must, and must not be null.
    Required,
    /// It need not, and nothing is written when there is nothing.
    Optional,
    /// It need not, and null is written when there is nothing.
    Nullable,
}

/// Where the value of a field is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// In the repr, and in a notebook.
    Brief,
    /// In a notebook.
    Shown,
    /// Nowhere: it is personal, or of unknown content.
    Hidden,
}

/// One field of a model.
pub(crate) struct Field {
    /// The attribute.
    pub(crate) name: &'static str,
    /// The member of the JSON object.
    pub(crate) wire: &'static str,
    pub(crate) kind: Kind,
    pub(crate) need: Need,
    pub(crate) show: Show,
    /// What it says, for the stubs.
    doc: &'static str,
}

impl Field {
    /// States a field; for the macro.
    pub(crate) const fn new(
        name: &'static str,
        wire: &'static str,
        kind: Kind,
        need: Need,
        show: Show,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            wire,
            kind,
            need,
            show,
            doc,
        }
    }

    /// What stands in for nothing.
    pub(crate) fn nothing(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self.kind {
            Kind::Many(_) => PyTuple::empty(py).into_any().unbind(),
            Kind::Strings => convert::empty_mapping(py)?,
            _ => py.None(),
        })
    }
}

/// A model as its parents know it.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// Reads one from a JSON object whose brace comes next.
    pub(crate) read: for<'py> fn(&mut Reader<'_, 'py>) -> Result<Bound<'py, PyAny>, Failed>,
    /// Writes one, if the value is one.
    pub(crate) write: fn(&Bound<'_, PyAny>, &mut String) -> PyResult<()>,
    /// Whether the value is one.
    pub(crate) is: fn(&Bound<'_, PyAny>) -> bool,
}

impl Class {
    /// The class of a model.
    pub(crate) const fn of<M: Model>() -> Self {
        Self {
            name: M::NAME,
            read: |reader| reader.model::<M>().map(Bound::into_any),
            write: |value, out| write::model(value.cast::<M>()?, out),
            is: |value| value.is_instance_of::<M>(),
        }
    }
}

/// What came in the JSON and the Python values do not hold.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Beyond {
    /// Members that the specification does not show, by name.
    pub(crate) unknown: BTreeMap<String, Json>,
    /// The exact JSON of fields, by position, whose value is not all of it: timestamps finer than
    /// microseconds, objects of free form.
    pub(crate) exact: Vec<(usize, Json)>,
}

impl Beyond {
    /// Keeps nothing where there is nothing to keep.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// The exact JSON of a field.
    pub(crate) fn exact(&self, position: usize) -> Option<&Json> {
        let of_field = self.exact.iter().find(|(at, _)| *at == position);
        of_field.map(|(_, json)| json)
    }
}

/// A response type: made of a statement of fields, see [`models`].
pub(crate) trait Model:
    PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync
{
    const FIELDS: &'static [Field];

    /// A model of its values.
    fn build(py: Python<'_>, values: Values, beyond: Beyond) -> PyResult<Bound<'_, Self>>;

    /// Its values, in the order of the fields.
    fn values(&self) -> Vec<&Py<PyAny>>;

    fn beyond(&self) -> Option<&Beyond>;

    /// What the Rust model says is wrong with a document.
    fn explain(document: &[u8]) -> Option<DecodeError>;

    /// What the Rust model makes of a document: it, written back.
    fn by_the_core(document: &[u8]) -> Result<Json, DecodeError>;
}

/// A model of the arguments of its class.
pub(crate) fn from_arguments<'py, M: Model>(
    py: Python<'py>,
    arguments: impl IntoIterator<Item = Option<Bound<'py, PyAny>>>,
    extra: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, M>> {
    let mut values = Values::default();
    let mut beyond = Beyond::default();
    for (at, (field, (value, argument))) in M::FIELDS
        .iter()
        .zip(values.iter_mut().zip(arguments))
        .enumerate()
    {
        let argument = argument.unwrap_or_else(|| py.None().into_bound(py));
        *value = Some(convert::argument(
            M::NAME,
            field,
            at,
            &argument,
            &mut beyond,
        )?);
    }
    if let Some(extra) = extra {
        beyond.unknown = convert::unknown_members::<M>(&extra)?;
    }
    M::build(py, values, beyond)
}

/// A model of a JSON document: bytes, or a string.
pub(crate) fn from_json<'py, M: Model>(document: &Bound<'py, PyAny>) -> PyResult<Bound<'py, M>> {
    let py = document.py();
    let document = convert::document(document)?;
    read_document::<M>(py, &document, errors::of_decoding)
}

/// A model of a JSON document. `fail` makes the exception when it is none.
pub(crate) fn read_document<'py, M: Model>(
    py: Python<'py>,
    document: &[u8],
    fail: impl FnOnce(Python<'py>, DecodeError) -> PyErr,
) -> PyResult<Bound<'py, M>> {
    match Reader::document(py, document) {
        Ok(model) => Ok(model),
        Err(Failed::Python(error)) => Err(error),
        // Where and why is said by the Rust reader, so that both languages say the same.
        Err(Failed::Document) => Err(match M::explain(document) {
            Some(error) => fail(py, error),
            None => PyRuntimeError::new_err(format!(
                "dealkit's two readers disagree on a {}: this is a bug in dealkit, please report it",
                M::NAME
            )),
        }),
    }
}

/// What the Rust model makes of a JSON document.
pub(crate) fn by_the_core<M: Model>(document: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = document.py();
    match M::by_the_core(&convert::document(document)?) {
        Ok(json) => Ok(json.to_string()),
        Err(error) => Err(errors::of_decoding(py, error)),
    }
}

/// The model with some of its attributes changed.
pub(crate) fn replace<'py, M: Model>(
    this: &Bound<'py, M>,
    changes: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, M>> {
    let py = this.py();
    let model = this.get();
    let mut values = Values::default();
    for (slot, value) in values.iter_mut().zip(model.values()) {
        *slot = Some(value.clone_ref(py));
    }
    let mut beyond = model.beyond().cloned().unwrap_or_default();
    for (name, value) in changes.into_iter().flatten() {
        let name: String = name.extract()?;
        if name == "extra" {
            beyond.unknown = convert::unknown_members::<M>(&value)?;
            continue;
        }
        let mut fields = M::FIELDS.iter().enumerate();
        let Some((at, field)) = fields.find(|(_, field)| field.name == name) else {
            return Err(PyTypeError::new_err(format!(
                "{} has no attribute {name}",
                M::NAME
            )));
        };
        beyond.exact.retain(|(exact, _)| *exact != at);
        let value = convert::argument(M::NAME, field, at, &value, &mut beyond)?;
        if let Some(slot) = values.get_mut(at) {
            *slot = Some(value);
        }
    }
    M::build(py, values, beyond)
}

/// Equality; models have no order.
pub(crate) fn compare<M: Model>(
    this: &Bound<'_, M>,
    other: &Bound<'_, PyAny>,
    operation: CompareOp,
) -> PyResult<Py<PyAny>> {
    let py = this.py();
    let not_comparable = || Ok(py.NotImplemented());
    let equal = match other.cast::<M>() {
        Ok(other) => {
            this.as_any().is(other) || {
                let (this, other) = (this.get(), other.get());
                let mut equal = this.beyond() == other.beyond();
                for (one, another) in this.values().into_iter().zip(other.values()) {
                    equal = equal && (one.is(another) || one.bind(py).eq(another)?);
                }
                equal
            }
        }
        Err(_) => return not_comparable(),
    };
    match operation {
        CompareOp::Eq => Ok(equal.into_pyobject(py)?.to_owned().into_any().unbind()),
        CompareOp::Ne => Ok((!equal).into_pyobject(py)?.to_owned().into_any().unbind()),
        _ => not_comparable(),
    }
}

/// The hash: of all that is hashable. Mappings count with their size, which equal ones share.
pub(crate) fn hash<M: Model>(this: &Bound<'_, M>) -> PyResult<isize> {
    let py = this.py();
    let mut parts: Vec<Bound<'_, PyAny>> = vec![PyString::intern(py, M::NAME).into_any()];
    for (field, value) in M::FIELDS.iter().zip(this.get().values()) {
        let value = value.bind(py);
        parts.push(match field.kind {
            Kind::Strings | Kind::Object if !value.is_none() => {
                value.len()?.into_pyobject(py)?.into_any()
            }
            _ => value.clone(),
        });
    }
    PyTuple::new(py, parts)?.hash()
}

/// The repr: identifiers, statuses and the like. It shows nothing that is personal.
pub(crate) fn repr<M: Model>(this: &Bound<'_, M>) -> PyResult<String> {
    let py = this.py();
    let mut out = format!("{}(", M::NAME);
    let mut first = true;
    for (field, value) in M::FIELDS.iter().zip(this.get().values()) {
        if field.show == Show::Brief && !value.is_none(py) {
            let separator = if first { "" } else { ", " };
            first = false;
            // A role's own repr says more than it needs.
            let value = value.bind(py).str()?.repr()?;
            write!(out, "{separator}{}={value}", field.name).map_err(|_| too_long())?;
        }
    }
    out.push(')');
    Ok(out)
}

fn too_long() -> PyErr {
    PyRuntimeError::new_err("the text cannot be written")
}

/// The attributes as a dict, models in it as dicts and tuples as lists; unknown members under `extra`.
pub(crate) fn to_dict<'py, M: Model>(this: &Bound<'py, M>) -> PyResult<Bound<'py, PyDict>> {
    let py = this.py();
    let dict = PyDict::new(py);
    for (field, value) in M::FIELDS.iter().zip(this.get().values()) {
        dict.set_item(field.name, convert::plain(field.kind, value.bind(py))?)?;
    }
    if let Some(beyond) = this
        .get()
        .beyond()
        .filter(|beyond| !beyond.unknown.is_empty())
    {
        dict.set_item("extra", convert::members(py, &beyond.unknown)?)?;
    }
    Ok(dict)
}

/// The members that the specification does not show, as a read-only mapping.
pub(crate) fn extra<'py, M: Model>(this: &Bound<'py, M>) -> PyResult<Bound<'py, PyMappingProxy>> {
    let py = this.py();
    let members = match this.get().beyond() {
        Some(beyond) => convert::members(py, &beyond.unknown)?,
        None => PyDict::new(py),
    };
    Ok(PyMappingProxy::new(py, members.as_mapping()))
}

/// How a model is pickled and copied: by way of its JSON, which holds all of it.
pub(crate) fn reduce<'py, M: Model>(
    this: &Bound<'py, M>,
) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyString>,))> {
    let py = this.py();
    let mut json = String::new();
    write::model(this, &mut json)?;
    let from_json = this.as_any().get_type().getattr("from_json")?;
    Ok((from_json, (PyString::new(py, &json),)))
}

/// The statement of a model's fields, for the stubs, for notebooks and for tests: a tuple of
/// (attribute, member, kind, need, show, doc) each.
pub(crate) fn statement<M: Model>(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let fields = M::FIELDS.iter().map(|field| {
        let kind = match field.kind {
            Kind::Text | Kind::Word => "text".to_owned(),
            Kind::Role => "role".to_owned(),
            Kind::Boolean => "boolean".to_owned(),
            Kind::Integer => "integer".to_owned(),
            Kind::Decimal => "decimal".to_owned(),
            Kind::Date => "date".to_owned(),
            Kind::Timestamp => "timestamp".to_owned(),
            Kind::Object => "object".to_owned(),
            Kind::Strings => "strings".to_owned(),
            Kind::One(class) => class.name.to_owned(),
            Kind::Many(class) => format!("[{}]", class.name),
        };
        let need = match field.need {
            Need::Required => "required",
            Need::Optional => "optional",
            Need::Nullable => "nullable",
        };
        let show = match field.show {
            Show::Brief => "brief",
            Show::Shown => "shown",
            Show::Hidden => "hidden",
        };
        (field.name, field.wire, kind, need, show, field.doc.trim())
    });
    PyTuple::new(py, fields.collect::<Vec<_>>())
}

/// Makes a class of each statement of fields; see the module `models`.
macro_rules! models {
    ($(
        $(#[doc = $about:literal])+
        $model:ident {
            $(
                $(#[doc = $doc:literal])+
                $need:ident $show:ident $field:ident: $kind:ident $(<$of:ident>)? = $wire:literal,
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[pyo3::pyclass(frozen, module = "dealkit")]
        pub(crate) struct $model {
            $( $(#[doc = $doc])+ #[pyo3(get)] $field: pyo3::Py<pyo3::PyAny>, )+
            beyond: Option<Box<$crate::model::Beyond>>,
        }

        impl $crate::model::Model for $model {
            const FIELDS: &'static [$crate::model::Field] = &[$(
                $crate::model::Field::new(
                    $crate::model::attribute(stringify!($field)),
                    $wire,
                    $crate::model::models!(@kind $kind $($of)?),
                    $crate::model::models!(@need $need),
                    $crate::model::models!(@show $show),
                    concat!($($doc),+),
                ),
            )+];

            fn build(
                py: pyo3::Python<'_>,
                values: $crate::model::Values,
                beyond: $crate::model::Beyond,
            ) -> pyo3::PyResult<pyo3::Bound<'_, Self>> {
                let mut fields = Self::FIELDS.iter();
                let mut values = values.into_iter();
                let mut next = || match (fields.next(), values.next().flatten()) {
                    (Some(_), Some(value)) => Ok(value),
                    (Some(field), None) => field.nothing(py),
                    (None, _) => Ok(py.None()),
                };
                // The expressions are evaluated in the order in which they are written.
                pyo3::Bound::new(py, Self {
                    $( $field: next()?, )+
                    beyond: beyond.boxed(),
                })
            }

            fn values(&self) -> Vec<&pyo3::Py<pyo3::PyAny>> {
                vec![$( &self.$field ),+]
            }

            fn beyond(&self) -> Option<&$crate::model::Beyond> {
                self.beyond.as_deref()
            }

            fn explain(document: &[u8]) -> Option<dealkit::DecodeError> {
                dealkit::$model::from_json(document).err()
            }

            fn by_the_core(document: &[u8]) -> Result<dealkit::Json, dealkit::DecodeError> {
                let model = dealkit::$model::from_json(document)?;
                // A model that was read from JSON can be written as JSON.
                Ok(dealkit::Json::of(&model).unwrap_or_else(|_| "".into()))
            }
        }

        $crate::model::models!(@methods $model [] [$($need $field)+] [$($field)+]);
    )+};

    (@kind text) => { $crate::model::Kind::Text };
    (@kind word) => { $crate::model::Kind::Word };
    (@kind role) => { $crate::model::Kind::Role };
    (@kind boolean) => { $crate::model::Kind::Boolean };
    (@kind integer) => { $crate::model::Kind::Integer };
    (@kind decimal) => { $crate::model::Kind::Decimal };
    (@kind date) => { $crate::model::Kind::Date };
    (@kind timestamp) => { $crate::model::Kind::Timestamp };
    (@kind object) => { $crate::model::Kind::Object };
    (@kind strings) => { $crate::model::Kind::Strings };
    (@kind one $of:ident) => { $crate::model::Kind::One(&const { $crate::model::Class::of::<$of>() }) };
    (@kind many $of:ident) => { $crate::model::Kind::Many(&const { $crate::model::Class::of::<$of>() }) };

    (@need required) => { $crate::model::Need::Required };
    (@need optional) => { $crate::model::Need::Optional };
    (@need nullable) => { $crate::model::Need::Nullable };

    (@show brief) => { $crate::model::Show::Brief };
    (@show shown) => { $crate::model::Show::Shown };
    (@show hidden) => { $crate::model::Show::Hidden };

    // The arguments of the class, one after the other: what is required has no default.
    (@methods $model:ident [$($signature:tt)*] [required $field:ident $($rest:tt)*] $fields:tt) => {
        $crate::model::models!(@methods $model [$($signature)* $field,] [$($rest)*] $fields);
    };
    (@methods $model:ident [$($signature:tt)*] [$need:ident $field:ident $($rest:tt)*] $fields:tt) => {
        $crate::model::models!(@methods $model [$($signature)* $field = None,] [$($rest)*] $fields);
    };
    (@methods $model:ident [$($signature:tt)*] [] [$($field:ident)+]) => {
        #[pyo3::pymethods]
        impl $model {
            #[new]
            #[pyo3(signature = (*, $($signature)* extra = None))]
            #[allow(clippy::too_many_arguments, reason = "one for each field")]
            fn new<'py>(
                py: pyo3::Python<'py>,
                $( $field: Option<pyo3::Bound<'py, pyo3::PyAny>>, )+
                extra: Option<pyo3::Bound<'py, pyo3::PyAny>>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, Self>> {
                $crate::model::from_arguments::<Self>(py, [$($field),+], extra)
            }

            /// Reads one from a JSON document, bytes or str.
            ///
            /// Raises DecodeError, which names the path of what could not be read and keeps the document.
            #[staticmethod]
            #[pyo3(signature = (document, /))]
            fn from_json<'py>(
                document: &pyo3::Bound<'py, pyo3::PyAny>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, Self>> {
                $crate::model::from_json::<Self>(document)
            }

            /// What the Rust model of the same name makes of a document, written back; for tests that hold
            /// the two against each other.
            #[staticmethod]
            #[pyo3(signature = (document, /))]
            fn _by_the_core(document: &pyo3::Bound<'_, pyo3::PyAny>) -> pyo3::PyResult<String> {
                $crate::model::by_the_core::<Self>(document)
            }

            /// The JSON, with the names that the service uses and every digit of every number.
            fn to_json(this: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<String> {
                let mut json = String::new();
                $crate::write::model(this, &mut json)?;
                Ok(json)
            }

            /// The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
            /// there are any, under extra.
            fn to_dict<'py>(
                this: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::types::PyDict>> {
                $crate::model::to_dict(this)
            }

            /// Members that the specification does not show, by name.
            #[getter]
            fn extra<'py>(
                this: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::types::PyMappingProxy>> {
                $crate::model::extra(this)
            }

            #[classattr]
            fn __match_args__(
                py: pyo3::Python<'_>,
            ) -> pyo3::PyResult<pyo3::Bound<'_, pyo3::types::PyTuple>> {
                let names = <Self as $crate::model::Model>::FIELDS.iter().map(|field| field.name);
                pyo3::types::PyTuple::new(py, names.collect::<Vec<_>>())
            }

            #[classattr]
            fn __dealkit_fields__(
                py: pyo3::Python<'_>,
            ) -> pyo3::PyResult<pyo3::Bound<'_, pyo3::types::PyTuple>> {
                $crate::model::statement::<Self>(py)
            }

            #[pyo3(signature = (**changes))]
            fn __replace__<'py>(
                this: &pyo3::Bound<'py, Self>,
                changes: Option<&pyo3::Bound<'py, pyo3::types::PyDict>>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, Self>> {
                $crate::model::replace(this, changes)
            }

            fn __richcmp__(
                this: &pyo3::Bound<'_, Self>,
                other: &pyo3::Bound<'_, pyo3::PyAny>,
                operation: pyo3::basic::CompareOp,
            ) -> pyo3::PyResult<pyo3::Py<pyo3::PyAny>> {
                $crate::model::compare(this, other, operation)
            }

            fn __hash__(this: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<isize> {
                $crate::model::hash(this)
            }

            fn __repr__(this: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<String> {
                $crate::model::repr(this)
            }

            fn _repr_html_<'py>(
                this: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::PyAny>> {
                $crate::model::html(this)
            }

            #[allow(clippy::type_complexity, reason = "the form that pickle asks for")]
            fn __reduce__<'py>(
                this: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<(
                pyo3::Bound<'py, pyo3::PyAny>,
                (pyo3::Bound<'py, pyo3::types::PyString>,),
            )> {
                $crate::model::reduce(this)
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
    };
}
pub(crate) use models;

/// The name of an attribute: `r#type` is `type` in Python.
pub(crate) const fn attribute(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// A table for notebooks.
pub(crate) fn html<'py, M: Model>(this: &Bound<'py, M>) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    py.import("dealkit._html")?.getattr("table")?.call1((this,))
}
