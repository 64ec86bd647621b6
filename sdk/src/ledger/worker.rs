//! The worker of an open ledger: executes requests in steps of one transaction each. It neither blocks nor uses a thread: a driver
//! executes each step when it is due.

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
    error::{Cause, LedgerError, LedgerErrorKind, Place},
    key_hash::{KeyHash, Salt},
    lease::{Lease, Liveness, RENEWED_EVERY},
    state::LedgerRow,
    store::{Store, Write, Written},
};
use crate::transport::send::{DESCRIPTOR_WAIT, DESCRIPTOR_WAITS};

/// The time for which the outcomes of a job wait for a database that is out of reach, and the time between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The most requests that are planned together.
const MAX_BATCH: usize = 4096;

/// The record of a key in a ledger.
pub(crate) struct Found {
    pub(crate) key: KeyHash,
    pub(crate) salt: Salt,
    /// `None` if the row may be sent.
    pub(crate) recorded: Option<LedgerRow>,
}

pub(super) type ReplySender<T> = oneshot::Sender<Result<T, LedgerError>>;
type Reply<T> = (ReplySender<T>, Result<T, LedgerError>);
type LookUps = Vec<(String, ReplySender<Found>)>;
type Writes = Vec<(Write, ReplySender<Option<LedgerRow>>)>;

/// A request to the ledger. It is handled even if the caller no longer waits for the reply.
pub(super) enum Request {
    LookUp(String, ReplySender<Found>),
    Write(Write, ReplySender<Option<LedgerRow>>),
    /// Reports when everything before this is done.
    Idle(oneshot::Sender<()>),
    /// Stops the worker. The sender is dropped once the ledger is closed.
    Close(Option<oneshot::Sender<Infallible>>),
}

/// A step: at most one transaction.
pub(super) enum Command {
    Open,
    Renew,
    LookUp(LookUps),
    Write(Writes),
    Idle(oneshot::Sender<()>),
    Close(Option<oneshot::Sender<Infallible>>),
}

/// The next action of a driver.
pub(super) enum Next {
    Step(Command),
    /// Waits for requests, for this long at most.
    Wait(Option<Duration>),
    End,
}

/// The replies of a completed step.
#[derive(Default)]
pub(super) struct Replies {
    found: Vec<Reply<Found>>,
    written: Vec<Reply<Option<LedgerRow>>>,
    idle: Option<oneshot::Sender<()>>,
}

/// Opens the ledger to send rows.
pub(super) type Open = Box<dyn Fn(&CancellationFlag) -> Result<Box<dyn Store>, Cause> + Send>;

pub(super) struct Worker {
    pub(super) requests: UnboundedReceiver<Request>,
    pub(super) open: Open,
    pub(super) place: Place,
    /// A job ends with its first failure; a client continues.
    pub(super) is_job: bool,
    pub(super) clock: Clock,
    pub(super) lease: Lease,
    pub(super) cancellation: CancellationFlag,
    /// The rows that are claimed here, as in [`Handle`](super::writer::Handle).
    pub(super) claimed: Arc<Mutex<HashSet<KeyHash>>>,
    pub(super) state: State,
}

#[derive(Default)]
pub(super) struct State {
    /// Steps in their order.
    commands: VecDeque<Command>,
    /// `None` until it is needed, or if it could not be opened.
    store: Option<Box<dyn Store>>,
    /// When the lease was last renewed, or was to be, if there is one.
    renewed: Option<Duration>,
    /// The numbers of the jobs that a client was before it opened the ledger again.
    earlier_jobs: Vec<i64>,
    /// The ledger has another header than when it was opened.
    is_outdated: bool,
    /// The failure after which nothing is opened or claimed any more.
    failure: Option<LedgerError>,
    /// The first failure of the next command, which is attempted again.
    failed: Option<Duration>,
    /// The time before which it is not attempted again.
    not_before: Duration,
    /// Outcomes that a client could not record yet. Until they are, their rows count as in flight.
    unwritten: Vec<Write>,
    /// No more requests can arrive.
    is_last: bool,
    has_ended: bool,
    /// Dropped last, to report that the ledger is closed.
    closing: Vec<oneshot::Sender<Infallible>>,
}

impl Worker {
    /// Takes the requests that have arrived, and is ready if there are any, or if it has become certain that no more can arrive.
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

