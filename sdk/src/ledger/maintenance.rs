//! What people find out about rows, and what they ask.

use std::{collections::HashSet, fmt};

use chrono::{DateTime, Utc};
use http::StatusCode;

use super::{
    error::{Cause, Refusal},
    state::{AgentOwners, LedgerRow, Row, State, check_agent},
    store::{Header, Rows, Store, Touched},
};
use crate::value::{AgentId, Json};

/// What a ledger has, as numbers of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerSummary {
    /// The base URL of the service.
    pub service: String,
    /// The name of the rows' keys, such as `email`, if a job has set it.
    pub key_name: Option<String>,
    /// Rows whose agent was created.
    pub succeeded: usize,
    /// Rows that the service rejected.
    pub rejected: usize,
    /// Rows for which somebody has found an agent.
    pub resolved_with_agent: usize,
    /// Rows for which somebody has found that there is no agent: the next run sends them.
    pub resolved_without_agent: usize,
    /// Rows that a job is sending now.
    pub in_flight: usize,
    /// Rows of which nobody knows whether they have an agent, in the order in which they were sent. With the time, the status
    /// and the request's id, whoever runs the service can look for the requests.
    pub unresolved: Vec<LedgerRow>,
}

/// An unresolved row about which [`CreateMany::resolve`](crate::CreateMany::resolve) asks.
///
/// `Debug` shows no personal data.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnresolvedRow {
    /// The row's key in the ledger.
    pub key: String,
    /// The request that would create the agent.
    pub request: Json,
    /// When it was sent, by the clock of the machine that sent it.
    pub sent_at: DateTime<Utc>,
    /// The status of the response, if there was one.
    pub status: Option<StatusCode>,
    /// The service's id for the request, if it gave one.
    pub request_id: Option<String>,
}

impl UnresolvedRow {
    /// A row that was sent at this time, and has had no response: for tests of your own function.
    pub fn new(key: impl Into<String>, request: Json, sent_at: DateTime<Utc>) -> Self {
        Self {
            key: key.into(),
            request,
            sent_at,
            status: None,
            request_id: None,
        }
    }
}

impl fmt::Debug for UnresolvedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnresolvedRow")
            .field("sent_at", &self.sent_at)
            .field("status", &self.status)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

/// The answer to the question whether an unresolved row has an agent; see
/// [`CreateMany::resolve`](crate::CreateMany::resolve).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It has this one. The ledger records that, and the row is reported as already created.
    Agent(AgentId),
    /// It has certainly none, and none is on its way: the row is sent again. What has not been found *yet* is
    /// [`Unknown`](Self::Unknown).
    NoAgent,
    /// Nobody can tell: the row stays unknown, and nothing is sent.
    Unknown,
}

/// Records the agents that were found, at this time, unless they are only to be checked. Returns how many rows that changes.
pub(super) fn resolve(
    store: &mut dyn Store,
    found: Vec<(String, Option<AgentId>)>,
    is_to_last: bool,
    now: i64,
) -> Result<usize, Cause> {
    let found = found.into_iter();
    let found: Vec<_> = found
        .map(|(key, agent_id)| (store.header().hash(&key), agent_id))
        .collect();
    let mut keys = HashSet::new();
    for (index, (key, _)) in found.iter().enumerate() {
        if !keys.insert(*key) {
            return Err(Cause::Refused(index, Refusal::SameKey));
        }
    }
    let mut touched = Touched {
        keys: keys.into_iter().collect(),
        ..Touched::default()
    };
    for (_, agent_id) in &found {
        touched.add_agent(agent_id.as_ref());
    }
    let mut changed = 0;
    let mut work = |_: &Header, rows: &mut Rows, owners: &mut AgentOwners| {
        let known = |key| rows.get(key).and_then(Row::current).is_some();
        if let Some(index) = found.iter().position(|(key, _)| !known(key)) {
            // First: a key that the ledger does not have is the cause of what else may be wrong.
            return Err(Cause::Refused(index, Refusal::UnknownKey));
        }
        changed = 0;
        let mut agents = HashSet::new();
        for (index, (key, agent_id)) in found.iter().enumerate() {
            let agent_id = agent_id.as_ref();
            let is_new = agent_id.is_none_or(|id| agents.insert(id));
            let checked =
                check_agent(owners, *key, agent_id).map_err(|rejection| match rejection {
                    Refusal::AgentOfAnotherRow if !is_new => Refusal::SameAgent,
                    rejection => rejection,
                });
            let row = rows.entry(*key).or_default();
            let resolved = checked.and_then(|()| row.resolve(now, agent_id));
            changed += usize::from(resolved.map_err(|rejection| Cause::Refused(index, rejection))?);
        }
        Ok(is_to_last)
    };
    store.change(&touched, &mut work)?;
    Ok(changed)
}

pub(super) fn summary(store: &mut (dyn Store + 'static)) -> Result<LedgerSummary, Cause> {
    let header = store.header();
    let mut summary = LedgerSummary {
        service: header.service.clone(),
        key_name: header.keys.clone(),
        ..LedgerSummary::default()
    };
    store.for_each(&mut |record| match record.state {
        State::Succeeded => summary.succeeded += 1,
        State::Resolved if record.agent_id.is_some() => summary.resolved_with_agent += 1,
        State::Resolved => summary.resolved_without_agent += 1,
        State::Rejected => summary.rejected += 1,
        State::Sending if record.is_in_flight() => summary.in_flight += 1,
        State::Sending | State::Unknown => summary.unresolved.extend(record.recorded()),
    })?;
    summary.unresolved.sort_by_key(|row| row.sent_at);
    Ok(summary)
}
