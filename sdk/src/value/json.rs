//! JSON values stored as their original text.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::{
    any_format::{self, DeserializedValue},
    json_kind::JsonKind,
};

/// Any JSON value, stored as its exact text, so that no digit of a number ever changes.
///
/// This is the type of free-form fields (`clientMetadata`) and undocumented fields. `Debug` shows only the kind of value,
/// because the content may be personal data.
///
/// To convert a string, choose between [`parse`](Self::parse) (or `str::parse`), which reads it as JSON text, and
/// [`string`](Self::string), which makes it a JSON string. There is no `From<&str>`, because it could mean either of the two.
/// Other conversions from strings, such as into a deal of the sandbox, read JSON text.
///
/// Two values are equal if their texts are equal. They are also equal if a [`serde_json::Value`] can hold both unchanged and
/// they differ only in the order of fields, in escapes, or in the notation of a number.
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
/// Directly through `serde_json`, the text is read and written unchanged. In other formats (`serde_json::Value`, `flatten`,
/// `tag`, `untagged`, YAML, TOML, CBOR, …) a `Json` is written as the format's own map, list, string or number. Numbers must
/// then be 64-bit integers, or floats of at most 15 significant digits; other numbers are an error.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The maximum depth of nested arrays and objects that [`Json::deserialize`] reads. A `Json` itself has no maximum
    /// depth, because storing, copying and writing it need no recursion.
    pub const MAX_DEPTH: usize = 127;

    /// Parses JSON text: exactly one value.
    ///
    /// # Errors
    /// If the text is not exactly one JSON value; the error has the line and the column.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(Self)
    }

    /// Creates a JSON string with this content.
    pub fn string(text: impl AsRef<str>) -> Self {
        Self::from_infallible(text.as_ref())
    }

    /// Serializes a value whose serialization cannot fail, such as a scalar.
    pub(crate) fn from_infallible(value: impl Serialize) -> Self {
        Self::from_serialize(&value).unwrap_or_else(|_| Self(RawValue::NULL.to_owned()))
    }

    /// Serializes a value to JSON.
    ///
    /// # Errors
    /// If JSON cannot represent the value, such as a map whose keys are not strings.
    pub fn from_serialize(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Returns the exact JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Deserializes the value into another type, such as `serde_json::Value`.
    ///
    /// # Errors
    /// If the value does not match `T`, or if a part that `T` reads is nested deeper than [`Json::MAX_DEPTH`] levels.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Copies a value that serde_json has validated.
    #[doc(hidden)]
    pub fn from_raw(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    pub(crate) fn into_text(self) -> String {
        Box::<str>::from(self.0).into_string()
    }

    pub(crate) fn kind(&self) -> JsonKind {
        JsonKind::from_json(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        any_format::serialize_json(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match DeserializedValue::read(deserializer)? {
            DeserializedValue::Text(json) => Self(json),
            DeserializedValue::Value(value) => value.into(),
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
    /// Writes the exact JSON text, including personal data in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Makes a `Json` an argument for the functions that read a document.
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

/// Implements conversion from types whose serialization cannot fail.
macro_rules! from_value {
    ($($type:ty),+) => {$(
        impl From<$type> for Json {
            fn from(value: $type) -> Self {
                Self::from_infallible(value)
            }
        }
    )+};
}
// Serializing a `Value` cannot fail: its keys are strings and its numbers are finite.
from_value!(Value, bool, i64);
