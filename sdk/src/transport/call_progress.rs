//! The progress of a call over all its attempts: their number, their times, and what they may have done at the service. So the
//! outcome of a call is known even if the call is cancelled.
//!
//! The fields of the events of attempts have the names of OpenTelemetry's HTTP conventions. The names of all other fields begin
//! with `dealkit.`. The events contain only the fields that are listed here: no identifiers, headers or bodies. Integers are
//! signed, because OpenTelemetry has no unsigned integers, and its layer for `tracing` writes them as text.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use url::Url;

use crate::transport::{
    call_metrics::CallMetrics, connect::progress::Progress, error::TransportError,
    operation::Operation, outcome::Outcome, rate::admission::SharedLimits, response::HttpResponse,
};

/// The call that events and a span describe.
#[derive(Clone, Copy)]
pub(crate) struct CallInfo<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) base_url: &'a Url,
    pub(crate) progress: &'a CallProgress,
    pub(crate) limits: &'a SharedLimits,
    pub(crate) metrics: &'a CallMetrics,
}

impl CallInfo<'_> {
    /// Reports an attempt that has ended, and the delay before the next one, if there is one.
    pub(crate) fn report_attempt(
        &self,
        times: AttemptTimes,
        result: Result<&HttpResponse, &TransportError>,
        delay: Option<Duration>,
    ) {
        let response = result.map_or_else(TransportError::response, Some);
        let status = response.map(|response| i64::from(response.status.as_u16()));
        let error_type = result.err().map(TransportError::name);
        let AttemptTimes {
            number, duration, ..
        } = times;
        self.metrics
            .end_attempt(self.operation, number, duration, status, error_type);
        // The macros of tracing need the level as a constant.
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    target: "dealkit",
                    {
                        http.request.method = self.operation.method.as_str(),
                        url.template = &*self.operation.template,
                        http.response.status_code = status,
                        error.type = error_type,
                        http.request.resend_count = delay.map(|_| i64::from(times.number)),
                        dealkit.attempt = i64::from(times.number),
                        dealkit.request_id = response.and_then(HttpResponse::shown_request_id),
                        dealkit.wait = times.wait.as_secs_f64(),
                        dealkit.duration = times.duration.as_secs_f64(),
                        dealkit.delay = delay.map(|delay| delay.as_secs_f64()),
                    },
                    $message
                )
            };
        }
        match delay {
            Some(_) => event!(warn, "retrying"),
            None => event!(debug, "attempt ended"),
        }
    }

    /// Reports that the service has asked for a pause: all calls of the client wait this long.
    pub(crate) fn report_pause(&self, pause: Duration, error: &TransportError) {
        tracing::warn!(
            target: "dealkit",
            {
                http.request.method = self.operation.method.as_str(),
                url.template = &*self.operation.template,
                http.response.status_code = error.status().map(|status| i64::from(status.as_u16())),
                error.type = error.name(),
                dealkit.delay = pause.as_secs_f64(),
            },
            "pausing"
        );
    }
}

/// The progress of a call, which is up to date at any moment.
#[derive(Default)]
pub(crate) struct CallProgress(Mutex<Attempts>);

#[derive(Default)]
struct Attempts {
    count: u32,
    /// The attempt that is being made, or that got the response.
    current_attempt: Option<Progress>,
    /// The outcome of the attempts before the current one, if there were any.
    earlier_outcome: Option<Outcome>,
    /// The time of the latest event: the start of the call, or the start or end of an attempt.
    latest_event: Option<Instant>,
    /// The total time that the call waited before its attempts, and the time that it waited before the last attempt.
    total_wait: Duration,
    last_wait: Duration,
}

#[derive(Clone, Copy)]
pub(crate) struct AttemptTimes {
    pub(crate) number: u32,
    pub(crate) wait: Duration,
    pub(crate) duration: Duration,
}

impl CallProgress {
    /// Records that the call starts, and waits for its first attempt.
    pub(crate) fn begin(&self, now: Instant) {
        self.lock().latest_event = Some(now);
    }

    /// Records that an attempt starts, and returns its progress.
    pub(crate) fn begin_attempt(&self, now: Instant) -> Progress {
        let mut attempts = self.lock();
        attempts.count += 1;
        let wait = attempts.time_since_latest_event(now);
        attempts.last_wait = wait;
        attempts.total_wait += wait;
        attempts.current_attempt.insert(Progress::default()).clone()
    }

    /// Records that the attempt has ended, with or without a response.
    pub(crate) fn end_attempt(&self, now: Instant) -> AttemptTimes {
        let mut attempts = self.lock();
        AttemptTimes {
            number: attempts.count,
            wait: attempts.last_wait,
            duration: attempts.time_since_latest_event(now),
        }
    }

    /// Records that the attempt failed with this error, and adds the earlier attempts to the error. `earlier_error` is the
    /// error of the attempt before.
    pub(crate) fn record_failure(
        &self,
        error: TransportError,
        earlier_error: Option<TransportError>,
    ) -> TransportError {
        let mut attempts = self.lock();
        let error = error.after(
            attempts.count,
            attempts.may_have_acted_earlier(),
            earlier_error,
        );
        attempts.current_attempt = None;
        attempts.earlier_outcome = Some(error.outcome());
        error
    }

    /// Records that the attempt ended before any part of its request was sent.
    pub(crate) fn record_withheld_attempt(&self) {
        let mut attempts = self.lock();
        attempts.current_attempt = None;
        attempts.earlier_outcome.get_or_insert(Outcome::NotSent);
    }

    /// Returns the outcome of the call so far.
    pub(crate) fn outcome(&self) -> Outcome {
        let attempts = self.lock();
        match &attempts.current_attempt {
            Some(attempt) => attempt.outcome().after(attempts.may_have_acted_earlier()),
            None => attempts.earlier_outcome.unwrap_or(Outcome::NotSent),
        }
    }

    /// Returns whether the call is waiting for the response to an attempt, or reading it.
    pub(crate) fn is_response_due(&self) -> bool {
        let attempts = self.lock();
        let current_attempt = attempts.current_attempt.as_ref();
        current_attempt.is_some_and(|attempt| attempt.outcome() != Outcome::NotSent)
    }

    /// Returns the time that the call has waited before its attempts.
    pub(crate) fn total_wait(&self) -> Duration {
        let attempts = self.lock();
        match (&attempts.current_attempt, attempts.latest_event) {
            (None, Some(latest_event)) => attempts.total_wait + latest_event.elapsed(),
            _ => attempts.total_wait,
        }
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempts {
    /// Returns the time since the latest event, and records `now` as the time of a new event.
    fn time_since_latest_event(&mut self, now: Instant) -> Duration {
        let latest_event = self.latest_event.replace(now).unwrap_or(now);
        now.saturating_duration_since(latest_event)
    }

    fn may_have_acted_earlier(&self) -> bool {
        self.earlier_outcome.is_some_and(Outcome::may_have_acted)
    }
}
