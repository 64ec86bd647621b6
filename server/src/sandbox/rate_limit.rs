//! How many requests a world accepts: `--rate-limit`.

use std::{fmt, str::FromStr, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::contract::problem::{ProblemType, Refusal};

/// How many requests are let in: at once after a pause, and from then on evenly. `50/s` are those in a second, `600/m` those
/// in a minute.
///
/// ```
/// use dealkit_server::Sandbox;
///
/// let sandbox = Sandbox::builder().rate_limit("50/s".parse()?).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    requests: u32,
    /// In how many of them.
    seconds: u32,
}

/// The text is not a rate limit. The message says what is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 100000 requests in a second or a minute, such as 50/s or 600/m")]
pub struct InvalidRateLimit;

impl FromStr for RateLimit {
    type Err = InvalidRateLimit;

    fn from_str(text: &str) -> Result<Self, InvalidRateLimit> {
        let (requests, unit) = text.split_once('/').ok_or(InvalidRateLimit)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            _ => return Err(InvalidRateLimit),
        };
        match requests.parse() {
            Ok(requests @ 1..=100_000) => Ok(Self { requests, seconds }),
            _ => Err(InvalidRateLimit),
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.seconds == 1 { "s" } else { "m" };
        write!(f, "{}/{unit}", self.requests)
    }
}

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: RateLimit,
    /// When it will be full, or was.
    full: Mutex<Instant>,
}

/// What a limit leaves after a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    limit: RateLimit,
    remaining: u128,
    full_in: Duration,
    /// How long until the next request is let in, if this one was not.
    wait: Option<Duration>,
}

impl Bucket {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            full: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn fill(&self) {
        *self.full.lock() = Instant::now();
    }

    /// Lets a request in, or not.
    pub(crate) fn take(&self) -> Quota {
        let (limit, now) = (self.limit, Instant::now());
        let each = Duration::from_secs(limit.seconds.into()) / limit.requests;
        let all = each * limit.requests;
        let mut full = self.full.lock();
        let missing = full.saturating_duration_since(now);
        let wait = (missing + each).saturating_sub(all);
        let wait = Some(wait).filter(|wait| !wait.is_zero());
        let full_in = wait.map_or(missing + each, |_| missing);
        *full = now + full_in;
        Quota {
            limit,
            remaining: (all - full_in).as_nanos() / each.as_nanos(),
            full_in,
            wait,
        }
    }
}

impl Quota {
    /// Refuses a request that was not let in.
    pub(crate) fn admit(&self) -> Result<(), Refusal> {
        let Some(wait) = self.wait else { return Ok(()) };
        let limit = self.limit;
        let detail = format!("This server accepts {limit}. Wait as long as Retry-After says.");
        let refusal = Refusal::new(ProblemType::RATE_LIMIT, detail);
        Err(refusal.header(header::RETRY_AFTER, up(wait).to_string()))
    }

    /// Adds the headers of draft-ietf-httpapi-ratelimit-headers-11: the quota and its window, and what is left until it is
    /// whole again.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let (quota, window) = (self.limit.requests, self.limit.seconds);
        let policy = format!("\"key\";q={quota};w={window}");
        let left = format!("\"key\";r={};t={}", self.remaining, up(self.full_in));
        for (name, value) in [("ratelimit-policy", policy), ("ratelimit", left)] {
            // Digits and letters always make a valid header value.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Whole seconds, rounded up.
fn up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
