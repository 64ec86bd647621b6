//! The kinds of JSON values.

/// The kind of a JSON value, as named in error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl JsonKind {
    /// Returns the kind of a valid JSON value, by its first character.
    pub fn from_json(text: &str) -> Self {
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
    pub fn name(self) -> &'static str {
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
