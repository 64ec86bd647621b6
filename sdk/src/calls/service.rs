//! A client's checked configuration, and the exchange of a request and its response with the service.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{Either, select};
use http::{HeaderMap, StatusCode};
use tokio::{runtime::Handle, sync::SemaphorePermit, time::Instant};
use url::Url;

#[cfg(feature = "ledger")]
use crate::ledger::OpenLedgerCache;
use crate::{
    calls::{claim::Claim, options::CallOptions},
    error::{call::Error, cause::Cause},
    json::unreadable::Unreadable,
    rules::validate::{ValidationError, Violation, ViolationCode},
    transport::{
        call_metrics::CallMetrics,
        call_progress::CallInfo,
        connect::{
            pools::{ATTEMPT_TIMEOUT, Pools},
            progress::{MaySend, Progress},
        },
        error::{SentPart, TransportCause, TransportError},
        key::{Key, Keys},
        outcome::Outcome,
        rate::admission::{NotAdmitted, SharedLimits},
        response::HttpResponse,
        retry::attempts::{AttemptError, RetryPolicy, is_read, run_attempts},
        send::{Attempt, HttpRequest},
    },
    value::message::{Message, Setting},
};

/// The checked configuration of a client, and the state that its calls share.
pub(crate) struct Service {
    pub(crate) pools: Arc<Pools>,
    pub(crate) limits: Arc<SharedLimits>,
    pub(crate) base_url: Url,
    /// The headers of every request. The value of the service key is empty.
    pub(crate) headers: Arc<HeaderMap>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) total_timeout: Duration,
    pub(crate) max_response_bytes: u64,
    pub(crate) retry: RetryPolicy,
    pub(crate) unreadable: Unreadable,
    pub(crate) propagate: Option<Propagate>,
    pub(crate) metrics: CallMetrics,
    /// The open ledgers of single creates, which have an idempotency key (`Call::once`).
    #[cfg(feature = "ledger")]
    pub(crate) ledgers: Arc<OpenLedgerCache>,
}

/// Writes the headers that propagate the current trace.
pub(crate) type Propagate = Arc<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// The longest URL that the HTTP library accepts.
const LONGEST_URL: usize = 65_534;

impl Service {
    /// Returns the URL of `path`, which begins with a slash and is escaped.
    pub(crate) fn url(&self, path: &str) -> Result<Url, ValidationError> {
        let prefix = self.base_url.path().trim_end_matches('/');
        let mut url = self.base_url.clone();
        match prefix {
            "" => url.set_path(path),
            prefix => url.set_path(&format!("{prefix}{path}")),
        }
        let length = url.as_str().len();
        if length > LONGEST_URL {
            return Err(ValidationError::from_violation(Violation::new(
                "",
                ViolationCode::InvalidId,
                format!(
                    "must be shorter: escaped, and with the rest of the URL, it has {length} characters; at most \
                     {LONGEST_URL} can be sent"
                ),
            )));
        }
        Ok(url)
    }

    /// Sends a request, with retries, within the time limit of the call.
    pub(crate) async fn exchange(
        &self,
        call: CallInfo<'_>,
        request: &HttpRequest,
        options: &CallOptions,
        claim: Option<&Arc<Claim>>,
    ) -> Result<HttpResponse, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::config(
                "a call must be awaited on a Tokio runtime; without one, use dealkit::blocking",
            )
        })?;
        let call_timeout = options.timeout.unwrap_or(self.total_timeout);
        check_more_than_zero(Setting::Timeout, call_timeout)?;
        let policy = options.policy(self.retry);
        if !is_read(&request.method) {
            // Lets the runtime poll its sockets, and so notice idle connections that the service has closed. This request could
            // not be retried if it were sent over such a connection.
            tokio::task::yield_now().await;
        }
        // A time limit of an attempt is useful only if another attempt may follow a timeout.
        let retries_timeouts = policy.retries_timeouts(&request.method);
        let attempt_timeout = self.pools.settings.attempt_timeout;
        let exchange = Exchange {
            service: self,
            call,
            request,
            claim,
            runtime,
            policy,
            call_timeout,
            attempt_timeout: attempt_timeout.or(retries_timeouts.then_some(ATTEMPT_TIMEOUT)),
        };
        let response = run_attempts(policy, call, call_timeout, |deadline| {
            exchange.attempt(deadline)
        })
        .await;
        response.map_err(|error| match error {
            AttemptError::Failed(error) => error.into(),
            AttemptError::NotMade(error) => error,
        })
    }
}

/// The parts that all attempts of a call share.
struct Exchange<'a> {
    service: &'a Service,
    call: CallInfo<'a>,
    request: &'a HttpRequest,
    claim: Option<&'a Arc<Claim>>,
    runtime: Handle,
    policy: RetryPolicy,
    /// The time limit of the call.
    call_timeout: Duration,
    attempt_timeout: Option<Duration>,
}

