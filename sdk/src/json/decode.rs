//! Decoding a JSON document into a type, with an error that says where and why it failed.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
    },
};
use serde_json::{error::Category, value::RawValue};
use serde_path_to_error::Segment;

use crate::{
    contract::names::{self, pointer_token},
    json::{
        decode_error::{DecodeError, Reason},
        document,
        lexer::{Lexed, Lexer, Refused},
    },
    value::{Kind, Name},
};

/// The document without a byte order mark, which RFC 8259 allows a reader to skip.
pub(crate) fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// Decodes one JSON document, with the type's reader over the lexer if that accepts it.
///
/// If the lexer refuses it, serde decodes it again: serde alone decides whether anything is wrong, and what.
pub(crate) fn read<T: DeserializeOwned>(
    body: &[u8],
    lex: fn(&mut Lexer<'_>) -> Lexed<T>,
) -> Result<T, DecodeError> {
    document::check_size(body)?;
    lexed(without_bom(body), lex).or_else(|Refused| by_serde(body))
}

fn lexed<T>(json: &[u8], lex: fn(&mut Lexer<'_>) -> Lexed<T>) -> Lexed<T> {
    let mut lexer = Lexer::new(str::from_utf8(json).map_err(|_| Refused)?);
    let value = lex(&mut lexer)?;
    lexer.end()?;
    Ok(value)
}

/// Decodes one JSON document into any type with serde.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    document::check_size(body)?;
    by_serde(body)
}

fn by_serde<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    let json = without_bom(body);
    // Tracking the path costs time, so it is done only once decoding has failed.
    serde_json::from_slice(json).map_err(|error| explain::<T>(json, &error, body))
}

fn explain<T: DeserializeOwned>(
    json: &[u8],
    error: &serde_json::Error,
    body: &[u8],
) -> DecodeError {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut segments: Vec<Step> = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(located) => located.path().iter().filter_map(Step::of).collect(),
        // Only the text after the value is wrong, so the error is that of the whole document.
        Ok(_) => Vec::new(),
    };
    let mut place = Place::find(json, &segments);
    // serde_json passes raw text as a field with a name of its own, which is not in any document.
    if let Some(Step::Field(name)) = segments.last()
        && name.starts_with("$serde_json::")
        && place.kind.is_none()
    {
        segments.pop();
        place = Place::find(json, &segments);
    }
    // A value may be wrong before the point where the text breaks: the document is still not JSON.
    let broken = serde_json::from_slice::<&RawValue>(json).err();
    if broken.is_some() && error.is_data() {
        segments.clear();
    }
    let found = place.kind.filter(|_| broken.is_none());
    let error = broken.as_ref().unwrap_or(error);
    let reason = match error.classify() {
        Category::Data => match reason_of(&error.to_string()) {
            Told::Missing(name) => {
                segments.push(Step::Missing(name));
                Reason::Missing
            }
            Told::Expected(expected) => Reason::Unexpected { expected, found },
        },
        // For a number beyond the range of a binary float where no number is allowed, serde_json says nothing more.
        Category::Syntax if found == Some(Kind::Number) => Reason::Unexpected {
            expected: "another value".to_owned(),
            found,
        },
        Category::Eof => Reason::EndsEarly {
            line: error.line(),
            column: error.column(),
        },
        Category::Io | Category::Syntax => Reason::NotJson(error.to_string()),
    };
    DecodeError {
        path: path(&segments, &place.positions),
        pointer: pointer(&segments),
        reason,
        body: body.into(),
    }
}

/// One step from a value to a value within it.
pub(crate) enum Step {
    Field(String),
    Item(usize),
    /// A field that is missing; its name is that of the type being decoded.
    Missing(String),
}

