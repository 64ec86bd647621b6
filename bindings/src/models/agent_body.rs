//! The body of a create request: Python's arguments as JSON, checked by the core's rules.

use std::{cell::OnceCell, ops::Range, sync::LazyLock};

use dealkit::{
    AgentProfile, CheckedAgent, UnknownFields, ValidationError, Violation, ViolationCode,
    fields::{Body, Fields, PROFILE, PROFILE_AT, Value},
};
use pyo3::{
    prelude::*,
    types::{PyDate, PyDateTime, PyDict, PyFloat, PyString, PyTuple},
};

use crate::{
    models::write::{Place, Writer},
    python::{
        builtin,
        failure::{Failure, Outcome},
    },
};

/// The arguments as JSON, without those that are `omitted`; `None` if Python code has to convert one of them first
/// and has not done so yet.
pub(crate) fn written(
    given: &Bound<'_, PyDict>,
    omitted: &Bound<'_, PyAny>,
    validate: bool,
    is_converted: bool,
) -> Outcome<Option<String>> {
    let arguments: Vec<_> = given.iter().collect();
    let profile = OnceCell::new();
    let mut body = Written::new();
    body.writer.begin('{');
    for (name, value) in &arguments {
        if value.is(omitted) {
            continue;
        }
        let name = name.cast::<PyString>().map_err(PyErr::from)?.to_str()?;
        // A profile that is not a dict is written, and refused, like any other value.
        match value.cast_exact::<PyDict>() {
            Ok(dict) if name == PROFILE => {
                let members = members(dict)?;
                body.profile(value, profile.get_or_init(|| members))?;
            }
            _ => body.argument(name, value),
        }
    }
    body.writer.end('}');
    if body.writer.is_foreign() && !is_converted {
        return Ok(None);
    }
    body.checked(validate).map(Some)
}

/// One field of a profile, as the caller has given it.
struct Member<'py> {
    name: Bound<'py, PyAny>,
    value: Bound<'py, PyAny>,
    /// Whether it was given under [`EXTRA`], by its name on the wire: it may be undocumented.
    is_extra: bool,
}

/// Where a profile has its undocumented fields, as in Rust's `AgentProfile::extra`.
const EXTRA: &str = "extra";

/// The fields of a profile. Copies, since another thread may change the caller's dicts.
fn members<'py>(profile: &Bound<'py, PyDict>) -> PyResult<Vec<Member<'py>>> {
    let mut members = Vec::with_capacity(profile.len());
    for (name, value) in profile.copy()? {
        let is_extra = builtin::str_text(&name) == Some(EXTRA);
        match value.cast_exact::<PyDict>() {
            Ok(extra) if is_extra => {
                members.extend(extra.copy()?.into_iter().map(|(name, value)| Member {
                    name,
                    value,
                    is_extra,
                }));
            }
            _ => members.push(Member {
                name,
                value,
                is_extra: false,
            }),
        }
    }
    Ok(members)
}

/// A body that is being written, with what the rules need to know about it.
struct Written<'a> {
    writer: Writer,
    /// The fields that are text: the rules look at Python's own strings.
    fields: Fields<'a>,
    /// The same for the profile, if it is an object.
    profile: Option<Fields<'a>>,
    /// The other fields.
    others: Vec<Field<'a>>,
    /// The other fields of the profile.
    profile_others: Vec<Field<'a>>,
    /// Where null stands in for a missing value of a DataFrame, and what that value was.
    missing: Vec<(String, &'static str)>,
    refused: Vec<Violation>,
}

/// A field whose value is to be read from where it stands in the text.
struct Field<'a> {
    name: &'a str,
    place: Option<usize>,
    value: Range<usize>,
}

