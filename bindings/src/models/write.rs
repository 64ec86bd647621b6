//! Writes Python objects as JSON: models, and any value of a request.

use dealkit::{
    Json, Violation, ViolationCode,
    internal::{document_limits::MAX_VALUES, lexer::is_plain, scalar, validate::expected_kind},
};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBool, PyDate, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};

use crate::{
    json::{extra::Extra, value as json},
    models::schema::{Class, Field, FieldKind, Presence, get_class},
    python::builtin,
};

/// The pointer of the only field of a create request that accepts a Python date.
const DATE_POINTER: &str = "/date_of_birth";

/// Maximum nesting depth of a request. The sandbox has the same limit.
const MAX_DEPTH: usize = 128;

/// Maximum length of the JSON, in bytes. `MAX_VALUES` limits the number of values. Without limits, the JSON of a few lists that
/// contain each other many times would exceed the memory.
const MAX_BYTES: usize = 64 * 1024 * 1024;

pub(crate) fn write_model(
    this: &Bound<'_, PyAny>,
    class: &Class,
    out: &mut String,
) -> PyResult<()> {
    let py = this.py();
    let (values, extra) = (class.parts)(this)?;
    let mut separator = '{';
    let mut begin = |out: &mut String, name: &str| {
        out.push(separator);
        separator = ',';
        write_string(name, out);
        out.push(':');
    };
    for (at, (field, value)) in class.model.fields.iter().zip(values).enumerate() {
        let value = value.bind(py);
        // The JSON of an unreadable field is in `extra`, and is written below.
        if extra.is_some_and(|extra| extra.unknown_fields.contains_key(field.wire)) {
            continue;
        }
        if value.is_none() {
            if field.presence == Presence::Nullable {
                begin(out, field.wire);
                out.push_str("null");
            }
            continue;
        }
        begin(out, field.wire);
        write_field(at, field, value, extra, out)?;
    }
    for (name, value) in extra.into_iter().flat_map(|extra| &extra.unknown_fields) {
        begin(out, name);
        out.push_str(value.as_str());
    }
    if separator == '{' {
        out.push('{');
    }
    out.push('}');
    Ok(())
}

/// Writes the value, which is not None, of the field at this position.
pub(crate) fn write_field(
    position: usize,
    field: &Field,
    value: &Bound<'_, PyAny>,
    extra: Option<&Extra>,
    out: &mut String,
) -> PyResult<()> {
    match extra.and_then(|extra| extra.exact_json(position)) {
        Some(exact) => {
            out.push_str(exact.as_str());
            Ok(())
        }
        None => write_value(field, value, out),
    }
}

fn write_value(field: &Field, value: &Bound<'_, PyAny>, out: &mut String) -> PyResult<()> {
    match field.kind {
        FieldKind::String | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => {
            write_string(value.cast::<PyString>()?.to_str()?, out);
        }
        FieldKind::Boolean => {
            let is_true = value.cast::<PyBool>()?.is_true();
            out.push_str(if is_true { "true" } else { "false" });
        }
        FieldKind::Integer => out.push_str(&value.extract::<i64>()?.to_string()),
        FieldKind::Decimal => {
            let digits = builtin::decimal_to_text(value)?;
            // Python writes an exponent for some numbers that the core writes without one.
            let decimal = scalar::parse_decimal(&digits).ok_or_else(internal_error)?;
            out.push_str(&decimal.to_string());
        }
        FieldKind::Date => {
            let day = builtin::to_naive_date(value.cast::<PyDate>()?).ok_or_else(internal_error)?;
            write_string(&scalar::format_date(day), out);
        }
        FieldKind::Timestamp => {
            let timestamp =
                builtin::to_utc(value.cast::<PyDateTime>()?).ok_or_else(internal_error)?;
            write_string(&scalar::format_timestamp(&timestamp), out);
        }
        FieldKind::JsonObject => out.push_str(json::raw_json_text(value)?),
        FieldKind::StringMap => {
            out.push('{');
            for (at, (name, value)) in builtin::copy_mapping(value)?.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(name.cast::<PyString>()?.to_str()?, out);
                out.push(':');
                write_string(value.cast::<PyString>()?.to_str()?, out);
            }
            out.push('}');
        }
        FieldKind::Model(model) => write_model(value, get_class(model), out)?,
        FieldKind::ModelList(model) => {
            out.push('[');
            for (at, item) in value.cast::<PyTuple>()?.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_model(&item, get_class(model), out)?;
            }
            out.push(']');
        }
    }
    Ok(())
}

/// The error for an invalid value in a model, which cannot occur: values are checked when a model is made.
pub(crate) fn internal_error() -> PyErr {
    PyRuntimeError::new_err(
        "a model contains a value that cannot be written: this is a bug in dealkit",
    )
}

