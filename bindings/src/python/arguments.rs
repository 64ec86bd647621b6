//! Converts arguments from Python. Each error message names the invalid argument.
//!
//! Conversions that run Python code (`__float__`, the methods of a mapping) happen earlier, in the Python package.

use std::{borrow::Cow, ffi::OsString, fmt, path::PathBuf, time::Duration};

use dealkit::{
    Unreadable,
    ledger::{Ledger, LedgerError},
};
use pyo3::{
    PyClass,
    prelude::*,
    types::{PyBool, PyByteArray, PyBytes, PyDict, PyInt, PyList, PyString},
};

use crate::python::{
    builtin::{as_str, str_to_wtf8, type_name},
    failure::{Failure, Result},
};

/// The type of a setting: a kind of number, or a bool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberKind {
    Seconds,
    PerSecond,
    Count,
    Bool,
}

impl NumberKind {
    fn description(self) -> &'static str {
        match self {
            NumberKind::Seconds => "a number of seconds",
            NumberKind::PerSecond => "a number of calls a second",
            NumberKind::Count => "a whole number, 0 or more",
            NumberKind::Bool => "a bool",
        }
    }
}

/// Converts a str. Rejects other types, and text that UTF-8 cannot encode.
pub(crate) fn parse_text(name: impl fmt::Display, value: &Bound<'_, PyAny>) -> Result<String> {
    let text = value.cast::<PyString>().map_err(|_| {
        let actual_type = type_name(value);
        Failure::Type(format!("{name} must be a str, not {actual_type}"))
    })?;
    let text = text.to_str().map_err(|_| {
        Failure::Value(format!(
            "{name} contains an unpaired surrogate, which cannot be sent"
        ))
    })?;
    Ok(text.to_owned())
}

/// Converts a path: a str in which surrogates stand for bytes that are not UTF-8, as in Python's `os.fsdecode`.
fn parse_path(name: &str, value: &Bound<'_, PyAny>) -> Result<PathBuf> {
    value.extract::<OsString>().map(PathBuf::from).map_err(|_| {
        Failure::Value(format!(
            "{name} contains an unpaired surrogate, which no path can contain"
        ))
    })
}

/// Parses the path or the URL of a ledger. A path need not be valid UTF-8.
pub(crate) fn parse_ledger(path: OsString) -> Result<Ledger, LedgerError> {
    let ledger: Ledger = path.to_string_lossy().parse()?;
    let is_file = ledger.path().is_some();
    Ok(if is_file {
        Ledger::sqlite(path)
    } else {
        ledger
    })
}

/// Returns the bytes of a JSON document, which is a str, bytes or bytearray.
pub(crate) fn document_bytes<'a>(value: &'a Bound<'_, PyAny>) -> Result<Cow<'a, [u8]>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(match text.to_str() {
            Ok(text) => text.as_bytes().into(),
            // An unpaired surrogate: the core reports that this is not JSON.
            Err(_) => str_to_wtf8(text)?.into(),
        });
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(bytes.to_vec().into());
    }
    let actual_type = type_name(value);
    Err(Failure::Type(format!(
        "a JSON document must be bytes or str, not {actual_type}"
    )))
}

/// Converts a list of pairs `(name, value)`, both of them str. `argument` is the name of the argument.
pub(crate) fn parse_pairs(
    argument: &str,
    pairs: &Bound<'_, PyList>,
) -> Result<Vec<(String, String)>> {
    let pairs = pairs.iter().map(|pair| {
        let (name, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let name = parse_text(format_args!("a name in {argument}"), &name)?;
        let value = parse_text(format_args!("the value of {name} in {argument}"), &value)?;
        Ok((name, value))
    });
    pairs.collect()
}

/// Parses the option `on_unreadable`: an optional field that cannot be read is an error, or is skipped.
pub(crate) fn parse_unreadable(value: &Bound<'_, PyAny>) -> Result<Unreadable> {
    match as_str(value) {
        Some("raise") => Ok(Unreadable::Error),
        Some("skip") => Ok(Unreadable::Skip),
        _ => Err(Failure::setting(
            "on_unreadable",
            r#"must be "raise" or "skip""#,
        )),
    }
}

/// Converts a number of seconds, which must be positive.
pub(crate) fn parse_duration(name: &str, seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(Failure::setting(
            name,
            "must be a number of seconds, more than zero and finite",
        )),
    }
}

