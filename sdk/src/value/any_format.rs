//! Numbers and free-form values through any serde format: exactly, or not at all.
//!
//! serde has no way to ask what is on the other side, but only serde_json can be handed the digits of a number. So the names
//! of types are compared. The compiler does not promise to keep these names, so a wrong answer may cost an error, but never a
//! digit. They are taken from the types themselves, so that a new version of serde_json may rename them.

use std::{any::type_name, collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::{Number, Value, value::RawValue};

use super::{Decimal, ParseDecimalError, serde_errors::expected};

/// Whether the numbers in a `serde_json::Value` are text: any crate of the program can have serde_json do that.
static NUMBERS_ARE_TEXT: LazyLock<bool> = LazyLock::new(|| {
    serde_json::from_str::<Number>("1.10").is_ok_and(|number| number.to_string() == "1.10")
});

const UNCERTAIN: &str = "expected a number whose digits are certain, found a binary float of more than 15 significant \
    digits: write the number as a string, or read the document directly with serde_json (not through \
    `serde_json::Value`, `flatten`, `tag` or `untagged`)";

/// What takes a value that is serialized.
#[derive(PartialEq, Eq)]
enum Target {
    /// A JSON text, which takes that of a number or a value unchanged.
    Text,
    /// A `serde_json::Value`.
    Value,
    /// Another format, or a layer that hides which.
    Other,
}

impl Target {
    fn of<S: Serializer>() -> Self {
        let name = type_name::<S>();
        if name.starts_with(generic(type_name::<&mut serde_json::Serializer<Vec<u8>>>())) {
            Target::Text
        } else if name == type_name::<serde_json::value::Serializer>() {
            Target::Value
        } else {
            Target::Other
        }
    }
}

/// The name of a generic type up to its parameters, including the opening bracket.
fn generic(name: &'static str) -> &'static str {
    name.split_inclusive('<').next().unwrap_or(name)
}

/// A value as a deserializer has it.
pub(crate) enum Given {
    /// The text of a JSON document.
    Text(Box<RawValue>),
    /// What another format, or a buffer of serde's, had. Its floats have at most 15 digits.
    Value(Value),
}

impl Given {
    pub(crate) fn from<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = type_name::<serde_json::Deserializer<serde_json::de::SliceRead<'_>>>();
        // It may be within a wrapper that observes it.
        if type_name::<D>().contains(generic(text)) {
            return Box::<RawValue>::deserialize(deserializer).map(Self::Text);
        }
        let value = Value::deserialize(deserializer).map_err(expected("a JSON value"))?;
        if is_certain(&value) {
            Ok(Self::Value(value))
        } else {
            Err(de::Error::custom(UNCERTAIN))
        }
    }
}

/// Whether no number in a value can have been another one before it became a float.
fn is_certain(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            !number.is_f64() || as_float(number).is_some() || (*NUMBERS_ARE_TEXT && !is_tie(number))
        }
        Value::Array(items) => items.iter().all(is_certain),
        Value::Object(fields) => fields.values().all(is_certain),
        _ => true,
    }
}

/// A number as a float, if it has at most 15 significant digits, which every float can hold.
fn as_float(number: &Number) -> Option<f64> {
    let float = number.as_f64()?;
    let shortest = format!("{float:e}");
    let digits = shortest.split('e').next().unwrap_or_default();
    let is_short = digits.bytes().filter(u8::is_ascii_digit).count() <= f64::DIGITS as usize;
    (is_short && same_number(&number.to_string(), &shortest)).then_some(float)
}

/// Whether two of the shortest texts of a number's float are equally close to it. serde_json takes either of them for that
/// float when it hands a number on, and then always writes the same one.
fn is_tie(number: &Number) -> bool {
    number.as_f64().is_some_and(|float| {
        let written = Number::from_f64(float).map(|number| number.to_string());
        written.is_some_and(|written| !same_number(&written, &float.to_string()))
    })
}

