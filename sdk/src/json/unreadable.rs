//! Handling of optional fields whose values cannot be read.

use crate::{json::decode_error::Expected, value::Json};

/// Handling of an optional field with an unreadable value, such as a date in another format.
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
/// With both choices, a document is an error if it is not JSON or lacks a readable required field. Undocumented values of
/// extensible enums are readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias("lenient"))]
pub enum Unreadable {
    /// Rejects the whole document.
    #[default]
    Error,
    /// Reads the field as `None`, or as an empty list or map, and lists it in the `unreadable()` of the model.
    ///
    /// The nearest optional field that contains the value is skipped. For example, a contact that is a string empties
    /// `contacts`, whereas an unreadable date in a quote empties only that date.
    Skip,
}

/// An optional field that was [skipped](Unreadable::Skip) because its value could not be read. The `unreadable()` of each model
/// lists these fields.
///
/// `Debug` hides the value, which may be personal data. The pointer and the expected type are safe to log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableField {
    /// The field's location in the model, as a JSON pointer (RFC 6901): `/application/offers/2/expiry_date_time`. It
    /// contains only indexes and names of documented fields.
    pub pointer: String,
    /// The expected type of value.
    pub expected: Expected,
    /// The value that was found, unchanged.
    pub json: Json,
}

impl UnreadableField {
    /// Creates a skipped field. For the bindings, which have their own models.
    #[doc(hidden)]
    pub fn new(pointer: String, expected: Expected, json: Json) -> Self {
        Self {
            pointer,
            expected,
            json,
        }
    }
}
