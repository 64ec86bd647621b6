//! The one rule of this module, and the one place that may bend it.
//!
//! **Native code runs no Python bytecode, and gives up the GIL only in [`release`].**
//!
//! Before 3.14, once the interpreter is ending, CPython ends a daemon thread where it next asks for the GIL, through
//! whatever native frames it is in; with Rust frames, that aborts the process. A thread may ask for the GIL wherever
//! it runs bytecode. So an entry point of this module takes built-in types that the Python half has checked and
//! converted, calls only C code, and returns what Python code then raises, builds or logs: see
//! [`entry`](crate::python::failure::entry). Before 3.12, the garbage collector, which runs finalisers written in Python, may
//! run wherever a container is made, so it is switched off while an entry point is at work.
//!
//! Clippy refuses every other way into Python (`clippy.toml`), `tests/test_entries.py` traces each entry point of the
//! module, and `tests/test_exit.py` ends the interpreter during each of them.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the place that they are allowed in"
)]

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use pyo3::{prelude::*, sync::PyOnceLock};

thread_local! {
    /// Whether this thread is inside [`uncollected`].
    static IS_UNCOLLECTED: Cell<bool> = const { Cell::new(false) };
}

/// Does work that makes Python objects, without the garbage collector intervening. The GIL is not given up inside.
pub(crate) fn uncollected<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let _guard = Uncollected::new(py)?;
    work()
}

/// The functions of Python's module `gc`, for versions where the collector may run in the middle of an entry point.
struct Collector {
    is_enabled: Py<PyAny>,
    disable: Py<PyAny>,
    enable: Py<PyAny>,
}

static COLLECTOR: PyOnceLock<Option<Collector>> = PyOnceLock::new();

/// Stores the collector, if it must be switched off: from 3.12 on, it runs only between bytecodes.
pub(crate) fn prepare(py: Python<'_>, gc: &Bound<'_, PyAny>) -> PyResult<()> {
    COLLECTOR
        .get_or_try_init(py, || {
            if py.version_info() >= (3, 12) {
                return Ok(None);
            }
            PyResult::Ok(Some(Collector {
                is_enabled: gc.getattr("isenabled")?.unbind(),
                disable: gc.getattr("disable")?.unbind(),
                enable: gc.getattr("enable")?.unbind(),
            }))
        })
        .map(|_| ())
}

/// Keeps the garbage collector from running on this thread's allocations.
struct Uncollected<'py> {
    /// The function that switches it on again, if it was on.
    enable: Option<&'py Bound<'py, PyAny>>,
    is_outermost: bool,
}

impl<'py> Uncollected<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        let is_outermost = !IS_UNCOLLECTED.replace(true);
        let mut guard = Self {
            enable: None,
            is_outermost,
        };
        if let (true, Some(Some(collector))) = (is_outermost, COLLECTOR.get(py))
            && collector.is_enabled.bind(py).call0()?.is_truthy()?
        {
            collector.disable.bind(py).call0()?;
            guard.enable = Some(collector.enable.bind(py));
        }
        Ok(guard)
    }
}

impl Drop for Uncollected<'_> {
    fn drop(&mut self) {
        if let Some(enable) = self.enable {
            // A C function that takes no arguments cannot fail.
            let _ = enable.call0();
        }
        if self.is_outermost {
            IS_UNCOLLECTED.set(false);
        }
    }
}

/// How many threads are about to take the GIL again.
static RETURNING: AtomicUsize = AtomicUsize::new(0);

/// Whether the interpreter is ending.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The thread that ends the interpreter: the main thread.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();

/// How long the end of the interpreter waits for threads that are about to take the GIL. They only need to be
/// scheduled; the limit keeps the interpreter from taking for ever to end.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How much stack must be left, in bytes, and the size of a new stack that is made otherwise.
const ENOUGH_STACK: usize = 256 * 1024;
const NEW_STACK: usize = 2 * 1024 * 1024;

/// Does work that takes time, without the GIL.
///
/// A thread that the interpreter leaves behind (a daemon of the program) never returns from here: it waits for the
/// end of the process, as it would for a lock.
pub(crate) fn release<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    debug_assert!(
        !IS_UNCOLLECTED.get(),
        "the GIL is given up while the collector is off"
    );
    let done = py.detach(|| {
        let done = with_stack(work);
        // Counted first and checked afterwards: the other way round, the end of the interpreter could come unnoticed
        // between the two.
        RETURNING.fetch_add(1, Ordering::SeqCst);
        if is_left_behind() {
            RETURNING.fetch_sub(1, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
        done
    });
    RETURNING.fetch_sub(1, Ordering::SeqCst);
    done
}

/// Does not return on a thread that the interpreter leaves behind: what it asks for has ended, and an exception would
/// only be printed, with nobody to handle it.
pub(crate) fn end_if_left_behind(py: Python<'_>) {
    if is_left_behind() {
        release(py, || ());
    }
}

/// Runs with as much stack as the network needs, TLS included: Python threads can have very little, as they do by
/// default on Alpine.
pub(crate) fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH_STACK, NEW_STACK, work)
}

fn is_left_behind() -> bool {
    let current = thread::current().id();
    IS_ENDING.load(Ordering::SeqCst) && ENDED_BY.get().is_none_or(|main| *main != current)
}

/// Records that the interpreter is ending, and waits until no thread is about to take the GIL.
pub(crate) fn end(py: Python<'_>) {
    // Set once: even after a fork while the interpreter ends, the thread is the same.
    let _ = ENDED_BY.set(thread::current().id());
    IS_ENDING.store(true, Ordering::SeqCst);
    let until = Instant::now() + LONGEST_WAIT;
    py.detach(|| {
        while RETURNING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_micros(50));
        }
    });
}

/// For the child of a fork: the threads that were about to take the GIL belong to the parent.
pub(crate) fn forget_threads() {
    RETURNING.store(0, Ordering::SeqCst);
}

/// Works with Python on the background thread, which ends before the interpreter does: only there may bytecode be
/// run. `None` if no interpreter is left.
pub(crate) fn attach_background<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    Python::try_attach(work)
}
