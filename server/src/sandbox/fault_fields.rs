//! The fields of a fault, and how they are read: from JSON (over HTTP, and from Python), and from the header
//! `x-sandbox-fault`.

use std::collections::BTreeMap;

use dealkit::Json;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// The fields of a fault, as JSON has them. Whether they make sense together, [`Fault::check`] says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct FaultFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "retry_after"
    )]
    pub(super) retry_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<FaultBody>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cut: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) how: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "flag")]
    pub(super) garbage: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "flag")]
    pub(super) act_then_reset: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    pub(super) times: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
}

/// The fault is invalid. The message says which of its fields is wrong and why, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFault(pub(super) String);

/// The fields of a fault that say what happens, and what is expected of each.
const EFFECTS: [(&str, &str); 8] = [
    ("status", "a status from 200 to 599"),
    (
        "retry_after",
        "a number of seconds, or text that is sent as it is",
    ),
    (
        "body",
        "a string, or an object or array, which is sent as JSON",
    ),
    ("delay", "a number of seconds from 0 to 3600"),
    ("cut", "before-head, in-head or after-bytes:N"),
    ("how", "reset, eof or stall"),
    ("garbage", "true or false"),
    ("act_then_reset", "true or false"),
];

/// The same for those that say which requests it happens to.
const MATCHING: [(&str, &str); 6] = [
    ("method", "a method, such as POST"),
    ("path", "a path, such as /v1/deals/{id}"),
    ("after", "a whole number, 0 or more"),
    ("times", "a whole number, 1 or more, or null for no limit"),
    ("probability", "a number from 0 to 1"),
    ("seed", "a whole number, 0 or more"),
];

/// The message about a field that is wrong.
pub(super) fn expected(name: &str, what: &str) -> InvalidFault {
    InvalidFault(format!("{name}: expected {what}"))
}

impl FaultFields {
    pub(super) fn from_json(text: &str) -> Result<Self, InvalidFault> {
        let fields: BTreeMap<String, Json> = serde_json::from_str(text)
            .map_err(|_| InvalidFault("expected a fault, as a JSON object".into()))?;
        Self::read(&fields)
    }

    /// Reads the header `x-sandbox-fault`: the fields of the JSON that say what happens, as `name=value`, with
    /// semicolons between them. `garbage` and `act_then_reset` need no value.
    pub(super) fn from_header(value: &[u8]) -> Result<Self, InvalidFault> {
        let malformed = || {
            InvalidFault(format!(
                "expected name=value pairs separated by semicolons, such as status=503; retry_after=1; \
                 the names are {}",
                names(&EFFECTS)
            ))
        };
        let text = std::str::from_utf8(value).map_err(|_| malformed())?;
        let mut fields = BTreeMap::new();
        for pair in text.split(';') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
            let (name, value) = (name.trim(), value.trim());
            if !EFFECTS.iter().any(|(known, _)| *known == name) {
                return Err(malformed());
            }
            // A body is text, whatever it looks like.
            let value = match name {
                "body" => value.into(),
                _ => Json::parse(value).unwrap_or_else(|_| value.into()),
            };
            fields.insert(name, value);
        }
        Self::read(&fields)
    }

    /// Reads each field by itself first, to know which one is wrong.
    fn read<N: AsRef<str> + Ord + Serialize>(
        fields: &BTreeMap<N, Json>,
    ) -> Result<Self, InvalidFault> {
        for (name, value) in fields {
            let mut known = EFFECTS.iter().chain(&MATCHING);
            let Some((name, what)) = known.find(|(known, _)| *known == name.as_ref()) else {
                return Err(InvalidFault(format!(
                    "unknown field: expected {} or {}",
                    names(&EFFECTS),
                    names(&MATCHING)
                )));
            };
            fields_of(&BTreeMap::from([(name, value)])).ok_or_else(|| expected(name, what))?;
        }
        fields_of(fields).ok_or_else(|| InvalidFault("expected a fault, as a JSON object".into()))
    }
}

fn fields_of(json: &impl Serialize) -> Option<FaultFields> {
    serde_json::from_str(&serde_json::to_string(json).ok()?).ok()
}

fn names(fields: &[(&str, &str)]) -> String {
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// How often a fault happens: once unless it says otherwise, and without end for null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Times(pub(super) Option<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Some(1))
    }
}

/// The body of a response that a fault makes up: JSON as it was given, digit for digit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FaultBody {
    Text(String),
    Json(Json),
}

impl FaultBody {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Json(json) => json.as_str(),
        }
    }
}

impl Serialize for FaultBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Json(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FaultBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        match json.as_str().as_bytes().first() {
            Some(b'"') => json.deserialize().map(Self::Text).map_err(D::Error::custom),
            Some(b'{' | b'[') => Ok(Self::Json(json)),
            _ => Err(D::Error::custom("neither text nor an object or array")),
        }
    }
}

/// A text, or a number, which is sent with the digits that it came with.
fn retry_after<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Some(json) = Option::<Json>::deserialize(from)? else {
        return Ok(None);
    };
    if json.deserialize::<serde_json::Number>().is_ok() {
        return Ok(Some(json.as_str().to_owned()));
    }
    json.deserialize().map(Some).map_err(D::Error::custom)
}

/// False means the same as a missing field.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(Option::<bool>::deserialize(from)?.filter(|flag| *flag))
}