impl Exchange<'_> {
    /// Makes one attempt. The call's time ends at `deadline`, a duration since the client was created, as in
    /// `SharedLimits::now`.
    async fn attempt(&self, deadline: Duration) -> Result<HttpResponse, AttemptError<Error>> {
        let limits = self.call.limits;
        let admitted_request = self.admit(deadline).await.map_err(AttemptError::NotMade)?;
        let outcome = self.send(&admitted_request.key, deadline).await;
        let outcome = outcome.map_err(AttemptError::NotMade)?;
        let pause = limits.record_outcome(admitted_request.admitted_at, outcome.as_ref());
        let mut error = match outcome {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if let Some(pause) = pause {
            self.call.report_pause(pause, &error);
        }
        if error.status() == Some(StatusCode::UNAUTHORIZED) {
            match self.has_new_key(&admitted_request.key, deadline).await {
                Ok(has_new_key) => error.0.has_new_key = has_new_key,
                Err(message) => error = error.not_retried(message.text(|name| name)),
            }
        }
        Err(AttemptError::Failed(error))
    }

    /// Waits until a request may be sent: for the service key, for the claim of a row, and for the admission by rate limit and
    /// number of connections.
    async fn admit(&self, deadline: Duration) -> Result<AdmittedRequest<'_>, Error> {
        let Service { keys, pools, .. } = self.service;
        let limits = self.call.limits;
        let time_left = || deadline.saturating_sub(limits.now());
        let key_error = |message| Error::new(Cause::ServiceKey(message));
        // The key is requested before the admission, because a provider may take long. So the calls that wait for a key hold no
        // permits, and are not all sent at the same moment afterwards.
        keys.current_key(time_left, self.call_timeout)
            .await
            .map_err(key_error)?;
        let queued_call = limits.enqueue();
        if let Some(claim) = self.claim {
            // The row is claimed before the admission, because a claim takes long while the ledger is locked.
            let claim_result = queued_call.prepare(deadline, claim.ensure_claimed()).await;
            claim_result.map_err(|reason| self.make_not_admitted_error(reason))??;
        }
        let admission_result = queued_call.admit(deadline, pools.permits()).await;
        let (admitted_at, permit) =
            admission_result.map_err(|reason| self.make_not_admitted_error(reason))?;
        // The key may have expired during the wait, or been rejected, and the lease may have ended.
        let key = keys
            .current_key(time_left, self.call_timeout)
            .await
            .map_err(key_error)?;
        if let Some(claim) = self.claim {
            claim.check_lease()?;
        }
        Ok(AdmittedRequest {
            admitted_at,
            key,
            _permit: permit,
        })
    }

    fn make_not_admitted_error(&self, reason: NotAdmitted) -> Error {
        match reason {
            NotAdmitted::TooLate(late_admission) => Error::throttled(late_admission),
            NotAdmitted::TimedOut => TransportError::new(TransportCause::Timeout(
                self.call_timeout,
                SentPart::Nothing,
            ))
            .into(),
        }
    }

    /// Sends the request once, unless the lease of its claim ends first.
    async fn send(
        &self,
        key: &Key,
        deadline: Duration,
    ) -> Result<Result<HttpResponse, TransportError>, Error> {
        let time_left = deadline.saturating_sub(self.call.limits.now());
        // If the call's time limit ends the attempt, the error names that limit, which the caller has configured.
        let (time, limit) = match self.attempt_timeout {
            Some(attempt_timeout) if attempt_timeout <= time_left => {
                (attempt_timeout, attempt_timeout)
            }
            _ => (time_left, self.call_timeout),
        };
        let now = Instant::now();
        let progress = self.call.progress.begin_attempt(now);
        let may_send = self.claim.map(|claim| {
            let claim = Arc::clone(claim);
            Arc::new(move || claim.check_lease().is_ok()) as MaySend
        });
        let attempt = Attempt {
            pools: &self.service.pools,
            runtime: &self.runtime,
            request: self.request,
            may_send,
            key,
            limit,
            max_response_bytes: self.service.max_response_bytes,
            progress: &progress,
        };
        let send_future = pin!(attempt.send(now, time));
        let Some(claim) = self.claim else {
            return Ok(send_future.await);
        };
        let outcome = send_until_lease_ends(claim, &progress, send_future).await;
        let is_unsent = |error: &TransportError| error.outcome() == Outcome::NotSent;
        let is_withheld = match &outcome {
            None => true,
            Some(outcome) => outcome.as_ref().is_err_and(is_unsent),
        };
        match (outcome, claim.check_lease()) {
            (_, Err(error)) if is_withheld => {
                self.call.progress.record_withheld_attempt();
                Err(error)
            }
            (Some(outcome), _) => Ok(outcome),
            // The lease was renewed at the last moment, so another attempt may be made.
            (None, _) => Ok(Err(TransportError::new(TransportCause::Connect(
                None, None,
            )))),
        }
    }

    /// Returns whether the source has a new key in place of `key`, which the service has rejected.
    async fn has_new_key(&self, key: &Arc<Key>, deadline: Duration) -> Result<bool, Message> {
        let keys = &self.service.keys;
        if let Some(is_new) = keys.record_rejection(key) {
            return Ok(is_new);
        }
        // Without retries, this call needs no new key. The next call requests one.
        if self.policy.retry_limit() == 0 {
            return Ok(false);
        }
        let time_left = || deadline.saturating_sub(self.call.limits.now());
        let new_key = keys.current_key(time_left, self.call_timeout).await?;
        Ok(new_key.header != key.header)
    }
}

/// The permission to send a request.
struct AdmittedRequest<'a> {
    /// The time of the admission, as a duration since the client was created (`SharedLimits::now`).
    admitted_at: Duration,
    key: Arc<Key>,
    /// Held until the response has arrived.
    _permit: SemaphorePermit<'a>,
}

/// Makes an attempt. Returns `None` if the lease ended while the request was waiting for a connection.
async fn send_until_lease_ends<T>(
    claim: &Claim,
    progress: &Progress,
    send_future: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    match select(send_future, pin!(claim.wait_until_lease_ends())).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) if progress.is_connecting() => None,
        Either::Right(((), send_future)) => Some(send_future.await),
    }
}

/// Checks that a time limit is not zero, which would fail every call.
pub(crate) fn check_more_than_zero(setting: Setting, limit: Duration) -> Result<(), Error> {
    if limit.is_zero() {
        return Err(Error::invalid_setting(setting, "must be more than zero"));
    }
    Ok(())
}
