//! Writes the arguments of a create as the JSON body of its request, and checks the body with the rules of the crate `dealkit`.

use std::{collections::BTreeSet, sync::LazyLock};

use dealkit::{
    AgentProfile, CreateAgent, UnknownFields, ValidationError, Violation, ViolationCode,
    internal::CREATE_AGENT_FIELD_NAMES,
};
use pyo3::{
    prelude::*,
    types::{PyDate, PyDict},
};

use crate::{
    models::write::{Location, Writer},
    python::{
        builtin,
        failure::{Failure, Result},
    },
};

/// Writes the arguments as JSON, without those whose value is the object `omitted`.
///
/// Returns `None` if Python code must convert an argument first. `is_converted` is true after Python code has converted the
/// arguments: then an argument that still needs conversion is a violation.
pub(crate) fn write_agent_body(
    arguments: &Bound<'_, PyDict>,
    omitted: &Bound<'_, PyAny>,
    validate: bool,
    is_converted: bool,
) -> Result<Option<String>> {
    let mut body = AgentBody {
        writer: Writer::for_create(validate),
        ..AgentBody::default()
    };
    body.writer.write_bracket('{');
    // The ledger's hash of a request must not depend on the order of its arguments. `CreateAgent` has the same order.
    let mut arguments_in_order = Vec::with_capacity(arguments.len());
    let mut next_position = 0;
    for (name, value) in arguments {
        if !value.is(omitted) {
            let position = field_position(&name, next_position);
            next_position = position.saturating_add(1);
            arguments_in_order.push((position, name, value));
        }
    }
    arguments_in_order.sort_by_key(|(position, ..)| *position);
    for (_, name, value) in arguments_in_order {
        let Some(name) = body.writer.read_name(&name, Location::Root) else {
            continue;
        };
        // A profile that is not a dict is written like any other value, and the rules reject it.
        match value.cast_exact::<PyDict>() {
            Ok(dict) if name == PROFILE => body.write_profile(dict)?,
            Ok(dict) if name == EXTRA => body.write_extra_fields(dict, arguments, omitted)?,
            _ if name == EXTRA => {
                let location = Location::Field(&Location::Root, EXTRA);
                body.violations.push(extra_violation(location, &value));
            }
            _ => body.write_argument(name, &value),
        }
    }
    body.writer.write_bracket('}');
    if body.writer.needs_conversion() && !is_converted {
        return Ok(None);
    }
    body.finish(validate).map(Some)
}

/// The only argument whose fields have rules.
const PROFILE: &str = "profile";

/// The name under which undocumented fields are passed, as an argument of `create` and as a key of a profile.
const EXTRA: &str = "extra";

#[derive(Default)]
struct AgentBody {
    writer: Writer,
    /// JSON pointers of the undocumented fields in `extra`, which may be sent.
    extra_pointers: BTreeSet<String>,
    violations: Vec<Violation>,
}

impl AgentBody {
    fn write_argument(&mut self, name: &str, value: &Bound<'_, PyAny>) {
        let location = Location::Field(&Location::Root, name);
        self.writer
            .write_field(name, |writer| match date_to_text(value) {
                Some(date) => writer.write_text(&date),
                None => writer.write_value(value, location),
            });
    }

    /// Writes the profile, with the wire names of its fields.
    fn write_profile(&mut self, profile: &Bound<'_, PyDict>) -> Result<()> {
        // Tuples: the wire name of a documented field, the name, the value, and whether the field comes from `extra`. Dicts are
        // copied, because another thread may change the originals.
        let mut fields = Vec::with_capacity(profile.len());
        for (name, value) in profile.copy()? {
            match value.cast_exact::<PyDict>() {
                Ok(extra) if builtin::as_str(&name) == Some(EXTRA) => {
                    let extra = extra.copy()?.into_iter();
                    fields.extend(extra.map(|(name, value)| (None, name, value, true)));
                }
                _ => fields.push((wire_name(&name), name, value, false)),
            }
        }
        // Fields from `extra` come last.
        fields.sort_by(
            |(wire, name, _, is_extra), (other_wire, other, _, is_other_extra)| {
                let order = (*is_extra, wire.or_else(|| builtin::as_str(name)));
                order.cmp(&(
                    *is_other_extra,
                    other_wire.or_else(|| builtin::as_str(other)),
                ))
            },
        );
        let Self {
            writer,
            extra_pointers,
            violations,
        } = self;
        let mut names = BTreeSet::new();
        let mut duplicate_name = None;
        let profile_location = Location::Field(&Location::Root, PROFILE);
        writer.write_field(PROFILE, |writer| {
            writer.write_container(profile_location, |writer| {
                writer.write_bracket('{');
                for (wire, name, value, is_extra) in &fields {
                    let Some(name) = writer.read_name(name, profile_location) else {
                        continue;
                    };
                    let name = wire.unwrap_or(name);
                    if !names.insert(name) {
                        duplicate_name = Some(name);
                    }
                    let location = Location::Field(&profile_location, name);
                    if *is_extra {
                        extra_pointers.insert(location.pointer());
                    } else if name == EXTRA {
                        violations.push(extra_violation(location, value));
                    }
                    writer.write_field(name, |writer| writer.write_value(value, location));
                }
                writer.write_bracket('}');
            });
        });
        match duplicate_name {
            None => Ok(()),
            Some(wire) => Err(Failure::Type(format!(
                "profile names one field twice: {} is {wire}",
                snake_case(wire)
            ))),
        }
    }

