//! Writing Python objects as JSON: models with their wire names, and anything that a request may hold.

use dealkit::{Json, Violation, ViolationCode, scalar};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    sync::PyOnceLock,
    types::{
        PyBool, PyDate, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple,
        PyType,
    },
};

use crate::{
    convert,
    model::{Field, Kind, Model, Need},
};

/// How deep containers may be nested: the reference server reads no deeper.
const DEEPEST: usize = 128;

/// Writes a model.
pub(crate) fn model<M: Model>(this: &Bound<'_, M>, out: &mut String) -> PyResult<()> {
    let py = this.py();
    let model = this.get();
    let beyond = model.beyond();
    let mut separator = '{';
    let mut begin = |out: &mut String, name: &str| -> PyResult<()> {
        out.push(separator);
        separator = ',';
        text(name, out)?;
        out.push(':');
        Ok(())
    };
    for (at, (field, value)) in M::FIELDS.iter().zip(model.values()).enumerate() {
        let value = value.bind(py);
        if value.is_none() {
            if field.need == Need::Nullable {
                begin(out, field.wire)?;
                out.push_str("null");
            }
            continue;
        }
        begin(out, field.wire)?;
        match beyond.and_then(|beyond| beyond.exact(at)) {
            Some(exact) => out.push_str(exact.as_str()),
            None => self::value(field, value, out)?,
        }
    }
    for (name, value) in beyond.into_iter().flat_map(|beyond| &beyond.unknown) {
        begin(out, name)?;
        out.push_str(value.as_str());
    }
    if separator == '{' {
        out.push('{');
    }
    out.push('}');
    Ok(())
}

/// Writes the value of a field, which is not None.
fn value(field: &Field, value: &Bound<'_, PyAny>, out: &mut String) -> PyResult<()> {
    match field.kind {
        Kind::Text | Kind::Word | Kind::Role => {
            text(value.cast::<PyString>()?.to_str()?, out)?;
        }
        Kind::Boolean => out.push_str(if value.is_truthy()? { "true" } else { "false" }),
        Kind::Integer => out.push_str(&value.extract::<i64>()?.to_string()),
        Kind::Decimal => {
            let digits = value.str()?;
            // Python writes some numbers with an exponent where the core does not.
            let decimal = scalar::decimal(digits.to_str()?).ok_or_else(internal)?;
            out.push_str(&decimal.to_string());
        }
        Kind::Date => {
            let day = value.call_method0("isoformat")?;
            let day = scalar::date(day.cast::<PyString>()?.to_str()?).ok_or_else(internal)?;
            text(&scalar::date_text(day), out)?;
        }
        Kind::Timestamp => text(&scalar::timestamp_text(&convert::moment(value)?), out)?,
        Kind::Object => out.push_str(any(value).map_err(|_| internal())?.as_str()),
        Kind::Strings => {
            let members = PyDict::new(value.py());
            members.update(value.cast::<PyMapping>()?)?;
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                text(name.cast::<PyString>()?.to_str()?, out)?;
                out.push(':');
                text(value.cast::<PyString>()?.to_str()?, out)?;
            }
            out.push('}');
        }
        Kind::One(class) => (class.write)(value, out)?,
        Kind::Many(class) => {
            out.push('[');
            for (at, item) in value.try_iter()?.enumerate() {
                if at > 0 {
                    out.push(',');
                }
                (class.write)(&item?, out)?;
            }
            out.push(']');
        }
    }
    Ok(())
}

/// What a model holds was checked when it was made.
fn internal() -> PyErr {
    PyRuntimeError::new_err("a model holds what cannot be written: this is a bug in dealkit")
}

/// Writes a string.
fn text(text: &str, out: &mut String) -> PyResult<()> {
    out.push_str(&serde_json::to_string(text).map_err(|_| internal())?);
    Ok(())
}

/// Any Python object as JSON, or why it cannot be.
pub(crate) fn any(value: &Bound<'_, PyAny>) -> Result<Json, String> {
    let mut writer = Writer::default();
    writer.value(value);
    match writer.wrong.first() {
        Some(violation) => Err(violation.to_string()),
        None => writer
            .json()
            .ok_or_else(|| "it is no JSON value".to_owned()),
    }
}

/// Writes the parts of a request, and notes what cannot be written with its place.
#[derive(Default)]
pub(crate) struct Writer {
    out: String,
    /// The pointer of the value that is being written.
    pointer: String,
    depth: usize,
    pub(crate) wrong: Vec<Violation>,
}

impl Writer {
    /// What was written. In the place of what could not be written stands null.
    pub(crate) fn json(&self) -> Option<Json> {
        Json::parse(self.out.as_str()).ok()
    }

