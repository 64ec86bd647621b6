//! Which failures are retried, and the loop that does it.

use std::{future::Future, time::Duration};

use http::Method;

use tokio::time::Instant;

use crate::http::{call_progress::CallInfo, error::TransportError, response::HttpResponse};

/// Which failures are retried, how many times, and after what delay.
///
/// GET and HEAD are retried when no connection could be made (unless the reason is a certificate, that the two sides
/// do not speak the same TLS, or a proxy that wants another password), when the attempt timed out, when the
/// connection broke, and after 408, 429, 500, 502, 503 and 504. If a reused connection breaks before any part of a
/// response arrives, one more attempt is made at once, which does not count as a retry, unless retries are off. Every
/// other method is retried only if it is certain that the service did not act: no connection was made, or the response
/// was 429. The specification has no idempotency key, and a second agent is worse than an error.
///
/// A 401 is a rejection: the service has not acted. If there is another key by now, from a file or a
/// [provider](crate::KeyProvider), every method is attempted once more, at once, which does not count as a retry either.
///
/// The delay grows exponentially, with full jitter; the service's `Retry-After` is its lower bound. If
/// the delay does not fit into the time that the call has left, the error is returned at once.
///
/// A client has a quota of retries, so that a busy one does not send everything three times to a service that is
/// down: out of 500 tokens a retry takes 14, which are returned when the call succeeds. A success at the first
/// attempt earns 1, and so does every second. When the tokens are used up, an error is returned without a retry,
/// and says so. After a 429, or a 503 with `Retry-After`, a retry takes none: in that case all calls of the
/// client wait as long as the service asks (see
/// [`ClientBuilder::rate_limit`](crate::ClientBuilder::rate_limit)).
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
    initial_backoff: Duration,
    max_backoff: Duration,
    retry_non_idempotent: bool,
}

impl RetryPolicy {
    /// The default: 2 retries after the first attempt, backoff from 0.2 s to 5 s.
    pub const fn new() -> Self {
        Self {
            max_retries: 2,
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            retry_non_idempotent: false,
        }
    }

    /// No retries at all.
    pub const fn never() -> Self {
        Self::new().max_retries(0)
    }

    /// How many times a request is retried after the first attempt.
    #[must_use]
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    pub(crate) const fn retries(self) -> u32 {
        self.max_retries
    }

    /// The upper bound of the delay before the first retry, and the largest upper bound.
    #[must_use]
    pub const fn backoff(mut self, initial_backoff: Duration, max_backoff: Duration) -> Self {
        self.initial_backoff = initial_backoff;
        self.max_backoff = max_backoff;
        self
    }

    /// A random fraction of a span that doubles with every retry; `retry` counts them from 0. Such full jitter spreads the
    /// retries of many clients evenly, so that they do not come back all at once.
    fn delay(&self, retry: u32) -> Duration {
        let doubled = 2_u32.checked_pow(retry).unwrap_or(u32::MAX);
        let span = self.initial_backoff.saturating_mul(doubled);
        let span = span.min(self.max_backoff);
        // A span too long for a float's precision is waited for in full.
        Duration::try_from_secs_f64(span.as_secs_f64() * fastrand::f64()).unwrap_or(span)
    }

    /// Retries every method as GET is, even a request that the service may already have acted on. A
    /// create that is retried this way can make a second agent.
    #[must_use]
    pub const fn retry_non_idempotent(mut self, retry: bool) -> Self {
        self.retry_non_idempotent = retry;
        self
    }

    /// Returns true if a request with this method is retried after a timeout.
    pub(crate) fn retries_timeouts(self, method: &Method) -> bool {
        self.max_retries > 0 && (is_safe(method) || self.retry_non_idempotent)
    }

    /// Whether a request with this method that failed with `error` is worth another attempt.
    fn covers(&self, method: &Method, error: &TransportError) -> bool {
        let harmless = is_safe(method) || !error.outcome().may_have_acted();
        error.is_transient() && (harmless || self.retry_non_idempotent)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a request with this method changes nothing, so that sending it twice does no harm.
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Why there is no response that is a success.
pub(crate) enum Unsuccessful<R> {
    /// What the last attempt met.
    Failed(TransportError),
    /// What kept the first attempt from being made.
    Refused(R),
}

/// Makes attempts until one succeeds, the policy or the quota allows no other, or the time is over. Each attempt gets the end of
/// the call's time, on the clock of the traffic. An attempt that is rejected before it is made ends the call. If an earlier attempt
/// has failed, the call's error is that failure, which is more informative.
pub(crate) async fn with_retries<F, R>(
    policy: RetryPolicy,
    call: CallInfo<'_>,
    total: Duration,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<HttpResponse, Unsuccessful<R>>
where
    F: Future<Output = Result<HttpResponse, Unsuccessful<R>>>,
{
    let CallInfo {
        operation,
        progress,
        traffic,
        ..
    } = call;
    let end = traffic.now().saturating_add(total);
    let left = || end.saturating_sub(traffic.now());
    // Attempts that do not count as retries: the first, the one after a stale connection, and the one with a new key.
    let mut uncounted = 1;
    let (mut has_reconnected, mut has_rekeyed) = (false, false);
    // Whether the last attempt was a retry that the quota paid for.
    let mut has_spent = false;
    let mut before: Option<TransportError> = None;
    loop {
        let error = match attempt(end).await {
            Ok(mut response) => {
                call.report_attempt(progress.end_attempt(Instant::now()), Ok(&response), None);
                response.attempts = progress.attempts();
                traffic.quota().succeeded(traffic.now(), has_spent);
                return Ok(response);
            }
            Err(Unsuccessful::Refused(why)) => {
                return Err(before.map_or(Unsuccessful::Refused(why), Unsuccessful::Failed));
            }
            Err(Unsuccessful::Failed(error)) => error,
        };
        let mut error = progress.attempt_failed(error, before.take());
        let attempts = progress.attempts();
        // A closed idle connection says nothing about the service, and the next attempt gets another one.
        let reconnects = !has_reconnected && error.0.was_stale && is_safe(&operation.method);
        let rekeys = !has_rekeyed && error.0.has_new_key;
        let is_free = (reconnects || rekeys) && policy.max_retries > 0;
        has_reconnected |= reconnects;
        has_rekeyed |= rekeys;
        uncounted += u32::from(is_free);
        let retries = attempts.saturating_sub(uncounted);
        if !error.is_transient() && error.status().is_some() {
            // The service is healthy.
            traffic.quota().succeeded(traffic.now(), has_spent);
        }
        let delay = if is_free {
            Some(Duration::ZERO)
        } else if retries < policy.max_retries && policy.covers(&operation.method, &error) {
            let asked = error.retry_after().unwrap_or_default();
            Some(policy.delay(retries).max(asked))
        } else {
            None
        };
        let mut delay = delay.filter(|delay| *delay < left());
        has_spent = delay.is_some() && !is_free && !error.is_overload();
        if has_spent && !traffic.quota().spend(traffic.now()) {
            error = error.not_retried("the client has used up its retry quota");
            delay = None;
        }
        call.report_attempt(progress.end_attempt(Instant::now()), Err(&error), delay);
        let Some(wait) = delay else {
            return Err(Unsuccessful::Failed(error));
        };
        before = Some(error);
        tokio::time::sleep(wait).await;
    }
}
