//! The creation of one agent with a ledger, as a state machine.

use std::{error::Error as StdError, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
#[cfg(feature = "blocking")]
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::{
    bulk::{
        many::JobState,
        row::{Creation, RowProgress},
    },
    calls::{
        call::Call,
        claim::{Claim, LookedUpKey, describe_request, record_cancelled, record_result},
    },
    error::{call::Error, cause::ResolveError, kind::ErrorKind},
    ledger::{LedgerError, LedgerErrorKind, LedgerRow, Resolution, UnresolvedRow, WhenUnresolved},
    transport::outcome::Outcome,
    value::AgentId,
};

/// The caller's function that finds out whether the agent of an unresolved row exists.
pub(crate) type Resolve = Arc<
    dyn Fn(UnresolvedRow) -> BoxFuture<'static, Result<Resolution, ResolveError>> + Send + Sync,
>;

/// The error that the caller's function returns.
type BoxedError = Box<dyn StdError + Send + Sync>;

/// Makes a [`Resolve`] from the caller's async function.
pub(crate) fn make_resolve<F, R, E>(resolve: F) -> Resolve
where
    F: Fn(UnresolvedRow) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Resolution, E>> + Send + 'static,
    E: Into<BoxedError>,
{
    let resolve = Arc::new(resolve);
    Arc::new(move |row| {
        let resolve = Arc::clone(&resolve);
        async move { resolve(row).await.map_err(|error| error.into().into()) }.boxed()
    })
}

/// Makes a [`Resolve`] from the caller's function, which may block.
#[cfg(feature = "blocking")]
pub(crate) fn make_blocking_resolve<F, E>(resolve: F) -> Resolve
where
    F: Fn(UnresolvedRow) -> Result<Resolution, E> + Send + Sync + 'static,
    E: Into<BoxedError>,
{
    let resolve = Arc::new(resolve);
    make_resolve(move |row| {
        let resolve = Arc::clone(&resolve);
        async move {
            let resolution = spawn_blocking(move || resolve(row).map_err(Into::into));
            resolution.await.unwrap_or_else(|error| Err(error.into()))
        }
    })
}

/// The handling of rows that the ledger already contains. By default, such a row is not sent, and its record is returned.
#[derive(Clone, Default)]
pub(crate) struct LedgerOptions {
    /// True if unresolved rows are sent again.
    pub(crate) resend_unknown: bool,
    /// True if rejected rows whose requests have changed are sent again.
    pub(crate) resend_corrected: bool,
    /// The function that resolves unresolved rows.
    pub(crate) resolve: Option<Resolve>,
    /// True if the job waits for a row that another job is sending.
    pub(crate) wait_in_flight: bool,
}

impl LedgerOptions {
    /// Returns whether any option is set. All options need a ledger.
    pub(crate) fn is_any_set(&self) -> bool {
        self.resend_unknown
            || self.resend_corrected
            || self.resolve.is_some()
            || self.wait_in_flight
    }
}

/// A row to create with a ledger.
pub(crate) struct CreateWithLedger<T> {
    pub(crate) key: LookedUpKey,
    pub(crate) options: LedgerOptions,
    /// The index of the row in the job.
    pub(crate) index: usize,
    /// The call, or the reason why it cannot be sent.
    pub(crate) call: Result<Call<T>, Error>,
    /// Returns the identifier of a created agent.
    pub(crate) get_agent_id: fn(&T) -> Option<String>,
    pub(crate) progress: Arc<RowProgress>,
    pub(crate) job: JobState,
}

/// The states of a row with a ledger.
///
/// ```text
///              another job was faster
///           ┌─────────────────────────┐
///           v                         │
///      LookedUp ───────────────> Unresolved ─────┐
///        │  │                         │          │
///        │  └──────────> Ready <──────┘          │
///        │                │   no agent           │
///        │                v                      │ agent found, or
///        │              Sent                     │ still unknown
///        v                v                      v
///        └────────────> Done <───────────────────┘
/// ```
enum State<T, S> {
    /// The ledger has this record of the row, or none.
    LookedUp(Option<LedgerRow>, Unsent<T, S>),
    /// The outcome of an earlier request is unknown, and the caller's function finds out whether the agent exists.
    Unresolved(LedgerRow, Resolve, Unsent<T, S>),
    /// The row may be sent.
    Ready(Unsent<T, S>),
    /// The call has ended, and its outcome is not recorded yet.
    Sent(Result<T, Error>),
    Done(Creation<T>),
}

/// A call that is not sent yet, and the function that sends it.
struct Unsent<T, S> {
    call: Result<Call<T>, Error>,
    send: S,
}

impl<T> CreateWithLedger<T> {
    /// Creates the agent if the ledger allows it, with `send`, and records the outcome before returning it. If this future is
    /// dropped before it completes, the outcome so far is recorded.
    pub(crate) async fn run<S, F>(self, send: S) -> Creation<T>
    where
        S: FnOnce(Call<T>) -> F + Send,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let look_up_result = match self.key.look_up_result.await {
            Ok(look_up_result) => look_up_result,
            Err(error) => return Creation::not_sent(self.index, error.into()),
        };
        let body = self.call.as_ref().ok().and_then(Call::body).cloned();
        let waiting_call = self.call.as_ref().ok();
        let waiting_call = waiting_call.filter(|_| self.options.wait_in_flight);
        let resends_unknown = self.options.resend_unknown && self.options.resolve.is_none();
        let claim = Claim {
            handle: self.key.handle,
            key: self.key.key,
            key_hash: look_up_result.key,
            request: describe_request(&look_up_result.salt, body.as_ref(), self.key.label),
            when_unresolved: match resends_unknown {
                true => WhenUnresolved::Resend,
                false => WhenUnresolved::Report,
            },
            resends_corrected: self.options.resend_corrected,
            wait_until: waiting_call.and_then(|call| Instant::now().checked_add(call.time_limit())),
            state: Default::default(),
        };
        let mut row = Row {
            index: self.index,
            body,
            options: self.options,
            get_agent_id: self.get_agent_id,
            progress: self.progress,
            job: self.job,
            claim: Arc::new(claim),
        };
        let call = self.call;
        let mut state = State::LookedUp(look_up_result.existing, Unsent { call, send });
        loop {
            state = match state {
                State::LookedUp(recorded_row, unsent) => {
                    row.decide_from_record(recorded_row, unsent).await
                }
                State::Unresolved(known_row, resolve, unsent) => {
                    row.resolve(known_row, resolve, unsent).await
                }
                State::Ready(unsent) => row.send(unsent).await,
                State::Sent(result) => row.record(result).await,
                State::Done(creation) => return creation,
            };
        }
    }
}

