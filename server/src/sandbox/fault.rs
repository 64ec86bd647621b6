//! One thing that goes wrong on demand: what happens, and to which requests.

use std::{fmt, ops::Not, time::Duration};

use bytes::Bytes;
use dealkit::{Json, internal::wire};
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, Unexpected, Visitor},
};
use serde_json::Number;

use crate::contract::{
    response::{empty, response},
    route::{self, fits, is_path},
};

/// The header that makes a fault happen to the request that carries it: `{"status": 503}`.
pub(crate) const FAULT_HEADER: &str = "x-sandbox-fault";

const MAX_DELAY: Duration = Duration::from_secs(3_600);

/// The fault is invalid. The message says which of its fields is wrong and why, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFault(pub(super) String);

/// Something that goes wrong on demand, and for which requests. By default it happens once, to the next request
/// of /v1, whatever that is.
///
/// serde reads and writes it with the fields in [this table](crate#faults-on-demand).
///
/// ```
/// use std::time::Duration;
/// use dealkit_server::{Cut, Fault, How};
///
/// Fault::status(503).retry_after(1).times(2);
/// Fault::delay(Duration::from_millis(500)).path("/v1/deals/{id}");
/// Fault::cut(Cut::AfterBytes(10)).how(How::Eof).forever().probability(0.1).seed(7);
/// Fault::act_then_reset().method("POST").after(3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
#[must_use = "a fault does nothing until a sandbox plays it"]
pub struct Fault {
    #[serde(skip_serializing_if = "Not::not")]
    hold: bool,
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_delay"
    )]
    delay: Option<f64>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_status"
    )]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    how: Option<How>,
    #[serde(skip_serializing_if = "Not::not")]
    garbage: bool,
    #[serde(skip_serializing_if = "Not::not")]
    act_then_reset: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// How many of the requests that it selects are spared first.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_count"
    )]
    pub(super) after: Option<u64>,
    /// How often it happens: once if that is not given, and without end if it is given as null.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_times"
    )]
    times: Option<Option<u64>>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_probability"
    )]
    pub(super) probability: Option<f64>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_count"
    )]
    pub(super) seed: Option<u64>,
}

const STATUS: &str = "a status from 200 to 599";
const DELAY: &str = "a number of seconds from 0 to 3600";
const TIMES: &str = "a whole number, 1 or more, or null for no limit";
const PROBABILITY: &str = "a number from 0 to 1";

/// Visits a number or null; messages call the number by this description, where serde would name a type of Rust.
struct NumberVisitor(&'static str);

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Option<Number>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_u64(self)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number))
    }
}

fn read_number<'de, T, D: Deserializer<'de>>(
    from: D,
    description: &'static str,
    convert: impl FnOnce(&Number) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let number = from.deserialize_option(NumberVisitor(description))?;
    let read = |number: Number| {
        convert(&number).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Other(&number.to_string()), &description)
        })
    };
    number.map(read).transpose()
}

fn read_status<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    read_number(from, STATUS, |number| number.as_u64()?.try_into().ok())
}

fn read_delay<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    read_number(from, DELAY, Number::as_f64)
}

fn read_probability<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    read_number(from, PROBABILITY, Number::as_f64)
}

fn read_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    read_number(from, "a whole number, 0 or more", Number::as_u64)
}

fn read_times<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    read_number(from, TIMES, Number::as_u64).map(Some)
}

/// Where a response is cut: see [`Fault::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Cut {
    /// Nothing of it is sent, and nothing was done: no agent is created. (For a response that is lost after the agent
    /// was created, there is [`Fault::act_then_reset`].)
    BeforeHead,
    /// The status line and the beginning of the first header are sent. The request was acted on. Over HTTP/2, where a
    /// head arrives whole or not at all, nothing is sent.
    InHead,
    /// The head and this many bytes of the body are sent. The request was acted on. A body that is no longer than this
    /// is sent whole.
    AfterBytes(u64),
}

/// What happens to the connection where a response is cut: see [`Fault::how`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
#[non_exhaustive]
pub enum How {
    /// It is reset (ECONNRESET); over HTTP/2, the stream is (RST_STREAM).
    #[default]
    Reset,
    /// It is closed in order, as if this were all (FIN); over HTTP/2, the whole connection is.
    Eof,
    /// It stays open, and nothing more comes; over HTTP/2, nothing more of the stream.
    Stall,
}

