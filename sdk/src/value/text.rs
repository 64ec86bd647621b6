//! Shared behavior of the types that are strings in JSON.

use serde::{Serialize, de::DeserializeOwned};

/// A type that is a string in JSON.
pub(crate) trait WireText:
    AsRef<str> + From<String> + for<'t> From<&'t str> + Serialize + DeserializeOwned
{
    /// The name of the extensible enum, if the type is one.
    const EXTENSIBLE_ENUM: Option<&'static str> = None;

    const IS_IDENTIFIER: bool = false;
}

impl WireText for String {}

/// Marks a field type in the field table whose builder setter accepts any value that converts into it, such as a string.
pub(crate) type Word<T> = T;

/// Implements `Debug`, `Display`, `AsRef<str>` and comparison with strings for a type that has `as_str()`.
macro_rules! like_a_string {
    ($name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl From<&$name> for $name {
            fn from(value: &$name) -> Self {
                value.clone()
            }
        }

        $crate::value::like_a_string!(@equal $name: str, &str, String);
    };

    (@equal $name:ident: $($string:ty),+) => {$(
        impl PartialEq<$string> for $name {
            fn eq(&self, other: &$string) -> bool {
                let other: &str = other.as_ref();
                self.as_str() == other
            }
        }

        impl PartialEq<$name> for $string {
            fn eq(&self, other: &$name) -> bool {
                other == self
            }
        }
    )+};
}

pub(crate) use like_a_string;
