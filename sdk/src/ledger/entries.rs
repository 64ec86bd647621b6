//! The state of each key, according to all lines of a ledger.

use std::collections::HashMap;

use super::key_hash::KeyHash;

/// The entry of each key.
pub(super) type Entries = HashMap<KeyHash, Entry>;

/// The state of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The service created the agent. The identifier is missing if the response could not be read.
    Created { id: Option<String> },
    /// The service responded that it did not act.
    Rejected {
        status: Option<u16>,
        request_id: Option<String>,
    },
    /// No part of it reached the service.
    NotSent,
    /// The service may have acted: no outcome was recorded, or it was unknown.
    Unknown {
        status: Option<u16>,
        request_id: Option<String>,
    },
}

impl State {
    /// Nothing is known except that it may have been sent.
    const IN_DOUBT: Self = State::Unknown {
        status: None,
        request_id: None,
    };
}

/// What the lines of one key add up to, and whether this job has a row with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// `None` if there is no line with this key.
    state: Option<State>,
    /// Whether an intent before the last one may have made the service act: a later attempt that was not sent or
    /// was rejected does not undo that.
    was_in_doubt: bool,
    /// Whether the last line was an intent.
    is_open: bool,
    claimed_by: Option<usize>,
}

impl Entry {
    pub(super) fn claimed(index: usize) -> Self {
        Self {
            claimed_by: Some(index),
            ..Self::default()
        }
    }

    /// The state that earlier runs left, if this is the first row with this key; otherwise the index of the first.
    pub(super) fn claim(&mut self, index: usize) -> Result<Option<State>, usize> {
        if let Some(first) = self.claimed_by {
            return Err(first);
        }
        self.claimed_by = Some(index);
        Ok(self.state.take())
    }

    pub(super) fn state(&self) -> Option<&State> {
        self.state.as_ref()
    }

    /// A row with this key was about to be sent.
    pub(super) fn intend(&mut self) {
        if let Some(State::Created { .. }) = self.state {
            return;
        }
        self.was_in_doubt |= matches!(self.state, Some(State::Unknown { .. }));
        self.is_open = true;
        self.state = Some(State::IN_DOUBT);
    }

    /// The row had this outcome.
    pub(super) fn record(&mut self, outcome: State) {
        let is_in_doubt = self.was_in_doubt
            || (!self.is_open && matches!(self.state, Some(State::Unknown { .. })));
        self.is_open = false;
        match (&self.state, outcome) {
            // Nothing undoes a create.
            (Some(State::Created { .. }), _) => {}
            (_, State::Rejected { .. } | State::NotSent) if is_in_doubt => {
                self.state = Some(State::IN_DOUBT);
            }
            (_, outcome) => self.state = Some(outcome),
        }
    }

    /// Somebody has looked it up: the row has an agent with this identifier, or none.
    pub(super) fn settle(&mut self, agent_id: Option<String>) {
        self.state = Some(match (self.state.take(), agent_id) {
            (Some(created @ State::Created { id: Some(_) }), _)
            | (Some(created @ State::Created { .. }), None) => created,
            (_, Some(id)) => State::Created { id: Some(id) },
            (_, None) => State::NotSent,
        });
        self.was_in_doubt = false;
        self.is_open = false;
    }

    /// Whether it is new that the row has this agent, or none; an error if that is impossible.
    pub(super) fn is_news(&self, agent_id: Option<&str>) -> Result<bool, &'static str> {
        match (&self.state, agent_id) {
            (Some(State::Created { id: None }), Some(_)) => Ok(true),
            (Some(State::Created { id: Some(known) }), Some(found)) if known == found => Ok(false),
            (Some(State::Created { .. }), _) => {
                Err("the ledger records that its agent was created, which cannot be undone")
            }
            (Some(State::NotSent), None) => Ok(false),
            _ => Ok(true),
        }
    }
}
