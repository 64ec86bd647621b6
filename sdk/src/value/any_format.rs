//! Exact numbers and free-form values in any serde format.
//!
//! Through serde_json, numbers are read and written with all their digits. In other formats, a decimal is written as a string.
//! A number that may have been rounded before it was read is an error.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::{Number, Value, value::RawValue};

use super::{
    Decimal, JsonKind, ParseDecimalError,
    serde_errors::expected,
    serde_json_probe::{Source, Target},
};

/// True if a `serde_json::Value` retains the text of its numbers: any crate in the build can turn on serde_json's feature
/// `arbitrary_precision`.
static NUMBERS_ARE_TEXT: LazyLock<bool> = LazyLock::new(|| {
    serde_json::from_str::<Number>("1.10").is_ok_and(|number| number.to_string() == "1.10")
});

const UNCERTAIN_NUMBER: &str = "expected a number whose digits are certain, found a binary float of more than 15 significant \
    digits: write the number as a string, or read the document directly with serde_json (not through \
    `serde_json::Value`, `flatten`, `tag` or `untagged`)";

/// A value from a deserializer.
pub(crate) enum DeserializedValue {
    /// The text of a JSON document.
    Text(Box<RawValue>),
    /// A value from another format, or from a buffer of serde. Its floats have at most 15 digits.
    Value(Value),
}

impl DeserializedValue {
    /// Reads a value from a deserializer of any format.
    ///
    /// # Errors
    /// If a number may have been rounded before this function reads it.
    pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Source::read(deserializer).map_err(expected("a JSON value"))? {
            Source::Text(text) => Ok(Self::Text(text)),
            // In JSON, every map key is a string, even if it is a decimal.
            Source::TextOrValue(text) if JsonKind::from_json(text.get()) == JsonKind::String => {
                let text = serde_json::from_str(text.get()).map_err(de::Error::custom)?;
                Ok(Self::Value(Value::String(text)))
            }
            Source::TextOrValue(text) => Ok(Self::Text(text)),
            Source::Value(value) if has_certain_numbers(&value) => Ok(Self::Value(value)),
            Source::Value(_) => Err(de::Error::custom(UNCERTAIN_NUMBER)),
        }
    }
}

/// Returns true if no number in a value can have been rounded to a float.
fn has_certain_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            !number.is_f64()
                || to_exact_float(number).is_some()
                || (*NUMBERS_ARE_TEXT && !has_two_shortest_texts(number))
        }
        Value::Array(items) => items.iter().all(has_certain_numbers),
        Value::Object(fields) => fields.values().all(has_certain_numbers),
        _ => true,
    }
}

/// Returns a number as a float if it has at most 15 significant digits, which a float represents exactly.
fn to_exact_float(number: &Number) -> Option<f64> {
    let float = number.as_f64()?;
    let shortest = format!("{float:e}");
    let digits = shortest.split('e').next().unwrap_or_default();
    let is_short = digits.bytes().filter(u8::is_ascii_digit).count() <= f64::DIGITS as usize;
    (is_short && is_same_number(&number.to_string(), &shortest)).then_some(float)
}

/// Returns true if the float of a number has two shortest decimal texts: serde_json writes one, and the standard library the
/// other. The number's original text is then uncertain: when serde_json passes a number on as a float, both texts become the
/// same.
fn has_two_shortest_texts(number: &Number) -> bool {
    number.as_f64().is_some_and(|float| {
        let serde_json_text = Number::from_f64(float).map(|number| number.to_string());
        serde_json_text.is_some_and(|text| !is_same_number(&text, &float.to_string()))
    })
}

/// Returns true if two texts denote the same number, such as `1.0` and `1`.
fn is_same_number(left: &str, right: &str) -> bool {
    let value = |text| Decimal::from_json_number(text);
    left == right || value(left).is_some_and(|left| value(right) == Some(left))
}