    fn refuse(&mut self, detail: String) {
        self.out.push_str("null");
        self.wrong.push(Violation::new(
            self.pointer.clone(),
            ViolationCode::WrongType,
            detail,
        ));
    }

    /// Writes an object of named values.
    pub(crate) fn object<'py>(
        &mut self,
        members: impl IntoIterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) {
        self.out.push('{');
        let mut separator = "";
        for (name, value) in members {
            let text = name.cast::<PyString>().ok();
            let Some(name) = text.as_ref().and_then(|name| name.to_str().ok()) else {
                let begun = self.out.len();
                let found = convert::type_name(&name);
                self.refuse(format!(
                    "must have names that are Unicode text, got {found}"
                ));
                self.out.truncate(begun);
                continue;
            };
            self.out.push_str(separator);
            separator = ",";
            self.member(name, &value);
        }
        self.out.push('}');
    }

    fn member(&mut self, name: &str, value: &Bound<'_, PyAny>) {
        // A string always has a JSON text.
        self.out
            .push_str(&serde_json::to_string(name).unwrap_or_default());
        self.out.push(':');
        self.inside(&name.replace('~', "~0").replace('/', "~1"), value);
    }

    fn inside(&mut self, token: &str, value: &Bound<'_, PyAny>) {
        let outer = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(token);
        self.value(value);
        self.pointer.truncate(outer);
    }

    fn items<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) {
        self.out.push('[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.inside(&at.to_string(), &item);
        }
        self.out.push(']');
    }

    /// Writes any value.
    pub(crate) fn value(&mut self, value: &Bound<'_, PyAny>) {
        if self.depth == DEEPEST {
            self.refuse(format!("must not be nested deeper than {DEEPEST} levels"));
            return;
        }
        self.depth += 1;
        self.value_here(value);
        self.depth -= 1;
    }

    fn value_here(&mut self, value: &Bound<'_, PyAny>) {
        if value.is_none() {
            self.out.push_str("null");
        } else if let Ok(text) = value.cast::<PyString>() {
            match text.to_str() {
                Ok(text) => self
                    .out
                    .push_str(&serde_json::to_string(text).unwrap_or_default()),
                Err(_) => {
                    self.refuse("must be Unicode text, got half of a surrogate pair".to_owned());
                }
            }
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.out
                .push_str(if truth.is_true() { "true" } else { "false" });
        } else if value.is_instance_of::<PyInt>() || is_decimal(value) {
            self.number(value);
        } else if let Ok(float) = value.cast::<PyFloat>() {
            match float.value() {
                number if number.is_finite() => {
                    let digits = serde_json::to_string(&number);
                    self.out.push_str(&digits.unwrap_or_default());
                }
                _ => self.refuse("must be a finite number".to_owned()),
            }
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.object(dict.iter());
        } else if let Ok(list) = value.cast::<PyList>() {
            self.items(list.iter());
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.items(tuple.iter());
        } else if let Ok(mapping) = value.cast::<PyMapping>() {
            let dict = PyDict::new(value.py());
            match dict.update(mapping) {
                Ok(()) => self.object(dict.iter()),
                Err(_) => self.refuse("is a mapping that cannot be read".to_owned()),
            }
        } else {
            let found = convert::type_name(value);
            let hint = if value.is_instance_of::<PyDateTime>() || value.is_instance_of::<PyDate>() {
                "; write it as text with isoformat()"
            } else {
                ""
            };
            self.refuse(format!(
                "must be None, a bool, int, float, Decimal, str, list, tuple or mapping, got {found}{hint}"
            ));
        }
    }

    /// Writes an int or a Decimal digit for digit.
    fn number(&mut self, value: &Bound<'_, PyAny>) {
        let digits = if value.is_instance_of::<PyInt>() {
            // The int of a subclass, such as an IntEnum, is what counts, not how it calls itself.
            let int = value.py().get_type::<PyInt>();
            int.call_method1("__repr__", (value,))
        } else {
            value.str().map(Bound::into_any)
        };
        let digits = digits
            .ok()
            .and_then(|digits| digits.extract::<String>().ok());
        match digits.and_then(|digits| Json::parse(digits).ok()) {
            Some(number) => self.out.push_str(number.as_str()),
            None => self.refuse("must be a finite number with at most 4,300 digits".to_owned()),
        }
    }
}

fn is_decimal(value: &Bound<'_, PyAny>) -> bool {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let decimal = DECIMAL.import(value.py(), "decimal", "Decimal");
    decimal.is_ok_and(|decimal| value.is_instance(decimal).unwrap_or(false))
}
