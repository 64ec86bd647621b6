//! Retry policy and retry loop.

use std::{future::Future, time::Duration};

use http::Method;

use tokio::time::Instant;

use crate::{
    transport::{call_progress::CallInfo, error::TransportError, response::HttpResponse},
    value::format_duration::format_seconds,
};

/// A policy for retries: after which failures a request is sent again, how many times, and after what delay.
///
/// GET and HEAD are retried if no connection could be made, if the attempt timed out, if the connection broke, and after 408, 429,
/// 500, 502, 503 and 504. They are not retried after a certificate error, if client and service have no TLS version in common,
/// or if a proxy requires another password. If a reused connection breaks before any part of a response arrives, one more attempt
/// follows immediately, unless retries are off; it does not count as a retry. All other methods are retried only if it is certain
/// that the service did not act: no connection was made, or the response was 429. The specification has no idempotency key, and
/// a second agent is worse than an error.
///
/// After a 401, the service has not acted. If the key has changed meanwhile, in its file or at its
/// [provider](crate::KeyProvider), every method is sent once more, immediately; this attempt does not count as a retry either.
///
/// The delay grows exponentially, with full jitter, and is at least the service's `Retry-After`. If the delay exceeds
/// the time that is left for the call, the error is returned immediately.
///
/// A client has a retry quota, so that a busy client does not triple the load on a service that is down. The quota is 500
/// tokens. A retry takes 14 tokens, which are returned if the call succeeds. A call that succeeds at the first attempt earns 1
/// token, and every second adds 1. When the tokens are used up, calls fail without a retry, and the error message says so. A
/// retry after a 429, or a 503 with `Retry-After`, takes no tokens, because the client's rate limiter delays it (see
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
///     .retry(RetryPolicy::new().max_retries(4).max_backoff(Duration::from_secs(2)))
///     .build()?;
/// let call = client.deals().retrieve("d_1").retry(RetryPolicy::never());
/// # let _ = call;
/// # Ok::<(), dealkit::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias("retries", "backoff"))]
pub struct RetryPolicy {
    max_retries: u32,
    initial_backoff: Duration,
    max_backoff: Duration,
    retry_non_idempotent: bool,
}

impl RetryPolicy {
    /// Creates the default policy: 2 retries after the first attempt, backoff from 0.2 s to 5 s.
    pub const fn new() -> Self {
        Self {
            max_retries: 2,
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            retry_non_idempotent: false,
        }
    }

    /// Creates a policy without retries.
    pub const fn never() -> Self {
        Self::new().max_retries(0)
    }

    /// Sets the maximum number of retries after the first attempt.
    #[must_use]
    pub const fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    pub(crate) const fn retry_limit(self) -> u32 {
        self.max_retries
    }

    /// Sets the upper bound of the delay before the first retry. Default: 0.2 s. The bound doubles with each retry.
    #[must_use]
    pub const fn initial_backoff(mut self, initial_backoff: Duration) -> Self {
        self.initial_backoff = initial_backoff;
        self
    }

    /// Sets the maximum of the upper bound. Default: 5 s.
    #[must_use]
    pub const fn max_backoff(mut self, max_backoff: Duration) -> Self {
        self.max_backoff = max_backoff;
        self
    }

    /// Returns the delay before a retry, counted from 0: a random fraction of a bound that doubles with every retry. This full
    /// jitter spreads the retries of many clients evenly.
    fn backoff_delay(&self, retry: u32) -> Duration {
        let factor = 2_u32.checked_pow(retry).unwrap_or(u32::MAX);
        let bound = self.initial_backoff.saturating_mul(factor);
        let bound = bound.min(self.max_backoff);
        // The product may round up beyond the longest possible duration.
        Duration::try_from_secs_f64(bound.as_secs_f64() * fastrand::f64()).unwrap_or(bound)
    }

    /// Sets whether every method is retried like GET, even if the service may already have acted on the request. A create
    /// that is retried this way can create a second agent.
    #[must_use]
    pub const fn retry_non_idempotent(mut self, retry: bool) -> Self {
        self.retry_non_idempotent = retry;
        self
    }

    /// Returns true if a request with this method is retried after a timeout.
    pub(crate) fn retries_timeouts(self, method: &Method) -> bool {
        self.max_retries > 0 && (is_read(method) || self.retry_non_idempotent)
    }

