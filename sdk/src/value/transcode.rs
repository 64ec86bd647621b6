//! JSON text from and to any serde format, exactly or not at all.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
    ser,
};
use serde_json::value::RawValue;

use super::{
    equal::MAX_DEPTH,
    exact::float_from,
    format::{self, ARBITRARY_PRECISION, NUMBER, RAW_VALUE, Target},
    kind::JsonKind,
    name::Name,
    number::{Binary, NOT_FINITE, UNCERTAIN, is_certain, is_json_number},
    serde_errors::expected,
};

const NOT_JSON: &str = "expected a JSON value";

const TOO_DEEP: &str = "expected at most 127 levels of arrays and objects: only serde_json itself reads and writes more";

/// Serializes the JSON value `json`: for serde_json as its unchanged text, for other formats as their own maps,
/// lists and numbers.
pub(super) fn write<S: Serializer>(json: &RawValue, serializer: S) -> Result<S::Ok, S::Error> {
    match Target::of::<S>() {
        Target::ExactJson => json.serialize(serializer),
        Target::LossyJson | Target::Other => Transcoded {
            text: json.get(),
            depth: 0,
        }
        .serialize(serializer),
    }
}

/// A JSON value being serialized into another format.
struct Transcoded<'a> {
    text: &'a str,
    depth: usize,
}

impl Transcoded<'_> {
    /// The depth of the values within this one.
    fn inside<E: ser::Error>(&self) -> Result<usize, E> {
        if self.depth == MAX_DEPTH {
            Err(E::custom(TOO_DEEP))
        } else {
            Ok(self.depth + 1)
        }
    }
}

impl Serialize for Transcoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.text.trim();
        match JsonKind::of(text) {
            // Not `none`, because some formats then omit the field together with its name.
            JsonKind::Null => serializer.serialize_unit(),
            JsonKind::Boolean => serializer.serialize_bool(text == "true"),
            JsonKind::Number => Binary::of(text)
                .ok_or_else(|| {
                    ser::Error::custom(
                        "a number of more than 64 bits, or of more than 15 digits with a fraction, can be written \
                         directly with serde_json alone",
                    )
                })?
                .serialize(serializer),
            JsonKind::String => {
                let text: String = serde_json::from_str(text).map_err(ser::Error::custom)?;
                serializer.serialize_str(&text)
            }
            JsonKind::Array => {
                let depth = self.inside()?;
                let items: Vec<&RawValue> =
                    serde_json::from_str(text).map_err(ser::Error::custom)?;
                serializer.collect_seq(items.into_iter().map(|item| Transcoded {
                    text: item.get(),
                    depth,
                }))
            }
            JsonKind::Object => {
                let depth = self.inside()?;
                // Of equal names the last counts; some formats would reject duplicates.
                let fields: BTreeMap<String, &RawValue> =
                    serde_json::from_str(text).map_err(ser::Error::custom)?;
                serializer.collect_map(fields.into_iter().map(|(name, value)| {
                    let text = value.get();
                    (name, Transcoded { text, depth })
                }))
            }
        }
    }
}

/// Decodes any value as JSON text: from serde_json as it is in the document, from other formats by converting
/// their values to JSON.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    if format::reads_json_text::<D>() {
        return Box::<RawValue>::deserialize(deserializer);
    }
    let mut json = String::new();
    let writer = JsonWriter {
        out: &mut json,
        depth: 0,
        may_be_raw: true,
    };
    deserializer
        .deserialize_newtype_struct(RAW_VALUE, writer)
        .map_err(without_names)
        .map_err(expected("a JSON value"))?;
    RawValue::from_string(json).map_err(|_| de::Error::custom(NOT_JSON))
}

/// dealkit's message about a value, without the path to it: some formats put the path before the message, and in a
/// free-form value it consists of names that may be personal data.
fn without_names<E: de::Error>(error: E) -> E {
    let text = error.to_string();
    [NOT_JSON, TOO_DEEP, UNCERTAIN, NOT_FINITE]
        .into_iter()
        .find(|told| text.contains(told))
        .map_or(error, E::custom)
}

/// Writes the values that it visits as JSON.
struct JsonWriter<'o> {
    out: &'o mut String,
    depth: usize,
    /// Whether serde_json can pass on raw text here: it was asked for only at the top level.
    may_be_raw: bool,
}

impl JsonWriter<'_> {
    /// The writer for a value inside this one.
    fn inner(&mut self) -> JsonWriter<'_> {
        JsonWriter {
            out: self.out,
            depth: self.depth + 1,
            may_be_raw: false,
        }
    }

    fn push(self, json: &str) {
        self.out.push_str(json);
    }

    fn push_string<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        let json = serde_json::to_string(text).map_err(E::custom)?;
        self.out.push_str(&json);
        Ok(())
    }

    fn enter<E: de::Error>(&self) -> Result<(), E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for JsonWriter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let writer = JsonWriter {
            may_be_raw: false,
            ..self
        };
        writer.deserialize(deserializer)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.push("null");
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.push(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, integer: i64) -> Result<(), E> {
        self.push(&integer.to_string());
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, integer: u64) -> Result<(), E> {
        self.push(&integer.to_string());
        Ok(())
    }

    fn visit_i128<E: de::Error>(self, integer: i128) -> Result<(), E> {
        self.push(&integer.to_string());
        Ok(())
    }

    fn visit_u128<E: de::Error>(self, integer: u128) -> Result<(), E> {
        self.push(&integer.to_string());
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<(), E> {
        self.push(&float_from::<E>(float)?);
        Ok(())
    }

    fn visit_str<E: de::Error>(mut self, text: &str) -> Result<(), E> {
        self.push_string(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.enter()?;
        self.out.push('[');
        let mut separator = "";
        loop {
            let end = self.out.len();
            self.out.push_str(separator);
            if items.next_element_seed(self.inner())?.is_none() {
                self.out.truncate(end);
                break;
            }
            separator = ",";
        }
        self.out.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.enter()?;
        let mut next = fields.next_key()?;
        if let Some(Name(name)) = &next {
            match &**name {
                RAW_VALUE if self.may_be_raw => {
                    let Name(text) = fields.next_value()?;
                    // It may be that of a `Value`, whose numbers have been binary floats.
                    if !*ARBITRARY_PRECISION && !all_certain(&text) {
                        return Err(de::Error::custom(UNCERTAIN));
                    }
                    self.push(&text);
                    return Ok(());
                }
                NUMBER => {
                    let Name(text) = fields.next_value()?;
                    if !is_json_number(&text) {
                        return Err(de::Error::custom("expected a number"));
                    }
                    self.push(&text);
                    return Ok(());
                }
                name if format::is_private(name) => {
                    return Err(de::Error::custom(NOT_JSON));
                }
                _ => {}
            }
        }
        self.out.push('{');
        let mut separator = "";
        while let Some(Name(name)) = next {
            self.out.push_str(separator);
            separator = ",";
            self.push_string(&name)?;
            self.out.push(':');
            fields.next_value_seed(self.inner())?;
            next = fields.next_key()?;
        }
        self.out.push('}');
        Ok(())
    }
}

/// Whether no number in the JSON text can have been another one before it became a float.
fn all_certain(json: &str) -> bool {
    let mut rest = json;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = rest.get(start..).unwrap_or_default();
        let length = if rest.starts_with('"') {
            string_length(rest)
        } else {
            let is_number =
                |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
            rest.find(|c| !is_number(c)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        if !token.starts_with('"') && !is_certain(token) {
            return false;
        }
        rest = after;
    }
    true
}

/// The length of the JSON string with which the text begins, including quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
