//! A model in any serde format as the JSON document that it would be.

use serde::Deserializer;
use serde_json::Value;

use crate::{
    contract::schema::FieldKind,
    value::{Decimal, Given},
};

/// The JSON document of what should be of this kind.
pub(super) fn document<'de, D: Deserializer<'de>>(
    deserializer: D,
    kind: FieldKind,
) -> Result<String, D::Error> {
    Ok(match Given::from(deserializer)? {
        Given::Text(json) => Box::<str>::from(json).into_string(),
        Given::Value(value) => {
            let mut json = String::new();
            write(&value, kind, &mut json);
            json
        }
    })
}

/// Writes a value, in which decimals may be strings: so they are written in other formats than JSON.
fn write(value: &Value, kind: FieldKind, json: &mut String) {
    match (kind, value) {
        (FieldKind::Decimal, Value::String(digits)) if digits.parse::<Decimal>().is_ok() => {
            json.push_str(digits);
        }
        (FieldKind::One(model), Value::Object(fields)) => {
            json.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                json.push_str(&Value::from(&**name).to_string());
                json.push(':');
                let field = model.fields.iter().find(|field| field.wire == name);
                // Undocumented fields have no kind, and are written as they are.
                write(
                    value,
                    field.map_or(FieldKind::Object, |field| field.kind),
                    json,
                );
            }
            json.push('}');
        }
        (FieldKind::Many(model), Value::Array(items)) => {
            json.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write(item, FieldKind::One(model), json);
            }
            json.push(']');
        }
        _ => json.push_str(&value.to_string()),
    }
}
