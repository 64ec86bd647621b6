//! The work on a ledger, in steps of one transaction each. Nothing here waits or knows a thread: a driver takes each step once it is
//! due.

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
    clock::{Clock, Now},
    error::{Cause, LedgerError, LedgerErrorKind, Place},
    given_up::GivenUp,
    key_hash::{KeyHash, Salt},
    lease::{Lease, Liveness, RENEWED_EVERY},
    state::Recorded,
    store::{Store, Write, Written},
};
use crate::http::send::{DESCRIPTOR_WAIT, DESCRIPTOR_WAITS};

/// The time for which the outcomes of a job wait for a database that is out of reach, and the time between two attempts.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The most requests that are planned together.
const MANY: usize = 4096;

/// The record of a key in a ledger.
pub(crate) struct Found {
    pub(crate) key: KeyHash,
    pub(crate) salt: Salt,
    /// `None` if the row may be sent.
    pub(crate) recorded: Option<Recorded>,
}

pub(super) type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;
type Answered<T> = (Answer<T>, Result<T, LedgerError>);
type LookUps = Vec<(String, Answer<Found>)>;
type Writes = Vec<(Write, Answer<Option<Recorded>>)>;

/// A request to the ledger. It is done even if its answer is no longer waited for.
pub(super) enum Ask {
    LookUp(String, Answer<Found>),
    Write(Write, Answer<Option<Recorded>>),
    /// Reports when everything before this is done.
    Idle(oneshot::Sender<()>),
    /// Ends the work. The sender is dropped once the ledger is closed.
    Close(Option<oneshot::Sender<Infallible>>),
}

/// A step.
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

/// The answers of a step, which is done.
#[derive(Default)]
pub(super) struct Answers {
    found: Vec<Answered<Found>>,
    written: Vec<Answered<Option<Recorded>>>,
    idle: Option<oneshot::Sender<()>>,
}

/// Opens the ledger to send rows.
pub(super) type Open = Box<dyn Fn(&GivenUp) -> Result<Box<dyn Store>, Cause> + Send>;

pub(super) struct Work {
    pub(super) asked: UnboundedReceiver<Ask>,
    pub(super) open: Open,
    pub(super) place: Place,
    /// A job ends with its first failure; a client continues.
    pub(super) is_job: bool,
    pub(super) clock: Clock,
    pub(super) lease: Lease,
    pub(super) given_up: GivenUp,
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

impl Work {
    /// Takes the requests that have arrived, and is ready if there are any, or if it has become certain that no more can arrive.
    pub(super) fn poll_asked(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.is_last {
            return Poll::Pending;
        }
        let mut asked = Vec::new();
        self.state.is_last = ready!(self.asked.poll_recv_many(context, &mut asked, MANY)) == 0;
        self.plan(asked);
        Poll::Ready(())
    }

