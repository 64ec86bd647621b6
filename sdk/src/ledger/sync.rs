//! Syncs lines to disk: one thread does it for all who are waiting at once.

use std::{
    fmt, slice,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use super::{
    error::{Cause, LedgerError},
    file::LedgerFile,
    format::Line,
};

/// The file of a ledger, and the thread that syncs it. Dropping it makes sure that every line written reaches the disk.
pub(super) struct Syncer {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Writes lines.
#[derive(Clone)]
pub(super) struct Handle(Arc<Shared>);

struct Shared {
    file: LedgerFile,
    state: Mutex<State>,
    changed: Condvar,
}

/// Resolves when the wait for the disk is over.
pub(super) type Syncing = oneshot::Receiver<Result<(), LedgerError>>;

struct State {
    /// Where the next line goes: after the last whole one.
    end: u64,
    /// Whether there are lines that were written but are not on disk.
    is_dirty: bool,
    is_closed: bool,
    waiting: Vec<oneshot::Sender<Result<(), LedgerError>>>,
    /// Why intents are no longer written.
    failure: Option<LedgerError>,
}

impl Syncer {
    pub(super) fn start(file: LedgerFile, end: u64) -> Result<Self, LedgerError> {
        let handle = Handle(Arc::new(Shared {
            file,
            state: Mutex::new(State {
                end,
                is_dirty: false,
                is_closed: false,
                waiting: Vec::new(),
                failure: None,
            }),
            changed: Condvar::new(),
        }));
        let work = handle.clone();
        let thread = thread::Builder::new()
            .name("dealkit-ledger".to_owned())
            .spawn(move || work.sync_for_all())
            .map_err(|error| handle.0.file.error(Cause::Io(error)))?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        // A forked child has neither the thread nor a lock of its own.
        if !self.handle.0.file.is_ours() {
            return;
        }
        self.handle.lock().is_closed = true;
        self.handle.0.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checked(&self) -> Result<MutexGuard<'_, State>, LedgerError> {
        if self.0.file.is_ours() {
            Ok(self.lock())
        } else {
            Err(self.0.file.error(Cause::Forked))
        }
    }

    /// Writes a line. From then on the operating system has it, so a crash of the process does not undo it.
    pub(super) fn append(&self, line: &Line<'_>) -> Result<(), LedgerError> {
        let mut state = self.checked()?;
        self.append_to(&mut state, line)
    }

    /// Writes a line, so that [`synced`](Self::synced) can wait until it is on disk. After the first failure it
    /// writes nothing.
    pub(super) fn append_to_sync(&self, line: &Line<'_>) -> Result<Syncing, LedgerError> {
        let mut state = self.checked()?;
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        self.append_to(&mut state, line)?;
        let (synced, wait) = oneshot::channel();
        state.waiting.push(synced);
        drop(state);
        self.0.changed.notify_all();
        Ok(wait)
    }

    /// Waits until the line is on disk.
    pub(super) async fn synced(&self, wait: Syncing) -> Result<(), LedgerError> {
        // Nobody responds once the ledger is closed.
        wait.await
            .unwrap_or_else(|_| Err(self.0.file.error(Cause::Closed)))
    }

    fn append_to(&self, state: &mut State, line: &Line<'_>) -> Result<(), LedgerError> {
        match self.0.file.append(state.end, slice::from_ref(line)) {
            Ok(end) => {
                state.end = end;
                state.is_dirty = true;
                Ok(())
            }
            Err(error) => {
                state.failure.get_or_insert_with(|| error.clone());
                Err(error)
            }
        }
    }

    /// Syncs for all who are waiting at once, until the ledger is closed.
    fn sync_for_all(&self) {
        loop {
            let nothing = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
            let waited = self.0.changed.wait_while(self.lock(), nothing);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let waiting = std::mem::take(&mut state.waiting);
            let is_last = state.is_closed && waiting.is_empty();
            let is_dirty = std::mem::take(&mut state.is_dirty);
            drop(state);
            let synced = if is_dirty { self.0.file.sync() } else { Ok(()) };
            if let Err(error) = &synced {
                self.lock().failure.get_or_insert_with(|| error.clone());
            }
            for waits in waiting {
                // Anyone who has stopped waiting has recorded that nothing was sent.
                let _ = waits.send(synced.clone());
            }
            if is_last {
                return;
            }
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
