//! Error bodies: problem details (RFC 9457), and anything else that a service sends with an error.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;

use crate::{
    json::document::without_bom,
    rules::validate::{Violation, ViolationCode},
    value::{Json, Name},
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
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// `type`: a URI that names the kind of problem.
    pub problem_type: Option<String>,
    /// A short summary of the kind of problem.
    pub title: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// What went wrong in this case.
    pub detail: Option<String>,
    /// The request's id in the service's logs.
    pub request_id: Option<String>,
    /// What is wrong with the request, field by field.
    pub errors: Vec<Violation>,
    /// How many entries of `errors` came after the first [`Problem::MAX_ERRORS`] and were not kept, counting only the
    /// part of the body that was read; normally 0. It is not a field of the body, and is not written to one.
    pub omitted_errors: usize,
    /// All other fields, by name; one that does not fit into [`Problem::MAX_EXTRA`] is left out.
    pub extra: std::collections::BTreeMap<String, Json>,
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
        Self::read(std::str::from_utf8(without_bom(body.as_ref())).ok()?, false)
    }

    /// Reads the beginning of an error body whose rest was not read: everything before the cut.
    #[cfg(feature = "client")]
    pub(crate) fn from_cut_json(body: &[u8]) -> Option<Self> {
        let body = without_bom(body);
        let text = match std::str::from_utf8(body) {
            Ok(text) => text,
            // The cut may go through a character.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(body.get(..error.valid_up_to())?).ok()?
            }
            Err(_) => return None,
        };
        // It may also go through a number, and then the number would be wrong rather than incomplete.
        let in_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        Self::read(text.trim_end_matches(in_number), true)
    }

    fn read(text: &str, is_cut: bool) -> Option<Self> {
        let mut fields = Fields::default();
        let mut reader = serde_json::Deserializer::from_str(text);
        // The fields outlive the visitor, so those that were read before the cut count.
        match reader
            .deserialize_map(&mut fields)
            .and_then(|()| reader.end())
        {
            Ok(()) => {}
            Err(error) if is_cut && error.is_eof() => fields.take_unfinished(text),
            Err(_) => return None,
        }
        fields.into_problem()
    }
}

/// The fields of an error body while they are being read, each as the text of its value.
#[derive(Default)]
struct Fields<'de> {
    problem_type: Option<&'de str>,
    title: Option<&'de str>,
    status: Option<&'de str>,
    detail: Option<&'de str>,
    request_id: Option<&'de str>,
    errors: Option<&'de str>,
    extra: std::collections::BTreeMap<String, Json>,
    /// How many bytes `extra` holds.
    extra_size: usize,
    /// The name of the field whose value is being read.
    unfinished: Option<Cow<'de, str>>,
}

impl<'de> Visitor<'de> for &mut Fields<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = fields.next_key()? {
            let name = &*self.unfinished.insert(name);
            // Raw text is skipped without recursion, however deeply it nests.
            let value = fields.next_value::<&'de RawValue>()?;
            let text = Some(value.get());
            match &**name {
                "type" => self.problem_type = text,
                "title" => self.title = text,
                "status" => self.status = text,
                "detail" => self.detail = text,
                "request_id" => self.request_id = text,
                "errors" => self.errors = text,
                _ => {
                    if let Some(former) = self.extra.remove(&**name) {
                        self.extra_size -= name.len() + former.as_str().len();
                    }
                    let size = self.extra_size + name.len() + value.get().len();
                    if size <= Problem::MAX_EXTRA {
                        self.extra_size = size;
                        self.extra
                            .insert(name.clone().into_owned(), Json::from_raw(value));
                    }
                }
            }
            self.unfinished = None;
        }
        Ok(())
    }
}

impl<'de> Fields<'de> {
    /// Takes the list of errors if the cut goes through it; a part of any other value is worth nothing.
    fn take_unfinished(&mut self, text: &'de str) {
        // A name written with escapes does not borrow from the text, and no service writes this one so.
        if let Some(Cow::Borrowed(name @ "errors")) = self.unfinished {
            let end = name.as_ptr().addr() + name.len() - text.as_ptr().addr();
            let rest = text.get(end..).and_then(|rest| rest.strip_prefix('"'));
            let value = rest.and_then(|rest| rest.trim_ascii_start().strip_prefix(':'));
            self.errors = value.or(self.errors);
        }
    }

