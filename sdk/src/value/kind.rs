//! The kind of value that a JSON text contains.

/// The kinds of JSON value, as named in error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl JsonKind {
    /// The kind of the valid JSON value `text`, by its first character.
    pub(crate) fn of(text: &str) -> Self {
        let first = text.bytes().find(|byte| *byte > b' ');
        Self::beginning_with(first.unwrap_or_default())
    }

    /// The kind of a valid JSON value that begins with this character.
    pub(crate) fn beginning_with(first: u8) -> Self {
        match first {
            b'n' => JsonKind::Null,
            b't' | b'f' => JsonKind::Boolean,
            b'"' => JsonKind::String,
            b'[' => JsonKind::Array,
            b'{' => JsonKind::Object,
            _ => JsonKind::Number,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            JsonKind::Null => "null",
            JsonKind::Boolean => "a boolean",
            JsonKind::Number => "a number",
            JsonKind::String => "a string",
            JsonKind::Array => "an array",
            JsonKind::Object => "an object",
        }
    }
}
