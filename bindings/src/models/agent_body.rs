//! The body of a create request: Python's arguments as JSON, checked by the core's rules.

use std::{collections::BTreeSet, sync::LazyLock};

use dealkit::{
    AgentProfile, CreateAgent, UnknownFields, ValidationError, Violation, ViolationCode,
};
use pyo3::{
    prelude::*,
    types::{PyDate, PyDict},
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
    let mut body = Written {
        writer: Writer::for_create(validate),
        ..Written::default()
    };
    body.writer.bracket('{');
    for (name, value) in given {
        if value.is(omitted) {
            continue;
        }
        let Some(name) = body.writer.name(&name, Place::Whole) else {
            continue;
        };
        // A profile that is not a dict is written, and refused, like any other value.
        match value.cast_exact::<PyDict>() {
            Ok(dict) if name == PROFILE => body.profile(dict)?,
            _ => body.argument(name, &value),
        }
    }
    body.writer.bracket('}');
    if body.writer.is_foreign() && !is_converted {
        return Ok(None);
    }
    body.checked(validate).map(Some)
}

/// The only argument whose fields have rules, too.
const PROFILE: &str = "profile";

/// Where a profile has its undocumented fields, as in Rust's `AgentProfile::extra`.
const EXTRA: &str = "extra";

#[derive(Default)]
struct Written {
    writer: Writer,
    /// The pointers of the undocumented fields that are sent on purpose.
    extra: BTreeSet<String>,
    refused: Vec<Violation>,
}

impl Written {
    fn argument(&mut self, name: &str, value: &Bound<'_, PyAny>) {
        let place = Place::Field(&Place::Whole, name);
        self.writer.field(name, |writer| match date_text(value) {
            Some(date) => writer.text(&date),
            None => writer.value(value, place),
        });
    }

    /// The profile, whose fields get their wire names.
    fn profile(&mut self, profile: &Bound<'_, PyDict>) -> Outcome<()> {
        // Each with whether it is an undocumented one. Copies, since another thread may change the caller's dicts.
        let mut fields = Vec::with_capacity(profile.len());
        for (name, value) in profile.copy()? {
            match value.cast_exact::<PyDict>() {
                Ok(extra) if builtin::str_text(&name) == Some(EXTRA) => {
                    let extra = extra.copy()?.into_iter();
                    fields.extend(extra.map(|(name, value)| (name, value, true)));
                }
                _ => fields.push((name, value, false)),
            }
        }
        let Self {
            writer,
            extra: pointers,
            refused,
        } = self;
        let mut names = BTreeSet::new();
        let mut twice = None;
        let place = Place::Field(&Place::Whole, PROFILE);
        writer.field(PROFILE, |writer| {
            writer.container(place, |writer| {
                writer.bracket('{');
                for (name, value, is_extra) in &fields {
                    let Some(name) = writer.name(name, place) else {
                        continue;
                    };
                    let name = if *is_extra { name } else { wire_name(name) };
                    if !names.insert(name) {
                        twice = Some(name);
                    }
                    let place = Place::Field(&place, name);
                    if *is_extra {
                        pointers.insert(place.pointer());
                    } else if name == EXTRA {
                        let found = builtin::type_name(value);
                        refused.push(Violation::new(
                            place.pointer(),
                            ViolationCode::WrongType,
                            format!("must be an object of undocumented fields, got {found}"),
                        ));
                    }
                    writer.field(name, |writer| writer.value(value, place));
                }
                writer.bracket('}');
            });
        });
        match twice {
            None => Ok(()),
            Some(wire) => Err(Failure::Type(format!(
                "profile names one field twice: {} is {wire}",
                snake_case(wire)
            ))),
        }
    }

    /// The text, if all of it could be written and, if `validate` is set, it follows every rule.
    fn checked(self, validate: bool) -> Outcome<String> {
        let (text, wrong) = self.writer.finish()?;
        let mut violations = Vec::new();
        if let Err(error) = CreateAgent::from_json(&text, UnknownFields::Reject) {
            // A name that is none of an argument's is refused in any case, as it is by `create`.
            let is_broken = |violation: &&Violation| match &violation.code {
                ViolationCode::UnknownField if in_profile(violation) => {
                    validate && !self.extra.contains(&violation.pointer)
                }
                code => validate || *code == ViolationCode::UnknownField,
            };
            let broken = error.violations().iter().filter(is_broken);
            violations.extend(broken.cloned().map(with_advice));
        }
        let wrong = self.refused.into_iter().chain(wrong).collect();
        ValidationError::check(merged(violations, wrong))?;
        Ok(text)
    }
}

fn in_profile(violation: &Violation) -> bool {
    violation.pointer.starts_with("/profile/")
}

/// A violation, with what to do if an undocumented field is meant.
fn with_advice(mut violation: Violation) -> Violation {
    if violation.code == ViolationCode::UnknownField && in_profile(&violation) {
        let detail = &mut violation.detail;
        detail.push_str(r#" (undocumented fields go into profile["extra"])"#);
    }
    violation
}

/// A date as text: the only field with a Python type of its own. A datetime is not a date.
fn date_text(value: &Bound<'_, PyAny>) -> Option<String> {
    let date = value.cast_exact::<PyDate>().ok()?;
    builtin::day(date).map(dealkit::internal::scalar::format_date)
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
