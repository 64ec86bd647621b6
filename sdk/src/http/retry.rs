//! Which failures are tried again, and the loop that does it.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use http::Method;

use super::{backoff::Backoff, retry_after::retry_after, send::Answer, trace};
use crate::error::{Delivery, Error, ErrorKind};

/// Which failures are tried again, how often, and after what wait.
///
/// GET and HEAD are tried again when no connection could be made, when no answer came in time, when the
/// connection broke, and after 408, 429, 500, 502, 503 and 504. Every other method is tried again only
/// where it is certain that the service did not act: no connection was made, or it answered 429. The
/// specification has no idempotency key, and a second agent is worse than an error.
///
/// The wait grows exponentially and is jittered in full; the service's `Retry-After` is its floor. When
/// the wait does not fit into the time that the call has left, the error comes back at once.
///
/// ```
/// use std::time::Duration;
///
/// use dealkit::{Client, RetryPolicy};
///
/// let client = Client::builder()
///     .base_url("https://deals.example.com")
///     .service_key("my-key")
///     .retry(RetryPolicy::new().max_retries(4).backoff(Duration::from_millis(100), Duration::from_secs(2)))
///     .build()?;
/// let call = client.deals().retrieve("d_1").retry(RetryPolicy::never());
/// # let _ = call;
/// # Ok::<(), dealkit::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    max_retries: u32,
    backoff: Backoff,
    even_if_it_may_have_acted: bool,
}

impl RetryPolicy {
    /// The default: 2 retries after the first attempt, backoff from 0.2 s to 5 s.
    pub const fn new() -> Self {
        Self {
            max_retries: 2,
            backoff: Backoff {
                first: Duration::from_millis(200),
                longest: Duration::from_secs(5),
            },
            even_if_it_may_have_acted: false,
        }
    }

    /// No retries at all.
    pub const fn never() -> Self {
        Self::new().max_retries(0)
    }

    /// How many times a request is tried again after the first attempt.
    #[must_use]
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// The span of the wait before the first retry, and the longest span.
    #[must_use]
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Backoff { first, longest };
        self
    }

    /// Retries every method as GET is: also a request that the service may already have acted on. A
    /// create that is tried again this way can make a second agent.
    #[must_use]
    pub const fn even_if_it_may_have_acted(mut self, retry: bool) -> Self {
        self.even_if_it_may_have_acted = retry;
        self
    }

    /// Whether a request of this method that failed with `error` is worth another attempt.
    fn covers(&self, method: &Method, error: &Error) -> bool {
        let certain = did_not_act(error);
        if self.even_if_it_may_have_acted || is_safe(method) {
            certain || may_pass(error)
        } else {
            certain
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a request of this method changes nothing, so that sending it twice does no harm.
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether it is certain that the service did not act on the request.
fn did_not_act(error: &Error) -> bool {
    error.is_rate_limited() || (error.is_connection() && error.delivery() == Delivery::NotSent)
}

/// Whether the failure is of a kind that passes by itself.
fn may_pass(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Status => error
            .status()
            .is_some_and(|status| matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)),
        _ => error.is_connection(),
    }
}

/// Time and chance, so that a test can stand in for both.
pub(crate) trait Surroundings {
    /// Time that has passed since the call began.
    fn elapsed(&self) -> Duration;
    /// The time of day, which `Retry-After` dates are counted from.
    fn time_of_day(&self) -> SystemTime;
    /// A random number from 0 to 1.
    fn share(&self) -> f64;
    /// Waits.
    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send;
}

/// The real ones.
pub(crate) struct Reality {
    began: tokio::time::Instant,
}

impl Reality {
    pub(crate) fn new() -> Self {
        Self {
            began: tokio::time::Instant::now(),
        }
    }
}

impl Surroundings for Reality {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn share(&self) -> f64 {
        fastrand::f64()
    }

    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(wait)
    }
}

/// Makes attempts until one succeeds, the policy gives up, or the time is over. Each attempt is given
/// the time that is left.
pub(crate) async fn with_retries<F>(
    policy: RetryPolicy,
    method: &Method,
    total: Duration,
    surroundings: &impl Surroundings,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<Answer, Error>
where
    F: Future<Output = Result<Answer, Error>>,
{
    let mut attempts = 0;
    // Whether an attempt before the last one leaves it open what the service did.
    let mut may_have_acted = false;
    loop {
        let left = total.saturating_sub(surroundings.elapsed());
        let outcome = attempt(left).await;
        attempts += 1;
        let error = match outcome {
            Ok(mut answer) => {
                answer.attempts = attempts;
                return Ok(answer);
            }
            Err(error) => error,
        };
        let asked = error
            .headers()
            .and_then(|headers| retry_after(headers, surroundings.time_of_day()));
        let certain = did_not_act(&error);
        let again = attempts <= policy.max_retries && policy.covers(method, &error);
        let error = error.after(attempts, asked, may_have_acted);
        if !again {
            return Err(error);
        }
        let wait = policy
            .backoff
            .wait(attempts - 1, surroundings.share())
            .max(asked.unwrap_or_default());
        if wait >= total.saturating_sub(surroundings.elapsed()) {
            return Err(error);
        }
        trace::trying_again(attempts, wait, &error);
        may_have_acted |= !certain;
        surroundings.sleep(wait).await;
    }
}
