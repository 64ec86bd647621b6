//! An open ledger as its users see it: handles that send requests to the [`Worker`], and the thread that runs the worker.

use std::{
    collections::HashSet,
    io, mem, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake},
    thread::{self, Thread},
    time::Duration,
};

use tokio::{
    runtime::Handle as Runtime,
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    cancellation::CancellationFlag,
    clock::Clock,
    error::{Cause, LedgerError, LedgerLocation, MOVED_OR_REPLACED},
    key_hash::KeyHash,
    lease::Lease,
    row::{LedgerRow, RequestInfo, RowEntry, WhenUnresolved},
    store::Write,
    worker::{LookUpResult, NextAction, OpenStore, ReplySender, Request, Worker},
};
use crate::value::AgentId;

/// The time for which the end of a job waits for look-ups and claims, which record no outcomes.
const FLUSH_GRACE: Duration = Duration::from_millis(100);

/// An open ledger. Dropping it does not block: the worker writes what was recorded, and then closes the ledger.
pub(crate) struct OpenLedger {
    handle: LedgerHandle,
    /// True if dropping this value stops the worker.
    stops_worker: bool,
    cancellation: CancellationFlag,
}

/// Sends requests to an open ledger.
#[derive(Clone)]
pub(crate) struct LedgerHandle {
    location: LedgerLocation,
    process_id: u32,
    requests: mpsc::UnboundedSender<Request>,
    /// The keys of the rows that this process has claimed and whose outcomes are not recorded yet. The database cannot replace
    /// this set: it knows only the job of a claim, and so cannot distinguish two calls of a job with the same key.
    claimed_keys: Arc<Mutex<HashSet<KeyHash>>>,
    lease: Lease,
}

impl OpenLedger {
    /// Returns an open ledger and its worker, which a driver must run. The worker opens the file or database only when the
    /// first request needs it.
    pub(super) fn new(
        location: LedgerLocation,
        is_job: bool,
        clock: Clock,
        open_store: OpenStore,
    ) -> (Self, Worker) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let handle = LedgerHandle {
            location: location.clone(),
            process_id: process::id(),
            requests,
            claimed_keys: Arc::default(),
            lease: Lease::new(clock.clone()),
        };
        let worker = Worker {
            requests: receiver,
            open_store,
            location,
            is_job,
            clock,
            lease: handle.lease.clone(),
            cancellation: CancellationFlag::default(),
            claimed_keys: Arc::clone(&handle.claimed_keys),
            state: Default::default(),
        };
        let open_ledger = Self {
            handle,
            stops_worker: true,
            cancellation: worker.cancellation.clone(),
        };
        (open_ledger, worker)
    }

    /// Starts a thread that runs the worker.
    pub(super) fn start_thread(self, worker: Worker) -> Result<Self, LedgerError> {
        let builder = thread::Builder::new().name("dealkit-ledger".to_owned());
        match builder.spawn(move || run_worker(worker)) {
            Ok(_) => Ok(self),
            Err(error) => Err(self.handle.make_error(Cause::Thread(error))),
        }
    }

    pub(crate) fn handle(&self) -> &LedgerHandle {
        &self.handle
    }

    /// Waits until all recorded outcomes are durable. For other requests, it waits only for a short time.
    pub(crate) async fn flush(&self) {
        let (sender, mut reply) = oneshot::channel();
        if self.handle.send_request(Request::Idle(sender)).is_err() {
            return;
        }
        if Runtime::try_current().is_ok() && timeout(FLUSH_GRACE, &mut reply).await.is_ok() {
            return;
        }
        self.cancellation.cancel();
        let _ = reply.await;
    }

    /// Stops the worker. The future completes once the ledger is closed.
    pub(crate) fn close(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let is_sent = self
            .handle
            .send_request(Request::Close(Some(sender)))
            .is_ok();
        self.stops_worker = !is_sent;
        async move {
            if is_sent {
                let _ = receiver.await;
            }
        }
    }

    /// Drops this value without stopping the worker, which then runs until the last handle is dropped.
    pub(super) fn detach(mut self) {
        self.stops_worker = false;
    }
}

impl Drop for OpenLedger {
    fn drop(&mut self) {
        if !self.stops_worker {
            return;
        }
        self.cancellation.cancel();
        let send_result = self.handle.send_request(Request::Close(None));
        if send_result.is_err() && self.handle.is_forked() {
            // Dropping the last sender would wake the thread, which does not exist in a forked child.
            mem::forget(self.handle.clone());
        }
    }
}

impl LedgerHandle {
    pub(crate) fn look_up(
        &self,
        key: String,
    ) -> impl Future<Output = Result<LookUpResult, LedgerError>> + Send + use<> {
        self.send_with_reply(|sender| Request::LookUp(key, sender))
    }

