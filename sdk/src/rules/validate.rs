//! The rules for a create request, and the codes of their violations.
//!
//! The client checks them before a byte leaves, and the sandbox server when a body arrives: both share one set.

use std::fmt;

use email_address::{EmailAddress, Options};
use serde::Serialize;
use url::Url;

use crate::{
    specification::field_names::{self, escape_pointer_token},
    value::{JsonKind, Role, extensible_enum, parse_date},
};

/// The shortest first or last name, in Unicode code points (specification, "Limits").
pub const NAME_MIN: usize = 1;

/// The longest first or last name, in Unicode code points (specification, "Limits").
pub const NAME_MAX: usize = 255;

/// How many violations an error text shows. Only unknown fields can cause more.
const SHOWN: usize = 100;

/// One way in which a request breaks the rules.
///
/// Its texts never repeat a given value. The pointer is exact; `Display` and `Debug` show `*` in place of names that
/// are not in the specification, because they may be personal data.
///
/// ```
/// use dealkit::{Violation, ViolationCode};
///
/// let violation = Violation::new("/last_name", ViolationCode::Required, "is missing");
/// assert_eq!(serde_json::to_string(&violation)?, r#"{"pointer":"/last_name","code":"required","detail":"is missing"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Violation {
    /// Where the violation is, as a JSON pointer (RFC 6901) into the request body; empty for the body
    /// itself. It can contain names from the request.
    pub pointer: String,
    /// Which rule is broken.
    pub code: ViolationCode,
    /// What is wrong, and what would be right, for people.
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

    /// The pointer as shown in texts: with `*` in place of each name that is not in the specification.
    pub fn masked_pointer(&self) -> String {
        field_names::mask_pointer(&self.pointer)
    }

    /// Where the violation is, for an error text: a pointer, or a name for the whole.
    pub(crate) fn place(&self) -> String {
        match (self.pointer.as_str(), &self.code) {
            ("", ViolationCode::InvalidId) => "the identifier".to_owned(),
            ("", _) => "the body".to_owned(),
            _ => self.masked_pointer(),
        }
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

extensible_enum! {
    /// The rule that a request breaks. The SDK and the sandbox share a closed list; a code that another service invents
    /// is kept in `Other`.
    ViolationCode {
        /// A required field is missing.
        Required = "required",
        /// The value does not have the field's JSON type.
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
        /// The string is not an absolute URL with the scheme http or https and a host.
        InvalidUrl = "invalid_url",
        /// The string is not an existing day in the form `YYYY-MM-DD`.
        InvalidDate = "invalid_date",
        /// The string is not in the closed set.
        UnknownValue = "unknown_value",
        /// The field is undocumented; only reported where unknown fields are rejected.
        UnknownField = "unknown_field",
        /// The identifier cannot be sent as a path segment; only reported by the SDK.
        InvalidId = "invalid_id",
    }
}

/// A request breaks the rules: every violation, not just the first. `Display` shows the first 100.
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

    /// Returns these violations as an error, if there are any; for rules that are checked elsewhere.
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

/// How to treat fields that are not in the specification.
///
/// ```
/// use dealkit::{CreateAgent, UnknownFields};
///
/// let body = r#"{"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace", "profile": {}, "rolle": "AGENT"}"#;
/// assert!(CreateAgent::from_json(body, UnknownFields::Ignore).is_ok());
/// let error = CreateAgent::from_json(body, UnknownFields::Reject).unwrap_err();
/// assert_eq!(error.violations()[0].pointer, "/rolle");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// Accept them. The request keeps and sends them.
    #[default]
    Ignore,
    /// Report each as [`ViolationCode::UnknownField`], to catch typos.
    Reject,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Null {
    Allowed,
    /// Null is not allowed, but the field may be omitted.
    Forbidden,
    /// Null is not allowed, and the field is required.
    Required,
}

/// The code and the detail of a broken rule.
pub(crate) type Broken = (ViolationCode, String);

/// Checks the rule on a field of the request that is text, if it is present. Identifiers are opaque: every string is valid.
pub(crate) fn check_text(field: &str, text: Option<&str>, out: &mut Vec<Violation>) {
    let rule = match field {
        "email" => email,
        "first_name" | "last_name" => name,
        "role" => role,
        "phone" => phone,
        "image_url" => web_url,
        "date_of_birth" => date,
        _ => |_: &str| Ok(()),
    };
    if let Some(Err((code, detail))) = text.map(rule) {
        out.push(Violation::new(pointer("", field), code, detail));
    }
}

/// The kind of value that the documented field at a pointer into a create request takes, as messages name it; for bindings, whose
/// values have types that JSON lacks.
pub fn expected_kind(pointer: &str) -> Option<&'static str> {
    let kind = match pointer.strip_prefix("/profile/") {
        Some(name) => {
            field_names::PROFILE_FIELDS
                .iter()
                .find(|(known, _)| *known == name)?
                .1
        }
        None if pointer == "/profile" => JsonKind::Object,
        None if field_names::CREATE_AGENT_FIELD_NAMES.contains(&pointer.strip_prefix('/')?) => {
            JsonKind::String
        }
        None => return None,
    };
    Some(kind.name())
}

