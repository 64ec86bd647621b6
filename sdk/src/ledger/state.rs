//! What is known about a create, and when it may be sent: pure rules, which no database and no clock can change.

use chrono::{DateTime, Utc};
use http::StatusCode;

use super::error::Refusal;
use crate::{http::outcome::Outcome, value::AgentId};

/// The longest identifier of an agent that is recorded, in bytes.
pub(crate) const LONGEST_ID: usize = 1024;

/// What is known of a row, as the columns of a ledger's tables have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) state: State,
    /// The agent's identifier, if there is an agent and it is known.
    pub(crate) agent_id: Option<String>,
    /// The status of the response, and the service's id for the request, if the row was rejected or is unknown.
    pub(crate) status: Option<u16>,
    pub(crate) request_id: Option<String>,
    /// The job that is sending it, or was when it ended.
    pub(crate) job: Option<i64>,
    /// When a job claimed it, and when the latest was noted, in milliseconds since 1970: set when it is written.
    pub(crate) claimed_at: i64,
    pub(crate) noted_at: i64,
}

/// What a row has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A job was about to send it, and has noted nothing since.
    Sending,
    /// The service created the agent.
    Succeeded,
    /// The service responded that it did not act.
    Rejected,
    /// The service may have acted.
    Unknown,
    /// Somebody has found out: the identifier of its agent, or that there is none.
    Settled,
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
    pub status: Option<StatusCode>,
    /// The service's id for the request, if it gave one.
    pub request_id: Option<String>,
    /// When it was sent.
    pub sent_at: Option<DateTime<Utc>>,
    /// Whether another job is sending the row right now: its outcome is unknown, but that job will know it.
    pub in_flight: bool,
}

impl State {
    pub(super) const ALL: [Self; 5] = [
        Self::Sending,
        Self::Succeeded,
        Self::Rejected,
        Self::Unknown,
        Self::Settled,
    ];

    /// The word for it in a ledger.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
            Self::Settled => "settled",
        }
    }
}

impl Record {
    /// A row in this state, of which nothing else is known.
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            agent_id: None,
            status: None,
            request_id: None,
            job: None,
            claimed_at: 0,
            noted_at: 0,
        }
    }

    /// What is reported for the row instead of sending it; `None` if it may be sent.
    pub(super) fn recorded(&self, is_alive: impl FnOnce(i64) -> bool) -> Option<Recorded> {
        let outcome = match self.state {
            State::Settled if self.agent_id.is_none() => return None,
            State::Rejected if !is_about_the_row(self.status) => return None,
            State::Sending | State::Unknown => Outcome::Unknown,
            State::Succeeded | State::Settled => Outcome::Succeeded,
            State::Rejected => Outcome::Rejected,
        };
        Some(Recorded {
            outcome,
            agent_id: self.agent_id.clone().map(AgentId::from),
            status: status_code(self.status),
            request_id: self.request_id.clone(),
            sent_at: self.sent_at(),
            in_flight: self.job.is_some_and(is_alive),
        })
    }

    /// When a job sent it, or was about to.
    pub(super) fn sent_at(&self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_millis(self.claimed_at)
    }

    /// Whether a row that was this before a claim is what the job has noted since. If not, it is this again: a rejection
    /// says nothing about an earlier request that may have created the agent.
    pub(super) fn overruled_by(&self, noted: &Record) -> bool {
        let is_in_doubt = matches!(self.state, State::Sending | State::Unknown);
        !(is_in_doubt && noted.state == State::Rejected)
    }

    /// Whether a finding of somebody changes it, if it can be changed.
    pub(super) fn is_settled_by(
        &self,
        agent_id: Option<&str>,
        is_alive: impl FnOnce(i64) -> bool,
    ) -> Result<bool, Refusal> {
        let known = self.agent_id.as_deref();
        match self.state {
            State::Sending if self.job.is_some_and(is_alive) => Err(Refusal::InFlight),
            State::Succeeded if agent_id.is_none() => Err(Refusal::Succeeded),
            State::Succeeded if known.is_some() && known != agent_id => Err(Refusal::Succeeded),
            State::Succeeded | State::Settled => Ok(known != agent_id),
            _ => Ok(true),
        }
    }
}

impl Recorded {
    /// Whether a job that sends rows in doubt again may send this one.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.outcome == Outcome::Unknown && !self.in_flight
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

/// A status as a ledger has it; a number that is none is one of a file that somebody else has changed.
pub(super) fn status_code(status: Option<u16>) -> Option<StatusCode> {
    StatusCode::from_u16(status?).ok()
}