/// Returns true if two texts are the same JSON, regardless of the order of fields, escapes and the notation of numbers. JSON that
/// a `Value` cannot represent is compared as text.
pub(super) fn is_same_json(left: &str, right: &str) -> bool {
    let both = || Some((parse_exact(left)?, parse_exact(right)?));
    left == right || both().is_some_and(|(left, right)| is_same_value(&left, &right))
}

/// Compares values, with numbers by their value: with `arbitrary_precision`, a `Value` compares the texts of numbers.
fn is_same_value(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            is_same_number(&left.to_string(), &right.to_string())
        }
        (Value::Array(left), Value::Array(right)) => {
            let mut both = left.iter().zip(right);
            left.len() == right.len() && both.all(|(left, right)| is_same_value(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut both = left.iter().map(|(name, left)| (left, right.get(name)));
            left.len() == right.len()
                && both.all(|(left, right)| right.is_some_and(|right| is_same_value(left, right)))
        }
        _ => left == right,
    }
}

/// Parses a JSON text as a `Value`, if a `Value` represents every number in it exactly.
fn parse_exact(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    (has_certain_numbers(&value) && has_same_numbers(&value, text)).then_some(value)
}

/// Returns true if the numbers in a value equal the numbers in the text from which the value was parsed.
fn has_same_numbers(value: &Value, text: &str) -> bool {
    match value {
        Value::Number(number) => is_same_number(&number.to_string(), text.trim()),
        Value::Array(values) => {
            let texts: Result<Vec<&RawValue>, _> = serde_json::from_str(text);
            texts.is_ok_and(|texts| {
                let mut both = values.iter().zip(texts);
                both.all(|(value, text)| has_same_numbers(value, text.get()))
            })
        }
        Value::Object(values) => {
            let texts: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(text);
            texts.is_ok_and(|texts| {
                let mut both = texts.iter().map(|(name, text)| (values.get(name), text));
                both.all(|(value, text)| {
                    value.is_some_and(|value| has_same_numbers(value, text.get()))
                })
            })
        }
        _ => true,
    }
}

/// Serializes a JSON value: for serde_json as its unchanged text, for other formats as their maps, lists and numbers.
pub(super) fn serialize_json<S: Serializer>(
    json: &RawValue,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let target = Target::for_serializer::<S>();
    if target == Target::Text {
        return json.serialize(serializer);
    }
    match parse_exact(json.get()) {
        Some(value) if target == Target::Value => value.serialize(serializer),
        Some(value) => Plain(&value).serialize(serializer),
        None => Err(ser::Error::custom(
            "a number of more than 64 bits, a number of more than 15 digits with a fraction, and a value nested deeper than 127 \
             levels can be written only directly with serde_json",
        )),
    }
}

/// A value that is serialized without serde_json's private marker for the text of a number.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => {
                match (number.as_i64(), number.as_u64(), to_exact_float(number)) {
                    (Some(integer), ..) => serializer.serialize_i64(integer),
                    (_, Some(integer), _) => serializer.serialize_u64(integer),
                    (.., Some(float)) => serializer.serialize_f64(float),
                    _ => Err(ser::Error::custom(UNCERTAIN_NUMBER)),
                }
            }
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
        match Target::for_serializer::<S>() {
            // Only a raw value passes digits to serde_json unchanged.
            Target::Text => RawValue::from_string(text)
                .map_err(ser::Error::custom)?
                .serialize(serializer),
            Target::Value => match parse_exact(&text) {
                Some(number) => number.serialize(serializer),
                None => serializer.serialize_str(&text),
            },
            Target::Other => serializer.serialize_str(&text),
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match DeserializedValue::read(deserializer)? {
            DeserializedValue::Text(json) => Self::from_json_number(json.get()),
            DeserializedValue::Value(Value::Number(number)) => {
                Self::from_json_number(&number.to_string())
            }
            DeserializedValue::Value(Value::String(text)) => text.parse().ok(),
            DeserializedValue::Value(_) => None,
        }
        .ok_or_else(|| de::Error::custom(ParseDecimalError))
    }
}
