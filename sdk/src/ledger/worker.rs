//! Worker of an open ledger: executes requests in steps of one transaction each. It is a state machine without a thread; a
//! driver (the ledger's thread, or the simulator) executes each step when it is due.

#[cfg(unix)]
use std::fs;
use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    mem,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::sync::{mpsc::UnboundedReceiver, oneshot};

use super::{
    cancellation::CancellationFlag,
    clock::{Clock, Now},
    error::{Cause, LedgerError, LedgerErrorKind, LedgerLocation},
    key_hash::{KeyHash, Salt},
    lease::{Lease, Liveness, RENEWAL_INTERVAL},
    row::LedgerRow,
    store::{Store, Write, WriteResult},
};
use crate::transport::send::{DESCRIPTOR_WAIT, DESCRIPTOR_WAITS};

/// The time for which a job tries to record outcomes in a database that cannot be reached.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The time between two of these attempts.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The largest number of requests that share the next steps.
const MAX_BATCH: usize = 4096;

/// The result of looking up a key.
pub(crate) struct LookUpResult {
    pub(crate) key: KeyHash,
    pub(crate) salt: Salt,
    /// `None` if the row may be sent.
    pub(crate) existing: Option<LedgerRow>,
}

pub(super) type ReplySender<T> = oneshot::Sender<Result<T, LedgerError>>;
type Reply<T> = (ReplySender<T>, Result<T, LedgerError>);
type LookUpBatch = Vec<(String, ReplySender<LookUpResult>)>;
type WriteBatch = Vec<(Write, ReplySender<Option<LedgerRow>>)>;

/// A request to the worker. It is handled even if the caller no longer waits for the reply.
pub(super) enum Request {
    LookUp(String, ReplySender<LookUpResult>),
    Write(Write, ReplySender<Option<LedgerRow>>),
    /// Replies when all earlier requests are done.
    Idle(oneshot::Sender<()>),
    /// Stops the worker. The sender is dropped once the ledger is closed.
    Close(Option<oneshot::Sender<Infallible>>),
}

/// A step, with at most one transaction.
pub(super) enum Command {
    Open,
    Renew,
    LookUp(LookUpBatch),
    Write(WriteBatch),
    Idle(oneshot::Sender<()>),
    Close(Option<oneshot::Sender<Infallible>>),
}

/// The next action of a driver.
pub(super) enum NextAction {
    Step(Command),
    /// The driver waits for requests, at most for this time.
    Wait(Option<Duration>),
    End,
}

/// The replies of a completed step.
#[derive(Default)]
pub(super) struct Replies {
    look_ups: Vec<Reply<LookUpResult>>,
    writes: Vec<Reply<Option<LedgerRow>>>,
    idle: Option<oneshot::Sender<()>>,
}

/// Opens the ledger for a job or for single creates.
pub(super) type OpenStore = Box<dyn Fn(&CancellationFlag) -> Result<Box<dyn Store>, Cause> + Send>;

pub(super) struct Worker {
    pub(super) requests: UnboundedReceiver<Request>,
    pub(super) open_store: OpenStore,
    pub(super) location: LedgerLocation,
    /// True for a job, which stops at its first failure; false for the single creates of a client, which continue.
    pub(super) is_job: bool,
    pub(super) clock: Clock,
    pub(super) lease: Lease,
    pub(super) cancellation: CancellationFlag,
    /// The rows that this process has claimed, shared with [`LedgerHandle`](super::open_ledger::LedgerHandle).
    pub(super) claimed: Arc<Mutex<HashSet<KeyHash>>>,
    pub(super) state: WorkerState,
}

#[derive(Default)]
pub(super) struct WorkerState {
    /// The steps to execute, in this order.
    commands: VecDeque<Command>,
    /// The open ledger; `None` until it is needed, or if it could not be opened.
    store: Option<Box<dyn Store>>,
    /// The time of the last attempt to renew the lease, if there is a lease.
    renewed_at: Option<Duration>,
    /// The job numbers under which a client had opened the ledger before it opened the ledger again.
    earlier_jobs: Vec<i64>,
    /// True if the ledger has another header than when it was opened.
    is_outdated: bool,
    /// The failure after which the worker opens and claims nothing more.
    failure: Option<LedgerError>,
    /// The time of the first failure of the next command, while that command is repeated.
    first_failed_at: Option<Duration>,
    /// The time of the next attempt of that command.
    retry_at: Duration,
    /// Outcomes that a client could not record yet. Until they are recorded, their rows count as in flight.
    unwritten: Vec<Write>,
    /// True once no more requests can arrive.
    is_last: bool,
    has_ended: bool,
    /// Senders that are dropped after the store, to report that the ledger is closed.
    closing: Vec<oneshot::Sender<Infallible>>,
}

