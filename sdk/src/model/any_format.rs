//! A model in any serde format as the JSON document that it would be.

use serde::{Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::{
    specification::schema::FieldKind,
    value::{Decimal, Given},
};

/// The JSON document of what should be of this kind.
pub(super) fn document<'de, D: Deserializer<'de>>(
    deserializer: D,
    kind: FieldKind,
) -> Result<String, D::Error> {
    match Given::from(deserializer)? {
        Given::Text(json) => Ok(Box::<str>::from(json).into_string()),
        Given::Value(value) => {
            serde_json::to_string(&Document(&value, kind)).map_err(de::Error::custom)
        }
    }
}

/// A value in which decimals may be strings: so they are written in other formats than JSON.
struct Document<'a>(&'a Value, FieldKind);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.1, self.0) {
            (FieldKind::Decimal, Value::String(digits)) => match digits.parse::<Decimal>() {
                Ok(number) => number.serialize(serializer),
                Err(_) => digits.serialize(serializer),
            },
            (FieldKind::Model(model), Value::Object(fields)) => {
                serializer.collect_map(fields.iter().map(|(name, value)| {
                    let field = model.fields.iter().find(|field| field.wire == name);
                    // Undocumented fields have no kind, and are written as they are.
                    let kind = field.map_or(FieldKind::JsonObject, |field| field.kind);
                    (name, Document(value, kind))
                }))
            }
            (FieldKind::ModelList(model), Value::Array(items)) => {
                let kind = FieldKind::Model(model);
                serializer.collect_seq(items.iter().map(|item| Document(item, kind)))
            }
            (_, value) => value.serialize(serializer),
        }
    }
}
