//! What the lines of a ledger together say of each key.

use std::collections::HashMap;

use super::key_hash::KeyHash;

/// What each key's lines say.
pub(super) type Entries = HashMap<KeyHash, Entry>;

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The service created it. It has no identifier where the response could not be read.
    Created { id: Option<String> },
    /// The service responded that it did not act.
    Rejected {
        status: Option<u16>,
        request_id: Option<String>,
    },
    /// Nothing of it reached the service.
    NotSent,
    /// The service may have acted: no outcome was recorded, or it was unknown.
    Unknown {
        status: Option<u16>,
        request_id: Option<String>,
    },
}

impl State {
    /// Of what nothing is known but that it may have been sent.
    const IN_DOUBT: Self = State::Unknown {
        status: None,
        request_id: None,
    };
}

/// What the lines of one key say, and whether this job has a row of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// `None` where no line is of this key.
    state: Option<State>,
    /// Whether an intent before the last one may have made the service act: a later one that was not sent or was
    /// rejected does not undo that.
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

    /// What earlier runs have left, if it is the first row of this key; else the index of the first.
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

    /// A row of this key was about to be sent.
    pub(super) fn intend(&mut self) {
        if let Some(State::Created { .. }) = self.state {
            return;
        }
        self.was_in_doubt |= matches!(self.state, Some(State::Unknown { .. }));
        self.is_open = true;
        self.state = Some(State::IN_DOUBT);
    }

    /// This came of it.
    pub(super) fn record(&mut self, outcome: State) {
        let is_in_doubt = self.was_in_doubt
            || (!self.is_open && matches!(self.state, Some(State::Unknown { .. })));
        self.is_open = false;
        match (&self.state, outcome) {
            // There is nothing that undoes it.
            (Some(State::Created { .. }), _) => {}
            (_, State::Rejected { .. } | State::NotSent) if is_in_doubt => {
                self.state = Some(State::IN_DOUBT);
            }
            (_, outcome) => self.state = Some(outcome),
        }
    }

    /// Somebody has looked: this is the identifier of its agent, or there is none.
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

    /// Whether it is news that this is the identifier of its agent, or that there is none; an error if that cannot be.
    pub(super) fn is_news(&self, agent_id: Option<&str>) -> Result<bool, &'static str> {
        match (&self.state, agent_id) {
            (Some(State::Created { id: None }), Some(_)) => Ok(true),
            (Some(State::Created { id: Some(known) }), Some(found)) if known == found => Ok(false),
            (Some(State::Created { .. }), _) => {
                Err("the ledger has that its agent was created, and nothing undoes that")
            }
            (Some(State::NotSent), None) => Ok(false),
            _ => Ok(true),
        }
    }
}
