//! The rules of a create request, and the codes of their violations.
//!
//! The client checks a request before it sends anything, and the sandbox server checks each body that arrives.

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

/// The maximum number of violations in an error message. Only unknown fields can cause more than this number.
const MAX_SHOWN: usize = 100;

/// A violation of a rule in a request.
///
/// Its texts never repeat a value of the request. The pointer is exact; `Display` and `Debug` show `*` in place of names that
/// are not in the specification, because such names may be personal data. They show the name of an unknown field that resembles a
/// documented one, because it is a misspelling.
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
    /// The location, as a JSON pointer (RFC 6901) into the request body; empty for the body itself. The pointer can contain
    /// names from the request.
    pub pointer: String,
    /// The violated rule.
    pub code: ViolationCode,
    /// The problem and the expected value, for people.
    pub detail: String,
}

impl Violation {
    /// Creates a violation at `pointer`.
    pub fn new(pointer: impl Into<String>, code: ViolationCode, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            code,
            detail: detail.into(),
        }
    }

    /// Returns the pointer for messages, with `*` in place of each name that is not in the specification. The misspelt name of a
    /// documented field stays.
    pub fn masked_pointer(&self) -> String {
        match self.code {
            ViolationCode::UnknownField if field_names::is_misspelling(&self.pointer) => {
                self.pointer.clone()
            }
            _ => field_names::mask_pointer(&self.pointer),
        }
    }

    /// Returns the location for messages: the masked pointer, or a name for the whole body.
    pub(crate) fn location(&self) -> String {
        match (self.pointer.as_str(), &self.code) {
            ("", ViolationCode::InvalidId) => "the identifier".to_owned(),
            ("", _) => "the body".to_owned(),
            _ => self.masked_pointer(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.location(), self.detail, self.code)
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
    /// The rule that a request violates. The SDK and the sandbox share these codes; another service's code is `Other`.
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
        /// The string is not one of the values that a request may have.
        UnknownValue = "unknown_value",
        /// The field is undocumented; only reported where unknown fields are rejected.
        UnknownField = "unknown_field",
        /// The identifier cannot be sent as a path segment; only reported by the SDK.
        InvalidId = "invalid_id",
    }
}

/// The violations in a request: all of them, not just the first. `Display` shows the first 100.
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
    /// The violations, in the order of the specification's tables; never empty.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns an error with these violations, unless the list is empty.
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

    pub(crate) fn from_violation(violation: Violation) -> Self {
        Self {
            violations: vec![violation],
        }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request breaks the rules: ")?;
        for (index, violation) in self.violations.iter().take(MAX_SHOWN).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            violation.fmt(f)?;
        }
        match self.violations.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for ValidationError {}

/// The handling of fields that are not in the specification.
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

/// The rule on a field that is null or missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NullRule {
    /// Null is allowed, and the field may be omitted.
    Allowed,
    /// Null is not allowed, but the field may be omitted.
    Forbidden,
    /// Null is not allowed, and the field is required.
    Required,
}

/// The code and the detail of a violation, to which the caller adds the pointer.
pub(crate) type CodeAndDetail = (ViolationCode, String);

/// Checks the rule of a string field, if the field is present. Any string is a valid identifier.
pub(crate) fn check_text(field: &str, text: Option<&str>, out: &mut Vec<Violation>) {
    let rule = match field {
        "email" => check_email,
        "first_name" | "last_name" => check_name,
        "role" => check_role,
        "phone" => check_phone,
        "image_url" => check_image_url,
        "date_of_birth" => check_date,
        _ => |_: &str| Ok(()),
    };
    if let Some(Err((code, detail))) = text.map(rule) {
        out.push(Violation::new(field_pointer("", field), code, detail));
    }
}

/// Returns the expected kind of value of a documented field of a create request, as messages name it. For the bindings, whose
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

/// Returns the pointer of a field of the object at `at`.
pub(crate) fn field_pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", escape_pointer_token(name))
}

/// Checks the kind of a field's value.
pub(crate) fn check_kind(
    found: JsonKind,
    kind: JsonKind,
    null_rule: NullRule,
) -> Result<(), CodeAndDetail> {
    let expected = kind.name();
    match found {
        _ if found == kind => Ok(()),
        JsonKind::Null if null_rule == NullRule::Allowed => Ok(()),
        JsonKind::Null => Err((
            ViolationCode::NullNotAllowed,
            match null_rule {
                NullRule::Required => format!("must be {expected}, got null"),
                _ => format!("must be {expected}, got null; leave it out instead"),
            },
        )),
        found => Err((
            ViolationCode::WrongType,
            format!("must be {expected}, got {}", found.name()),
        )),
    }
}

/// Returns a violation unless the rule holds.
fn require(holds: bool, code: ViolationCode, detail: &str) -> Result<(), CodeAndDetail> {
    if holds {
        Ok(())
    } else {
        Err((code, detail.to_owned()))
    }
}

fn check_email(text: &str) -> Result<(), CodeAndDetail> {
    let bare_mailbox = Options::default()
        .without_display_text()
        .with_domain_literal()
        .with_no_minimum_sub_domains();
    require(
        EmailAddress::parse_with_options(text, bare_mailbox).is_ok(),
        ViolationCode::InvalidEmail,
        "must be a bare e-mail address such as ada@example.com",
    )
}

fn check_name(text: &str) -> Result<(), CodeAndDetail> {
    let length = text.chars().count();
    let code = match length {
        NAME_MIN..=NAME_MAX => return Ok(()),
        0 => ViolationCode::TooShort,
        _ => ViolationCode::TooLong,
    };
    let detail = format!("must be {NAME_MIN} to {NAME_MAX} characters, got {length}");
    Err((code, detail))
}

fn check_role(text: &str) -> Result<(), CodeAndDetail> {
    text.parse::<Role>().map(drop).map_err(|_| {
        let detail = format!("must be one of {}", Role::NAMES.join(", "));
        (ViolationCode::UnknownValue, detail)
    })
}

fn check_phone(text: &str) -> Result<(), CodeAndDetail> {
    let digits = text.strip_prefix('+').unwrap_or_default();
    require(
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        ViolationCode::InvalidPhone,
        "must be a plus sign followed by digits only, such as +15550100",
    )
}

/// Checks that a URL can be loaded by a browser. `C:\ada.png` and `localhost:8080/ada.png` parse as URLs with other schemes.
fn check_image_url(text: &str) -> Result<(), CodeAndDetail> {
    // The URL parser drops white space, but a URL with white space is a mistake.
    let has_no_space = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let is_on_the_web = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    require(
        has_no_space && Url::parse(text).is_ok_and(is_on_the_web),
        ViolationCode::InvalidUrl,
        "must be a URL that begins with https:// or http://, without white space, such as https://example.com/ada.png",
    )
}

fn check_date(text: &str) -> Result<(), CodeAndDetail> {
    require(
        parse_date(text).is_some(),
        ViolationCode::InvalidDate,
        "must be an existing date, written YYYY-MM-DD, such as 1990-02-28",
    )
}