/// The data that all states of a row share. Its methods are the transitions between the states.
struct Row<T> {
    index: usize,
    body: Option<Bytes>,
    options: LedgerOptions,
    get_agent_id: fn(&T) -> Option<String>,
    progress: Arc<RowProgress>,
    job: JobState,
    claim: Arc<Claim>,
}

impl<T> Row<T> {
    /// Decides from the record of the row whether to report the record, resolve the row, or send it.
    async fn decide_from_record<S>(
        &mut self,
        recorded_row: Option<LedgerRow>,
        unsent: Unsent<T, S>,
    ) -> State<T, S> {
        self.progress.set_may_exist(recorded_row.is_some());
        let known_row = match self.claim.wait_for_other_job(recorded_row).await {
            Ok(Some(known_row)) => known_row,
            Ok(None) => return self.ready_state(false, unsent),
            Err(error) => return self.not_sent_state(error.into()),
        };
        match &self.options.resolve {
            _ if self.is_corrected(&known_row, &unsent.call) => self.ready_state(false, unsent),
            _ if !known_row.is_unresolved() => self.report_record(known_row),
            None if self.options.resend_unknown => self.ready_state(true, unsent),
            Some(resolve) if unsent.call.is_ok() => {
                State::Unresolved(known_row, Arc::clone(resolve), unsent)
            }
            _ => self.report_record(known_row),
        }
    }

