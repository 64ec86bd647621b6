//! What all types that are strings on the wire have in common.

use serde::{Serialize, de::DeserializeOwned};

/// A type that is a string on the wire.
pub(crate) trait WireText:
    AsRef<str> + From<String> + for<'t> From<&'t str> + Serialize + DeserializeOwned
{
    /// The name of the extensible enum that it is.
    const EXTENSIBLE_ENUM: Option<&'static str> = None;

    const IS_IDENTIFIER: bool = false;
}

impl WireText for String {}

/// A string, or what is made from one: the type itself. The field table marks these types with it, for the builders.
pub(crate) type Word<T> = T;

/// Gives a type that has `as_str()` the abilities of a string: it can be displayed,
/// and compared with strings from both sides.
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
