//! The claim of a row in a ledger, and the records of the row's outcome. A claim is the ledger's record that a job may now send
//! the row. A call checks the claim before each attempt. The records contain no personal data.

use std::{
    borrow::Cow,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    calls::response::find_id,
    error::call::Error,
    ledger::{
        KeyHash, LedgerError, LedgerHandle, LedgerRow, LookUpResult, MAX_ID_BYTES, RequestInfo,
        RowEntry, Salt, State, UnresolvedRow, WhenUnresolved,
    },
    transport::outcome::Outcome,
    value::{AgentId, Json},
};

/// The time between two look-ups of a row that another job is sending.
const LOOK_UP_INTERVAL: Duration = Duration::from_millis(100);

/// A key whose record is being looked up in the ledger.
pub(crate) struct LookedUpKey {
    pub(crate) handle: LedgerHandle,
    pub(crate) key: String,
    pub(crate) label: Option<String>,
    pub(crate) look_up_result: BoxFuture<'static, Result<LookUpResult, LedgerError>>,
}

impl LookedUpKey {
    /// Starts to look up the key.
    pub(crate) fn new(handle: LedgerHandle, key: &str, label: Option<String>) -> Self {
        Self {
            look_up_result: handle.look_up(key.to_owned()).boxed(),
            handle,
            key: key.to_owned(),
            label,
        }
    }
}

/// The claim of one row. While it is open, no other job sends the row.
pub(crate) struct Claim {
    pub(crate) handle: LedgerHandle,
    /// The row's key, and its hash in the ledger.
    pub(crate) key: String,
    pub(crate) key_hash: KeyHash,
    pub(crate) request: RequestInfo,
    /// Whether to send the row or to report it, if the ledger has an unknown outcome of the row.
    pub(crate) when_unresolved: WhenUnresolved,
    /// True if a rejected row is sent again whose request has changed since.
    pub(crate) resends_corrected: bool,
    /// The time until which the row waits for another job that is sending it. `None` if it does not wait.
    pub(crate) wait_until: Option<Instant>,
    pub(crate) state: Mutex<ClaimState>,
}

#[derive(Default)]
pub(crate) enum ClaimState {
    /// The row is not claimed, or its outcome is recorded.
    #[default]
    Closed,
    /// The claim may be in the ledger, and no outcome is recorded yet. The row was claimed under the job's lease with this
    /// number. A job renews its lease regularly, and may send claimed rows only until the lease ends.
    Open { lease_number: u64 },
    /// Another job claimed the row first, and its record is this.
    ClaimedByOtherJob(LedgerRow),
}

impl Claim {
    /// Waits until `wait_until`, if it is set, while another job is sending the row. Returns the latest record of the row.
    pub(crate) async fn wait_for_other_job(
        &self,
        mut recorded_row: Option<LedgerRow>,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        let is_awaited = |row: &LedgerRow| row.in_flight && self.wait_until > Some(Instant::now());
        while recorded_row.as_ref().is_some_and(is_awaited) {
            sleep(LOOK_UP_INTERVAL).await;
            recorded_row = self.handle.look_up(self.key.clone()).await?.existing;
        }
        Ok(recorded_row)
    }

    /// Claims the row, and waits until the claim is durable. Returns the record of another job, if that job claimed the row
    /// first.
    pub(crate) async fn acquire(
        &self,
        when: WhenUnresolved,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        *self.lock_state() = ClaimState::Open {
            lease_number: self.handle.lease_number(),
        };
        let request = self.request.clone();
        // The caller's `resolve` is asked about unresolved rows only.
        let resends_corrected = self.resends_corrected && when != WhenUnresolved::Ask;
        let claim_future = self
            .handle
            .claim(self.key_hash, when, resends_corrected, request);
        let other_row = claim_future.await?;
        if other_row.is_some() {
            self.close();
        }
        Ok(other_row)
    }

