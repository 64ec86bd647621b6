//! Converts any JSON value to Python objects: int, Decimal, str, bool, None, list and dict.

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

use crate::python::{builtin, untrack::untrack};

/// Maximum length of a JSON number that is converted to a Python number, which takes Python quadratic time. Longer numbers are
/// converted to str.
const MAX_NUMBER_LENGTH: usize = 100_000;

/// JSON that stays text: a value nested too deep for Python objects.
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
        let result = (self.0 == other.get().0) == matches!(operation, CompareOp::Eq);
        PyBool::new(py, result).to_owned().into_any().unbind()
    }

    /// Returns a constant: equal values need equal hashes, even if their JSON texts differ.
    fn __hash__(&self) -> isize {
        0
    }

    fn __repr__(&self) -> String {
        // The JSON may be personal data.
        format!("RawJson(<{} characters>)", self.0.as_str().chars().count())
    }
}

pub(crate) fn make_raw_json(py: Python<'_>, json: Json) -> PyResult<Bound<'_, PyAny>> {
    Ok(untrack(Bound::new(py, RawJson(json))?).into_any())
}

/// Returns the text of a RawJson. Fails for other objects.
pub(crate) fn raw_json_text<'a>(raw: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    Ok(raw.cast::<RawJson>()?.get().0.as_str())
}

pub(crate) fn to_objects<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    parse_valid_text(py, json.as_str())
}

/// Converts text that is known to be JSON.
pub(crate) fn parse_valid_text<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    let mut builder = Builder {
        py,
        lexer: Lexer::new(json),
        depth: 0,
    };
    builder.build_value()
}

pub(crate) fn fields_to_dict<'py>(
    py: Python<'py>,
    fields: &BTreeMap<String, Json>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, json) in fields {
        dict.set_item(name, to_objects(py, json)?)?;
    }
    Ok(dict)
}

/// The error for invalid JSON, which cannot occur: a `Json` is checked when it is made.
fn internal_error(LexError: LexError) -> PyErr {
    PyRuntimeError::new_err(
        "invalid JSON text in a Json: this is a bug in dealkit, please report it",
    )
}

/// Builds Python objects from text that is known to be JSON.
struct Builder<'t, 'py> {
    py: Python<'py>,
    lexer: Lexer<'t>,
    depth: usize,
}

impl<'py> Builder<'_, 'py> {
    fn build_value(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match self.lexer.peek() {
            b'{' | b'[' if self.depth == Json::MAX_DEPTH => {
                let json = Json::from_raw(self.lexer.read_raw().map_err(internal_error)?);
                make_raw_json(py, json)
            }
            b'{' => self.build_dict(),
            b'[' => self.build_list(),
            b'"' => {
                let text = self.lexer.read_wtf8().map_err(internal_error)?;
                Ok(make_str(py, &text)?.into_any())
            }
            b't' | b'f' => {
                let boolean = self.lexer.read_boolean().map_err(internal_error)?;
                Ok(PyBool::new(py, boolean).to_owned().into_any())
            }
            b'n' => {
                self.lexer.read_null().map_err(internal_error)?;
                Ok(py.None().into_bound(py))
            }
            _ => self.build_number(),
        }
    }

    fn build_dict(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(self.py);
        self.depth += 1;
        let mut has_more = self.lexer.begin_object().map_err(internal_error)?;
        while has_more {
            let name = self.lexer.read_wtf8_name().map_err(internal_error)?;
            dict.set_item(make_str(self.py, &name)?, self.build_value()?)?;
            has_more = self.lexer.next_field().map_err(internal_error)?;
        }
        self.depth -= 1;
        Ok(dict.into_any())
    }

    fn build_list(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let mut items = Vec::new();
        self.depth += 1;
        let mut has_more = self.lexer.begin_array().map_err(internal_error)?;
        while has_more {
            items.push(self.build_value()?);
            has_more = self.lexer.next_item().map_err(internal_error)?;
        }
        self.depth -= 1;
        Ok(PyList::new(self.py, items)?.into_any())
    }

    fn build_number(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let digits = self.lexer.read_number().map_err(internal_error)?.text;
        if digits.len() > MAX_NUMBER_LENGTH {
            return Ok(PyString::new(self.py, digits).into_any());
        }
        if !digits.contains(['.', 'e', 'E'])
            && let Some(int) = builtin::parse_int(self.py, digits)?
        {
            return Ok(int);
        }
        // A number whose exponent no Decimal can hold also becomes a str.
        builtin::make_decimal(self.py, digits)
            .or_else(|_| Ok(PyString::new(self.py, digits).into_any()))
    }
}

/// Makes a str, which may contain unpaired surrogates.
fn make_str<'py>(py: Python<'py>, wtf8: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match str::from_utf8(wtf8) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => builtin::str_from_wtf8(py, wtf8),
    }
}
