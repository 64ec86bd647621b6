//! When two JSON texts represent the same value.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use serde_json::value::RawValue;

use super::{kind::JsonKind, number::same_number};

/// How many levels of arrays and objects are compared value by value.
pub(super) const MAX_DEPTH: usize = 127;

/// Whether two valid JSON texts represent the same value, regardless of the order of fields, escapes and
/// the form of numbers. Below [`MAX_DEPTH`] levels the texts must be the same, apart from white space.
pub(super) fn same_value(left: &str, right: &str) -> bool {
    same_text(left, right) || same_at(left, right, 0)
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
        JsonKind::Array | JsonKind::Object if depth == MAX_DEPTH => same_text(left, right),
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

/// Whether the texts are the same, apart from white space between tokens.
fn same_text(left: &str, right: &str) -> bool {
    left == right || significant(left).eq(significant(right))
}

/// The bytes of `text` without the white space between tokens.
fn significant(text: &str) -> impl Iterator<Item = u8> + '_ {
    let mut in_string = false;
    let mut escaped = false;
    text.bytes().filter(move |byte| {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            return true;
        }
        in_string = *byte == b'"';
        !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    })
}
