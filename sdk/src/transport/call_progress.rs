//! How far a call has come over all its attempts: the only place that counts and times them, and knows what they may have done.
//! So the outcome is known, too, if the call is given up.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::transport::{connect::progress::Progress, error::TransportError, outcome::Outcome};

/// Knows at any moment what a call may have done at the service.
#[derive(Default)]
pub(crate) struct CallProgress(Mutex<AttemptsSoFar>);

#[derive(Default)]
struct AttemptsSoFar {
    attempts: u32,
    /// The attempt that is being made, or that got the response.
    current: Option<Progress>,
    /// The outcome of the attempts before it, if there were any.
    before: Option<Outcome>,
    /// When the call was sent, or the current or last attempt began or ended.
    since: Option<Instant>,
    /// How long the call waited for its first attempt and between attempts, and how long for the last one alone.
    waited: Duration,
    last_wait: Duration,
}

#[derive(Clone, Copy)]
pub(crate) struct AttemptTimes {
    pub(crate) number: u32,
    pub(crate) wait: Duration,
    pub(crate) duration: Duration,
}

impl CallProgress {
    /// Records that the call waits for its first attempt from now on.
    pub(crate) fn begin(&self) {
        self.lock().since = Some(Instant::now());
    }

    pub(crate) fn begin_attempt(&self) -> Progress {
        let mut state = self.lock();
        state.attempts += 1;
        let wait = state.pass();
        state.last_wait = wait;
        state.waited += wait;
        state.current.insert(Progress::default()).clone()
    }

    /// Records that the attempt has ended, with a response or without one.
    pub(crate) fn end_attempt(&self) -> AttemptTimes {
        let mut state = self.lock();
        AttemptTimes {
            number: state.attempts,
            wait: state.last_wait,
            duration: state.pass(),
        }
    }

    /// Records that the attempt failed with this error, and tells the error of the attempts before it, of which `before` is
    /// the last.
    pub(crate) fn attempt_failed(
        &self,
        error: TransportError,
        before: Option<TransportError>,
    ) -> TransportError {
        let mut state = self.lock();
        let error = error.after(state.attempts, state.may_have_acted_before(), before);
        state.current = None;
        state.before = Some(error.outcome());
        error
    }

    /// Records that the attempt ended before any part of its request was sent.
    pub(crate) fn attempt_withheld(&self) {
        let mut state = self.lock();
        state.current = None;
        state.before.get_or_insert(Outcome::NotSent);
    }

    /// What the call has done or may have done so far.
    pub(crate) fn outcome(&self) -> Outcome {
        let state = self.lock();
        match &state.current {
            Some(attempt) => attempt.outcome().after(state.may_have_acted_before()),
            None => state.before.unwrap_or(Outcome::NotSent),
        }
    }

    /// Whether the response to an attempt is awaited, or being read.
    pub(crate) fn is_response_due(&self) -> bool {
        let state = self.lock();
        let current = state.current.as_ref();
        current.is_some_and(|attempt| attempt.outcome() != Outcome::NotSent)
    }

    /// How long the call has waited, rather than exchanged anything with the service.
    pub(crate) fn waited(&self) -> Duration {
        let state = self.lock();
        match (&state.current, state.since) {
            (None, Some(since)) => state.waited + since.elapsed(),
            _ => state.waited,
        }
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.lock().attempts
    }

    fn lock(&self) -> MutexGuard<'_, AttemptsSoFar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptsSoFar {
    /// The time until now, from which on the next is counted.
    fn pass(&mut self) -> Duration {
        let now = Instant::now();
        let since = self.since.replace(now).unwrap_or(now);
        now.saturating_duration_since(since)
    }

    fn may_have_acted_before(&self) -> bool {
        self.before.is_some_and(Outcome::may_have_acted)
    }
}
