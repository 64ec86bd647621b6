//! What drives the calls of this process: the calling thread itself for those who wait, one thread in
//! the background for those who await.
//!
//! Both belong to one process. After a fork the child makes its own, and leaves what it inherited alone:
//! its sockets are the parent's, its threads are not there, and its locks may be held by nobody.

use std::{
    future::Future,
    process,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle, ThreadId},
    time::Duration,
};

use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    sync::{MutexExt, PyOnceLock},
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
    task::yield_now,
    time::timeout,
};

use crate::errors;

/// How long a waiting call is deaf to Ctrl-C at most.
const SLICE: Duration = Duration::from_millis(50);

/// A value that belongs to one process, and is made anew after a fork.
pub(crate) struct OfProcess<T>(Mutex<Option<(u32, T)>>);

impl<T: Clone> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The value of this process. `make` must not touch Python: the lock is held meanwhile.
    pub(crate) fn get_or_make<E>(
        &self,
        py: Python<'_>,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let process = process::id();
        // Who holds the lock may be waiting for the GIL, so it is not held while waiting for the lock.
        let slot = self.0.lock_py_attached(py);
        let mut slot = slot.unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((of, value)) if *of == process => Ok(value.clone()),
            _ => {
                let value = make()?;
                let inherited = slot.replace((process, value.clone()));
                // Dropping it would talk to the parent's sockets and wait for threads that are not there.
                std::mem::forget(inherited);
                Ok(value)
            }
        }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        let slot = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|(of, _)| *of != process::id()) {
            std::mem::forget(slot.take());
        }
    }
}

/// The runtime that calling threads drive. It is never dropped: there is one in a process.
fn of_callers(py: Python<'_>) -> PyResult<&'static Runtime> {
    static RUNTIME: OfProcess<&'static Runtime> = OfProcess::new();
    let runtime = RUNTIME.get_or_make(py, || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(&*Box::leak(Box::new(runtime)))
    });
    runtime.map_err(cannot_start)
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn cannot_start(error: std::io::Error) -> PyErr {
    PyRuntimeError::new_err(format!("the runtime cannot be started: {error}"))
}

/// Runs a call to its end on the calling thread, without the GIL, and listens to signals meanwhile.
pub(crate) fn wait<F>(py: Python<'_>, call: F) -> PyResult<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    if Handle::try_current().is_ok() {
        return Err(errors::config(
            py,
            "a call that waits was made on a thread of a Rust async runtime, which it would stall",
        ));
    }
    let runtime = of_callers(py)?;
    let mut call = Box::pin(call);
    let mut is_first = true;
    loop {
        let slice = py.detach(|| {
            runtime.block_on(async {
                if std::mem::take(&mut is_first) {
                    // Between calls nobody looks after the kept connections. Letting the runtime look
                    // once finds those that the service has closed, before a request goes out on one.
                    yield_now().await;
                }
                timeout(SLICE, call.as_mut()).await
            })
        });
        if let Ok(outcome) = slice {
            return Ok(outcome);
        }
        if let Err(signal) = py.check_signals() {
            py.detach(|| {
                runtime.block_on(async {
                    drop(call);
                    // The connection's own task closes it, once it runs.
                    for _ in 0..4 {
                        yield_now().await;
                    }
                });
            });
            return Err(signal);
        }
    }
}

/// The thread in the background.
struct Background {
    handle: Handle,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// `None` once the interpreter is ending.
type Slot = Arc<Mutex<Option<Background>>>;

static BACKGROUND: OfProcess<Slot> = OfProcess::new();

/// The runtime in the background, started when it is first asked for.
pub(crate) fn background(py: Python<'_>) -> PyResult<Handle> {
    end_if_left_behind(py);
    // Python must not be touched once the interpreter ends, so the thread ends before.
    stop_at_exit(py)?;
    let slot = BACKGROUND
        .get_or_make(py, || Ok(Arc::new(Mutex::new(Some(start()?)))))
        .map_err(cannot_start)?;
    let slot = slot.lock_py_attached(py);
    match &*slot.unwrap_or_else(PoisonError::into_inner) {
        Some(background) => Ok(background.handle.clone()),
        None => Err(PyRuntimeError::new_err(
            "the interpreter is ending: no further calls can be made",
        )),
    }
}

fn start() -> std::io::Result<Background> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("dealkit".to_owned())
        .spawn(move || {
            // Sent or dropped, either way it is the end.
            let _ = runtime.block_on(stopped);
            // A name look-up that is under way is not waited for.
            runtime.shutdown_background();
        })?;
    Ok(Background {
        handle,
        stop,
        thread,
    })
}

fn stop_at_exit(py: Python<'_>) -> PyResult<()> {
    static REGISTERED: PyOnceLock<()> = PyOnceLock::new();
    REGISTERED
        .get_or_try_init(py, || {
            let stop = pyo3::wrap_pyfunction!(stop_background, py)?;
            py.import("atexit")?.call_method1("register", (stop,))?;
            Ok(())
        })
        .copied()
}

/// The main thread, once the interpreter is ending.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();

/// Ends a thread that the interpreter leaves behind: a daemon of the program's that is still at work when
/// everything else has ended. It waits for its own end, as it would for a lock; an exception would only be
/// printed, and nobody could do anything about it.
pub(crate) fn end_if_left_behind(py: Python<'_>) {
    let current = thread::current().id();
    if ENDED_BY.get().is_some_and(|main| *main != current) {
        py.detach(|| {
            loop {
                thread::park();
            }
        });
    }
}

/// Ends the thread in the background, and every call on it.
#[pyfunction]
fn stop_background(py: Python<'_>) {
    // Set once: after a fork while the interpreter ends, the thread is the same.
    let _ = ENDED_BY.set(thread::current().id());
    let Ok(slot) = BACKGROUND.get_or_make(py, || Err(())) else {
        return; // It was never started in this process.
    };
    let slot = slot.lock_py_attached(py);
    let background = slot.unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Background { stop, thread, .. }) = background {
        py.detach(|| {
            let _ = stop.send(());
            // It may be waiting for the GIL, which is free now. A panic there has nobody to tell.
            let _ = thread.join();
        });
    }
}
