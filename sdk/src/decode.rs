//! Reading a JSON document into a type, with an error that says where and why it failed.

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
    document, names,
    value::{Kind, Name},
};

/// A document could not be read as what it should be.
///
/// It names the path of the offending value, what was expected there and the kind of JSON value that
/// was found, and keeps the whole document. Neither `Display` nor `Debug` shows a value, or a name that is
/// data: of a member that is not one of the specification's they show the position.
///
/// ```
/// use dealkit::Deal;
///
/// let error = Deal::from_json(r#"{"id": "d_1", "application": {"offers": [{"expiry_date_time": "soon"}]}}"#).unwrap_err();
/// assert_eq!(error.path(), "application.offers[0].expiry_date_time");
/// assert_eq!(error.pointer(), "/application/offers/0/expiry_date_time");
/// assert_eq!(error.found(), "a string");
/// assert_eq!(
///     error.to_string(),
///     "at application.offers[0].expiry_date_time: expected an RFC 3339 timestamp, found a string",
/// );
///
/// let error = Deal::from_json(r#"{"id": "d_1", "metadata": {"source": "import", "ada@example.com": 1}}"#).unwrap_err();
/// assert_eq!(error.path(), "metadata[entry 2]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    pointer: String,
    reason: Reason,
    body: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// The document ends or breaks before it is JSON; the text is the parser's and holds no value.
    NotJson(String),
    Missing,
    Unexpected {
        expected: String,
        found: Option<Kind>,
    },
    TooManyValues,
    /// What came is no response that can be read, whatever its body holds; the text says why.
    #[cfg(feature = "client")]
    Response(String),
}

impl DecodeError {
    pub(crate) fn too_many_values(body: &[u8]) -> Self {
        Self::of_all(Reason::TooManyValues, body)
    }

    /// The error of a response that cannot be read, whatever its body holds.
    #[cfg(feature = "client")]
    pub(crate) fn response(reason: String, body: &[u8]) -> Self {
        Self::of_all(Reason::Response(reason), body)
    }

    fn of_all(reason: Reason, body: &[u8]) -> Self {
        Self {
            path: String::new(),
            pointer: String::new(),
            reason,
            body: body.into(),
        }
    }

    /// Where the offending value stands, such as `application.offers[2].expiry_date_time`; empty for
    /// the document itself. A member that is not one of the specification's, such as one of `metadata`, is
    /// named by its position in its object, counted from 1: `metadata[entry 3]`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same place as a JSON pointer (RFC 6901), such as `/application/offers/2/expiry_date_time`.
    ///
    /// It is exact, and so it can hold names from the document, which may be personal; like
    /// [`body`](Self::body) it belongs into no log.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// What stands at the path: `null`, `a boolean`, `a number`, `a string`, `an array`, `an object`,
    /// `nothing` for a missing member, `not JSON`, or `too many values`. Of a member that stands twice in its object it is the last
    /// one's kind, and `something else` where that cannot be told.
    pub fn found(&self) -> &'static str {
        match &self.reason {
            Reason::NotJson(_) => "not JSON",
            Reason::Missing => "nothing",
            Reason::TooManyValues => "too many values",
            #[cfg(feature = "client")]
            Reason::Response(_) => "something else",
            Reason::Unexpected { found, .. } => found.map_or("something else", Kind::name),
        }
    }

    /// The whole document, as it came.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Takes the service key out of the pointer: its names are the sender's.
    #[cfg(feature = "client")]
    pub(crate) fn mask(&mut self, mask: impl Fn(&str) -> String) {
        self.pointer = mask(&self.pointer);
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at {}: ", self.path)?;
        }
        match &self.reason {
            Reason::NotJson(_) if self.body.is_empty() => {
                f.write_str("expected JSON, found an empty body")
            }
            Reason::NotJson(reason) => write!(f, "expected JSON, found something else ({reason})"),
            Reason::Missing => f.write_str("a required member is missing"),
            Reason::TooManyValues => write!(
                f,
                "expected at most {} values in the document, found more",
                document::MAX_VALUES
            ),
            #[cfg(feature = "client")]
            Reason::Response(reason) => f.write_str(reason),
            Reason::Unexpected { expected, .. } => {
                write!(f, "expected {expected}, found {}", self.found())
            }
        }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError")
            .field("path", &self.path)
            .field("reason", &self.reason)
            .field("body", &format_args!("<{} bytes>", self.body.len()))
            .finish()
    }
}