    /// Returns whether the service rejected the row, and the row's request was corrected. A row that cannot be sent has no
    /// request to compare; its own error is then more useful than the earlier rejection.
    fn is_corrected(&self, known_row: &LedgerRow, call: &Result<Call<T>, Error>) -> bool {
        let is_rejected = known_row.outcome == Outcome::Rejected;
        self.claim.corrects(known_row)
            || (self.options.resend_corrected && is_rejected && call.is_err())
    }

    /// Claims the row, so that no other job resolves or sends it, and calls the caller's `resolve`.
    async fn resolve<S>(
        &mut self,
        known_row: LedgerRow,
        resolve: Resolve,
        unsent: Unsent<T, S>,
    ) -> State<T, S> {
        let job = self.job.clone();
        let _permit = job.acquire_permit().await;
        if self.progress.is_cancelled() {
            return self.report_record(known_row);
        }
        self.progress.set_has_effects(true);
        let next_state = match self.claim.acquire(WhenUnresolved::Ask).await {
            Ok(None) => self.call_resolve(known_row, resolve, unsent).await,
            Ok(row_of_other_job) => State::LookedUp(row_of_other_job, unsent),
            Err(error) => self.not_resolved_state(error),
        };
        self.progress.set_has_effects(false);
        next_state
    }

    async fn call_resolve<S>(
        &mut self,
        known_row: LedgerRow,
        resolve: Resolve,
        unsent: Unsent<T, S>,
    ) -> State<T, S> {
        let request = unsent.call.as_ref().ok().and_then(Call::json_body);
        let resolution = resolve(self.claim.unresolved_row(&known_row, request));
        let resolution = AssertUnwindSafe(resolution).catch_unwind().await;
        match resolution.unwrap_or_else(|_| Err(BoxedError::from("it has panicked").into())) {
            Ok(Resolution::Agent(id)) => self.record_agent(known_row, id).await,
            Ok(Resolution::NoAgent) => self.record_no_agent(known_row, unsent).await,
            Ok(Resolution::Unknown) => self.leave_unknown(known_row, None).await,
            Err(error) => self.leave_unknown(known_row, Some(error)).await,
        }
    }

    /// Records the agent that was found, and reports it.
    async fn record_agent<S>(&mut self, known_row: LedgerRow, id: AgentId) -> State<T, S> {
        let write_result = self.claim.record_agent(self.index, Some(id.clone())).await;
        let ledger_error = match write_result {
            Err(error) if error.kind() == LedgerErrorKind::Rejected => {
                return self.leave_unknown(known_row, Some(Arc::new(error))).await;
            }
            Err(error) => Some(error),
            Ok(()) => {
                self.claim.close();
                None
            }
        };
        let created = LedgerRow {
            outcome: Outcome::Succeeded,
            agent_id: Some(id),
            ..known_row
        };
        State::Done(Creation {
            ledger_error,
            ..Creation::from_record(self.index, created)
        })
    }

    /// Records that no agent exists: the row may be sent.
    async fn record_no_agent<S>(
        &mut self,
        known_row: LedgerRow,
        unsent: Unsent<T, S>,
    ) -> State<T, S> {
        match self.claim.record_agent(self.index, None).await {
            Ok(()) => {
                self.claim.close();
                self.ready_state(false, unsent)
            }
            Err(error) if error.kind() == LedgerErrorKind::Rejected => {
                self.leave_unknown(known_row, Some(Arc::new(error))).await
            }
            Err(error) => self.not_resolved_state(error),
        }
    }

