//! Writing Python objects as JSON: models with their wire names, and anything that a request may hold.

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
    models::schema::{Class, Field, FieldKind, Presence, class},
    python::builtin,
};

/// The field of a create request that also takes Python's dates.
const DATE: &str = "/date_of_birth";

/// How deep containers may be nested: the reference server reads no deeper.
const DEEPEST: usize = 128;

/// How long the JSON of one value may be, in bytes. The number of values is limited as well, to what dealkit reads: a
/// few lists that contain each other many times exceed any memory.
const LONGEST: usize = 64 * 1024 * 1024;

pub(crate) fn model(this: &Bound<'_, PyAny>, class: &Class, out: &mut String) -> PyResult<()> {
    let py = this.py();
    let (values, extra) = (class.parts)(this)?;
    let mut separator = '{';
    let mut begin = |out: &mut String, name: &str| {
        out.push(separator);
        separator = ',';
        text(name, out);
        out.push(':');
    };
    for (at, (field, value)) in class.model.fields.iter().zip(values).enumerate() {
        let value = value.bind(py);
        // A field that could not be read is written as it was, with the undocumented ones.
        if extra.is_some_and(|extra| extra.unknown.contains_key(field.wire)) {
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
        self::field(at, field, value, extra, out)?;
    }
    for (name, value) in extra.into_iter().flat_map(|extra| &extra.unknown) {
        begin(out, name);
        out.push_str(value.as_str());
    }
    if separator == '{' {
        out.push('{');
    }
    out.push('}');
    Ok(())
}

/// Writes the value of the field at a position, which is not None.
pub(crate) fn field(
    at: usize,
    field: &Field,
    value: &Bound<'_, PyAny>,
    extra: Option<&Extra>,
    out: &mut String,
) -> PyResult<()> {
    match extra.and_then(|extra| extra.exact(at)) {
        Some(exact) => {
            out.push_str(exact.as_str());
            Ok(())
        }
        None => self::value(field, value, out),
    }
}

fn value(field: &Field, value: &Bound<'_, PyAny>, out: &mut String) -> PyResult<()> {
    match field.kind {
        FieldKind::String | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => {
            text(value.cast::<PyString>()?.to_str()?, out);
        }
        FieldKind::Boolean => {
            let is_true = value.cast::<PyBool>()?.is_true();
            out.push_str(if is_true { "true" } else { "false" });
        }
        FieldKind::Integer => out.push_str(&value.extract::<i64>()?.to_string()),
        FieldKind::Decimal => {
            let digits = builtin::decimal_text(value)?;
            // Python writes some numbers with an exponent that the core writes without one.
            let decimal = scalar::parse_decimal(&digits).ok_or_else(internal)?;
            out.push_str(&decimal.to_string());
        }
        FieldKind::Date => {
            let day = builtin::day(value.cast::<PyDate>()?).ok_or_else(internal)?;
            text(&scalar::format_date(day), out);
        }
        FieldKind::Timestamp => {
            let moment = builtin::moment(value.cast::<PyDateTime>()?).ok_or_else(internal)?;
            text(&scalar::format_timestamp(&moment), out);
        }
        FieldKind::JsonObject => out.push_str(json::raw_text(value)?),
        FieldKind::StringMap => {
            out.push('{');
            for (at, (name, value)) in builtin::mapping(value)?.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                text(name.cast::<PyString>()?.to_str()?, out);
                out.push(':');
                text(value.cast::<PyString>()?.to_str()?, out);
            }
            out.push('}');
        }
        FieldKind::Model(of) => model(value, class(of), out)?,
        FieldKind::ModelList(of) => {
            out.push('[');
            for (at, item) in value.cast::<PyTuple>()?.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                model(&item, class(of), out)?;
            }
            out.push(']');
        }
    }
    Ok(())
}

/// For errors that cannot occur: the content of a model was checked when it was made.
pub(crate) fn internal() -> PyErr {
    PyRuntimeError::new_err(
        "a model contains a value that cannot be written: this is a bug in dealkit",
    )
}

