//! One thing that goes wrong on demand: what happens, and to which requests.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use dealkit::{Json, wire};
use http::{HeaderValue, Method, StatusCode};

use crate::sandbox::fault_fields::{FaultBody, FaultFields, InvalidFault, Times, expected};

/// The header that makes a fault happen to the request that carries it: `status=503; retry_after=1`.
pub(crate) const FAULT_HEADER: &str = "x-sandbox-fault";

/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(3_600);

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
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "a fault does nothing until a sandbox plays it"]
pub struct Fault(pub(super) FaultFields);

/// Where a response is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What happens to the connection where a response is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let fault = Self(FaultFields::from_json(text)?);
        fault.clone().check()?;
        Ok(fault)
    }

    /// A response with this status (200 to 599) in place of the real one; the request is not acted on. Its body is
    /// problem details unless [`body`](Self::body) or [`json`](Self::json) says otherwise.
    pub fn status(status: u16) -> Self {
        let mut fault = Self::default();
        fault.0.status = Some(status);
        fault
    }

    /// The real response, this much later.
    pub fn delay(delay: Duration) -> Self {
        Self::default().delayed(delay)
    }

    /// A response that breaks off.
    pub fn cut(cut: Cut) -> Self {
        let mut fault = Self::default();
        fault.0.cut = Some(cut.to_string());
        fault
    }

    /// Bytes that are not HTTP, and then the end of the connection. The request is not acted on.
    pub fn garbage() -> Self {
        let mut fault = Self::default();
        fault.0.garbage = Some(true);
        fault
    }

    /// The request is acted on (the agent is created), and then the connection is reset without a response. Over
    /// HTTP/2, only the stream is reset.
    pub fn act_then_reset() -> Self {
        let mut fault = Self::default();
        fault.0.act_then_reset = Some(true);
        fault
    }

    /// The header `Retry-After` of a [`status`](Self::status): seconds, or any other text, which is sent as it is.
    pub fn retry_after(mut self, value: impl fmt::Display) -> Self {
        self.0.retry_after = Some(value.to_string());
        self
    }

    /// The body of a [`status`](Self::status), as `text/plain`.
    pub fn body(mut self, text: impl Into<String>) -> Self {
        self.0.body = Some(FaultBody::Text(text.into()));
        self
    }

    /// The body of a [`status`](Self::status), as JSON: as problem details if the status is that of an error.
    pub fn json(mut self, body: impl Into<Json>) -> Self {
        self.0.body = Some(FaultBody::Json(body.into()));
        self
    }

    /// All of it happens this much later: at most an hour.
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.0.delay = Some(delay.as_secs_f64());
        self
    }

    /// What happens to the connection of a [`cut`](Self::cut); without this it is reset.
    pub fn how(mut self, how: How) -> Self {
        self.0.how = Some(how.to_string());
        self
    }

    /// Only requests with this method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.0.method = Some(method.into());
        self
    }

    /// Only requests of this path, such as `/v1/deals/d_1`. A segment in braces, such as the last of `/v1/deals/{id}`,
    /// stands for any segment.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// Only after this many of the requests that it would have happened to.
    pub fn after(mut self, requests: u64) -> Self {
        self.0.after = Some(requests);
        self
    }

    /// How many times it happens; without this, once.
    pub fn times(mut self, times: u64) -> Self {
        self.0.times = Times(Some(times));
        self
    }

    /// It happens until it is removed.
    pub fn forever(mut self) -> Self {
        self.0.times = Times(None);
        self
    }

    /// The probability with which it happens, from 0 to 1. The [`seed`](Self::seed) determines which requests it
    /// happens to.
    pub fn probability(mut self, probability: f64) -> Self {
        self.0.probability = Some(probability);
        self
    }

    /// The seed of the [`probability`](Self::probability): another seed hits other requests, the same seed the same
    /// ones. It is 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = Some(seed);
        self
    }

    /// How many bytes of memory its texts take.
    pub(super) fn bytes(&self) -> usize {
        let FaultFields {
            retry_after,
            body,
            method,
            path,
            ..
        } = &self.0;
        let texts = [retry_after, method, path].into_iter().flatten();
        texts.map(String::len).sum::<usize>() + body.as_ref().map_or(0, |body| body.text().len())
    }

    /// What it does to a request that it selects, if all of it makes sense.
    pub(super) fn check(self) -> Result<Play, InvalidFault> {
        let fields = &self.0;
        let method = fields.method.as_ref();
        if method.is_some_and(|method| Method::from_bytes(method.as_bytes()).is_err()) {
            return Err(expected("method", "a method, such as POST"));
        }
        if (fields.path.as_ref()).is_some_and(|path| !path.starts_with('/')) {
            return Err(expected(
                "path",
                "a path that begins with a slash, such as /v1/deals/{id}",
            ));
        }
        if fields.times.0 == Some(0) {
            return Err(expected("times", "at least 1"));
        }
        if !(0.0..=1.0).contains(&fields.probability.unwrap_or_default()) {
            return Err(expected("probability", "a number from 0 to 1"));
        }
        Ok(Play {
            delay: self.checked_delay()?,
            effect: self.effect()?,
            fault: Arc::new(self),
        })
    }

    fn checked_delay(&self) -> Result<Duration, InvalidFault> {
        let delay = Duration::try_from_secs_f64(self.0.delay.unwrap_or_default());
        let delay = delay.map_err(|_| expected("delay", "a number of seconds from 0 to 3600"))?;
        if delay > MAX_DELAY {
            return Err(expected("delay", "at most 3600 seconds"));
        }
        Ok(delay)
    }

    fn effect(&self) -> Result<Effect, InvalidFault> {
        let fields = &self.0;
        let invalid = |text: &str| Err(InvalidFault(text.to_owned()));
        if fields.status.is_none() && (fields.retry_after.is_some() || fields.body.is_some()) {
            return invalid("retry_after and body need a status");
        }
        if fields.cut.is_none() && fields.how.is_some() {
            return invalid("how needs a cut");
        }
        let status = fields.status.map(Effect::respond).transpose()?;
        let how = fields.how.as_deref();
        let cut = fields.cut.as_deref().map(|at| Effect::cut(at, how));
        let effects = [
            status,
            cut.transpose()?,
            fields.garbage.map(|_| Effect::Garbage),
            fields.act_then_reset.map(|_| Effect::ActThenReset),
        ];
        let mut effects = effects.into_iter().flatten();
        match (effects.next(), effects.next()) {
            (Some(effect), None) => {
                self.header_value()?;
                Ok(effect)
            }
            (None, _) if fields.delay.is_some() => Ok(Effect::None),
            (None, _) => invalid(
                "the fault has no effect: expected status, delay, cut, garbage or act_then_reset",
            ),
            (Some(_), Some(_)) => invalid(
                "the fault has more than one effect: expected one of status, cut, garbage and act_then_reset, each \
                 with or without a delay",
            ),
        }
    }

    fn header_value(&self) -> Result<Option<HeaderValue>, InvalidFault> {
        let value = self.0.retry_after.as_deref().map(HeaderValue::from_str);
        value
            .transpose()
            .map_err(|_| expected("retry_after", "a valid header value: visible ASCII"))
    }

    /// Whether it selects a request.
    pub(super) fn selects(&self, method: &Method, path: &str) -> bool {
        (self.0.method.as_ref()).is_none_or(|only| only == method.as_str())
            && (self.0.path.as_ref()).is_none_or(|only| is_path(path, only))
    }
}

