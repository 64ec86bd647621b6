//! Any JSON value, kept as its original text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::{
    any_format::{self, Given},
    kind::JsonKind,
};

/// Any JSON value, kept as its exact text: no digit of a number ever changes.
///
/// Free-form fields (`clientMetadata`) and undocumented fields are decoded into this type and
/// serialized from it. `Debug` shows only the kind, because the content may be personal data.
///
/// Text is converted into JSON only by [`parse`](Self::parse) and `str::parse`, which read it, and by
/// [`string`](Self::string), which makes a JSON string of it. There is no `From<&str>`, because it could mean either;
/// where text does convert, as into a deal of the sandbox, it is read as JSON.
///
/// Two values are equal if their texts are, or if a [`serde_json::Value`] can hold both unchanged, and they differ only in the
/// order of fields, in escapes, or in how a number is written.
///
/// ```
/// use dealkit::Json;
///
/// let json = Json::parse(r#"{"rate": 10.10, "huge": 1e400}"#)?;
/// assert_eq!(json.as_str(), r#"{"rate": 10.10, "huge": 1e400}"#);
/// assert_eq!(Json::from(serde_json::json!({"tags": ["a"]})).as_str(), r#"{"tags":["a"]}"#);
/// assert_eq!("[1]".parse::<Json>()?.as_str(), "[1]");
/// assert_eq!(Json::string("[1]").as_str(), r#""[1]""#);
/// assert_eq!(Json::parse(r#"{"a": 1, "b": "B"}"#)?, Json::parse(r#"{"b": "\u0042", "a": 1}"#)?);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # In other formats
///
/// Directly through `serde_json`, the text is read and written unchanged. Elsewhere (`serde_json::Value`, `flatten`,
/// `tag`, `untagged`, YAML, TOML, CBOR, …) a `Json` is the format's own map, list, string or number. Numbers are then 64-bit
/// integers, or floats of at most 15 significant digits; others are an error.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The maximum depth of nested arrays and objects that [`Json::deserialize`] reads. A `Json` itself nests as
    /// deeply as its text does: keeping, copying and writing it take no recursion.
    pub const MAX_DEPTH: usize = 127;

    /// Keeps `text` if it is one JSON value.
    ///
    /// # Errors
    /// If the text is not one JSON value; the error names line and column.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// A JSON string.
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::written(text.as_ref())
    }

    /// A value that always serializes, such as a scalar.
    pub(crate) fn written(value: impl Serialize) -> Self {
        Self::from_serialize(&value).unwrap_or_else(|_| Self(RawValue::NULL.to_owned()))
    }

    /// Writes any serialisable value as JSON.
    ///
    /// # Errors
    /// When the value cannot be written as JSON, such as a map whose keys are not strings.
    pub fn from_serialize(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The exact JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Deserializes the value into a type of yours, for example `serde_json::Value`.
    ///
    /// # Errors
    /// If the value does not have the shape of `T`, or nests deeper than [`Json::MAX_DEPTH`] levels in a
    /// part that `T` reads.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Keeps a value that serde_json has already validated.
    #[doc(hidden)]
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    pub(crate) fn into_text(self) -> String {
        Box::<str>::from(self.0).into_string()
    }

    pub(crate) fn kind(&self) -> JsonKind {
        JsonKind::of(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        any_format::serialize_json(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Given::read(deserializer)? {
            Given::Text(json) => Self(json),
            Given::Value(value) => value.into(),
        })
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        any_format::is_same_json(self.as_str(), other.as_str())
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.kind().name())
    }
}

impl fmt::Display for Json {
    /// The exact JSON text, including its content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// For the functions that read a document.
impl AsRef<[u8]> for Json {
    fn as_ref(&self) -> &[u8] {
        self.as_str().as_bytes()
    }
}

impl FromStr for Json {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, serde_json::Error> {
        Self::parse(text)
    }
}

macro_rules! from_value {
    ($($type:ty),+) => {$(
        impl From<$type> for Json {
            fn from(value: $type) -> Self {
                Self::written(value)
            }
        }
    )+};
}
// A `Value` always serializes: its keys are strings and its numbers are finite.
from_value!(Value, bool, i64);