/// Whether two texts are the same number, in the same digits or not.
fn same_number(left: &str, right: &str) -> bool {
    let value = |text| Decimal::from_json_number(text);
    left == right || value(left).is_some_and(|left| value(right) == Some(left))
}

/// Whether two texts are the same JSON, regardless of the order of fields, of escapes, and of how a number is written. What a
/// `Value` cannot hold is compared as text.
pub(super) fn same(left: &str, right: &str) -> bool {
    let both = || Some((exact(left)?, exact(right)?));
    left == right || both().is_some_and(|(left, right)| same_value(&left, &right))
}

/// With serde_json's `arbitrary_precision`, a `Value` compares the texts of numbers.
fn same_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            same_number(&left.to_string(), &right.to_string())
        }
        (Value::Array(left), Value::Array(right)) => {
            let mut both = left.iter().zip(right);
            left.len() == right.len() && both.all(|(left, right)| same_value(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut both = left.iter().map(|(name, left)| (left, right.get(name)));
            left.len() == right.len()
                && both.all(|(left, right)| right.is_some_and(|right| same_value(left, right)))
        }
        _ => left == right,
    }
}

/// A JSON text as a `Value`, if that can hold every number in it.
fn exact(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    (is_certain(&value) && holds(&value, text)).then_some(value)
}

/// Whether the numbers in a value are those of the text that it was read from.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::Number(number) => same_number(&number.to_string(), text.trim()),
        Value::Array(values) => {
            let texts: Result<Vec<&RawValue>, _> = serde_json::from_str(text);
            texts.is_ok_and(|texts| {
                let mut both = values.iter().zip(texts);
                both.all(|(value, text)| holds(value, text.get()))
            })
        }
        Value::Object(values) => {
            let texts: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(text);
            texts.is_ok_and(|texts| {
                let mut both = texts.iter().map(|(name, text)| (values.get(name), text));
                both.all(|(value, text)| value.is_some_and(|value| holds(value, text.get())))
            })
        }
        _ => true,
    }
}

/// Serializes a JSON value: for serde_json as its unchanged text, for other formats as their own maps, lists and numbers.
pub(super) fn write<S: Serializer>(json: &RawValue, serializer: S) -> Result<S::Ok, S::Error> {
    let target = Target::of::<S>();
    if target == Target::Text {
        return json.serialize(serializer);
    }
    match exact(json.get()) {
        Some(value) if target == Target::Value => value.serialize(serializer),
        Some(value) => Plain(&value).serialize(serializer),
        None => Err(ser::Error::custom(
            "a number of more than 64 bits, or of more than 15 digits with a fraction, and what nests deeper than 127 \
             levels, can be written directly with serde_json alone",
        )),
    }
}

/// A value for a format that knows nothing of serde_json's own way to pass on the text of a number.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match (number.as_i64(), number.as_u64(), as_float(number)) {
                (Some(integer), ..) => serializer.serialize_i64(integer),
                (_, Some(integer), _) => serializer.serialize_u64(integer),
                (.., Some(float)) => serializer.serialize_f64(float),
                _ => Err(ser::Error::custom(UNCERTAIN)),
            },
            Value::Array(items) => serializer.collect_seq(items.iter().map(Plain)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Plain(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        match Target::of::<S>() {
            // A raw value is the only way to pass digits to serde_json without it changing them.
            Target::Text => RawValue::from_string(text)
                .map_err(ser::Error::custom)?
                .serialize(serializer),
            Target::Value => match exact(&text) {
                Some(number) => number.serialize(serializer),
                None => serializer.serialize_str(&text),
            },
            Target::Other => serializer.serialize_str(&text),
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Given::from(deserializer)? {
            Given::Text(json) => Self::from_json_number(json.get()),
            Given::Value(Value::Number(number)) => Self::from_json_number(&number.to_string()),
            Given::Value(Value::String(text)) => text.parse().ok(),
            Given::Value(_) => None,
        }
        .ok_or_else(|| de::Error::custom(ParseDecimalError))
    }
}
