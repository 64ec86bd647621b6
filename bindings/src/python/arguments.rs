//! Arguments that Python code hands over, with error texts that name the one that is wrong.
//!
//! Arguments with conversions of their own in Python (`__float__`, a mapping's methods) have been converted there.

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
    builtin::{str_text, type_name, wtf8},
    failure::{Failure, Outcome},
};

/// What a number or a bool must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Seconds,
    PerSecond,
    Count,
    Bool,
}

impl Expected {
    fn name(self) -> &'static str {
        match self {
            Expected::Seconds => "a number of seconds",
            Expected::PerSecond => "a number of calls a second",
            Expected::Count => "a whole number, 0 or more",
            Expected::Bool => "a bool",
        }
    }
}

pub(crate) fn text(name: impl fmt::Display, value: &Bound<'_, PyAny>) -> Outcome<String> {
    let text = value.cast::<PyString>().map_err(|_| {
        let found = type_name(value);
        Failure::Type(format!("{name} must be a str, not {found}"))
    })?;
    let text = text.to_str().map_err(|_| {
        Failure::Value(format!(
            "{name} contains an unpaired surrogate, which cannot be sent"
        ))
    })?;
    Ok(text.to_owned())
}

/// A path as Python writes it, which need not be valid text: a str with surrogates for bytes that are not UTF-8.
pub(crate) fn path(name: &str, value: &Bound<'_, PyAny>) -> Outcome<PathBuf> {
    value.extract::<OsString>().map(PathBuf::from).map_err(|_| {
        Failure::Value(format!(
            "{name} contains an unpaired surrogate, which is in no path"
        ))
    })
}

/// Parses the path or the URL of a ledger. A path need not be valid text.
pub(crate) fn ledger(name: OsString) -> Result<Ledger, LedgerError> {
    let ledger: Ledger = name.to_string_lossy().parse()?;
    let is_file = ledger.path().is_some();
    Ok(if is_file {
        Ledger::sqlite(name)
    } else {
        ledger
    })
}

/// A JSON document: bytes, or a str.
pub(crate) fn document<'a>(value: &'a Bound<'_, PyAny>) -> Outcome<Cow<'a, [u8]>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(match text.to_str() {
            Ok(text) => text.as_bytes().into(),
            // A lone surrogate: the core will say that this is not JSON.
            Err(_) => wtf8(text)?.into(),
        });
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(bytes.to_vec().into());
    }
    let found = type_name(value);
    Err(Failure::Type(format!(
        "a JSON document must be bytes or str, not {found}"
    )))
}

/// Names and values, all of which are text.
pub(crate) fn pairs(what: &str, pairs: &Bound<'_, PyList>) -> Outcome<Vec<(String, String)>> {
    let pairs = pairs.iter().map(|pair| {
        let (name, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let name = text(format_args!("a name in {what}"), &name)?;
        let value = text(format_args!("the value of {name} in {what}"), &value)?;
        Ok((name, value))
    });
    pairs.collect()
}

/// What becomes of an optional field that cannot be read: `"raise"` or `"skip"`.
pub(crate) fn unreadable(given: &Bound<'_, PyAny>) -> Outcome<Unreadable> {
    match str_text(given) {
        Some("raise") => Ok(Unreadable::Error),
        Some("skip") => Ok(Unreadable::Skip),
        _ => Err(Failure::Setting(
            "on_unreadable",
            r#"must be "raise" or "skip""#.to_owned(),
        )),
    }
}

/// A number of seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> Outcome<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(Failure::Config(format!(
            "{name} must be a number of seconds, more than zero and finite"
        ))),
    }
}

/// Calls the setters of a builder whose settings are there.
macro_rules! set {
    ($builder:expr, $( $setter:ident: $setting:expr, )+) => {{
        let mut builder = $builder;
        $( if let Some(value) = $setting { builder = builder.$setter(value); } )+
        builder
    }};
}
pub(crate) use set;

/// Settings by name; None asks for the default.
pub(crate) struct Settings<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl<'py> Settings<'_, 'py> {
    fn get(&self, name: &str) -> Outcome<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    pub(crate) fn text(&self, name: &str) -> Outcome<Option<String>> {
        self.get(name)?
            .map(|value| self::text(name, &value))
            .transpose()
    }

    pub(crate) fn path(&self, name: &str) -> Outcome<Option<PathBuf>> {
        let path = self.get(name)?.map(|value| self::path(name, &value));
        path.transpose()
    }

    /// A setting that is a list of paths; none where it is not set.
    pub(crate) fn paths(&self, name: &str) -> Outcome<Vec<PathBuf>> {
        let Some(value) = self.get(name)? else {
            return Ok(Vec::new());
        };
        let paths = value.cast::<PyList>().map_err(PyErr::from)?;
        paths.iter().map(|value| path(name, &value)).collect()
    }

    pub(crate) fn pairs(&self, name: &str) -> Outcome<Vec<(String, String)>> {
        match self.get(name)? {
            Some(value) => pairs(name, value.cast::<PyList>().map_err(PyErr::from)?),
            None => Ok(Vec::new()),
        }
    }

    /// What becomes of an optional field that cannot be read.
    pub(crate) fn unreadable(&self) -> Outcome<Option<Unreadable>> {
        let given = self.get("on_unreadable")?;
        given.as_ref().map(unreadable).transpose()
    }

    pub(crate) fn duration(&self, name: &str) -> Outcome<Option<Duration>> {
        self.number(name, Expected::Seconds)?
            .map(|seconds| duration(name, seconds))
            .transpose()
    }

    /// A setting that is a number of seconds, perhaps zero.
    pub(crate) fn delay(&self, name: &str) -> Outcome<Option<Duration>> {
        let seconds = self.number(name, Expected::Seconds)?;
        let delay = seconds.map(Duration::try_from_secs_f64).transpose();
        delay.map_err(|_| {
            Failure::Config(format!(
                "{name} must be a number of seconds, zero or more and finite"
            ))
        })
    }

    pub(crate) fn object<T: PyClass>(&self, name: &str) -> Outcome<Option<Bound<'py, T>>> {
        Ok(self
            .get(name)?
            .and_then(|value| value.cast_into::<T>().ok()))
    }

    pub(crate) fn number<T>(&self, name: &str, expected: Expected) -> Outcome<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py>,
    {
        let Some(value) = self.get(name)? else {
            return Ok(None);
        };
        // A bool is an int in Python, but never meant as a number here.
        let is_bool = value.is_instance_of::<PyBool>();
        let is_right_type = match expected {
            Expected::Count => !is_bool && value.is_instance_of::<PyInt>(),
            Expected::Seconds | Expected::PerSecond => {
                !is_bool && !value.is_instance_of::<PyString>()
            }
            Expected::Bool => is_bool,
        };
        let name = format!("{name} must be {}", expected.name());
        match value.extract() {
            Ok(setting) if is_right_type => Ok(Some(setting)),
            // The value itself is never repeated.
            Err(_) if is_right_type && value.is_instance_of::<PyInt>() => Err(Failure::Config(
                format!("{name}, not one so small or so large"),
            )),
            _ => {
                let found = type_name(&value);
                Err(Failure::Type(format!("{name}, not {found}")))
            }
        }
    }
}
