//! Parsing of the fields of a request, with the rules on their names and types.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::value::RawValue;

use crate::{
    json::lexer::{LexResult, Lexer},
    rules::validate::{
        NullRule, UnknownFields, Violation, ViolationCode, check_kind, check_text, field_pointer,
    },
    specification::field_names,
    value::{Json, JsonKind, Nullable},
};

/// The maximum number of undocumented names in an object that get a suggestion. Comparing names takes time, and a reader needs
/// no more suggestions.
const MAX_SUGGESTIONS: usize = 100;

/// The names of an object and its values as JSON text, in order. If a name occurs several times, the last one counts.
type Object<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Parses a JSON object. `at` is its pointer.
pub(crate) fn parse_object<'a>(at: &str, json: &'a [u8]) -> Result<Object<'a>, Violation> {
    let text = str::from_utf8(json).ok();
    if let Some(Ok(object)) = text.map(read_members) {
        return Ok(object);
    }
    // The lexer's error has no position, so parse again with serde_json to find the position.
    let error = serde_json::from_slice::<BTreeMap<String, &RawValue>>(json).err();
    let detail = match (error, text) {
        (Some(error), text) if !error.is_data() || text.is_none() => {
            let (line, column) = (error.line(), error.column());
            format!("must be JSON, which it is not at line {line} column {column}")
        }
        (_, text) => {
            let found = JsonKind::from_json(text.unwrap_or_default());
            format!("must be an object, got {}", found.name())
        }
    };
    Err(Violation::new(at, ViolationCode::WrongType, detail))
}

fn read_members(text: &str) -> LexResult<Object<'_>> {
    let mut object = Object::with_capacity(field_names::CREATE_AGENT_FIELD_NAMES.len());
    let mut lexer = Lexer::new(text);
    let mut has_more = lexer.begin_object()?;
    while has_more {
        let name = lexer.read_name()?;
        lexer.peek();
        let start = lexer.position();
        if lexer.read_plain_string().is_none() {
            lexer.read_raw()?;
        }
        object.push((name, lexer.slice(start, lexer.position())));
        has_more = lexer.next_field()?;
    }
    lexer.expect_end()?;
    Ok(object)
}

/// The fields of a create request that have not been taken yet, and the violations in the fields that have been taken.
pub(crate) struct Fields<'a> {
    object: Object<'a>,
    pub(crate) violations: Vec<Violation>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(object: Object<'a>) -> Self {
        Self {
            object,
            violations: Vec::new(),
        }
    }

    /// Removes a field, and returns its JSON text if the field is present and has the right type.
    pub(crate) fn take(
        &mut self,
        name: &str,
        kind: JsonKind,
        null_rule: NullRule,
    ) -> Option<&'a str> {
        let check_result = match self.object.iter().rposition(|(field, _)| field == name) {
            Some(at) => {
                let (_, value) = self.object.remove(at);
                check_kind(JsonKind::from_json(value), kind, null_rule).map(|()| value)
            }
            None if null_rule == NullRule::Required => Err((
                ViolationCode::Required,
                "is required and missing".to_owned(),
            )),
            None => return None,
        };
        let record = |(code, detail)| {
            let violation = Violation::new(field_pointer("", name), code, detail);
            self.violations.push(violation);
        };
        check_result.map_err(record).ok()
    }

    /// Removes a required string, and returns it. If the string is missing or invalid, records a violation and returns an empty
    /// string.
    pub(crate) fn take_required_text(&mut self, name: &str) -> String {
        let value = self.take(name, JsonKind::String, NullRule::Required);
        value
            .and_then(|value| self.parse_text(name, value))
            .unwrap_or_default()
    }

    /// Removes a string that may be missing, but must not be null.
    pub(crate) fn take_optional_text<T: From<String>>(&mut self, name: &str) -> Option<T> {
        let value = self.take(name, JsonKind::String, NullRule::Forbidden)?;
        self.parse_text(name, value).map(T::from)
    }

    /// Removes a string that may be missing or null.
    pub(crate) fn take_nullable_text<T: From<String>>(
        &mut self,
        name: &str,
    ) -> Option<Nullable<T>> {
        match self.take(name, JsonKind::String, NullRule::Allowed)? {
            "null" => Some(Nullable::Null),
            value => self
                .parse_text(name, value)
                .map(|text| Nullable::Value(text.into())),
        }
    }

    /// Parses a JSON string, and checks the rule of its field.
    fn parse_text(&mut self, name: &str, json: &str) -> Option<String> {
        let content = json
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let text = match content {
            Some(plain) if !plain.contains('\\') => Some(plain.to_owned()),
            _ => serde_json::from_str(json).ok(),
        };
        if text.is_none() {
            // A valid JSON string is a Rust string unless it has an unpaired surrogate.
            self.violations.push(Violation::new(
                field_pointer("", name),
                ViolationCode::WrongType,
                "must be Unicode text, got an unpaired surrogate",
            ));
        }
        check_text(name, text.as_deref(), &mut self.violations);
        text
    }

    /// Returns the undocumented fields.
    pub(crate) fn undocumented_fields(&self) -> BTreeMap<String, Json> {
        let fields = self.object.iter();
        let undocumented =
            fields.filter(|(name, _)| !field_names::CREATE_AGENT_FIELD_NAMES.contains(&&**name));
        // Parsing cannot fail, because `parse_object` has checked the JSON.
        undocumented
            .filter_map(|(name, value)| Some((name.to_string(), Json::parse(*value).ok()?)))
            .collect()
    }

    /// Returns the violations, after every documented field has been taken. With `UnknownFields::Reject`, the remaining fields
    /// are violations, too.
    pub(crate) fn finish(mut self, unknown: UnknownFields) -> Vec<Violation> {
        let names = self.object.iter().map(|(name, _)| &**name);
        check_names(
            names,
            field_names::CREATE_AGENT_FIELD_NAMES,
            "",
            unknown,
            &mut self.violations,
        );
        self.violations
    }
}

/// Reports undocumented names as violations, in alphabetical order, unless they are ignored.
pub(crate) fn check_names<'n>(
    names: impl Iterator<Item = &'n str>,
    documented: &[&str],
    at: &str,
    unknown: UnknownFields,
    out: &mut Vec<Violation>,
) {
    if unknown == UnknownFields::Ignore {
        return;
    }
    let undocumented: BTreeSet<_> = names.filter(|name| !documented.contains(name)).collect();
    out.extend(undocumented.into_iter().enumerate().map(|(index, name)| {
        let suggestion = (index < MAX_SUGGESTIONS)
            .then(|| field_names::find_similar(name, documented))
            .flatten();
        let hint = match suggestion {
            Some(suggestion) => format!("did you mean {suggestion:?}?"),
            None => "check the spelling".to_owned(),
        };
        Violation::new(
            field_pointer(at, name),
            ViolationCode::UnknownField,
            format!("is not a documented field; {hint}"),
        )
    }));
}