/// Whether `path` matches `only`, in which a segment in braces stands for any segment.
fn is_path(path: &str, only: &str) -> bool {
    let mut segments = path.split('/');
    only.split('/').all(|expected| {
        let any = expected.starts_with('{') && expected.ends_with('}');
        segments
            .next()
            .is_some_and(|segment| segment == expected || (any && !segment.is_empty()))
    }) && segments.next().is_none()
}

/// What happens to one request: a fault that makes sense. Shown as in the header `x-sandbox-fault`, without a body.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    /// By how much everything is delayed.
    pub(crate) delay: Duration,
    pub(crate) effect: Effect,
    pub(super) fault: Arc<Fault>,
}

/// What happens instead of the response, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing but a delay.
    None,
    /// A response that is made up, with this status.
    Respond(StatusCode),
    /// The response breaks off.
    Cut { at: Cut, how: How },
    /// Bytes that are not HTTP.
    Garbage,
    /// The response is lost.
    ActThenReset,
}

impl Effect {
    fn respond(status: u16) -> Result<Self, InvalidFault> {
        let status = StatusCode::from_u16(status).ok();
        let status = status.filter(|status| (200..=599).contains(&status.as_u16()));
        status
            .map(Self::Respond)
            .ok_or_else(|| expected("status", "a status from 200 to 599"))
    }

    fn cut(at: &str, how: Option<&str>) -> Result<Self, InvalidFault> {
        let invalid = || expected("cut", "before-head, in-head or after-bytes:N");
        let at = Cut::parse(at).ok_or_else(invalid)?;
        let how = how.map_or(Some(How::default()), How::parse);
        let how = how.ok_or_else(|| expected("how", "reset, eof or stall"))?;
        Ok(Self::Cut { at, how })
    }
}

impl Play {
    /// What the header `x-sandbox-fault` asks for.
    pub(crate) fn from_header(value: &[u8]) -> Result<Self, InvalidFault> {
        Fault(FaultFields::from_header(value)?).check()
    }

    /// The body of the response that is made up, and its media type; `None` where the fault names none.
    pub(crate) fn body(&self, status: StatusCode) -> Option<(Bytes, &'static str)> {
        let body = self.fault.0.body.as_ref()?;
        let media_type = match body {
            FaultBody::Text(_) => "text/plain; charset=utf-8",
            FaultBody::Json(_) if status.as_u16() >= 400 => wire::PROBLEM_JSON,
            FaultBody::Json(_) => wire::JSON,
        };
        Some((Bytes::copy_from_slice(body.text().as_bytes()), media_type))
    }

    pub(crate) fn retry_after(&self) -> Option<HeaderValue> {
        self.fault.header_value().ok().flatten()
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

impl How {
    fn parse(text: &str) -> Option<Self> {
        let mut all = [Self::Reset, Self::Eof, Self::Stall].into_iter();
        all.find(|how| how.to_string() == text)
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

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "reset",
            Self::Eof => "eof",
            Self::Stall => "stall",
        })
    }
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if !self.delay.is_zero() || self.effect == Effect::None {
            write!(f, "delay={}", self.delay.as_secs_f64())?;
            separator = "; ";
        }
        match self.effect {
            Effect::None => Ok(()),
            Effect::Respond(status) => {
                write!(f, "{separator}status={}", status.as_u16())?;
                let mut retry_after = self.fault.0.retry_after.iter();
                retry_after.try_for_each(|value| write!(f, "; retry_after={value}"))
            }
            Effect::Cut { at, how } => write!(f, "{separator}cut={at}; how={how}"),
            Effect::Garbage => write!(f, "{separator}garbage"),
            Effect::ActThenReset => write!(f, "{separator}act_then_reset"),
        }
    }
}
