//! The body of a create request: Python's arguments as JSON, which the core's rules have gone through.

use std::{ops::Range, sync::LazyLock};

use dealkit::{
    AgentProfile, CheckedAgent, UnknownFields, ValidationError, Violation, ViolationCode,
    validate::{Fields, Value},
};
use pyo3::{
    prelude::*,
    types::{PyDate, PyDateTime, PyDict, PyFloat, PyString, PyTuple},
};

use crate::{
    builtin,
    failure::{Failure, Outcome},
    write::{Place, Writer},
};

/// The arguments as JSON, without those that are `omitted`; `None` where Python code has to convert one of them first,
/// unless it has.
pub(crate) fn written(
    given: &Bound<'_, PyDict>,
    omitted: &Bound<'_, PyAny>,
    validate: bool,
    is_converted: bool,
) -> Outcome<Option<String>> {
    let given: Vec<_> = given
        .iter()
        .filter(|(_, value)| !value.is(omitted))
        .collect();
    let mut arguments = Vec::with_capacity(given.len());
    for (name, value) in &given {
        let name = name.cast::<PyString>().map_err(PyErr::from)?.to_str()?;
        arguments.push((name, value));
    }
    // Where the profile is no dict, it is written, and refused, like any other value.
    let mut named = arguments.iter();
    let profile = match named.find(|(name, _)| *name == PROFILE) {
        Some((_, value)) => value.cast_exact::<PyDict>().ok(),
        None => None,
    };
    // A copy, since the caller's may be changed by another thread.
    let profile: Option<Vec<_>> = match profile {
        Some(profile) => Some(profile.copy()?.iter().collect()),
        None => None,
    };
    let mut body = Body {
        fields: Vec::with_capacity(arguments.len()),
        ..Body::default()
    };
    body.writer.begin('{');
    for (name, value) in arguments {
        match &profile {
            Some(profile) if name == PROFILE => body.profile(value, profile)?,
            _ => body.argument(name, value),
        }
    }
    body.writer.end('}');
    if body.writer.is_foreign() && !is_converted {
        return Ok(None);
    }
    body.checked(validate).map(Some)
}

/// The argument that is an object.
const PROFILE: &str = "profile";

/// A body that is being written, with what the rules have to know of it.
#[derive(Default)]
struct Body<'a> {
    writer: Writer,
    fields: Vec<Written<'a>>,
    profile: Vec<Written<'a>>,
    /// Where null stands for what is no value in a DataFrame, and what that was.
    missing: Vec<(String, &'static str)>,
    datetimes: Vec<Violation>,
}

/// A field, and where its value stands in the text.
struct Written<'a> {
    name: &'a str,
    value: Range<usize>,
}

impl<'a> Body<'a> {
    fn argument(&mut self, name: &'a str, value: &Bound<'_, PyAny>) {
        let value = if let Some(found) = missing_value(value) {
            self.missing.push((format!("/{name}"), found));
            self.writer.field(name, Writer::null)
        } else if name == "date_of_birth" && value.is_instance_of::<PyDateTime>() {
            self.datetimes.push(Violation::new(
                "/date_of_birth",
                ViolationCode::InvalidDate,
                "must be a date, got a datetime; pass .date()",
            ));
            self.writer.field(name, Writer::null)
        } else if let Some(date) = date_text(value) {
            self.writer.field(name, |writer| writer.text(&date))
        } else {
            let place = Place::Field(&Place::Whole, name);
            self.writer.field(name, |writer| writer.value(value, place))
        };
        self.fields.push(Written { name, value });
    }

    /// The profile, whose fields get the names of the wire.
    fn profile(
        &mut self,
        value: &Bound<'_, PyAny>,
        fields: &'a [(Bound<'_, PyAny>, Bound<'_, PyAny>)],
    ) -> Outcome<()> {
        let mut written: Vec<Written<'a>> = Vec::with_capacity(fields.len());
        let mut twice = None;
        let place = Place::Field(&Place::Whole, PROFILE);
        let value = self.writer.field(PROFILE, |writer| {
            writer.container(value, place, |writer| {
                writer.begin('{');
                for (name, value) in fields {
                    let Some(name) = writer.name(name, place) else {
                        continue;
                    };
                    let name = wire_name(name);
                    if written.iter().any(|field| field.name == name) {
                        twice = Some(name);
                    }
                    let place = Place::Field(&place, name);
                    let value = writer.field(name, |writer| writer.value(value, place));
                    written.push(Written { name, value });
                }
                writer.end('}');
            });
        });
        if let Some(wire) = twice {
            let snake = snake_case(wire);
            return Err(Failure::Type(format!(
                "profile names one field twice: {snake} is {wire}"
            )));
        }
        self.profile = written;
        self.fields.push(Written {
            name: PROFILE,
            value,
        });
        Ok(())
    }

