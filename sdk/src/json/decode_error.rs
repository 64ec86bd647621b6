//! The error of a document that could not be read.

use std::{borrow::Cow, fmt};

use crate::{
    specification::{
        field_names::{self, escape_pointer_token},
        schema::FieldKind,
    },
    value::JsonKind,
};

/// Error of decoding a document.
///
/// It has the path of the value at fault, the expected type, the kind of JSON value that was found, and the whole document.
/// `Display` and `Debug` show neither values nor undocumented names, because both may be personal data. In place of the name of
/// an undocumented field, they show the field's position.
///
/// ```
/// use dealkit::{Deal, Expected};
///
/// let error = Deal::from_json(r#"{"id": "d_1", "application": {"offers": [{"expiry_date_time": "soon"}]}}"#).unwrap_err();
/// assert_eq!(error.path(), "application.offers[0].expiry_date_time");
/// assert_eq!(error.pointer(), "/application/offers/0/expiry_date_time");
/// assert_eq!(error.expected(), Some(&Expected::Timestamp));
/// assert_eq!(error.found(), "a string");
/// assert_eq!(error.detail().to_string(), "expected an ISO 8601 timestamp, found another string");
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
    /// The document is not valid JSON. The reason is the parser's message, which contains no value.
    #[error("expected JSON, found something else ({reason} at {at})")]
    NotJson { reason: String, at: Position },
    #[error("a required field is missing")]
    Missing,
    #[error("expected {expected}, found {}", describe_found(expected, *found))]
    Unexpected {
        expected: Expected,
        found: Option<JsonKind>,
    },
    /// A type that the caller defines rejected the document at this position.
    #[cfg(feature = "client")]
    #[error("expected {expected}, found something else at {at}")]
    UnexpectedAt { expected: Expected, at: Position },
    #[error("expected at most {0} values in the document, found more")]
    TooManyValues(usize),
    /// The caller cancelled the decoding, or its time limit passed.
    #[error("it could not be read to the end in time")]
    Cancelled,
    /// The number has more digits than its table column can hold. The text is the column's type.
    #[cfg(feature = "arrow")]
    #[error("the number does not fit {0} exactly: choose another scale, or decimals as strings")]
    ColumnOverflow(String),
    /// The document does not fit into the table batch.
    #[cfg(feature = "arrow")]
    #[error("the batch has no room left: finish it first")]
    BatchIsFull,
}

/// Returns the name of the kind of value found, if known.
fn describe_found(expected: &Expected, found: Option<JsonKind>) -> &'static str {
    match (expected, found) {
        (Expected::Date | Expected::Timestamp, Some(JsonKind::String)) => "another string",
        (Expected::Integer | Expected::Decimal, Some(JsonKind::Number)) => "another number",
        _ => kind_name(found),
    }
}

fn kind_name(found: Option<JsonKind>) -> &'static str {
    found.map_or("something else", JsonKind::name)
}

/// The expected type of a value in a document; see [`DecodeError::expected`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// An object with fields.
    Object,
    /// An array of objects.
    Array,
    /// An object with any names and string values.
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
    /// Any JSON value.
    Json,
    /// The type that a `Deserialize` implementation of the caller expects, as the implementation describes it.
    Other(String),
}

