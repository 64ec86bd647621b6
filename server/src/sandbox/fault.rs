//! One thing that goes wrong on demand: what happens, and to which requests.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;
use dealkit::Json;
use http::{HeaderValue, Method, StatusCode};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    contract::route::{self, fits, is_path},
    sandbox::rate_limit::RateLimit,
};

/// The header that makes a fault happen to the request that carries it: `status=503; retry_after=1`.
pub(crate) const FAULT_HEADER: &str = "x-sandbox-fault";

/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(3_600);

/// The fields of a fault, and what is expected of each: those that say what happens, and then those that say which requests it
/// happens to.
const FIELDS: [(&str, &str); 16] = [
    ("delay", "a number of seconds from 0 to 3600"),
    ("status", "a status from 200 to 599"),
    (
        "retry_after",
        "a number of seconds, or text that is sent as it is: visible ASCII",
    ),
    (
        "body",
        "a string, or an object or array, which is sent as JSON",
    ),
    ("cut", "before-head, in-head or after-bytes:N"),
    ("how", "reset, eof or stall"),
    ("garbage", "true or false"),
    ("act_then_reset", "true or false"),
    (
        "rate_limit",
        "requests in a second or a minute, such as 50/s or 600/m",
    ),
    ("method", "a method, such as POST"),
    (
        "path",
        "a path as it is sent, without a query, such as /v1/deals/{id}",
    ),
    ("after", "a whole number, 0 or more"),
    ("times", "a whole number, 1 or more, or null for no limit"),
    ("probability", "a number from 0 to 1"),
    ("seed", "a whole number, 0 or more"),
    ("lasts", "a number of seconds"),
];

/// How many of them may be in the header.
const IN_HEADER: usize = 8;

/// The fault is invalid. The message says which of its fields is wrong and why, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFault(pub(super) String);