impl Fault {
    /// Reads a fault from JSON, an object with the fields in [this table](crate#faults-on-demand).
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
    /// When the text is not such an object, or is not a valid fault.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, InvalidFault> {
        let mut json = serde_json::Deserializer::from_slice(json.as_ref());
        let read = serde_path_to_error::deserialize(&mut json);
        let fault: Self = read.map_err(|error| InvalidFault(error.to_string()))?;
        json.end()
            .map_err(|error| InvalidFault(error.to_string()))?;
        fault.check()?;
        Ok(fault)
    }

    /// A response with this status (200 to 599) in place of the real one; the request is not acted on. Its body is
    /// problem details unless [`body`](Self::body) or [`json`](Self::json) says otherwise.
    pub fn status(status: u16) -> Self {
        Self {
            status: Some(status),
            ..Self::default()
        }
    }

    /// The real response, this much later.
    pub fn delay(delay: Duration) -> Self {
        Self::default().delayed(delay)
    }

    /// Holds the request until [`Service::release`](crate::Service::release), which has an example; then it is acted on, and gets
    /// the real response.
    pub fn hold() -> Self {
        Self::default().held()
    }

    /// A response that breaks off.
    ///
    /// ```
    /// use dealkit_server::{Cut, Fault, How};
    ///
    /// Fault::cut(Cut::AfterBytes(10)).how(How::Stall);
    /// ```
    pub fn cut(cut: Cut) -> Self {
        Self {
            cut: Some(cut),
            ..Self::default()
        }
    }

    /// Bytes that are not HTTP, and then the end of the connection. The request is not acted on.
    pub fn garbage() -> Self {
        Self {
            garbage: true,
            ..Self::default()
        }
    }

    /// The request is acted on (the agent is created), and then the connection is reset without a response. Over
    /// HTTP/2, only the stream is reset.
    pub fn act_then_reset() -> Self {
        Self {
            act_then_reset: true,
            ..Self::default()
        }
    }

    /// The header `Retry-After` of a [`status`](Self::status): seconds, or any other text, which is sent as it is.
    pub fn retry_after(mut self, value: impl fmt::Display) -> Self {
        self.retry_after = Some(Json::string(value.to_string()));
        self
    }

    /// The body of a [`status`](Self::status), as `text/plain`.
    pub fn body(mut self, text: impl AsRef<str>) -> Self {
        self.body = Some(Json::string(text));
        self
    }

    /// The body of a [`status`](Self::status), as JSON: as problem details if the status is that of an error.
    pub fn json(mut self, body: impl Into<Json>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// All of it happens this much later: at most an hour.
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = Some(delay.as_secs_f64());
        self
    }

    /// Holds the request until [`Service::release`](crate::Service::release), before anything else happens to it; a delay begins then.
    pub fn held(mut self) -> Self {
        self.hold = true;
        self
    }

    /// What happens to the connection of a [`cut`](Self::cut); without this it is reset.
    pub fn how(mut self, how: How) -> Self {
        self.how = Some(how);
        self
    }

    /// Only requests with this method, such as `POST`. One that the [`path`](Self::path) does not have is an error of
    /// [`Service::fail_next`](crate::Service::fail_next).
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Only requests of this path, such as `/v1/deals/d_1`. A segment in braces, such as the last of `/v1/deals/{id}`,
    /// stands for any segment. A path that the server does not have is an error of
    /// [`Service::fail_next`](crate::Service::fail_next).
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Only after this many of the requests that it would have happened to.
    pub fn after(mut self, requests: u64) -> Self {
        self.after = Some(requests);
        self
    }

    /// How many times it happens; without this, once.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(Some(times));
        self
    }

    /// It happens until it is removed.
    pub fn forever(mut self) -> Self {
        self.times = Some(None);
        self
    }

    /// The probability with which it happens, from 0 to 1. The [`seed`](Self::seed) determines which requests it
    /// happens to.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = Some(probability);
        self
    }

    /// The seed of the [`probability`](Self::probability): another seed hits other requests, the same seed the same
    /// ones. It is 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(super) fn bytes(&self) -> usize {
        let values = [&self.retry_after, &self.body].into_iter().flatten();
        let values = values.map(|json| json.as_str().len()).sum::<usize>();
        let texts = [&self.method, &self.path].into_iter().flatten();
        values + texts.map(String::len).sum::<usize>()
    }

    /// How often it happens; `None` for no limit.
    pub(super) fn limit(&self) -> Option<u64> {
        self.times.unwrap_or(Some(1))
    }

    /// Whether it selects a request, which chance may spare.
    pub(super) fn selects(&self, method: &Method, path: &str) -> bool {
        (self.method.as_ref()).is_none_or(|only| only == method.as_str())
            && (self.path.as_ref()).is_none_or(|only| is_path(path, only, fits))
    }

    /// What is to happen, if all of it makes sense.
    pub(crate) fn check(&self) -> Result<Play, InvalidFault> {
        let expected = |is_valid: bool, what: &str| match is_valid {
            true => Ok(()),
            false => Err(InvalidFault(what.to_owned())),
        };
        expected(self.limit() != Some(0), &format!("times: expected {TIMES}"))?;
        expected(
            (0.0..=1.0).contains(&self.probability.unwrap_or_default()),
            &format!("probability: expected {PROBABILITY}"),
        )?;
        let is_sent = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        expected(
            self.path.iter().all(|path| path.bytes().all(is_sent)),
            "path: expected a path as it is sent, without a query, such as /v1/deals/{id}",
        )?;
        route::check_selection(self.method.as_deref(), self.path.as_deref())
            .map_err(InvalidFault)?;
        let delay = Duration::try_from_secs_f64(self.delay.unwrap_or_default()).ok();
        let delay = delay
            .filter(|delay| *delay <= MAX_DELAY)
            .ok_or_else(|| InvalidFault(format!("delay: expected {DELAY}")))?;
        expected(
            self.status.is_some() || (self.retry_after.is_none() && self.body.is_none()),
            "retry_after and body need a status",
        )?;
        expected(self.cut.is_some() || self.how.is_none(), "how needs a cut")?;
        let effects = [
            self.status
                .map(|status| self.response(status).map(Effect::Respond))
                .transpose()?,
            self.cut.map(|at| Effect::Cut {
                at,
                how: self.how.unwrap_or_default(),
            }),
            self.garbage.then_some(Effect::Garbage),
            self.act_then_reset.then_some(Effect::ActThenReset),
        ];
        let mut effects = effects.into_iter().flatten();
        let effect = effects.next();
        expected(
            effect.is_some() || self.delay.is_some() || self.hold,
            "the fault has no effect: expected status, hold, delay, cut, garbage or act_then_reset",
        )?;
        expected(
            effects.next().is_none(),
            "the fault has more than one effect: expected one of status, cut, garbage and act_then_reset, each with or \
             without hold and delay",
        )?;
        Ok(Play {
            hold: self.hold,
            delay,
            effect,
            // Numbers and texts always serialize.
            shown: serde_json::to_string(&self.what()).unwrap_or_default(),
        })
    }

    /// The response that is made up. One without a body gets problem details if it is an error.
    fn response(&self, status: u16) -> Result<Response<Bytes>, InvalidFault> {
        let invalid = |what: &str| InvalidFault(what.to_owned());
        let status = StatusCode::from_u16(status).ok();
        let status = status.filter(|status| (200..=599).contains(&status.as_u16()));
        let status = status.ok_or_else(|| invalid(&format!("status: expected {STATUS}")))?;
        let mut made_up = match self.body.as_ref().map(Json::as_str) {
            None => empty(status),
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
            // A number is sent with the digits that it came with.
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
            made_up.headers_mut().insert(header::RETRY_AFTER, value);
        }
        Ok(made_up)
    }

    /// What happens, without a body, and to whichever request.
    fn what(&self) -> Self {
        Self {
            hold: self.hold,
            delay: self.delay,
            status: self.status,
            retry_after: self.retry_after.clone(),
            cut: self.cut,
            how: self.how,
            garbage: self.garbage,
            act_then_reset: self.act_then_reset,
            ..Self::default()
        }
    }
}

