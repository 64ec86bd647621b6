//! A field of a request that may be absent, null or a value, where the specification allows all three.

use chrono::NaiveDate;

use super::format_date;

/// Absent, `null` or a value: what a field may be where the specification says "or null".
///
/// The reference server treats absent and `null` alike; another service may not, so both can be said.
///
/// ```
/// use dealkit::Nullable;
///
/// let value: Nullable<String> = "https://example.com/ada.png".into();
/// let null: Nullable<String> = None::<String>.into();
/// assert_eq!(value.as_ref().value().map(String::as_str), Some("https://example.com/ada.png"));
/// assert_eq!(null, Nullable::Null);
/// assert_eq!(Nullable::<String>::default(), Nullable::Absent);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Nullable<T> {
    /// The field is not sent.
    #[default]
    Absent,
    /// The field is sent as `null`.
    Null,
    /// The field is sent with this value.
    Value(T),
}

impl<T> Nullable<T> {
    /// The value, or `None` when absent or null.
    pub fn value(self) -> Option<T> {
        match self {
            Nullable::Value(value) => Some(value),
            Nullable::Absent | Nullable::Null => None,
        }
    }

    /// The same with the value borrowed.
    pub fn as_ref(&self) -> Nullable<&T> {
        match self {
            Nullable::Absent => Nullable::Absent,
            Nullable::Null => Nullable::Null,
            Nullable::Value(value) => Nullable::Value(value),
        }
    }
}

impl<T> From<T> for Nullable<T> {
    fn from(value: T) -> Self {
        Nullable::Value(value)
    }
}

impl<T> From<Option<T>> for Nullable<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Nullable::Null, Nullable::Value)
    }
}

impl From<&str> for Nullable<String> {
    fn from(value: &str) -> Self {
        Nullable::Value(value.to_owned())
    }
}

/// A date of birth can be given as a date; it is sent as `YYYY-MM-DD`.
impl From<NaiveDate> for Nullable<String> {
    fn from(date: NaiveDate) -> Self {
        Nullable::Value(format_date(date))
    }
}
