//! Reading of JSON objects field by field. An error names the field, the expected value and the kind of value found.

use std::borrow::Cow;

use dealkit::{
    Json,
    internal::{json_kind::JsonKind, lexer::Lexer},
};

use crate::json;

/// The description of a count in error messages.
pub(crate) const EXPECTED_COUNT: &str = "a whole number, 0 or more";

/// A field of a JSON object.
#[derive(Debug)]
pub(crate) struct JsonField<'j> {
    pub(crate) name: Cow<'j, str>,
    /// The value as JSON text.
    pub(crate) json: &'j str,
}

/// Reads a JSON object. `subject` names the object in error messages.
pub(crate) fn parse_object<'j>(
    subject: &str,
    bytes: &'j [u8],
) -> Result<Vec<JsonField<'j>>, String> {
    let text =
        json::check(bytes).map_err(|error| format!("{subject} is not strict JSON: {error}"))?;
    split_object(text).ok_or_else(|| {
        let found = JsonKind::from_json(text).name();
        format!("{subject} must be an object, not {found}")
    })
}

/// Splits a JSON object into its fields. `None` if the text is not an object.
pub(crate) fn split_object(text: &str) -> Option<Vec<JsonField<'_>>> {
    let mut lexer = Lexer::new(text);
    let mut fields = Vec::new();
    let mut has_more = lexer.begin_object().ok()?;
    while has_more {
        fields.push(JsonField {
            name: lexer.read_name().ok()?,
            json: lexer.read_raw().ok()?.get(),
        });
        has_more = lexer.next_field().ok()?;
    }
    Some(fields)
}

impl JsonField<'_> {
    /// Creates the error message of a field whose value has another type.
    pub(crate) fn expected(&self, expected: &str) -> String {
        let (name, found) = (&self.name, self.kind().name());
        format!("{name}: expected {expected}, found {found}")
    }

    /// Creates the error message of an unknown field.
    pub(crate) fn unknown<'n>(&self, known: impl Iterator<Item = &'n str>) -> String {
        let known = known.collect::<Vec<_>>().join(", ");
        format!("{}: unknown field, expected one of {known}", self.name)
    }

    pub(crate) fn kind(&self) -> JsonKind {
        JsonKind::from_json(self.json)
    }

    /// Reads `true` or `false`. Null is false.
    pub(crate) fn read_bool(&self) -> Result<bool, String> {
        match self.json {
            "true" => Ok(true),
            "false" | "null" => Ok(false),
            _ => Err(self.expected("true or false")),
        }
    }

    /// Reads a string. Null is `None`.
    pub(crate) fn read_string(&self, expected: &str) -> Result<Option<String>, String> {
        match self.kind() {
            JsonKind::Null => Ok(None),
            JsonKind::String => serde_json::from_str(self.json)
                .map(Some)
                .map_err(|_| self.expected(expected)),
            _ => Err(self.expected(expected)),
        }
    }

    /// Reads a number with `parse`, which returns `None` for a number outside of the allowed range. Null is `None`.
    pub(crate) fn read_number<T>(
        &self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.kind() {
            JsonKind::Null => Ok(None),
            JsonKind::Number => parse(self.json)
                .map(Some)
                .ok_or_else(|| format!("{}: expected {expected}", self.name)),
            _ => Err(self.expected(expected)),
        }
    }

    /// Reads any value as JSON. Null is `None`.
    pub(crate) fn read_json(&self) -> Option<Json> {
        let json = Some(self.json).filter(|_| self.kind() != JsonKind::Null);
        json.and_then(|json| Json::parse(json).ok())
    }
}
