//! How many requests a world accepts: `--rate-limit`.

use std::{num::NonZeroU16, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::contract::problem::{ProblemType, Refusal};

/// In how much time the requests of a limit are let in: at once after a pause, and from then on evenly.
const WINDOW: Duration = Duration::from_secs(1);

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: NonZeroU16,
    /// When it will be full, or was.
    full: Mutex<Instant>,
}

/// What a limit leaves after a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    limit: NonZeroU16,
    remaining: u128,
    full_in: Duration,
    /// How long until the next request is let in, if this one was not.
    wait: Option<Duration>,
}

impl Bucket {
    pub(super) fn new(limit: NonZeroU16) -> Self {
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
        let each = WINDOW / u32::from(limit.get());
        let all = each * u32::from(limit.get());
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
        let detail = format!("This server accepts {limit}/s. Wait as long as Retry-After says.");
        let refusal = Refusal::new(ProblemType::RATE_LIMIT, detail);
        Err(refusal.header(header::RETRY_AFTER, up(wait).to_string()))
    }

    /// Adds the headers of draft-ietf-httpapi-ratelimit-headers-11: the quota and its window, and what is left until it is
    /// whole again.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let policy = format!("\"key\";q={};w={}", self.limit, WINDOW.as_secs());
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
