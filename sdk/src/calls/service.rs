//! What every call of a client needs, and the only path to the service.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, Either, select};
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use url::Url;

#[cfg(feature = "ledger")]
use crate::ledger::OpenLedgerCache;
use crate::{
    calls::options::CallOptions,
    error::{call::Error, cause::Cause},
    json::unreadable::Unreadable,
    rules::validate::{ValidationError, Violation, ViolationCode},
    transport::{
        connect::{
            pools::{ATTEMPT_TIMEOUT, Pools},
            progress::{MayLeave, Progress},
        },
        error::{Sent, TransportCause, TransportError},
        key::Keys,
        outcome::Outcome,
        response::HttpResponse,
        retry::attempts::{RetryPolicy, Unsuccessful, is_safe, with_retries},
        send::{self, Deadline, HttpRequest},
        trace::Record,
        traffic::turns::{NotAdmitted, Traffic},
    },
    value::words::{Setting, words},
};

/// A service, and how to talk to it: a client's checked configuration.
pub(crate) struct Service {
    pub(crate) pools: Arc<Pools>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) base_url: Url,
    /// The headers that every request carries, with an empty key.
    pub(crate) headers: Arc<HeaderMap>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) total_timeout: Duration,
    pub(crate) max_response_bytes: u64,
    pub(crate) retry: RetryPolicy,
    pub(crate) unreadable: Unreadable,
    pub(crate) propagate: Option<Propagate>,
    /// Those of single creates.
    #[cfg(feature = "ledger")]
    pub(crate) ledgers: Arc<OpenLedgerCache>,
}

/// Writes the headers that propagate the current trace.
pub(crate) type Propagate = Arc<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// The longest URL that the HTTP library accepts.
const LONGEST_URL: usize = 65_534;

/// Decides for each attempt whether its request may leave.
pub(crate) trait Guard: Send + Sync {
    /// Completes shortly before the attempt's turn. If it fails, nothing is sent.
    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Checks, once it is the attempt's turn and again once it has a connection, that its request may still leave. If not,
    /// nothing is sent.
    fn check(&self) -> Result<(), Error>;

    /// Completes when the request may no longer leave.
    fn expired(&self) -> BoxFuture<'_, ()>;
}

