//! The claim of a row in a ledger, which a call checks before each attempt.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{
    error::call::Error,
    ledger::{
        KeyHash, LedgerError, LedgerHandle, LedgerRow, RequestInfo, RowEntry, UnresolvedRow,
        WhenUnresolved,
    },
    value::{AgentId, Json},
};

/// The time between two look-ups of a row that another job is sending.
const LOOK_UP_INTERVAL: Duration = Duration::from_millis(100);

/// The claim of one row. While it is open, no other job sends the row.
pub(crate) struct Claim {
    pub(crate) handle: LedgerHandle,
    /// The row's key, and its hash in the ledger.
    pub(crate) key: String,
    pub(crate) hash: KeyHash,
    pub(crate) request: RequestInfo,
    /// The handling of a row whose outcome is unknown when it is claimed to be sent.
    pub(crate) when_sent: WhenUnresolved,
    /// The time until which to wait for another job that is sending the row; `None` to not wait.
    pub(crate) wait_until: Option<Instant>,
    pub(crate) state: Mutex<ClaimState>,
}

#[derive(Default)]
pub(crate) enum ClaimState {
    /// The row is not claimed, or its outcome is recorded.
    #[default]
    Closed,
    /// The claim may be in the ledger, under this lease, and no outcome is recorded yet.
    Open { term: u64 },
    /// Another job was faster, and has recorded this.
    TakenByOther(LedgerRow),
}

impl Claim {
    /// Waits, if that is set, while another job is sending the row. Returns the latest record of the row.
    pub(crate) async fn wait_for_other_job(
        &self,
        mut recorded: Option<LedgerRow>,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        let is_awaited = |row: &LedgerRow| row.in_flight && self.wait_until > Some(Instant::now());
        while recorded.as_ref().is_some_and(is_awaited) {
            sleep(LOOK_UP_INTERVAL).await;
            recorded = self.handle.look_up(self.key.clone()).await?.existing;
        }
        Ok(recorded)
    }

    /// Claims the row, and waits until the claim is durable. Returns the record of another job, if that job was faster.
    pub(crate) async fn acquire(
        &self,
        when: WhenUnresolved,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        *self.state() = ClaimState::Open {
            term: self.handle.lease_number(),
        };
        let request = self.request.clone();
        let other = self.handle.claim(self.hash, when, request).await?;
        if other.is_some() {
            self.close();
        }
        Ok(other)
    }

    /// Closes the claim, and returns whether it was open. The caller then [records](Self::record) the outcome.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.state();
        let is_open = matches!(*state, ClaimState::Open { .. });
        if is_open {
            *state = ClaimState::Closed;
        }
        is_open
    }

    /// Records the outcome of the row, or that no part of its request was sent. The future completes once that is durable.
    pub(crate) fn record(
        &self,
        record: Option<RowEntry>,
    ) -> impl Future<Output = Result<Option<LedgerRow>, LedgerError>> + Send + use<> {
        self.handle.record_outcome(self.hash, record)
    }

    /// Records the agent that was found for the row with this index in the job, or that the row has none.
    pub(crate) async fn record_agent(
        &self,
        index: usize,
        agent_id: Option<AgentId>,
    ) -> Result<(), LedgerError> {
        self.handle.resolve(self.hash, index, agent_id).await
    }

    /// Returns the record of another job that was faster, if that is why the call was not sent.
    pub(crate) fn taken_by_other(&self) -> Option<LedgerRow> {
        match &*self.state() {
            ClaimState::TakenByOther(recorded) => Some(recorded.clone()),
            _ => None,
        }
    }

    /// Returns the row as it is passed to the program's `resolve`.
    pub(crate) fn unresolved_row(
        &self,
        recorded: &LedgerRow,
        request: Option<Json>,
    ) -> UnresolvedRow {
        UnresolvedRow {
            status: recorded.status,
            request_id: recorded.request_id.clone(),
            ..UnresolvedRow::new(
                self.key.clone(),
                request.unwrap_or_else(|| Json::from_infallible(())),
                recorded.sent_at.unwrap_or_default(),
            )
        }
    }

    /// Claims the row before an attempt, unless an earlier attempt has claimed it.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        while !self.is_open() {
            let Some(other) = self.acquire(self.when_sent).await? else {
                break;
            };
            // The row is looked up until the other job is done: repeated claims would delay the claims of other rows.
            let was_in_flight = other.in_flight;
            let recorded = self.wait_for_other_job(Some(other)).await?;
            let is_free = |row: &LedgerRow| was_in_flight && row.is_unresolved();
            if let Some(recorded) = recorded.filter(|row| !is_free(row)) {
                let error = Error::recorded(&recorded, None);
                *self.state() = ClaimState::TakenByOther(recorded);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Checks that the lease with which the row was claimed has not ended.
    pub(crate) fn check_lease(&self) -> Result<(), Error> {
        Ok(self.handle.check_lease(self.term())?)
    }

    /// Completes when the lease ends.
    pub(crate) async fn lease_ended(&self) {
        self.handle.wait_until_lease_ends(self.term()).await;
    }

    fn is_open(&self) -> bool {
        matches!(*self.state(), ClaimState::Open { .. })
    }

    fn term(&self) -> u64 {
        match *self.state() {
            ClaimState::Open { term } => term,
            _ => 0,
        }
    }

    fn state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