/// Calls a builder's setter for each setting that is not `None`.
macro_rules! apply_settings {
    ($builder:expr, $( $setter:ident: $setting:expr, )+) => {{
        let mut builder = $builder;
        $( if let Some(value) = $setting { builder = builder.$setter(value); } )+
        builder
    }};
}
pub(crate) use apply_settings;

/// A dict of settings by name. Python's None means the default.
pub(crate) struct Settings<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl<'py> Settings<'_, 'py> {
    fn get(&self, name: &str) -> Result<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>> {
        self.get(name)?
            .map(|value| parse_text(name, &value))
            .transpose()
    }

    pub(crate) fn path(&self, name: &str) -> Result<Option<PathBuf>> {
        let path = self.get(name)?.map(|value| parse_path(name, &value));
        path.transpose()
    }

    /// Returns a setting that is a list of paths. The list is empty if the setting is missing.
    pub(crate) fn paths(&self, name: &str) -> Result<Vec<PathBuf>> {
        let Some(value) = self.get(name)? else {
            return Ok(Vec::new());
        };
        let paths = value.cast::<PyList>().map_err(PyErr::from)?;
        paths.iter().map(|value| parse_path(name, &value)).collect()
    }

    pub(crate) fn pairs(&self, name: &str) -> Result<Vec<(String, String)>> {
        match self.get(name)? {
            Some(value) => parse_pairs(name, value.cast::<PyList>().map_err(PyErr::from)?),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn unreadable(&self) -> Result<Option<Unreadable>> {
        let value = self.get("on_unreadable")?;
        value.as_ref().map(parse_unreadable).transpose()
    }

    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>> {
        self.number(name, NumberKind::Seconds)?
            .map(|seconds| parse_duration(name, seconds))
            .transpose()
    }

    /// Returns a setting that is a number of seconds, zero or more.
    pub(crate) fn delay(&self, name: &str) -> Result<Option<Duration>> {
        let seconds = self.number(name, NumberKind::Seconds)?;
        let delay = seconds.map(Duration::try_from_secs_f64).transpose();
        delay.map_err(|_| {
            Failure::setting(name, "must be a number of seconds, zero or more and finite")
        })
    }

    pub(crate) fn object<T: PyClass>(&self, name: &str) -> Result<Option<Bound<'py, T>>> {
        Ok(self
            .get(name)?
            .and_then(|value| value.cast_into::<T>().ok()))
    }

    pub(crate) fn number<T>(&self, name: &str, kind: NumberKind) -> Result<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.get(name)? else {
            return Ok(None);
        };
        // In Python, a bool is also an int. No number setting accepts a bool.
        let is_bool = value.is_instance_of::<PyBool>();
        let is_right_type = match kind {
            NumberKind::Count => !is_bool && value.is_instance_of::<PyInt>(),
            NumberKind::Seconds | NumberKind::PerSecond => {
                !is_bool && !value.is_instance_of::<PyString>()
            }
            NumberKind::Bool => is_bool,
        };
        let expected = kind.description();
        match value.extract() {
            Ok(setting) if is_right_type => Ok(Some(setting)),
            // The message does not contain the value, which may be secret.
            Err(_) if is_right_type && value.is_instance_of::<PyInt>() => Err(Failure::setting(
                name,
                &format!("must be {expected}, not one so small or so large"),
            )),
            _ => {
                let actual_type = type_name(&value);
                Err(Failure::Type(format!(
                    "{name} must be {expected}, not {actual_type}"
                )))
            }
        }
    }
}