    /// Plans the steps for requests: look-ups do not wait for the disk, and outcomes that could not be recorded yet come first.
    fn plan(&mut self, asked: Vec<Ask>) {
        let (mut look_ups, mut writes, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for ask in asked {
            match ask {
                Ask::LookUp(key, answer) => look_ups.push((key, answer)),
                Ask::Write(write, answer) => writes.push((write, answer)),
                Ask::Idle(answer) => last.push(Command::Idle(answer)),
                Ask::Close(closing) => last.push(Command::Close(closing)),
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

    /// Takes a step. Its answers are sent by the driver.
    pub(super) fn step(&mut self, command: Command) -> Answers {
        let now = self.clock.now();
        match command {
            Command::Open => self.open(now),
            Command::Renew => {
                self.renew(now);
                Answers::default()
            }
            Command::LookUp(asked) => self.look_up(asked),
            Command::Write(asked) => self.write(asked, now),
            Command::Idle(answer) => Answers {
                idle: Some(answer),
                ..Answers::default()
            },
            Command::Close(closing) => {
                self.state.has_ended = true;
                self.state.closing.extend(closing);
                Answers::default()
            }
        }
    }

    /// Returns whether the ledger must be opened first. A client whose lease has ended, or whose ledger has a new header, continues as
    /// another job, but records outcomes in the ledger that it has open.
    fn must_open_for(&self, command: &Command) -> bool {
        let is_news = match command {
            Command::LookUp(_) => true,
            Command::Write(asked) => asked.iter().any(|(write, _)| write.is_claim()),
            _ => return false,
        };
        let is_outdated =
            || self.lease.has_ended() || (self.state.is_outdated && self.has_no_claims());
        self.state.store.is_none() || (!self.is_job && is_news && is_outdated())
    }

    fn has_no_claims(&self) -> bool {
        let claimed = self.claimed.lock();
        claimed.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn open(&mut self, now: Now) -> Answers {
        if let Some(failure) = self.state.failure.clone() {
            return self.refuse_next(&failure);
        }
        let limit = DESCRIPTOR_WAIT * DESCRIPTOR_WAITS;
        match (self.open)(&self.given_up) {
            Ok(store) => {
                let liveness = store.liveness();
                let is_leased = matches!(liveness, Liveness::Lease);
                self.state.renewed = is_leased.then_some(now.elapsed);
                self.lease.begin(liveness, now.elapsed);
                let closed = self.state.store.replace(store);
                let closed = closed.map(|store| store.job());
                self.state.earlier_jobs.extend(closed);
                (self.state.is_outdated, self.state.failed) = (false, None);
                Answers::default()
            }
            Err(Cause::Io(_)) if lacks_descriptor() && self.is_repeated(now, limit) => {
                self.state.not_before = now.elapsed + DESCRIPTOR_WAIT;
                Answers::default()
            }
            Err(cause) => {
                self.state.failed = None;
                let error = self.error(cause);
                self.fail(&error);
                self.refuse_next(&error)
            }
        }
    }

    /// Returns whether a step that has failed now is repeated: for this long since it first failed.
    fn is_repeated(&mut self, now: Now, limit: Duration) -> bool {
        let first = *self.state.failed.get_or_insert(now.elapsed);
        now.elapsed.saturating_sub(first) < limit
    }

    /// Renews the lease. A lease that the database rejects ends at once; without an answer, it ends when it would have ended.
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

    fn look_up(&mut self, asked: LookUps) -> Answers {
        let found = self.run(|store| {
            let hash = |(key, _): &(String, _)| store.header().hash(key);
            let keys: Vec<_> = asked.iter().map(hash).collect();
            let found = store.look_up(&keys)?;
            Ok((store.header().salt, keys.into_iter().zip(found)))
        });
        let mut answers = Answers::default();
        match found {
            Ok((salt, found)) => {
                for ((key, recorded), (_, answer)) in found.zip(asked) {
                    let found = Found {
                        key,
                        salt,
                        recorded,
                    };
                    answers.found.push((answer, Ok(found)));
                }
            }
            Err(error) => {
                if error.is_final() {
                    self.fail(&error);
                }
                answers.refuse_look_ups(asked, &error);
            }
        }
        answers
    }

    /// Commits claims and outcomes together. After the first failure nothing is claimed any more, but the outcomes of rows that
    /// were sent may still fit.
    fn write(&mut self, asked: Writes, now: Now) -> Answers {
        let mut answers = Answers::default();
        let asked = match &self.state.failure {
            Some(error) => answers.refuse_claims(asked, error),
            None => asked,
        };
        if asked.is_empty() {
            return answers;
        }
        let writes: Vec<_> = asked.iter().map(|(write, _)| write).collect();
        let earlier = mem::take(&mut self.state.earlier_jobs);
        let written = self.run(|store| store.write(&writes, &earlier, now.unix_ms));
        self.state.earlier_jobs = earlier;
        let error = match written {
            Ok(written) => {
                self.state.failed = None;
                let written = written.into_iter().map(|written| self.answer(written));
                let written: Vec<_> = written.collect();
                let senders = asked.into_iter().map(|(_, answer)| answer);
                answers.written.extend(senders.zip(written));
                return answers;
            }
            Err(error) => error,
        };
        if !asked.iter().any(|(write, _)| write.is_claim()) {
            // The connection may have broken since it was last used, so everything has a second attempt.
            let is_first = self.state.failed.is_none();
            let is_unreachable = error.kind() == LedgerErrorKind::Unreachable;
            let is_repeated = self.is_repeated(now, PATIENCE);
            if self.is_job && is_unreachable && is_repeated {
                self.state.not_before = now.elapsed + RETRY_AFTER;
                self.state.commands.push_front(Command::Write(asked));
                return answers;
            }
            self.fail(&error);
            if is_first {
                self.state.commands.push_front(Command::Write(asked));
            } else {
                self.state.failed = None;
                self.abandon(asked, &error, &mut answers);
            }
            return answers;
        }
        self.fail(&error);
        self.state.is_outdated |= matches!(
            error.kind(),
            LedgerErrorKind::OtherService | LedgerErrorKind::OtherKeys
        );
        let notes = answers.refuse_claims(asked, &error);
        if !notes.is_empty() {
            self.state.failed = Some(now.elapsed);
            self.state.commands.push_front(Command::Write(notes));
        }
        answers
    }

    fn answer(&self, written: Written) -> Result<Option<Recorded>, LedgerError> {
        written.map_err(|(index, why)| self.error(Cause::Refused(index, why)))
    }

    /// Answers outcomes that cannot be recorded now. A client tries again together with its next requests.
    fn abandon(&mut self, notes: Writes, error: &LedgerError, answers: &mut Answers) {
        for (note, answer) in notes {
            answers.written.push((answer, Err(error.clone())));
            if !self.is_job {
                self.state.unwritten.push(note);
            }
        }
    }

    /// Answers the next command, for which the ledger could not be opened. Outcomes are left, if the ledger was open before.
    fn refuse_next(&mut self, error: &LedgerError) -> Answers {
        let mut answers = Answers::default();
        match self.state.commands.pop_front() {
            Some(Command::LookUp(asked)) => answers.refuse_look_ups(asked, error),
            Some(Command::Write(asked)) => {
                let notes = answers.refuse_claims(asked, error);
                match &self.state.store {
                    Some(_) => self.state.commands.push_front(Command::Write(notes)),
                    None => self.abandon(notes, error, &mut answers),
                }
            }
            other => self.state.commands.extend(other),
        }
        answers
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut (dyn Store + 'static)) -> Result<T, Cause>,
    ) -> Result<T, LedgerError> {
        let store = self.state.store.as_mut();
        let closed = || Cause::Io(std::io::Error::other("it has been closed"));
        let done = store.ok_or_else(closed).and_then(|store| store.run(work));
        if let Err(Cause::LeaseLost) = &done {
            // Nothing more is sent of what was claimed with it.
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

impl Answers {
    fn refuse_look_ups(&mut self, asked: LookUps, error: &LedgerError) {
        let refused = asked.into_iter().map(|(_, answer)| answer);
        self.found
            .extend(refused.map(|answer| (answer, Err(error.clone()))));
    }

    /// Refuses claims, and returns the rest.
    fn refuse_claims(&mut self, asked: Writes, error: &LedgerError) -> Writes {
        let (claims, notes): (Writes, Writes) =
            asked.into_iter().partition(|(write, _)| write.is_claim());
        let refused = claims.into_iter().map(|(_, answer)| answer);
        self.written
            .extend(refused.map(|answer| (answer, Err(error.clone()))));
        notes
    }

    /// Sends the answers. Those that are no longer waited for are dropped.
    pub(super) fn send(self) {
        for (answer, found) in self.found {
            let _ = answer.send(found);
        }
        for (answer, written) in self.written {
            let _ = answer.send(written);
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
