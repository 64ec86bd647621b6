//! Faults on demand: their fields (as JSON and as methods) and their validation.
//!
//! This is the only definition of the fields. Tests compare the table in README.md and Python's `fail_next` with this
//! definition.

use std::{fmt, ops::Not, str::FromStr, time::Duration};

use bytes::Bytes;
use dealkit::{Json, internal::wire};
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{
    contract::response::{empty_response, response},
    sandbox::{
        fields::{EXPECTED_COUNT, JsonField, parse_object},
        request_pattern::{FieldNames, RequestPattern},
    },
};

/// The header of a request that applies a fault to this request: `{"status": 503}`.
pub(crate) const FAULT_HEADER: &str = "x-sandbox-fault";

const MAX_DELAY: Duration = Duration::from_secs(3_600);

/// An invalid fault. The message names the field, the error and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFault(pub(super) String);

/// A fault on demand, and the requests to which it applies. By default, it applies once, to the next request to /v1.
///
/// In JSON, it has the fields in [this table](crate#faults-on-demand).
///
/// ```
/// use std::time::Duration;
/// use dealkit_server::{Cut, Fault, AfterCut};
///
/// Fault::status(503).retry_after(1).times(2);
/// Fault::delay(Duration::from_millis(500)).path("/v1/deals/{id}");
/// Fault::cut(Cut::AfterBytes(10)).after_cut(AfterCut::Eof).forever().probability(0.1).seed(7);
/// Fault::process_then_reset().method("POST").after(3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[must_use = "a fault has no effect until it is added to a sandbox"]
pub struct Fault {
    #[serde(skip_serializing_if = "Not::not")]
    hold: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_cut: Option<AfterCut>,
    #[serde(skip_serializing_if = "Not::not")]
    malformed: bool,
    #[serde(skip_serializing_if = "Not::not")]
    process_then_reset: bool,
    /// The requests to which the fault applies.
    #[serde(flatten)]
    pub(super) pattern: RequestPattern,
    /// The number of matching requests before the first to which the fault applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    /// Maximum number of requests to which the fault applies: `None` (missing in JSON) means one, `Some(None)` (null) means no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
}

const EXPECTED_STATUS: &str = "a status from 200 to 599";
const EXPECTED_DELAY: &str = "a number of seconds from 0 to 3600";
const EXPECTED_TIMES: &str = "a whole number, 1 or more, or null for no limit";
const EXPECTED_PROBABILITY: &str = "a number from 0 to 1";

/// The names of the pattern's fields in a fault, where `body` is the body of the response.
const PATTERN_FIELDS: FieldNames = FieldNames {
    headers: "request_header",
    body: "request_body",
};

