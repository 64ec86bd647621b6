//! The kind of value that a JSON text contains.

/// The kinds of JSON value, as named in error texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The kind of the valid JSON value `text`, by its first character.
    pub(crate) fn of(text: &str) -> Self {
        // Leading white space is rare, and is skipped one character at a time.
        let text = match text.as_bytes() {
            [b'!'..=u8::MAX, ..] => text,
            _ => text.trim_start(),
        };
        match text.as_bytes().first() {
            Some(b'n') => Kind::Null,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'"') => Kind::String,
            Some(b'[') => Kind::Array,
            Some(b'{') => Kind::Object,
            _ => Kind::Number,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a string",
            Kind::Array => "an array",
            Kind::Object => "an object",
        }
    }
}
