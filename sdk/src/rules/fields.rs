//! The fields of an object in a request, and the rules on their names and types.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::value::RawValue;

use crate::{
    json::lexer::{LexResult, Lexer},
    rules::validate::{
        Null, UnknownFields, Violation, ViolationCode, check_text, of_kind, pointer,
    },
    specification::field_names,
    value::{Json, JsonKind, Nullable},
};

/// How alike two names must be for one to have been meant by the other, from 0 to 1.
const ALIKE: f64 = 0.85;

/// For how many undocumented names in an object a documented one is looked for: comparing takes time, and nobody reads more.
const GUESSES: usize = 100;

/// The names and values of an object, which are valid JSON, in their order. Of equal names, the last counts.
type Object<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// The object in this text, which is to stand at `at`.
pub(crate) fn object<'a>(at: &str, json: &'a [u8]) -> Result<Object<'a>, Violation> {
    let text = str::from_utf8(json).ok();
    if let Some(Ok(object)) = text.map(read) {
        return Ok(object);
    }
    // The lexer does not say what it refuses.
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

fn read(text: &str) -> LexResult<Object<'_>> {
    let mut object = Object::with_capacity(field_names::CREATE_AGENT_FIELD_NAMES.len());
    let mut lexer = Lexer::new(text);
    let mut more = lexer.begin_object()?;
    while more {
        let name = lexer.read_name()?;
        lexer.peek();
        let start = lexer.position();
        if lexer.read_plain_string().is_none() {
            lexer.read_raw()?;
        }
        object.push((name, lexer.slice(start, lexer.position())));
        more = lexer.next_field()?;
    }
    lexer.expect_end()?;
    Ok(object)
}

/// The fields of an agent to create, with what is wrong with those that have been read.
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

    /// Takes out a field, if it is there and has the right type.
    pub(crate) fn value(&mut self, name: &str, kind: JsonKind, null: Null) -> Option<&'a str> {
        let checked = match self.object.iter().rposition(|(of, _)| of == name) {
            Some(at) => {
                let (_, value) = self.object.remove(at);
                of_kind(JsonKind::from_json(value), kind, null).map(|()| value)
            }
            None if null == Null::Required => Err((
                ViolationCode::Required,
                "is required and missing".to_owned(),
            )),
            None => return None,
        };
        let note = |(code, detail)| {
            let violation = Violation::new(pointer("", name), code, detail);
            self.violations.push(violation);
        };
        checked.map_err(note).ok()
    }

    /// A text that is required; empty if it is missing or wrong, which is a violation.
    pub(crate) fn required_text(&mut self, name: &str) -> String {
        let value = self.value(name, JsonKind::String, Null::Required);
        value
            .and_then(|value| self.text(name, value))
            .unwrap_or_default()
    }

    /// A text that may be omitted, but must not be null.
    pub(crate) fn optional_text<T: From<String>>(&mut self, name: &str) -> Option<T> {
        let value = self.value(name, JsonKind::String, Null::Forbidden)?;
        self.text(name, value).map(T::from)
    }

    /// A text that may be omitted or null.
    pub(crate) fn nullable_text<T: From<String>>(&mut self, name: &str) -> Option<Nullable<T>> {
        match self.value(name, JsonKind::String, Null::Allowed)? {
            "null" => Some(Nullable::Null),
            value => self
                .text(name, value)
                .map(|text| Nullable::Value(text.into())),
        }
    }

    /// The text in a JSON string, whose rule is checked.
    fn text(&mut self, name: &str, json: &str) -> Option<String> {
        let inner = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let text = match inner {
            Some(plain) if !plain.contains('\\') => Some(plain.to_owned()),
            _ => serde_json::from_str(json).ok(),
        };
        if text.is_none() {
            // The only JSON string that is not a Rust string is one with an unpaired surrogate.
            self.violations.push(Violation::new(
                pointer("", name),
                ViolationCode::WrongType,
                "must be Unicode text, got an unpaired surrogate",
            ));
        }
        check_text(name, text.as_deref(), &mut self.violations);
        text
    }

    /// Returns the undocumented fields.
    pub(crate) fn undocumented(&self) -> BTreeMap<String, Json> {
        let fields = self.object.iter();
        let undocumented =
            fields.filter(|(name, _)| !field_names::CREATE_AGENT_FIELD_NAMES.contains(&&**name));
        // Parsing cannot fail, because `object` has checked the JSON.
        undocumented
            .filter_map(|(name, value)| Some((name.to_string(), Json::parse(*value).ok()?)))
            .collect()
    }

    /// What is wrong, once every documented field has been taken out; if undocumented ones are to be rejected, they are, too.
    pub(crate) fn finish(mut self, unknown: UnknownFields) -> Vec<Violation> {
        let given = self.object.iter().map(|(name, _)| &**name);
        check_names(
            given,
            field_names::CREATE_AGENT_FIELD_NAMES,
            "",
            unknown,
            &mut self.violations,
        );
        self.violations
    }
}

/// Reports undocumented names, in alphabetical order, if they are to be rejected.
pub(crate) fn check_names<'n>(
    given: impl Iterator<Item = &'n str>,
    documented: &[&str],
    at: &str,
    unknown: UnknownFields,
    out: &mut Vec<Violation>,
) {
    if unknown == UnknownFields::Ignore {
        return;
    }
    let others: BTreeSet<_> = given.filter(|name| !documented.contains(name)).collect();
    out.extend(others.into_iter().enumerate().map(|(index, name)| {
        let meant = (index < GUESSES)
            .then(|| meant_by(name, documented))
            .flatten();
        let hint = match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "check the spelling".to_owned(),
        };
        Violation::new(
            pointer(at, name),
            ViolationCode::UnknownField,
            format!("is not a documented field; {hint}"),
        )
    }));
}

/// The documented field that an undocumented name may have been meant for.
fn meant_by<'n>(name: &str, documented: &[&'n str]) -> Option<&'n str> {
    let given = letters(name);
    let likeness = |known: &str| strsim::jaro_winkler(&given, &letters(known));
    let known = documented.iter().map(|known| (likeness(known), *known));
    let (likeness, known) = known.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (likeness >= ALIKE).then_some(known)
}

/// A name without what tells `externalId` from `external_id`. Of a long name the beginning: comparing takes time.
fn letters(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.take(64).flat_map(char::to_lowercase).collect()
}
