//! Recognition of serde_json's serializers and deserializers behind serde's generic ones.
//!
//! Only serde_json can pass on the digits of a number, as a [`RawValue`]. Any other format would get a wrong number or a marker
//! that is private to serde_json, and serde has no method that names the format. This module therefore compares types, by their
//! identity (`TypeId`), and uses serde_json's documented behaviour: the types of its errors, the associated types of its
//! serializers, and the request that a `RawValue` makes. It does not compare the names of types, because the compiler may
//! change them at any time.
//!
//! If a new version of serde_json behaves in another way, nothing is recognized, and numbers are treated as in other formats:
//! written as strings, or rejected if they might have been rounded. No digit is lost. `sdk/tests/offline/formats.rs` tests each
//! case.

use std::{any::TypeId, cell::Cell, fmt, iter, mem::size_of, sync::LazyLock};

use serde::{
    Deserialize, Deserializer, Serializer,
    de::{
        self, DeserializeSeed, MapAccess, Visitor,
        value::{MapAccessDeserializer, MapDeserializer},
    },
    forward_to_deserialize_any,
    ser::Impossible,
};
use serde_json::{
    Value,
    de::{SliceRead, StrRead},
    value::RawValue,
};

/// The target of serialization.
#[derive(PartialEq, Eq)]
pub(super) enum Target {
    /// JSON text, which takes the text of a number or a value unchanged.
    Text,
    /// A `serde_json::Value`.
    Value,
    /// Another format, or a buffer that hides the format.
    Other,
}

impl Target {
    /// Recognizes the serializer `S`.
    ///
    /// The serializer of text has any writer and formatter as its parameters, and therefore no single type. It is recognized by
    /// its associated types: its error is serde_json's, it returns nothing, and it writes all compound values with one type.
    /// The serializer of map keys has `Impossible` for that type. Serde's buffers for `flatten` and tags have several types for
    /// compound values.
    pub(super) fn for_serializer<S: Serializer>() -> Self {
        let compound = typeid::of::<S::SerializeSeq>();
        let has_one_compound = [
            typeid::of::<S::SerializeTuple>(),
            typeid::of::<S::SerializeTupleStruct>(),
            typeid::of::<S::SerializeTupleVariant>(),
            typeid::of::<S::SerializeMap>(),
            typeid::of::<S::SerializeStruct>(),
            typeid::of::<S::SerializeStructVariant>(),
        ] == [compound; 6];
        if typeid::of::<S>() == TypeId::of::<serde_json::value::Serializer>() {
            Target::Value
        } else if is_serde_json_error::<S::Error>()
            && typeid::of::<S::Ok>() == TypeId::of::<()>()
            && has_one_compound
            && compound != typeid::of::<Impossible<S::Ok, S::Error>>()
            // A serializer of another crate may use itself for compound values, which serde_json's does not.
            && compound != typeid::of::<S>()
        {
            Target::Text
        } else {
            Target::Other
        }
    }
}

fn is_serde_json_error<E>() -> bool {
    typeid::of::<E>() == TypeId::of::<serde_json::Error>()
}

/// The input of a deserialization: its raw JSON text if serde_json provides it, or else a parsed value.
pub(super) enum Source {
    /// The text of a JSON document.
    Text(Box<RawValue>),
    /// Text that came through another crate's deserializer: a JSON document, a serialized `Value`, or a map key.
    TextOrValue(Box<RawValue>),
    /// Another format, a `Value`, or a buffer of serde.
    Value(Value),
}

