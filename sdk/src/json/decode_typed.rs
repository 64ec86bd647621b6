//! Decoding a JSON document into a type of the caller's, which only serde knows, with an error that says where and why it
//! failed.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

use crate::{
    json::{
        decode_error::{DecodeError, Expected, Reason, Step},
        document::{self, without_bom},
        explain,
        lexer::Lexer,
    },
    value::{JsonKind, serde_errors},
};

/// Decodes one JSON document into a type of the caller's.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    document::check_size(body)?;
    let json = without_bom(body);
    // Tracking the path costs time, so it is done only once decoding has failed.
    serde_json::from_slice(json).map_err(|error| explained::<T>(json, &error, body))
}

/// The error of a document that serde has refused.
fn explained<T: DeserializeOwned>(
    json: &[u8],
    error: &serde_json::Error,
    body: &[u8],
) -> DecodeError {
    if let Err(error) = serde_json::from_slice::<&RawValue>(json) {
        return DecodeError::of_all(explain::broken(&error), body);
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut path: Vec<Step<'_>> = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(located) => located.path().iter().filter_map(step).collect(),
        Ok(_) => Vec::new(),
    };
    path.pop_if(|last| matches!(last, Step::Field(name, _) if serde_errors::is_private(name)));
    let found = locate(json, &mut path);
    let reason = if error.is_data() {
        match serde_errors::missing_field(&error.to_string()) {
            Some(name) => {
                path.push(Step::Missing(name.to_owned().into()));
                Reason::Missing
            }
            None => Reason::Unexpected {
                expected: Expected::Other(serde_errors::what_was_expected(error)),
                found,
            },
        }
    } else if found == Some(JsonKind::Number) {
        // For a number beyond the range of a binary float where no number is allowed, serde_json says nothing more.
        Reason::Unexpected {
            expected: Expected::Other("another value".to_owned()),
            found,
        }
    } else {
        explain::broken(error)
    };
    DecodeError::new(&path, reason, body)
}

fn step(segment: &Segment) -> Option<Step<'static>> {
    match segment {
        Segment::Seq { index } => Some(Step::Item(*index)),
        Segment::Map { key } => Some(Step::Field(key.clone().into(), None)),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// The kind of the value that a path leads to, of equal names the last; the positions of its fields go into the path.
fn locate(json: &[u8], path: &mut [Step<'_>]) -> Option<JsonKind> {
    let mut value = str::from_utf8(json).ok()?;
    for step in path {
        let mut lexer = Lexer::new(value);
        let mut next = None;
        match step {
            Step::Field(wanted, position) => {
                let mut count = 0;
                let mut more = lexer.object().ok()?;
                while more {
                    count += 1;
                    let name = lexer.name().ok()?;
                    let inner = lexer.raw().ok()?;
                    if name == *wanted {
                        *position = Some(count);
                        next = Some(inner.get());
                    }
                    more = lexer.field().ok()?;
                }
            }
            Step::Item(wanted) => {
                let mut more = lexer.array().ok()?;
                for index in 0.. {
                    if !more || next.is_some() {
                        break;
                    }
                    let inner = lexer.raw().ok()?;
                    next = (index == *wanted).then(|| inner.get());
                    more = lexer.item().ok()?;
                }
            }
            Step::Missing(_) => {}
        }
        value = next?;
    }
    Some(JsonKind::of(value))
}