impl Worker {
    /// Takes the requests that have arrived. Ready if there are any, or when the last sender of requests has been dropped.
    pub(super) fn poll_requests(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.is_last {
            return Poll::Pending;
        }
        let mut received = Vec::new();
        self.state.is_last = ready!(self.requests.poll_recv_many(
            context,
            &mut received,
            MAX_BATCH
        )) == 0;
        self.plan_steps(received);
        Poll::Ready(())
    }

    /// Plans the steps for requests: first the outcomes that could not be recorded earlier, then the look-ups, which do not
    /// wait for the disk, then the writes.
    fn plan_steps(&mut self, requests: Vec<Request>) {
        let (mut look_ups, mut writes, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::LookUp(key, sender) => look_ups.push((key, sender)),
                Request::Write(write, sender) => writes.push((write, sender)),
                Request::Idle(sender) => last.push(Command::Idle(sender)),
                Request::Close(closing) => last.push(Command::Close(closing)),
            }
        }
        let unwritten = mem::take(&mut self.state.unwritten).into_iter();
        let unwritten: WriteBatch = unwritten
            .map(|outcome| (outcome, oneshot::channel().0))
            .collect();
        let commands = &mut self.state.commands;
        commands.extend((!unwritten.is_empty()).then_some(Command::Write(unwritten)));
        commands.extend((!look_ups.is_empty()).then_some(Command::LookUp(look_ups)));
        commands.extend((!writes.is_empty()).then_some(Command::Write(writes)));
        commands.extend(last);
    }

    /// Returns the action that is due now.
    pub(super) fn next_action(&mut self) -> NextAction {
        let now = self.clock.elapsed();
        let time_until = |due: Duration| due.saturating_sub(now);
        let renewal = self.state.renewed_at;
        let renewal = renewal.map(|at| time_until(at + RENEWAL_INTERVAL));
        if self.state.has_ended {
            return NextAction::End;
        }
        if renewal == Some(Duration::ZERO) {
            return NextAction::Step(Command::Renew);
        }
        let wait = match self.state.commands.pop_front() {
            None if self.state.is_last => return NextAction::End,
            None => renewal,
            Some(command) if time_until(self.state.retry_at).is_zero() => {
                if self.must_open_for(&command) {
                    self.state.commands.push_front(command);
                    return NextAction::Step(Command::Open);
                }
                return NextAction::Step(command);
            }
            Some(command) => {
                self.state.commands.push_front(command);
                let wait = time_until(self.state.retry_at);
                Some(renewal.map_or(wait, |renewal| renewal.min(wait)))
            }
        };
        NextAction::Wait(wait)
    }

    /// Executes a step. The driver sends the replies.
    pub(super) fn execute(&mut self, command: Command) -> Replies {
        let now = self.clock.now();
        match command {
            Command::Open => self.open(now),
            Command::Renew => {
                self.renew_lease(now);
                Replies::default()
            }
            Command::LookUp(batch) => self.look_up(batch),
            Command::Write(batch) => self.write(batch, now),
            Command::Idle(sender) => Replies {
                idle: Some(sender),
                ..Replies::default()
            },
            Command::Close(closing) => {
                self.state.has_ended = true;
                self.state.closing.extend(closing);
                Replies::default()
            }
        }
    }

    /// Returns whether the ledger must be opened before this command. A client whose lease has ended, or whose ledger has a new
    /// header, opens the ledger again under another job number; but it records outcomes with the store that is open.
    fn must_open_for(&self, command: &Command) -> bool {
        let needs_current_ledger = match command {
            Command::LookUp(_) => true,
            Command::Write(batch) => batch.iter().any(|(write, _)| write.is_claim()),
            _ => return false,
        };
        let is_outdated =
            || self.lease.has_ended() || (self.state.is_outdated && self.has_no_claims());
        self.state.store.is_none() || (!self.is_job && needs_current_ledger && is_outdated())
    }

    fn has_no_claims(&self) -> bool {
        let claimed = self.claimed.lock();
        claimed.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn open(&mut self, now: Now) -> Replies {
        if let Some(failure) = self.state.failure.clone() {
            return self.reject_next(&failure);
        }
        let limit = DESCRIPTOR_WAIT * DESCRIPTOR_WAITS;
        match (self.open_store)(&self.cancellation) {
            Ok(store) => {
                let liveness = store.liveness();
                let is_leased = matches!(liveness, Liveness::Lease);
                self.state.renewed_at = is_leased.then_some(now.elapsed);
                self.lease.begin(liveness, now.elapsed);
                let closed = self.state.store.replace(store);
                let closed = closed.map(|store| store.job());
                self.state.earlier_jobs.extend(closed);
                (self.state.is_outdated, self.state.first_failed_at) = (false, None);
                Replies::default()
            }
            Err(Cause::Io(_)) if lacks_descriptor() && self.may_repeat(now, limit) => {
                self.state.retry_at = now.elapsed + DESCRIPTOR_WAIT;
                Replies::default()
            }
            Err(cause) => {
                self.state.first_failed_at = None;
                let error = self.make_error(cause);
                self.stop_claiming(&error);
                self.reject_next(&error)
            }
        }
    }

    /// Returns whether a step that has just failed is repeated: as long as its first failure is no longer ago than the limit.
    fn may_repeat(&mut self, now: Now, limit: Duration) -> bool {
        let first = *self.state.first_failed_at.get_or_insert(now.elapsed);
        now.elapsed.saturating_sub(first) < limit
    }

    /// Renews the lease. If the database rejects the renewal, the lease ends immediately. If there is no response, its end does
    /// not change.
    fn renew_lease(&mut self, now: Now) {
        let Some(store) = &mut self.state.store else {
            return;
        };
        self.state.renewed_at = Some(now.elapsed);
        match store.renew_lease() {
            Ok(true) => self.lease.renew(now.elapsed),
            Ok(false) => self.lease.end(),
            Err(_) => {}
        }
    }

    fn look_up(&mut self, batch: LookUpBatch) -> Replies {
        let looked_up = self.run(|store| {
            let hash = |(key, _): &(String, _)| store.header().hash(key);
            let keys: Vec<_> = batch.iter().map(hash).collect();
            let rows = store.look_up(&keys)?;
            Ok((store.header().salt, keys.into_iter().zip(rows)))
        });
        let mut replies = Replies::default();
        match looked_up {
            Ok((salt, rows)) => {
                for ((key, existing), (_, sender)) in rows.zip(batch) {
                    let result = LookUpResult {
                        key,
                        salt,
                        existing,
                    };
                    replies.look_ups.push((sender, Ok(result)));
                }
            }
            Err(error) => {
                if error.is_final() {
                    self.stop_claiming(&error);
                }
                replies.reject_look_ups(batch, &error);
            }
        }
        replies
    }

    /// Commits claims and outcomes in one transaction. After a failure, the claims are rejected and the outcomes are tried once
    /// more without them: a full disk, for example, may still have space for these.
    fn write(&mut self, batch: WriteBatch, now: Now) -> Replies {
        let mut replies = Replies::default();
        let batch = match &self.state.failure {
            Some(error) => replies.reject_claims(batch, error),
            None => batch,
        };
        if batch.is_empty() {
            return replies;
        }
        let writes: Vec<_> = batch.iter().map(|(write, _)| write).collect();
        let earlier_jobs = mem::take(&mut self.state.earlier_jobs);
        let written = self.run(|store| store.write(&writes, &earlier_jobs, now.unix_ms));
        self.state.earlier_jobs = earlier_jobs;
        let error = match written {
            Ok(results) => {
                self.state.first_failed_at = None;
                let results = results.into_iter().map(|result| self.make_reply(result));
                let results: Vec<_> = results.collect();
                let senders = batch.into_iter().map(|(_, sender)| sender);
                replies.writes.extend(senders.zip(results));
                return replies;
            }
            Err(error) => error,
        };
        if !batch.iter().any(|(write, _)| write.is_claim()) {
            // The connection may have broken since its last use, so each command has at least a second attempt.
            let is_first = self.state.first_failed_at.is_none();
            let is_unreachable = error.kind() == LedgerErrorKind::Unreachable;
            let may_repeat = self.may_repeat(now, MAX_WAIT);
            if self.is_job && is_unreachable && may_repeat {
                self.state.retry_at = now.elapsed + RETRY_AFTER;
                self.state.commands.push_front(Command::Write(batch));
                return replies;
            }
            self.stop_claiming(&error);
            if is_first {
                self.state.commands.push_front(Command::Write(batch));
            } else {
                self.state.first_failed_at = None;
                self.abandon(batch, &error, &mut replies);
            }
            return replies;
        }
        self.stop_claiming(&error);
        self.state.is_outdated |= matches!(
            error.kind(),
            LedgerErrorKind::OtherService | LedgerErrorKind::OtherKeys
        );
        let outcomes = replies.reject_claims(batch, &error);
        if !outcomes.is_empty() {
            self.state.first_failed_at = Some(now.elapsed);
            self.state.commands.push_front(Command::Write(outcomes));
        }
        replies
    }

    fn make_reply(&self, result: WriteResult) -> Result<Option<LedgerRow>, LedgerError> {
        result.map_err(|(index, rejection)| self.make_error(Cause::Rejected(index, rejection)))
    }

    /// Replies that these outcomes cannot be recorded now. A client tries again with its next requests.
    fn abandon(&mut self, outcomes: WriteBatch, error: &LedgerError, replies: &mut Replies) {
        for (outcome, sender) in outcomes {
            replies.writes.push((sender, Err(error.clone())));
            if !self.is_job {
                self.state.unwritten.push(outcome);
            }
        }
    }

    /// Rejects the next command, because the ledger could not be opened for it. Its outcomes stay in the queue if an earlier
    /// store is still open.
    fn reject_next(&mut self, error: &LedgerError) -> Replies {
        let mut replies = Replies::default();
        match self.state.commands.pop_front() {
            Some(Command::LookUp(batch)) => replies.reject_look_ups(batch, error),
            Some(Command::Write(batch)) => {
                let outcomes = replies.reject_claims(batch, error);
                match &self.state.store {
                    Some(_) => self.state.commands.push_front(Command::Write(outcomes)),
                    None => self.abandon(outcomes, error, &mut replies),
                }
            }
            other => self.state.commands.extend(other),
        }
        replies
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut (dyn Store + 'static)) -> Result<T, Cause>,
    ) -> Result<T, LedgerError> {
        let store = self.state.store.as_mut();
        let closed = || Cause::Io(std::io::Error::other("it has been closed"));
        let done = store.ok_or_else(closed).and_then(|store| store.run(work));
        if let Err(Cause::LeaseLost) = &done {
            // The rows that were claimed under this lease must not be sent.
            self.lease.end();
        }
        done.map_err(|cause| self.make_error(cause))
    }

    fn make_error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.location.clone(), cause)
    }

    /// Stops opening and claiming, if this failure is final or the worker belongs to a job.
    fn stop_claiming(&mut self, error: &LedgerError) {
        if self.is_job || error.is_final() {
            self.state.failure.get_or_insert_with(|| error.clone());
        }
    }
}

