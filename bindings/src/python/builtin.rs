//! Makes and reads objects of Python's built-in types. Runs only C code of CPython, no bytecode: see [`gil`](crate::python::gil).

#![allow(
    clippy::disallowed_methods,
    reason = "these calls run C code, on objects whose exact type is known"
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

/// Objects that Python code imports and passes in: an import runs bytecode, which native code must not do (see `gil`).
struct Imports {
    decimal_class: Py<PyType>,
    decimal_context: Py<PyAny>,
    roles: Py<PyDict>,
}

static IMPORTS: PyOnceLock<Imports> = PyOnceLock::new();

/// Stores the class Decimal, a decimal context that is precise enough for every number in a document, and the members of the
/// enum Role by their values.
pub(crate) fn store_imports(
    decimal: Bound<'_, PyType>,
    context: Bound<'_, PyAny>,
    roles: Bound<'_, PyDict>,
) {
    let py = decimal.py();
    IMPORTS.get_or_init(py, || Imports {
        decimal_class: decimal.unbind(),
        decimal_context: context.unbind(),
        roles: roles.unbind(),
    });
}

fn imports(py: Python<'_>) -> PyResult<&Imports> {
    IMPORTS
        .get(py)
        .ok_or_else(|| PyRuntimeError::new_err("dealkit._models.classes has not been imported"))
}

/// Returns the name of an object's type, for error messages, which never contain the object's value.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value
        .get_type()
        .name()
        .map_or_else(|_| "another type".to_owned(), |name| name.to_string())
}

/// Returns a member of the enum Role.
pub(crate) fn role_member(py: Python<'_>, role: Role) -> PyResult<Bound<'_, PyAny>> {
    imports(py)?.roles.bind(py).as_any().get_item(role.as_str())
}

/// True if the value's class is Decimal itself, not a subclass, whose methods may run bytecode.
pub(crate) fn is_decimal(value: &Bound<'_, PyAny>) -> bool {
    imports(value.py())
        .is_ok_and(|imports| value.get_type().is(imports.decimal_class.bind(value.py())))
}

/// Makes a Decimal with exactly the digits of the text.
pub(crate) fn make_decimal<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    imports(py)?.decimal_class.bind(py).call1((text,))
}

/// Makes Decimals from the numbers in documents. Faster than the class Decimal, which first looks up the thread's decimal context.
///
/// A factory has its own decimal context. Threads must not share a decimal context, so each factory belongs to one thread.
pub(crate) struct DecimalFactory(Py<PyAny>);

impl DecimalFactory {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let context = imports(py)?.decimal_context.bind(py).call_method0("copy")?;
        Ok(Self(context.getattr("create_decimal")?.unbind()))
    }

    /// Makes a Decimal with exactly the digits of the text.
    pub(crate) fn make(&self, py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
        self.0.call1(py, (ascii::new_str(py, text),))
    }
}

/// Returns the text if the value is a str that UTF-8 can encode.
pub(crate) fn as_str<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast::<PyString>().ok()?.to_str().ok()
}

/// Converts a Decimal to text. Exponents are written as Python writes them.
pub(crate) fn decimal_to_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.str()?.to_str()?.to_owned())
}

pub(crate) fn make_small_int(py: Python<'_>, integer: i64) -> Bound<'_, PyInt> {
    let Ok(int) = integer.into_pyobject(py);
    int
}

/// Makes an int from decimal digits. Returns `None` if the digits exceed Python's limit on their number.
pub(crate) fn parse_int<'py>(py: Python<'py>, text: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match text.parse::<i64>() {
        Ok(small) => Ok(Some(make_small_int(py, small).into_any())),
        Err(_) => catch_value_error(py, py.get_type::<PyInt>().call1((text,))),
    }
}

