//! The content of JSON strings that may not be valid Unicode.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

/// The unescaped content of a JSON string, in WTF-8: UTF-8 extended by unpaired surrogates (such as `"\ud800"`), which a
/// JSON string may contain and a Rust string cannot.
pub(crate) struct Wtf8<'de>(pub(crate) Cow<'de, [u8]>);

impl<'de> Wtf8<'de> {
    /// Unescapes a JSON string, given with its quotes; `None` if the text is not a JSON string.
    pub(crate) fn from_json(json: &'de str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

impl<'de> Deserialize<'de> for Wtf8<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl<'de> Visitor<'de> for BytesVisitor {
            type Value = Wtf8<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Wtf8<'de>, E> {
                Ok(Wtf8(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Wtf8<'de>, E> {
                Ok(Wtf8(Cow::Owned(bytes.to_owned())))
            }
        }

        deserializer.deserialize_bytes(BytesVisitor)
    }
}
