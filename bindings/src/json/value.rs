//! Any JSON value as Python objects: ints, Decimals, strings, booleans, None, lists and dicts.

use std::collections::BTreeMap;

use dealkit::{
    Json,
    internal::lexer::{LexError, Lexer},
};
use pyo3::{
    basic::CompareOp,
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBool, PyDict, PyList, PyString},
};

use crate::python::{builtin, untracked::untracked};

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

pub(crate) fn raw(py: Python<'_>, json: Json) -> PyResult<Bound<'_, PyAny>> {
    Ok(untracked(Bound::new(py, RawJson(json))?).into_any())
}

/// What a RawJson holds, as text.
pub(crate) fn raw_text<'a>(raw: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    Ok(raw.cast::<RawJson>()?.get().0.as_str())
}

pub(crate) fn value<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    text_value(py, json.as_str())
}

/// A text that is known to be JSON as Python objects.
pub(crate) fn text_value<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    let mut builder = Builder {
        py,
        lexer: Lexer::new(json),
        depth: 0,
    };
    builder.value()
}

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
fn internal(LexError: LexError) -> PyErr {
    PyRuntimeError::new_err(
        "a text that should be JSON is not: this is a bug in dealkit, please report it",
    )
}

/// Builds the value from a text that is known to be JSON.
struct Builder<'t, 'py> {
    py: Python<'py>,
    lexer: Lexer<'t>,
    depth: usize,
}

impl<'py> Builder<'_, 'py> {
    fn value(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match self.lexer.peek() {
            b'{' | b'[' if self.depth == Json::MAX_DEPTH => {
                let json = Json::from_raw(self.lexer.read_raw().map_err(internal)?);
                raw(py, json)
            }
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => {
                let text = self.lexer.read_wtf8().map_err(internal)?;
                Ok(string(py, &text)?.into_any())
            }
            b't' | b'f' => {
                let is_true = self.lexer.read_boolean().map_err(internal)?;
                Ok(PyBool::new(py, is_true).to_owned().into_any())
            }
            b'n' => {
                self.lexer.read_null().map_err(internal)?;
                Ok(py.None().into_bound(py))
            }
            _ => self.number(),
        }
    }

    fn object(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(self.py);
        self.depth += 1;
        let mut has_more = self.lexer.begin_object().map_err(internal)?;
        while has_more {
            let name = self.lexer.read_wtf8_name().map_err(internal)?;
            dict.set_item(string(self.py, &name)?, self.value()?)?;
            has_more = self.lexer.next_field().map_err(internal)?;
        }
        self.depth -= 1;
        Ok(dict.into_any())
    }

    fn array(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let mut items = Vec::new();
        self.depth += 1;
        let mut has_more = self.lexer.begin_array().map_err(internal)?;
        while has_more {
            items.push(self.value()?);
            has_more = self.lexer.next_item().map_err(internal)?;
        }
        self.depth -= 1;
        Ok(PyList::new(self.py, items)?.into_any())
    }

    fn number(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let digits = self.lexer.read_number().map_err(internal)?.text;
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
}

/// A str, which can hold halves of surrogate pairs.
fn string<'py>(py: Python<'py>, wtf8: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match str::from_utf8(wtf8) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => builtin::text(py, wtf8),
    }
}