    /// Claims a row. Once this completes, the claim is durable, and the row may be sent or resolved. If another job or call was
    /// faster, returns the row that it has recorded. In all other cases, even if this fails or is dropped, the caller must
    /// [record an outcome](Self::record_outcome).
    pub(crate) async fn claim(
        &self,
        key: KeyHash,
        when_unresolved: WhenUnresolved,
        resends_corrected: bool,
        request: RequestInfo,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        if !self.lock_claimed_keys().insert(key) {
            return Ok(Some(LedgerRow::in_flight()));
        }
        let claim = Write::Claim {
            key,
            when_unresolved,
            resends_corrected,
            request,
        };
        let existing = self.write(claim).await?;
        if existing.is_some() {
            self.lock_claimed_keys().remove(&key);
        }
        Ok(existing)
    }

    /// Records the agent that was found for a claimed row, or that the row has no agent. `index` is the row's index in the job.
    /// Once this completes, the record is durable.
    pub(crate) async fn resolve(
        &self,
        key: KeyHash,
        index: usize,
        agent_id: Option<AgentId>,
    ) -> Result<(), LedgerError> {
        let resolve = Write::Resolve {
            key,
            index,
            agent_id,
        };
        self.write(resolve).await?;
        // If the agent is rejected above, the row stays claimed until another outcome is recorded.
        self.lock_claimed_keys().remove(&key);
        Ok(())
    }

    /// Records the outcome of a claimed row; `None` if no part of the request reached the service. Once this completes, the
    /// outcome is durable.
    pub(crate) fn record_outcome(
        &self,
        key: KeyHash,
        outcome: Option<RowEntry>,
    ) -> impl Future<Output = Result<Option<LedgerRow>, LedgerError>> + Send + use<> {
        let write_future = self.write(Write::RecordOutcome { key, outcome });
        // Later claims of the row are executed after this write.
        self.lock_claimed_keys().remove(&key);
        write_future
    }

    fn write(
        &self,
        write: Write,
    ) -> impl Future<Output = Result<Option<LedgerRow>, LedgerError>> + Send + use<> {
        self.send_with_reply(|sender| Request::Write(write, sender))
    }

    fn lock_claimed_keys(&self) -> MutexGuard<'_, HashSet<KeyHash>> {
        self.claimed_keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the lease under which rows are claimed now.
    pub(crate) fn lease_number(&self) -> u64 {
        self.lease.number()
    }

    /// Fails if other jobs may consider the lease with this number ended: rows claimed under it must not be sent any more.
    pub(crate) fn check_lease(&self, number: u64) -> Result<(), LedgerError> {
        match self.lease.remaining_time(number) {
            Some(Duration::ZERO) => Err(self.make_error(match &self.location {
                LedgerLocation::File(path) if path.exists() => Cause::LockDeleted,
                LedgerLocation::File(_) => Cause::Moved(MOVED_OR_REPLACED),
                LedgerLocation::Database(_) => Cause::LeaseLost,
            })),
            _ => Ok(()),
        }
    }

    /// Waits until the lease with this number ends. Never completes if the lease has no end.
    pub(crate) async fn wait_until_lease_ends(&self, number: u64) {
        // The lease may have been renewed during the wait.
        while let Some(remaining) = self.lease.remaining_time(number) {
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining).await;
        }
        std::future::pending().await
    }

    fn send_with_reply<T: Send, A: FnOnce(ReplySender<T>) -> Request>(
        &self,
        make_request: A,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + use<T, A> {
        let (sender, receiver) = oneshot::channel();
        let send_result = self.send_request(make_request(sender));
        let this = self.clone();
        async move {
            send_result?;
            receiver.await.unwrap_or_else(|_| Err(this.closed_error()))
        }
    }

    fn send_request(&self, request: Request) -> Result<(), LedgerError> {
        // A forked child has neither the worker's thread nor the locks of the job.
        if self.is_forked() {
            return Err(self.make_error(Cause::Forked));
        }
        self.requests.send(request).map_err(|_| self.closed_error())
    }

    fn is_forked(&self) -> bool {
        self.process_id != process::id()
    }

    fn closed_error(&self) -> LedgerError {
        self.make_error(Cause::Io(io::Error::other("it has been closed")))
    }

    fn make_error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.location.clone(), cause)
    }
}

/// Runs the worker until no more requests can arrive.
fn run_worker(mut worker: Worker) {
    let waker = Arc::new(ThreadWaker(thread::current())).into();
    let context = &mut Context::from_waker(&waker);
    loop {
        match worker.next_action() {
            NextAction::Step(command) => worker.execute(command).send(),
            NextAction::End => return,
            NextAction::Wait(limit) => match (worker.poll_requests(context), limit) {
                (Poll::Ready(()), _) => {}
                (Poll::Pending, Some(limit)) => thread::park_timeout(limit),
                (Poll::Pending, None) => thread::park(),
            },
        }
    }
}

/// Waker that unparks a thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
