//! Python's own types that native code makes and reads, each by C code alone; see [`gil`](crate::python::gil).

#![allow(
    clippy::disallowed_methods,
    reason = "what is called here is C code, on objects whose exact type is known"
)]

use crate::python::ascii;
use chrono::{DateTime, Datelike as _, NaiveDate, Timelike as _, Utc};
use dealkit::Role;

use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{
        PyDate, PyDateAccess, PyDateTime, PyDict, PyInt, PyMappingProxy, PyString, PyTimeAccess,
        PyType, PyTzInfo, PyTzInfoAccess,
    },
};

/// The objects that Python code has imported, since an import runs bytecode.
struct Imported {
    decimal: Py<PyType>,
    context: Py<PyAny>,
    roles: Py<PyDict>,
}

static IMPORTED: PyOnceLock<Imported> = PyOnceLock::new();

/// Stores the class Decimal, a context of decimal arithmetic that loses no digit of a document's numbers, and the
/// members of the enum Role by their values.
pub(crate) fn prepare(
    decimal: Bound<'_, PyType>,
    context: Bound<'_, PyAny>,
    roles: Bound<'_, PyDict>,
) {
    let py = decimal.py();
    IMPORTED.get_or_init(py, || Imported {
        decimal: decimal.unbind(),
        context: context.unbind(),
        roles: roles.unbind(),
    });
}

fn imported(py: Python<'_>) -> PyResult<&Imported> {
    IMPORTED
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("dealkit._models.classes has not been imported"))
}

/// The name of an object's type, for error texts, which never show its value.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "another type".to_owned(), |name| name.to_string())
}

pub(crate) fn role(py: Python<'_>, role: Role) -> PyResult<Bound<'_, PyAny>> {
    imported(py)?
        .roles
        .bind(py)
        .as_any()
        .get_item(role.as_str())
}

/// Whether the value is exactly a Decimal, and not of a subclass made by the caller.
pub(crate) fn is_decimal(value: &Bound<'_, PyAny>) -> bool {
    imported(value.py())
        .is_ok_and(|imported| value.get_type().is(imported.decimal.bind(value.py())))
}

/// The Decimal of a number's text: no digit changes.
pub(crate) fn decimal<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    imported(py)?.decimal.bind(py).call1((text,))
}

/// Makes Decimals from the numbers in documents, all of which fit the context. Faster than the class, which first
/// looks up the caller's context. A context belongs to one thread.
pub(crate) struct MakeDecimal(Py<PyAny>);

/// The maker of Decimals for this thread.
pub(crate) fn make_decimal(py: Python<'_>) -> PyResult<MakeDecimal> {
    let context = imported(py)?.context.bind(py).call_method0("copy")?;
    Ok(MakeDecimal(context.getattr("create_decimal")?.unbind()))
}

impl MakeDecimal {
    /// The Decimal of a number's text: no digit changes.
    pub(crate) fn of(&self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        self.0.call1(py, (ascii::string(py, text),))
    }
}

/// The text of a str, if it is one and has no lone surrogates.
pub(crate) fn str_text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast::<PyString>().ok()?.to_str().ok()
}

pub(crate) fn decimal_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_str()?.to_owned())
}

pub(crate) fn small_int(py: Python<'_>, integer: i64) -> Bound<'_, PyInt> {
    let Ok(int) = integer.into_pyobject(py);
    int
}

/// The int of a number's text; `None` if it has more digits than Python converts.
pub(crate) fn int<'py>(py: Python<'py>, text: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match text.parse::<i64>() {
        Ok(small) => Ok(Some(small_int(py, small).into_any())),
        Err(_) => unless_value_error(py, py.get_type::<PyInt>().call1((text,))),
    }
}

/// `None` instead of a ValueError. Long numbers take time, so Python checks for signals while it converts them, and
/// an exception from a signal handler must not be mistaken for a ValueError.
fn unless_value_error<T>(py: Python<'_>, result: PyResult<T>) -> PyResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The digits of an int; `None` if there are more than Python writes.
pub(crate) fn int_text(value: &Bound<'_, PyInt>) -> PyResult<Option<String>> {
    if let Ok(small) = value.extract::<i64>() {
        return Ok(Some(small.to_string()));
    }
    // For a subclass, such as an IntEnum, the int counts, not its own text.
    let digits = value
        .py()
        .get_type::<PyInt>()
        .call_method1("__repr__", (value,));
    unless_value_error(value.py(), digits.and_then(|digits| digits.extract()))
}

pub(crate) fn date(py: Python<'_>, day: NaiveDate) -> PyResult<Bound<'_, PyDate>> {
    PyDate::new(py, day.year(), day.month() as u8, day.day() as u8)
}

pub(crate) fn day(date: &Bound<'_, PyDate>) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(
        date.get_year(),
        date.get_month().into(),
        date.get_day().into(),
    )
}

/// A moment as an aware datetime in UTC, as exactly as a datetime can hold it; see [`is_exact`].
pub(crate) fn timestamp(py: Python<'_>, moment: DateTime<Utc>) -> PyResult<Bound<'_, PyDateTime>> {
    let utc = PyTzInfo::utc(py)?.to_owned();
    let (day, time) = (moment.naive_utc().date(), moment.time());
    PyDateTime::new(
        py,
        day.year(),
        day.month() as u8,
        day.day() as u8,
        time.hour() as u8,
        time.minute() as u8,
        time.second() as u8,
        microsecond(moment),
        Some(&utc),
    )
}

/// Whether a datetime can hold a moment exactly.
pub(crate) fn is_exact(moment: DateTime<Utc>) -> bool {
    microsecond(moment) * 1_000 == moment.timestamp_subsec_nanos()
}

/// A leap second is counted on from the last second, past what a datetime can hold.
fn microsecond(moment: DateTime<Utc>) -> u32 {
    moment.timestamp_subsec_micros().min(999_999)
}

/// The moment of a datetime in UTC; `None` for any other, whose offset only bytecode can tell.
pub(crate) fn moment(value: &Bound<'_, PyDateTime>) -> Option<DateTime<Utc>> {
    let zone = value.get_tzinfo()?;
    if !PyTzInfo::utc(value.py()).is_ok_and(|utc| zone.is(utc)) {
        return None;
    }
    let day = NaiveDate::from_ymd_opt(
        value.get_year(),
        value.get_month().into(),
        value.get_day().into(),
    )?;
    let moment = day.and_hms_micro_opt(
        value.get_hour().into(),
        value.get_minute().into(),
        value.get_second().into(),
        value.get_microsecond(),
    )?;
    Some(moment.and_utc())
}

/// A str from WTF-8: UTF-8 with lone surrogates, which a Python str can hold.
pub(crate) fn text<'py>(py: Python<'py>, wtf8: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let bytes = pyo3::types::PyBytes::new(py, wtf8);
    PyString::from_encoded_object(&bytes, Some(c"utf-8"), Some(c"surrogatepass"))
}

/// A str as WTF-8: with lone surrogates, which UTF-8 cannot represent.
pub(crate) fn wtf8(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
    bytes.extract()
}

/// The dict behind a read-only mapping.
pub(crate) fn mapping<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let copy = PyDict::new(value.py());
    copy.update(value.cast::<PyMappingProxy>()?.as_mapping())?;
    Ok(copy)
}
