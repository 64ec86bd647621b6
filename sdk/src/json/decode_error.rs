//! The error of a document that could not be read.

use std::{borrow::Cow, fmt};

use crate::{
    contract::{
        names::{self, pointer_token},
        schema::FieldKind,
    },
    value::JsonKind,
};

/// A document could not be decoded.
///
/// It names the path of the offending value, what was expected there and the kind of JSON value that was
/// found, and keeps the whole document. Neither `Display` nor `Debug` shows a value, or a name that is
/// data: for an undocumented field they show its position.
///
/// ```
/// use dealkit::{Deal, Expected};
///
/// let error = Deal::from_json(r#"{"id": "d_1", "application": {"offers": [{"expiry_date_time": "soon"}]}}"#).unwrap_err();
/// assert_eq!(error.path(), "application.offers[0].expiry_date_time");
/// assert_eq!(error.pointer(), "/application/offers/0/expiry_date_time");
/// assert_eq!(error.expected(), Some(&Expected::Timestamp));
/// assert_eq!(error.found(), "a string");
/// assert_eq!(error.detail().to_string(), "expected an ISO 8601 timestamp, found a string");
/// assert_eq!(error.to_string(), format!("at {}: {}", error.path(), error.detail()));
///
/// let error = Deal::from_json(r#"{"id": "d_1", "metadata": {"source": "import", "ada@example.com": 1}}"#).unwrap_err();
/// assert_eq!(error.path(), "metadata[entry 2]");
///
/// let error = Deal::from_json("{\n  \"id\" 1\n}").unwrap_err();
/// assert_eq!((error.line(), error.column()), (Some(2), Some(8)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    pointer: String,
    reason: Reason,
    pub(super) is_optional: bool,
    body: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    #[error("expected JSON, found an empty body")]
    Empty,
    #[error("the document ends early, {0}")]
    EndsEarly(Position),
    /// The document is not valid JSON; the reason is the parser's and contains no value.
    #[error("expected JSON, found something else ({reason} at {at})")]
    NotJson { reason: String, at: Position },
    #[error("a required field is missing")]
    Missing,
    #[error("expected {expected}, found {}", name(*found))]
    Unexpected {
        expected: Expected,
        found: Option<JsonKind>,
    },
    /// A type of the caller's expected something else at this point.
    #[cfg(feature = "client")]
    #[error("expected {expected}, found something else at {at}")]
    Unfit { expected: Expected, at: Position },
    #[error("expected at most {0} values in the document, found more")]
    TooManyValues(usize),
    /// Whoever asked for it did not wait until it was decoded.
    #[error("it could not be read to the end in time")]
    Stopped,
    /// The number has more digits than fit into the column of a table, which has this type.
    #[cfg(feature = "arrow")]
    #[error("the number does not fit {0} exactly: choose another scale, or decimals as strings")]
    DoesNotFit(String),
    /// The batch of a table that the document was meant for.
    #[cfg(feature = "arrow")]
    #[error("the batch has no room left: finish it first")]
    BatchIsFull,
}

/// What was found, as far as it is known.
fn name(found: Option<JsonKind>) -> &'static str {
    found.map_or("something else", JsonKind::name)
}

/// What a document should have at a place; see [`DecodeError::expected`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// An object with fields.
    Object,
    /// An array of objects.
    Array,
    /// An object of any names, whose values are strings.
    Map,
    /// A string.
    String,
    /// True or false.
    Boolean,
    /// An integer of at most 64 bits.
    Integer,
    /// A decimal number of at most 28 digits.
    Decimal,
    /// A day, `YYYY-MM-DD`.
    Date,
    /// An ISO 8601 timestamp.
    Timestamp,
    /// Any JSON.
    Json,
    /// What a type of yours said that it expected.
    Other(String),
}

impl Expected {
    /// What a field of this kind should be: for bindings.
    #[doc(hidden)]
    pub fn of(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Text | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => Self::String,
            FieldKind::Boolean => Self::Boolean,
            FieldKind::Integer => Self::Integer,
            FieldKind::Decimal => Self::Decimal,
            FieldKind::Date => Self::Date,
            FieldKind::Timestamp => Self::Timestamp,
            FieldKind::Object | FieldKind::One(_) => Self::Object,
            FieldKind::Strings => Self::Map,
            FieldKind::Many(_) => Self::Array,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::Array => "an array of objects",
            Self::Map => "a map of strings",
            Self::String => "a string",
            Self::Boolean => "a boolean",
            Self::Integer => "an integer of at most 64 bits",
            Self::Decimal => "a decimal number of at most 28 digits",
            Self::Date => "a date YYYY-MM-DD",
            Self::Timestamp => "an ISO 8601 timestamp",
            Self::Json => "JSON",
            Self::Other(text) => text,
        })
    }
}

