//! Rules of one row: whether a job may send it, and how outcomes change its entries. Pure functions, without database or clock.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use http::StatusCode;

use super::{
    error::Rejection,
    key_hash::{KeyHash, ValueHash},
};
use crate::{
    transport::outcome::{Outcome, concerns_content},
    value::AgentId,
};

/// The longest agent identifier that a ledger records, in bytes.
pub(crate) const MAX_ID_BYTES: usize = 1024;

/// One entry in the history of a row: a claim, an outcome or a resolution. Its fields are the columns of the table `creates`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowEntry {
    pub(crate) state: State,
    /// The agent's identifier, if the agent exists and the identifier is known.
    pub(crate) agent_id: Option<String>,
    /// The status of the response, if the row was rejected or its outcome is unknown.
    pub(crate) status: Option<u16>,
    /// The service's id for the request, if the row was rejected or its outcome is unknown.
    pub(crate) request_id: Option<String>,
    /// The title and the violation codes of the error response, if the row was rejected.
    pub(crate) title: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) request: RequestInfo,
    /// The job that has claimed the row, if no outcome is recorded.
    pub(crate) job: Option<Job>,
    /// The time of the claim under which the row was sent, or of the user's mark, in milliseconds since 1970.
    pub(crate) claimed_at: i64,
    /// The time at which this entry was written, in milliseconds since 1970.
    pub(crate) noted_at: i64,
}

/// Hashes of a row's request, and the row's label. They identify the request, but reveal none of its personal data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// The hash of the request's body.
    pub(crate) body_hash: Option<ValueHash>,
    /// The hash of the agent's e-mail address, if the body has one.
    pub(crate) email_hash: Option<ValueHash>,
    /// The caller's label for the row.
    pub(crate) label: Option<String>,
}

/// The job that has claimed a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(super) number: i64,
    /// True if the job may still send the rows that it has claimed.
    pub(super) is_alive: bool,
}

/// The state of a row, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A job has claimed the row to send it or to ask about it, and no outcome is recorded yet.
    Sending,
    /// The service created the agent.
    Succeeded,
    /// The service rejected the request, and created no agent.
    Rejected,
    /// The row was sent, and the service may have created the agent.
    Unknown,
    /// The user has recorded the identifier of the agent, or that there is no agent.
    Resolved,
}

/// The treatment of a row that is unresolved when a job claims it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenUnresolved {
    /// The job does not claim the row, and reports it as unresolved.
    Report,
    /// The job sends the row again.
    Resend,
    /// The job claims the row to ask the callback of [`CreateMany::resolve`](crate::CreateMany::resolve) whether the agent
    /// exists. No job sends the row meanwhile.
    Ask,
}

/// A row of a ledger that a job does not send, because its outcome is known or must be resolved first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerRow {
    /// The outcome: the agent was created, the service rejected the row, or the outcome is unknown.
    pub outcome: Outcome,
    /// The identifier of the agent, if the agent was created and the ledger has its identifier.
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
    /// True if the request that was sent differs from the request that the row has now; false if no request was compared.
    pub request_differs: bool,
    /// The hash of the request that was sent, if it is known.
    pub(crate) request_hash: Option<ValueHash>,
    /// The time at which the row was sent.
    pub sent_at: Option<DateTime<Utc>>,
    /// True if another job is sending the row right now, or [asks](crate::CreateMany::resolve) about it. The outcome is unknown
    /// until that job records it.
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

    pub(super) fn parse(word: &str) -> Option<Self> {
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

impl RowEntry {
    /// Makes an entry in this state, without further data.
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

    /// Returns whether a job is sending the row now, or asks about it.
    pub(super) fn is_in_flight(&self) -> bool {
        self.job.is_some_and(|job| job.is_alive)
    }

    /// Returns the result to report for the row instead of sending it; `None` if the row may be sent.
    pub(super) fn to_ledger_row(&self) -> Option<LedgerRow> {
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
            request_hash: self.request.body_hash,
            request_differs: false,
            sent_at: self.sent_at(),
            in_flight: self.is_in_flight(),
        })
    }

    /// Makes an entry that claims a row whose current entry is `old`. A claim that only asks about the row retains the data of
    /// the earlier request: if the job is killed, the operator still needs that data.
    pub(super) fn new_claim(
        old: Option<&Self>,
        when_unresolved: WhenUnresolved,
        request: &RequestInfo,
        job: i64,
        now: i64,
    ) -> Self {
        let retained_entry = old.filter(|_| when_unresolved == WhenUnresolved::Ask);
        Self {
            request: retained_entry.map_or(request, |old| &old.request).clone(),
            status: retained_entry.and_then(|old| old.status),
            request_id: retained_entry.and_then(|old| old.request_id.clone()),
            job: Some(Job {
                number: job,
                is_alive: true,
            }),
            claimed_at: retained_entry.map_or(now, |old| old.claimed_at),
            noted_at: now,
            ..Self::new(State::Sending)
        }
    }

    /// Returns the time at which a job sent the row, or was about to send it.
    fn sent_at(&self) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp_millis(self.claimed_at)
    }

    /// Returns whether an outcome that a job records replaces this entry, the row's latest one without the job's own claim.
    /// This entry stays if it is about another request that may have created the agent, or if the agent's identifier would be
    /// lost.
    fn is_replaced_by(&self, outcome: &Self) -> bool {
        match self.state {
            State::Succeeded | State::Resolved if self.agent_id.is_some() => {
                outcome.state == State::Succeeded && outcome.agent_id.is_some()
            }
            State::Succeeded => {
                outcome.state == State::Succeeded
                    || (outcome.state == State::Resolved && outcome.agent_id.is_some())
            }
            State::Sending if self.is_in_flight() => outcome.state == State::Succeeded,
            State::Sending | State::Unknown => outcome.state != State::Rejected,
            State::Rejected | State::Resolved => true,
        }
    }
}