    /// Writes the undocumented fields of the request. Fails if one of them is also an argument.
    fn write_extra_fields(
        &mut self,
        extra: &Bound<'_, PyDict>,
        arguments: &Bound<'_, PyDict>,
        omitted: &Bound<'_, PyAny>,
    ) -> Result<()> {
        // The dict is copied, because another thread may change the original.
        let mut extra: Vec<_> = extra.copy()?.into_iter().collect();
        extra.sort_by_cached_key(|(name, _)| builtin::as_str(name).unwrap_or_default().to_owned());
        for (name, value) in extra {
            let Some(name) = self.writer.read_name(&name, Location::Root) else {
                continue;
            };
            let is_same_name = |(argument_name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                builtin::as_str(&argument_name) == Some(name) && !value.is(omitted)
            };
            if name != EXTRA && arguments.iter().any(is_same_name) {
                let message = "extra must not hold a field that is also given as an argument";
                return Err(Failure::Type(message.to_owned()));
            }
            let location = Location::Field(&Location::Root, name);
            self.extra_pointers.insert(location.pointer());
            self.writer
                .write_field(name, |writer| writer.write_value(&value, location));
        }
        Ok(())
    }

    /// Returns the JSON. Fails if a value could not be written or, with `validate`, if the body breaks a rule.
    fn finish(self, validate: bool) -> Result<String> {
        let (text, unwritable) = self.writer.finish()?;
        let mut violations = Vec::new();
        if let Err(error) = CreateAgent::from_json(&text, UnknownFields::Reject) {
            // An unknown argument is rejected even without `validate`, as in the signature of `create`.
            let is_rejected = |violation: &&Violation| match &violation.code {
                ViolationCode::UnknownField if self.extra_pointers.contains(&violation.pointer) => {
                    false
                }
                ViolationCode::UnknownField => validate || !is_in_profile(violation),
                _ => validate,
            };
            let rejected_violations = error.violations().iter().filter(is_rejected);
            violations.extend(rejected_violations.cloned().map(add_extra_advice));
        }
        let unwritable = self.violations.into_iter().chain(unwritable).collect();
        ValidationError::check(merge_violations(violations, unwritable))?;
        Ok(text)
    }
}

/// Returns the violation of an `extra` that is not a dict.
fn extra_violation(location: Location<'_>, value: &Bound<'_, PyAny>) -> Violation {
    let actual_type = builtin::type_name(value);
    Violation::new(
        location.pointer(),
        ViolationCode::WrongType,
        format!("must be an object of undocumented fields, got {actual_type}"),
    )
}

fn is_in_profile(violation: &Violation) -> bool {
    violation.pointer.starts_with("/profile/")
}

/// Adds advice to a violation that concerns an undocumented field.
fn add_extra_advice(mut violation: Violation) -> Violation {
    if violation.code == ViolationCode::UnknownField && is_in_profile(&violation) {
        let detail = &mut violation.detail;
        // Python's names of the fields.
        for (snake, wire) in PROFILE_FIELDS.iter() {
            *detail = detail.replace(&format!("{wire:?}"), &format!("{snake:?}"));
        }
        detail.push_str(r#" (undocumented fields go into profile["extra"])"#);
    }
    violation
}

/// Formats a date. Returns `None` for objects of other types, datetime included. The date of birth is the only field whose Python
/// type is not a type of JSON.
fn date_to_text(value: &Bound<'_, PyAny>) -> Option<String> {
    let date = value.cast_exact::<PyDate>().ok()?;
    builtin::to_naive_date(date).map(dealkit::internal::scalar::format_date)
}

/// Merges the violations of rules with the violations of unwritable values. An unwritable value was written as null, which may also
/// break a rule. Its own violation replaces the rule's violation at the same pointer.
fn merge_violations(mut violations: Vec<Violation>, unwritable: Vec<Violation>) -> Vec<Violation> {
    let mut additional_violations = Vec::new();
    for unwritable in unwritable {
        match violations
            .iter_mut()
            .find(|violation| violation.pointer == unwritable.pointer)
        {
            Some(violation) => *violation = unwritable,
            None => additional_violations.push(unwritable),
        }
    }
    violations.extend(additional_violations);
    violations
}

/// Names of the documented profile fields: in Python, and on the wire.
static PROFILE_FIELDS: LazyLock<Vec<(String, &'static str)>> = LazyLock::new(|| {
    AgentProfile::known_fields()
        .map(|wire| (snake_case(wire), wire))
        .collect()
});

/// Returns the position of an argument in the request's body. Unknown arguments come last. Most arguments are in the right
/// order, so the search begins at the position after the previous argument.
fn field_position(name: &Bound<'_, PyAny>, next_position: usize) -> usize {
    let name = builtin::as_str(name);
    let names = CREATE_AGENT_FIELD_NAMES.iter().enumerate();
    let mut found = names
        .clone()
        .skip(next_position)
        .chain(names.take(next_position))
        .filter(|(_, known)| Some(**known) == name);
    found.next().map_or(usize::MAX, |(position, _)| position)
}

/// Returns the wire name of a documented profile field: `userId` for `user_id`.
fn wire_name(name: &Bound<'_, PyAny>) -> Option<&'static str> {
    let name = builtin::as_str(name)?;
    let mut fields = PROFILE_FIELDS.iter();
    let field = fields.find(|(snake, wire)| snake == name || *wire == name);
    field.map(|(_, wire)| *wire)
}

/// Converts a wire name to snake_case: `partnerUUID` to `partner_uuid`.
fn snake_case(wire: &str) -> String {
    let mut snake = String::new();
    let mut is_after_lower = false;
    for letter in wire.chars() {
        if letter.is_ascii_uppercase() && is_after_lower {
            snake.push('_');
        }
        is_after_lower = letter.is_ascii_lowercase();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
