//! Tokio runtimes that drive calls: one on the calling threads for blocking calls, and one on a background thread for asyncio
//! calls. Each service has its own pair, so that a hostile service slows only itself.
//!
//! Runtimes belong to one process. A forked child makes new runtimes, and never touches the inherited ones: their sockets belong to
//! the parent process, their threads do not exist in the child, and such a thread may hold their locks.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use pyo3::prelude::*;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
    task::yield_now,
};

use crate::python::{
    failure::{Failure, Result},
    gil,
};

/// A value that belongs to one process: a forked child has no value until it makes one.
///
/// The lock is held only briefly, and never while its holder waits for the GIL.
pub(crate) struct PerProcess<T>(Mutex<Option<(u32, T)>>);

impl<T: Clone> PerProcess<T> {
    pub(crate) fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut entry = self.lock();
        if let Some((_, value)) = &*entry {
            return Ok(value.clone());
        }
        let value = make()?;
        *entry = Some((process::id(), value.clone()));
        Ok(value)
    }

    pub(crate) fn get(&self) -> Option<T> {
        self.get_or_make(|| Err(())).ok()
    }
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn from_value(value: T) -> Self {
        Self(Mutex::new(Some((process::id(), value))))
    }

    /// Locks the value. Forgets it first if it was inherited from a parent process.
    fn lock(&self) -> MutexGuard<'_, Option<(u32, T)>> {
        let mut entry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entry
            .as_ref()
            .is_some_and(|(owner, _)| *owner != process::id())
        {
            // Never dropped: dropping it would use the parent's sockets, and join threads that do not exist in this process.
            std::mem::forget(entry.take());
        }
        entry
    }

    /// Calls `work` with the value, if this process has one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().as_mut().map(|(_, value)| work(value))
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.lock().take().map(|(_, value)| value)
    }

    pub(crate) fn put(&self, value: T) {
        *self.lock() = Some((process::id(), value));
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        drop(self.lock());
    }
}

/// Interval at which a blocking call returns to Python code, where Python checks for signals such as Ctrl-C.
pub(crate) const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Number of services that get their own runtimes. Further services share these runtimes.
///
/// A hostile service can block all calls on its runtime: hyper reads an endless chunk length, or endless interim responses, in a
/// loop that does not yield. See SECURITY.md.
const SLOT_COUNT: usize = 16;

/// The origins of services, in order of first use: the index is the slot. Only threads that hold the GIL lock it. A fork needs
/// the GIL too, so a forked child never inherits it locked.
static ORIGINS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Index of a service's runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(usize);

impl Slot {
    /// The slot for work that belongs to no service, such as key requests.
    pub(crate) const NO_SERVICE: Self = Self(SLOT_COUNT);

    /// Returns the slot of the service with this origin, such as `https://deals.example.com`.
    pub(crate) fn for_origin(origin: &str) -> Self {
        let mut origins = ORIGINS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = origins.iter().position(|known| known == origin) {
            return Self(slot);
        }
        if origins.len() < SLOT_COUNT {
            origins.push(origin.to_owned());
            return Self(origins.len() - 1);
        }
        let mut hasher = DefaultHasher::new();
        origin.hash(&mut hasher);
        Self((hasher.finish() % SLOT_COUNT as u64) as usize)
    }
}

static CALLER_RUNTIMES: [PerProcess<&'static Runtime>; SLOT_COUNT] =
    [const { PerProcess::new() }; SLOT_COUNT];
static CALLER_RUNTIME_WITHOUT_SERVICE: PerProcess<&'static Runtime> = PerProcess::new();

fn caller_runtime_value(slot: Slot) -> &'static PerProcess<&'static Runtime> {
    CALLER_RUNTIMES
        .get(slot.0)
        .unwrap_or(&CALLER_RUNTIME_WITHOUT_SERVICE)
}

/// Returns the runtime that calling threads drive, one per slot and process. It is never dropped.
pub(crate) fn get_caller_runtime(slot: Slot) -> Result<&'static Runtime> {
    let make = || Builder::new_current_thread().enable_all().build();
    let runtime = caller_runtime_value(slot).get_or_make(|| Ok(&*Box::leak(Box::new(make()?))));
    runtime.map_err(start_failure)
}

/// Drops a value that calling threads have used, and runs their runtime until the value's connections are closed. Without this,
/// they would stay open if no thread drove that runtime later. Keeps the GIL, because this takes microseconds.
pub(crate) fn drop_on_caller_runtime<T>(slot: Slot, value: T) {
    let is_on_runtime = Handle::try_current().is_ok();
    let Some(runtime) = caller_runtime_value(slot).get().filter(|_| !is_on_runtime) else {
        return;
    };
    let enter_guard = runtime.enter();
    drop(value);
    drop(enter_guard);
    // Tokio polls at most 61 tasks between two checks of the sockets.
    let yield_count = 8 + runtime.metrics().num_alive_tasks() / 16;
    runtime.block_on(async {
        for _ in 0..yield_count {
            yield_now().await;
        }
    });
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn start_failure(error: io::Error) -> Failure {
    Failure::Config(format!("the runtime cannot be started: {error}"))
}

struct BackgroundThread {
    handle: Handle,
    stop_sender: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The background threads by slot; `None` once the interpreter is shutting down.
type Threads = Arc<Mutex<Option<BTreeMap<Slot, BackgroundThread>>>>;

static BACKGROUND_THREADS: PerProcess<Threads> = PerProcess::new();

/// Returns the background runtime of a slot, and starts its thread if necessary.
pub(crate) fn get_background_runtime(slot: Slot) -> Result<Handle> {
    let threads = BACKGROUND_THREADS
        .get_or_make(|| Result::<_>::Ok(Arc::new(Mutex::new(Some(BTreeMap::new())))))?;
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(threads) = &mut *threads else {
        return Err(Failure::Runtime(
            "the interpreter is ending: no further calls can be made".to_owned(),
        ));
    };
    let thread = match threads.entry(slot) {
        Entry::Occupied(thread) => thread.into_mut(),
        Entry::Vacant(thread) => thread.insert(start_thread().map_err(start_failure)?),
    };
    Ok(thread.handle.clone())
}

fn start_thread() -> io::Result<BackgroundThread> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop_sender, stop_receiver) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("dealkit".to_owned())
        .spawn(move || {
            // Ends when `stop_sender` sends a message or is dropped.
            let _ = runtime.block_on(stop_receiver);
            // Does not wait for a DNS lookup in progress.
            runtime.shutdown_background();
        })?;
    Ok(BackgroundThread {
        handle,
        stop_sender,
        thread,
    })
}

/// Ends the background threads and every call on them. An `atexit` handler calls this, because these threads must not use Python
/// after the interpreter has ended.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    gil::mark_finalizing();
    let threads = BACKGROUND_THREADS
        .get_or_make(|| Result::<_>::Ok(Arc::new(Mutex::new(None))))
        .map(|threads| {
            threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        });
    let threads: Vec<_> = threads.into_iter().flatten().flatten().collect();
    if !threads.is_empty() {
        gil::release(py, || {
            let handles = threads.into_iter().map(|(_, background)| {
                let _ = background.stop_sender.send(());
                background.thread
            });
            // Joined without the GIL, because a thread may be waiting for the GIL. An error means that the thread has panicked.
            for thread in handles.collect::<Vec<_>>() {
                let _ = thread.join();
            }
        });
    }
}
