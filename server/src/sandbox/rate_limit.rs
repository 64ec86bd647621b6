//! How many requests each service key may send: `--rate-limit`, and the field `rate_limit` of a fault.

use std::{fmt, str::FromStr, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::Instant;

use crate::contract::{
    auth::ServiceKey,
    problem::{ProblemType, Refusal},
};

/// How many requests of each service key are let in: at once after a pause, and from then on evenly. `50/s` are those in a second,
/// `600/m` those in a minute.
///
/// ```
/// use dealkit_server::{Fault, Sandbox};
///
/// let sandbox = Sandbox::builder().rate_limit("50/s".parse()?).start()?;
/// sandbox.fail_next(Fault::rate_limit("600/m".parse()?))?;
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

/// A token bucket for each key: when those will be full that are not.
#[derive(Debug, Default)]
pub(super) struct Buckets(Vec<(ServiceKey, Instant)>);

/// What a limit leaves to a key after a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    limit: RateLimit,
    remaining: u128,
    full_in: Duration,
    /// How long until the next request is let in, if this one was not.
    pub(crate) wait: Option<Duration>,
}

impl Buckets {
    /// Lets a request in, or not.
    pub(super) fn take(&mut self, limit: RateLimit, key: &[u8], now: Instant) -> Quota {
        let each = Duration::from_secs(limit.seconds.into()) / limit.requests;
        let all = each * limit.requests;
        self.0.retain(|(_, full)| *full > now);
        let found = self.0.iter_mut().find(|(of, _)| of.matches(key));
        let missing = found
            .as_ref()
            .map_or(Duration::ZERO, |(_, full)| *full - now);
        let wait = (missing + each).saturating_sub(all);
        let wait = Some(wait).filter(|wait| !wait.is_zero());
        let full_in = wait.map_or(missing + each, |_| missing);
        match found {
            Some((_, full)) => *full = now + full_in,
            // Only keys that are accepted come here, and those are text.
            None => self.0.extend(
                ServiceKey::new(String::from_utf8_lossy(key)).map(|key| (key, now + full_in)),
            ),
        }
        Quota {
            limit,
            remaining: (all - full_in).as_nanos() / each.as_nanos(),
            full_in,
            wait,
        }
    }
}

impl Quota {
    /// What is said to a request that was not let in.
    pub(crate) fn refusal(&self) -> Refusal {
        let limit = self.limit;
        let detail =
            format!("Each service key may send {limit}. Wait as long as Retry-After says.");
        let seconds = up(self.wait.unwrap_or_default());
        Refusal::new(ProblemType::RATE_LIMIT, detail)
            .header(header::RETRY_AFTER, seconds.to_string())
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