/// A function that reads a field of a fault from JSON.
type ReadField = fn(&mut Fault, &JsonField<'_>) -> Result<(), String>;

/// The fields of a fault in JSON. Null and false equal a missing field, except for `times`.
const FIELDS: &[(&str, ReadField)] = &[
    ("hold", |fault, field| {
        fault.hold = field.read_bool()?;
        Ok(())
    }),
    ("delay", |fault, field| {
        fault.delay = field.read_number(EXPECTED_DELAY, parse)?;
        Ok(())
    }),
    ("status", |fault, field| {
        fault.status = field.read_number(EXPECTED_STATUS, parse)?;
        Ok(())
    }),
    ("retry_after", |fault, field| {
        fault.retry_after = field.read_json();
        Ok(())
    }),
    ("body", |fault, field| {
        fault.body = field.read_json();
        Ok(())
    }),
    ("cut", |fault, field| {
        fault.cut = read_named(field)?;
        Ok(())
    }),
    ("after_cut", |fault, field| {
        fault.after_cut = read_named(field)?;
        Ok(())
    }),
    ("malformed", |fault, field| {
        fault.malformed = field.read_bool()?;
        Ok(())
    }),
    ("process_then_reset", |fault, field| {
        fault.process_then_reset = field.read_bool()?;
        Ok(())
    }),
    ("method", |fault, field| fault.pattern.read_method(field)),
    ("path", |fault, field| fault.pattern.read_path(field)),
    (PATTERN_FIELDS.headers, |fault, field| {
        fault.pattern.read_headers(field)
    }),
    (PATTERN_FIELDS.body, |fault, field| {
        fault.pattern.read_body(field)
    }),
    ("after", |fault, field| {
        fault.after = field.read_number(EXPECTED_COUNT, parse)?;
        Ok(())
    }),
    ("times", |fault, field| {
        fault.times = Some(field.read_number(EXPECTED_TIMES, parse)?);
        Ok(())
    }),
    ("probability", |fault, field| {
        fault.probability = field.read_number(EXPECTED_PROBABILITY, parse)?;
        Ok(())
    }),
    ("seed", |fault, field| {
        fault.seed = field.read_number(EXPECTED_COUNT, parse)?;
        Ok(())
    }),
];

fn parse<T: FromStr>(number: &str) -> Option<T> {
    number.parse().ok()
}

/// Reads a value that is written as a string.
fn read_named<T: TryFrom<String, Error: fmt::Display>>(
    field: &JsonField<'_>,
) -> Result<Option<T>, String> {
    let name = field.read_string("a string")?;
    let value = name.map(T::try_from).transpose();
    value.map_err(|error| format!("{}: {error}", field.name))
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(<Json as Deserialize>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The position of a cut in a response: see [`Fault::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Cut {
    /// Before the head: nothing is sent, and the request is not processed. To lose the response of a processed request,
    /// use [`Fault::process_then_reset`].
    BeforeHead,
    /// After the status line and the first four bytes of the first header; the request is processed. Over HTTP/2, which
    /// sends a head completely or not at all, nothing is sent.
    InHead,
    /// After this many bytes of the body, or the whole body if it is shorter; the request is processed.
    AfterBytes(u64),
}

/// The end of the connection after a cut response: see [`Fault::after_cut`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
#[non_exhaustive]
pub enum AfterCut {
    /// The connection is reset (ECONNRESET). Over HTTP/2, only the stream is reset (RST_STREAM).
    #[default]
    Reset,
    /// The connection is closed normally (FIN). Over HTTP/2, this ends all streams of the connection.
    Eof,
    /// The connection stays open, but nothing more is sent. Over HTTP/2, only the stream stalls.
    Stall,
}

impl Fault {
    /// Parses a fault from JSON, an object with the fields in [this table](crate#faults-on-demand).
    ///
    /// ```
    /// use dealkit_server::Fault;
    ///
    /// let fault = Fault::from_json(r#"{"status": 503, "retry_after": "1", "times": 2}"#)?;
    /// assert_eq!(fault, Fault::status(503).retry_after(1).times(2));
    /// let error = Fault::from_json(r#"{"status": 5}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "status: expected a status from 200 to 599");
    /// # Ok::<(), dealkit_server::InvalidFault>(())
    /// ```
    ///
    /// # Errors
    /// If the JSON is not such an object, or the fault is invalid.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, InvalidFault> {
        let mut fault = Self::default();
        for field in parse_object("the fault", json.as_ref()).map_err(InvalidFault)? {
            let entry = FIELDS.iter().find(|(name, _)| *name == field.name);
            match entry {
                Some((_, read)) => read(&mut fault, &field),
                None => Err(field.unknown(FIELDS.iter().map(|(name, _)| *name))),
            }
            .map_err(InvalidFault)?;
        }
        fault.resolve()?;
        Ok(fault)
    }

    /// Responds with this status (200 to 599) without processing the request. The body is problem details, unless
    /// [`body`](Self::body) or [`json`](Self::json) sets another body.
    pub fn status(status: u16) -> Self {
        Self {
            status: Some(status),
            ..Self::default()
        }
    }

    /// Delays the response.
    pub fn delay(delay: Duration) -> Self {
        Self::default().delayed(delay)
    }

    /// Holds the request until [`Service::release`](crate::Service::release), which has an example. Then the request is
    /// processed normally.
    pub fn hold() -> Self {
        Self::default().held()
    }

    /// Cuts the response at this position.
    ///
    /// ```
    /// use dealkit_server::{Cut, Fault, AfterCut};
    ///
    /// Fault::cut(Cut::AfterBytes(10)).after_cut(AfterCut::Stall);
    /// ```
    pub fn cut(cut: Cut) -> Self {
        Self {
            cut: Some(cut),
            ..Self::default()
        }
    }

    /// Sends a malformed HTTP response and closes the connection, without processing the request.
    pub fn malformed() -> Self {
        Self {
            malformed: true,
            ..Self::default()
        }
    }

    /// Processes the request (creates the agent), then resets the connection without a response. Over HTTP/2, only the
    /// stream is reset.
    pub fn process_then_reset() -> Self {
        Self {
            process_then_reset: true,
            ..Self::default()
        }
    }

    /// Sets the header `Retry-After` of a [`status`](Self::status): seconds, or any text, which is sent unchanged.
    pub fn retry_after(mut self, value: impl fmt::Display) -> Self {
        self.retry_after = Some(Json::string(value.to_string()));
        self
    }

    /// Sets the body of a [`status`](Self::status), as `text/plain`.
    pub fn body(mut self, text: impl AsRef<str>) -> Self {
        self.body = Some(Json::string(text));
        self
    }

    /// Sets the body of a [`status`](Self::status), as JSON; for an error status, as `application/problem+json`.
    pub fn json(mut self, body: impl Into<Json>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Waits before the fault's other effects, or before the response if it has no other effect. The maximum delay is one hour.
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = Some(delay.as_secs_f64());
        self
    }

    /// Holds the request until [`Service::release`](crate::Service::release). A delay and all other effects follow.
    pub fn held(mut self) -> Self {
        self.hold = true;
        self
    }

    /// Sets what the connection does after a [`cut`](Self::cut): by default, it is reset.
    pub fn after_cut(mut self, after_cut: AfterCut) -> Self {
        self.after_cut = Some(after_cut);
        self
    }

    /// Applies the fault only to requests with this method, such as `"POST"` or `Method::POST`.
    /// [`Service::fail_next`](crate::Service::fail_next) fails if the [`path`](Self::path) does not allow the method.
    pub fn method(mut self, method: impl AsRef<str>) -> Self {
        self.pattern = self.pattern.method(method);
        self
    }

    /// Applies the fault only to requests to this path, such as `/v1/deals/d_1`. A segment in braces, as in
    /// `/v1/deals/{id}`, matches any segment. [`Service::fail_next`](crate::Service::fail_next) fails for an unknown path.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.pattern = self.pattern.path(path);
        self
    }

    /// Applies the fault only to requests that have this header with this value. Names are case-insensitive. Each call adds a
    /// header.
    pub fn request_header(mut self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        self.pattern = self.pattern.header(name, value);
        self
    }

    /// Applies the fault only to requests that have this header, with any value.
    pub fn request_header_exists(mut self, name: impl AsRef<str>) -> Self {
        self.pattern = self.pattern.header_exists(name);
        self
    }

    /// Applies the fault only to requests whose body contains this JSON object, as in [`RequestPattern::body`]. The fault is
    /// selected when the whole body has arrived.
    ///
    /// ```
    /// use dealkit_server::Fault;
    /// use serde_json::json;
    ///
    /// // Rejects one agent, and no others.
    /// Fault::status(422).request_body(json!({"email": "ada@example.com"})).forever();
    /// ```
    pub fn request_body(mut self, object: impl Into<Json>) -> Self {
        self.pattern = self.pattern.body(object);
        self
    }

    /// Skips this many matching requests.
    pub fn after(mut self, requests: u64) -> Self {
        self.after = Some(requests);
        self
    }

    /// Applies the fault this many times instead of once.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(Some(times));
        self
    }

    /// Applies the fault until it is removed.
    pub fn forever(mut self) -> Self {
        self.times = Some(None);
        self
    }

    /// Applies the fault with this probability, from 0 to 1. The [`seed`](Self::seed) determines the affected requests.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = Some(probability);
        self
    }

    /// Sets the seed of the [`probability`](Self::probability). The same seed affects the same requests. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns the size of the fault's strings and bodies, for the memory budget.
    pub(super) fn byte_len(&self) -> usize {
        let values = [&self.retry_after, &self.body].into_iter().flatten();
        let values = values.map(|json| json.as_str().len()).sum::<usize>();
        values + self.pattern.byte_len()
    }

    /// Returns the maximum number of requests to which the fault applies, or `None` for no limit.
    pub(super) fn max_requests(&self) -> Option<u64> {
        self.times.unwrap_or(Some(1))
    }

    /// Validates the fault, and resolves its effect.
    pub(crate) fn resolve(&self) -> Result<ResolvedFault, InvalidFault> {
        let ensure = |is_valid: bool, message: &str| match is_valid {
            true => Ok(()),
            false => Err(InvalidFault(message.to_owned())),
        };
        ensure(
            self.max_requests() != Some(0),
            &format!("times: expected {EXPECTED_TIMES}"),
        )?;
        ensure(
            (0.0..=1.0).contains(&self.probability.unwrap_or_default()),
            &format!("probability: expected {EXPECTED_PROBABILITY}"),
        )?;
        self.pattern.check(PATTERN_FIELDS).map_err(InvalidFault)?;
        let delay = Duration::try_from_secs_f64(self.delay.unwrap_or_default()).ok();
        let delay = delay
            .filter(|delay| *delay <= MAX_DELAY)
            .ok_or_else(|| InvalidFault(format!("delay: expected {EXPECTED_DELAY}")))?;
        ensure(
            self.status.is_some() || (self.retry_after.is_none() && self.body.is_none()),
            "retry_after and body need a status",
        )?;
        ensure(
            self.cut.is_some() || self.after_cut.is_none(),
            "after_cut needs a cut",
        )?;
        let status = self.status.map(|status| self.build_response(status));
        let cut = self.cut.map(|position| Effect::Cut {
            position,
            after_cut: self.after_cut.unwrap_or_default(),
        });
        let effects = [
            ("status", status.transpose()?.map(Effect::Respond)),
            ("cut", cut),
            ("malformed", self.malformed.then_some(Effect::Malformed)),
            (
                "process_then_reset",
                self.process_then_reset.then_some(Effect::ProcessThenReset),
            ),
        ];
        let names = effects.each_ref().map(|(name, _)| *name).join(", ");
        let mut effects = effects.into_iter().filter_map(|(_, effect)| effect);
        let effect = effects.next();
        ensure(
            effect.is_some() || self.delay.is_some() || self.hold,
            &format!("the fault has no effect: expected one of hold, delay, {names}"),
        )?;
        ensure(
            effects.next().is_none(),
            &format!(
                "the fault has more than one effect: expected one of {names}, each with or without hold and delay"
            ),
        )?;
        Ok(ResolvedFault {
            hold: self.hold,
            delay,
            effect,
            // Serialization cannot fail: a fault contains only numbers, strings and JSON.
            header_value: serde_json::to_string(&self.without_filters_and_body())
                .unwrap_or_default(),
        })
    }

    /// Builds the response of a fault with a status. The body is empty if the fault has none.
    fn build_response(&self, status: u16) -> Result<Response<Bytes>, InvalidFault> {
        let invalid = |message: &str| InvalidFault(message.to_owned());
        let status = StatusCode::from_u16(status).ok();
        let status = status.filter(|status| (200..=599).contains(&status.as_u16()));
        let status =
            status.ok_or_else(|| invalid(&format!("status: expected {EXPECTED_STATUS}")))?;
        let mut fault_response = match self.body.as_ref().map(Json::as_str) {
            None => empty_response(status),
            Some(json) if json.starts_with(['{', '[']) => {
                let is_error = status.is_client_error() || status.is_server_error();
                let media_type = if is_error {
                    wire::PROBLEM_JSON
                } else {
                    wire::JSON
                };
                response(status, media_type, json.to_owned())
            }
            Some(json) => {
                let text: String = serde_json::from_str(json).map_err(|_| {
                    invalid("body: expected a string, or an object or array, which is sent as JSON")
                })?;
                response(status, "text/plain; charset=utf-8", text)
            }
        };
        if let Some(json) = &self.retry_after {
            // A number is sent with its original digits.
            let is_number = json
                .as_str()
                .starts_with(|c: char| c == '-' || c.is_ascii_digit());
            let text = match is_number {
                true => Some(json.to_string()),
                false => json.deserialize().ok(),
            };
            let value = text.and_then(|text| HeaderValue::try_from(text).ok());
            let value = value.ok_or_else(|| {
                invalid("retry_after: expected a number of seconds, or text: visible ASCII")
            })?;
            fault_response
                .headers_mut()
                .insert(header::RETRY_AFTER, value);
        }
        Ok(fault_response)
    }

    /// Returns the fault without the fields that select requests. The other fields are valid in the header `x-sandbox-fault`.
    fn without_filters(&self) -> Self {
        Self {
            pattern: RequestPattern::default(),
            after: None,
            times: None,
            probability: None,
            seed: None,
            ..self.clone()
        }
    }

    fn without_filters_and_body(&self) -> Self {
        Self {
            body: None,
            ..self.without_filters()
        }
    }
}

