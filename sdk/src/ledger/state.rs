//! What is known about a create, and when it may be sent: pure rules, which no database and no clock can change.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use http::StatusCode;

use super::{
    error::Refusal,
    key_hash::{Digest, KeyHash},
};
use crate::{
    transport::outcome::{Outcome, concerns_content},
    value::AgentId,
};

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
    /// The title and the violation codes of the error response, if the row was rejected.
    pub(crate) title: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) request: RequestInfo,
    /// The job that is sending it, or was when it ended.
    pub(crate) job: Option<Job>,
    /// When a job claimed it, and when the latest was noted, in milliseconds since 1970: set when it is written.
    pub(crate) claimed_at: i64,
    pub(crate) noted_at: i64,
}

/// The request of a row, without its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The hash of the request's body.
    pub(crate) body: Option<Digest>,
    /// The hash of the agent's e-mail address, if the body has one.
    pub(crate) email: Option<Digest>,
    /// The caller's label for the row.
    pub(crate) label: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(super) number: i64,
    /// Whether it may still be sending what it has claimed.
    pub(super) is_alive: bool,
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
    /// The user has recorded the identifier of its agent, or that there is none.
    Resolved,
}

/// What a job that claims a row does if the row is unresolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenUnresolved {
    /// It does not claim it.
    Report,
    /// It sends it again.
    Resend,
    /// It asks somebody whether there is an agent, and nothing is sent meanwhile.
    Ask,
}

/// What is recorded of a row that is not simply sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerRow {
    /// Whether its agent was created, the service rejected it, or nobody knows.
    pub outcome: Outcome,
    /// The identifier of its agent, if it was created and the ledger has the identifier.
    pub agent_id: Option<AgentId>,
    /// The status of the response, if there was one and the row was rejected or its outcome is unknown.
    pub status: Option<StatusCode>,
    /// The service's id for the request, if it gave one.
    pub request_id: Option<String>,
    /// The title of the error response, if the service rejected the row and gave one.
    pub title: Option<String>,
    /// The codes of the violations in the error response, separated by spaces, if the service rejected the row and gave any.
    pub code: Option<String>,
    /// The [label](crate::CreateRow::label) of the row.
    pub label: Option<String>,
    /// Whether the request that was sent differs from the one that the row has now; false if no request was compared.
    pub request_differs: bool,
    /// The hash of the request that was sent, if it is known.
    pub(crate) request: Option<Digest>,
    /// When it was sent.
    pub sent_at: Option<DateTime<Utc>>,
    /// Whether another job is sending the row right now, or [asks](crate::CreateMany::resolve) about it: its outcome is
    /// unknown, but that job will know it.
    pub in_flight: bool,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Sending,
        Self::Succeeded,
        Self::Rejected,
        Self::Unknown,
        Self::Resolved,
    ];

    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
            Self::Resolved => "resolved",
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
            title: None,
            code: None,
            request: RequestInfo::default(),
            job: None,
            claimed_at: 0,
            noted_at: 0,
        }
    }

    /// Whether a job is sending it now.
    pub(super) fn is_in_flight(&self) -> bool {
        self.job.is_some_and(|job| job.is_alive)
    }

    /// What is reported for the row instead of sending it; `None` if it may be sent.
    pub(super) fn recorded(&self) -> Option<LedgerRow> {
        let outcome = match self.state {
            State::Resolved if self.agent_id.is_none() => return None,
            State::Rejected if !concerns_content(self.status) => return None,
            State::Sending | State::Unknown => Outcome::Unknown,
            State::Succeeded | State::Resolved => Outcome::Succeeded,
            State::Rejected => Outcome::Rejected,
        };
        Some(LedgerRow {
            outcome,
            agent_id: self.agent_id.clone().map(AgentId::from),
            status: status_code(self.status),
            request_id: self.request_id.clone(),
            title: self.title.clone(),
            code: self.code.clone(),
            label: self.request.label.clone(),
            request: self.request.body,
            request_differs: false,
            sent_at: self.sent_at(),
            in_flight: self.is_in_flight(),
        })
    }

    /// The row as a job claims it, that was this before. If there is only to be asked about it, what is known of how it
    /// was sent stays, for whoever finds it unresolved if the job is killed.
    pub(super) fn claimed(
        old: Option<&Self>,
        when: WhenUnresolved,
        request: &RequestInfo,
        job: i64,
        now: i64,
    ) -> Self {
        let asked = old.filter(|_| when == WhenUnresolved::Ask);
        Self {
            request: asked.map_or(request, |old| &old.request).clone(),
            status: asked.and_then(|old| old.status),
            request_id: asked.and_then(|old| old.request_id.clone()),
            job: Some(Job {
                number: job,
                is_alive: true,
            }),
            claimed_at: asked.map_or(now, |old| old.claimed_at),
            noted_at: now,
            ..Self::new(State::Sending)
        }
    }

    /// When a job sent it, or was about to.
    fn sent_at(&self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_millis(self.claimed_at)
    }

    /// Returns whether a note of a job replaces this record, which the row has or had before it was claimed. If not, the note says
    /// nothing about another request that may have created the agent, or is creating it; or it does not have the agent's identifier,
    /// which this has.
    fn is_overruled_by(&self, noted: &Self) -> bool {
        match self.state {
            State::Succeeded | State::Resolved if self.agent_id.is_some() => {
                noted.state == State::Succeeded && noted.agent_id.is_some()
            }
            State::Succeeded => {
                noted.state == State::Succeeded
                    || (noted.state == State::Resolved && noted.agent_id.is_some())
            }
            State::Sending if self.is_in_flight() => noted.state == State::Succeeded,
            State::Sending | State::Unknown => noted.state != State::Rejected,
            State::Rejected | State::Resolved => true,
        }
    }
}