fn write_string(text: &str, out: &mut String) {
    if !is_plain(text) {
        // Serializing a str never fails.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// Converts objects of built-in types to JSON. Returns the first violation if a value cannot be JSON.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> PyResult<Result<Json, Violation>> {
    let mut writer = Writer::default();
    writer.write_value(value, Location::Root);
    let (text, violations) = writer.finish()?;
    Ok(
        match (violations.into_iter().next(), Json::parse(text).ok()) {
            (None, Some(json)) => Ok(json),
            (Some(violation), _) => Err(violation),
            (None, None) => Err(Violation::new(
                "",
                ViolationCode::WrongType,
                "must be a JSON value",
            )),
        },
    )
}

/// The location of a value in a request. Only a violation makes a JSON pointer of it.
#[derive(Clone, Copy)]
pub(crate) enum Location<'p> {
    Root,
    Field(&'p Location<'p>, &'p str),
    Item(&'p Location<'p>, usize),
}

impl Location<'_> {
    pub(crate) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(outer, name) => {
                let name = name.replace('~', "~0").replace('/', "~1");
                format!("{}/{name}", outer.pointer())
            }
            Self::Item(outer, at) => format!("{}/{at}", outer.pointer()),
        }
    }
}

/// Writes a request, and collects a violation for each value that JSON cannot represent.
///
/// Only values of built-in types can be written. Python code must convert other values first, such as mappings that are not dicts.
pub(crate) struct Writer {
    out: String,
    /// Number of containers around the current value.
    depth: usize,
    value_count: usize,
    /// True if `MAX_BYTES` or `MAX_VALUES` is exceeded.
    is_over_limit: bool,
    /// True if there was a value that Python code must convert first.
    needs_conversion: bool,
    /// True if this is a create request whose documented fields must have their documented types.
    is_create: bool,
    violations: Vec<Violation>,
    /// The exception of a signal handler that ran while Python converted a long number.
    python_error: Option<PyErr>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            // Enough for most agents.
            out: String::with_capacity(512),
            depth: 0,
            value_count: 0,
            is_over_limit: false,
            needs_conversion: false,
            is_create: false,
            violations: Vec::new(),
            python_error: None,
        }
    }
}

impl Writer {
    /// Makes a writer for a create request. Without `validate`, a field may have any JSON type.
    pub(crate) fn for_create(validate: bool) -> Self {
        Self {
            is_create: validate,
            ..Self::default()
        }
    }

    /// Returns the JSON and the violations. Each violating value was written as null.
    pub(crate) fn finish(self) -> PyResult<(String, Vec<Violation>)> {
        match self.python_error {
            Some(error) => Err(error),
            None => Ok((self.out, self.violations)),
        }
    }

    /// True if there was a value that Python code must convert first.
    pub(crate) fn needs_conversion(&self) -> bool {
        self.needs_conversion
    }

    /// Writes null instead of a value, and adds its violation.
    fn reject_value(&mut self, location: Location<'_>, detail: String) {
        self.write_null();
        self.add_wrong_type(location, detail);
    }

    /// Rejects a value because of its type. The message lists the types that a documented field accepts. For other values, it is
    /// `default_message`.
    fn reject_type(
        &mut self,
        location: Location<'_>,
        value: &Bound<'_, PyAny>,
        default_message: &str,
    ) {
        let actual_type = builtin::type_name(value);
        let pointer = location.pointer();
        let expected = expected_kind(&pointer).filter(|_| self.is_create);
        let detail = match expected {
            Some(expected) if is_empty_cell(value, &actual_type) => {
                format!(
                    "must be {expected}, got an empty cell ({actual_type}); leave it out instead"
                )
            }
            Some(expected) if pointer == DATE_POINTER && value.is_instance_of::<PyDateTime>() => {
                format!("must be a date or {expected}, got {actual_type}; pass its .date()")
            }
            Some(expected) if pointer == DATE_POINTER => {
                format!("must be a date or {expected}, got {actual_type}")
            }
            Some(expected) => format!("must be {expected}, got {actual_type}"),
            None => default_message.to_owned(),
        };
        self.reject_value(location, detail);
    }

    fn add_wrong_type(&mut self, location: Location<'_>, detail: String) {
        let violation = Violation::new(location.pointer(), ViolationCode::WrongType, detail);
        self.violations.push(violation);
    }

    pub(crate) fn write_null(&mut self) {
        self.out.push_str("null");
    }

    pub(crate) fn write_text(&mut self, text: &str) {
        write_string(text, &mut self.out);
    }

    /// Writes a bracket that begins or ends a container.
    pub(crate) fn write_bracket(&mut self, bracket: char) {
        self.out.push(bracket);
    }