/// The validated effects of a fault on one request.
#[derive(Debug)]
pub(crate) struct ResolvedFault {
    /// True if the request waits until it is released.
    pub(crate) hold: bool,
    pub(crate) delay: Duration,
    /// `None` if the request is only held or delayed.
    pub(crate) effect: Option<Effect>,
    /// The fault as a value of the header `x-sandbox-fault`, without a body, for the journal.
    pub(crate) header_value: String,
}

/// The effect of a fault, other than a hold or a delay.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Respond with the fault's response; its body is empty if the fault has none.
    Respond(Response<Bytes>),
    /// Cut the response.
    Cut { position: Cut, after_cut: AfterCut },
    /// Send a malformed HTTP response.
    Malformed,
    /// Process the request, then reset the connection.
    ProcessThenReset,
}

impl ResolvedFault {
    /// Parses the header `x-sandbox-fault`: a fault as JSON, without the fields that select requests.
    pub(crate) fn from_header(value: &[u8]) -> Result<Self, InvalidFault> {
        let fault = Fault::from_json(value)?;
        if fault != fault.without_filters() {
            return Err(InvalidFault(
                "a header applies to its own request: leave out method, path, request_header, request_body, after, times, \
                 probability and seed"
                    .to_owned(),
            ));
        }
        fault.resolve()
    }
}

