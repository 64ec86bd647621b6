//! The error of a document that could not be read.

use std::fmt;

use crate::value::Kind;

/// A document could not be decoded.
///
/// It names the path of the offending value, what was expected there and the kind of JSON value that was
/// found, and keeps the whole document. Neither `Display` nor `Debug` shows a value, or a name that is
/// data: for an undocumented field they show its position.
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
///
/// let error = Deal::from_json(r#"{"id": "d_1", "metadata": {"source": "import", "ada@example.com": 1}}"#).unwrap_err();
/// assert_eq!(error.path(), "metadata[entry 2]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError {
    pub(crate) path: String,
    pub(crate) pointer: String,
    pub(crate) reason: Reason,
    pub(crate) body: Box<[u8]>,
}

/// Why it could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The document is not valid JSON; the text is the parser's and contains no value.
    NotJson(String),
    /// The document ends early, at this position, counted from 1, with columns in bytes.
    EndsEarly {
        line: usize,
        column: usize,
    },
    Missing,
    Unexpected {
        expected: String,
        found: Option<Kind>,
    },
    /// It contains more values than this.
    TooManyValues(usize),
    /// The number has more digits than fit into the column of a table, which has this type.
    #[cfg(feature = "arrow")]
    DoesNotFit(String),
    /// The batch of a table that the document was meant for has no room left.
    #[cfg(feature = "arrow")]
    BatchIsFull,
    /// The response cannot be read, whatever its body; the text says why.
    #[cfg(feature = "client")]
    Response(String),
}

impl DecodeError {
    pub(crate) fn too_many_values(limit: usize, body: &[u8]) -> Self {
        Self::of_all(Reason::TooManyValues(limit), body)
    }

    /// The error of a response that cannot be read, whatever its body.
    #[cfg(feature = "client")]
    pub(crate) fn response(reason: String, body: &[u8]) -> Self {
        Self::of_all(Reason::Response(reason), body)
    }

    /// The error of a whole document.
    pub(crate) fn of_all(reason: Reason, body: &[u8]) -> Self {
        Self {
            path: String::new(),
            pointer: String::new(),
            reason,
            body: body.into(),
        }
    }

    /// The path of the offending value, such as `application.offers[2].expiry_date_time`; empty for
    /// the document itself. An undocumented field, such as an entry of `metadata`, is named by its
    /// position in its object, counted from 1: `metadata[entry 3]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same place as a JSON pointer (RFC 6901), such as `/application/offers/2/expiry_date_time`.
    ///
    /// It is exact, and can therefore contain names from the document, which may be personal data;
    /// keep it out of logs, like [`body`](Self::body).
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// What was found at the path: `null`, `a boolean`, `a number`, `a string`, `an array`, `an object`, `nothing` for
    /// a missing field, `not JSON`, or `too many values`. For a field that occurs twice in its object it is the kind of
    /// the last occurrence, or `something else` if that cannot be determined.
    pub fn found(&self) -> &'static str {
        match &self.reason {
            Reason::NotJson(_) | Reason::EndsEarly { .. } => "not JSON",
            Reason::Missing => "nothing",
            Reason::TooManyValues(_) => "too many values",
            #[cfg(feature = "arrow")]
            Reason::DoesNotFit(_) => "a number",
            #[cfg(feature = "arrow")]
            Reason::BatchIsFull => "something else",
            #[cfg(feature = "client")]
            Reason::Response(_) => "something else",
            Reason::Unexpected { found, .. } => found.map_or("something else", Kind::name),
        }
    }

    /// The whole document, as it was received.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Removes the service key from the parts that are not dealkit's own: the names in the pointer are the
    /// sender's, and a caller's type may repeat its input when it says what it expected.
    #[cfg(feature = "client")]
    pub(crate) fn mask(&mut self, mask: impl Fn(&str) -> String) {
        self.pointer = mask(&self.pointer);
        if let Reason::Unexpected { expected, .. } = &mut self.reason {
            *expected = mask(expected);
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at {}: ", self.path)?;
        }
        match &self.reason {
            Reason::EndsEarly { .. } if self.body.is_empty() => {
                f.write_str("expected JSON, found an empty body")
            }
            Reason::EndsEarly { line, column } => {
                write!(f, "the document ends early, line {line} column {column}")
            }
            Reason::NotJson(reason) => write!(f, "expected JSON, found something else ({reason})"),
            Reason::Missing => f.write_str("a required field is missing"),
            Reason::TooManyValues(limit) => write!(
                f,
                "expected at most {limit} values in the document, found more"
            ),
            #[cfg(feature = "arrow")]
            Reason::DoesNotFit(column) => write!(
                f,
                "the number does not fit {column} exactly: choose another scale, or decimals as strings"
            ),
            #[cfg(feature = "arrow")]
            Reason::BatchIsFull => f.write_str("the batch has no room left: finish it first"),
            #[cfg(feature = "client")]
            Reason::Response(reason) => f.write_str(reason),
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
