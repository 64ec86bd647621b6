//! Faults as texts: JSON (over HTTP, and from Python), and the header `x-sandbox-fault`.

use std::{collections::BTreeMap, time::Duration};

use dealkit::Json;
use serde::ser::{Error as _, Serialize, SerializeMap};
use serde_json::{Value, value::RawValue};

use crate::sandbox::fault::{Cut, Fault, FaultBody, How, InvalidFault, Play, Times};

/// The header that makes a fault happen to the request that carries it: `status=503; retry_after=1`.
pub(crate) const FAULT_HEADER: &str = "x-sandbox-fault";

/// The fields of a fault that say what happens.
const EFFECTS: &[&str] = &[
    "status",
    "retry_after",
    "body",
    "delay",
    "cut",
    "how",
    "garbage",
    "act_then_reset",
];

/// The fields of a fault that say which requests it happens to.
const MATCHING: &[&str] = &["method", "path", "after", "times", "probability", "seed"];

impl Fault {
    /// Reads a fault from JSON, an object:
    ///
    /// | field | what it says |
    /// |---|---|
    /// | `status` | a response with this status, 200 to 599 |
    /// | `retry_after` | its `Retry-After`: a number of seconds, or any text |
    /// | `body` | its body: a string, or an object or array, which is sent as JSON |
    /// | `delay` | seconds, at most 3600; by itself or with one of the others |
    /// | `cut` | `"before-head"`, `"in-head"` or `"after-bytes:N"` |
    /// | `how` | what then happens to the connection: `"reset"` (the default), `"eof"` or `"stall"` |
    /// | `garbage` | `true`: bytes that are not HTTP |
    /// | `act_then_reset` | `true`: the request is acted on, and its response is lost |
    /// | `method`, `path` | which requests |
    /// | `after` | how many of them it spares first |
    /// | `times` | how often it happens, once by default; `null` for no limit |
    /// | `probability`, `seed` | how likely it is to happen, from 0 to 1, and the seed of that chance |
    ///
    /// Null means the same as a missing field, except for `times`.
    ///
    /// ```
    /// use dealkit_server::Fault;
    ///
    /// let fault = Fault::from_json(r#"{"status": 503, "retry_after": 1, "times": 2}"#)?;
    /// assert_eq!(fault, Fault::status(503).retry_after(1).times(2));
    /// let error = Fault::from_json(r#"{"cut": "after-head"}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "cut: expected before-head, in-head or after-bytes:N");
    /// # Ok::<(), dealkit_server::InvalidFault>(())
    /// ```
    ///
    /// # Errors
    /// When the text is not such an object, or is not a valid fault.
    pub fn from_json(text: &str) -> Result<Self, InvalidFault> {
        let fields: BTreeMap<String, Json> = serde_json::from_str(text)
            .map_err(|_| InvalidFault::new("expected a fault, as a JSON object"))?;
        let mut fault = Self::default();
        for (name, value) in &fields {
            fault.set(name, value)?;
        }
        fault.check()?;
        Ok(fault)
    }

    /// Writes the fields that [`from_json`](Self::from_json) reads.
    pub(super) fn write<M: SerializeMap>(&self, to: &mut M) -> Result<(), M::Error> {
        fn put<M: SerializeMap>(
            to: &mut M,
            name: &str,
            value: Option<impl Serialize>,
        ) -> Result<(), M::Error> {
            value.map_or(Ok(()), |value| to.serialize_entry(name, &value))
        }
        put(to, "status", self.status)?;
        put(to, "retry_after", self.retry_after.as_ref())?;
        match &self.body {
            Some(FaultBody::Text(text)) => {
                to.serialize_entry("body", &String::from_utf8_lossy(text))?
            }
            // As it was given, digit for digit.
            Some(FaultBody::Json(json)) => {
                let json: &RawValue = serde_json::from_slice(json).map_err(M::Error::custom)?;
                to.serialize_entry("body", json)?;
            }
            None => {}
        }
        put(to, "delay", self.delay.map(|delay| delay.as_secs_f64()))?;
        put(to, "cut", self.cut.map(|cut| cut.to_string()))?;
        put(to, "how", self.how.map(|how| how.to_string()))?;
        put(to, "garbage", self.garbage.then_some(true))?;
        put(to, "act_then_reset", self.act_then_reset.then_some(true))?;
        put(to, "method", self.method.as_ref())?;
        put(to, "path", self.path.as_ref())?;
        put(to, "after", self.after)?;
        let times = match self.times {
            Times::Exactly(times) => Some(times),
            Times::Forever => None,
        };
        to.serialize_entry("times", &times)?;
        put(to, "probability", self.probability)?;
        put(to, "seed", self.seed)
    }

