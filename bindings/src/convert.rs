//! Single values: from what the core read to Python objects, and from arguments to what a model holds.

use std::{borrow::Cow, collections::BTreeMap};

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};
use dealkit::{Json, Role, scalar};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{
        PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDict, PyInt, PyList, PyMapping,
        PyMappingProxy, PyString, PyTuple, PyType, PyTzInfo,
    },
};

use crate::{
    model::{Beyond, Field, Kind, Model, Need},
    write,
};

/// The name of an object's type, for error texts; its value never shows in them.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "another type".to_owned(), |name| name.to_string())
}

/// A document: bytes, or a string in UTF-8.
pub(crate) fn document<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(match text.to_str() {
            Ok(text) => Cow::Borrowed(text.as_bytes()),
            // Half of a surrogate pair: the reader will say that this is no JSON.
            Err(_) => {
                let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
                Cow::Owned(bytes.extract()?)
            }
        });
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Cow::Owned(bytes.to_vec()));
    }
    Err(PyTypeError::new_err(format!(
        "a JSON document must be bytes or str, not {}",
        type_name(value)
    )))
}

/// A role as a member of the Python enum.
pub(crate) fn role(py: Python<'_>, role: Role) -> PyResult<Bound<'_, PyAny>> {
    static ROLES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let roles = ROLES.get_or_try_init(py, || {
        let roles = PyDict::new(py);
        for role in py.import("dealkit.enums")?.getattr("Role")?.try_iter()? {
            let role = role?;
            roles.set_item(role.getattr("value")?, role)?;
        }
        PyResult::Ok(roles.unbind())
    })?;
    roles.bind(py).as_any().get_item(role.as_str())
}

fn decimal_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    DECIMAL.import(py, "decimal", "Decimal")
}

/// A decimal, by way of its text: no digit changes.
pub(crate) fn decimal(py: Python<'_>, value: dealkit::Decimal) -> PyResult<Bound<'_, PyAny>> {
    decimal_type(py)?.call1((value.to_string(),))
}

pub(crate) fn date(py: Python<'_>, date: NaiveDate) -> PyResult<Bound<'_, PyAny>> {
    let (month, day) = (date.month() as u8, date.day() as u8);
    Ok(PyDate::new(py, date.year(), month, day)?.into_any())
}

/// A moment as an aware datetime in UTC, and its exact JSON where a datetime cannot hold all of it.
pub(crate) fn timestamp(
    py: Python<'_>,
    moment: DateTime<Utc>,
) -> PyResult<(Bound<'_, PyAny>, Option<Json>)> {
    // A leap second counts on from the last second; a datetime ends before it does.
    let microsecond = (moment.nanosecond() / 1_000).min(999_999);
    let value = PyDateTime::new(
        py,
        moment.year(),
        moment.month() as u8,
        moment.day() as u8,
        moment.hour() as u8,
        moment.minute() as u8,
        moment.second() as u8,
        microsecond,
        Some(&PyTzInfo::utc(py)?.to_owned()),
    )?;
    let is_exact = moment.nanosecond() == microsecond * 1_000;
    let exact = (!is_exact).then(|| Json::from(scalar::timestamp_text(&moment)));
    Ok((value.into_any(), exact))
}

/// A datetime as the core's timestamp.
pub(crate) fn moment(value: &Bound<'_, PyAny>) -> PyResult<DateTime<Utc>> {
    let text: String = value.call_method0("isoformat")?.extract()?;
    scalar::timestamp(&text)
        .ok_or_else(|| PyValueError::new_err("the datetime cannot be written as RFC 3339"))
}

/// Any JSON value as Python objects: ints, Decimals, strings, booleans, None, lists and dicts.
pub(crate) fn json<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS
        .import(py, "dealkit._json", "loads")?
        .call1((json.as_str(),))
}

/// A JSON object as a read-only mapping.
pub(crate) fn json_object<'py>(py: Python<'py>, object: &Json) -> PyResult<Bound<'py, PyAny>> {
    let dict = json(py, object)?.cast_into::<PyDict>()?;
    Ok(PyMappingProxy::new(py, dict.as_mapping()).into_any())
}

/// Members as a dict of Python objects.
pub(crate) fn members<'py>(
    py: Python<'py>,
    members: &BTreeMap<String, Json>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in members {
        dict.set_item(name, json(py, value)?)?;
    }
    Ok(dict)
}

pub(crate) fn empty_mapping(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let proxy = PyMappingProxy::new(py, PyDict::new(py).as_mapping());
    Ok(proxy.into_any().unbind())
}

/// The value of a field as plain containers hold it: models as dicts, tuples as lists.
pub(crate) fn plain<'py>(kind: Kind, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_none() {
        return Ok(value.clone());
    }
    let py = value.py();
    match kind {
        Kind::One(_) => value.call_method0("to_dict"),
        Kind::Many(_) => {
            let items = value.try_iter()?.map(|item| item?.call_method0("to_dict"));
            let items = items.collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
        Kind::Strings | Kind::Object => value.call_method0("copy"),
        _ => Ok(value.clone()),
    }
}