impl TryFrom<String> for Cut {
    type Error = &'static str;

    fn try_from(value: String) -> Result<Self, Self::Error> {
        const EXPECTED: &str = "expected before-head, in-head or after-bytes:N";
        match (value.as_str(), value.strip_prefix("after-bytes:")) {
            ("before-head", _) => Ok(Self::BeforeHead),
            ("in-head", _) => Ok(Self::InHead),
            // Without this check, Rust would accept `+5`.
            (_, Some(bytes)) if bytes.bytes().all(|byte| byte.is_ascii_digit()) => {
                bytes.parse().map(Self::AfterBytes).map_err(|_| EXPECTED)
            }
            _ => Err(EXPECTED),
        }
    }
}

impl TryFrom<String> for AfterCut {
    type Error = &'static str;

    fn try_from(value: String) -> Result<Self, Self::Error> {
        match value.as_str() {
            "reset" => Ok(Self::Reset),
            "eof" => Ok(Self::Eof),
            "stall" => Ok(Self::Stall),
            _ => Err("expected reset, eof or stall"),
        }
    }
}

impl From<Cut> for String {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::BeforeHead => "before-head".to_owned(),
            Cut::InHead => "in-head".to_owned(),
            Cut::AfterBytes(bytes) => format!("after-bytes:{bytes}"),
        }
    }
}
