//! The thread that reads and writes the ledger of a job, or of a client's single creates, and commits together whatever
//! several rows are waiting for.

#[cfg(unix)]
use std::fs;
use std::{
    collections::HashSet,
    convert::Infallible,
    io, mem, process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle as Runtime, sync::oneshot, time::timeout};

use super::{
    error::{Cause, LedgerError, LedgerErrorKind, Place},
    given_up::{self, GivenUp},
    key_hash::{KeyHash, Salt},
    lease::{self, Lease},
    state::{Record, Recorded, RequestInfo, WhenInDoubt},
    store::{Store, Write, Written},
};
use crate::{
    http::send::{DESCRIPTOR_WAIT, DESCRIPTOR_WAITS},
    value::AgentId,
};

/// How long a job that is given up waits for what needs not be noted.
const A_MOMENT: Duration = Duration::from_millis(100);

/// The thread that has a ledger open. Dropping this waits for nothing: the thread writes what was recorded, and ends.
pub(crate) struct Writer {
    handle: Handle,
    /// Whether the thread is to end with this.
    ends_thread: bool,
    /// Whether only what is to be noted still matters.
    given_up: GivenUp,
}

/// Asks the thread for something. What is asked for is done even if nobody waits for it.
#[derive(Clone)]
pub(crate) struct Handle {
    place: Place,
    process: u32,
    thread: mpsc::Sender<Ask>,
    /// The rows that were claimed here, until it is noted what became of them. To the database they are all this job's, which
    /// may note something of them: it cannot tell two calls with one key.
    claimed: Arc<Mutex<HashSet<KeyHash>>>,
    lease: Lease,
}

/// What a ledger has on a key.
pub(crate) struct Found {
    pub(crate) key: KeyHash,
    pub(crate) salt: Salt,
    /// `None` if the row may be sent.
    pub(crate) recorded: Option<Recorded>,
}

type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What the thread is asked for. It is done in this order, but look-ups do not wait for the disk.
enum Ask {
    LookUp(String, Answer<Found>),
    Write(Write, Answer<Option<Recorded>>),
    /// Reports when everything before this is done.
    Idle(oneshot::Sender<()>),
    /// Ends the thread. The sender is dropped once the ledger is closed.
    Close(Option<oneshot::Sender<Infallible>>),
}