/// Something that goes wrong on demand, and for which requests. By default it happens once, to the next request
/// of /v1, whatever that is.
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
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
#[must_use = "a fault does nothing until a sandbox plays it"]
pub struct Fault(BTreeMap<&'static str, Json>);

/// Where a response is cut: see [`Fault::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[serde(rename_all = "lowercase")]
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
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, InvalidFault> {
        let fields: BTreeMap<String, Json> = serde_json::from_slice(json.as_ref())
            .map_err(|_| InvalidFault("expected a fault, as a JSON object".into()))?;
        let mut fault = Self::default();
        for (name, value) in fields {
            let known = FIELDS.iter().find(|(known, _)| *known == name);
            let unknown =
                || InvalidFault(format!("unknown field: expected {}", names(FIELDS.len())));
            fault.set(known.ok_or_else(unknown)?.0, value);
        }
        fault.check()?;
        Ok(fault)
    }

    /// Sets a field as it was sent.
    fn set(&mut self, name: &'static str, value: Json) {
        let value = match name {
            _ if value.as_str() == "null" && name != "times" => return,
            "garbage" | "act_then_reset" if value.as_str() == "false" => return,
            // A number is sent with the digits that it came with.
            "retry_after" if value.deserialize::<serde_json::Number>().is_ok() => {
                Json::string(value.as_str())
            }
            _ => value,
        };
        self.0.insert(name, value);
    }

    fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
        // Numbers, texts and JSON always serialize.
        self.0
            .extend(Json::from_serialize(&value).ok().map(|value| (name, value)));
        self
    }

    /// A response with this status (200 to 599) in place of the real one; the request is not acted on. Its body is
    /// problem details unless [`body`](Self::body) or [`json`](Self::json) says otherwise.
    pub fn status(status: u16) -> Self {
        Self::default().with("status", status)
    }

    /// The real response, this much later.
    pub fn delay(delay: Duration) -> Self {
        Self::default().delayed(delay)
    }

    /// A 429 with `Retry-After` for requests beyond this rate of their service key, and the headers `RateLimit` and
    /// `RateLimit-Policy` for all others, until it is removed or its time is over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use dealkit_server::Fault;
    ///
    /// Fault::rate_limit("5/s".parse()?).lasts(Duration::from_secs(10));
    /// # Ok::<(), dealkit_server::InvalidRateLimit>(())
    /// ```
    pub fn rate_limit(limit: RateLimit) -> Self {
        Self::default().with("rate_limit", limit.to_string())
    }

    /// A response that breaks off.
    ///
    /// ```
    /// use dealkit_server::{Cut, Fault, How};
    ///
    /// Fault::cut(Cut::AfterBytes(10)).how(How::Stall);
    /// ```
    pub fn cut(cut: Cut) -> Self {
        Self::default().with("cut", cut.to_string())
    }

    /// Bytes that are not HTTP, and then the end of the connection. The request is not acted on.
    pub fn garbage() -> Self {
        Self::default().with("garbage", true)
    }

    /// The request is acted on (the agent is created), and then the connection is reset without a response. Over
    /// HTTP/2, only the stream is reset.
    pub fn act_then_reset() -> Self {
        Self::default().with("act_then_reset", true)
    }

    /// The header `Retry-After` of a [`status`](Self::status): seconds, or any other text, which is sent as it is.
    pub fn retry_after(self, value: impl fmt::Display) -> Self {
        self.with("retry_after", value.to_string())
    }

    /// The body of a [`status`](Self::status), as `text/plain`.
    pub fn body(self, text: impl Into<String>) -> Self {
        self.with("body", text.into())
    }

    /// The body of a [`status`](Self::status), as JSON: as problem details if the status is that of an error.
    pub fn json(self, body: impl Into<Json>) -> Self {
        self.with("body", body.into())
    }

    /// All of it happens this much later: at most an hour.
    pub fn delayed(self, delay: Duration) -> Self {
        self.with("delay", delay.as_secs_f64())
    }

    /// What happens to the connection of a [`cut`](Self::cut); without this it is reset.
    pub fn how(self, how: How) -> Self {
        self.with("how", how)
    }

    /// Only requests with this method, such as `POST`. One that the [`path`](Self::path) does not have is an error of
    /// [`Service::fail_next`](crate::Service::fail_next).
    pub fn method(self, method: impl Into<String>) -> Self {
        self.with("method", method.into())
    }

    /// Only requests of this path, such as `/v1/deals/d_1`. A segment in braces, such as the last of `/v1/deals/{id}`,
    /// stands for any segment. A path that the server does not have is an error of
    /// [`Service::fail_next`](crate::Service::fail_next).
    pub fn path(self, path: impl Into<String>) -> Self {
        self.with("path", path.into())
    }

    /// Only after this many of the requests that it would have happened to.
    pub fn after(self, requests: u64) -> Self {
        self.with("after", requests)
    }

    /// How many times it happens; without this, once, or if it has a rate limit or lasts a while, without end.
    pub fn times(self, times: u64) -> Self {
        self.with("times", times)
    }

    /// It happens until it is removed.
    pub fn forever(self) -> Self {
        self.with("times", None::<u64>)
    }

    /// It is removed this much later.
    pub fn lasts(self, time: Duration) -> Self {
        self.with("lasts", time.as_secs_f64())
    }

    /// The probability with which it happens, from 0 to 1. The [`seed`](Self::seed) determines which requests it
    /// happens to.
    pub fn probability(self, probability: f64) -> Self {
        self.with("probability", probability)
    }

    /// The seed of the [`probability`](Self::probability): another seed hits other requests, the same seed the same
    /// ones. It is 0 by default.
    pub fn seed(self, seed: u64) -> Self {
        self.with("seed", seed)
    }

    /// How many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(|value| value.as_str().len()).sum()
    }

    /// What is to happen, and to which requests, if all of it makes sense.
    pub(crate) fn check(&self) -> Result<(Play, Matching), InvalidFault> {
        let matching = Matching {
            method: self.read("method", Some::<String>)?,
            path: self.read("path", |path: String| {
                let is_sent = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
                path.bytes().all(is_sent).then_some(path)
            })?,
            after: self.read("after", Some)?.unwrap_or_default(),
            times: self
                .read("times", |times| (times != Some(0)).then_some(times))?
                .unwrap_or((!self.has("rate_limit") && !self.has("lasts")).then_some(1)),
            probability: self
                .read("probability", |chance| {
                    (0.0..=1.0).contains(&chance).then_some(chance)
                })?
                .unwrap_or(1.0),
            seed: self.read("seed", Some)?.unwrap_or_default(),
            rate_limit: self.read("rate_limit", |text: String| text.parse().ok())?,
            lasts: self.read("lasts", |seconds| Duration::try_from_secs_f64(seconds).ok())?,
        };
        let (method, path) = (matching.method.as_deref(), matching.path.as_deref());
        route::check_selection(method, path).map_err(InvalidFault)?;
        let delay = self.read("delay", |seconds| {
            let delay = Duration::try_from_secs_f64(seconds).ok();
            delay.filter(|delay| *delay <= MAX_DELAY)
        })?;
        let retry_after = self.read("retry_after", |text: String| {
            HeaderValue::try_from(text).ok()
        })?;
        let body = self.read("body", |json: Json| {
            match json.as_str().as_bytes().first() {
                Some(b'"') => Some(FaultBody::Text(json.deserialize::<String>().ok()?.into())),
                Some(b'{' | b'[') => Some(FaultBody::Json(json.as_str().to_owned().into())),
                _ => None,
            }
        })?;
        let play = Play {
            delay: delay.unwrap_or_default(),
            effect: self.effect()?,
            retry_after,
            body,
            shown: self.shown(),
        };
        Ok((play, matching))
    }

    /// A field, if there is one; it is invalid if it has another type or `valid` returns none.
    fn read<T: DeserializeOwned, V>(
        &self,
        name: &str,
        valid: impl FnOnce(T) -> Option<V>,
    ) -> Result<Option<V>, InvalidFault> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let value = value.deserialize().ok().and_then(valid);
        value.map(Some).ok_or_else(|| {
            let what = FIELDS.iter().find(|(known, _)| *known == name);
            InvalidFault(format!(
                "{name}: expected {}",
                what.map_or("", |(_, what)| what)
            ))
        })
    }

    /// What happens, as in the header, without a body.
    fn shown(&self) -> String {
        let shown = FIELDS.iter().take(IN_HEADER + 1).filter_map(|(name, _)| {
            let value = self.0.get(name).filter(|_| *name != "body")?;
            let text = value
                .deserialize()
                .unwrap_or_else(|_| value.as_str().to_owned());
            Some(format!("{name}={text}"))
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn effect(&self) -> Result<Effect, InvalidFault> {
        let invalid = |text: &str| Err(InvalidFault(text.to_owned()));
        let status = self.read("status", |status| {
            let status = StatusCode::from_u16(status).ok();
            status.filter(|status| (200..=599).contains(&status.as_u16()))
        })?;
        let at = self.read("cut", |cut: String| Cut::parse(&cut))?;
        let how = self.read("how", Some)?;
        let has = |name| self.has(name);
        if status.is_none() && (has("retry_after") || has("body")) {
            return invalid("retry_after and body need a status");
        }
        if at.is_none() && how.is_some() {
            return invalid("how needs a cut");
        }
        let how = how.unwrap_or_default();
        let effects = [
            status.map(Effect::Respond),
            at.map(|at| Effect::Cut { at, how }),
            self.read("garbage", Some)?.map(|_: bool| Effect::Garbage),
            self.read("act_then_reset", Some)?
                .map(|_: bool| Effect::ActThenReset),
        ];
        let mut effects = effects.into_iter().flatten();
        match (effects.next(), effects.next()) {
            (Some(effect), None) => Ok(effect),
            (None, _) if has("delay") => Ok(Effect::None),
            (None, _) if has("rate_limit") => Ok(Effect::Limit),
            (None, _) => invalid(
                "the fault has no effect: expected status, delay, cut, garbage, act_then_reset or rate_limit",
            ),
            (Some(_), Some(_)) => invalid(
                "the fault has more than one effect: expected one of status, cut, garbage and act_then_reset, each \
                 with or without a delay",
            ),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.0.iter().map(|(name, value)| (name, value.as_str()));
        f.debug_map().entries(fields).finish()
    }
}

/// The names of the first fields.
fn names(count: usize) -> String {
    let names: Vec<_> = FIELDS.iter().take(count).map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Which requests a fault happens to.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    method: Option<String>,
    path: Option<String>,
    /// How many of them are spared first.
    pub(super) after: u64,
    /// How often it happens; `None` for no limit.
    pub(super) times: Option<u64>,
    pub(super) probability: f64,
    pub(super) seed: u64,
    pub(super) rate_limit: Option<RateLimit>,
    pub(super) lasts: Option<Duration>,
}

impl Matching {
    /// Whether it selects a request, which chance may spare.
    pub(super) fn selects(&self, method: &Method, path: &str) -> bool {
        (self.method.as_ref()).is_none_or(|only| only == method.as_str())
            && (self.path.as_ref()).is_none_or(|only| is_path(path, only, fits))
    }
}

/// What happens to one request: a fault that makes sense.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    /// By how much everything is delayed.
    pub(crate) delay: Duration,
    pub(crate) effect: Effect,
    pub(crate) retry_after: Option<HeaderValue>,
    pub(crate) body: Option<FaultBody>,
    /// What the journal says: the header that makes it happen.
    pub(crate) shown: String,
}

/// The body of a response that is made up.
#[derive(Clone, Debug)]
pub(crate) enum FaultBody {
    Text(Bytes),
    Json(Bytes),
}

/// What happens instead of the response, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing but a delay.
    None,
    /// A response that is made up, with this status.
    Respond(StatusCode),
    /// What the service responds to requests beyond a limit.
    Limit,
    /// The response breaks off.
    Cut { at: Cut, how: How },
    /// Bytes that are not HTTP.
    Garbage,
    /// The response is lost.
    ActThenReset,
}

impl Play {
    /// Reads the header `x-sandbox-fault`: the fields of the JSON that say what happens, as `name=value`, with
    /// semicolons between them. `garbage` and `act_then_reset` need no value.
    pub(crate) fn from_header(value: &[u8]) -> Result<Self, InvalidFault> {
        let malformed = || {
            InvalidFault(format!(
                "expected name=value pairs separated by semicolons, such as status=503; retry_after=1; \
                 the names are {}",
                names(IN_HEADER)
            ))
        };
        let text = std::str::from_utf8(value).map_err(|_| malformed())?;
        let mut fault = Fault::default();
        for pair in text.split(';') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
            let (name, value) = (name.trim(), value.trim());
            let mut known = FIELDS.iter().take(IN_HEADER);
            let (name, _) = known
                .find(|(known, _)| *known == name)
                .ok_or_else(malformed)?;
            // A body is text, whatever it looks like.
            let json = Json::parse(value).ok().filter(|_| *name != "body");
            fault.set(name, json.unwrap_or_else(|| Json::string(value)));
        }
        fault.check().map(|(play, _)| play)
    }
}

impl Cut {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "before-head" => Self::BeforeHead,
            "in-head" => Self::InHead,
            _ => {
                let bytes = text.strip_prefix("after-bytes:")?;
                // Not `+5`, which Rust would accept.
                let is_number = bytes.bytes().all(|byte| byte.is_ascii_digit());
                Self::AfterBytes(bytes.parse().ok().filter(|_| is_number)?)
            }
        })
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeHead => f.write_str("before-head"),
            Self::InHead => f.write_str("in-head"),
            Self::AfterBytes(bytes) => write!(f, "after-bytes:{bytes}"),
        }
    }
}