impl std::error::Error for DecodeError {}

/// The document without a byte order mark, which RFC 8259 allows a reader to skip.
pub(crate) fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// Reads one JSON document.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    document::check_size(body)?;
    let json = without_bom(body);
    // Tracking the path costs time, so it is done only once reading has failed.
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
        // Only what follows the value is wrong, so the document as a whole is.
        Ok(_) => Vec::new(),
    };
    let mut place = Place::find(json, &segments);
    // serde_json hands over raw text as a member of a name of its own, which is in no document.
    if let Some(Step::Member(name)) = segments.last()
        && name.starts_with("$serde_json::")
        && place.kind.is_none()
    {
        segments.pop();
        place = Place::find(json, &segments);
    }
    // A value may be wrong before the place where the text breaks: that is no JSON all the same.
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
        // serde_json says no more of a number beyond a binary float that stands where no number can.
        Category::Syntax if found == Some(Kind::Number) => Reason::Unexpected {
            expected: "another value".to_owned(),
            found,
        },
        Category::Io | Category::Syntax | Category::Eof => Reason::NotJson(error.to_string()),
    };
    DecodeError {
        path: path(&segments, &place.positions),
        pointer: pointer(&segments),
        reason,
        body: body.into(),
    }
}

/// One step from a value to a value inside it.
enum Step {
    Member(String),
    Item(usize),
    /// A member that is not there; the name is the reading type's.
    Missing(String),
}

impl Step {
    fn of(segment: &Segment) -> Option<Self> {
        match segment {
            Segment::Seq { index } => Some(Step::Item(*index)),
            Segment::Map { key } => Some(Step::Member(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        }
    }
}

enum Told {
    Missing(String),
    Expected(String),
}

/// What serde's message says was expected.
///
/// The message as a whole must not be shown: it repeats the value that was found. What a visitor
/// expected stands last in it, so no value can be mistaken for it.
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

/// What is found on the way to a value, in one pass over the document and without a copy of it.
#[derive(Default)]
struct Place {
    /// What stands at the end of the way.
    kind: Option<Kind>,
    /// Step by step, the position in the array or object, from 1.
    positions: Vec<usize>,
}

impl Place {
    /// Follows the steps; of equal names the last counts. A document that breaks is followed to the break.
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
    /// What is left of the way.
    steps: &'s [Step],
    level: usize,
    place: &'s mut Place,
}

impl Walk<'_> {
    /// The rest of the way, from the value at this position.
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
            // What is null before the last of equal names leads nowhere, and is no reason to stop.
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

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let [Step::Member(wanted), rest @ ..] = self.steps else {
            return Err(A::Error::custom("no object was expected"));
        };
        let mut position = 0;
        while let Some(Name(name)) = members.next_key()? {
            position += 1;
            if name == wanted.as_str() {
                members.next_value_seed(Self::into(self.place, self.level, position, rest))?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// `application.offers[2].expiry_date_time`, and `metadata[entry 3]` where the name is data.
fn path(steps: &[Step], positions: &[usize]) -> String {
    let mut path = String::new();
    for (level, step) in steps.iter().enumerate() {
        match (step, positions.get(level)) {
            (Step::Item(index), _) => path.push_str(&format!("[{index}]")),
            (Step::Missing(name), _) => push_name(&mut path, name),
            (Step::Member(name), _) if names::is_known(name) => push_name(&mut path, name),
            (Step::Member(_), Some(position)) => path.push_str(&format!("[entry {position}]")),
            (Step::Member(_), None) => path.push_str("[entry]"),
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

fn pointer(segments: &[Step]) -> String {
    segments
        .iter()
        .map(|segment| match segment {
            Step::Item(index) => format!("/{index}"),
            Step::Member(name) | Step::Missing(name) => {
                format!("/{}", crate::validate::pointer_token(name))
            }
        })
        .collect()
}