    /// Plans the steps for requests: look-ups do not wait for the disk, and outcomes that could not be recorded yet come first.
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
        let unwritten: Writes = unwritten.map(|note| (note, oneshot::channel().0)).collect();
        let commands = &mut self.state.commands;
        commands.extend((!unwritten.is_empty()).then_some(Command::Write(unwritten)));
        commands.extend((!look_ups.is_empty()).then_some(Command::LookUp(look_ups)));
        commands.extend((!writes.is_empty()).then_some(Command::Write(writes)));
        commands.extend(last);
    }

    /// Returns what is due now.
    pub(super) fn next(&mut self) -> Next {
        let now = self.clock.elapsed();
        let left = |due: Duration| due.saturating_sub(now);
        let renewal = self.state.renewed.map(|at| left(at + RENEWED_EVERY));
        if self.state.has_ended {
            return Next::End;
        }
        if renewal == Some(Duration::ZERO) {
            return Next::Step(Command::Renew);
        }
        let wait = match self.state.commands.pop_front() {
            None if self.state.is_last => return Next::End,
            None => renewal,
            Some(command) if left(self.state.not_before).is_zero() => {
                if self.must_open_for(&command) {
                    self.state.commands.push_front(command);
                    return Next::Step(Command::Open);
                }
                return Next::Step(command);
            }
            Some(later) => {
                self.state.commands.push_front(later);
                let wait = left(self.state.not_before);
                Some(renewal.map_or(wait, |renewal| renewal.min(wait)))
            }
        };
        Next::Wait(wait)
    }

    /// Takes a step. The driver sends the replies.
    pub(super) fn step(&mut self, command: Command) -> Replies {
        let now = self.clock.now();
        match command {
            Command::Open => self.open(now),
            Command::Renew => {
                self.renew(now);
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

    /// Returns whether the ledger must be opened first. A client whose lease has ended, or whose ledger has a new header, continues as
    /// another job, but records outcomes in the ledger that it has open.
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
        match (self.open)(&self.cancellation) {
            Ok(store) => {
                let liveness = store.liveness();
                let is_leased = matches!(liveness, Liveness::Lease);
                self.state.renewed = is_leased.then_some(now.elapsed);
                self.lease.begin(liveness, now.elapsed);
                let closed = self.state.store.replace(store);
                let closed = closed.map(|store| store.job());
                self.state.earlier_jobs.extend(closed);
                (self.state.is_outdated, self.state.failed) = (false, None);
                Replies::default()
            }
            Err(Cause::Io(_)) if lacks_descriptor() && self.is_repeated(now, limit) => {
                self.state.not_before = now.elapsed + DESCRIPTOR_WAIT;
                Replies::default()
            }
            Err(cause) => {
                self.state.failed = None;
                let error = self.error(cause);
                self.fail(&error);
                self.reject_next(&error)
            }
        }
    }

    /// Returns whether a step that has failed now is repeated: for this long since it first failed.
    fn is_repeated(&mut self, now: Now, limit: Duration) -> bool {
        let first = *self.state.failed.get_or_insert(now.elapsed);
        now.elapsed.saturating_sub(first) < limit
    }

    /// Renews the lease. A lease that the database rejects ends at once; without a response, it ends when it would have ended.
    fn renew(&mut self, now: Now) {
        let Some(store) = &mut self.state.store else {
            return;
        };
        self.state.renewed = Some(now.elapsed);
        match store.renew() {
            Ok(true) => self.lease.renew(now.elapsed),
            Ok(false) => self.lease.end(),
            Err(_) => {}
        }
    }

    fn look_up(&mut self, batch: LookUps) -> Replies {
        let found = self.run(|store| {
            let hash = |(key, _): &(String, _)| store.header().hash(key);
            let keys: Vec<_> = batch.iter().map(hash).collect();
            let found = store.look_up(&keys)?;
            Ok((store.header().salt, keys.into_iter().zip(found)))
        });
        let mut replies = Replies::default();
        match found {
            Ok((salt, found)) => {
                for ((key, recorded), (_, sender)) in found.zip(batch) {
                    let found = Found {
                        key,
                        salt,
                        recorded,
                    };
                    replies.found.push((sender, Ok(found)));
                }
            }
            Err(error) => {
                if error.is_final() {
                    self.fail(&error);
                }
                replies.reject_look_ups(batch, &error);
            }
        }
        replies
    }

    /// Commits claims and outcomes together. After the first failure nothing is claimed any more, but the outcomes of rows that
    /// were sent may still fit.
    fn write(&mut self, batch: Writes, now: Now) -> Replies {
        let mut replies = Replies::default();
        let batch = match &self.state.failure {
            Some(error) => replies.reject_claims(batch, error),
            None => batch,
        };
        if batch.is_empty() {
            return replies;
        }
        let writes: Vec<_> = batch.iter().map(|(write, _)| write).collect();
        let earlier = mem::take(&mut self.state.earlier_jobs);
        let written = self.run(|store| store.write(&writes, &earlier, now.unix_ms));
        self.state.earlier_jobs = earlier;
        let error = match written {
            Ok(written) => {
                self.state.failed = None;
                let written = written.into_iter().map(|written| self.reply(written));
                let written: Vec<_> = written.collect();
                let senders = batch.into_iter().map(|(_, sender)| sender);
                replies.written.extend(senders.zip(written));
                return replies;
            }
            Err(error) => error,
        };
        if !batch.iter().any(|(write, _)| write.is_claim()) {
            // The connection may have broken since it was last used, so everything has a second attempt.
            let is_first = self.state.failed.is_none();
            let is_unreachable = error.kind() == LedgerErrorKind::Unreachable;
            let is_repeated = self.is_repeated(now, MAX_WAIT);
            if self.is_job && is_unreachable && is_repeated {
                self.state.not_before = now.elapsed + RETRY_AFTER;
                self.state.commands.push_front(Command::Write(batch));
                return replies;
            }
            self.fail(&error);
            if is_first {
                self.state.commands.push_front(Command::Write(batch));
            } else {
                self.state.failed = None;
                self.abandon(batch, &error, &mut replies);
            }
            return replies;
        }
        self.fail(&error);
        self.state.is_outdated |= matches!(
            error.kind(),
            LedgerErrorKind::OtherService | LedgerErrorKind::OtherKeys
        );
        let notes = replies.reject_claims(batch, &error);
        if !notes.is_empty() {
            self.state.failed = Some(now.elapsed);
            self.state.commands.push_front(Command::Write(notes));
        }
        replies
    }

    fn reply(&self, written: Written) -> Result<Option<LedgerRow>, LedgerError> {
        written.map_err(|(index, why)| self.error(Cause::Refused(index, why)))
    }

    /// Replies to outcomes that cannot be recorded now. A client tries again with its next requests.
    fn abandon(&mut self, notes: Writes, error: &LedgerError, replies: &mut Replies) {
        for (note, sender) in notes {
            replies.written.push((sender, Err(error.clone())));
            if !self.is_job {
                self.state.unwritten.push(note);
            }
        }
    }

    /// Rejects the next command, for which the ledger could not be opened. Its outcomes stay, if the ledger was open before.
    fn reject_next(&mut self, error: &LedgerError) -> Replies {
        let mut replies = Replies::default();
        match self.state.commands.pop_front() {
            Some(Command::LookUp(batch)) => replies.reject_look_ups(batch, error),
            Some(Command::Write(batch)) => {
                let notes = replies.reject_claims(batch, error);
                match &self.state.store {
                    Some(_) => self.state.commands.push_front(Command::Write(notes)),
                    None => self.abandon(notes, error, &mut replies),
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
            // Rows that were claimed under this lease are not sent any more.
            self.lease.end();
        }
        done.map_err(|cause| self.error(cause))
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.place.clone(), cause)
    }

    /// Claims nothing any more, if this failure means that.
    fn fail(&mut self, error: &LedgerError) {
        if self.is_job || error.is_final() {
            self.state.failure.get_or_insert_with(|| error.clone());
        }
    }
}

impl Replies {
    fn reject_look_ups(&mut self, batch: LookUps, error: &LedgerError) {
        let rejected = batch.into_iter().map(|(_, sender)| sender);
        self.found
            .extend(rejected.map(|sender| (sender, Err(error.clone()))));
    }

    /// Rejects claims, and returns the other writes.
    fn reject_claims(&mut self, batch: Writes, error: &LedgerError) -> Writes {
        let (claims, notes): (Writes, Writes) =
            batch.into_iter().partition(|(write, _)| write.is_claim());
        let rejected = claims.into_iter().map(|(_, sender)| sender);
        self.written
            .extend(rejected.map(|sender| (sender, Err(error.clone()))));
        notes
    }

    /// Sends the replies, and drops those whose callers no longer wait.
    pub(super) fn send(self) {
        for (sender, found) in self.found {
            let _ = sender.send(found);
        }
        for (sender, written) in self.written {
            let _ = sender.send(written);
        }
        if let Some(idle) = self.idle {
            let _ = idle.send(());
        }
    }
}

/// Returns whether this process has used up its file descriptors. Connections that are being made or closed may release some soon.
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
