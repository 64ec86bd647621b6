//! Fields of a request that may be null.

use chrono::NaiveDate;
use serde::{Serialize, Serializer};

use super::format_date;

/// `null` or a value, for a field that the specification describes as "or null".
///
/// The sandbox treats null like an omitted field. Other services may distinguish them. A request can express both: see the
/// table at [`CreateAgent`](crate::CreateAgent).
///
/// An `Option` does not convert into a `Nullable`, because its `None` could mean null or absent.
///
/// ```
/// use dealkit::Nullable;
///
/// let value: Nullable<String> = "https://example.com/ada.png".into();
/// assert_eq!(value.value().as_deref(), Some("https://example.com/ada.png"));
/// assert_eq!(Nullable::<String>::Null.value(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nullable<T> {
    /// The field is sent as `null`.
    Null,
    /// The field is sent with this value.
    Value(T),
}

impl<T> Nullable<T> {
    /// Returns the value, or `None` if null.
    pub fn value(self) -> Option<T> {
        match self {
            Nullable::Value(value) => Some(value),
            Nullable::Null => None,
        }
    }

    /// Converts `&Nullable<T>` into `Nullable<&T>`.
    pub fn as_ref(&self) -> Nullable<&T> {
        match self {
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

impl From<&str> for Nullable<String> {
    fn from(value: &str) -> Self {
        Nullable::Value(value.to_owned())
    }
}

/// Formats a date, such as a date of birth, as `YYYY-MM-DD`.
impl From<NaiveDate> for Nullable<String> {
    fn from(date: NaiveDate) -> Self {
        Nullable::Value(format_date(date))
    }
}

impl<T: Serialize> Serialize for Nullable<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Nullable::Null => serializer.serialize_none(),
            Nullable::Value(value) => value.serialize(serializer),
        }
    }
}
