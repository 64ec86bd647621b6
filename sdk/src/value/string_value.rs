//! Traits of the types that are strings in JSON.

use serde::{Serialize, de::DeserializeOwned};

/// A type that is a string in JSON.
pub(crate) trait StringValue:
    AsRef<str> + From<String> + for<'t> From<&'t str> + Serialize + DeserializeOwned
{
    /// The name of the type, if it is an extensible enum.
    const EXTENSIBLE_ENUM: Option<&'static str> = None;

    const IS_IDENTIFIER: bool = false;
}

impl StringValue for String {}

/// The type `T`. In the field table, it marks fields whose setters accept any value that converts into `T`, such as a string.
pub(crate) type Convertible<T> = T;

/// Implements `Debug`, `Display`, `AsRef<str>` and comparison with strings, in both directions, for a type with `as_str()`.
macro_rules! impl_string_traits {
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

        $crate::value::impl_string_traits!(@equal $name: str, &str, String);
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

pub(crate) use impl_string_traits;
