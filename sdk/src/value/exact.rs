//! Reading a number from any serde format, exactly or not at all.

use std::fmt;

use serde::{
    Deserializer,
    de::{self, MapAccess, Visitor},
};

use super::{
    format::{self, ARBITRARY_PRECISION, NUMBER, RAW_VALUE},
    name::Name,
    number::{UNCERTAIN, is_certain, is_json_number, shortest_text_of_float, text_of_float},
    serde_errors::expected,
};

/// Decodes a number with `parse`, which takes the text of a JSON number and returns `None` for one that
/// does not fit; `expected` says what it should have been.
///
/// Directly from serde_json, the text is that of the document, and only a number is accepted. From
/// anything else, an integer, a float of at most 15 significant digits or a string is accepted.
pub(super) fn read_number<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let visitor = NumberVisitor {
        is_document: format::reads_json_text::<D>(),
        expected,
        parse,
    };
    // serde_json recognises the name, and other formats call `visit_newtype_struct`.
    deserializer
        .deserialize_newtype_struct(RAW_VALUE, visitor)
        .map_err(self::expected(expected))
}

/// The text of a float from a deserializer with this error type.
pub(super) fn float_from<E: de::Error>(float: f64) -> Result<String, E> {
    if format::floats_are_text::<E>() {
        shortest_text_of_float(float)
    } else {
        text_of_float(float)
    }
    .map_err(E::custom)
}

struct NumberVisitor<T> {
    /// Whether raw text comes from the document, rather than from the contents of a `Value`.
    is_document: bool,
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> NumberVisitor<T> {
    /// The value of text that is known to be a JSON value.
    fn exactly<E: de::Error>(&self, text: &str) -> Result<T, E> {
        // serde's own message for a wrong value would repeat the value.
        (self.parse)(text).ok_or_else(|| self.unexpected())
    }

    fn unexpected<E: de::Error>(&self) -> E {
        E::custom(format_args!("expected {}", self.expected))
    }

    /// The value of raw text that was written from a `Value`, or from an unknown source.
    fn visit_written<E: de::Error>(&self, text: &str) -> Result<T, E> {
        if text.starts_with('"') {
            let text: String = serde_json::from_str(text).map_err(|_| self.unexpected())?;
            return self.visit_text(&text);
        }
        if !is_json_number(text) {
            return Err(self.unexpected());
        }
        if !*ARBITRARY_PRECISION && !is_certain(text) {
            return Err(E::custom(UNCERTAIN));
        }
        self.exactly(text)
    }

    fn visit_text<E: de::Error>(&self, text: &str) -> Result<T, E> {
        if is_json_number(text) {
            self.exactly(text)
        } else {
            Err(self.unexpected())
        }
    }
}

impl<'de, T> Visitor<'de> for NumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<T, A::Error> {
        match fields.next_key()? {
            Some(Name(name)) if name == RAW_VALUE => {
                let Name(text) = fields.next_value()?;
                if self.is_document {
                    self.exactly(&text)
                } else {
                    self.visit_written(&text)
                }
            }
            Some(Name(name)) if name == NUMBER => {
                let Name(text) = fields.next_value()?;
                self.visit_text(&text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn visit_i64<E: de::Error>(self, integer: i64) -> Result<T, E> {
        self.exactly(&integer.to_string())
    }

    fn visit_u64<E: de::Error>(self, integer: u64) -> Result<T, E> {
        self.exactly(&integer.to_string())
    }

    fn visit_i128<E: de::Error>(self, integer: i128) -> Result<T, E> {
        self.exactly(&integer.to_string())
    }

    fn visit_u128<E: de::Error>(self, integer: u128) -> Result<T, E> {
        self.exactly(&integer.to_string())
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<T, E> {
        self.exactly(&float_from(float)?)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        self.visit_text(text)
    }
}