impl<'a> Written<'a> {
    fn new() -> Self {
        Self {
            writer: Writer::default(),
            fields: Fields::of_agent(),
            profile: None,
            others: Vec::new(),
            profile_others: Vec::new(),
            missing: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn argument(&mut self, name: &'a str, value: &'a Bound<'_, PyAny>) {
        let field_place = self.fields.place(name);
        let place = Place::Field(&Place::Whole, name);
        // Most values of a request are text.
        if let Some(text) = builtin::str_text(value) {
            let value = self.writer.text_field(name, text, place);
            return self.fields.put(field_place, name, value);
        }
        let value = if let Some(found) = missing_value(value) {
            self.missing.push((format!("/{name}"), found));
            self.writer.field(name, Writer::null)
        } else if name == "date_of_birth" && value.is_instance_of::<PyDateTime>() {
            self.refused.push(Violation::new(
                "/date_of_birth",
                ViolationCode::InvalidDate,
                "must be a date, got a datetime; pass .date()",
            ));
            self.writer.field(name, Writer::null)
        } else if let Some(date) = date_text(value) {
            self.writer.field(name, |writer| writer.text(&date))
        } else {
            self.writer.field(name, |writer| writer.value(value, place))
        };
        self.others.push(Field {
            name,
            place: field_place,
            value,
        });
    }

    /// The profile, whose fields get their wire names.
    fn profile(&mut self, value: &Bound<'_, PyAny>, given: &'a [Member<'_>]) -> Outcome<()> {
        let mut fields = Fields::of_profile();
        let others = &mut self.profile_others;
        let refused = &mut self.refused;
        let mut twice = None;
        let place = Place::Field(&Place::Whole, PROFILE);
        let text = self.writer.field(PROFILE, |writer| {
            writer.container(value, place, |writer| {
                writer.begin('{');
                for Member {
                    name,
                    value,
                    is_extra,
                } in given
                {
                    let Some(name) = writer.name(name, place) else {
                        continue;
                    };
                    let name = if *is_extra { name } else { wire_name(name) };
                    let field_place = fields.place(name);
                    if field_place.is_some_and(|place| fields.has(place)) {
                        twice = Some(name);
                    }
                    if !is_extra && name == EXTRA {
                        let found = builtin::type_name(value);
                        refused.push(Violation::new(
                            format!("{PROFILE_AT}/{EXTRA}"),
                            ViolationCode::WrongType,
                            format!("must be an object of undocumented fields, got {found}"),
                        ));
                    }
                    if (*is_extra || name == EXTRA) && field_place.is_none() {
                        // The rules know nothing of it.
                        let place = Place::Field(&place, name);
                        writer.field(name, |writer| writer.value(value, place));
                        continue;
                    }
                    let place = Place::Field(&place, name);
                    if let Some(text) = builtin::str_text(value) {
                        let value = writer.text_field(name, text, place);
                        fields.put(field_place, name, value);
                        continue;
                    }
                    let value = writer.field(name, |writer| writer.value(value, place));
                    if field_place.is_some() {
                        // This reserves the place; the value there is looked at once the text is complete.
                        fields.put(field_place, name, Value::Json("null"));
                    }
                    others.push(Field {
                        name,
                        place: field_place,
                        value,
                    });
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
        self.profile = Some(fields);
        self.others.push(Field {
            name: PROFILE,
            place: self.fields.place(PROFILE),
            value: text,
        });
        Ok(())
    }

    /// The text, if all of it could be written and, if `validate` is set, it follows every rule.
    fn checked(self, validate: bool) -> Outcome<String> {
        let (text, wrong) = self.writer.finish()?;
        let mut violations = Vec::new();
        if validate {
            let fields = completed(self.fields, &self.others, &text);
            let profile = self
                .profile
                .map(|profile| completed(profile, &self.profile_others, &text));
            let body = Body::read(&text, Some(fields), profile);
            if let Err(error) = CheckedAgent::read(body, UnknownFields::Reject) {
                violations.extend(error.violations().iter().cloned().map(with_advice));
            }
        }
        let missing = self.missing.into_iter();
        let missing =
            missing.map(|(pointer, found)| missing_violation(&violations, pointer, found));
        let wrong: Vec<_> = missing.chain(self.refused).chain(wrong).collect();
        ValidationError::check(merged(violations, wrong))?;
        Ok(text)
    }
}

/// A violation, with what to do if an undocumented field is meant.
fn with_advice(mut violation: Violation) -> Violation {
    if violation.code == ViolationCode::UnknownField {
        let detail = &mut violation.detail;
        detail.push_str(r#" (undocumented fields go into profile["extra"])"#);
    }
    violation
}

/// The fields, together with those whose values stand in the text.
fn completed<'a>(mut fields: Fields<'a>, others: &[Field<'a>], text: &'a str) -> Fields<'a> {
    for Field { name, place, value } in others {
        let value = text.get(value.clone()).unwrap_or("null");
        fields.put(*place, *name, Value::of_json(value));
    }
    fields
}

/// A missing value of a DataFrame, which cannot be sent: recognised by its type alone.
fn missing_value(value: &Bound<'_, PyAny>) -> Option<&'static str> {
    // The types that a request may hold come first: getting the name of a type is slow.
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

/// The violation for a missing value. The rules have seen a null in its place, and say what must be there and whether
/// it can be left out.
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

/// A date as text: the only field with a Python type of its own. A datetime is not a date.
fn date_text(value: &Bound<'_, PyAny>) -> Option<String> {
    let date = value.cast_exact::<PyDate>().ok()?;
    builtin::day(date).map(dealkit::scalar::date_text)
}

/// The violations of the rules and those of values that could not be written, which replace what the rules say about
/// the null in their place.
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

/// The wire name of a profile field: `user_id` is `userId`. Unknown names stay as they are.
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