impl Writer {
    /// Starts the thread, which opens the ledger first.
    pub(super) fn start(
        place: Place,
        is_job: bool,
        opens: impl Fn(Lease) -> Result<Box<dyn Store>, Cause> + Send + 'static,
    ) -> Result<Self, LedgerError> {
        let (sender, asked) = mpsc::channel();
        let lease = Lease::default();
        let handle = Handle {
            lease: lease.clone(),
            place: place.clone(),
            process: process::id(),
            thread: sender,
            claimed: Arc::default(),
        };
        let claimed = Arc::clone(&handle.claimed);
        let given_up = GivenUp::default();
        let flag = Arc::clone(&given_up);
        thread::Builder::new()
            .name("dealkit-ledger".to_owned())
            .spawn(move || {
                given_up::go_by(&flag);
                let mut work = Work {
                    opens,
                    place,
                    is_job,
                    store: None,
                    lease,
                    renewed: Instant::now(),
                    is_outdated: false,
                    claimed,
                    failure: None,
                    unwritten: Vec::new(),
                    closing: Vec::new(),
                };
                while work.goes_on(&asked) {}
            })
            .map_err(|error| handle.error(Cause::Io(error)))?;
        Ok(Self {
            handle,
            ends_thread: true,
            given_up,
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until everything that was recorded is on disk. For what else was asked for, it waits only a moment.
    pub(crate) async fn finish(&self) {
        let (answer, mut answered) = oneshot::channel();
        if self.handle.ask(Ask::Idle(answer)).is_err() {
            return;
        }
        if Runtime::try_current().is_ok() && timeout(A_MOMENT, &mut answered).await.is_ok() {
            return;
        }
        self.given_up.store(true, Ordering::Relaxed);
        let _ = answered.await;
    }

    /// Ends the thread, and completes once the ledger is closed.
    pub(crate) fn end(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (closing, closed) = oneshot::channel();
        let is_asked = self.handle.ask(Ask::Close(Some(closing))).is_ok();
        self.ends_thread = !is_asked;
        async move {
            if is_asked {
                let _ = closed.await;
            }
        }
    }

    /// Lets the thread end by itself, once the last handle is gone.
    pub(super) fn detach(mut self) {
        self.ends_thread = false;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.ends_thread {
            return;
        }
        self.given_up.store(true, Ordering::Relaxed);
        if self.handle.ask(Ask::Close(None)).is_err() {
            // In a forked child, where the thread does not exist, it may have left the channel locked.
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

    /// Claims a row, which may be sent or asked about once this has completed: the claim is then on disk. If another job or
    /// call was faster, returns what that one has recorded. Otherwise, even if this fails or is not waited for, something is to
    /// be [noted](Self::note) of the row.
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

    /// Records what somebody has found out about a row that was claimed, which has this index in the job: its agent, or
    /// that there is none. Once this has completed, that is on disk.
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
        // A rejected one stays claimed, until something else is recorded of the row.
        self.claimed().remove(&key);
        Ok(())
    }

    /// Notes what became of a row that was claimed, or that no part of it reached the service. Once this has completed,
    /// the note is on disk.
    pub(crate) fn note(
        &self,
        key: KeyHash,
        noted: Option<Record>,
    ) -> impl Future<Output = Result<Option<Recorded>, LedgerError>> + Send + use<> {
        let answer = self.write(Write::Note { key, noted });
        // Whoever claims it from here on does so after this note.
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

    /// Refuses to send a row that was claimed with this lease, once others may take that for over.
    pub(crate) fn may_send(&self, term: u64) -> Result<(), LedgerError> {
        match self.lease.remaining(lease::now(), term) {
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
        while let Some(remaining) = self.lease.remaining(lease::now(), term) {
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
        if self.process != process::id() {
            return Err(self.error(Cause::Forked));
        }
        self.thread.send(ask).map_err(|_| self.closed())
    }

    fn closed(&self) -> LedgerError {
        self.error(Cause::Io(io::Error::other("it has been closed")))
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.place.clone(), cause)
    }
}

struct Work<O> {
    opens: O,
    place: Place,
    /// For a job any failure is the end; a client goes on.
    is_job: bool,
    /// `None` until it is needed, or if it could not be opened.
    store: Option<Box<dyn Store>>,
    lease: Lease,
    /// When it was last attempted to renew that the job is alive.
    renewed: Instant,
    /// Whether the ledger has another header than when it was opened.
    is_outdated: bool,
    /// The rows that are claimed here, as in [`Handle`].
    claimed: Arc<Mutex<HashSet<KeyHash>>>,
    /// The failure after which nothing is opened or claimed any more.
    failure: Option<LedgerError>,
    /// What could not be noted, if it goes on: until it is, the rows count as in flight.
    unwritten: Vec<Write>,
    /// Dropped last, to report that the ledger is closed.
    closing: Vec<oneshot::Sender<Infallible>>,
}

impl<O: Fn(Lease) -> Result<Box<dyn Store>, Cause>> Work<O> {
    /// Does whatever has been asked for by now, once there is something; returns whether more may come.
    fn goes_on(&mut self, asked: &Receiver<Ask>) -> bool {
        let first = match self.renew() {
            None => asked.recv().map_err(RecvTimeoutError::from),
            Some(left) => asked.recv_timeout(left),
        };
        let first = match first {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        let (mut look_ups, mut writes) = (Vec::new(), Vec::new());
        let (mut waiting, mut goes_on) = (Vec::new(), true);
        for ask in [first].into_iter().chain(asked.try_iter()) {
            match ask {
                Ask::LookUp(key, answer) => look_ups.push((key, answer)),
                Ask::Write(write, answer) => writes.push((write, answer)),
                Ask::Idle(answer) => waiting.push(answer),
                Ask::Close(closing) => {
                    goes_on = false;
                    self.closing.extend(closing);
                }
            }
        }
        let unwritten = mem::take(&mut self.unwritten).into_iter();
        self.write(unwritten.map(|note| (note, oneshot::channel().0)).collect());
        self.look_up(look_ups);
        self.write(writes);
        for answer in waiting {
            let _ = answer.send(());
        }
        goes_on
    }

    /// The ledger, which is opened if it is not open.
    fn store(&mut self) -> Result<&mut (dyn Store + 'static), LedgerError> {
        // A client whose database was out of reach, or whose ledger has a new header, continues as another job.
        let remaining = self.lease.remaining(lease::now(), self.lease.term());
        let has_lapsed = remaining == Some(Duration::ZERO);
        let is_outdated = has_lapsed || (self.is_outdated && self.has_no_claims());
        let store = match self.store.take() {
            Some(store) if self.is_job || !is_outdated => store,
            _ => {
                self.is_outdated = false;
                if let Some(failure) = &self.failure {
                    return Err(failure.clone());
                }
                let mut waits = 0;
                let opened = loop {
                    match (self.opens)(self.lease.clone()) {
                        Err(Cause::Io(_)) if waits < DESCRIPTOR_WAITS && lacks_descriptor() => {
                            waits += 1;
                            thread::sleep(DESCRIPTOR_WAIT);
                        }
                        opened => break opened,
                    }
                };
                let opened = opened.map_err(|cause| self.error(cause));
                opened.inspect_err(|error| self.fail(error))?
            }
        };
        Ok(&mut **self.store.insert(store))
    }

    fn has_no_claims(&self) -> bool {
        let claimed = self.claimed.lock();
        claimed.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut (dyn Store + 'static)) -> Result<T, Cause>,
    ) -> Result<T, LedgerError> {
        let done = self.store()?.run(work);
        done.map_err(|cause| self.error(cause))
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.place.clone(), cause)
    }

    /// Claims nothing any more, if that is what this failure means.
    fn fail(&mut self, error: &LedgerError) {
        if self.is_job || error.is_final() {
            self.failure.get_or_insert_with(|| error.clone());
        }
    }

    /// Renews that the job is alive, if it is time; returns how long it is until the next time.
    fn renew(&mut self) -> Option<Duration> {
        let store = self.store.as_mut()?;
        let every = store.renewed_every()?;
        if self.renewed.elapsed() >= every {
            self.renewed = Instant::now();
            // If the job must stop, the lease has ended.
            let _ = store.renew();
        }
        Some(every.saturating_sub(self.renewed.elapsed()))
    }

    fn look_up(&mut self, asked: Vec<(String, Answer<Found>)>) {
        if asked.is_empty() {
            return;
        }
        let found = self.run(|store| {
            let hash = |(key, _): &(String, _)| store.header().hash(key);
            let keys: Vec<_> = asked.iter().map(hash).collect();
            let found = store.look_up(&keys)?;
            Ok((store.header().salt, keys.into_iter().zip(found)))
        });
        match found {
            Ok((salt, found)) => {
                for ((key, recorded), (_, answer)) in found.zip(asked) {
                    let found = Found {
                        key,
                        salt,
                        recorded,
                    };
                    let _ = answer.send(Ok(found));
                }
            }
            Err(error) => {
                if error.is_final() {
                    self.fail(&error);
                }
                refuse(asked, &error);
            }
        }
    }

    /// Commits claims and notes together. After the first failure nothing is claimed any more, but what became of rows
    /// that were sent may still fit.
    fn write(&mut self, mut asked: Vec<(Write, Answer<Option<Recorded>>)>) {
        if let Some(error) = &self.failure {
            asked = without_claims(asked, error);
        }
        let mut written = self.commit(&asked);
        if let Err(error) = &written
            && self.failure.is_none()
        {
            self.fail(error);
            let has_new_header = matches!(
                error.kind(),
                LedgerErrorKind::OtherService | LedgerErrorKind::OtherKeys
            );
            asked = without_claims(asked, error);
            written = self.commit(&asked);
            self.is_outdated |= has_new_header;
        }
        match written {
            // Nobody waits for the answer if the row was given up meanwhile.
            Ok(written) => {
                for ((_, answer), written) in asked.into_iter().zip(written) {
                    let rejected = |(index, why)| self.error(Cause::Refused(index, why));
                    let _ = answer.send(written.map_err(rejected));
                }
            }
            Err(error) => {
                for (note, answer) in without_claims(asked, &error) {
                    let _ = answer.send(Err(error.clone()));
                    if !self.is_job {
                        self.unwritten.push(note);
                    }
                }
            }
        }
    }

    fn commit<T>(&mut self, asked: &[(Write, T)]) -> Result<Vec<Written>, LedgerError> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let writes: Vec<_> = asked.iter().map(|(write, _)| write).collect();
        if writes.iter().all(|write| write.is_claim()) {
            self.run(|store| store.write(&writes))
        } else {
            self.run(|store| given_up::insist(|| store.write(&writes)))
        }
    }
}

/// Whether this process has used up its file descriptors. Connections that are being made or closed may release some soon.
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

/// Refuses the claims, and returns the notes.
fn without_claims<T>(
    asked: Vec<(Write, Answer<T>)>,
    error: &LedgerError,
) -> Vec<(Write, Answer<T>)> {
    let (claims, notes) = asked.into_iter().partition(|(write, _)| write.is_claim());
    refuse(claims, error);
    notes
}

fn refuse<W, T>(asked: Vec<(W, Answer<T>)>, error: &LedgerError) {
    for (_, answer) in asked {
        let _ = answer.send(Err(error.clone()));
    }
}
