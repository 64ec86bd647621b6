//! Lenient parsing of error bodies: problem details (RFC 9457).

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    json::document_limits::without_bom,
    rules::{
        fields::parse_object,
        validate::{Violation, ViolationCode},
    },
    value::Json,
};

/// The body of an error response, with the field names of RFC 9457.
///
/// Parsing is lenient: fields that are missing or have another type are `None`, and fields not listed here are in
/// `extra`. The texts come from the service.
///
/// The size is limited: each text is cut to [`Problem::MAX_TEXT`] bytes, at most
/// [`Problem::MAX_ERRORS`] entries of `errors` are read and the rest are counted, and `extra` holds at most
/// [`Problem::MAX_EXTRA`] bytes. The body may be nested to any depth.
///
/// ```
/// use dealkit::Problem;
///
/// let body = br#"{"title": "Not found", "status": 404, "detail": "no such deal", "hint": 1}"#;
/// let problem = Problem::from_json(body).unwrap();
/// assert_eq!(problem.title.as_deref(), Some("Not found"));
/// assert!(problem.extra.contains_key("hint"));
/// assert_eq!(Problem::from_json(b"<h1>Bad gateway</h1>"), None);
/// ```
#[derive(Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// `type`: a URI that names the kind of problem.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub problem_type: Option<String>,
    /// A short summary of the kind of problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// A description of this occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The request's id in the service's logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The violations in the request, field by field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Violation>,
    /// The number of entries of `errors` after the first [`Problem::MAX_ERRORS`], which were not read; normally 0. It is not a
    /// field of the body.
    #[serde(skip)]
    pub omitted_errors: usize,
    /// All other fields, by name. A field that does not fit into [`Problem::MAX_EXTRA`] is left out.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Json>,
}

impl Problem {
    /// The maximum length of each text, in bytes; a longer text is cut between two characters.
    pub const MAX_TEXT: usize = 8 * 1024;

    /// The maximum number of entries of `errors` that are read.
    pub const MAX_ERRORS: usize = 100;

    /// The maximum size of `extra`, names and values together, in bytes.
    pub const MAX_EXTRA: usize = 64 * 1024;

    /// Creates a problem with the three fields that every error body of the sandbox server has.
    pub fn new(status: u16, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status: Some(status),
            title: Some(title.into()),
            detail: Some(detail.into()),
            ..Self::default()
        }
    }

    /// Parses an error body. Returns `None` if it is not a JSON object with at least one of a problem's fields.
    pub fn from_json(body: impl AsRef<[u8]>) -> Option<Self> {
        let mut fields = parse_members(without_bom(body.as_ref()))?;
        let mut problem = Self {
            problem_type: take_text(&mut fields, "type"),
            title: take_text(&mut fields, "title"),
            status: take_field(&mut fields, "status"),
            detail: take_text(&mut fields, "detail"),
            request_id: take_text(&mut fields, "request_id"),
            ..Self::default()
        };
        let errors: Vec<&RawValue> = take_field(&mut fields, "errors").unwrap_or_default();
        problem.omitted_errors = errors.len().saturating_sub(Self::MAX_ERRORS);
        let errors = errors.into_iter().take(Self::MAX_ERRORS);
        problem.errors = errors.filter_map(parse_violation).collect();
        // An object without any of these fields is not a problem.
        if problem == Self::default() {
            return None;
        }
        let mut extra_size = 0;
        for (name, value) in fields {
            let size = extra_size + name.len() + value.len();
            if size <= Self::MAX_EXTRA
                && let Ok(value) = Json::parse(value)
            {
                extra_size = size;
                problem.extra.insert(name.into_owned(), value);
            }
        }
        Some(problem)
    }
}

/// The members of an object. The values are JSON text.
type Members<'a> = BTreeMap<Cow<'a, str>, &'a str>;

fn parse_members(json: &[u8]) -> Option<Members<'_>> {
    Some(parse_object("", json).ok()?.into_iter().collect())
}

/// Removes a field, and returns its value if it has the type `T`.
fn take_field<'a, T: Deserialize<'a>>(fields: &mut Members<'a>, name: &str) -> Option<T> {
    serde_json::from_str(fields.remove(name)?).ok()
}

/// Removes a string, and returns its first [`Problem::MAX_TEXT`] bytes.
fn take_text(fields: &mut Members<'_>, name: &str) -> Option<String> {
    let mut text: String = take_field(fields, name)?;
    let mut end = text.len().min(Problem::MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    Some(text)
}

/// Parses an entry of `errors`. An entry without a pointer is ignored, because a program cannot use it.
fn parse_violation(entry: &RawValue) -> Option<Violation> {
    let mut fields = parse_members(entry.get().as_bytes())?;
    Some(Violation::new(
        take_text(&mut fields, "pointer")?,
        ViolationCode::from(take_text(&mut fields, "code").unwrap_or_default()),
        take_text(&mut fields, "detail").unwrap_or_default(),
    ))
}

impl fmt::Debug for Problem {
    /// Shows the status and the pointers of the errors, but no text from the service, which may repeat a value that was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self
            .errors
            .iter()
            .map(|error| (error.masked_pointer(), &error.code));
        f.debug_struct("Problem")
            .field("status", &self.status)
            .field("errors", &errors.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