    /// The text, if it could all be written and, where that is asked for, keeps every rule.
    fn checked(self, validate: bool) -> Outcome<String> {
        let (text, wrong) = self.writer.finish()?;
        let mut violations = Vec::new();
        if validate {
            let profile = (!self.profile.is_empty()).then(|| read(&text, &self.profile, None));
            let fields = read(&text, &self.fields, profile);
            let body = Value::new(&text, Some(fields));
            if let Err(error) = CheckedAgent::read(body, UnknownFields::Ignore) {
                violations.extend(error.violations().iter().cloned());
            }
        }
        let missing = self.missing.into_iter();
        let missing =
            missing.map(|(pointer, found)| missing_violation(&violations, pointer, found));
        let wrong: Vec<_> = missing.chain(self.datetimes).chain(wrong).collect();
        ValidationError::check(merged(violations, wrong))?;
        Ok(text)
    }
}

/// What was written, as the rules take it.
fn read<'a>(text: &'a str, fields: &[Written<'a>], mut profile: Option<Fields<'a>>) -> Fields<'a> {
    let mut read = Fields::with_capacity(fields.len());
    for Written { name, value } in fields {
        let inside = (*name == PROFILE).then(|| profile.take()).flatten();
        let value = text.get(value.clone()).unwrap_or("null");
        read.push((*name).into(), Value::new(value, inside));
    }
    read
}

/// What stands for no value in a DataFrame, and is none that could be sent: found by its type alone.
fn missing_value(value: &Bound<'_, PyAny>) -> Option<&'static str> {
    // What a request mostly holds. The name of a type takes its time.
    if value.is_none()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyDict>()
        || value.is_exact_instance_of::<PyDate>()
    {
        return None;
    }
    match &*builtin::type_name(value) {
        "NAType" => Some("pandas.NA"),
        "NaTType" => Some("pandas.NaT"),
        _ => {
            let float = value.cast::<PyFloat>().ok()?;
            float.value().is_nan().then_some("a float NaN")
        }
    }
}

/// The violation of what stands for no value. The rules have seen a null in its place, and say what must be
/// there and whether it can be left out.
fn missing_violation(violations: &[Violation], pointer: String, found: &str) -> Violation {
    let of_null = violations
        .iter()
        .find(|violation| violation.pointer == pointer)
        .map(|violation| {
            violation
                .detail
                .replace("got null", &format!("got {found}"))
        });
    let detail = of_null.unwrap_or_else(|| format!("must not be {found}; leave it out instead"));
    Violation::new(pointer, ViolationCode::WrongType, detail)
}

/// A date as text: the one field that has a Python type of its own. A datetime is not a date.
fn date_text(value: &Bound<'_, PyAny>) -> Option<String> {
    let date = value.cast_exact::<PyDate>().ok()?;
    builtin::day(date).map(dealkit::scalar::date_text)
}

/// The violations of the rules, and what could not be written: it counts in the place of what the rules
/// say of the null that stands there.
fn merged(mut violations: Vec<Violation>, unwritable: Vec<Violation>) -> Vec<Violation> {
    let mut others = Vec::new();
    for wrong in unwritable {
        match violations
            .iter_mut()
            .find(|violation| violation.pointer == wrong.pointer)
        {
            Some(violation) => *violation = wrong,
            None => others.push(wrong),
        }
    }
    violations.extend(others);
    violations
}

/// The documented fields of a profile, by their names in Python and on the wire.
static PROFILE_FIELDS: LazyLock<Vec<(String, &'static str)>> = LazyLock::new(|| {
    AgentProfile::known_fields()
        .map(|wire| (snake_case(wire), wire))
        .collect()
});

/// The same for Python: pairs of both names.
pub(crate) fn profile_fields(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, PROFILE_FIELDS.iter())
}

/// The name of a profile's field on the wire: `user_id` is `userId`. What is not known stays.
fn wire_name(name: &str) -> &str {
    let mut fields = PROFILE_FIELDS.iter();
    let field = fields.find(|(snake, wire)| snake == name || *wire == name);
    field.map_or(name, |(_, wire)| wire)
}

/// `partnerUUID` is `partner_uuid`.
fn snake_case(wire: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for letter in wire.chars() {
        if letter.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = letter.is_ascii_lowercase();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
