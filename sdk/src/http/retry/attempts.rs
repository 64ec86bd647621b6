//! Which failures are retried, and the loop that does it.

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::Method;

use crate::http::{
    clock::Clock,
    error::TransportError,
    operation::Operation,
    response::HttpResponse,
    retry::{backoff::Backoff, quota::RetryQuota, retry_after::retry_after},
    trace,
    traffic::turns::is_throttled,
};

/// Which failures are retried, how many times, and after what delay.
///
/// GET and HEAD are retried when no connection could be made (unless the reason is a certificate, that the two sides
/// do not speak the same TLS, or a proxy that wants another password), when the attempt timed out, when the
/// connection broke, and after 408, 429, 500, 502, 503 and 504. If a reused connection breaks before any part of a
/// response arrives, one more attempt is made at once, which does not count as a retry, unless retries are off. Every
/// other method is retried only if it is certain that the service did not act: no connection was made, or the response
/// was 429. The specification has no idempotency key, and a second agent is worse than an error.
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
    backoff: Backoff,
    retry_non_idempotent: bool,
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

    /// The value of [`max_retries`](Self::max_retries).
    pub(crate) const fn retries(self) -> u32 {
        self.max_retries
    }

    /// The upper bound of the delay before the first retry, and the largest upper bound.
    #[must_use]
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Backoff { first, longest };
        self
    }

    /// Retries every method as GET is, even a request that the service may already have acted on. A
    /// create that is retried this way can make a second agent.
    #[must_use]
    pub const fn retry_non_idempotent(mut self, retry: bool) -> Self {
        self.retry_non_idempotent = retry;
        self
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
#[derive(Debug)]
pub(crate) enum Unsuccessful<R> {
    /// What the last attempt met.
    Failed(TransportError),
    /// What kept the first attempt from being made.
    Refused(R),
}

/// Makes attempts until one succeeds, the policy or the quota gives up, or the time is over. Each attempt is
/// given the remaining time. One that is refused before it is made ends the call, and an earlier failure says more than that.
pub(crate) async fn with_retries<F, R>(
    policy: RetryPolicy,
    operation: &Operation,
    total: Duration,
    clock: &impl Clock,
    quota: &Mutex<RetryQuota>,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<HttpResponse, Unsuccessful<R>>
where
    F: Future<Output = Result<HttpResponse, Unsuccessful<R>>>,
{
    let began = clock.now();
    let left = || total.saturating_sub(clock.now().saturating_sub(began));
    let mut attempts = 0;
    // Attempts that do not count as retries: the first, and the one after a stale connection.
    let mut uncounted = 1;
    // Whether the last attempt was a retry that the quota paid for.
    let mut has_spent = false;
    let mut before: Option<TransportError> = None;
    loop {
        let error = match attempt(left()).await {
            Ok(mut response) => {
                response.attempts = attempts + 1;
                lock(quota).succeeded(clock.now(), has_spent);
                return Ok(response);
            }
            Err(Unsuccessful::Refused(why)) => {
                return Err(before.map_or(Unsuccessful::Refused(why), Unsuccessful::Failed));
            }
            Err(Unsuccessful::Failed(error)) => error,
        };
        attempts += 1;
        let asked = error
            .headers()
            .and_then(|headers| retry_after(headers, clock.time_of_day()));
        let error = error.after(attempts, asked, before.take());
        // A closed idle connection says nothing about the service, and the next attempt gets another one.
        let is_free = error.was_stale()
            && is_safe(&operation.method)
            && uncounted == 1
            && policy.max_retries > 0;
        uncounted += u32::from(is_free);
        let retries = attempts.saturating_sub(uncounted);
        if !error.is_transient() && error.status().is_some() {
            // The service is healthy.
            lock(quota).succeeded(clock.now(), has_spent);
        }
        if !is_free && (retries >= policy.max_retries || !policy.covers(&operation.method, &error))
        {
            return Err(Unsuccessful::Failed(error));
        }
        let wait = if is_free {
            Duration::ZERO
        } else {
            let backoff = policy.backoff.wait(retries, clock.jitter());
            backoff.max(asked.unwrap_or_default())
        };
        if wait >= left() {
            return Err(Unsuccessful::Failed(error));
        }
        has_spent = !is_free && !is_throttled(error.status(), asked);
        if has_spent && !lock(quota).spend(clock.now()) {
            return Err(Unsuccessful::Failed(error.without_quota()));
        }
        trace::retrying(operation, attempts, wait, &error);
        before = Some(error);
        clock.sleep(wait).await;
    }
}

fn lock(quota: &Mutex<RetryQuota>) -> MutexGuard<'_, RetryQuota> {
    quota.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        future::ready,
        time::{SystemTime, UNIX_EPOCH},
    };

    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
    use proptest::prelude::*;
    use url::Url;

    use super::*;
    use crate::{
        error::{call::Error, cause::Throttle, kind::ErrorKind},
        http::{
            error::{Sent, TransportCause},
            outcome::Outcome,
            redact::Redactor,
        },
    };

    const SECOND: Duration = Duration::from_secs(1);
    const TOTAL: Duration = Duration::from_secs(60);

    /// A clock that advances only when somebody waits, and jitter that is not random.
    struct Fake {
        now: Mutex<Duration>,
        share: f64,
        slept: Mutex<Vec<Duration>>,
    }

    impl Fake {
        fn pass(&self, time: Duration) {
            let mut now = self.now.lock().unwrap();
            *now = now.saturating_add(time);
        }
    }

    impl Clock for Fake {
        fn now(&self) -> Duration {
            *self.now.lock().unwrap()
        }

        fn time_of_day(&self) -> SystemTime {
            // Sun, 06 Nov 1994 08:49:37 GMT
            UNIX_EPOCH + Duration::from_secs(784_111_777) + self.now()
        }

        fn jitter(&self) -> f64 {
            self.share
        }

        fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send {
            self.slept.lock().unwrap().push(wait);
            self.pass(wait);
            ready(())
        }
    }

    /// How an attempt ended.
    type Attempted = Result<HttpResponse, Unsuccessful<Error>>;

    /// What the loop did.
    struct Run {
        outcome: Result<HttpResponse, Error>,
        slept: Vec<Duration>,
        /// The time that each attempt was given.
        left: Vec<Duration>,
    }

    impl Run {
        fn error(self) -> Error {
            match self.outcome {
                Ok(_) => panic!("it succeeded"),
                Err(error) => error,
            }
        }
    }

    /// Runs the loop over these outcomes; each attempt takes the time given with it.
    fn run(
        policy: RetryPolicy,
        method: &Method,
        share: f64,
        outcomes: impl IntoIterator<Item = (Duration, Attempted)>,
    ) -> Run {
        run_with(&Mutex::default(), policy, method, share, outcomes)
    }

    fn run_with(
        quota: &Mutex<RetryQuota>,
        policy: RetryPolicy,
        method: &Method,
        share: f64,
        outcomes: impl IntoIterator<Item = (Duration, Attempted)>,
    ) -> Run {
        let fake = Fake {
            now: Mutex::default(),
            share,
            slept: Mutex::default(),
        };
        let mut outcomes: VecDeque<_> = outcomes.into_iter().collect();
        let mut left = Vec::new();
        let attempt = |time| {
            left.push(time);
            let (takes, outcome) = outcomes.pop_front().expect("one attempt too many");
            fake.pass(takes);
            ready(outcome)
        };
        let operation = Operation {
            method: method.clone(),
            template: "/v1".into(),
        };
        // Nothing here waits for anything real.
        let outcome = with_retries(policy, &operation, TOTAL, &fake, quota, attempt)
            .now_or_never()
            .unwrap()
            .map_err(|unsuccessful| match unsuccessful {
                Unsuccessful::Failed(error) => error.into(),
                Unsuccessful::Refused(error) => error,
            });
        let slept = fake.slept.into_inner().unwrap();
        Run {
            outcome,
            slept,
            left,
        }
    }

    /// The same failure as often as it is asked for, taking no time.
    fn always(policy: RetryPolicy, method: &Method, failure: impl Fn() -> TransportError) -> Run {
        run(
            policy,
            method,
            0.0,
            (0..20).map(|_| (Duration::ZERO, Err(Unsuccessful::Failed(failure())))),
        )
    }

    fn response(status: u16, retry_after: Option<&str>) -> HttpResponse {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        }
        HttpResponse {
            status: StatusCode::from_u16(status).unwrap(),
            version: Version::HTTP_11,
            headers,
            body: Bytes::new(),
            is_cut: false,
            attempts: 1,
            redactor: Redactor::new(&HeaderValue::from_static("key")),
            left: crate::http::response::TimeLeft::UNLIMITED,
        }
    }

    fn status(status: u16) -> TransportError {
        asking(status, None)
    }

    fn asking(status: u16, retry_after: Option<&str>) -> TransportError {
        let url = Url::parse("https://deals.example.com").unwrap();
        TransportError::from_response(response(status, retry_after), &url)
    }

    fn refused() -> TransportError {
        TransportError::new(TransportCause::Connect("refused".into()))
    }

    fn timeout(sent: Sent) -> TransportError {
        TransportError::timeout(SECOND, sent)
    }

    fn broken() -> TransportError {
        TransportError::interrupted("reset")
    }

    /// The head of a success arrived, but not all of its body.
    fn cut(error: TransportError) -> TransportError {
        error.with_response(response(201, None))
    }

    fn unreadable() -> TransportError {
        TransportError::new(TransportCause::Unreadable("no".to_owned()))
    }

    fn at_once(failures: Vec<TransportError>) -> Vec<(Duration, Attempted)> {
        failures
            .into_iter()
            .map(|failure| (Duration::ZERO, Err(Unsuccessful::Failed(failure))))
            .collect()
    }

    #[test]
    fn every_status_is_retried_as_the_contract_says() {
        for code in 100..1000 {
            let passes = [408, 429, 500, 502, 503, 504].contains(&code);
            for (method, attempts) in [
                (Method::GET, if passes { 3 } else { 1 }),
                (Method::HEAD, if passes { 3 } else { 1 }),
                (Method::POST, if code == 429 { 3 } else { 1 }),
                (Method::PUT, if code == 429 { 3 } else { 1 }),
                (Method::DELETE, if code == 429 { 3 } else { 1 }),
                (Method::OPTIONS, if code == 429 { 3 } else { 1 }),
            ] {
                let error = always(RetryPolicy::new(), &method, || status(code)).error();
                assert_eq!(error.attempts(), attempts, "{method} {code}");
            }
            let opted = RetryPolicy::new().retry_non_idempotent(true);
            let error = always(opted, &Method::POST, || status(code)).error();
            assert_eq!(error.attempts(), if passes { 3 } else { 1 }, "{code}");
        }
    }

    #[test]
    fn failures_without_a_response_are_retried_as_the_contract_says() {
        type Failure = fn() -> TransportError;
        let failures: [(Failure, u32, u32); 9] = [
            (refused, 3, 3),
            (|| timeout(Sent::Nothing), 3, 3),
            (|| timeout(Sent::Perhaps), 3, 1),
            (|| cut(timeout(Sent::Perhaps)), 3, 1),
            (broken, 3, 1),
            (|| cut(broken()), 3, 1),
            (
                || cut(TransportError::new(TransportCause::TooLarge(1))),
                1,
                1,
            ),
            (|| cut(unreadable()), 1, 1),
            (
                || TransportError::new(TransportCause::Unsendable("no".to_owned())),
                1,
                1,
            ),
        ];
        for (index, (failure, get, post)) in failures.into_iter().enumerate() {
            let attempts = |policy, method| always(policy, &method, failure).error().attempts();
            let opted = RetryPolicy::new().retry_non_idempotent(true);
            assert_eq!(attempts(RetryPolicy::new(), Method::GET), get, "{index}");
            assert_eq!(attempts(RetryPolicy::new(), Method::POST), post, "{index}");
            assert_eq!(attempts(opted, Method::POST), get, "{index}");
            assert_eq!(attempts(RetryPolicy::never(), Method::GET), 1, "{index}");
            assert_eq!(attempts(opted.max_retries(0), Method::POST), 1, "{index}");
        }
    }

    #[test]
    fn retries_are_counted_and_a_success_says_how_many_there_were() {
        for retries in [0, 1, 2, 7] {
            let policy = RetryPolicy::new().max_retries(retries);
            assert_eq!(
                always(policy, &Method::GET, refused).error().attempts(),
                retries + 1
            );
        }
        let mut outcomes = at_once(vec![refused(), status(503)]);
        outcomes.push((Duration::ZERO, Ok(response(200, None))));
        let run = run(RetryPolicy::new(), &Method::GET, 0.0, outcomes);
        assert_eq!(run.left.len(), 3);
        assert_eq!(
            run.outcome
                .unwrap_or_else(|error| panic!("{error}"))
                .attempts,
            3
        );
    }

    #[test]
    fn the_wait_is_jittered_in_full() {
        let millis = |share| -> Vec<u128> {
            let policy = RetryPolicy::new().max_retries(6);
            let failures = at_once((0..7).map(|_| refused()).collect());
            let run = run(policy, &Method::GET, share, failures);
            run.slept.iter().map(Duration::as_millis).collect()
        };
        assert_eq!(millis(0.0), [0; 6]);
        assert_eq!(millis(0.5), [100, 200, 400, 800, 1600, 2500]);
        assert_eq!(millis(1.0), [200, 400, 800, 1600, 3200, 5000]);
    }

    #[test]
    fn retry_after_is_a_floor() {
        for (value, share, waits) in [
            ("3", 1.0, [3000, 3000]),
            ("0", 1.0, [200, 400]),
            ("0", 0.0, [0, 0]),
            // The date counts from the response: the second response comes when it is nearly over.
            ("Sun, 06 Nov 1994 08:49:41 GMT", 0.0, [4000, 0]),
            ("Sun, 06 Nov 1994 08:49:36 GMT", 0.5, [100, 200]),
            ("1e30", 0.5, [100, 200]),
            ("-7", 0.5, [100, 200]),
            ("soon", 0.5, [100, 200]),
        ] {
            for method in [Method::GET, Method::POST] {
                let failures = (0..3).map(|_| asking(429, Some(value))).collect();
                let run = run(RetryPolicy::new(), &method, share, at_once(failures));
                let slept: Vec<u128> = run.slept.iter().map(Duration::as_millis).collect();
                assert_eq!(slept, waits, "{value} {share}");
            }
        }
        // The service's request to wait does not carry over to another failure.
        let failures = vec![asking(503, Some("2")), refused(), status(500)];
        let run = run(RetryPolicy::new(), &Method::GET, 0.0, at_once(failures));
        assert_eq!(run.slept, [2 * SECOND, Duration::ZERO]);
        assert_eq!(run.error().retry_after(), None);
    }

    #[test]
    fn a_wait_that_does_not_fit_ends_the_call_at_once() {
        for (value, attempts) in [
            ("59", 2),
            // No time would be left to send anything.
            ("60", 1),
            ("61", 1),
            ("18446744073709551615", 1),
            ("99999999999999999999999999999999", 1),
            ("Sun, 06 Nov 1994 09:49:37 GMT", 1),
        ] {
            let failures = vec![asking(429, Some(value)), status(404)];
            let run = run(RetryPolicy::new(), &Method::POST, 0.0, at_once(failures));
            assert_eq!(run.left.len(), attempts, "{value}");
            assert_eq!(run.slept.len(), attempts - 1, "{value}");
            if attempts == 1 {
                assert!(run.error().retry_after().unwrap() >= TOTAL, "{value}");
            }
        }
        let policy = RetryPolicy::new().backoff(TOTAL, TOTAL);
        let run = run(policy, &Method::GET, 1.0, at_once(vec![refused()]));
        assert_eq!(run.slept, []);
    }

    #[test]
    fn the_total_bounds_all_attempts() {
        let thirty = Duration::from_secs(30);
        let failures = (0..9).map(|_| (thirty, Err(Unsuccessful::Failed(timeout(Sent::Perhaps)))));
        let policy = RetryPolicy::new().max_retries(u32::MAX);
        let run = run(policy, &Method::GET, 1.0, failures);
        // The second attempt has what the first attempt and the delay left of a minute.
        assert_eq!(run.left, [TOTAL, thirty - Duration::from_millis(200)]);
        assert_eq!(run.error().attempts(), 2);
    }

    fn throttled() -> (Duration, Attempted) {
        let error = Error::throttled(9 * SECOND, Throttle::RateLimit);
        (Duration::ZERO, Err(Unsuccessful::Refused(error)))
    }

    #[test]
    fn an_attempt_that_is_never_made_is_none() {
        let alone = run(RetryPolicy::new(), &Method::GET, 0.0, [throttled()]).error();
        assert_eq!(
            (alone.kind(), alone.outcome(), alone.attempts()),
            (ErrorKind::Throttled, Outcome::NotSent, 0)
        );
        // The earlier failure says more.
        for (earlier, outcome) in [
            ((|| status(503)) as fn() -> TransportError, Outcome::Unknown),
            (|| status(429), Outcome::Rejected),
            (refused, Outcome::NotSent),
        ] {
            let text = Error::from(earlier()).to_string();
            let mut failures = at_once(vec![earlier()]);
            failures.push(throttled());
            let error = run(RetryPolicy::new(), &Method::GET, 0.0, failures).error();
            assert_eq!((error.outcome(), error.attempts()), (outcome, 1), "{text}");
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn without_quota_nothing_is_retried_but_what_costs_nothing() {
        let spent = || {
            let mut quota = RetryQuota::default();
            while quota.spend(Duration::ZERO) {}
            Mutex::new(quota)
        };
        let says_so = "not retried: the client has used up its retry quota";
        for (failure, attempts, is_told) in [
            (status as fn(u16) -> TransportError, 1, true),
            (|_| refused(), 1, true),
            (|_| timeout(Sent::Perhaps), 1, true),
            // The service has said when to try again.
            (|_| asking(503, Some("1")), 3, false),
            (|_| status(429), 3, false),
            // Once, because it says nothing about the service.
            (|_| broken().on_stale_connection(), 2, true),
            // It would not be retried anyway.
            (|_| status(404), 1, false),
        ] {
            let failures = at_once((0..3).map(|_| failure(503)).collect());
            let error = run_with(&spent(), RetryPolicy::new(), &Method::GET, 0.0, failures).error();
            let text = error.to_string();
            assert_eq!(
                (error.attempts(), text.contains(says_so)),
                (attempts, is_told),
                "{text}"
            );
        }
        // A caller who wanted no retries is not told of a quota.
        let failures = at_once(vec![status(503)]);
        let error = run_with(&spent(), RetryPolicy::never(), &Method::GET, 0.0, failures).error();
        assert!(!error.to_string().contains("quota"), "{error}");
    }

    #[test]
    fn every_response_that_is_no_failure_of_the_service_earns_a_token() {
        let earned = |failure: TransportError| {
            let quota = Mutex::default();
            while lock(&quota).spend(Duration::ZERO) {}
            // Ten tokens are left, and a retry takes fourteen.
            lock(&quota).succeeded(Duration::ZERO, false);
            lock(&quota).succeeded(Duration::ZERO, false);
            lock(&quota).succeeded(Duration::ZERO, false);
            let failures = at_once(vec![failure]);
            run_with(&quota, RetryPolicy::never(), &Method::GET, 0.0, failures).error();
            lock(&quota).spend(Duration::ZERO)
        };
        assert!(earned(status(404)) && earned(status(422)));
        for failure in [
            status(503),
            status(429),
            refused(),
            broken(),
            timeout(Sent::Nothing),
        ] {
            assert!(!earned(failure));
        }
    }

    #[test]
    fn a_failure_without_a_response_tells_of_the_last_one() {
        let policy = RetryPolicy::new().max_retries(3);
        let text = |failures| {
            run(policy, &Method::GET, 0.0, at_once(failures))
                .error()
                .to_string()
        };
        assert_eq!(
            text(vec![
                status(503),
                refused(),
                status(502),
                timeout(Sent::Perhaps)
            ]),
            "timed out after 1 s (after 4 attempts; the last response was 502 Bad Gateway)"
        );
        assert_eq!(
            text(vec![status(503), refused(), refused(), refused()]),
            "no connection could be made (after 4 attempts; the last response was 503 Service Unavailable)"
        );
        assert_eq!(
            text(vec![
                refused(),
                refused(),
                refused(),
                timeout(Sent::Nothing)
            ]),
            "timed out after 1 s (after 4 attempts)"
        );
        // The last failure has a response of its own.
        assert_eq!(
            text(vec![status(503), status(404)]),
            "404 Not Found (after 2 attempts)"
        );
    }

    /// What the status says about what the service did, according to the contract.
    fn outcome_of(code: u16) -> Outcome {
        match code {
            200..=299 => Outcome::Succeeded,
            307 | 308 => Outcome::Rejected,
            408 => Outcome::Unknown,
            400..=499 => Outcome::Rejected,
            _ => Outcome::Unknown,
        }
    }

    const METHODS: [Method; 5] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PATCH,
        Method::DELETE,
    ];

    type Failures = fn() -> Vec<TransportError>;

    /// What can come before the last attempt: how it is made, and whether the service may have acted on it.
    fn earlier() -> [(&'static str, Failures, bool); 8] {
        [
            ("nothing", Vec::new, false),
            ("refused", || vec![refused()], false),
            ("not sent in time", || vec![timeout(Sent::Nothing)], false),
            // It said that it did not act.
            ("429", || vec![status(429)], false),
            ("silence", || vec![timeout(Sent::Perhaps)], true),
            ("broken, then refused", || vec![broken(), refused()], true),
            ("503, then 429", || vec![status(503), status(429)], true),
            ("a success cut off", || vec![cut(broken())], true),
        ]
    }

    /// Makes a failure, as often as needed.
    type Failure = Box<dyn Fn() -> TransportError>;

    /// Every last failure, by name, and its outcome if nothing came before it.
    fn last() -> Vec<(String, Failure, Outcome)> {
        let mut last: Vec<(String, Failure, Outcome)> = vec![
            ("refused".into(), Box::new(refused), Outcome::NotSent),
            (
                "not sent".into(),
                Box::new(|| timeout(Sent::Nothing)),
                Outcome::NotSent,
            ),
            (
                "silence".into(),
                Box::new(|| timeout(Sent::Perhaps)),
                Outcome::Unknown,
            ),
            ("broken".into(), Box::new(broken), Outcome::Unknown),
            (
                "cut off".into(),
                Box::new(|| cut(broken())),
                Outcome::Succeeded,
            ),
            (
                "cut off in time".into(),
                Box::new(|| cut(timeout(Sent::Perhaps))),
                Outcome::Succeeded,
            ),
            (
                "too large".into(),
                Box::new(|| cut(TransportError::new(TransportCause::TooLarge(1)))),
                Outcome::Succeeded,
            ),
            (
                "unreadable".into(),
                Box::new(|| cut(unreadable())),
                Outcome::Succeeded,
            ),
        ];
        // A success is not a failure, and 100 never comes alone.
        for code in (101..200).chain(300..1000) {
            last.push((
                code.to_string(),
                Box::new(move || status(code)),
                outcome_of(code),
            ));
        }
        last
    }

    #[test]
    fn the_outcome_of_every_failure_after_every_earlier_attempt() {
        for (name, failure, alone) in last() {
            for (before, earlier, may_have_acted) in earlier() {
                let expected = match alone {
                    Outcome::NotSent | Outcome::Rejected if may_have_acted => Outcome::Unknown,
                    outcome => outcome,
                };
                for method in METHODS {
                    let mut failures = earlier();
                    failures.push(failure());
                    let count = u32::try_from(failures.len()).unwrap();
                    // With every method, ending with the last failure.
                    let policy = RetryPolicy::new()
                        .retry_non_idempotent(true)
                        .max_retries(count - 1);
                    let error = run(policy, &method, 0.0, at_once(failures)).error();
                    let case = format!("{method}: {before}, then {name}");
                    assert_eq!(
                        (error.outcome(), error.attempts()),
                        (expected, count),
                        "{case}"
                    );
                    let acted = matches!(expected, Outcome::Unknown | Outcome::Succeeded);
                    assert_eq!(error.may_have_acted(), acted, "{case}");
                }
            }
        }
    }

    #[test]
    fn a_post_is_retried_only_where_the_service_did_not_act() {
        for (name, failure, alone) in last() {
            let error = always(RetryPolicy::new(), &Method::POST, failure).error();
            if error.attempts() > 1 {
                assert!(
                    matches!(alone, Outcome::NotSent | Outcome::Rejected),
                    "{name}"
                );
            }
            assert_eq!(error.outcome(), alone, "{name}");
        }
    }

    #[test]
    fn an_unreadable_success_is_one_whatever_came_before() {
        let mut outcomes = at_once(vec![broken(), refused()]);
        outcomes.push((Duration::ZERO, Ok(response(201, None))));
        let policy = RetryPolicy::new().retry_non_idempotent(true);
        let response = run(policy, &Method::POST, 0.0, outcomes)
            .outcome
            .unwrap_or_else(|error| panic!("{error}"));
        let unreadable = || Error::decode(crate::Deal::from_json("1").unwrap_err());
        let error = unreadable().with_response(response);
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Succeeded, 3));
        // An error without a response: nothing was sent.
        assert_eq!(unreadable().outcome(), Outcome::NotSent);
    }

    fn any_failure() -> impl Strategy<Value = (u8, u16, u32)> {
        (0..6_u8, 100..600_u16, 0..90_u32)
    }

    fn failure((kind, code, seconds): (u8, u16, u32)) -> TransportError {
        match kind {
            0 => refused(),
            1 => timeout(Sent::Nothing),
            2 => timeout(Sent::Perhaps),
            3 => cut(broken()),
            4 => asking(429, Some(&seconds.to_string())),
            _ => asking(code, Some(&seconds.to_string())),
        }
    }

    proptest! {
        #[test]
        fn whatever_happens(
            failures in proptest::collection::vec((any_failure(), 0..40_000_u64), 30),
            post in any::<bool>(),
            retries in 0..20_u32,
            share in 0.0..=1.0_f64,
        ) {
            let method = if post { Method::POST } else { Method::GET };
            let policy = RetryPolicy::new().max_retries(retries);
            let outcomes = failures.iter().map(|(shape, takes)| {
                (Duration::from_millis(*takes), Err(Unsuccessful::Failed(failure(*shape))))
            });
            let run = run(policy, &method, share, outcomes);
            let attempts = run.left.len();
            prop_assert!(attempts <= retries as usize + 1);
            prop_assert_eq!(run.slept.len(), attempts - 1);
            // No attempt begins once the time is over.
            prop_assert!(run.left.iter().all(|left| !left.is_zero()));
            for (index, wait) in run.slept.iter().enumerate() {
                let failed = failure(failures[index].0);
                // POST continues only after failures on which the service certainly did not act.
                prop_assert!(!post || !failed.outcome().may_have_acted());
                let longest = policy.backoff.wait(u32::try_from(index).unwrap(), 1.0);
                let asked = failed.headers().and_then(|headers| retry_after(headers, UNIX_EPOCH));
                let asked = asked.unwrap_or_default();
                prop_assert!(*wait >= asked && *wait <= asked.max(longest), "{wait:?}");
            }
            let before = failures[..attempts - 1].iter().any(|(shape, _)| failure(*shape).outcome().may_have_acted());
            let error = run.error();
            prop_assert_eq!(error.attempts() as usize, attempts);
            prop_assert!(!before || error.may_have_acted());
        }
    }
}