/// What happens to one request: a fault that makes sense.
#[derive(Debug)]
pub(crate) struct Play {
    /// True if the request waits until it is released.
    pub(crate) hold: bool,
    pub(crate) delay: Duration,
    /// `None` for nothing but a wait.
    pub(crate) effect: Option<Effect>,
    /// What the journal says: the header that makes it happen.
    pub(crate) shown: String,
}

/// What happens instead of the response, or to it.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A response that is made up.
    Respond(Response<Bytes>),
    /// The response breaks off.
    Cut { at: Cut, how: How },
    /// Bytes that are not HTTP.
    Garbage,
    /// The response is lost.
    ActThenReset,
}

impl Play {
    /// Reads the header `x-sandbox-fault`: the fields of the JSON that say what happens.
    pub(crate) fn from_header(value: &[u8]) -> Result<Self, InvalidFault> {
        let fault = Fault::from_json(value)?;
        let what = Fault {
            body: fault.body.clone(),
            ..fault.what()
        };
        if fault != what {
            return Err(InvalidFault(
                "a header is for its own request: leave out method, path, after, times, probability and seed".to_owned(),
            ));
        }
        fault.check()
    }
}

impl TryFrom<String> for Cut {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const EXPECTED: &str = "expected before-head, in-head or after-bytes:N";
        match (text.as_str(), text.strip_prefix("after-bytes:")) {
            ("before-head", _) => Ok(Self::BeforeHead),
            ("in-head", _) => Ok(Self::InHead),
            // Not `+5`, which Rust would accept.
            (_, Some(bytes)) if bytes.bytes().all(|byte| byte.is_ascii_digit()) => {
                bytes.parse().map(Self::AfterBytes).map_err(|_| EXPECTED)
            }
            _ => Err(EXPECTED),
        }
    }
}

impl TryFrom<String> for How {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
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