    fn set(&mut self, name: &str, value: &Json) -> Result<(), InvalidFault> {
        let expected = |what: &str| InvalidFault::new(format!("{name}: expected {what}"));
        let count = || {
            value
                .deserialize::<Option<u64>>()
                .map_err(|_| expected("a whole number, 0 or more"))
        };
        let text = |what| {
            value
                .deserialize::<Option<String>>()
                .map_err(|_| expected(what))
        };
        let flag = || {
            value
                .deserialize::<Option<bool>>()
                .map(Option::unwrap_or_default)
                .map_err(|_| expected("true or false"))
        };
        match name {
            "status" => {
                self.status = value
                    .deserialize()
                    .map_err(|_| expected("a status from 200 to 599"))?;
            }
            "retry_after" => {
                // A number is sent with the digits that it came with.
                self.retry_after = match value
                    .deserialize()
                    .map_err(|_| expected("a number of seconds, or text that is sent as it is"))?
                {
                    Value::Null => None,
                    Value::Number(_) => Some(value.as_str().to_owned()),
                    Value::String(text) => Some(text),
                    _ => {
                        return Err(expected(
                            "a number of seconds, or text that is sent as it is",
                        ));
                    }
                };
            }
            "body" => {
                let read = || expected("a string, or an object or array, which is sent as JSON");
                self.body = match value.as_str().as_bytes().first() {
                    Some(b'"') => {
                        let text: String = value.deserialize().map_err(|_| read())?;
                        Some(FaultBody::Text(text.into()))
                    }
                    Some(b'{' | b'[') => Some(FaultBody::Json(value.as_str().to_owned().into())),
                    Some(b'n') => None,
                    _ => return Err(read()),
                };
            }
            "delay" => {
                let seconds: Option<f64> = value
                    .deserialize()
                    .map_err(|_| expected("a number of seconds from 0 to 3600"))?;
                self.delay = seconds
                    .map(Duration::try_from_secs_f64)
                    .transpose()
                    .map_err(|_| expected("a number of seconds from 0 to 3600"))?;
            }
            "cut" => {
                let what = "before-head, in-head or after-bytes:N";
                self.cut = text(what)?
                    .map(|text| cut(&text).ok_or_else(|| expected(what)))
                    .transpose()?;
            }
            "how" => {
                let what = "reset, eof or stall";
                self.how = text(what)?
                    .map(|text| how(&text).ok_or_else(|| expected(what)))
                    .transpose()?;
            }
            "garbage" => self.garbage = flag()?,
            "act_then_reset" => self.act_then_reset = flag()?,
            "method" => self.method = text("a method, such as POST")?,
            "path" => self.path = text("a path, such as /v1/deals/{id}")?,
            "after" => self.after = count()?,
            "times" => {
                self.times = value
                    .deserialize::<Option<u64>>()
                    .map_err(|_| expected("a whole number, 1 or more, or null for no limit"))?
                    .map_or(Times::Forever, Times::Exactly);
            }
            "probability" => {
                self.probability = value
                    .deserialize()
                    .map_err(|_| expected("a number from 0 to 1"))?;
            }
            "seed" => self.seed = count()?,
            _ => {
                return Err(InvalidFault::new(format!(
                    "unknown field: expected {} or {}",
                    EFFECTS.join(", "),
                    MATCHING.join(", ")
                )));
            }
        }
        Ok(())
    }
}

impl Play {
    /// Reads the header `x-sandbox-fault`: the fields of the JSON that say what happens, as `name=value`, with
    /// semicolons between them. `garbage` and `act_then_reset` need no value.
    pub(crate) fn from_header(value: &[u8]) -> Result<Self, InvalidFault> {
        let malformed = || {
            InvalidFault::new(format!(
                "expected name=value pairs separated by semicolons, such as status=503; retry_after=1; \
                 the names are {}",
                EFFECTS.join(", ")
            ))
        };
        let text = std::str::from_utf8(value).map_err(|_| malformed())?;
        let mut fault = Fault::default();
        for pair in text.split(';') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
            let (name, value) = (name.trim(), value.trim());
            if !EFFECTS.contains(&name) {
                return Err(malformed());
            }
            // A body is text, whatever it looks like.
            let value = match name {
                "body" => value.into(),
                _ => Json::parse(value).unwrap_or_else(|_| value.into()),
            };
            fault.set(name, &value)?;
        }
        fault.play()
    }
}

fn cut(text: &str) -> Option<Cut> {
    Some(match text {
        "before-head" => Cut::BeforeHead,
        "in-head" => Cut::InHead,
        _ => {
            let bytes = text.strip_prefix("after-bytes:")?;
            // Not `+5`, which Rust would accept.
            bytes
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then_some(())?;
            Cut::AfterBytes(bytes.parse().ok()?)
        }
    })
}

fn how(text: &str) -> Option<How> {
    Some(match text {
        "reset" => How::Reset,
        "eof" => How::Eof,
        "stall" => How::Stall,
        _ => return None,
    })
}