impl Source {
    /// Recognizes a deserializer, and reads its content.
    ///
    /// The deserializers of strings and slices are recognized by their types. Two other kinds have no known type, but
    /// serde_json's error: the deserializer of a reader, whose parameter is the reader, and a wrapper of another crate, such as
    /// serde_path_to_error's. These kinds get the request that a `RawValue` makes. If the text in the response is borrowed, it
    /// is from a document in memory: a `Value` would first have to write its text. If the text is owned, it is from a reader if
    /// the deserializer is a mere pointer; otherwise it may be from a `Value` within a wrapper.
    pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let deserializer_type = typeid::of::<D>();
        if deserializer_type == typeid::of::<&mut serde_json::Deserializer<StrRead<'_>>>()
            || deserializer_type == typeid::of::<&mut serde_json::Deserializer<SliceRead<'_>>>()
        {
            return Box::<RawValue>::deserialize(deserializer).map(Self::Text);
        }
        let is_value = deserializer_type == TypeId::of::<Value>()
            || deserializer_type == typeid::of::<&Value>();
        match *RAW_VALUE_NAME {
            Some(name) if is_serde_json_error::<D::Error>() && !is_value => {
                let raw = deserializer.deserialize_newtype_struct(name, RawVisitor(name))?;
                raw.into_source(size_of::<D>() == size_of::<&()>())
            }
            _ => Value::deserialize(deserializer).map(Self::Value),
        }
    }
}

/// The name that a `RawValue` passes to the deserializer, and which serde_json's deserializers of text recognize. The name is
/// private to serde_json, and is therefore learned from a `RawValue`.
static RAW_VALUE_NAME: LazyLock<Option<&'static str>> = LazyLock::new(|| {
    let name = Cell::new(None);
    // It always fails, because there is no content.
    let _ = Box::<RawValue>::deserialize(NameRecorder(&name));
    name.get()
});

/// A deserializer without content that records the name of a newtype.
struct NameRecorder<'n>(&'n Cell<Option<&'static str>>);

impl<'de> Deserializer<'de> for NameRecorder<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("there is no content"))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.set(Some(name));
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The content that a deserializer returns for the request of a `RawValue`.
enum RawContent {
    Borrowed(String),
    Owned(String),
    Value(Value),
}

impl RawContent {
    fn into_source<E: de::Error>(self, is_pointer: bool) -> Result<Source, E> {
        let make_raw = |text: String| {
            let name = (*RAW_VALUE_NAME).unwrap_or_default();
            let members = MapDeserializer::<_, serde_json::Error>::new(iter::once((name, text)));
            Box::<RawValue>::deserialize(MapAccessDeserializer::new(members)).map_err(E::custom)
        };
        match self {
            Self::Borrowed(text) => make_raw(text).map(Source::TextOrValue),
            Self::Owned(text) if is_pointer => make_raw(text).map(Source::TextOrValue),
            Self::Owned(text) => {
                let value: Value = serde_json::from_str(&text).map_err(E::custom)?;
                // A `Value` always writes its text in this form, so a text in another form does not come from a `Value`.
                if serde_json::to_string(&value).is_ok_and(|canonical| canonical == text) {
                    Ok(Source::Value(value))
                } else {
                    make_raw(text).map(Source::TextOrValue)
                }
            }
            Self::Value(value) => Ok(Source::Value(value)),
        }
    }
}

/// Accepts the response to the request of a `RawValue`, or the content of a deserializer that does not know the request.
struct RawVisitor(&'static str);

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<RawContent, D::Error> {
        Value::deserialize(deserializer).map(RawContent::Value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawContent, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Ok(RawContent::Value(Value::Object(Default::default())));
        };
        if key == self.0 {
            return map.next_value_seed(TextSeed);
        }
        let mut object = serde_json::Map::new();
        object.insert(key, map.next_value()?);
        while let Some((key, value)) = map.next_entry()? {
            object.insert(key, value);
        }
        Ok(RawContent::Value(Value::Object(object)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RawContent, E> {
        Ok(RawContent::Value(Value::from(text)))
    }
}

/// Accepts a text, and distinguishes a borrowed from an owned one.
struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = RawContent;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawContent, D::Error> {
        deserializer.deserialize_string(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = RawContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a JSON value")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<RawContent, E> {
        Ok(RawContent::Borrowed(text.to_owned()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RawContent, E> {
        Ok(RawContent::Owned(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<RawContent, E> {
        Ok(RawContent::Owned(text))
    }
}