impl Replies {
    fn reject_look_ups(&mut self, batch: LookUpBatch, error: &LedgerError) {
        let rejected = batch.into_iter().map(|(_, sender)| sender);
        self.look_ups
            .extend(rejected.map(|sender| (sender, Err(error.clone()))));
    }

    /// Rejects claims, and returns the other writes.
    fn reject_claims(&mut self, batch: WriteBatch, error: &LedgerError) -> WriteBatch {
        let (claims, outcomes): (WriteBatch, WriteBatch) =
            batch.into_iter().partition(|(write, _)| write.is_claim());
        let rejected = claims.into_iter().map(|(_, sender)| sender);
        self.writes
            .extend(rejected.map(|sender| (sender, Err(error.clone()))));
        outcomes
    }

    /// Sends the replies. A reply whose caller no longer waits is dropped.
    pub(super) fn send(self) {
        for (sender, found) in self.look_ups {
            let _ = sender.send(found);
        }
        for (sender, written) in self.writes {
            let _ = sender.send(written);
        }
        if let Some(idle) = self.idle {
            let _ = idle.send(());
        }
    }
}

/// Returns whether this process has no file descriptor left. Connections that are being opened or closed may release one soon.
fn lacks_descriptor() -> bool {
    #[cfg(unix)]
    return {
        use rustix::io::Errno;

        let errno = |error| Errno::from_io_error(&error);
        let opened = fs::File::open("/dev/null").map_err(errno);
        matches!(opened, Err(Some(Errno::MFILE | Errno::NFILE)))
    };
    #[cfg(not(unix))]
    false
}