/// The pointer of a field of the object at `at`.
pub(crate) fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", escape_pointer_token(name))
}

pub(crate) fn of_kind(found: JsonKind, kind: JsonKind, null: Null) -> Result<(), Broken> {
    let expected = kind.name();
    match found {
        _ if found == kind => Ok(()),
        JsonKind::Null if null == Null::Allowed => Ok(()),
        JsonKind::Null => Err((
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

/// What follows from whether a rule holds.
fn rule(holds: bool, code: ViolationCode, detail: &str) -> Result<(), Broken> {
    if holds {
        Ok(())
    } else {
        Err((code, detail.to_owned()))
    }
}

fn email(text: &str) -> Result<(), Broken> {
    let bare_mailbox = Options::default()
        .without_display_text()
        .with_domain_literal()
        .with_no_minimum_sub_domains();
    rule(
        EmailAddress::parse_with_options(text, bare_mailbox).is_ok(),
        ViolationCode::InvalidEmail,
        "must be a bare e-mail address such as ada@example.com",
    )
}

fn name(text: &str) -> Result<(), Broken> {
    let length = text.chars().count();
    let code = match length {
        NAME_MIN..=NAME_MAX => return Ok(()),
        0 => ViolationCode::TooShort,
        _ => ViolationCode::TooLong,
    };
    let detail = format!("must be {NAME_MIN} to {NAME_MAX} characters, got {length}");
    Err((code, detail))
}

fn role(text: &str) -> Result<(), Broken> {
    text.parse::<Role>().map(drop).map_err(|_| {
        let detail = format!("must be one of {}", Role::NAMES.join(", "));
        (ViolationCode::UnknownValue, detail)
    })
}

fn phone(text: &str) -> Result<(), Broken> {
    let digits = text.strip_prefix('+').unwrap_or_default();
    rule(
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        ViolationCode::InvalidPhone,
        "must be a plus sign followed by digits only, such as +15550100",
    )
}

/// Checks for a URL that a browser can load: `C:\ada.png` and `localhost:8080/ada.png` parse as URLs with other schemes.
fn web_url(text: &str) -> Result<(), Broken> {
    // A URL parser trims and drops white space, but a URL that contains any is still a mistake.
    let is_clean = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let is_on_the_web = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    rule(
        is_clean && Url::parse(text).is_ok_and(is_on_the_web),
        ViolationCode::InvalidUrl,
        "must be a URL that begins with https:// or http://, without white space, such as https://example.com/ada.png",
    )
}

fn date(text: &str) -> Result<(), Broken> {
    rule(
        parse_date(text).is_some(),
        ViolationCode::InvalidDate,
        "must be an existing date, written YYYY-MM-DD, such as 1990-02-28",
    )
}
