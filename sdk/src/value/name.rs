//! Names of fields.

use std::{
    borrow::{Borrow, Cow},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::serde_errors::expected;

/// The name of a field, or another string, borrowed where the JSON text allows it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'de>(pub(crate) Cow<'de, str>);

impl Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }

            fn visit_string<E: de::Error>(self, name: String) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name)))
            }
        }

        deserializer
            .deserialize_str(NameVisitor)
            .map_err(expected("a string"))
    }
}
