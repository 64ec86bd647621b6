//! Conversion of a model in any serde format into its JSON document.

use serde::{Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::{
    specification::schema::FieldKind,
    value::{Decimal, Given},
};

/// Returns the JSON document of a value that should be of this kind.
pub(super) fn document_from<'de, D: Deserializer<'de>>(
    deserializer: D,
    kind: FieldKind,
) -> Result<String, D::Error> {
    match Given::read(deserializer)? {
        Given::Text(json) => Ok(Box::<str>::from(json).into_string()),
        Given::Value(value) => {
            serde_json::to_string(&WithNumbers(&value, kind)).map_err(de::Error::custom)
        }
    }
}

/// A value that serializes its decimals as JSON numbers; other formats write them as strings.
struct WithNumbers<'a>(&'a Value, FieldKind);

impl Serialize for WithNumbers<'_> {
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
                    (name, WithNumbers(value, kind))
                }))
            }
            (FieldKind::ModelList(model), Value::Array(items)) => {
                let kind = FieldKind::Model(model);
                serializer.collect_seq(items.iter().map(|item| WithNumbers(item, kind)))
            }
            (_, value) => value.serialize(serializer),
        }
    }
}