/// A position in a document, counted from 1, with columns in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    /// Where nothing has been read.
    pub(crate) const START: Self = Self { line: 1, column: 0 };

    pub(crate) fn of_error(error: &serde_json::Error) -> Self {
        Self {
            line: error.line(),
            column: error.column(),
        }
    }

    /// The position after this many bytes, as serde_json counts: of the byte that was read last.
    pub(crate) fn of(text: &str, bytes: usize) -> Self {
        let before = text.as_bytes().get(..bytes).unwrap_or_default();
        let mut lines = before.split(|byte| *byte == b'\n');
        let last = lines.next_back().map_or(0, <[u8]>::len);
        Self {
            line: lines.count() + 1,
            column: last,
        }
    }
}

/// One step from a value to a value within it.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A field, and its position in the object, counted from 1, where it is known.
    Field(Cow<'a, str>, Option<usize>),
    Item(usize),
}

impl DecodeError {
    pub(crate) fn new(path: &[Step<'_>], reason: Reason, body: &[u8]) -> Self {
        Self {
            path: shown_path(path),
            pointer: pointer(path),
            reason,
            is_optional: false,
            body: body.into(),
        }
    }

    pub(crate) fn of_all(reason: Reason, body: &[u8]) -> Self {
        Self::new(&[], reason, body)
    }

    /// The path of the offending value, such as `application.offers[2].expiry_date_time`; empty for
    /// the document itself. An undocumented field, such as an entry of `metadata`, is named by its
    /// position in its object, counted from 1: `metadata[entry 3]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same place as a JSON pointer (RFC 6901), such as `/application/offers/2/expiry_date_time`.
    ///
    /// It is exact, and so can contain names from the document, which may be personal data: keep it out of logs, like
    /// [`body`](Self::body).
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// What was expected at the path, if another value was found there.
    pub fn expected(&self) -> Option<&Expected> {
        match &self.reason {
            Reason::Unexpected { expected, .. } => Some(expected),
            #[cfg(feature = "client")]
            Reason::Unfit { expected, .. } => Some(expected),
            _ => None,
        }
    }

    /// What was found at the path: `null`, `a boolean`, `a number`, `a string`, `an array`, `an object`, `nothing` for
    /// a missing field, `not JSON`, or `too many values`; `something else` if that cannot be determined.
    pub fn found(&self) -> &'static str {
        match &self.reason {
            Reason::Empty | Reason::EndsEarly(_) | Reason::NotJson { .. } => "not JSON",
            Reason::Missing => "nothing",
            Reason::TooManyValues(_) => "too many values",
            Reason::Unexpected { found, .. } => name(*found),
            #[cfg(feature = "arrow")]
            Reason::DoesNotFit(_) => "a number",
            _ => "something else",
        }
    }

    /// Whether the value is that of an optional field, or within one, so that [`Unreadable::Skip`](crate::Unreadable::Skip)
    /// would have read the document without it.
    pub fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// The line on which the document stops being JSON, or what a type of yours expects, counted from 1; otherwise `None`.
    pub fn line(&self) -> Option<usize> {
        self.position().map(|at| at.line)
    }

    /// The column there, in bytes, counted from 1.
    pub fn column(&self) -> Option<usize> {
        self.position().map(|at| at.column)
    }

    fn position(&self) -> Option<Position> {
        match self.reason {
            Reason::Empty => Some(Position::START),
            Reason::NotJson { at, .. } | Reason::EndsEarly(at) => Some(at),
            #[cfg(feature = "client")]
            Reason::Unfit { at, .. } => Some(at),
            _ => None,
        }
    }

    /// What is wrong, without the path: what [`Display`](fmt::Display) shows after it.
    pub fn detail(&self) -> impl fmt::Display {
        &self.reason
    }

    /// Whether decoding was stopped because nobody was waiting for it any longer.
    #[doc(hidden)]
    pub fn was_stopped(&self) -> bool {
        self.reason == Reason::Stopped
    }

    /// The whole document, as received.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Removes the service key from the parts that are not dealkit's own: the names in the pointer are the
    /// sender's, and a caller's type may repeat its input when it says what it expected.
    #[cfg(feature = "client")]
    pub(crate) fn mask(&mut self, mask: impl Fn(&str) -> String) {
        self.pointer = mask(&self.pointer);
        if let Reason::Unfit {
            expected: Expected::Other(expected),
            ..
        } = &mut self.reason
        {
            *expected = mask(expected);
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at {}: ", self.path)?;
        }
        self.reason.fmt(f)
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

/// For example `application.offers[2].expiry_date_time`, or `metadata[entry 3]` if the name is data.
fn shown_path(steps: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Item(index) => path.push_str(&format!("[{index}]")),
            Step::Field(name, _) if names::is_known(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Field(_, Some(position)) => path.push_str(&format!("[entry {position}]")),
            Step::Field(_, None) => path.push_str("[entry]"),
        }
    }
    path
}

pub(crate) fn pointer(steps: &[Step<'_>]) -> String {
    let tokens = steps.iter().map(|step| match step {
        Step::Item(index) => format!("/{index}"),
        Step::Field(name, _) => format!("/{}", pointer_token(name)),
    });
    tokens.collect()
}
