//! The front of an open ledger: requests to it, and the thread that does the [`Work`] for a job, or for a client's single creates.

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
    clock::Clock,
    error::{Cause, LedgerError, Place},
    given_up::GivenUp,
    key_hash::KeyHash,
    lease::Lease,
    state::{Record, Recorded, RequestInfo, WhenInDoubt},
    store::Write,
    work::{Answer, Ask, Found, Next, Open, Work},
};
use crate::value::AgentId;

/// The time for which the end of a job waits for requests other than outcomes.
const A_MOMENT: Duration = Duration::from_millis(100);

/// An open ledger. Dropping this waits for nothing: what was recorded is written, and then the ledger is closed.
pub(crate) struct Writer {
    handle: Handle,
    /// Dropping this ends the work.
    ends_work: bool,
    given_up: GivenUp,
}

/// Sends requests to an open ledger.
#[derive(Clone)]
pub(crate) struct Handle {
    place: Place,
    process: u32,
    asks: mpsc::UnboundedSender<Ask>,
    /// The rows that were claimed here and whose outcome is not noted yet. To the database all of them are rows of this job, which
    /// may note anything of them: it cannot tell two calls with one key apart.
    claimed: Arc<Mutex<HashSet<KeyHash>>>,
    lease: Lease,
}

impl Writer {
    /// Returns an open ledger, and the work on it, which a driver does. The ledger is opened once it is needed.
    pub(super) fn new(place: Place, is_job: bool, clock: Clock, open: Open) -> (Self, Work) {
        let (asks, asked) = mpsc::unbounded_channel();
        let handle = Handle {
            place: place.clone(),
            process: process::id(),
            asks,
            claimed: Arc::default(),
            lease: Lease::new(clock.clone()),
        };
        let work = Work {
            asked,
            open,
            place,
            is_job,
            clock,
            lease: handle.lease.clone(),
            given_up: GivenUp::default(),
            claimed: Arc::clone(&handle.claimed),
            state: Default::default(),
        };
        let writer = Self {
            handle,
            ends_work: true,
            given_up: work.given_up.clone(),
        };
        (writer, work)
    }

    /// Starts a thread that does the work.
    pub(super) fn start_thread(self, work: Work) -> Result<Self, LedgerError> {
        let builder = thread::Builder::new().name("dealkit-ledger".to_owned());
        match builder.spawn(move || work_on_this_thread(work)) {
            Ok(_) => Ok(self),
            Err(error) => Err(self.handle.error(Cause::Io(error))),
        }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until everything that was recorded is durable. For other requests it waits only a moment.
    pub(crate) async fn finish(&self) {
        let (answer, mut answered) = oneshot::channel();
        if self.handle.ask(Ask::Idle(answer)).is_err() {
            return;
        }
        if Runtime::try_current().is_ok() && timeout(A_MOMENT, &mut answered).await.is_ok() {
            return;
        }
        self.given_up.set();
        let _ = answered.await;
    }

    /// Ends the work, and completes once the ledger is closed.
    pub(crate) fn end(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (closing, closed) = oneshot::channel();
        let is_asked = self.handle.ask(Ask::Close(Some(closing))).is_ok();
        self.ends_work = !is_asked;
        async move {
            if is_asked {
                let _ = closed.await;
            }
        }
    }

    /// Lets the work end once the last handle is dropped.
    pub(super) fn detach(mut self) {
        self.ends_work = false;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.ends_work {
            return;
        }
        self.given_up.set();
        let closed = self.handle.ask(Ask::Close(None));
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
        self.answer_to(|answer| Ask::LookUp(key, answer))
    }

    /// Claims a row, which may be sent or asked about once this has completed: the claim is then durable. If another job or
    /// call was faster, returns what that one has recorded. Otherwise, even if this fails or is not waited for, an outcome must be
    /// [noted](Self::note).
    pub(crate) async fn claim(
        &self,
        key: KeyHash,
        when: WhenInDoubt,
        request: RequestInfo,
    ) -> Result<Option<Recorded>, LedgerError> {
        if !self.claimed().insert(key) {
            return Ok(Some(Recorded::in_flight()));
        }
        let claim = Write::Claim { key, when, request };
        let refused = self.write(claim).await?;
        if refused.is_some() {
            self.claimed().remove(&key);
        }
        Ok(refused)
    }

    /// Records the agent that was found for a claimed row, which has this index in the job, or that there is none. Once this has
    /// completed, that is durable.
    pub(crate) async fn settle(
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
    ) -> impl Future<Output = Result<Option<Recorded>, LedgerError>> + Send + use<> {
        let answer = self.write(Write::Note { key, noted });
        // Later claims of the row follow this note.
        self.claimed().remove(&key);
        answer
    }

    fn write(
        &self,
        write: Write,
    ) -> impl Future<Output = Result<Option<Recorded>, LedgerError>> + Send + use<> {
        self.answer_to(|answer| Ask::Write(write, answer))
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<KeyHash>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the lease with which a row is claimed.
    pub(crate) fn term(&self) -> u64 {
        self.lease.term()
    }

    /// Refuses to send a row that was claimed with this lease, once others may take the lease for ended.
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

    fn answer_to<T: Send, A: FnOnce(Answer<T>) -> Ask>(
        &self,
        ask: A,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + use<T, A> {
        let (answer, wait) = oneshot::channel();
        let asked = self.ask(ask(answer));
        let this = self.clone();
        async move {
            asked?;
            wait.await.unwrap_or_else(|_| Err(this.closed()))
        }
    }

    fn ask(&self, ask: Ask) -> Result<(), LedgerError> {
        // A forked child has neither the thread nor its locks.
        if self.is_forked() {
            return Err(self.error(Cause::Forked));
        }
        self.asks.send(ask).map_err(|_| self.closed())
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

/// Does the work until nothing more can be asked for.
fn work_on_this_thread(mut work: Work) {
    let waker = Arc::new(Unpark(thread::current())).into();
    let context = &mut Context::from_waker(&waker);
    loop {
        match work.next() {
            Next::Step(command) => work.step(command).send(),
            Next::End => return,
            Next::Wait(limit) => match (work.poll_asked(context), limit) {
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
