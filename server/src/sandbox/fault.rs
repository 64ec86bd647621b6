//! One thing that goes wrong on demand: what happens, and to which requests.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use dealkit::Json;
use http::{Method, StatusCode};

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
pub struct Fault {
    pub(super) status: Option<u64>,
    pub(super) retry_after: Option<String>,
    pub(super) body: Option<FaultBody>,
    pub(super) delay: Option<Duration>,
    pub(super) cut: Option<Cut>,
    pub(super) how: Option<How>,
    pub(super) garbage: bool,
    pub(super) act_then_reset: bool,
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) after: Option<u64>,
    pub(super) times: Times,
    pub(super) probability: Option<f64>,
    pub(super) seed: Option<u64>,
}

/// How often a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    Exactly(u64),
    Forever,
}

impl Default for Times {
    fn default() -> Self {
        Self::Exactly(1)
    }
}

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

/// The body of a response that a fault makes up. Clones share the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FaultBody {
    Text(Bytes),
    Json(Bytes),
}

/// The fault is invalid. The message says which of its fields is wrong and why, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFault(pub(super) String);

impl InvalidFault {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Fault {
    /// A response with this status (200 to 599) in place of the real one; the request is not acted on. Its body is
    /// problem details unless [`body`](Self::body) or [`json`](Self::json) says otherwise.
    pub fn status(status: u16) -> Self {
        Self {
            status: Some(status.into()),
            ..Self::default()
        }
    }

    /// The real response, this much later.
    pub fn delay(delay: Duration) -> Self {
        Self::default().delayed(delay)
    }

    /// A response that breaks off.
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
        self.retry_after = Some(value.to_string());
        self
    }

    /// The body of a [`status`](Self::status), as `text/plain`.
    pub fn body(mut self, text: impl Into<String>) -> Self {
        self.body = Some(FaultBody::Text(text.into().into()));
        self
    }

    /// The body of a [`status`](Self::status), as JSON: as problem details if the status is that of an error.
    pub fn json(mut self, body: impl Into<Json>) -> Self {
        self.body = Some(FaultBody::Json(body.into().as_str().to_owned().into()));
        self
    }

    /// All of it happens this much later: at most an hour.
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// What happens to the connection of a [`cut`](Self::cut); without this it is reset.
    pub fn how(mut self, how: How) -> Self {
        self.how = Some(how);
        self
    }