/// The entries of a row, oldest first. The last one is the current one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row(pub(super) Vec<RowEntry>);

impl Row {
    pub(super) fn current(&self) -> Option<&RowEntry> {
        self.0.last()
    }

    /// Claims the row for a job, or returns the result to report if the row must not be sent. `resends_corrected` is true if
    /// the job sends a rejected row again whose request has changed.
    pub(super) fn claim(
        &mut self,
        job: i64,
        now: i64,
        when_unresolved: WhenUnresolved,
        resends_corrected: bool,
        request: &RequestInfo,
    ) -> Option<LedgerRow> {
        let existing = self.current().and_then(RowEntry::to_ledger_row);
        let may_claim = |row: &LedgerRow| {
            (when_unresolved != WhenUnresolved::Report && row.is_unresolved())
                || (resends_corrected && row.is_corrected_by(request))
        };
        let blocking = existing.filter(|row| !may_claim(row));
        if blocking.is_none() {
            let claim = RowEntry::new_claim(self.current(), when_unresolved, request, job, now);
            self.0.push(claim);
        }
        blocking
    }

    /// Makes an entry that resolves the row: with this agent, or as having no agent.
    pub(super) fn new_resolution(&self, agent_id: Option<&AgentId>) -> RowEntry {
        RowEntry {
            agent_id: agent_id.map(ToString::to_string),
            request: self
                .current()
                .map(|old| old.request.clone())
                .unwrap_or_default(),
            ..RowEntry::new(State::Resolved)
        }
    }

    /// Records the outcome of the row; `None` means that no part of the request reached the service. `jobs` are the job numbers
    /// under which the row may have been claimed: more than one if a client has reopened the ledger.
    pub(super) fn record_outcome(&mut self, jobs: &[i64], now: i64, outcome: Option<RowEntry>) {
        let is_own_claim =
            |entry: &RowEntry| entry.job.is_some_and(|job| jobs.contains(&job.number));
        let decides_existence =
            |outcome: &RowEntry| matches!(outcome.state, State::Succeeded | State::Resolved);
        // Entries that other jobs have added since the claim stay the latest ones, unless this outcome decides whether the
        // agent exists.
        let later_entries = match self.0.iter().rposition(is_own_claim) {
            Some(claim) if !outcome.as_ref().is_some_and(decides_existence) => {
                self.0.split_off(claim + 1)
            }
            _ => Vec::new(),
        };
        let claimed_at = self.current().map_or(now, |old| old.claimed_at);
        let outcome = outcome.map(|outcome| RowEntry {
            claimed_at,
            noted_at: now,
            ..outcome
        });
        let is_outdated = if self.0.pop_if(|last| is_own_claim(last)).is_some() {
            // The outcome takes the position of the claim. If it is dropped below, the claim is withdrawn.
            false
        } else {
            // Another job has claimed the row since, or the claim was never written, or this outcome was recorded before and
            // only the response was lost. So the outcome that there is no agent is dropped: another request may have been sent
            // since then.
            let has_no_agent = |outcome: &RowEntry| match outcome.state {
                State::Rejected => true,
                State::Resolved => outcome.agent_id.is_none(),
                _ => false,
            };
            outcome.as_ref().is_some_and(has_no_agent)
        };
        let current = self.current();
        let replaces = |outcome: &RowEntry| current.is_none_or(|old| old.is_replaced_by(outcome));
        let outcome = outcome.filter(|outcome| !is_outdated && replaces(outcome));
        self.0.extend(outcome);
        self.0.extend(later_entries);
    }

    /// Records the agent that an operator has found for the row, or that the row has no agent. Returns whether this changes the
    /// row.
    pub(super) fn resolve(
        &mut self,
        now: i64,
        agent_id: Option<&AgentId>,
    ) -> Result<bool, Rejection> {
        let old = self.current().ok_or(Rejection::UnknownKey)?;
        let found_id = agent_id.map(AgentId::as_str);
        let known_id = old.agent_id.as_deref();
        let is_changed = match old.state {
            State::Sending if old.is_in_flight() => return Err(Rejection::InFlight),
            State::Succeeded
                if agent_id.is_none() || known_id.is_some_and(|id| Some(id) != found_id) =>
            {
                return Err(Rejection::AlreadyCreated);
            }
            State::Succeeded | State::Resolved => known_id != found_id,
            _ => true,
        };
        if is_changed {
            let resolution = RowEntry {
                claimed_at: old.claimed_at,
                noted_at: now,
                ..self.new_resolution(agent_id)
            };
            self.0.push(resolution);
        }
        Ok(is_changed)
    }