    /// Reports that the outcome is still unknown, with the error of `resolve`, if there is one.
    async fn leave_unknown<S>(
        &mut self,
        known_row: LedgerRow,
        resolve_error: Option<ResolveError>,
    ) -> State<T, S> {
        self.claim.close();
        // A failure to record the unknown outcome can be ignored: the claim then stays, and a claim without an outcome also counts
        // as unknown.
        let _ = self.claim.record(None).await;
        self.not_sent_state(Error::already_attempted(&known_row, resolve_error))
    }

    /// Sends the call.
    async fn send<S, F>(&mut self, unsent: Unsent<T, S>) -> State<T, S>
    where
        S: FnOnce(Call<T>) -> F + Send,
        F: Future<Output = Result<T, Error>> + Send,
    {
        // The permit is released before the outcome is recorded, so that another row is sent meanwhile.
        let job = self.job.clone();
        let _permit = job.acquire_permit().await;
        let call = match self.check_unsent(unsent.call) {
            Ok(call) => call,
            Err(error) => {
                return self
                    .not_sent_state(error.with_earlier_unknown_outcome(self.progress.may_exist()));
            }
        };
        self.progress.set_has_effects(true);
        let result = (unsent.send)(call.with_claim(Arc::clone(&self.claim))).await;
        match self.claim.record_of_other_job() {
            Some(recorded_row) => self.report_record(recorded_row),
            None => State::Sent(result),
        }
    }

    /// Returns the call, or the error if the row must not be sent. The row's own error takes precedence over the
    /// job's.
    fn check_unsent(&self, call: Result<Call<T>, Error>) -> Result<Call<T>, Error> {
        let call = call?;
        match self.job.stop_if_rejected() {
            Some(error) => Err(error),
            None if self.progress.is_cancelled() => Err(Error::cancelled(Outcome::NotSent, 0)),
            None => Ok(call),
        }
    }

    /// Records the outcome of the call, and waits until the record is durable.
    async fn record<S>(&mut self, result: Result<T, Error>) -> State<T, S> {
        let mut ledger_error = None;
        // If the ledger has failed, it is unknown whether the row was claimed: the claim stays open until the row is dropped.
        let has_failed = |error: &Error| error.kind() == ErrorKind::Ledger;
        if !result.as_ref().is_err_and(has_failed) && self.claim.close() {
            self.progress.set_has_effects(false);
            let (request, body) = (&self.claim.request, self.body.as_ref());
            let record = record_result(&result, self.get_agent_id, request, body);
            let record_future = self.claim.record(record);
            ledger_error = record_future.await.err();
        }
        let may_exist = self.progress.may_exist();
        State::Done(Creation {
            ledger_error,
            ..Creation::from_result(
                self.index,
                result.map_err(|error| error.with_earlier_unknown_outcome(may_exist)),
            )
        })
    }

    fn ready_state<S>(&self, may_exist: bool, unsent: Unsent<T, S>) -> State<T, S> {
        self.progress.set_may_exist(may_exist);
        State::Ready(unsent)
    }

    fn report_record<S>(&self, recorded_row: LedgerRow) -> State<T, S> {
        let recorded_row = recorded_row.compared_with(&self.claim.request);
        State::Done(Creation::from_record(self.index, recorded_row))
    }

    fn not_sent_state<S>(&self, error: Error) -> State<T, S> {
        State::Done(Creation::not_sent(self.index, error))
    }

    fn not_resolved_state<S>(&self, error: LedgerError) -> State<T, S> {
        self.not_sent_state(Error::from(error).with_earlier_unknown_outcome(true))
    }
}

impl<T> Drop for Row<T> {
    /// Records the outcome so far if the row was cancelled: its claim is then still open.
    fn drop(&mut self) {
        if self.claim.close() {
            let outcome = self.progress.call.outcome();
            let record = record_cancelled(outcome, &self.claim.request);
            // If the ledger cannot record this, the claim remains, and the outcome of the row is unknown.
            self.progress
                .set_last_record(self.claim.record(record).boxed());
        }
    }
}