    /// Only requests with this method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Only requests of this path, such as `/v1/deals/d_1`. A segment in braces, such as the last of `/v1/deals/{id}`,
    /// stands for any segment.
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
        self.times = Times::Exactly(times);
        self
    }

    /// It happens until it is removed.
    pub fn forever(mut self) -> Self {
        self.times = Times::Forever;
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

    /// How many bytes of memory its texts take.
    pub(super) fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let body = match &self.body {
            Some(FaultBody::Text(body) | FaultBody::Json(body)) => body.len(),
            None => 0,
        };
        length(&self.retry_after) + length(&self.method) + length(&self.path) + body
    }

    /// The rule that it comes to, if it makes sense.
    pub(super) fn check(&self) -> Result<Rule, InvalidFault> {
        let method = self.method.as_deref().map(|method| {
            Method::from_bytes(method.as_bytes())
                .map_err(|_| InvalidFault::new("method: expected a method, such as POST"))
        });
        if self
            .path
            .as_ref()
            .is_some_and(|path| !path.starts_with('/'))
        {
            return Err(InvalidFault::new(
                "path: expected a path that begins with a slash, such as /v1/deals/{id}",
            ));
        }
        if self.times == Times::Exactly(0) {
            return Err(InvalidFault::new("times: expected at least 1"));
        }
        let probability = self.probability.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&probability) {
            return Err(InvalidFault::new(
                "probability: expected a number from 0 to 1",
            ));
        }
        Ok(Rule {
            play: Arc::new(self.play()?),
            method: method.transpose()?,
            path: self.path.clone(),
            after: self.after.unwrap_or_default(),
            times: match self.times {
                Times::Exactly(times) => times,
                Times::Forever => u64::MAX,
            },
            probability,
            seed: self.seed.unwrap_or_default(),
        })
    }

    /// What it does to a request.
    pub(super) fn play(&self) -> Result<Play, InvalidFault> {
        let delay = self.delay.unwrap_or_default();
        if delay > MAX_DELAY {
            return Err(InvalidFault::new("delay: expected at most 3600 seconds"));
        }
        if self.status.is_none() && (self.retry_after.is_some() || self.body.is_some()) {
            return Err(InvalidFault::new("retry_after and body need a status"));
        }
        if self.cut.is_none() && self.how.is_some() {
            return Err(InvalidFault::new("how needs a cut"));
        }
        let effect = match (self.status, self.cut, self.garbage, self.act_then_reset) {
            (Some(status), None, false, false) => Effect::Respond(self.made_up(status)?),
            (None, Some(at), false, false) => Effect::Cut {
                at,
                how: self.how.unwrap_or_default(),
            },
            (None, None, true, false) => Effect::Garbage,
            (None, None, false, true) => Effect::ActThenReset,
            (None, None, false, false) if self.delay.is_some() => Effect::None,
            (None, None, false, false) => {
                return Err(InvalidFault::new(
                    "the fault has no effect: expected status, delay, cut, garbage or act_then_reset",
                ));
            }
            _ => {
                return Err(InvalidFault::new(
                    "the fault has more than one effect: expected one of status, cut, garbage and act_then_reset, \
                     each with or without a delay",
                ));
            }
        };
        Ok(Play { delay, effect })
    }

    fn made_up(&self, status: u64) -> Result<MadeUp, InvalidFault> {
        let status = u16::try_from(status)
            .ok()
            .filter(|status| (200..=599).contains(status))
            .and_then(|status| StatusCode::from_u16(status).ok());
        let retry_after = self.retry_after.as_deref().map(|value| {
            http::HeaderValue::from_str(value).map_err(|_| {
                InvalidFault::new("retry_after: expected a valid header value: visible ASCII")
            })
        });
        Ok(MadeUp {
            status: status
                .ok_or_else(|| InvalidFault::new("status: expected a status from 200 to 599"))?,
            retry_after: retry_after.transpose()?,
            body: self.body.clone(),
        })
    }
}

/// A fault that makes sense: what happens, and to which requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) play: Arc<Play>,
    pub(super) method: Option<Method>,
    pub(super) path: Option<String>,
    pub(super) after: u64,
    pub(super) times: u64,
    pub(super) probability: f64,
    pub(super) seed: u64,
}

/// What happens to one request. Shown as in the header `x-sandbox-fault`, without a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Play {
    /// By how much everything is delayed.
    pub(crate) delay: Duration,
    pub(crate) effect: Effect,
}

/// What happens instead of the response, or to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Nothing but a delay.
    None,
    /// A response that is made up.
    Respond(MadeUp),
    /// The response breaks off.
    Cut { at: Cut, how: How },
    /// Bytes that are not HTTP.
    Garbage,
    /// The response is lost.
    ActThenReset,
}

/// A response that a fault makes up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MadeUp {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<http::HeaderValue>,
    body: Option<FaultBody>,
}

impl MadeUp {
    /// The body and its media type; `None` where the fault names none.
    pub(crate) fn body(&self) -> Option<(Bytes, &'static str)> {
        let is_error = self.status.as_u16() >= 400;
        Some(match self.body.clone()? {
            FaultBody::Text(text) => (text, "text/plain; charset=utf-8"),
            FaultBody::Json(json) if is_error => (json, dealkit::wire::PROBLEM_JSON),
            FaultBody::Json(json) => (json, dealkit::wire::JSON),
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
        match &self.effect {
            Effect::None => return Ok(()),
            Effect::Respond(made_up) => {
                write!(f, "{separator}status={}", made_up.status.as_u16())?;
                if let Some(Ok(value)) = made_up.retry_after.as_ref().map(|value| value.to_str()) {
                    write!(f, "; retry_after={value}")?;
                }
            }
            Effect::Cut { at, how } => write!(f, "{separator}cut={at}; how={how}")?,
            Effect::Garbage => write!(f, "{separator}garbage")?,
            Effect::ActThenReset => write!(f, "{separator}act_then_reset")?,
        }
        Ok(())
    }
}