fn text(text: &str, out: &mut String) {
    if !is_plain(text) {
        // A string always has a JSON text.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// Objects of Python's own types as JSON, or the first place where that is impossible.
pub(crate) fn any(value: &Bound<'_, PyAny>) -> PyResult<Result<Json, Violation>> {
    let mut writer = Writer::default();
    writer.value(value, Place::Whole);
    let (text, wrong) = writer.finish()?;
    Ok(match (wrong.into_iter().next(), Json::parse(text).ok()) {
        (None, Some(json)) => Ok(json),
        (Some(violation), _) => Err(violation),
        (None, None) => Err(Violation::new(
            "",
            ViolationCode::WrongType,
            "must be a JSON value",
        )),
    })
}

/// Where in a request a value stands: a pointer is made from it only if something is wrong.
#[derive(Clone, Copy)]
pub(crate) enum Place<'p> {
    Whole,
    Field(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    pub(crate) fn pointer(&self) -> String {
        match self {
            Self::Whole => String::new(),
            Self::Field(outer, name) => {
                let name = name.replace('~', "~0").replace('/', "~1");
                format!("{}/{name}", outer.pointer())
            }
            Self::Item(outer, at) => format!("{}/{at}", outer.pointer()),
        }
    }
}

/// Writes the parts of a request, and notes values that cannot be written, with their places. Python code first has
/// to convert mappings other than dicts, and the like.
pub(crate) struct Writer {
    out: String,
    /// How many values are around the one that is being written.
    depth: usize,
    values: usize,
    /// Whether the limits of what may be written are exceeded.
    is_full: bool,
    is_foreign: bool,
    /// Whether the places are those of a create request whose fields must have their own types.
    is_create: bool,
    wrong: Vec<Violation>,
    /// What a signal handler raised while Python wrote a long number.
    raised: Option<PyErr>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            // An agent needs no more.
            out: String::with_capacity(512),
            depth: 0,
            values: 0,
            is_full: false,
            is_foreign: false,
            is_create: false,
            wrong: Vec::new(),
            raised: None,
        }
    }
}

impl Writer {
    /// A writer of a create request. Unless its rules are checked, a field may hold any JSON.
    pub(crate) fn for_create(is_checked: bool) -> Self {
        Self {
            is_create: is_checked,
            ..Self::default()
        }
    }

    /// What was written, and the violations of what could not be and was replaced by null.
    pub(crate) fn finish(self) -> PyResult<(String, Vec<Violation>)> {
        match self.raised {
            Some(error) => Err(error),
            None => Ok((self.out, self.wrong)),
        }
    }