/// What a ledger has on a key: the last entry counts, and the others say what it was before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row(pub(super) Vec<Record>);

impl Row {
    pub(super) fn current(&self) -> Option<&Record> {
        self.0.last()
    }

    /// Claims it for a job, or returns why it is not to be sent.
    pub(super) fn claim(
        &mut self,
        job: i64,
        now: i64,
        when: WhenUnresolved,
        request: &RequestInfo,
    ) -> Option<LedgerRow> {
        let recorded = self.current().and_then(Record::recorded);
        let is_free =
            |recorded: &LedgerRow| when != WhenUnresolved::Report && recorded.is_unresolved();
        let refused = recorded.filter(|recorded| !is_free(recorded));
        if refused.is_none() {
            let claimed = Record::claimed(self.current(), when, request, job, now);
            self.0.push(claimed);
        }
        refused
    }

    /// The record that the row has this agent, or none.
    pub(super) fn resolved(&self, agent_id: Option<&AgentId>) -> Record {
        Record {
            agent_id: agent_id.map(ToString::to_string),
            request: self
                .current()
                .map(|old| old.request.clone())
                .unwrap_or_default(),
            ..Record::new(State::Resolved)
        }
    }

    /// Notes what became of it, or that no part of it reached the service: by a job, or a client that has been these jobs.
    pub(super) fn note(&mut self, jobs: &[i64], now: i64, noted: Option<Record>) {
        let is_ours = |old: &Record| old.job.is_some_and(|job| jobs.contains(&job.number));
        let says_agent = |noted: &Record| matches!(noted.state, State::Succeeded | State::Resolved);
        // Claims that other jobs have made since follow this note, unless it says whether there is an agent.
        let since = match self.0.iter().rposition(is_ours) {
            Some(claim) if !noted.as_ref().is_some_and(says_agent) => self.0.split_off(claim + 1),
            _ => Vec::new(),
        };
        let claimed_at = self.current().map_or(now, |old| old.claimed_at);
        let noted = noted.map(|noted| Record {
            claimed_at,
            noted_at: now,
            ..noted
        });
        let is_late = if self.0.pop_if(|last| is_ours(last)).is_some() {
            // Unless the note counts, it is as if the row had not been claimed.
            false
        } else {
            // Somebody has changed it meanwhile; or the claim was refused, or given up before it was written. What somebody
            // has looked up says nothing about what was sent since.
            let is_nobody =
                |noted: &Record| noted.state == State::Resolved && noted.agent_id.is_none();
            noted.as_ref().is_some_and(is_nobody)
        };
        let current = self.current();
        let overrules = |noted: &Record| current.is_none_or(|old| old.is_overruled_by(noted));
        let noted = noted.filter(|noted| !is_late && overrules(noted));
        self.0.extend(noted);
        self.0.extend(since);
    }

