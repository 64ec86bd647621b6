//! The rules of a create request, and the codes of what breaks them.
//!
//! The client calls them before a byte leaves, the sandbox server when a body arrives: there is one set.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use email_address::{EmailAddress, Options};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use url::Url;

use crate::{
    names::{self, pointer_token},
    value::{Json, Kind, Name, Nullable, Role, expected, open_set, parse_date},
};

/// The shortest first or last name, in Unicode code points (specification, "Limits").
pub const NAME_MIN: usize = 1;

/// The longest first or last name, in Unicode code points (specification, "Limits").
pub const NAME_MAX: usize = 255;

/// How many violations an error text shows. Only unknown fields can make more.
const SHOWN: usize = 100;

/// One way in which a request breaks the rules.
///
/// No text in it repeats a value that was given. The pointer is exact; `Display` and `Debug` show `*` in it
/// for names that the specification does not have: what stands there may be personal.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// Where, as a JSON pointer (RFC 6901) into the request body; empty for the body itself. It can hold
    /// names from the request.
    pub pointer: String,
    /// Which rule.
    pub code: ViolationCode,
    /// What is wrong and what would be right, for a person.
    pub detail: String,
}

impl Violation {
    /// A violation at `pointer`.
    pub fn new(pointer: impl Into<String>, code: ViolationCode, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            code,
            detail: detail.into(),
        }
    }

    /// The pointer as texts show it: with `*` in the place of each name that the specification does not have.
    pub fn masked_pointer(&self) -> String {
        names::masked_pointer(&self.pointer)
    }

    /// Where, for an error text: a pointer, or what is wrong as a whole.
    pub(crate) fn place(&self) -> String {
        match (self.pointer.as_str(), &self.code) {
            ("", ViolationCode::InvalidId) => "the identifier".to_owned(),
            ("", _) => "the body".to_owned(),
            _ => self.masked_pointer(),
        }
    }
}

impl<'de> Deserialize<'de> for Violation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "Violation")]
        struct Parts {
            pointer: String,
            code: ViolationCode,
            detail: String,
        }

        let Parts {
            pointer,
            code,
            detail,
        } = Parts::deserialize(deserializer).map_err(expected(
            "an object whose `pointer`, `code` and `detail` are strings",
        ))?;
        Ok(Self::new(pointer, code, detail))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.place(), self.detail, self.code)
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Violation")
            .field("pointer", &self.masked_pointer())
            .field("code", &self.code)
            .field("detail", &self.detail)
            .finish()
    }
}

open_set! {
    /// Which rule a request breaks. The SDK and the sandbox server share one closed list; what another service
    /// invents is kept in `Other`.
    ViolationCode {
        /// A field that must be there is missing.
        Required = "required",
        /// The JSON type is not the one that the field has.
        WrongType = "wrong_type",
        /// The field must not be null.
        NullNotAllowed = "null_not_allowed",
        /// The string has too few characters (Unicode code points).
        TooShort = "too_short",
        /// The string has too many characters (Unicode code points).
        TooLong = "too_long",
        /// The string is not a bare mailbox of RFC 5321.
        InvalidEmail = "invalid_email",
        /// The string is not a plus sign followed by digits.
        InvalidPhone = "invalid_phone",
        /// The string is not an absolute URL.
        InvalidUrl = "invalid_url",
        /// The string is not a day `YYYY-MM-DD` that exists.
        InvalidDate = "invalid_date",
        /// The string is none of the closed set.
        UnknownValue = "unknown_value",
        /// The field is undocumented; only where unknown fields are rejected.
        UnknownField = "unknown_field",
        /// The identifier cannot be sent as a path segment; only in the SDK.
        InvalidId = "invalid_id",
    }
}

/// A request breaks the rules: every violation, not the first. `Display` shows the first 100.
///
/// ```
/// use dealkit::{AgentProfile, CreateAgent};
///
/// let error = CreateAgent::builder()
///     .email("not an address")
///     .first_name("")
///     .last_name("Lovelace")
///     .profile(AgentProfile::new())
///     .build()
///     .unwrap_err();
/// let places: Vec<&str> = error.violations().iter().map(|v| v.pointer.as_str()).collect();
/// assert_eq!(places, ["/email", "/first_name"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    violations: Vec<Violation>,
}

