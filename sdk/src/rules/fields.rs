//! The contents of a request: each documented field at its index, so that no rule has to search for a name.
//!
//! Hidden, because it is for the sandbox server and the bindings, whose bodies have already been read or written:
//! they are not read a second time.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{
    Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    contract::names::{self, Known, create_agent},
    rules::validate::{
        Null, Text, UnknownFields, ValidationError, Violation, ViolationCode, of_kind, pointer,
    },
    value::{Json, JsonKind, Name, Nullable},
};

/// The only field of a request that is an object whose fields have rules, too.
pub const PROFILE: &str = create_agent::PROFILE.name;

/// Its pointer in a request.
pub const PROFILE_AT: &str = "/profile";

/// How alike two names must be for one to have been meant by the other, from 0 to 1.
const ALIKE: f64 = 0.85;

/// For how many undocumented names in an object a documented one is looked for: comparing takes time, and nobody reads more.
const GUESSES: usize = 100;

/// A value of a field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// Any valid JSON, including strings, but then only those with escapes.
    Json(&'a str),
}

impl<'a> Value<'a> {
    /// A value that is valid JSON, without surrounding white space.
    pub fn of_json(json: &'a str) -> Self {
        let inside = json.strip_prefix('"');
        match inside.and_then(|text| text.strip_suffix('"')) {
            Some(text) if !text.contains('\\') => Self::Text(text),
            _ => Self::Json(json),
        }
    }

    fn kind(self) -> JsonKind {
        match self {
            Self::Text(_) => JsonKind::String,
            Self::Json(json) => JsonKind::of(json),
        }
    }

    /// The string, unless it contains an unpaired surrogate.
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Json(json) => serde_json::from_str(json).ok().map(Cow::Owned),
        }
    }

    fn to_json(self) -> Option<Json> {
        match self {
            Self::Text(text) => Some(Json::from(text)),
            Self::Json(json) => Json::parse(json).ok(),
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value(<{}>)", self.kind().name())
    }
}

/// The body of a request, and its fields if it is an object that has already been read.
#[derive(Debug)]
pub struct Body<'a> {
    /// Valid JSON.
    json: &'a str,
    fields: Option<Fields<'a>>,
    profile: Option<Fields<'a>>,
}

impl<'a> Body<'a> {
    /// A body that is valid JSON.
    pub fn unread(json: &'a str) -> Self {
        Self::read(json, None, None)
    }

    /// A body that is valid JSON, with its fields and those of its profile, if these are objects.
    pub fn read(json: &'a str, fields: Option<Fields<'a>>, profile: Option<Fields<'a>>) -> Self {
        Self {
            json,
            fields,
            profile,
        }
    }

    /// The fields, and those of the profile if they have been read.
    pub(crate) fn fields(self) -> Result<(Fields<'a>, Option<Fields<'a>>), ValidationError> {
        let fields = match self.fields {
            Some(fields) => fields,
            None => Fields::of_agent().read_body(self.json)?,
        };
        Ok((fields, self.profile))
    }
}

/// The fields of an object in a request. Of fields with equal names, the last counts.
pub struct Fields<'a> {
    /// The names of the documented fields, each at its index.
    names: &'static [&'static str],
    /// The pointer of the object itself.
    at: &'static str,
    known: Vec<Option<Value<'a>>>,
    /// The index after that of the last field put.
    next: usize,
    /// The undocumented fields.
    others: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.iter().flatten().count();
        write!(f, "Fields({} fields)", known + self.others.len())
    }
}

