//! How far a call has come, over all its attempts: what is known of one that is given up before its end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::progress::Progress;
use crate::outcome::Outcome;

/// Knows at any moment what a call may have done at the service.
#[derive(Default)]
pub(crate) struct CallProgress(Mutex<State>);

#[derive(Default)]
struct State {
    attempts: u32,
    /// The attempt that is being made, or that has brought the response.
    current: Option<Progress>,
    /// What the attempts before it came to, if there were any.
    before: Option<Outcome>,
}

impl CallProgress {
    /// An attempt begins.
    pub(crate) fn begin_attempt(&self) -> Progress {
        let mut state = self.lock();
        state.attempts += 1;
        state.current.insert(Progress::default()).clone()
    }

    /// The attempt has failed.
    pub(crate) fn attempt_failed(&self, outcome: Outcome) {
        let mut state = self.lock();
        state.current = None;
        state.before = Some(outcome.after(state.may_have_acted_before()));
    }

    /// What the call has done so far, or may have.
    pub(crate) fn outcome(&self) -> Outcome {
        let state = self.lock();
        match &state.current {
            Some(attempt) => attempt.outcome().after(state.may_have_acted_before()),
            None => state.before.unwrap_or(Outcome::NotSent),
        }
    }

    /// Whether the response to an attempt is waited for, or being read.
    pub(crate) fn is_response_due(&self) -> bool {
        let state = self.lock();
        let current = state.current.as_ref();
        current.is_some_and(|attempt| attempt.outcome() != Outcome::NotSent)
    }

    /// How many attempts have begun.
    pub(crate) fn attempts(&self) -> u32 {
        self.lock().attempts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_have_acted_before(&self) -> bool {
        self.before.is_some_and(Outcome::may_have_acted)
    }
}
