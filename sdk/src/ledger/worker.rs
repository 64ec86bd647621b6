//! Worker of an open ledger: executes requests in steps, with at most one transaction each. The worker is a state machine
//! without a thread; a driver (the ledger's thread, or the simulator) executes each step when it is due.

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

/// The time for which a job keeps trying to record outcomes in a database that cannot be reached.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The time between two attempts to record outcomes in a database that cannot be reached.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum number of requests that the worker receives together, to execute them in the same steps.
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
    idle_sender: Option<oneshot::Sender<()>>,
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
    pub(super) claimed_keys: Arc<Mutex<HashSet<KeyHash>>>,
    pub(super) state: WorkerState,
}

#[derive(Default)]
pub(super) struct WorkerState {
    /// The steps to execute, in this order.
    commands: VecDeque<Command>,
    /// The open ledger; `None` until it is needed, or if it could not be opened.
    store: Option<Box<dyn Store>>,
    /// The time of the last attempt to renew the lease, if there is a lease.
    last_renewal_at: Option<Duration>,
    /// The earlier job numbers of a client: it gets a new job number each time it reopens the ledger.
    earlier_jobs: Vec<i64>,
    /// True if the header of the ledger (its service and the name of its keys) has changed since the ledger was opened.
    is_outdated: bool,
    /// The failure after which the worker opens and claims nothing more.
    failure: Option<LedgerError>,
    /// The time at which the next command first failed, while that command is repeated.
    first_failed_at: Option<Duration>,
    /// The time of the next attempt to execute the command that is repeated.
    retry_at: Duration,
    /// Outcomes that a client could not record yet. Until they are recorded, their rows count as in flight.
    unwritten_outcomes: Vec<Write>,
    /// True once the last sender of requests has been dropped.
    has_last_request: bool,
    has_ended: bool,
    /// Senders that are dropped after the store, to report that the ledger is closed.
    close_senders: Vec<oneshot::Sender<Infallible>>,
}

impl Worker {
    /// Receives the requests that have arrived, and plans their steps. Ready if any have arrived, or once the last sender of
    /// requests has been dropped.
    pub(super) fn poll_requests(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.has_last_request {
            return Poll::Pending;
        }
        let mut received = Vec::new();
        self.state.has_last_request = ready!(self.requests.poll_recv_many(
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
        let (mut look_ups, mut writes, mut last_commands) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::LookUp(key, sender) => look_ups.push((key, sender)),
                Request::Write(write, sender) => writes.push((write, sender)),
                Request::Idle(sender) => last_commands.push(Command::Idle(sender)),
                Request::Close(sender) => last_commands.push(Command::Close(sender)),
            }
        }
        let unwritten_outcomes = mem::take(&mut self.state.unwritten_outcomes).into_iter();
        let unwritten_outcomes: WriteBatch = unwritten_outcomes
            .map(|outcome| (outcome, oneshot::channel().0))
            .collect();
        let commands = &mut self.state.commands;
        commands
            .extend((!unwritten_outcomes.is_empty()).then_some(Command::Write(unwritten_outcomes)));
        commands.extend((!look_ups.is_empty()).then_some(Command::LookUp(look_ups)));
        commands.extend((!writes.is_empty()).then_some(Command::Write(writes)));
        commands.extend(last_commands);
    }

