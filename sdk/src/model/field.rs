//! How one field of a response is decoded from JSON and written back.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{
    contract::schema::FieldKind,
    json::{
        decode_error::Step,
        lexer::{Lexed, Lexer, Refused},
        unreadable::UnreadableField,
    },
    value::{Decimal, Json, WireText, expected, parse_date, parse_timestamp, read_integer},
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

    /// Adds the fields at any depth that could not be read, each with the path that leads to it.
    fn add_unreadable<'a>(&'a self, _: &mut Vec<Step<'a>>, _: &mut Vec<UnreadableField>) {}

    /// Whether there is no value to write: an optional field is then omitted.
    fn is_none(&self) -> bool {
        false
    }
}

/// A field that must be present and must not be null, as serde decodes it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Required<T>(pub(super) T);

/// A field that may be null, as serde decodes it: the type's default then stands for an absent value.
pub(super) struct Lenient<T>(pub(super) T);

impl<'de, T: FieldValue> Deserialize<'de> for Required<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Self)
    }
}

impl<'de, T: FieldValue + Default> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<Required<T>>::deserialize(deserializer);
        let value = value.map_err(expected("a value or null"))?;
        Ok(Self(value.map(|Required(value)| value).unwrap_or_default()))
    }
}

/// [`Lenient`] with the lexer. A value that could not be read, and was set aside, is kept among the undocumented fields.
#[inline(always)]
pub(super) fn lex_lenient<T: FieldValue + Default>(
    lexer: &mut Lexer<'_>,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> Lexed<T> {
    if lexer.peek() == b'n' {
        if let Some(json) = lexer.absent()? {
            extra.insert(wire.to_owned(), Json::from_raw(json));
        }
        Ok(T::default())
    } else {
        T::lex(lexer)
    }
}

/// Does the same without being inlined: where it is rarely needed, its code need not be repeated for each field.
#[inline(never)]
pub(super) fn lex_lenient_apart<T: FieldValue + Default>(
    lexer: &mut Lexer<'_>,
    wire: &'static str,
    extra: &mut BTreeMap<String, Json>,
) -> Lexed<T> {
    lex_lenient(lexer, wire, extra)
}

/// Calls a reader without inlining it.
#[inline(never)]
pub(super) fn lex_apart<T: FieldValue>(lexer: &mut Lexer<'_>) -> Lexed<T> {
    T::lex(lexer)
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

    fn add_unreadable<'a>(&'a self, path: &mut Vec<Step<'a>>, found: &mut Vec<UnreadableField>) {
        if let Some(value) = self {
            value.add_unreadable(path, found);
        }
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
        let items = Vec::<Required<T>>::deserialize(deserializer).map_err(expected("an array"))?;
        Ok(items.into_iter().map(|Required(item)| item).collect())
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

    fn add_unreadable<'a>(&'a self, path: &mut Vec<Step<'a>>, found: &mut Vec<UnreadableField>) {
        for (index, item) in self.iter().enumerate() {
            path.push(Step::Item(index));
            item.add_unreadable(path, found);
            path.pop();
        }
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

/// Decodes a string with `parse`; `what` says what it should have been.
fn read_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    what: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer).map_err(expected(what))?;
    parse(&text).ok_or_else(|| D::Error::custom(format_args!("expected {what}")))
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
            None => Ok(lexer.string()?.into_owned().into()),
        }
    }
}

impl FieldValue for BTreeMap<String, String> {
    const KIND: FieldKind = FieldKind::Strings;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<Required<String>, Required<String>>::deserialize(deserializer)
            .map_err(expected("a map"))?;
        let plain = |(Required(name), Required(value))| (name, value);
        Ok(entries.into_iter().map(plain).collect())
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
                Err(D::Error::custom("expected an object"))
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
