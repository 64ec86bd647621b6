//! Front end of an open ledger: sends requests to its [`Worker`], and the thread that runs that.

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
    error::{Cause, LedgerError, Place},
    key_hash::KeyHash,
    lease::Lease,
    state::{LedgerRow, Record, RequestInfo, WhenUnresolved},
    store::Write,
    worker::{Found, Next, Open, ReplySender, Request, Worker},
};
use crate::value::AgentId;

/// The time for which the end of a job waits for requests other than outcomes.
const FINISH_GRACE: Duration = Duration::from_millis(100);

/// An open ledger. Dropping this waits for nothing: what was recorded is written, and then the ledger is closed.
pub(crate) struct Writer {
    handle: Handle,
    /// True if dropping this value stops the worker.
    stops_worker: bool,
    cancellation: CancellationFlag,
}

/// Sends requests to an open ledger.
#[derive(Clone)]
pub(crate) struct Handle {
    place: Place,
    process: u32,
    requests: mpsc::UnboundedSender<Request>,
    /// The rows that were claimed here and whose outcome is not noted yet. To the database all of them are rows of this job, which
    /// may note anything of them: it cannot tell two calls with one key apart.
    claimed: Arc<Mutex<HashSet<KeyHash>>>,
    lease: Lease,
}

impl Writer {
    /// Returns the front end of a ledger, and its worker, which a driver runs. The worker opens the ledger when it first needs it.
    pub(super) fn new(place: Place, is_job: bool, clock: Clock, open: Open) -> (Self, Worker) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let handle = Handle {
            place: place.clone(),
            process: process::id(),
            requests,
            claimed: Arc::default(),
            lease: Lease::new(clock.clone()),
        };
        let worker = Worker {
            requests: receiver,
            open,
            place,
            is_job,
            clock,
            lease: handle.lease.clone(),
            cancellation: CancellationFlag::default(),
            claimed: Arc::clone(&handle.claimed),
            state: Default::default(),
        };
        let writer = Self {
            handle,
            stops_worker: true,
            cancellation: worker.cancellation.clone(),
        };
        (writer, worker)
    }

    /// Starts a thread that runs the worker.
    pub(super) fn start_thread(self, worker: Worker) -> Result<Self, LedgerError> {
        let builder = thread::Builder::new().name("dealkit-ledger".to_owned());
        match builder.spawn(move || run_worker(worker)) {
            Ok(_) => Ok(self),
            Err(error) => Err(self.handle.error(Cause::Thread(error))),
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until everything that was recorded is durable. For other requests it waits only a moment.
    pub(crate) async fn finish(&self) {
        let (sender, mut reply) = oneshot::channel();
        if self.handle.send(Request::Idle(sender)).is_err() {
            return;
        }
        if Runtime::try_current().is_ok() && timeout(FINISH_GRACE, &mut reply).await.is_ok() {
            return;
        }
        self.cancellation.cancel();
        let _ = reply.await;
    }

    /// Stops the worker, and completes once the ledger is closed.
    pub(crate) fn end(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (closing, closed) = oneshot::channel();
        let is_sent = self.handle.send(Request::Close(Some(closing))).is_ok();
        self.stops_worker = !is_sent;
        async move {
            if is_sent {
                let _ = closed.await;
            }
        }
    }

    /// Lets the worker stop once the last handle is dropped.
    pub(super) fn detach(mut self) {
        self.stops_worker = false;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.stops_worker {
            return;
        }
        self.cancellation.cancel();
        let closed = self.handle.send(Request::Close(None));
        if closed.is_err() && self.handle.is_forked() {
            // The last sender wakes the thread, which does not exist in a forked child.
            mem::forget(self.handle.clone());
        }
    }
}

impl Handle {
    pub(crate) fn look_up(
        &self,
        key: String,
    ) -> impl Future<Output = Result<Found, LedgerError>> + Send + use<> {
        self.request(|sender| Request::LookUp(key, sender))
    }

    /// Claims a row, which may be sent or resolved once this has completed: the claim is then durable. If another job or
    /// call was faster, returns what that one has recorded. Otherwise, even if this fails or is not waited for, an outcome must be
    /// [noted](Self::note).
    pub(crate) async fn claim(
        &self,
        key: KeyHash,
        when: WhenUnresolved,
        request: RequestInfo,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        if !self.claimed().insert(key) {
            return Ok(Some(LedgerRow::in_flight()));
        }
        let claim = Write::Claim { key, when, request };
        let existing = self.write(claim).await?;
        if existing.is_some() {
            self.claimed().remove(&key);
        }
        Ok(existing)
    }

    /// Records the agent that was found for a claimed row, which has this index in the job, or that there is none. Once this has
    /// completed, that is durable.
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
        // If this is rejected, the row stays claimed until another outcome is recorded.
        self.claimed().remove(&key);
        Ok(())
    }

    /// Notes the outcome of a claimed row, or that no part of it reached the service. Once this has completed, the note is
    /// durable.
    pub(crate) fn note(
        &self,
        key: KeyHash,
        noted: Option<Record>,
    ) -> impl Future<Output = Result<Option<LedgerRow>, LedgerError>> + Send + use<> {
        let sender = self.write(Write::Note { key, noted });
        // Later claims of the row follow this note.
        self.claimed().remove(&key);
        sender
    }

    fn write(
        &self,
        write: Write,
    ) -> impl Future<Output = Result<Option<LedgerRow>, LedgerError>> + Send + use<> {
        self.request(|sender| Request::Write(write, sender))
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<KeyHash>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the lease with which a row is claimed.
    pub(crate) fn term(&self) -> u64 {
        self.lease.term()
    }

    /// Fails once other jobs may take this lease for ended: its rows must not be sent any more.
    pub(crate) fn may_send(&self, term: u64) -> Result<(), LedgerError> {
        match self.lease.remaining(term) {
            Some(Duration::ZERO) => Err(self.error(match self.place {
                Place::File(_) => Cause::LockDeleted,
                Place::Database(_) => Cause::LeaseLost,
            })),
            _ => Ok(()),
        }
    }

    /// Waits until rows that were claimed with this lease must no longer be sent, if there is such a moment.
    pub(crate) async fn lease_ended(&self, term: u64) {
        // Looks again after each wait: the lease may have been renewed.
        while let Some(remaining) = self.lease.remaining(term) {
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining).await;
        }
        std::future::pending().await
    }

    fn request<T: Send, A: FnOnce(ReplySender<T>) -> Request>(
        &self,
        request: A,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + use<T, A> {
        let (sender, wait) = oneshot::channel();
        let receiver = self.send(request(sender));
        let this = self.clone();
        async move {
            receiver?;
            wait.await.unwrap_or_else(|_| Err(this.closed()))
        }
    }

    fn send(&self, request: Request) -> Result<(), LedgerError> {
        // A forked child has neither the thread nor its locks.
        if self.is_forked() {
            return Err(self.error(Cause::Forked));
        }
        self.requests.send(request).map_err(|_| self.closed())
    }

    fn is_forked(&self) -> bool {
        self.process != process::id()
    }

    fn closed(&self) -> LedgerError {
        self.error(Cause::Io(io::Error::other("it has been closed")))
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.place.clone(), cause)
    }
}

/// Runs the worker until no more requests can arrive.
fn run_worker(mut worker: Worker) {
    let waker = Arc::new(Unpark(thread::current())).into();
    let context = &mut Context::from_waker(&waker);
    loop {
        match worker.next() {
            Next::Step(command) => worker.step(command).send(),
            Next::End => return,
            Next::Wait(limit) => match (worker.poll_requests(context), limit) {
                (Poll::Ready(()), _) => {}
                (Poll::Pending, Some(limit)) => thread::park_timeout(limit),
                (Poll::Pending, None) => thread::park(),
            },
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
