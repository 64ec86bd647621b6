//! When two JSON texts represent the same value.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use serde_json::value::RawValue;

use super::{Decimal, kind::JsonKind};

/// How many levels of arrays and objects are compared value by value.
pub(super) const MAX_DEPTH: usize = 127;

/// Whether two valid JSON texts represent the same value, regardless of the order of fields and of escapes, and of the form
/// of numbers that fit into a [`Decimal`]. Below [`MAX_DEPTH`] levels the texts must be the same.
pub(super) fn same_value(left: &str, right: &str) -> bool {
    left == right || same_at(left, right, 0)
}

fn same_at(left: &str, right: &str, depth: usize) -> bool {
    let kind = JsonKind::of(left);
    if kind != JsonKind::of(right) {
        return false;
    }
    match kind {
        JsonKind::Null => true,
        JsonKind::Boolean => left.trim() == right.trim(),
        JsonKind::Number => same_number(left.trim(), right.trim()),
        JsonKind::String => same_string(left, right),
        JsonKind::Array | JsonKind::Object if depth == MAX_DEPTH => left == right,
        JsonKind::Array => match (items(left), items(right)) {
            (Some(left), Some(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| same_at(left.get(), right.get(), depth + 1))
            }
            _ => false,
        },
        JsonKind::Object => match (fields(left), fields(right)) {
            (Some(left), Some(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|((name, left), (other, right))| {
                            *name == other && same_at(left.get(), right.get(), depth + 1)
                        })
            }
            _ => false,
        },
    }
}

fn items(text: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(text).ok()
}

/// The fields sorted by name; of equal names the last one.
fn fields(text: &str) -> Option<BTreeMap<Characters<'_>, &RawValue>> {
    serde_json::from_str(text).ok()
}

fn same_number(left: &str, right: &str) -> bool {
    let value = |text| Decimal::from_json_number(text);
    left == right || value(left).is_some_and(|left| value(right) == Some(left))
}

fn same_string(left: &str, right: &str) -> bool {
    match (Characters::of(left), Characters::of(right)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// The characters of a JSON string, as bytes: a JSON string may contain unpaired surrogates, which a Rust
/// string cannot.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Characters<'de>(pub(crate) Cow<'de, [u8]>);

impl<'de> Characters<'de> {
    /// Those of a JSON string.
    pub(crate) fn of(json: &'de str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

impl<'de> Deserialize<'de> for Characters<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Characters<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: de::Error>(
                self,
                bytes: &'de [u8],
            ) -> Result<Characters<'de>, E> {
                Ok(Characters(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Characters<'de>, E> {
                Ok(Characters(Cow::Owned(bytes.to_owned())))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}
