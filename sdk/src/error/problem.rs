//! Error bodies: problem details (RFC 9457), and anything else that a service sends with an error.

use std::{collections::BTreeMap, fmt, mem::take};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    json::{
        document::without_bom,
        lexer::{Lexed, Lexer},
    },
    rules::validate::{Violation, ViolationCode},
    value::Json,
};

/// The body of an error response, with the field names of RFC 9457.
///
/// Reading is lenient: a field that is missing or of another type is `None`, and fields that are not
/// listed here are in `extra`. The texts are the service's own.
///
/// What is kept is bounded, whatever a service sends: each text is cut at [`Problem::MAX_TEXT`] bytes, at
/// most [`Problem::MAX_ERRORS`] entries of `errors` are read and the rest are counted, and `extra` holds
/// at most [`Problem::MAX_EXTRA`] bytes. Reading takes one pass, and copes with any depth of nesting.
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
    /// What went wrong in this case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The request's id in the service's logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What is wrong with the request, field by field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Violation>,
    /// How many entries of `errors` came after the first [`Problem::MAX_ERRORS`] and were not kept; normally 0. It is not a
    /// field of the body, and is not written to one.
    #[serde(skip)]
    pub omitted_errors: usize,
    /// All other fields, by name; one that does not fit into [`Problem::MAX_EXTRA`] is left out.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Json>,
}

impl Problem {
    /// How much of each text is kept, in bytes; a longer text is cut between two characters.
    pub const MAX_TEXT: usize = 8 * 1024;

    /// The maximum number of entries of `errors` that are read.
    pub const MAX_ERRORS: usize = 100;

    /// The maximum size of `extra`, names and values together, in bytes.
    pub const MAX_EXTRA: usize = 64 * 1024;

    /// A problem with the three fields that every error body of the sandbox server has.
    pub fn new(status: u16, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status: Some(status),
            title: Some(title.into()),
            detail: Some(detail.into()),
            ..Self::default()
        }
    }

    /// Reads an error body; `None` if it is not a JSON object with at least one of a problem's fields.
    pub fn from_json(body: impl AsRef<[u8]>) -> Option<Self> {
        let text = std::str::from_utf8(without_bom(body.as_ref())).ok()?;
        let mut problem = Self::default();
        problem.read_fields(&mut Lexer::new(text)).ok()?;
        // The others say too little to make a problem of an object.
        let extra = take(&mut problem.extra);
        let omitted_errors = take(&mut problem.omitted_errors);
        let has_any = problem != Self::default();
        has_any.then_some(Self {
            extra,
            omitted_errors,
            ..problem
        })
    }

    fn read_fields(&mut self, lexer: &mut Lexer<'_>) -> Lexed<()> {
        // How many bytes of other fields are kept.
        let mut extra_size = 0;
        let mut has_more = lexer.object()?;
        while has_more {
            let name = lexer.name()?;
            match &*name {
                "type" => self.problem_type = read_text(lexer.raw()?),
                "title" => self.title = read_text(lexer.raw()?),
                "status" => self.status = serde_json::from_str(lexer.raw()?.get()).ok(),
                "detail" => self.detail = read_text(lexer.raw()?),
                "request_id" => self.request_id = read_text(lexer.raw()?),
                "errors" => self.read_errors(lexer)?,
                _ => self.keep_extra(&name, lexer.raw()?, &mut extra_size),
            }
            has_more = lexer.field()?;
        }
        lexer.end()
    }

    /// Reads the list of errors, and counts those beyond the limit; another value has none.
    fn read_errors(&mut self, lexer: &mut Lexer<'_>) -> Lexed<()> {
        self.errors.clear();
        self.omitted_errors = 0;
        if lexer.peek() != b'[' {
            return lexer.raw().map(drop);
        }
        let mut read = 0;
        let mut has_more = lexer.array()?;
        while has_more {
            let entry = lexer.raw()?;
            if read < Self::MAX_ERRORS {
                self.errors.extend(violation(entry));
            } else {
                self.omitted_errors += 1;
            }
            read += 1;
            has_more = lexer.item()?;
        }
        Ok(())
    }

    /// Keeps another field, if it fits.
    fn keep_extra(&mut self, name: &str, value: &RawValue, kept: &mut usize) {
        if let Some(former) = self.extra.remove(name) {
            *kept -= name.len() + former.as_str().len();
        }
        let size = *kept + name.len() + value.get().len();
        if size <= Self::MAX_EXTRA {
            *kept = size;
            self.extra.insert(name.to_owned(), Json::from_raw(value));
        }
    }
}

/// Reads one entry of `errors`; an entry without a pointer says nothing that a program could use.
fn violation(entry: &RawValue) -> Option<Violation> {
    let mut lexer = Lexer::new(entry.get());
    let (mut pointer, mut code, mut detail) = (None, None, None);
    let mut has_more = lexer.object().ok()?;
    while has_more {
        let name = lexer.name().ok()?;
        let value = Some(lexer.raw().ok()?);
        match &*name {
            "pointer" => pointer = value,
            "code" => code = value,
            "detail" => detail = value,
            _ => {}
        }
        has_more = lexer.field().ok()?;
    }
    Some(Violation::new(
        read_text(pointer?)?,
        ViolationCode::from(code.and_then(read_text).unwrap_or_default()),
        detail.and_then(read_text).unwrap_or_default(),
    ))
}

/// Reads a JSON string and keeps its beginning; `None` if the value is not a string.
fn read_text(json: &RawValue) -> Option<String> {
    let text = Lexer::new(json.get()).string().ok()?;
    let mut end = text.len().min(Problem::MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).map(str::to_owned)
}

impl fmt::Debug for Problem {
    /// Shows the status and the places of the errors, but none of the service's words: they may repeat what was sent.
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