    /// Marks the row as unknown if a job would send it now or once its request is corrected. Returns whether this changes the
    /// row.
    pub(super) fn mark_unknown(&mut self, now: i64) -> Result<bool, Rejection> {
        let may_be_sent = match self.current() {
            None => true,
            Some(old) if old.is_in_flight() => return Err(Rejection::InFlight),
            Some(old) => match old.state {
                State::Rejected => true,
                State::Resolved => old.agent_id.is_none(),
                State::Sending | State::Succeeded | State::Unknown => false,
            },
        };
        if may_be_sent {
            self.0.push(RowEntry {
                claimed_at: now,
                noted_at: now,
                ..RowEntry::new(State::Unknown)
            });
        }
        Ok(may_be_sent)
    }
}

impl LedgerRow {
    /// Makes a record with this outcome, without other data.
    pub(crate) fn with_outcome(outcome: Outcome) -> Self {
        Self {
            outcome,
            agent_id: None,
            status: None,
            request_id: None,
            title: None,
            code: None,
            label: None,
            request_hash: None,
            request_differs: false,
            sent_at: None,
            in_flight: false,
        }
    }

    /// Makes the result for a row that this process is sending.
    pub(super) fn in_flight() -> Self {
        Self {
            in_flight: true,
            ..Self::with_outcome(Outcome::Unknown)
        }
    }

    /// Joins the title and the codes of a rejection into one message.
    pub(crate) fn reason(&self) -> Option<String> {
        let parts = [self.title.as_deref(), self.code.as_deref()];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    /// Compares the request that was sent with the request that the row has now.
    pub(crate) fn compared_with(self, request: &RequestInfo) -> Self {
        Self {
            request_differs: self.differs_from(request),
            ..self
        }
    }

    /// Returns whether the service rejected the row, and the row has another request now.
    pub(crate) fn is_corrected_by(&self, request: &RequestInfo) -> bool {
        self.outcome == Outcome::Rejected && self.differs_from(request)
    }

    /// Returns whether the request that was sent is known to differ from this one.
    fn differs_from(&self, request: &RequestInfo) -> bool {
        let differs = |(sent, now)| sent != now;
        let hashes = self.request_hash.zip(request.body_hash);
        hashes.is_some_and(differs)
    }

    /// Returns whether the outcome is unknown and no living job will record it.
    pub(crate) fn is_unresolved(&self) -> bool {
        self.outcome == Outcome::Unknown && !self.in_flight
    }
}

/// Converts a stored status. A number that is no status code becomes `None`: another program has changed the ledger.
fn status_code(status: Option<u16>) -> Option<StatusCode> {
    StatusCode::from_u16(status?).ok()
}

/// The keys of the rows that have an agent, by the agent's identifier. Several rows may have the same agent, because a service
/// may return the same identifier several times.
pub(super) type AgentOwners = HashMap<String, Vec<KeyHash>>;

/// Words that people write into a table cell for "no agent", without spaces and punctuation. A service is unlikely to use one of
/// them as an identifier, and a row that is resolved with such a word would never be created. The command also asks about other
/// identifiers that look like words.
const NO_AGENT_PLACEHOLDERS: [&str; 12] = [
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

/// Checks that the row with this key can have this agent, and adds the row to the agent's owners.
pub(super) fn check_agent(
    owners: &mut AgentOwners,
    key: KeyHash,
    agent_id: Option<&AgentId>,
) -> Result<(), Rejection> {
    let Some(id) = agent_id.map(AgentId::as_str) else {
        return Ok(());
    };
    if is_placeholder(id) {
        return Err(Rejection::Placeholder);
    }
    if id.len() > MAX_ID_BYTES {
        return Err(Rejection::IdTooLong(MAX_ID_BYTES));
    }
    if id.contains('\0') {
        return Err(Rejection::NulCharacter);
    }
    let owners = owners.entry(id.to_owned()).or_default();
    if !owners.contains(&key) {
        if !owners.is_empty() {
            return Err(Rejection::AgentOfAnotherRow);
        }
        owners.push(key);
    }
    Ok(())
}

/// Returns whether an identifier stands for "no agent". True if it has no letters or digits, if it is `0` or one of
/// [`NO_AGENT_PLACEHOLDERS`] in any spelling, or if it is the result of a failed look-up in a spreadsheet, such as `#N/A`.
fn is_placeholder(id: &str) -> bool {
    let lower = id.to_lowercase();
    let word: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    id.starts_with('#') || matches!(&*word, "" | "0") || NO_AGENT_PLACEHOLDERS.contains(&&*word)
}