/// Converts a ValueError to `None`. Other exceptions stay errors: Python checks for signals while it converts a long number, and a
/// signal handler may raise an exception.
fn catch_value_error<T>(py: Python<'_>, result: PyResult<T>) -> PyResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Converts an int to decimal digits. Returns `None` if the digits exceed Python's limit on their number.
pub(crate) fn int_to_text(value: &Bound<'_, PyInt>) -> PyResult<Option<String>> {
    if let Ok(small) = value.extract::<i64>() {
        return Ok(Some(small.to_string()));
    }
    // Not `str(value)`: in a subclass such as IntEnum, `str` may return a name instead of digits.
    let digits = value
        .py()
        .get_type::<PyInt>()
        .call_method1("__repr__", (value,));
    catch_value_error(value.py(), digits.and_then(|digits| digits.extract()))
}

pub(crate) fn make_date(py: Python<'_>, day: NaiveDate) -> PyResult<Bound<'_, PyDate>> {
    PyDate::new(py, day.year(), day.month() as u8, day.day() as u8)
}

/// Converts a Python date.
pub(crate) fn to_naive_date(date: &Bound<'_, PyDate>) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(
        date.get_year(),
        date.get_month().into(),
        date.get_day().into(),
    )
}

/// Makes an aware datetime in UTC. It may lose precision: see [`has_whole_microseconds`].
pub(crate) fn make_datetime(
    py: Python<'_>,
    timestamp: DateTime<Utc>,
) -> PyResult<Bound<'_, PyDateTime>> {
    let utc = PyTzInfo::utc(py)?.to_owned();
    let (day, time) = (timestamp.naive_utc().date(), timestamp.time());
    PyDateTime::new(
        py,
        day.year(),
        day.month() as u8,
        day.day() as u8,
        time.hour() as u8,
        time.minute() as u8,
        time.second() as u8,
        microsecond(timestamp),
        Some(&utc),
    )
}

/// True if a datetime, which counts microseconds, can hold the timestamp exactly.
pub(crate) fn has_whole_microseconds(timestamp: DateTime<Utc>) -> bool {
    microsecond(timestamp) * 1_000 == timestamp.timestamp_subsec_nanos()
}

/// Returns the microseconds of the second. In a leap second, chrono counts microseconds from a million on. A datetime cannot hold
/// such a number: this returns the last microsecond, 999,999, instead.
fn microsecond(timestamp: DateTime<Utc>) -> u32 {
    timestamp.timestamp_subsec_micros().min(999_999)
}

/// Converts a datetime in UTC. Returns `None` for another time zone, because only bytecode can compute its offset.
pub(crate) fn to_utc(value: &Bound<'_, PyDateTime>) -> Option<DateTime<Utc>> {
    let zone = value.get_tzinfo()?;
    if !PyTzInfo::utc(value.py()).is_ok_and(|utc| zone.is(utc)) {
        return None;
    }
    let day = NaiveDate::from_ymd_opt(
        value.get_year(),
        value.get_month().into(),
        value.get_day().into(),
    )?;
    let timestamp = day.and_hms_micro_opt(
        value.get_hour().into(),
        value.get_minute().into(),
        value.get_second().into(),
        value.get_microsecond(),
    )?;
    Some(timestamp.and_utc())
}

/// Makes a str from WTF-8, which is UTF-8 that may contain unpaired surrogates, as a Python str may.
pub(crate) fn str_from_wtf8<'py>(py: Python<'py>, wtf8: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let bytes = pyo3::types::PyBytes::new(py, wtf8);
    PyString::from_encoded_object(&bytes, Some(c"utf-8"), Some(c"surrogatepass"))
}

/// Encodes a str, which may contain unpaired surrogates, as WTF-8.
pub(crate) fn str_to_wtf8(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
    bytes.extract()
}

/// Copies a read-only mapping into a dict.
pub(crate) fn copy_mapping<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let copy = PyDict::new(value.py());
    copy.update(value.cast::<PyMappingProxy>()?.as_mapping())?;
    Ok(copy)
}