    /// Whether there is something that Python code has to convert before it can be written or refused.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    fn refuse(&mut self, place: Place<'_>, detail: String) {
        self.null();
        self.note(place, detail);
    }

    /// Refuses a value with the types that its place takes: those of a documented field, or else of any JSON.
    fn refuse_type(&mut self, place: Place<'_>, value: &Bound<'_, PyAny>, otherwise: &str) {
        let found = builtin::type_name(value);
        let pointer = place.pointer();
        let expected = expected_kind(&pointer).filter(|_| self.is_create);
        let detail = match expected {
            Some(expected) if pointer == DATE && value.is_instance_of::<PyDateTime>() => {
                format!("must be a date or {expected}, got {found}; pass its .date()")
            }
            Some(expected) if pointer == DATE => {
                format!("must be a date or {expected}, got {found}")
            }
            Some(expected) => format!("must be {expected}, got {found}"),
            None => otherwise.to_owned(),
        };
        self.refuse(place, detail);
    }

    fn note(&mut self, place: Place<'_>, detail: String) {
        let violation = Violation::new(place.pointer(), ViolationCode::WrongType, detail);
        self.wrong.push(violation);
    }

    pub(crate) fn null(&mut self) {
        self.out.push_str("null");
    }

    pub(crate) fn text(&mut self, text: &str) {
        self::text(text, &mut self.out);
    }

    /// Begins or ends a container.
    pub(crate) fn bracket(&mut self, bracket: char) {
        self.out.push(bracket);
    }

    /// The name of a field of the object at this place, if it is one.
    pub(crate) fn name<'a>(
        &mut self,
        name: &'a Bound<'_, PyAny>,
        object: Place<'_>,
    ) -> Option<&'a str> {
        // Two names of a class of the caller's can have the same text.
        self.is_foreign |= !name.is_exact_instance_of::<PyString>();
        let text = name.cast::<PyString>().ok();
        let text = text.and_then(|name| name.to_str().ok());
        if text.is_none() {
            let found = builtin::type_name(name);
            self.note(
                object,
                format!("must have names that are Unicode text, got {found}"),
            );
        }
        text
    }

    /// Writes a field of the object that was begun.
    pub(crate) fn field(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        // No value ends with this.
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.text(name);
        self.out.push(':');
        write(self);
    }

    fn object(&mut self, dict: &Bound<'_, PyDict>, place: Place<'_>) {
        // A copy, since another thread may change the caller's dict.
        match dict.copy() {
            Ok(copy) => {
                self.bracket('{');
                for (name, value) in copy {
                    if let Some(name) = self.name(&name, place) {
                        let place = Place::Field(&place, name);
                        self.field(name, |writer| writer.value(&value, place));
                    }
                }
                self.bracket('}');
            }
            Err(error) => self.raised = Some(error),
        }
    }

    fn items<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>, place: Place<'_>) {
        self.bracket('[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.value(&item, Place::Item(&place, at));
        }
        self.bracket(']');
    }

    pub(crate) fn value(&mut self, value: &Bound<'_, PyAny>, place: Place<'_>) {
        self.container(place, |writer| writer.value_here(value, place));
    }

    /// Writes a value that may hold others, if there is room for it.
    pub(crate) fn container(&mut self, place: Place<'_>, write: impl FnOnce(&mut Self)) {
        if self.has_room(place) {
            self.depth += 1;
            write(self);
            self.depth -= 1;
        }
    }

    /// Whether there is room for one more value; a value without room is replaced by null.
    fn has_room(&mut self, place: Place<'_>) -> bool {
        self.values += 1;
        if self.is_full || self.raised.is_some() {
            self.null();
        } else if self.out.len() > LONGEST {
            self.is_full = true;
            self.refuse(
                place,
                format!("must not be longer than {LONGEST} bytes as JSON"),
            );
        } else if self.values > MAX_VALUES {
            self.is_full = true;
            self.refuse(
                place,
                format!("must not hold more than {MAX_VALUES} values"),
            );
        } else if self.depth == DEEPEST {
            self.refuse(
                place,
                format!("must not be nested deeper than {DEEPEST} levels"),
            );
        } else {
            return true;
        }
        false
    }

    fn value_here(&mut self, value: &Bound<'_, PyAny>, place: Place<'_>) {
        if value.is_none() {
            self.null();
        } else if let Ok(text) = value.cast::<PyString>() {
            match text.to_str() {
                Ok(text) => self.text(text),
                Err(_) => self.refuse(
                    place,
                    "must be Unicode text, got an unpaired surrogate".to_owned(),
                ),
            }
        } else if let Ok(truth) = value.cast::<PyBool>() {
            self.out
                .push_str(if truth.is_true() { "true" } else { "false" });
        } else if let Ok(int) = value.cast::<PyInt>() {
            self.number(builtin::int_text(int), value, place);
        } else if builtin::is_decimal(value) {
            self.number(builtin::decimal_text(value).map(Some), value, place);
        } else if let Ok(text) = json::raw_text(value) {
            self.out.push_str(text);
        } else if let Ok(float) = value.cast::<PyFloat>() {
            match float.value() {
                number if number.is_finite() => {
                    let digits = serde_json::to_string(&number);
                    self.out.push_str(&digits.unwrap_or_default());
                }
                _ => self.refuse_type(place, value, "must be a finite number"),
            }
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.object(dict, place);
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.items(list.iter(), place);
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            self.items(tuple.iter(), place);
        } else {
            self.is_foreign = true;
            let found = builtin::type_name(value);
            let hint = if value.is_instance_of::<PyDate>() {
                "; write it as text with isoformat()"
            } else {
                ""
            };
            let any = format!(
                "must be None, a bool, int, float, Decimal, str, list, tuple or mapping, got {found}{hint}"
            );
            self.refuse_type(place, value, &any);
        }
    }

    /// Writes a number digit for digit.
    fn number(
        &mut self,
        digits: PyResult<Option<String>>,
        value: &Bound<'_, PyAny>,
        place: Place<'_>,
    ) {
        let digits = digits.unwrap_or_else(|error| {
            self.raised = Some(error);
            None
        });
        // Python can also write NaN, which may carry digits, and infinities, which are not JSON.
        let is_number = |digits: &String| {
            let whole = digits.strip_prefix('-').unwrap_or(digits);
            whole.starts_with(|first: char| first.is_ascii_digit())
                && whole.ends_with(|last: char| last.is_ascii_digit())
        };
        match digits.filter(is_number) {
            Some(digits) => self.out.push_str(&digits),
            None => self.refuse_type(
                place,
                value,
                "must be a finite number with at most 4,300 digits",
            ),
        }
    }
}