impl Expected {
    /// Returns the expected type of a field of this kind. For bindings.
    #[doc(hidden)]
    pub fn from_kind(kind: FieldKind) -> Self {
        match kind {
            FieldKind::String | FieldKind::Identifier | FieldKind::ExtensibleEnum(_) => {
                Self::String
            }
            FieldKind::Boolean => Self::Boolean,
            FieldKind::Integer => Self::Integer,
            FieldKind::Decimal => Self::Decimal,
            FieldKind::Date => Self::Date,
            FieldKind::Timestamp => Self::Timestamp,
            FieldKind::JsonObject | FieldKind::Model(_) => Self::Object,
            FieldKind::StringMap => Self::Map,
            FieldKind::ModelList(_) => Self::Array,
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
    /// The position before the first byte.
    pub(crate) const START: Self = Self { line: 1, column: 0 };

    pub(crate) fn from_serde_error(error: &serde_json::Error) -> Self {
        Self {
            line: error.line(),
            column: error.column(),
        }
    }

    /// Returns the position after `byte_count` bytes, counted as serde_json does: the line and column of the last of these
    /// bytes.
    pub(crate) fn from_byte_count(text: &str, byte_count: usize) -> Self {
        let prefix = text.as_bytes().get(..byte_count).unwrap_or_default();
        let mut lines = prefix.split(|byte| *byte == b'\n');
        let last_length = lines.next_back().map_or(0, <[u8]>::len);
        Self {
            line: lines.count() + 1,
            column: last_length,
        }
    }
}

/// One step from a value to a value within it.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A field, by its name and, if known, by its position in the object, counted from 1.
    Field(Cow<'a, str>, Option<usize>),
    Item(usize),
}

impl DecodeError {
    pub(crate) fn new(path: &[Step<'_>], reason: Reason, body: &[u8]) -> Self {
        Self {
            path: format_path(path),
            pointer: format_pointer(path),
            reason,
            is_optional: false,
            body: body.into(),
        }
    }

    pub(crate) fn for_document(reason: Reason, body: &[u8]) -> Self {
        Self::new(&[], reason, body)
    }

    /// Returns the path of the value at fault, such as `application.offers[2].expiry_date_time`; empty for the document
    /// itself. An undocumented field, or an entry of `metadata`, is identified by its position in its object, counted from
    /// 1: `metadata[entry 3]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the location of the value at fault as a JSON pointer (RFC 6901), such as
    /// `/application/offers/2/expiry_date_time`.
    ///
    /// Do not log it: unlike [`path`](Self::path), it may contain names from the document that are personal data.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the expected type, if a value of another type was found.
    pub fn expected(&self) -> Option<&Expected> {
        match &self.reason {
            Reason::Unexpected { expected, .. } => Some(expected),
            #[cfg(feature = "client")]
            Reason::UnexpectedAt { expected, .. } => Some(expected),
            _ => None,
        }
    }

    /// Returns the kind of value found: `null`, `a boolean`, `a number`, `a string`, `an array`, `an object`, `nothing` for a
    /// missing field, `not JSON`, `too many values`, or, if the kind is unknown, `something else`.
    pub fn found(&self) -> &'static str {
        match &self.reason {
            Reason::Empty | Reason::EndsEarly(_) | Reason::NotJson { .. } => "not JSON",
            Reason::Missing => "nothing",
            Reason::TooManyValues(_) => "too many values",
            Reason::Unexpected { found, .. } => kind_name(*found),
            #[cfg(feature = "arrow")]
            Reason::ColumnOverflow(_) => "a number",
            _ => "something else",
        }
    }

    /// Returns whether the value at fault is in an optional field. If so, [`Unreadable::Skip`](crate::Unreadable::Skip) reads
    /// the document without that field.
    pub fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// Returns the line, counted from 1, at which the document is not JSON or does not match a type that the caller defines;
    /// `None` for other errors.
    pub fn line(&self) -> Option<usize> {
        self.position().map(|at| at.line)
    }

    /// Returns the column that belongs to [`line`](Self::line), in bytes, counted from 1.
    pub fn column(&self) -> Option<usize> {
        self.position().map(|at| at.column)
    }

    fn position(&self) -> Option<Position> {
        match self.reason {
            Reason::Empty => Some(Position::START),
            Reason::NotJson { at, .. } | Reason::EndsEarly(at) => Some(at),
            #[cfg(feature = "client")]
            Reason::UnexpectedAt { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Returns the message without the path, as [`Display`](fmt::Display) shows it after the path.
    pub fn detail(&self) -> impl fmt::Display {
        &self.reason
    }

    /// Returns whether the caller's cancellation check stopped the decoding.
    #[doc(hidden)]
    pub fn was_cancelled(&self) -> bool {
        self.reason == Reason::Cancelled
    }

    /// Returns the whole document, as received.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Masks the service key in texts that may contain it: the pointer has names from the document, and the message of a type
    /// that the caller defines may repeat the document.
    #[cfg(feature = "client")]
    pub(crate) fn mask(&mut self, mask: impl Fn(&str) -> String) {
        self.pointer = mask(&self.pointer);
        if let Reason::UnexpectedAt {
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

/// Formats a path that is safe to show: `application.offers[2].expiry_date_time`, or `metadata[entry 3]` for an undocumented name.
fn format_path(steps: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Item(index) => path.push_str(&format!("[{index}]")),
            Step::Field(name, _) if field_names::is_documented(name) => {
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

/// Formats a path as an exact JSON pointer (RFC 6901).
pub(crate) fn format_pointer(steps: &[Step<'_>]) -> String {
    let tokens = steps.iter().map(|step| match step {
        Step::Item(index) => format!("/{index}"),
        Step::Field(name, _) => format!("/{}", escape_pointer_token(name)),
    });
    tokens.collect()
}