impl ValidationError {
    /// What is wrong, in the order of the specification's tables; at least one.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// An error of these violations, if there are any; for rules that are checked somewhere else.
    ///
    /// # Errors
    /// When `violations` is not empty.
    pub fn check(violations: Vec<Violation>) -> Result<(), Self> {
        if violations.is_empty() {
            Ok(())
        } else {
            Err(Self { violations })
        }
    }

    pub(crate) fn one(violation: Violation) -> Self {
        Self {
            violations: vec![violation],
        }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request breaks the rules: ")?;
        for (at, violation) in self.violations.iter().take(SHOWN).enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            violation.fmt(f)?;
        }
        match self.violations.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for ValidationError {}

/// What to do with fields that the specification does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// Leave them alone.
    #[default]
    Ignore,
    /// Report each as [`ViolationCode::UnknownField`], to catch typing mistakes.
    Reject,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    Allowed,
    /// It must be left out instead.
    Forbidden,
    /// The field must be there.
    Required,
}

/// A JSON value, as text and as far as it was read.
///
/// Hidden, because it is for the sandbox server: its reader of request bodies is stricter than serde_json, and what
/// that has gone through once is not read again.
#[doc(hidden)]
#[derive(Debug)]
pub struct Value<'a> {
    /// Valid JSON.
    text: &'a str,
    fields: Option<Fields<'a>>,
}

impl<'a> Value<'a> {
    /// A value that is valid JSON, with its fields if it is an object that was read already.
    pub fn new(text: &'a str, fields: Option<Fields<'a>>) -> Self {
        Self { text, fields }
    }

    /// The fields of an object that stands at this pointer.
    pub(crate) fn fields(self, at: &'static str) -> Option<Fields<'a>> {
        let fields = match self.fields {
            Some(fields) => fields,
            None => {
                let mut reader = serde_json::Deserializer::from_str(self.text);
                reader.deserialize_map(ObjectVisitor).ok()?
            }
        };
        Some(Fields { at, ..fields })
    }
}

/// The fields of an object, with those marked that a rule has looked at. Hidden, as [`Value`] is.
#[doc(hidden)]
#[derive(Default)]
pub struct Fields<'a> {
    /// In the order of the text. Of fields with one name the last counts.
    fields: Vec<Field<'a>>,
    /// The pointer of the object itself.
    at: &'static str,
}

struct Field<'a> {
    name: Cow<'a, str>,
    value: Value<'a>,
    is_taken: bool,
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fields({} fields)", self.fields.len())
    }
}

/// The code and the detail of a broken rule.
type Broken = (ViolationCode, String);

/// A field that is text, and the rule on it.
pub(crate) struct Text {
    pub(crate) name: &'static str,
    pub(crate) rule: fn(&str) -> Result<(), Broken>,
}

impl Text {
    /// Checks the rule on a field of the request itself, if it is there.
    pub(crate) fn check(&self, text: Option<&str>, out: &mut Vec<Violation>) {
        if let Some(Err((code, detail))) = text.map(self.rule) {
            out.push(Violation::new(pointer("", self.name), code, detail));
        }
    }
}

/// The pointer of a field of the object at `at`.
pub(crate) fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", pointer_token(name))
}

/// Checks the type of a field.
pub(crate) fn of_kind(found: Kind, kind: Kind, null: Null) -> Result<(), Broken> {
    let expected = kind.name();
    match found {
        _ if found == kind => Ok(()),
        Kind::Null if null == Null::Allowed => Ok(()),
        Kind::Null => Err((
            ViolationCode::NullNotAllowed,
            match null {
                Null::Required => format!("must be {expected}, got null"),
                _ => format!("must be {expected}, got null; leave it out instead"),
            },
        )),
        found => Err((
            ViolationCode::WrongType,
            format!("must be {expected}, got {}", found.name()),
        )),
    }
}

impl<'a> Fields<'a> {
    /// None yet, with room for so many.
    pub fn with_capacity(fields: usize) -> Self {
        Self {
            fields: Vec::with_capacity(fields),
            at: "",
        }
    }