impl<'a> Fields<'a> {
    fn of(names: &'static [&'static str], at: &'static str) -> Self {
        Self {
            names,
            at,
            known: vec![None; names.len()],
            next: 0,
            others: Vec::new(),
        }
    }

    /// The fields of an agent to create, initially empty.
    pub fn of_agent() -> Self {
        Self::of(create_agent::ALL, "")
    }

    /// The fields of its profile, initially empty.
    pub fn of_profile() -> Self {
        Self::of(names::PROFILE_NAMES, PROFILE_AT)
    }

    /// The fields of a profile that is not part of a request.
    pub(crate) fn of_profile_alone(json: &'a str) -> Result<Self, ValidationError> {
        Self::of(names::PROFILE_NAMES, "").read_body(json)
    }

    /// The index of the field with this name, if it is documented.
    pub fn place(&self, name: &str) -> Option<usize> {
        // Fields mostly come in the specification's order.
        let (before, after) = self.names.split_at_checked(self.next)?;
        let find = |names: &[&str]| names.iter().position(|known| *known == name);
        match find(after) {
            Some(place) => Some(before.len() + place),
            None => find(before),
        }
    }

    /// Whether there is a value at this index.
    #[inline]
    pub fn has(&self, place: usize) -> bool {
        self.value_at(place).is_some()
    }

    /// Puts a field at its index. The name must be unescaped.
    #[inline]
    pub fn put(&mut self, place: Option<usize>, name: impl Into<Cow<'a, str>>, value: Value<'a>) {
        match place.and_then(|place| Some((place, self.known.get_mut(place)?))) {
            Some((place, known)) => {
                *known = Some(value);
                self.next = place + 1;
            }
            None => self.others.push((name.into(), value)),
        }
    }

    /// The value of a documented field.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.value_at(self.place(name)?)
    }

    #[inline]
    fn value_at(&self, place: usize) -> Option<Value<'a>> {
        self.known.get(place).copied().flatten()
    }

    /// Adds the fields of an object.
    pub(crate) fn read(self, object: Value<'a>) -> Option<Self> {
        match object {
            Value::Json(json) => self.read_json(json),
            Value::Text(_) => None,
        }
    }

    /// Adds the fields of a body that must be an object.
    fn read_body(self, json: &'a str) -> Result<Self, ValidationError> {
        self.read_json(json).ok_or_else(|| {
            let found = JsonKind::of(json).name();
            ValidationError::one(Violation::new(
                "",
                ViolationCode::WrongType,
                format!("must be an object, got {found}"),
            ))
        })
    }

    fn read_json(self, json: &'a str) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(json);
        reader.deserialize_map(ObjectVisitor(self)).ok()
    }

    /// All fields, by name.
    pub(crate) fn into_map(self) -> BTreeMap<Cow<'static, str>, Json> {
        let known = self.names.iter().zip(self.known);
        let known = known.filter_map(|(name, value)| Some((Cow::Borrowed(*name), value?)));
        let others = self.others.into_iter();
        let others = others.map(|(name, value)| (Cow::Owned(name.into_owned()), value));
        let read = |(name, value): (_, Value<'a>)| Some((name, value.to_json()?));
        known.chain(others).filter_map(read).collect()
    }

    /// Checks the type of a field; `None` if the field is missing or has another type.
    pub(crate) fn value(
        &self,
        field: Known,
        kind: JsonKind,
        null: Null,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Value<'a>>> {
        let value = self.value_at(field.index)?;
        let found = value.kind();
        match of_kind(found, kind, null) {
            Ok(()) if found == JsonKind::Null => Some(Nullable::Null),
            Ok(()) => Some(Nullable::Value(value)),
            Err((code, detail)) => {
                out.push(Violation::new(pointer(self.at, field.name), code, detail));
                None
            }
        }
    }

    /// Like `value`, for a field that is required.
    pub(crate) fn required(
        &self,
        field: Known,
        kind: JsonKind,
        out: &mut Vec<Violation>,
    ) -> Option<Value<'a>> {
        if !self.has(field.index) {
            out.push(Violation::new(
                pointer(self.at, field.name),
                ViolationCode::Required,
                "is required and missing",
            ));
        }
        self.value(field, kind, Null::Required, out)?.value()
    }

    pub(crate) fn required_text(
        &self,
        text: &Text,
        out: &mut Vec<Violation>,
    ) -> Option<Cow<'a, str>> {
        let value = self.required(text.0, JsonKind::String, out)?;
        self.checked(text, value, out)
    }

    /// A field that may be omitted, but must not be null.
    pub(crate) fn text(&self, text: &Text, out: &mut Vec<Violation>) -> Option<Cow<'a, str>> {
        let value = self.value(text.0, JsonKind::String, Null::Forbidden, out)?;
        self.checked(text, value.value()?, out)
    }

    /// A field that may be omitted or null.
    pub(crate) fn nullable_text(
        &self,
        text: &Text,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Cow<'a, str>>> {
        match self.value(text.0, JsonKind::String, Null::Allowed, out)? {
            Nullable::Value(value) => self.checked(text, value, out).map(Nullable::Value),
            Nullable::Null => Some(Nullable::Null),
        }
    }

    /// Identifiers are opaque: every string is valid.
    pub(crate) fn identifier(
        &self,
        field: Known,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Cow<'a, str>>> {
        self.nullable_text(&Text(field, |_| Ok(())), out)
    }

    fn checked(
        &self,
        text: &Text,
        value: Value<'a>,
        out: &mut Vec<Violation>,
    ) -> Option<Cow<'a, str>> {
        let checked = value
            .text()
            .ok_or_else(|| {
                // The only JSON string that is not a Rust string is one with an unpaired surrogate.
                let detail = "must be Unicode text, got an unpaired surrogate";
                (ViolationCode::WrongType, detail.to_owned())
            })
            .and_then(|value| (text.1)(&value).map(|()| value));
        match checked {
            Ok(value) => Some(value),
            Err((code, detail)) => {
                let pointer = pointer(self.at, text.0.name);
                out.push(Violation::new(pointer, code, detail));
                None
            }
        }
    }

    /// Reports undocumented fields, if they are to be rejected.
    pub(crate) fn check_others(&self, unknown: UnknownFields, out: &mut Vec<Violation>) {
        if unknown == UnknownFields::Reject {
            // Sorted by name, each once.
            let others: BTreeSet<&str> = self.others.iter().map(|(name, _)| &**name).collect();
            out.extend(others.into_iter().enumerate().map(|(index, name)| {
                let meant = (index < GUESSES).then(|| self.meant_by(name)).flatten();
                let hint = match meant {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => "check the spelling".to_owned(),
                };
                Violation::new(
                    pointer(self.at, name),
                    ViolationCode::UnknownField,
                    format!("is not a documented field; {hint}"),
                )
            }));
        }
    }

    /// The documented field that an undocumented name may have been meant for.
    fn meant_by(&self, name: &str) -> Option<&'static str> {
        let given = letters(name);
        let likeness = |known: &str| strsim::jaro_winkler(&given, &letters(known));
        let known = self.names.iter().map(|known| (likeness(known), *known));
        let (likeness, known) = known.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        (likeness >= ALIKE).then_some(known)
    }
}

/// A name without what tells `externalId` from `external_id`. Of a long name the beginning: comparing takes time.
fn letters(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.take(64).flat_map(char::to_lowercase).collect()
}

/// Reads the fields of an object and keeps their values as text.
struct ObjectVisitor<'a>(Fields<'a>);

impl<'de> Visitor<'de> for ObjectVisitor<'de> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Fields<'de>, A::Error> {
        let Self(mut fields) = self;
        while let Some((Name(name), value)) = object.next_entry::<Name<'de>, &RawValue>()? {
            fields.put(fields.place(&name), name, Value::of_json(value.get()));
        }
        Ok(fields)
    }
}
