//! The kinds of JSON values.

/// The kind of a JSON value, as named in error messages.
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
    /// Returns the kind of a valid JSON value, by its first character.
    pub(crate) fn from_json(text: &str) -> Self {
        let first = text.bytes().find(|byte| *byte > b' ');
        Self::from_first_byte(first.unwrap_or_default())
    }

    /// Returns the kind of a valid JSON value that begins with this byte.
    pub(crate) fn from_first_byte(first: u8) -> Self {
        match first {
            b'n' => JsonKind::Null,
            b't' | b'f' => JsonKind::Boolean,
            b'"' => JsonKind::String,
            b'[' => JsonKind::Array,
            b'{' => JsonKind::Object,
            _ => JsonKind::Number,
        }
    }

    /// Returns the kind with an article, for a sentence such as "found a number".
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