/// Checks an argument of a model's class and makes of it what the field holds.
pub(crate) fn argument(
    model: &str,
    field: &Field,
    at: usize,
    value: &Bound<'_, PyAny>,
    beyond: &mut Beyond,
) -> PyResult<Py<PyAny>> {
    let py = value.py();
    let wrong = |expected: &str| {
        let (name, found) = (field.name, type_name(value));
        PyTypeError::new_err(format!("{model}.{name} must be {expected}, not {found}"))
    };
    let unfit = |why: &str| PyValueError::new_err(format!("{model}.{} {why}", field.name));
    if value.is_none() && field.need != Need::Required {
        return field.nothing(py);
    }
    Ok(match field.kind {
        Kind::Text | Kind::Word => {
            let text = value.cast::<PyString>().map_err(|_| wrong("a str"))?;
            let text = text
                .to_str()
                .map_err(|_| unfit("holds half of a surrogate pair, which no JSON text can"))?;
            PyString::new(py, text).into_any().unbind()
        }
        Kind::Role => {
            let text = value
                .cast::<PyString>()
                .map_err(|_| wrong("a Role or a str"))?;
            let text = text
                .to_str()
                .map_err(|_| unfit("holds half of a surrogate pair, which no JSON text can"))?;
            match text.parse::<Role>() {
                Ok(known) => role(py, known)?.unbind(),
                Err(_) => PyString::new(py, text).into_any().unbind(),
            }
        }
        Kind::Boolean => value
            .cast::<PyBool>()
            .map_err(|_| wrong("a bool"))?
            .clone()
            .into_any()
            .unbind(),
        Kind::Integer => {
            if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
                return Err(wrong("an int"));
            }
            let integer: i64 = value.extract().map_err(|_| unfit("must fit 64 bits"))?;
            integer.into_pyobject(py)?.into_any().unbind()
        }
        Kind::Decimal => {
            let is_integer = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
            if !is_integer && !value.is_instance(decimal_type(py)?)? {
                return Err(wrong("a Decimal or an int"));
            }
            let value = value
                .str()?
                .to_str()?
                .parse::<dealkit::Decimal>()
                .map_err(|_| unfit("must be a finite number of at most 28 digits"))?;
            decimal(py, value)?.unbind()
        }
        Kind::Date => {
            if !value.is_instance_of::<PyDate>() || value.is_instance_of::<PyDateTime>() {
                return Err(wrong("a date"));
            }
            value.clone().unbind()
        }
        Kind::Timestamp => {
            if !value.is_instance_of::<PyDateTime>() {
                return Err(wrong("a datetime"));
            }
            if value.call_method0("utcoffset")?.is_none() {
                return Err(unfit(
                    "must be an aware datetime; give it a tzinfo such as timezone.utc",
                ));
            }
            timestamp(py, moment(value)?)?.0.unbind()
        }
        Kind::Object => {
            if value.cast::<PyMapping>().is_err() {
                return Err(wrong("a mapping"));
            }
            let json = write::any(value)
                .map_err(|why| unfit(&format!("cannot be written as JSON: {why}")))?;
            let value = json_object(py, &json)?.unbind();
            beyond.exact.push((at, json));
            value
        }
        Kind::Strings => {
            let mapping = value.cast::<PyMapping>().map_err(|_| wrong("a mapping"))?;
            let dict = PyDict::new(py);
            dict.update(mapping)?;
            for (name, value) in &dict {
                if !is_text(&name) || !is_text(&value) {
                    return Err(wrong(
                        "a mapping of str to str, without half surrogate pairs",
                    ));
                }
            }
            PyMappingProxy::new(py, dict.as_mapping())
                .into_any()
                .unbind()
        }
        Kind::One(class) => {
            if !(class.is)(value) {
                return Err(wrong(&format!("of type {}", class.name)));
            }
            value.clone().unbind()
        }
        Kind::Many(class) => {
            let expected = || wrong(&format!("an iterable of {}", class.name));
            let mut items = Vec::new();
            for item in value.try_iter().map_err(|_| expected())? {
                let item = item?;
                if !(class.is)(&item) {
                    let (name, found) = (field.name, type_name(&item));
                    return Err(PyTypeError::new_err(format!(
                        "{model}.{name}[{}] must be of type {}, not {found}",
                        items.len(),
                        class.name
                    )));
                }
                items.push(item);
            }
            PyTuple::new(py, items)?.into_any().unbind()
        }
    })
}

/// Whether the value is a string that JSON can hold.
fn is_text(value: &Bound<'_, PyAny>) -> bool {
    let text = value.cast::<PyString>();
    text.is_ok_and(|text| text.to_str().is_ok())
}

/// Checks the argument `extra` of a model's class: members that the model does not know.
pub(crate) fn unknown_members<M: Model>(
    value: &Bound<'_, PyAny>,
) -> PyResult<BTreeMap<String, Json>> {
    let model = M::NAME;
    if value.is_none() {
        return Ok(BTreeMap::new());
    }
    let mapping = value.cast::<PyMapping>().map_err(|_| {
        let found = type_name(value);
        PyTypeError::new_err(format!("{model}.extra must be a mapping, not {found}"))
    })?;
    let dict = PyDict::new(value.py());
    dict.update(mapping)?;
    let mut members = BTreeMap::new();
    for (name, value) in &dict {
        let name: String = name.extract().map_err(|_| {
            PyTypeError::new_err(format!("{model}.extra must have names that are str"))
        })?;
        if M::FIELDS.iter().any(|field| field.wire == name) {
            return Err(PyValueError::new_err(format!(
                "{model}.extra must not hold {name}, which the model has a field for"
            )));
        }
        let json = write::any(&value).map_err(|why| {
            PyValueError::new_err(format!("{model}.extra cannot be written as JSON: {why}"))
        })?;
        members.insert(name, json);
    }
    Ok(members)
}
