//! What is known about a create, and when it may be sent: pure rules, which no database and no clock can change.

use crate::{error::outcome::Outcome, value::AgentId};

/// What a ledger has on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The job with this number was about to send it, and has noted nothing since.
    Sending(i64),
    /// The service created the agent. The identifier is missing if the response could not be read.
    Succeeded { id: Option<String> },
    /// The service responded that it did not act.
    Rejected {
        status: Option<u16>,
        request_id: Option<String>,
    },
    /// The service may have acted.
    Unknown {
        status: Option<u16>,
        request_id: Option<String>,
    },
    /// Somebody has found out: the identifier of its agent, or that there is none.
    Settled { id: Option<String> },
}

/// What a job notes about a row that it has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Succeeded {
        id: Option<String>,
    },
    Rejected {
        status: Option<u16>,
        request_id: Option<String>,
    },
    /// No part of it reached the service.
    NotSent,
    Unknown {
        status: Option<u16>,
        request_id: Option<String>,
    },
}

/// What is recorded of a row that is not simply sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Whether its agent was created, the service rejected it, or nobody knows.
    pub outcome: Outcome,
    /// The identifier of its agent, if it was created and the ledger has the identifier.
    pub agent_id: Option<AgentId>,
    /// The status of the response, if there was one and the row was rejected or its outcome is unknown.
    pub status: Option<u16>,
    /// The service's id for the request, if it gave one.
    pub request_id: Option<String>,
    /// Whether another job is sending the row right now: its outcome is unknown, but that job will know it.
    pub in_flight: bool,
}

/// What becomes of a row's record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It becomes this.
    To(State),
    /// It becomes what it was before the claim, if it was anything.
    Back,
}

impl State {
    /// What is reported for the row instead of sending it; `None` if it may be sent.
    pub(crate) fn recorded(&self, is_alive: impl FnOnce(i64) -> bool) -> Option<Recorded> {
        let mut recorded = Recorded {
            outcome: Outcome::Unknown,
            agent_id: None,
            status: None,
            request_id: None,
            in_flight: false,
        };
        match self {
            State::Settled { id: None } => return None,
            State::Rejected { status, .. } if !is_about_the_row(*status) => return None,
            State::Sending(owner) => recorded.in_flight = is_alive(*owner),
            State::Succeeded { id } | State::Settled { id } => {
                recorded.outcome = Outcome::Succeeded;
                recorded.agent_id = id.clone().map(AgentId::from);
            }
            State::Rejected { status, request_id } => {
                recorded.outcome = Outcome::Rejected;
                recorded.status = *status;
                recorded.request_id.clone_from(request_id);
            }
            State::Unknown { status, request_id } => {
                recorded.status = *status;
                recorded.request_id.clone_from(request_id);
            }
        }
        Some(recorded)
    }

    /// Whether the service may have created an agent for the row, as far as this alone says.
    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self, State::Sending(_) | State::Unknown { .. })
    }

    /// What a finding of somebody makes of it: `Ok(None)` if it says so already, an error if it cannot be.
    pub(super) fn settled(
        &self,
        agent_id: Option<&str>,
        is_alive: impl FnOnce(i64) -> bool,
    ) -> Result<Option<State>, Unsettled> {
        match (self, agent_id) {
            (State::Sending(owner), _) if is_alive(*owner) => Err(Unsettled::InFlight),
            (
                State::Succeeded { id: Some(known) } | State::Settled { id: Some(known) },
                Some(id),
            ) if known == id => Ok(None),
            (State::Settled { id: None }, None) => Ok(None),
            (State::Succeeded { id: Some(_) }, _) | (State::Succeeded { .. }, None) => {
                Err(Unsettled::Succeeded)
            }
            _ => Ok(Some(State::Settled {
                id: agent_id.map(str::to_owned),
            })),
        }
    }
}

/// Why a row cannot be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// The service itself said that it created the agent.
    Succeeded,
    /// A job is sending it.
    InFlight,
}

impl Recorded {
    /// Whether a job that sends rows in doubt again may send this one.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.outcome == Outcome::Unknown && !self.in_flight
    }
}

impl Note {
    /// What the note makes of a row that was claimed when this was known about it, if anything.
    pub(super) fn change(self, before: Option<&State>) -> Change {
        let was_in_doubt = before.is_some_and(State::is_in_doubt);
        match self {
            // Sending it once more does not undo what may have happened before.
            Note::NotSent => Change::Back,
            Note::Rejected { .. } if was_in_doubt => Change::Back,
            Note::Succeeded { id } => Change::To(State::Succeeded { id }),
            Note::Rejected { status, request_id } => {
                Change::To(State::Rejected { status, request_id })
            }
            Note::Unknown { status, request_id } => {
                Change::To(State::Unknown { status, request_id })
            }
        }
    }
}

/// Whether a rejection with this status is about the content of the row. Others are about who sent it, when, or
/// where to: with the right service key, for example, the row may be fine.
fn is_about_the_row(status: Option<u16>) -> bool {
    !matches!(
        status,
        Some(307 | 308 | 401 | 403 | 404 | 405 | 407 | 421 | 425 | 426 | 429)
    )
}
