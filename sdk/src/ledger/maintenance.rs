//! Manual operations on ledgers: the summary, and the resolution of unresolved rows.

use std::{collections::HashSet, fmt};

use chrono::{DateTime, Utc};
use http::StatusCode;

use super::{
    error::{Cause, Rejection},
    row::{AgentOwners, LedgerRow, Row, State, check_agent},
    store::{Header, Rows, Store, TransactionScope},
};
use crate::value::{AgentId, Json};

/// The number of rows in each state, and the unresolved rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerSummary {
    /// The base URL of the service.
    pub service: String,
    /// The name of the idempotency keys, such as `email` for e-mail addresses; `None` if no job has named them.
    pub key_name: Option<String>,
    /// Rows whose agents the service has created.
    pub succeeded: usize,
    /// Rows that the service rejected.
    pub rejected: usize,
    /// Rows that were resolved with an agent, by hand or by a callback.
    pub resolved_with_agent: usize,
    /// Rows that were resolved as having no agent, by hand or by a callback. The next run sends them.
    pub resolved_without_agent: usize,
    /// Rows that a job is sending now.
    pub in_flight: usize,
    /// Rows whose outcome is unknown, in the order in which they were sent. The service's operator can look up their requests
    /// by the time, the status and the request id.
    pub unresolved: Vec<LedgerRow>,
}

/// An unresolved row, as passed to the callback of [`CreateMany::resolve`](crate::CreateMany::resolve).
///
/// `Debug` shows no personal data.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnresolvedRow {
    /// The row's key in the ledger.
    pub key: String,
    /// The request that would create the agent.
    pub request: Json,
    /// The time at which the row was sent, by the clock of the machine that sent it.
    pub sent_at: DateTime<Utc>,
    /// The status of the response, if there was one.
    pub status: Option<StatusCode>,
    /// The service's id for the request, if it gave one.
    pub request_id: Option<String>,
    /// The [label](crate::CreateMany::label) with which the row was sent, if it had one.
    pub label: Option<String>,
}

impl UnresolvedRow {
    /// Makes a row that was sent at this time and had no response, for tests of your callback.
    pub fn new(key: impl Into<String>, request: Json, sent_at: DateTime<Utc>) -> Self {
        Self {
            key: key.into(),
            request,
            sent_at,
            status: None,
            request_id: None,
            label: None,
        }
    }
}

impl fmt::Debug for UnresolvedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnresolvedRow")
            .field("sent_at", &self.sent_at)
            .field("status", &self.status)
            .field("request_id", &self.request_id)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

/// The result of looking for the agent of an unresolved row; see [`CreateMany::resolve`](crate::CreateMany::resolve).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The row has this agent. The ledger records the agent, and the row is reported as already created.
    Agent(AgentId),
    /// The row certainly has no agent, and no request for it is still in transit: the row is sent again. If the agent was only
    /// not found *yet*, use [`Unknown`](Self::Unknown).
    NoAgent,
    /// The existence of the agent cannot be determined: the outcome stays unknown, and nothing is sent.
    Unknown,
}

/// Records the agents that an operator has found for rows, and returns the number of changed rows. If `commits` is false,
/// checks the entries and counts the rows, but changes nothing. `now` is the time in milliseconds since 1970.
pub(super) fn resolve(
    store: &mut dyn Store,
    resolutions: Vec<(String, Option<AgentId>)>,
    commits: bool,
    now: i64,
) -> Result<usize, Cause> {
    let resolutions = resolutions.into_iter();
    let resolutions: Vec<_> = resolutions
        .map(|(key, agent_id)| (store.header().hash(&key), agent_id))
        .collect();
    let mut keys = HashSet::new();
    for (index, (key, _)) in resolutions.iter().enumerate() {
        if !keys.insert(*key) {
            return Err(Cause::Rejected(index, Rejection::DuplicateKey));
        }
    }
    let mut scope = TransactionScope {
        keys: keys.into_iter().collect(),
        ..TransactionScope::default()
    };
    for (_, agent_id) in &resolutions {
        scope.add_agent(agent_id.as_ref());
    }
    let mut changed_count = 0;
    let mut work = |_: &Header, rows: &mut Rows, owners: &mut AgentOwners| {
        let has_entry = |key| rows.get(key).and_then(Row::current).is_some();
        if let Some(index) = resolutions.iter().position(|(key, _)| !has_entry(key)) {
            // This check comes first, because an unknown key may also cause the errors below.
            return Err(Cause::Rejected(index, Rejection::UnknownKey));
        }
        changed_count = 0;
        let mut seen_agents = HashSet::new();
        for (index, (key, agent_id)) in resolutions.iter().enumerate() {
            let agent_id = agent_id.as_ref();
            let is_first_use = agent_id.is_none_or(|id| seen_agents.insert(id));
            let check_result =
                check_agent(owners, *key, agent_id).map_err(|rejection| match rejection {
                    Rejection::AgentOfAnotherRow if !is_first_use => Rejection::DuplicateAgent,
                    rejection => rejection,
                });
            let row = rows.entry(*key).or_default();
            let is_changed = check_result.and_then(|()| row.resolve(now, agent_id));
            changed_count +=
                usize::from(is_changed.map_err(|rejection| Cause::Rejected(index, rejection))?);
        }
        Ok(commits)
    };
    store.change_rows(&scope, &mut work)?;
    Ok(changed_count)
}

/// Marks each row as unknown that a job would send or send again, and returns the number of changed rows. `now` is the time in
/// milliseconds since 1970.
pub(super) fn mark_unknown(
    store: &mut (dyn Store + 'static),
    key_name: Option<&str>,
    keys: &[String],
    now: i64,
) -> Result<usize, Cause> {
    store.check_key_name(key_name)?;
    let opened = store.header().clone();
    let keys: Vec<_> = keys.iter().map(|key| opened.hash(key)).collect();
    let scope = TransactionScope {
        keys: keys.iter().copied().collect(),
        ..TransactionScope::default()
    };
    let mut changed_count = 0;
    let mut work = |header: &Header, rows: &mut Rows, _: &mut AgentOwners| {
        // Another name of the keys may change their hashes.
        opened.check_unchanged(header)?;
        changed_count = 0;
        for (index, key) in keys.iter().enumerate() {
            let is_changed = rows.entry(*key).or_default().mark_unknown(now);
            changed_count +=
                usize::from(is_changed.map_err(|rejection| Cause::Rejected(index, rejection))?);
        }
        Ok(true)
    };
    store.change_rows(&scope, &mut work)?;
    Ok(changed_count)
}

/// Counts the rows of a ledger, and lists the unresolved ones.
pub(super) fn summarize(store: &mut (dyn Store + 'static)) -> Result<LedgerSummary, Cause> {
    let header = store.header();
    let mut summary = LedgerSummary {
        service: header.service.clone(),
        key_name: header.key_name.clone(),
        ..LedgerSummary::default()
    };
    store.for_each_row(&mut |entry| match entry.state {
        State::Succeeded => summary.succeeded += 1,
        State::Resolved if entry.agent_id.is_some() => summary.resolved_with_agent += 1,
        State::Resolved => summary.resolved_without_agent += 1,
        State::Rejected => summary.rejected += 1,
        State::Sending if entry.is_in_flight() => summary.in_flight += 1,
        State::Sending | State::Unknown => summary.unresolved.extend(entry.to_ledger_row()),
    })?;
    summary.unresolved.sort_by_key(|row| row.sent_at);
    Ok(summary)
}