    /// Records that somebody has found its agent, or that there is none; returns whether that changes it.
    pub(super) fn resolve(
        &mut self,
        now: i64,
        agent_id: Option<&AgentId>,
    ) -> Result<bool, Refusal> {
        let old = self.current().ok_or(Refusal::UnknownKey)?;
        let found = agent_id.map(AgentId::as_str);
        let known = old.agent_id.as_deref();
        let changes = match old.state {
            State::Sending if old.is_in_flight() => return Err(Refusal::InFlight),
            State::Succeeded if agent_id.is_none() || known.is_some_and(|id| Some(id) != found) => {
                return Err(Refusal::Succeeded);
            }
            State::Succeeded | State::Resolved => known != found,
            _ => true,
        };
        if changes {
            let resolved = Record {
                claimed_at: old.claimed_at,
                noted_at: now,
                ..self.resolved(agent_id)
            };
            self.0.push(resolved);
        }
        Ok(changes)
    }
}

impl LedgerRow {
    /// That a row is being sent in this very process.
    pub(super) fn in_flight() -> Self {
        Self {
            outcome: Outcome::Unknown,
            agent_id: None,
            status: None,
            request_id: None,
            title: None,
            code: None,
            label: None,
            request: None,
            request_differs: false,
            sent_at: None,
            in_flight: true,
        }
    }

    /// The title and the codes of a rejection, as a text.
    pub(crate) fn reason(&self) -> Option<String> {
        let parts = [self.title.as_deref(), self.code.as_deref()];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    /// Compares the request that was sent with the one that the row has now.
    pub(crate) fn compared_with(self, request: &RequestInfo) -> Self {
        let differs = |(sent, now)| sent != now;
        Self {
            request_differs: self.request.zip(request.body).is_some_and(differs),
            ..self
        }
    }

    /// Whether nobody knows what became of the row, and no job will.
    pub(crate) fn is_unresolved(&self) -> bool {
        self.outcome == Outcome::Unknown && !self.in_flight
    }
}

/// A status as a ledger has it; a number that is none is one of a file that somebody else has changed.
fn status_code(status: Option<u16>) -> Option<StatusCode> {
    StatusCode::from_u16(status?).ok()
}

/// The rows that have an agent, by the agent's identifier. Several rows may have one, because a service may give one
/// identifier to several rows.
pub(super) type AgentOwners = HashMap<String, Vec<KeyHash>>;

/// Placeholders for an identifier that does not exist, without spaces and punctuation. No service is likely to use one of them as an
/// identifier. The command also asks about other identifiers that look like words.
const PLACEHOLDERS: [&str; 12] = [
    "missing",
    "na",
    "nan",
    "nil",
    "no",
    "noagent",
    "nobody",
    "none",
    "notfound",
    "null",
    "undefined",
    "unknown",
];

/// Checks that this can be the agent of the row with this key, and makes the row its owner.
pub(super) fn check_agent(
    owners: &mut AgentOwners,
    key: KeyHash,
    agent_id: Option<&AgentId>,
) -> Result<(), Refusal> {
    let Some(id) = agent_id.map(AgentId::as_str) else {
        return Ok(());
    };
    if is_placeholder(id) {
        return Err(Refusal::Placeholder);
    }
    if id.len() > LONGEST_ID {
        return Err(Refusal::LongId(LONGEST_ID));
    }
    if id.contains('\0') {
        return Err(Refusal::ZeroByte);
    }
    let owners = owners.entry(id.to_owned()).or_default();
    if !owners.contains(&key) {
        if !owners.is_empty() {
            return Err(Refusal::AgentOfAnotherRow);
        }
        owners.push(key);
    }
    Ok(())
}

/// Returns true if a text stands for a missing identifier, in any spelling: it has no letter and no digit, it is one of
/// [`PLACEHOLDERS`] or `0`, or it begins like the error of a spreadsheet's look-up, such as `#N/A`.
fn is_placeholder(id: &str) -> bool {
    let word = id.to_lowercase();
    let word: String = word.chars().filter(|c| c.is_alphanumeric()).collect();
    id.starts_with('#') || matches!(&*word, "" | "0") || PLACEHOLDERS.contains(&&*word)
}