    fn into_problem(self) -> Option<Problem> {
        let mut problem = Problem {
            problem_type: self.problem_type.and_then(read_text),
            title: self.title.and_then(read_text),
            status: self.status.and_then(|text| serde_json::from_str(text).ok()),
            detail: self.detail.and_then(read_text),
            request_id: self.request_id.and_then(read_text),
            ..Problem::default()
        };
        let mut omitted = 0;
        if let Some(text) = self.errors {
            let mut entries = Entries {
                read: 0,
                errors: &mut problem.errors,
                omitted: &mut omitted,
            };
            // A value that is not a list has no entries, and a truncated list has those before the cut.
            let _ = serde_json::Deserializer::from_str(text).deserialize_seq(&mut entries);
        }
        let empty = problem == Problem::default();
        problem.omitted_errors = omitted;
        problem.extra = self.extra;
        (!empty).then_some(problem)
    }
}

/// Reads the entries of `errors`, and counts those beyond the limit.
struct Entries<'p> {
    read: usize,
    errors: &'p mut Vec<Violation>,
    omitted: &'p mut usize,
}

impl<'de> Visitor<'de> for &mut Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while self.read < Problem::MAX_ERRORS {
            let Some(entry) = entries.next_element::<&'de RawValue>()? else {
                return Ok(());
            };
            self.read += 1;
            self.errors.extend(violation(entry.get()));
        }
        while entries.next_element::<IgnoredAny>()?.is_some() {
            *self.omitted += 1;
        }
        Ok(())
    }
}

/// Reads one entry of `errors`; an entry without a pointer says nothing that a program could use.
fn violation(entry: &str) -> Option<Violation> {
    let mut reader = serde_json::Deserializer::from_str(entry);
    let Entry {
        pointer,
        code,
        detail,
    } = reader.deserialize_map(EntryVisitor(PhantomData)).ok()?;
    Some(Violation::new(
        read_text(pointer?)?,
        ViolationCode::from(code.and_then(read_text).unwrap_or_default()),
        detail.and_then(read_text).unwrap_or_default(),
    ))
}

/// One entry of `errors`, each field as the text of its value.
#[derive(Default)]
struct Entry<'de> {
    pointer: Option<&'de str>,
    code: Option<&'de str>,
    detail: Option<&'de str>,
}

struct EntryVisitor<'de>(PhantomData<&'de str>);

impl<'de> Visitor<'de> for EntryVisitor<'de> {
    type Value = Entry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Entry<'de>, A::Error> {
        let mut entry = Entry::default();
        while let Some(Name(name)) = fields.next_key()? {
            let text = Some(fields.next_value::<&'de RawValue>()?.get());
            match &*name {
                "pointer" => entry.pointer = text,
                "code" => entry.code = text,
                "detail" => entry.detail = text,
                _ => {}
            }
        }
        Ok(entry)
    }
}

/// Reads a JSON string and keeps its beginning; `None` if the value is not a string.
fn read_text(json: &str) -> Option<String> {
    let Name(text) = serde_json::from_str(json).ok()?;
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

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        if let Some(problem_type) = &self.problem_type {
            fields.serialize_entry("type", problem_type)?;
        }
        if let Some(title) = &self.title {
            fields.serialize_entry("title", title)?;
        }
        if let Some(status) = &self.status {
            fields.serialize_entry("status", status)?;
        }
        if let Some(detail) = &self.detail {
            fields.serialize_entry("detail", detail)?;
        }
        if let Some(request_id) = &self.request_id {
            fields.serialize_entry("request_id", request_id)?;
        }
        if !self.errors.is_empty() {
            fields.serialize_entry("errors", &self.errors)?;
        }
        for (name, value) in &self.extra {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}
