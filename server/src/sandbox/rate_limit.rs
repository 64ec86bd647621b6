//! The rate limit of each namespace (`--rate-limit`): a token bucket.

use std::{num::NonZeroU16, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::contract::problem::{ProblemType, Rejection};

/// The window of the rate limit. After a pause, a namespace may send the requests of a whole window in a burst; then it must send
/// requests evenly.
const WINDOW: Duration = Duration::from_secs(1);

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    limit: NonZeroU16,
    /// The time at which the bucket is full.
    full_at: Mutex<Instant>,
}

/// The state of the limit after a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    limit: NonZeroU16,
    remaining: u128,
    time_until_full: Duration,
    /// `None` if the request is accepted; otherwise the time until the next request is accepted.
    wait: Option<Duration>,
}

impl Bucket {
    pub(super) fn new(limit: NonZeroU16) -> Self {
        Self {
            limit,
            full_at: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn refill(&self) {
        *self.full_at.lock() = Instant::now();
    }

    /// Takes a token for a request, if the bucket has one.
    pub(crate) fn take_token(&self) -> Quota {
        let (limit, now) = (self.limit, Instant::now());
        let per_token = WINDOW / u32::from(limit.get());
        let capacity = per_token * u32::from(limit.get());
        let mut full_at = self.full_at.lock();
        let missing = full_at.saturating_duration_since(now);
        let wait = (missing + per_token).saturating_sub(capacity);
        let wait = Some(wait).filter(|wait| !wait.is_zero());
        let time_until_full = wait.map_or(missing + per_token, |_| missing);
        *full_at = now + time_until_full;
        Quota {
            limit,
            remaining: (capacity - time_until_full).as_nanos() / per_token.as_nanos(),
            time_until_full,
            wait,
        }
    }
}

impl Quota {
    /// Checks that the request is within the limit.
    ///
    /// # Errors
    /// If the bucket had no token for the request.
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        let Some(wait) = self.wait else { return Ok(()) };
        let limit = self.limit;
        let detail = format!("This server accepts {limit}/s. Wait as long as Retry-After says.");
        let rejection = Rejection::new(ProblemType::RATE_LIMIT, detail);
        Err(rejection.header(header::RETRY_AFTER, ceil_seconds(wait).to_string()))
    }

    /// Adds the headers of draft-ietf-httpapi-ratelimit-headers-11: the quota and its window, the remaining requests, and the
    /// time until the quota is full.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        let policy = format!("\"key\";q={};w={}", self.limit, WINDOW.as_secs());
        let state = format!(
            "\"key\";r={};t={}",
            self.remaining,
            ceil_seconds(self.time_until_full)
        );
        for (name, value) in [("ratelimit-policy", policy), ("ratelimit", state)] {
            // Letters, digits and punctuation are always a valid header value.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Rounds up to whole seconds.
fn ceil_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