impl Step {
    fn of(segment: &Segment) -> Option<Self> {
        match segment {
            Segment::Seq { index } => Some(Step::Item(*index)),
            Segment::Map { key } => Some(Step::Field(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        }
    }
}

enum Told {
    Missing(String),
    Expected(String),
}

/// Extracts from serde's message what was expected.
///
/// The whole message must not be shown: it repeats the value that was found. What a visitor
/// expected comes last in it, so no value can be mistaken for it.
fn reason_of(message: &str) -> Told {
    let message = message
        .rsplit_once(" at line ")
        .map_or(message, |(reason, _)| reason);
    if let Some(name) = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        return Told::Missing(name.to_owned());
    }
    let expected = message
        .strip_prefix("expected ")
        .or_else(|| {
            message
                .rsplit_once(", expected ")
                .map(|(_, expected)| expected)
        })
        .unwrap_or("another value");
    Told::Expected(expected.to_owned())
}

/// What is found along a path to a value, in one pass over the document and without copying it.
#[derive(Default)]
struct Place {
    /// The kind of the value at the end of the path.
    kind: Option<Kind>,
    /// For each step, the position in the array or object, counted from 1.
    positions: Vec<usize>,
}

impl Place {
    /// Follows the steps; of equal names the last counts. A malformed document is followed up to the error.
    fn find(json: &[u8], steps: &[Step]) -> Self {
        let mut place = Self::default();
        let walk = Walk {
            steps,
            level: 0,
            place: &mut place,
        };
        if walk
            .deserialize(&mut serde_json::Deserializer::from_slice(json))
            .is_err()
        {
            place.kind = None;
        }
        place
    }
}

struct Walk<'s> {
    /// The remaining steps.
    steps: &'s [Step],
    level: usize,
    place: &'s mut Place,
}

impl Walk<'_> {
    /// The remaining steps, from the value at this position.
    fn into<'s>(
        place: &'s mut Place,
        level: usize,
        position: usize,
        steps: &'s [Step],
    ) -> Walk<'s> {
        place.kind = None;
        place.positions.truncate(level);
        place.positions.push(position);
        Walk {
            steps,
            level: level + 1,
            place,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.steps {
            [] => {
                let value = <&RawValue>::deserialize(deserializer)?;
                self.place.kind = Some(Kind::of(value.get()));
                Ok(())
            }
            // A null before the last of several equal names leads nowhere, but is no reason to stop.
            _ => deserializer.deserialize_option(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.steps {
            [Step::Item(_), ..] => deserializer.deserialize_seq(self),
            _ => deserializer.deserialize_map(self),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let [Step::Item(wanted), rest @ ..] = self.steps else {
            return Err(A::Error::custom("no array was expected"));
        };
        for index in 0.. {
            let next = if index == *wanted {
                let walk = Self::into(self.place, self.level, index + 1, rest);
                items.next_element_seed(walk)?.is_some()
            } else {
                items.next_element::<IgnoredAny>()?.is_some()
            };
            if !next {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let [Step::Field(wanted), rest @ ..] = self.steps else {
            return Err(A::Error::custom("no object was expected"));
        };
        let mut position = 0;
        while let Some(Name(name)) = fields.next_key()? {
            position += 1;
            if name == wanted.as_str() {
                fields.next_value_seed(Self::into(self.place, self.level, position, rest))?;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// For example `application.offers[2].expiry_date_time`, or `metadata[entry 3]` if the name is data.
pub(crate) fn path(steps: &[Step], positions: &[usize]) -> String {
    let mut path = String::new();
    for (level, step) in steps.iter().enumerate() {
        match (step, positions.get(level)) {
            (Step::Item(index), _) => path.push_str(&format!("[{index}]")),
            (Step::Missing(name), _) => push_name(&mut path, name),
            (Step::Field(name), _) if names::is_known(name) => push_name(&mut path, name),
            (Step::Field(_), Some(position)) => path.push_str(&format!("[entry {position}]")),
            (Step::Field(_), None) => path.push_str("[entry]"),
        }
    }
    path
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// The same path as a JSON pointer.
pub(crate) fn pointer(segments: &[Step]) -> String {
    segments
        .iter()
        .map(|segment| match segment {
            Step::Item(index) => format!("/{index}"),
            Step::Field(name) | Step::Missing(name) => {
                format!("/{}", pointer_token(name))
            }
        })
        .collect()
}