    /// Closes the claim, and returns whether it was open. The caller then [records](Self::record) the outcome.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.lock_state();
        let is_open = matches!(*state, ClaimState::Open { .. });
        if is_open {
            *state = ClaimState::Closed;
        }
        is_open
    }

    /// Records the outcome of the row. `None` records that no part of its request was sent. The future completes once the
    /// record is durable.
    pub(crate) fn record(
        &self,
        record: Option<RowEntry>,
    ) -> impl Future<Output = Result<Option<LedgerRow>, LedgerError>> + Send + use<> {
        self.handle.record_outcome(self.key_hash, record)
    }

    /// Records the agent that was found for the row with this index in the job, or that the row has none.
    pub(crate) async fn record_agent(
        &self,
        index: usize,
        agent_id: Option<AgentId>,
    ) -> Result<(), LedgerError> {
        self.handle.resolve(self.key_hash, index, agent_id).await
    }

    /// Returns the other job's record, if the call was not sent because another job had claimed the row first.
    pub(crate) fn record_of_other_job(&self) -> Option<LedgerRow> {
        match &*self.lock_state() {
            ClaimState::ClaimedByOtherJob(recorded_row) => Some(recorded_row.clone()),
            _ => None,
        }
    }

    /// Returns the row in the form in which the caller's `resolve` receives it.
    pub(crate) fn unresolved_row(
        &self,
        recorded_row: &LedgerRow,
        request: Option<Json>,
    ) -> UnresolvedRow {
        UnresolvedRow {
            status: recorded_row.status,
            request_id: recorded_row.request_id.clone(),
            label: recorded_row.label.clone(),
            ..UnresolvedRow::new(
                self.key.clone(),
                request.unwrap_or_else(|| Json::from_infallible(())),
                recorded_row.sent_at.unwrap_or_default(),
            )
        }
    }

    /// Returns whether the service rejected the row, and this claim sends it with another request.
    pub(crate) fn corrects(&self, recorded_row: &LedgerRow) -> bool {
        self.resends_corrected && recorded_row.is_corrected_by(&self.request)
    }

    /// Claims the row before an attempt, unless an earlier attempt has claimed it.
    pub(crate) async fn ensure_claimed(&self) -> Result<(), Error> {
        while !self.is_open() {
            let Some(other_row) = self.acquire(self.when_unresolved).await? else {
                break;
            };
            // The row is looked up until the other job is done, because repeated claims would delay the claims of other rows.
            let was_in_flight = other_row.in_flight;
            let recorded_row = self.wait_for_other_job(Some(other_row)).await?;
            let is_free =
                |row: &LedgerRow| was_in_flight && (row.is_unresolved() || self.corrects(row));
            if let Some(recorded_row) = recorded_row.filter(|row| !is_free(row)) {
                let error = Error::already_attempted(&recorded_row, None);
                *self.lock_state() = ClaimState::ClaimedByOtherJob(recorded_row);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Checks that the lease with which the row was claimed has not ended.
    pub(crate) fn check_lease(&self) -> Result<(), Error> {
        Ok(self.handle.check_lease(self.lease_number())?)
    }

    /// Completes when the lease ends.
    pub(crate) async fn wait_until_lease_ends(&self) {
        self.handle.wait_until_lease_ends(self.lease_number()).await;
    }

    fn is_open(&self) -> bool {
        matches!(*self.lock_state(), ClaimState::Open { .. })
    }

    fn lease_number(&self) -> u64 {
        match *self.lock_state() {
            ClaimState::Open { lease_number } => lease_number,
            _ => 0,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes the request with this body and label by its hashes.
pub(crate) fn describe_request(
    salt: &Salt,
    body: Option<&Bytes>,
    label: Option<String>,
) -> RequestInfo {
    #[derive(Deserialize)]
    struct Agent<'a> {
        #[serde(borrow)]
        email: Cow<'a, str>,
    }
    let parse_agent = |body| serde_json::from_slice::<Agent<'_>>(body).ok();
    RequestInfo {
        body_hash: body.map(|body| salt.hash_request(body)),
        email_hash: body
            .and_then(|body| parse_agent(body))
            .map(|agent| salt.hash_email(&agent.email)),
        label,
    }
}

/// Returns the record of a request with this outcome, or `None` if no part of the request was sent.
fn record_outcome(outcome: Outcome, request: &RequestInfo) -> Option<RowEntry> {
    let state = match outcome {
        Outcome::NotSent => return None,
        Outcome::Succeeded => State::Succeeded,
        Outcome::Rejected => State::Rejected,
        Outcome::Unknown => State::Unknown,
    };
    Some(RowEntry {
        request: request.clone(),
        ..RowEntry::new(state)
    })
}

/// Returns the record of a cancelled call with this outcome. A rejection is not recorded, because the call would have been retried.
pub(crate) fn record_cancelled(outcome: Outcome, request: &RequestInfo) -> Option<RowEntry> {
    record_outcome(outcome, request).filter(|record| record.state != State::Rejected)
}

/// Returns the record of a call that ended with this result, or `None` if no part of its request was sent.
pub(crate) fn record_result<T>(
    result: &Result<T, Error>,
    get_agent_id: fn(&T) -> Option<String>,
    request: &RequestInfo,
    body: Option<&Bytes>,
) -> Option<RowEntry> {
    let entry_with_agent = |id: Option<String>| {
        Some(RowEntry {
            // A longer identifier is left out, because it is not useful to a person.
            agent_id: id.filter(|id| id.len() <= MAX_ID_BYTES),
            request: request.clone(),
            ..RowEntry::new(State::Succeeded)
        })
    };
    match result {
        Ok(agent) => entry_with_agent(get_agent_id(agent)),
        Err(error) if error.outcome() == Outcome::Succeeded => {
            entry_with_agent(error.body().and_then(find_id))
        }
        Err(error) => record_outcome(error.outcome(), request).map(|record| {
            let (title, code) = match record.state {
                State::Rejected => (find_title(error, body), error.shown_codes()),
                _ => (None, None),
            };
            RowEntry {
                status: error.status().map(|status| status.as_u16()),
                request_id: error.shown_request_id(),
                title,
                code,
                ..record
            }
        }),
    }
}

/// Returns the title of a rejection, unless it repeats a string of the request, which may be personal data.
fn find_title(error: &Error, body: Option<&Bytes>) -> Option<String> {
    error.shown_title().filter(|title| {
        !title.contains('\0') && !body.is_some_and(|body| repeats_request(title, body))
    })
}

fn repeats_request(text: &str, request: &[u8]) -> bool {
    fn contains(text: &str, value: &Value) -> bool {
        match value {
            Value::String(string) => string.len() > 2 && text.contains(string.as_str()),
            Value::Array(items) => items.iter().any(|item| contains(text, item)),
            Value::Object(members) => members.values().any(|member| contains(text, member)),
            _ => false,
        }
    }
    serde_json::from_slice(request).is_ok_and(|request| contains(text, &request))
}