impl Service {
    /// The URL of `path`, which begins with a slash and is escaped.
    pub(crate) fn url(&self, path: &str) -> Result<Url, ValidationError> {
        let prefix = self.base_url.path().trim_end_matches('/');
        let path = format!("{prefix}{path}");
        let mut url = self.base_url.clone();
        url.set_path(&path);
        let length = url.as_str().len();
        if length > LONGEST_URL {
            return Err(ValidationError::one(Violation::new(
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

    /// Sends a request, more than once if necessary, within the call's time.
    pub(crate) async fn exchange(
        &self,
        record: Record<'_>,
        request: &HttpRequest,
        options: &CallOptions,
        guard: Option<Arc<dyn Guard>>,
    ) -> Result<HttpResponse, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::config(
                "a call must be awaited on a Tokio runtime; without one, use dealkit::blocking",
            )
        })?;
        let total = options.timeout.unwrap_or(self.total_timeout);
        more_than_zero(Setting::Timeout, total)?;
        let policy = options.policy(self.retry);
        if !is_safe(&request.method) {
            // Letting the runtime poll its sockets detects idle connections that the service has closed,
            // before a request that could not be retried goes out on one.
            tokio::task::yield_now().await;
        }
        // A limit on an attempt helps only if there is another one after a timeout.
        let is_repeated = policy.retries_timeouts(&request.method);
        let attempt_timeout = self.pools.settings.attempt_timeout;
        let attempt_timeout = attempt_timeout.or(is_repeated.then_some(ATTEMPT_TIMEOUT));
        let Record {
            progress, traffic, ..
        } = record;
        let (connections, keys) = ((&*self.pools, &runtime), &self.keys);
        let guard = guard.as_ref();
        let attempt = |left: Duration| async move {
            let end = traffic.now().saturating_add(left);
            let left = || end.saturating_sub(traffic.now());
            let key_error = |why| Unsuccessful::Refused(Error::new(Cause::ServiceKey(why)));
            // A provider may take long. Calls that wait for it hold no permits, and are not sent together afterwards.
            keys.current(left(), total).await.map_err(key_error)?;
            let not_admitted = |why| {
                Unsuccessful::Refused(match why {
                    NotAdmitted::TooLate(late) => Error::throttled(late),
                    NotAdmitted::TimedOut => {
                        let late = TransportCause::Timeout(total, Sent::Nothing);
                        TransportError::new(late).into()
                    }
                })
            };
            let queued = traffic.enter();
            if let Some(guard) = guard {
                // A locked ledger may take long, and then answers many calls together.
                let prepared = queued.prepare(left(), guard.prepare()).await;
                let prepared = prepared.map_err(not_admitted)?;
                prepared.map_err(Unsuccessful::Refused)?;
            }
            let admitted = queued.admit(left(), self.pools.permits()).await;
            let (departed, _permit) = admitted.map_err(not_admitted)?;
            // The key may have expired, or been rejected, during the wait, and so may the lease.
            let key = keys.current(left(), total).await.map_err(key_error)?;
            if let Some(guard) = guard {
                guard.check().map_err(Unsuccessful::Refused)?;
            }
            // If the total limit ends the attempt, the error names that limit: nobody has configured "2.9 s".
            let (time, limit) = match attempt_timeout {
                Some(attempt_timeout) if attempt_timeout <= left() => {
                    (attempt_timeout, attempt_timeout)
                }
                _ => (left(), total),
            };
            let deadline = Deadline::after(time, limit);
            let attempt = progress.begin_attempt();
            let may_leave = guard.map(|guard| {
                let guard = Arc::clone(guard);
                Arc::new(move || guard.check().is_ok()) as MayLeave
            });
            let sent = send::attempt(
                connections,
                (request, may_leave),
                &key,
                deadline,
                self.max_response_bytes,
                &attempt,
            );
            let outcome = match guard {
                None => sent.await,
                Some(guard) => {
                    let outcome = until_expired(&**guard, &attempt, sent).await;
                    let is_unsent = |error: &TransportError| error.outcome() == Outcome::NotSent;
                    let is_withheld = match &outcome {
                        None => true,
                        Some(outcome) => outcome.as_ref().is_err_and(is_unsent),
                    };
                    match (outcome, guard.check()) {
                        (_, Err(why)) if is_withheld => {
                            progress.attempt_withheld();
                            return Err(Unsuccessful::Refused(why));
                        }
                        (Some(outcome), _) => outcome,
                        // The lease was renewed at the last moment: another attempt may be made.
                        (None, _) => Err(TransportError::new(TransportCause::Connect(None, None))),
                    }
                }
            };
            let pause = traffic.learn(departed, outcome.as_ref());
            let mut error = match outcome {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if let Some(pause) = pause {
                record.pausing(pause, &error);
            }
            if error.status() == Some(StatusCode::UNAUTHORIZED) {
                error.0.has_new_key = match keys.refused(&key) {
                    Some(is_new) => is_new,
                    // It is asked before the next call, which this one need not wait for.
                    None if policy.retries() == 0 => false,
                    None => match keys.current(left(), total).await {
                        Ok(new) => new.header != key.header,
                        Err(why) => return Err(Unsuccessful::Failed(error.not_retried(why))),
                    },
                };
            }
            Err(Unsuccessful::Failed(error))
        };
        progress.begin();
        with_retries(policy, record, total, attempt).await.map_err(
            |unsuccessful| match unsuccessful {
                Unsuccessful::Failed(error) => error.into(),
                Unsuccessful::Refused(error) => error,
            },
        )
    }
}

/// Makes an attempt; `None` if its request may no longer leave and still has no connection.
async fn until_expired<T>(
    guard: &dyn Guard,
    attempt: &Progress,
    sent: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(sent), guard.expired()).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) if attempt.is_connecting() => None,
        Either::Right(((), sent)) => Some(sent.await),
    }
}

/// A time limit of zero would refuse every call.
pub(crate) fn more_than_zero(setting: Setting, limit: Duration) -> Result<(), Error> {
    if limit.is_zero() {
        return Err(Error::config(words!("{} must be more than zero", setting)));
    }
    Ok(())
}