    /// Returns the driver's next action.
    pub(super) fn next_action(&mut self) -> NextAction {
        let now = self.clock.elapsed();
        let time_until = |due: Duration| due.saturating_sub(now);
        let last_renewal = self.state.last_renewal_at;
        let until_renewal = last_renewal.map(|at| time_until(at + RENEWAL_INTERVAL));
        if self.state.has_ended {
            return NextAction::End;
        }
        if until_renewal == Some(Duration::ZERO) {
            return NextAction::Step(Command::Renew);
        }
        let wait = match self.state.commands.pop_front() {
            None if self.state.has_last_request => return NextAction::End,
            None => until_renewal,
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
                Some(until_renewal.map_or(wait, |until_renewal| until_renewal.min(wait)))
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
                idle_sender: Some(sender),
                ..Replies::default()
            },
            Command::Close(sender) => {
                self.state.has_ended = true;
                self.state.close_senders.extend(sender);
                Replies::default()
            }
        }
    }

    /// Returns whether the ledger must be opened before this command. The look-ups and claims of a client need a current
    /// ledger: if the client's lease has ended, or if the ledger's header has changed and no row is claimed, the client first
    /// reopens the ledger, under a new job number. Outcomes are recorded through the store that is already open.
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
        let claimed_keys = self.claimed_keys.lock();
        claimed_keys
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    fn open(&mut self, now: Now) -> Replies {
        if let Some(failure) = self.state.failure.clone() {
            return self.reject_next(&failure);
        }
        let descriptor_limit = DESCRIPTOR_WAIT * DESCRIPTOR_WAITS;
        match (self.open_store)(&self.cancellation) {
            Ok(store) => {
                let liveness = store.liveness();
                let is_leased = matches!(liveness, Liveness::Lease);
                self.state.last_renewal_at = is_leased.then_some(now.elapsed);
                self.lease.begin(liveness, now.elapsed);
                let previous_store = self.state.store.replace(store);
                let previous_job = previous_store.map(|store| store.job());
                self.state.earlier_jobs.extend(previous_job);
                (self.state.is_outdated, self.state.first_failed_at) = (false, None);
                Replies::default()
            }
            Err(Cause::Io(_)) if lacks_descriptor() && self.may_repeat(now, descriptor_limit) => {
                self.state.retry_at = now.elapsed + DESCRIPTOR_WAIT;
                Replies::default()
            }
            Err(cause) => {
                self.state.first_failed_at = None;
                let error = self.make_error(cause);
                // A ledger that was lost before this worker opened it can be used once it is back.
                let can_be_restored =
                    self.state.store.is_none() && error.kind() == LedgerErrorKind::Moved;
                if self.is_job || !can_be_restored {
                    self.stop_claiming(&error);
                }
                self.reject_next(&error)
            }
        }
    }

    /// Returns whether to repeat a step that has just failed: true until the time limit after the first failure has passed.
    fn may_repeat(&mut self, now: Now, limit: Duration) -> bool {
        let first_failed_at = *self.state.first_failed_at.get_or_insert(now.elapsed);
        now.elapsed.saturating_sub(first_failed_at) < limit
    }

    /// Renews the lease. If the database rejects the renewal, the lease ends immediately. If there is no response, the end of
    /// the lease does not change.
    fn renew_lease(&mut self, now: Now) {
        let Some(store) = &mut self.state.store else {
            return;
        };
        self.state.last_renewal_at = Some(now.elapsed);
        match store.renew_lease() {
            Ok(true) => self.lease.renew(now.elapsed),
            Ok(false) => self.lease.end(),
            Err(_) => {}
        }
    }

    fn look_up(&mut self, batch: LookUpBatch) -> Replies {
        let read_result = self.run(|store| {
            let hash = |(key, _): &(String, _)| store.header().hash(key);
            let keys: Vec<_> = batch.iter().map(hash).collect();
            let rows = store.look_up(&keys)?;
            Ok((store.header().salt, keys.into_iter().zip(rows)))
        });
        let mut replies = Replies::default();
        match read_result {
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

    /// Commits claims and outcomes in one transaction. After a failure, the claims are rejected, and the outcomes are written
    /// again without the claims: a full disk, for example, may still have space for the outcomes.
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
        let write_result = self.run(|store| store.write(&writes, &earlier_jobs, now.unix_ms));
        self.state.earlier_jobs = earlier_jobs;
        let error = match write_result {
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
            // The connection may have broken since its last use: execute each command at least twice before it fails.
            let is_first_failure = self.state.first_failed_at.is_none();
            let is_unreachable = error.kind() == LedgerErrorKind::Unreachable;
            let may_repeat = self.may_repeat(now, MAX_WAIT);
            if self.is_job && is_unreachable && may_repeat {
                self.state.retry_at = now.elapsed + RETRY_INTERVAL;
                self.state.commands.push_front(Command::Write(batch));
                return replies;
            }
            self.stop_claiming(&error);
            if is_first_failure {
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

    /// Replies that these outcomes cannot be recorded now. The worker of a client tries again with the client's next requests.
    fn abandon(&mut self, outcomes: WriteBatch, error: &LedgerError, replies: &mut Replies) {
        for (outcome, sender) in outcomes {
            replies.writes.push((sender, Err(error.clone())));
            if !self.is_job {
                self.state.unwritten_outcomes.push(outcome);
            }
        }
    }

    /// Rejects the next command, because the ledger could not be opened for it. If the store of an earlier job number is still
    /// open, the command's outcomes stay in the queue, to be recorded there.
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
        let senders = batch.into_iter().map(|(_, sender)| sender);
        self.look_ups
            .extend(senders.map(|sender| (sender, Err(error.clone()))));
    }

    /// Rejects claims, and returns the other writes.
    fn reject_claims(&mut self, batch: WriteBatch, error: &LedgerError) -> WriteBatch {
        let (claims, outcomes): (WriteBatch, WriteBatch) =
            batch.into_iter().partition(|(write, _)| write.is_claim());
        let senders = claims.into_iter().map(|(_, sender)| sender);
        self.writes
            .extend(senders.map(|sender| (sender, Err(error.clone()))));
        outcomes
    }

    /// Sends the replies. A reply whose caller no longer waits is dropped.
    pub(super) fn send(self) {
        for (sender, result) in self.look_ups {
            let _ = sender.send(result);
        }
        for (sender, result) in self.writes {
            let _ = sender.send(result);
        }
        if let Some(idle_sender) = self.idle_sender {
            let _ = idle_sender.send(());
        }
    }
}

/// Returns whether this process has no file descriptor left. This may be temporary: other connections may soon close.
fn lacks_descriptor() -> bool {
    #[cfg(unix)]
    return {
        use rustix::io::Errno;

        let errno = |error| Errno::from_io_error(&error);
        let open_result = fs::File::open("/dev/null").map_err(errno);
        matches!(open_result, Err(Some(Errno::MFILE | Errno::NFILE)))
    };
    #[cfg(not(unix))]
    false
}