    /// Adds a field, its name without escapes.
    pub fn push(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        self.fields.push(Field {
            name,
            value,
            is_taken: false,
        });
    }

    /// The fields of a whole body, which must be an object.
    pub(crate) fn of_body(body: Value<'a>) -> Result<Self, ValidationError> {
        let text = body.text;
        body.fields("").ok_or_else(|| {
            let found = Kind::of(text).name();
            ValidationError::one(Violation::new(
                "",
                ViolationCode::WrongType,
                format!("must be an object, got {found}"),
            ))
        })
    }

    /// The JSON text of a field.
    pub fn json(&self, name: &str) -> Option<&'a str> {
        let named = self.fields.iter().rfind(|field| field.name == name);
        named.map(|field| field.value.text)
    }

    /// All of them, by name.
    pub(crate) fn into_map(self) -> BTreeMap<Cow<'static, str>, Json> {
        let fields = self.fields.into_iter();
        let read = |field: Field<'a>| {
            let value = Json::parse(field.value.text).ok()?;
            Some((Cow::Owned(field.name.into_owned()), value))
        };
        fields.filter_map(read).collect()
    }

    /// Takes a field out, whatever it is.
    fn take_any(&mut self, name: &str) -> Option<Value<'a>> {
        let mut named = None;
        // One that was taken has another name.
        let left = self.fields.iter_mut().filter(|field| !field.is_taken);
        for field in left.filter(|field| field.name == name) {
            field.is_taken = true;
            named = Some(field);
        }
        let Value { text, fields } = &mut named?.value;
        Some(Value::new(text, fields.take()))
    }

    /// Takes a field out and checks its type: `None` when there is none, or none of this type.
    pub(crate) fn take(
        &mut self,
        name: &str,
        kind: Kind,
        null: Null,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Value<'a>>> {
        let value = self.take_any(name)?;
        self.of_kind(name, value, kind, null, out)
    }

    fn of_kind(
        &self,
        name: &str,
        value: Value<'a>,
        kind: Kind,
        null: Null,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Value<'a>>> {
        let found = Kind::of(value.text);
        match of_kind(found, kind, null) {
            Ok(()) if found == Kind::Null => Some(Nullable::Null),
            Ok(()) => Some(Nullable::Value(value)),
            Err((code, detail)) => {
                out.push(Violation::new(pointer(self.at, name), code, detail));
                None
            }
        }
    }

    /// Takes a field out that must be there.
    pub(crate) fn required(
        &mut self,
        name: &str,
        kind: Kind,
        out: &mut Vec<Violation>,
    ) -> Option<Value<'a>> {
        let Some(value) = self.take_any(name) else {
            out.push(Violation::new(
                pointer(self.at, name),
                ViolationCode::Required,
                "is required and missing",
            ));
            return None;
        };
        self.of_kind(name, value, kind, Null::Required, out)?
            .value()
    }

    pub(crate) fn required_text(
        &mut self,
        field: &Text,
        out: &mut Vec<Violation>,
    ) -> Option<Cow<'a, str>> {
        let value = self.required(field.name, Kind::String, out)?;
        self.checked(field, value, out)
    }

    /// Takes out a field that may be left out, and must not be null.
    pub(crate) fn text(&mut self, field: &Text, out: &mut Vec<Violation>) -> Option<Cow<'a, str>> {
        let value = self
            .take(field.name, Kind::String, Null::Forbidden, out)?
            .value()?;
        self.checked(field, value, out)
    }

    /// Takes out a field that may be left out or null.
    pub(crate) fn nullable_text(
        &mut self,
        field: &Text,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Cow<'a, str>>> {
        match self.take(field.name, Kind::String, Null::Allowed, out)? {
            Nullable::Value(value) => self.checked(field, value, out).map(Nullable::Value),
            Nullable::Null => Some(Nullable::Null),
        }
    }

    /// Identifiers are opaque: every string is one.
    pub(crate) fn identifier(
        &mut self,
        name: &'static str,
        out: &mut Vec<Violation>,
    ) -> Option<Nullable<Cow<'a, str>>> {
        let rule = |_: &str| Ok(());
        self.nullable_text(&Text { name, rule }, out)
    }

    fn checked(
        &self,
        field: &Text,
        value: Value<'a>,
        out: &mut Vec<Violation>,
    ) -> Option<Cow<'a, str>> {
        let checked = unescaped(value.text)
            .ok_or_else(|| {
                // The one JSON string that is not a Rust string holds half of a surrogate pair.
                let detail = "must be Unicode text, got half of a surrogate pair";
                (ViolationCode::WrongType, detail.to_owned())
            })
            .and_then(|text| (field.rule)(&text).map(|()| text));
        match checked {
            Ok(text) => Some(text),
            Err((code, detail)) => {
                out.push(Violation::new(pointer(self.at, field.name), code, detail));
                None
            }
        }
    }

    /// Reports what is left after every known field was taken, if it is to be rejected.
    pub(crate) fn rest(&self, unknown: UnknownFields, out: &mut Vec<Violation>) {
        if unknown == UnknownFields::Reject {
            let left = self.fields.iter().filter(|field| !field.is_taken);
            // By name, and each once.
            let left: BTreeSet<&str> = left.map(|field| &*field.name).collect();
            out.extend(left.into_iter().map(|name| {
                Violation::new(
                    pointer(self.at, name),
                    ViolationCode::UnknownField,
                    "is not a documented field; check the spelling",
                )
            }));
        }
    }
}

