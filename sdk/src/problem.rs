//! Error bodies: problem details (RFC 9457), and whatever else a service answers an error with.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    decode::without_bom,
    validate::{Violation, ViolationCode},
    value::Json,
};

/// The body of an error answer, as RFC 9457 names its members.
///
/// Reading is lenient: a member that is missing or of another type is `None`, and members that are not
/// listed here are in `extra`. The texts are the service's own.
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
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// `type`: a URI that names the kind of problem.
    pub problem_type: Option<String>,
    /// What kind of problem it is, in a few words.
    pub title: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// What went wrong this time.
    pub detail: Option<String>,
    /// The request, as the service's logs name it.
    pub request_id: Option<String>,
    /// What is wrong with the request, member by member.
    pub errors: Vec<Violation>,
    /// Members that are none of these, by name.
    pub extra: std::collections::BTreeMap<String, Json>,
}

impl Problem {
    /// A problem with the three members that every error body of the sandbox server has.
    pub fn new(status: u16, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status: Some(status),
            title: Some(title.into()),
            detail: Some(detail.into()),
            ..Self::default()
        }
    }

    /// Reads an error body; `None` if it is no JSON object with at least one of a problem's members.
    pub fn from_json(body: impl AsRef<[u8]>) -> Option<Self> {
        let mut members: std::collections::BTreeMap<String, Json> =
            serde_json::from_slice(without_bom(body.as_ref())).ok()?;
        let mut text = |name: &str| members.remove(name).and_then(|json| json.to().ok());
        let mut problem = Self {
            problem_type: text("type"),
            title: text("title"),
            detail: text("detail"),
            request_id: text("request_id"),
            ..Self::default()
        };
        problem.status = members.remove("status").and_then(|json| json.to().ok());
        let errors: Vec<Json> = members
            .remove("errors")
            .and_then(|json| json.to().ok())
            .unwrap_or_default();
        problem.errors = errors.iter().filter_map(violation).collect();
        let empty = problem == Self::default();
        problem.extra = members;
        (!empty).then_some(problem)
    }
}

/// Reads one entry of `errors`; one without a pointer says nothing that a program could use.
fn violation(entry: &Json) -> Option<Violation> {
    let mut members: std::collections::BTreeMap<String, Json> = entry.to().ok()?;
    let mut text = |name: &str| members.remove(name).and_then(|json| json.to().ok());
    let pointer: String = text("pointer")?;
    let code = ViolationCode::from(text("code").unwrap_or_default());
    Some(Violation::new(
        pointer,
        code,
        text("detail").unwrap_or_default(),
    ))
}

impl fmt::Debug for Problem {
    /// Shows the status and where what is wrong, and none of the service's words: they may repeat what
    /// was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self
            .errors
            .iter()
            .map(|error| (&error.pointer, &error.code));
        f.debug_struct("Problem")
            .field("status", &self.status)
            .field("errors", &errors.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        if let Some(problem_type) = &self.problem_type {
            members.serialize_entry("type", problem_type)?;
        }
        if let Some(title) = &self.title {
            members.serialize_entry("title", title)?;
        }
        if let Some(status) = &self.status {
            members.serialize_entry("status", status)?;
        }
        if let Some(detail) = &self.detail {
            members.serialize_entry("detail", detail)?;
        }
        if let Some(request_id) = &self.request_id {
            members.serialize_entry("request_id", request_id)?;
        }
        if !self.errors.is_empty() {
            members.serialize_entry("errors", &self.errors)?;
        }
        for (name, value) in &self.extra {
            members.serialize_entry(name, value)?;
        }
        members.end()
    }
}
