//! Reading a JSON document into a type, with an error that says where and why it failed.

use std::{borrow::Cow, collections::HashMap, fmt};

use serde::de::DeserializeOwned;
use serde_json::{error::Category, value::RawValue};
use serde_path_to_error::Segment;

use crate::value::Kind;

/// A document could not be read as what it should be.
///
/// It names the path of the offending value, what was expected there and the kind of JSON value that
/// was found, and keeps the whole document. Neither `Display` nor `Debug` shows a value.
///
/// ```
/// use dealkit::Deal;
///
/// let error = Deal::from_json(r#"{"id": "d_1", "application": {"offers": [{"expiry_date_time": "soon"}]}}"#).unwrap_err();
/// assert_eq!(error.path(), "application.offers[0].expiry_date_time");
/// assert_eq!(error.pointer(), "/application/offers/0/expiry_date_time");
/// assert_eq!(error.found(), "a string");
/// assert_eq!(
///     error.to_string(),
///     "at application.offers[0].expiry_date_time: expected an RFC 3339 timestamp, found a string",
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    pointer: String,
    reason: Reason,
    body: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// The document ends or breaks before it is JSON; the text is the parser's and holds no value.
    NotJson(String),
    Missing,
    Unexpected {
        expected: String,
        found: Option<Kind>,
    },
}

impl DecodeError {
    /// Where the offending value stands, such as `application.offers[2].expiry_date_time`; empty for
    /// the document itself.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same place as a JSON pointer (RFC 6901), such as `/application/offers/2/expiry_date_time`.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// What stands at the path: `null`, `a boolean`, `a number`, `a string`, `an array`, `an object`,
    /// `nothing` for a missing member, or `not JSON`. Of a member that stands twice in its object it is the last
    /// one's kind, and `something else` where that cannot be told.
    pub fn found(&self) -> &'static str {
        match &self.reason {
            Reason::NotJson(_) => "not JSON",
            Reason::Missing => "nothing",
            Reason::Unexpected { found, .. } => found.map_or("something else", Kind::name),
        }
    }

    /// The whole document, as it came.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Takes out of the path what must not be shown: its names are the sender's.
    #[cfg(feature = "client")]
    pub(crate) fn mask(&mut self, mask: impl Fn(&str) -> String) {
        self.path = mask(&self.path);
        self.pointer = mask(&self.pointer);
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at {}: ", self.path)?;
        }
        match &self.reason {
            Reason::NotJson(_) if self.body.is_empty() => {
                f.write_str("expected JSON, found an empty body")
            }
            Reason::NotJson(reason) => write!(f, "expected JSON, found something else ({reason})"),
            Reason::Missing => f.write_str("a required member is missing"),
            Reason::Unexpected { expected, .. } => {
                write!(f, "expected {expected}, found {}", self.found())
            }
        }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError")
            .field("path", &self.path)
            .field("reason", &self.reason)
            .field("body", &format_args!("<{} bytes>", self.body.len()))
            .finish()
    }
}

impl std::error::Error for DecodeError {}

/// The document without a byte order mark, which RFC 8259 allows a reader to skip.
pub(crate) fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// Reads one JSON document.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    let json = without_bom(body);
    // Tracking the path costs time, so it is done only once reading has failed.
    serde_json::from_slice(json).map_err(|error| explain::<T>(json, &error, body))
}

fn explain<T: DeserializeOwned>(
    json: &[u8],
    error: &serde_json::Error,
    body: &[u8],
) -> DecodeError {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut segments: Vec<Step> = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(located) => located.path().iter().filter_map(Step::of).collect(),
        // Only what follows the value is wrong, so the document as a whole is.
        Ok(_) => Vec::new(),
    };
    // serde_json hands over raw text as a member of a name of its own, which is in no document.
    if let Some(Step::Member(name)) = segments.last()
        && name.starts_with("$serde_json::")
        && find(json, &segments).is_none()
    {
        segments.pop();
    }
    // A value may be wrong before the place where the text breaks: that is no JSON all the same.
    let broken = serde_json::from_slice::<&RawValue>(json).err();
    if broken.is_some() && error.is_data() {
        segments.clear();
    }
    let error = broken.as_ref().unwrap_or(error);
    let reason = match error.classify() {
        Category::Data => match reason_of(&error.to_string()) {
            Told::Missing(name) => {
                segments.push(Step::Member(name));
                Reason::Missing
            }
            Told::Expected(expected) => Reason::Unexpected {
                expected,
                found: find(json, &segments),
            },
        },
        // serde_json says no more of a number beyond a binary float that stands where no number can.
        Category::Syntax if broken.is_none() && find(json, &segments) == Some(Kind::Number) => {
            Reason::Unexpected {
                expected: "another value".to_owned(),
                found: Some(Kind::Number),
            }
        }
        Category::Io | Category::Syntax | Category::Eof => Reason::NotJson(error.to_string()),
    };
    DecodeError {
        path: path(&segments),
        pointer: pointer(&segments),
        reason,
        body: body.into(),
    }
}

/// One step from a value to a value inside it.
enum Step {
    Member(String),
    Item(usize),
}

impl Step {
    fn of(segment: &Segment) -> Option<Self> {
        match segment {
            Segment::Seq { index } => Some(Step::Item(*index)),
            Segment::Map { key } => Some(Step::Member(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        }
    }
}

enum Told {
    Missing(String),
    Expected(String),
}

/// What serde's message says was expected.
///
/// The message as a whole must not be shown: it repeats the value that was found. What a visitor
/// expected stands last in it, so no value can be mistaken for it.
fn reason_of(message: &str) -> Told {
    let message = message
        .rsplit_once(" at line ")
        .map_or(message, |(reason, _)| reason);
    if let Some(name) = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        return Told::Missing(name.to_owned());
    }
    let expected = message
        .strip_prefix("expected ")
        .or_else(|| {
            message
                .rsplit_once(", expected ")
                .map(|(_, expected)| expected)
        })
        .unwrap_or("another value");
    Told::Expected(expected.to_owned())
}

/// The kind of the value at the end of the path.
fn find(json: &[u8], segments: &[Step]) -> Option<Kind> {
    let mut value: &RawValue = serde_json::from_slice(json).ok()?;
    for segment in segments {
        value = match segment {
            Step::Item(index) => serde_json::from_str::<Vec<&RawValue>>(value.get())
                .ok()?
                .get(*index)
                .copied()?,
            Step::Member(name) => {
                serde_json::from_str::<HashMap<Cow<'_, str>, &RawValue>>(value.get())
                    .ok()?
                    .get(name.as_str())
                    .copied()?
            }
        };
    }
    Some(Kind::of(value.get()))
}

/// `application.offers[2].expiry_date_time`; a name that would be mistaken for more than one step is
/// quoted: `metadata["a.b"]`.
fn path(segments: &[Step]) -> String {
    let mut path = String::new();
    for segment in segments {
        match segment {
            Step::Item(index) => path.push_str(&format!("[{index}]")),
            Step::Member(name) if is_plain(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Member(name) => path.push_str(&format!("[{name:?}]")),
        }
    }
    path
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

fn pointer(segments: &[Step]) -> String {
    segments
        .iter()
        .map(|segment| match segment {
            Step::Item(index) => format!("/{index}"),
            Step::Member(name) => format!("/{}", crate::validate::pointer_token(name)),
        })
        .collect()
}
