//! Any JSON value as Python objects: ints, Decimals, strings, booleans, None, lists and dicts.

use std::{collections::BTreeMap, fmt};

use dealkit::Json;
use pyo3::{
    basic::CompareOp,
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBool, PyDict, PyList, PyString},
};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use crate::python::builtin;

/// How many characters a number may have to be converted to a Python number.
const LONGEST_NUMBER: usize = 100_000;

/// JSON that is kept as text: a value nested too deep for Python objects.
#[pyclass(frozen, module = "dealkit")]
pub(crate) struct RawJson(Json);

#[pymethods]
impl RawJson {
    /// The exact JSON text.
    #[getter]
    fn text(&self) -> &str {
        self.0.as_str()
    }

    fn __richcmp__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        operation: CompareOp,
    ) -> Py<PyAny> {
        let (Ok(other), CompareOp::Eq | CompareOp::Ne) = (other.cast::<Self>(), operation) else {
            return py.NotImplemented();
        };
        let is_true = (self.0 == other.get().0) == matches!(operation, CompareOp::Eq);
        PyBool::new(py, is_true).to_owned().into_any().unbind()
    }

    /// Equal values need not have equal texts, so the hash can use little.
    fn __hash__(&self) -> isize {
        0
    }

    fn __repr__(&self) -> String {
        // The content may be personal.
        format!("RawJson(<{} characters>)", self.0.as_str().chars().count())
    }
}

/// Keeps JSON as text.
pub(crate) fn raw(py: Python<'_>, json: Json) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, RawJson(json))?.into_any())
}

/// What a RawJson holds, as Python objects.
pub(crate) fn raw_value<'py>(raw: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    value(raw.py(), &raw.cast::<RawJson>()?.get().0)
}

/// What a RawJson holds, as text.
pub(crate) fn raw_text<'a>(raw: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    Ok(raw.cast::<RawJson>()?.get().0.as_str())
}

/// A value as Python objects.
pub(crate) fn value<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    let mut builder = Builder {
        py,
        text: json.as_str(),
        at: 0,
        depth: 0,
    };
    builder.value()
}

/// Fields as a dict of Python objects.
pub(crate) fn fields<'py>(
    py: Python<'py>,
    fields: &BTreeMap<String, Json>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, json) in fields {
        dict.set_item(name, value(py, json)?)?;
    }
    Ok(dict)
}

/// For errors that cannot occur: a Json was checked when it was made.
fn internal() -> PyErr {
    PyRuntimeError::new_err(
        "a text that should be JSON is not: this is a bug in dealkit, please report it",
    )
}

/// Builds the value from a text that is known to be JSON, so nothing in it is checked again.
struct Builder<'t, 'py> {
    py: Python<'py>,
    text: &'t str,
    /// The byte that comes next.
    at: usize,
    depth: usize,
}

impl<'t, 'py> Builder<'t, 'py> {
    fn value(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match self.next_token() {
            Some(b'{' | b'[') if self.depth == Json::MAX_DEPTH => self.raw(),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => Ok(self.string()?.into_any()),
            Some(b't') => Ok(self.literal(4, PyBool::new(py, true).to_owned().into_any())),
            Some(b'f') => Ok(self.literal(5, PyBool::new(py, false).to_owned().into_any())),
            Some(b'n') => Ok(self.literal(4, py.None().into_bound(py))),
            _ => self.number(),
        }
    }

    fn object(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(self.py);
        self.enter();
        while self.next_token().is_some_and(|byte| byte != b'}') {
            let name = self.string()?;
            self.skip(b':');
            dict.set_item(name, self.value()?)?;
            self.skip(b',');
        }
        self.leave();
        Ok(dict.into_any())
    }

    fn array(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let mut items = Vec::new();
        self.enter();
        while self.next_token().is_some_and(|byte| byte != b']') {
            items.push(self.value()?);
            self.skip(b',');
        }
        self.leave();
        Ok(PyList::new(self.py, items)?.into_any())
    }

    fn enter(&mut self) {
        self.at += 1;
        self.depth += 1;
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    /// The byte that the next token begins with.
    fn next_token(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                byte => return byte,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips a token of one byte, if it comes next.
    fn skip(&mut self, token: u8) {
        if self.next_token() == Some(token) {
            self.at += 1;
        }
    }

    fn literal(&mut self, length: usize, value: Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        self.at += length;
        value
    }

    fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn string(&mut self) -> PyResult<Bound<'py, PyString>> {
        self.next_token();
        let start = self.at;
        let has_escapes = self.skip_string();
        let quoted = self.since(start);
        if !has_escapes {
            let text = quoted
                .get(1..quoted.len().saturating_sub(1))
                .unwrap_or_default();
            return Ok(PyString::new(self.py, text));
        }
        let Wtf8(bytes) = serde_json::from_str(quoted).map_err(|_| internal())?;
        builtin::text(self.py, &bytes)
    }

    /// Goes to the end of the string whose quote comes next. Returns whether there are escapes in it.
    fn skip_string(&mut self) -> bool {
        let mut has_escapes = false;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    self.at += 1;
                }
                _ => {}
            }
        }
        has_escapes
    }

    fn number(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let start = self.at;
        while matches!(
            self.peek(),
            Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
        ) {
            self.at += 1;
        }
        let digits = self.since(start);
        // Python would be slow to convert a number this long, for which the text is all that anybody can want.
        if digits.len() > LONGEST_NUMBER {
            return Ok(PyString::new(self.py, digits).into_any());
        }
        if !digits.contains(['.', 'e', 'E'])
            && let Some(int) = builtin::int(self.py, digits)?
        {
            return Ok(int);
        }
        // An exponent that no Decimal can hold is also kept as text.
        builtin::decimal(self.py, digits).or_else(|_| Ok(PyString::new(self.py, digits).into_any()))
    }

    /// The container that comes next, as its text.
    fn raw(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let start = self.at;
        let mut open = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                break;
            }
        }
        let json = Json::parse(self.since(start)).map_err(|_| internal())?;
        raw(self.py, json)
    }
}

/// The bytes of a JSON string: UTF-8, except for lone surrogates, which serde_json passes on as they come.
struct Wtf8(Vec<u8>);

impl<'de> Deserialize<'de> for Wtf8 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Wtf8;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Wtf8, E> {
                Ok(Wtf8(bytes.to_owned()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}
