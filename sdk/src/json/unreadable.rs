//! Optional fields that cannot be read: what is made of them, and what is said about them.

use crate::{json::decode_error::Expected, value::Json};

/// What to do about an optional field with an unreadable value, such as a date in another format.
///
/// ```
/// use dealkit::{Deal, Unreadable};
///
/// let json = r#"{"id": "d_1", "status": "CLOSED", "expiry_date": "31.12.2026"}"#;
/// assert_eq!(Deal::from_json(json).unwrap_err().path(), "expiry_date");
///
/// let deal = Deal::from_json_with(json, Unreadable::Skip)?;
/// assert_eq!(deal.status.unwrap(), "CLOSED");
/// assert_eq!(deal.expiry_date, None);
/// # Ok::<(), dealkit::DecodeError>(())
/// ```
///
/// In either case, a document that is not JSON, or lacks a readable required field, is an error; and undocumented
/// values of extensible enums are readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreadable {
    /// The whole document is an error.
    #[default]
    Error,
    /// The field is read as none, or as empty if it is a list or a map, and listed by the `unreadable()` of the model.
    ///
    /// An unreadable value takes the nearest optional field around it with it: a contact that is a string empties
    /// `contacts`, while a bad date in a quote costs only that date.
    Skip,
}

/// An optional field that could not be read and was [skipped](Unreadable::Skip); the `unreadable()` of each model lists them.
///
/// `Debug` does not show the value, which may be personal. The rest is safe to log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableField {
    /// Where the field is in the model, as a JSON pointer (RFC 6901): `/application/offers/2/expiry_date_time`. It holds
    /// names of documented fields and indexes only.
    pub pointer: String,
    /// What was expected there.
    pub expected: Expected,
    /// What was there instead, digit for digit.
    pub json: Json,
}

impl UnreadableField {
    /// For bindings, whose models are their own.
    #[doc(hidden)]
    pub fn new(pointer: String, expected: Expected, json: Json) -> Self {
        Self {
            pointer,
            expected,
            json,
        }
    }
}
