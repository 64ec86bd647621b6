//! The drivers of the calls of this process: the calling thread itself for sync calls, a background thread for async ones. Each
//! service has runtimes of its own, so that a hostile one slows only itself.
//!
//! All of this belongs to one process. After a fork, the child makes its own, and leaves alone what it inherited: the sockets
//! are the parent's, the threads do not exist, and the locks may be held with no owner left.

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
    failure::{Failure, Outcome},
    gil,
};

/// A value that belongs to one process: after a fork, the child has none, or makes its own.
///
/// Its lock is held only for moments, and never while waiting for the GIL.
pub(crate) struct PerProcess<T>(Mutex<Option<(u32, T)>>);

impl<T: Clone> PerProcess<T> {
    /// The value of this process.
    pub(crate) fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut slot = self.lock();
        if let Some((_, value)) = &*slot {
            return Ok(value.clone());
        }
        let value = make()?;
        *slot = Some((process::id(), value.clone()));
        Ok(value)
    }

    /// The value of this process, if it has one.
    pub(crate) fn get(&self) -> Option<T> {
        self.get_or_make(|| Err(())).ok()
    }
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// A value of this process.
    pub(crate) fn of(value: T) -> Self {
        Self(Mutex::new(Some((process::id(), value))))
    }

    /// The slot, which is empty if its value was inherited.
    fn lock(&self) -> MutexGuard<'_, Option<(u32, T)>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|(of, _)| *of != process::id()) {
            // Dropping it would use the parent's sockets and wait for threads that do not exist.
            std::mem::forget(slot.take());
        }
        slot
    }

    /// Does something with the value of this process, if it has one.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&T) -> R) -> Option<R> {
        self.lock().as_ref().map(|(_, value)| work(value))
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

/// The longest time that a waiting call leaves signals such as Ctrl-C unattended: Python checks for them whenever its
/// code runs.
pub(crate) const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The number of services with threads and connections of their own in a process; further services share them.
///
/// While a hostile service occupies a runtime, every call on that runtime waits: hyper reads an endless chunk length or endless
/// interim responses in a loop, and does not yield. See SECURITY.md.
const RUNTIMES: usize = 16;

/// The origins of services, each in the slot of its runtimes, in order of first use. Only locked by threads that have the GIL, so
/// that it is free after a fork.
static ORIGINS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The place of a service's runtimes: one slot for each of the first [`RUNTIMES`] origins, which further ones share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(usize);

impl Slot {
    /// The slot of work that belongs to no service, such as asking for keys.
    pub(crate) const NONE: Self = Self(RUNTIMES);

    /// The slot of the service with this origin, such as `https://deals.example.com`.
    pub(crate) fn of_origin(origin: &str) -> Self {
        let mut origins = ORIGINS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = origins.iter().position(|known| known == origin) {
            return Self(slot);
        }
        if origins.len() < RUNTIMES {
            origins.push(origin.to_owned());
            return Self(origins.len() - 1);
        }
        let mut hasher = DefaultHasher::new();
        origin.hash(&mut hasher);
        Self((hasher.finish() % RUNTIMES as u64) as usize)
    }
}

static CALLERS: [PerProcess<&'static Runtime>; RUNTIMES] = [const { PerProcess::new() }; RUNTIMES];
static CALLERS_OF_NONE: PerProcess<&'static Runtime> = PerProcess::new();

fn callers(slot: Slot) -> &'static PerProcess<&'static Runtime> {
    CALLERS.get(slot.0).unwrap_or(&CALLERS_OF_NONE)
}

/// The runtime that the calling threads of a slot drive. It is never dropped: there is one per slot and process.
pub(crate) fn for_callers(slot: Slot) -> Outcome<&'static Runtime> {
    let make = || Builder::new_current_thread().enable_all().build();
    let runtime = callers(slot).get_or_make(|| Ok(&*Box::leak(Box::new(make()?))));
    runtime.map_err(cannot_start)
}

/// Drops what calling threads have used, and lets its connections close now: later, nobody may be there to do so.
/// That takes microseconds, so the GIL is kept.
pub(crate) fn drop_for_callers<T>(slot: Slot, value: T) {
    let is_on_runtime = Handle::try_current().is_ok();
    let Some(runtime) = callers(slot).get().filter(|_| !is_on_runtime) else {
        return;
    };
    let entered = runtime.enter();
    drop(value);
    drop(entered);
    // The runtime works on at most 61 tasks between two checks of the sockets.
    let rounds = 8 + runtime.metrics().num_alive_tasks() / 16;
    runtime.block_on(async {
        for _ in 0..rounds {
            yield_now().await;
        }
    });
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn cannot_start(error: io::Error) -> Failure {
    Failure::Config(format!("the runtime cannot be started: {error}"))
}

struct Background {
    handle: Handle,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The background threads, by slot; `None` once the interpreter is ending.
type Threads = Arc<Mutex<Option<BTreeMap<Slot, Background>>>>;

static BACKGROUND: PerProcess<Threads> = PerProcess::new();

/// The runtime of a slot in the background, started when it is first needed.
pub(crate) fn background(slot: Slot) -> Outcome<Handle> {
    let threads =
        BACKGROUND.get_or_make(|| Outcome::Ok(Arc::new(Mutex::new(Some(BTreeMap::new())))))?;
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(threads) = &mut *threads else {
        return Err(Failure::Runtime(
            "the interpreter is ending: no further calls can be made".to_owned(),
        ));
    };
    let thread = match threads.entry(slot) {
        Entry::Occupied(thread) => thread.into_mut(),
        Entry::Vacant(thread) => thread.insert(start().map_err(cannot_start)?),
    };
    Ok(thread.handle.clone())
}

fn start() -> io::Result<Background> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("dealkit".to_owned())
        .spawn(move || {
            // Whether it was sent or dropped, this is the end.
            let _ = runtime.block_on(stopped);
            // A name look-up that is in progress is not waited for.
            runtime.shutdown_background();
        })?;
    Ok(Background {
        handle,
        stop,
        thread,
    })
}

/// Ends the background threads and every call on them. For `atexit`: Python must not be touched once the interpreter has
/// ended.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    gil::end();
    let threads = BACKGROUND
        .get_or_make(|| Outcome::Ok(Arc::new(Mutex::new(None))))
        .map(|threads| {
            threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        });
    let threads: Vec<_> = threads.into_iter().flatten().flatten().collect();
    if !threads.is_empty() {
        gil::release(py, || {
            let joined = threads.into_iter().map(|(_, background)| {
                let _ = background.stop.send(());
                background.thread
            });
            // A thread may be waiting for the GIL, which is free now. A panic cannot be reported.
            for thread in joined.collect::<Vec<_>>() {
                let _ = thread.join();
            }
        });
    }
}
