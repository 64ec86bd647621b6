//! The thread of a job that reads and writes its ledger, and commits together whatever several rows are waiting for.

use std::{
    fmt, io, mem,
    path::PathBuf,
    process,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use super::{
    error::{Cause, LedgerError, Purpose},
    key_hash::KeyHash,
    sqlite::{Sqlite, Write},
    state::{Note, Recorded},
};

/// The thread that has the ledger of a job open. Dropping it makes sure that everything noted is on disk.
pub(crate) struct Writer {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Asks the thread for something. What is asked for is done even if nobody waits for it.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

/// What a ledger has on a key.
pub(crate) struct Found {
    pub(crate) key: KeyHash,
    /// `None` if the row may be sent.
    pub(crate) recorded: Option<Recorded>,
}

type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

struct Shared {
    path: PathBuf,
    process: u32,
    queue: Mutex<Queue>,
    /// Notified when there is something to do.
    filled: Condvar,
    /// Notified when there is nothing left to do.
    emptied: Condvar,
}

/// What is to be done.
#[derive(Default)]
struct Queue {
    look_ups: Vec<(String, Answer<Found>)>,
    claims: Vec<(Write, Answer<Option<Recorded>>)>,
    notes: Vec<(Write, Answer<()>)>,
    is_closed: bool,
    /// Whether the thread is opening the ledger, or at work on what it has taken out.
    is_busy: bool,
    /// Why the ledger could not be opened.
    unopened: Option<LedgerError>,
}

impl Writer {
    /// Starts the thread, which opens the ledger first.
    pub(super) fn start(
        path: PathBuf,
        open: impl FnOnce() -> Result<Sqlite, LedgerError> + Send + 'static,
    ) -> Result<Self, LedgerError> {
        let handle = Handle(Arc::new(Shared {
            path,
            process: process::id(),
            queue: Mutex::new(Queue {
                is_busy: true,
                ..Queue::default()
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }));
        let work = Arc::clone(&handle.0);
        let thread = thread::Builder::new()
            .name("dealkit-ledger".to_owned())
            .spawn(move || work.run(open))
            .map_err(|error| handle.0.error(Cause::Io(error)))?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until the ledger is open, or could not be opened.
    pub(crate) fn opened(&self) -> Result<(), LedgerError> {
        match &self.idle().unopened {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Waits until everything that was asked for is done.
    pub(crate) fn finish(&self) {
        if self.handle.0.is_ours() {
            drop(self.idle());
        }
    }

    fn idle(&self) -> MutexGuard<'_, Queue> {
        let shared = &self.handle.0;
        let at_work = |queue: &mut Queue| queue.is_busy || !queue.is_empty();
        let waited = shared.emptied.wait_while(shared.lock(), at_work);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let shared = &self.handle.0;
        if !shared.is_ours() {
            return;
        }
        shared.lock().is_closed = true;
        shared.filled.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Looks up what the ledger has on a key.
    pub(crate) fn look_up(
        &self,
        key: String,
    ) -> impl Future<Output = Result<Found, LedgerError>> + Send + use<> {
        self.ask(|queue, answer| queue.look_ups.push((key, answer)))
    }

    /// Claims a row, which may be sent once this has completed: the claim is then on disk. If the row must not be sent,
    /// because another job was faster, returns what that job has recorded.
    pub(crate) fn claim(
        &self,
        key: KeyHash,
        resends_unknown: bool,
    ) -> impl Future<Output = Result<Option<Recorded>, LedgerError>> + Send + use<> {
        let claim = Write::Claim {
            key,
            resends_unknown,
        };
        self.ask(|queue, answer| queue.claims.push((claim, answer)))
    }

    /// Notes what became of a row that was claimed. Once this has completed, the note is on disk.
    pub(crate) fn note(
        &self,
        key: KeyHash,
        note: Note,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send + use<> {
        let note = Write::Note { key, note };
        self.ask(|queue, answer| queue.notes.push((note, answer)))
    }

    fn ask<T: Send, P: FnOnce(&mut Queue, Answer<T>)>(
        &self,
        push: P,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + use<T, P> {
        let shared = Arc::clone(&self.0);
        let (answer, wait) = oneshot::channel();
        // A forked child has neither the thread nor its locks.
        if shared.is_ours() {
            let mut queue = shared.lock();
            // Otherwise nobody would answer.
            if !queue.is_closed {
                push(&mut queue, answer);
            }
            drop(queue);
            shared.filled.notify_one();
        } else {
            let _ = answer.send(Err(shared.error(Cause::Forked)));
        }
        async move {
            let closed = || io::Error::other("it has been closed");
            wait.await
                .unwrap_or_else(|_| Err(shared.error(Cause::Io(closed()))))
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.look_ups.is_empty() && self.claims.is_empty() && self.notes.is_empty()
    }
}

impl Shared {
    fn is_ours(&self) -> bool {
        self.process == process::id()
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(&self.path, Purpose::Job, cause)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, open: impl FnOnce() -> Result<Sqlite, LedgerError>) {
        let mut store = open();
        if let Err(error) = &store {
            self.lock().unopened = Some(error.clone());
        }
        let mut is_verified = false;
        let mut failure = None;
        while let Some(work) = self.next() {
            // Not before it is needed: this reads the whole ledger.
            if let Ok(opened) = &store
                && !is_verified
            {
                is_verified = true;
                if let Err(error) = opened.verify() {
                    store = Err(error);
                }
            }
            match &mut store {
                Ok(store) => {
                    // First, because that does not wait for the disk.
                    look_up(store, work.look_ups);
                    write(store, &mut failure, work.claims, work.notes);
                }
                Err(error) => {
                    answer_all(work.look_ups, || Err(error.clone()));
                    answer_all(work.claims, || Err(error.clone()));
                    answer_all(work.notes, || Err(error.clone()));
                }
            }
        }
    }

    /// Waits for something to do; `None` once the ledger is to be closed.
    fn next(&self) -> Option<Queue> {
        let mut queue = self.lock();
        queue.is_busy = false;
        if queue.is_empty() {
            self.emptied.notify_all();
        }
        let nothing = |queue: &mut Queue| queue.is_empty() && !queue.is_closed;
        let waited = self.filled.wait_while(queue, nothing);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.is_empty() {
            return None;
        }
        queue.is_busy = true;
        Some(Queue {
            look_ups: mem::take(&mut queue.look_ups),
            claims: mem::take(&mut queue.claims),
            notes: mem::take(&mut queue.notes),
            ..Queue::default()
        })
    }
}

fn look_up(store: &Sqlite, asked: Vec<(String, Answer<Found>)>) {
    if asked.is_empty() {
        return;
    }
    let keys: Vec<_> = asked.iter().map(|(key, _)| store.hash(key)).collect();
    match store.look_up(keys.iter().copied()) {
        Ok(found) => {
            for ((key, recorded), (_, answer)) in keys.into_iter().zip(found).zip(asked) {
                let _ = answer.send(Ok(Found { key, recorded }));
            }
        }
        Err(error) => answer_all(asked, || Err(error.clone())),
    }
}

/// Commits claims and notes together. After the first failure nothing is claimed any more, but what became of rows that
/// were sent may still fit.
///
/// A claim that was given up is withdrawn by a note, so claims go first. No row is claimed twice by a job.
fn write(
    store: &mut Sqlite,
    failure: &mut Option<LedgerError>,
    claims: Vec<(Write, Answer<Option<Recorded>>)>,
    notes: Vec<(Write, Answer<()>)>,
) {
    if claims.is_empty() && notes.is_empty() {
        return;
    }
    let of_notes = notes.iter().map(|(write, _)| write);
    let all = claims.iter().map(|(write, _)| write).chain(of_notes);
    let error = match failure {
        Some(error) => error,
        None => match store.write(all) {
            Ok(recorded) => {
                // Nobody waits for the answer if the row was given up meanwhile.
                for ((_, answer), recorded) in claims.into_iter().zip(recorded) {
                    let _ = answer.send(Ok(recorded));
                }
                return answer_all(notes, || Ok(()));
            }
            Err(error) => failure.insert(error),
        },
    };
    answer_all(claims, || Err(error.clone()));
    if !notes.is_empty() {
        let written = store.write(notes.iter().map(|(write, _)| write)).map(drop);
        answer_all(notes, || written.clone());
    }
}

fn answer_all<W, T>(asked: Vec<(W, Answer<T>)>, with: impl Fn() -> Result<T, LedgerError>) {
    for (_, answer) in asked {
        let _ = answer.send(with());
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