    /// Returns the name of a field of the object at this location, or adds a violation if the name is no valid str.
    pub(crate) fn read_name<'a>(
        &mut self,
        name: &'a Bound<'_, PyAny>,
        object: Location<'_>,
    ) -> Option<&'a str> {
        // Two names of a subclass of str can have equal text and still be different keys.
        self.needs_conversion |= !name.is_exact_instance_of::<PyString>();
        let text = name.cast::<PyString>().ok();
        let text = text.and_then(|name| name.to_str().ok());
        if text.is_none() {
            let actual_type = builtin::type_name(name);
            self.add_wrong_type(
                object,
                format!("must have names that are Unicode text, got {actual_type}"),
            );
        }
        text
    }

    /// Writes a field of the current object.
    pub(crate) fn write_field(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        // At the beginning of an object, the text so far ends with an opening brace. No value ends with this character.
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.write_text(name);
        self.out.push(':');
        write(self);
    }

    fn write_dict(&mut self, dict: &Bound<'_, PyDict>, location: Location<'_>) {
        // The dict is copied, because another thread may change the original.
        match dict.copy() {
            Ok(copy) => {
                self.write_bracket('{');
                for (name, value) in copy {
                    if let Some(name) = self.read_name(&name, location) {
                        let location = Location::Field(&location, name);
                        self.write_field(name, |writer| writer.write_value(&value, location));
                    }
                }
                self.write_bracket('}');
            }
            Err(error) => self.python_error = Some(error),
        }
    }

    fn write_items<'py>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        location: Location<'_>,
    ) {
        self.write_bracket('[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.write_value(&item, Location::Item(&location, at));
        }
        self.write_bracket(']');
    }

    pub(crate) fn write_value(&mut self, value: &Bound<'_, PyAny>, location: Location<'_>) {
        self.write_container(location, |writer| writer.write_unlimited(value, location));
    }

    /// Writes a value with `write`, which may write nested values, unless a limit is exceeded.
    pub(crate) fn write_container(
        &mut self,
        location: Location<'_>,
        write: impl FnOnce(&mut Self),
    ) {
        if self.count_value_within_limits(location) {
            self.depth += 1;
            write(self);
            self.depth -= 1;
        }
    }

    /// Counts one more value. If a limit is exceeded, writes null instead of the value, and returns false.
    fn count_value_within_limits(&mut self, location: Location<'_>) -> bool {
        self.value_count += 1;
        if self.is_over_limit || self.python_error.is_some() {
            self.write_null();
        } else if self.out.len() > MAX_BYTES {
            self.is_over_limit = true;
            self.reject_value(
                location,
                format!("must not be longer than {MAX_BYTES} bytes as JSON"),
            );
        } else if self.value_count > MAX_VALUES {
            self.is_over_limit = true;
            self.reject_value(
                location,
                format!("must not hold more than {MAX_VALUES} values"),
            );
        } else if self.depth == MAX_DEPTH {
            self.reject_value(
                location,
                format!("must not be nested deeper than {MAX_DEPTH} levels"),
            );
        } else {
            return true;
        }
        false
    }

    fn write_unlimited(&mut self, value: &Bound<'_, PyAny>, location: Location<'_>) {
        if value.is_none() {
            self.write_null();
        } else if let Ok(text) = value.cast::<PyString>() {
            match text.to_str() {
                Ok(text) => self.write_text(text),
                Err(_) => self.reject_value(
                    location,
                    "must be Unicode text, got an unpaired surrogate".to_owned(),
                ),
            }
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.out
                .push_str(if truth.is_true() { "true" } else { "false" });
        } else if let Ok(int) = value.cast::<PyInt>() {
            self.write_number(builtin::int_to_text(int), value, location);
        } else if builtin::is_decimal(value) {
            self.write_number(builtin::decimal_to_text(value).map(Some), value, location);
        } else if let Ok(text) = json::raw_json_text(value) {
            self.out.push_str(text);
        } else if let Ok(float) = value.cast::<PyFloat>() {
            match float.value() {
                number if number.is_finite() => {
                    let digits = serde_json::to_string(&number);
                    self.out.push_str(&digits.unwrap_or_default());
                }
                _ => self.reject_type(location, value, "must be a finite number"),
            }
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.write_dict(dict, location);
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.write_items(list.iter(), location);
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            self.write_items(tuple.iter(), location);
        } else {
            self.needs_conversion = true;
            let actual_type = builtin::type_name(value);
            let hint = if value.is_instance_of::<PyDate>() {
                "; write it as text with isoformat()"
            } else {
                ""
            };
            let message = format!(
                "must be None, a bool, int, float, Decimal, str, list, tuple or mapping, got {actual_type}{hint}"
            );
            self.reject_type(location, value, &message);
        }
    }

    /// Writes a number with exactly these digits.
    fn write_number(
        &mut self,
        digits: PyResult<Option<String>>,
        value: &Bound<'_, PyAny>,
        location: Location<'_>,
    ) {
        let digits = digits.unwrap_or_else(|error| {
            self.python_error = Some(error);
            None
        });
        // Python also writes NaN, with optional digits, and infinities. JSON has neither.
        let is_number = |digits: &String| {
            let whole = digits.strip_prefix('-').unwrap_or(digits);
            whole.starts_with(|first: char| first.is_ascii_digit())
                && whole.ends_with(|last: char| last.is_ascii_digit())
        };
        match digits.filter(is_number) {
            Some(digits) => self.out.push_str(&digits),
            None => self.reject_type(
                location,
                value,
                "must be a finite number with at most 4,300 digits",
            ),
        }
    }
}

/// Returns whether a value stands for an empty cell of a data frame: NaN, or NaT or NA of pandas.
fn is_empty_cell(value: &Bound<'_, PyAny>, actual_type: &str) -> bool {
    let float = value.cast::<PyFloat>();
    float.is_ok_and(|float| float.value().is_nan()) || matches!(actual_type, "NaTType" | "NAType")
}