    /// Returns true if the policy allows a retry of a request with this method that failed with `error`.
    fn allows_retry(&self, method: &Method, error: &TransportError) -> bool {
        let is_harmless = is_read(method) || !error.outcome().may_have_acted();
        error.is_transient() && (is_harmless || self.retry_non_idempotent)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns true for the methods of reads: such a request may be sent again after any failure, because it changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// An attempt without a successful response.
pub(crate) enum AttemptError<R> {
    Failed(TransportError),
    /// The attempt was not made, for this reason.
    NotMade(R),
}

/// Makes attempts until one succeeds, the policy or the quota allows no retry, or the time is over. Each attempt gets the
/// deadline of the call, as a duration since the client was created (`SharedLimits::now`). An attempt that is not made ends the
/// call, with the error of the attempt before it, if any.
pub(crate) async fn run_attempts<F, R>(
    policy: RetryPolicy,
    call: CallInfo<'_>,
    timeout: Duration,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<HttpResponse, AttemptError<R>>
where
    F: Future<Output = Result<HttpResponse, AttemptError<R>>>,
{
    let CallInfo {
        operation,
        progress,
        limits,
        ..
    } = call;
    let deadline = limits.now().saturating_add(timeout);
    // The attempts that do not count as retries: the first, one after a stale connection, and one with a new key.
    let mut uncounted_attempts = 1;
    let (mut has_reconnected, mut has_retried_with_new_key) = (false, false);
    // True if the last attempt was a retry that took tokens from the quota.
    let mut has_taken_tokens = false;
    let mut earlier_error: Option<TransportError> = None;
    loop {
        let error = match attempt(deadline).await {
            Ok(mut response) => {
                call.report_attempt(progress.end_attempt(Instant::now()), Ok(&response), None);
                response.attempts = progress.attempts();
                limits
                    .retry_quota()
                    .record_success(limits.now(), has_taken_tokens);
                return Ok(response);
            }
            Err(AttemptError::NotMade(reason)) => {
                return Err(
                    earlier_error.map_or(AttemptError::NotMade(reason), AttemptError::Failed)
                );
            }
            Err(AttemptError::Failed(error)) => error,
        };
        let mut error = progress.record_failure(error, earlier_error.take());
        let attempts = progress.attempts();
        // That an idle connection was closed says nothing about the service, and the next attempt gets another connection.
        let reconnects =
            !has_reconnected && error.0.had_stale_connection && is_read(&operation.method);
        let retries_with_new_key = !has_retried_with_new_key && error.0.has_new_key;
        let is_uncounted = (reconnects || retries_with_new_key) && policy.max_retries > 0;
        has_reconnected |= reconnects;
        has_retried_with_new_key |= retries_with_new_key;
        uncounted_attempts += u32::from(is_uncounted);
        let retries = attempts.saturating_sub(uncounted_attempts);
        if !error.is_transient() && error.status().is_some() {
            // An error response such as 404 shows that the service is healthy.
            limits
                .retry_quota()
                .record_success(limits.now(), has_taken_tokens);
        }
        let mut delay = if is_uncounted {
            Some(Duration::ZERO)
        } else if retries < policy.max_retries && policy.allows_retry(&operation.method, &error) {
            let retry_after = error.retry_after().unwrap_or_default();
            Some(policy.backoff_delay(retries).max(retry_after))
        } else {
            None
        };
        let time_left = deadline.saturating_sub(limits.now());
        let late_delay = delay.take_if(|delay| *delay >= time_left);
        // An attempt that ended at the deadline needs no further reason.
        if let Some(late) = late_delay.filter(|_| !time_left.is_zero()) {
            let wait = format_seconds(late);
            error = error.not_retried(format!(
                "the wait of {wait} exceeds the remaining time of the call"
            ));
        }
        has_taken_tokens = delay.is_some() && !is_uncounted && !error.is_overload();
        if has_taken_tokens && !limits.retry_quota().take_tokens(limits.now()) {
            error = error.not_retried("the client has used up its retry quota");
            delay = None;
        }
        call.report_attempt(progress.end_attempt(Instant::now()), Err(&error), delay);
        let Some(delay) = delay else {
            return Err(AttemptError::Failed(error));
        };
        earlier_error = Some(error);
        tokio::time::sleep(delay).await;
    }
}
