//! Conversion of a model in any serde format into its JSON document.

use serde::{Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::{
    specification::schema::FieldKind,
    value::{Decimal, DeserializedValue},
};

/// Reads a value that should be of this kind, and returns its JSON document.
pub(super) fn read_document<'de, D: Deserializer<'de>>(
    deserializer: D,
    kind: FieldKind,
) -> Result<String, D::Error> {
    match DeserializedValue::read(deserializer)? {
        DeserializedValue::Text(json) => Ok(Box::<str>::from(json).into_string()),
        DeserializedValue::Value(value) => {
            serde_json::to_string(&WithDecimalNumbers(&value, kind)).map_err(de::Error::custom)
        }
    }
}

/// A value and its kind. Decimals, which formats other than JSON write as strings, are serialized as JSON numbers.
struct WithDecimalNumbers<'a>(&'a Value, FieldKind);

impl Serialize for WithDecimalNumbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.1, self.0) {
            (FieldKind::Decimal, Value::String(digits)) => match digits.parse::<Decimal>() {
                Ok(number) => number.serialize(serializer),
                Err(_) => digits.serialize(serializer),
            },
            (FieldKind::Model(model), Value::Object(fields)) => {
                serializer.collect_map(fields.iter().map(|(name, value)| {
                    let field = model.fields.iter().find(|field| field.wire == name);
                    // Undocumented fields have no kind, and are written unchanged.
                    let kind = field.map_or(FieldKind::JsonObject, |field| field.kind);
                    (name, WithDecimalNumbers(value, kind))
                }))
            }
            (FieldKind::ModelList(model), Value::Array(items)) => {
                let kind = FieldKind::Model(model);
                serializer.collect_seq(items.iter().map(|item| WithDecimalNumbers(item, kind)))
            }
            (_, value) => value.serialize(serializer),
        }
    }
}
