//! How one field of a response is decoded from JSON and written back.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use chrono::{DateTime, NaiveDate, Utc};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use crate::{
    contract::schema::FieldKind,
    json::lexer::{Lexed, Lexer, Refused},
    value::{
        self, Decimal, Json, Name, WireText, expected, parse_date, parse_timestamp, read_integer,
    },
};

/// A type that a field of a response can have. It is written as serde writes it.
pub(super) trait FieldValue: Sized {
    /// What the field holds.
    const KIND: FieldKind;

    /// Reads it from any serde format.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// Does the same as [`read`](Self::read) for a JSON document, but faster, and without a reason if it fails.
    ///
    /// The functions for fields and strings are inlined into their reader, so that a value is created at its final
    /// place: a processor stalls when a value that was just written in parts is moved as a whole.
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self>;

    /// Whether there is no value to write: an optional field is then omitted.
    fn is_none(&self) -> bool {
        false
    }
}

/// Decodes a field that must be present and must not be null.
pub(super) struct Required<T>(PhantomData<T>);

/// Decodes a field that may be null: the type's default then stands for an absent value.
pub(super) struct Lenient<T>(PhantomData<T>);

impl<T> Required<T> {
    pub(super) fn seed() -> Self {
        Self(PhantomData)
    }
}

impl<T> Lenient<T> {
    pub(super) fn seed() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: FieldValue> DeserializeSeed<'de> for Required<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

impl<'de, T: FieldValue + Default> DeserializeSeed<'de> for Lenient<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer
            .deserialize_option(self)
            .map_err(expected("a value or null"))
    }
}

impl<'de, T: FieldValue + Default> Visitor<'de> for Lenient<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E: de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

/// [`Lenient`] with the lexer.
#[inline(always)]
pub(super) fn lex_lenient<T: FieldValue + Default>(lexer: &mut Lexer<'_>) -> Lexed<T> {
    if lexer.peek() == b'n' {
        lexer.null()?;
        Ok(T::default())
    } else {
        T::lex(lexer)
    }
}

/// Calls `lex` without inlining it: where it is rarely needed, its code need not be repeated for each field.
#[inline(never)]
pub(super) fn apart<T>(
    lexer: &mut Lexer<'_>,
    lex: impl Fn(&mut Lexer<'_>) -> Lexed<T>,
) -> Lexed<T> {
    lex(lexer)
}

impl<T: FieldValue> FieldValue for Option<T> {
    const KIND: FieldKind = T::KIND;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Some)
    }

    #[inline(always)]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        T::lex(lexer).map(Some)
    }

    fn is_none(&self) -> bool {
        self.is_none()
    }
}

impl<T: FieldValue> FieldValue for Vec<T> {
    const KIND: FieldKind = match T::KIND {
        FieldKind::One(model) => FieldKind::Many(model),
        // The table has no other lists.
        _ => FieldKind::Object,
    };

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: FieldValue> Visitor<'de> for Items<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = items.next_element_seed(Required::seed())? {
                    values.push(value);
                }
                Ok(values)
            }
        }

        deserializer
            .deserialize_seq(Items(PhantomData))
            .map_err(expected("an array"))
    }

    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        let mut more = lexer.array()?;
        if !more {
            return Ok(Vec::new());
        }
        let mut values = Vec::with_capacity(lexer.likely_items());
        while more {
            values.push(T::lex(lexer)?);
            more = lexer.item()?;
        }
        lexer.had_items(values.len());
        Ok(values)
    }
}

impl FieldValue for i64 {
    const KIND: FieldKind = FieldKind::Integer;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_integer(deserializer)
    }

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        lexer.integer()
    }
}

/// Decodes a string with `parse`; `expected` says what it should have been.
fn read_text<'de, D, T>(
    deserializer: D,
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    struct Text<T> {
        expected: &'static str,
        parse: fn(&str) -> Option<T>,
    }

    impl<T> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            // serde's own message for a wrong value would repeat the value.
            (self.parse)(text).ok_or_else(|| E::custom(format_args!("expected {}", self.expected)))
        }
    }

    deserializer
        .deserialize_str(Text { expected, parse })
        .map_err(value::expected(expected))
}

impl FieldValue for NaiveDate {
    const KIND: FieldKind = FieldKind::Date;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_text(deserializer, "a date YYYY-MM-DD", parse_date)
    }

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        lexer.date()?.to_chrono()
    }
}

impl FieldValue for DateTime<Utc> {
    const KIND: FieldKind = FieldKind::Timestamp;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_text(deserializer, "an RFC 3339 timestamp", parse_timestamp)
    }

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        lexer.timestamp()?.to_chrono()
    }
}

impl FieldValue for bool {
    const KIND: FieldKind = FieldKind::Boolean;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer).map_err(expected("a boolean"))
    }

    #[inline]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        lexer.boolean()
    }
}

impl FieldValue for Decimal {
    const KIND: FieldKind = FieldKind::Decimal;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    #[inline(always)]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        lexer.decimal()
    }
}

impl<T: WireText> FieldValue for T {
    const KIND: FieldKind = match (T::OPEN_SET, T::IS_IDENTIFIER) {
        (Some(name), _) => FieldKind::OpenSet(name),
        (None, true) => FieldKind::Identifier,
        (None, false) => FieldKind::Text,
    };

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde's own message for a wrong value would repeat the value.
        T::deserialize(deserializer).map_err(expected("a string"))
    }

    #[inline(always)]
    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        match lexer.plain() {
            Some(text) => Ok(text.into()),
            None => Ok(lexer.string()?.into_cow().into_owned().into()),
        }
    }
}

impl FieldValue for BTreeMap<String, String> {
    const KIND: FieldKind = FieldKind::Strings;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = BTreeMap<String, String>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = BTreeMap::new();
                while let Some(Name(name)) = entries.next_key()? {
                    map.insert(
                        name.into_owned(),
                        entries.next_value_seed(Required::seed())?,
                    );
                }
                Ok(map)
            }
        }

        deserializer
            .deserialize_map(Entries)
            .map_err(expected("a map"))
    }

    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        let mut map = BTreeMap::new();
        let mut more = lexer.object()?;
        while more {
            let name = lexer.name()?;
            map.insert(name.into_owned(), String::lex(lexer)?);
            more = lexer.field()?;
        }
        Ok(map)
    }
}

/// A free-form object, kept as its exact text.
impl FieldValue for Json {
    const KIND: FieldKind = FieldKind::Object;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <Json as Deserialize>::deserialize(deserializer).and_then(|json| {
            if json.is_object() {
                Ok(json)
            } else {
                Err(de::Error::custom("expected an object"))
            }
        })
    }

    fn lex(lexer: &mut Lexer<'_>) -> Lexed<Self> {
        match lexer.peek() {
            b'{' => Ok(Json::from_raw(lexer.raw()?)),
            _ => Err(Refused),
        }
    }
}