/// Reads the fields of an object and keeps their values as text.
struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some((Name(name), value)) = object.next_entry::<Name<'de>, &RawValue>()? {
            fields.push(name, Value::new(value.get(), None));
        }
        Ok(fields)
    }
}

/// The text of a valid JSON string, unless it holds half of a surrogate pair.
fn unescaped(json: &str) -> Option<Cow<'_, str>> {
    let plain = json
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match plain {
        Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
        _ => serde_json::from_str(json).ok().map(Cow::Owned),
    }
}

pub(crate) fn email(text: &str) -> Result<(), Broken> {
    let bare_mailbox = Options::default()
        .without_display_text()
        .with_domain_literal()
        .with_no_minimum_sub_domains();
    match EmailAddress::parse_with_options(text, bare_mailbox) {
        Ok(_) => Ok(()),
        Err(_) => Err((
            ViolationCode::InvalidEmail,
            "must be a bare e-mail address such as ada@example.com".to_owned(),
        )),
    }
}

pub(crate) fn name(text: &str) -> Result<(), Broken> {
    let length = text.chars().count();
    let code = match length {
        NAME_MIN..=NAME_MAX => return Ok(()),
        0 => ViolationCode::TooShort,
        _ => ViolationCode::TooLong,
    };
    let detail = format!("must be {NAME_MIN} to {NAME_MAX} characters, got {length}");
    Err((code, detail))
}

pub(crate) fn role(text: &str) -> Result<(), Broken> {
    match text.parse::<Role>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let roles = Role::ALL.map(Role::as_str).join(", ");
            Err((
                ViolationCode::UnknownValue,
                format!("must be one of {roles}"),
            ))
        }
    }
}

pub(crate) fn phone(text: &str) -> Result<(), Broken> {
    let digits = text.strip_prefix('+').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    Err((
        ViolationCode::InvalidPhone,
        "must be a plus sign followed by digits only, such as +15550100".to_owned(),
    ))
}

pub(crate) fn absolute_url(text: &str) -> Result<(), Broken> {
    // A URL parser trims and drops white space; a URL that holds some is a mistake all the same.
    let clean = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if clean && Url::parse(text).is_ok() {
        return Ok(());
    }
    Err((
        ViolationCode::InvalidUrl,
        "must be an absolute URL without white space, such as https://example.com/ada.png"
            .to_owned(),
    ))
}

pub(crate) fn date(text: &str) -> Result<(), Broken> {
    match parse_date(text) {
        Some(_) => Ok(()),
        None => Err((
            ViolationCode::InvalidDate,
            "must be a day that exists, written YYYY-MM-DD, such as 1990-02-28".to_owned(),
        )),
    }
}
