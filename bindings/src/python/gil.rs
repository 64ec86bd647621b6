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
    sync::OnceLock,
    thread::{self, ThreadId},
};

use pyo3::{exceptions::PyImportError, prelude::*, sync::PyOnceLock};

thread_local! {
    /// Inside [`uncollected`]: whether this thread has switched the collector off.
    static UNCOLLECTED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Does work that makes Python objects, without the garbage collector intervening.
pub(crate) fn uncollected<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if UNCOLLECTED.get().is_some() {
        return work();
    }
    UNCOLLECTED.set(Some(switch_off(py)?));
    let _guard = SwitchOn(py);
    work()
}

/// Python's module `gc`, of the one interpreter that this module works in.
static GC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The functions of `gc`, for versions where the collector may run in the middle of an entry point.
struct Collector {
    is_enabled: Py<PyAny>,
    disable: Py<PyAny>,
    enable: Py<PyAny>,
}

static COLLECTOR: PyOnceLock<Option<Collector>> = PyOnceLock::new();

/// Stores the collector, if it must be switched off: from 3.12 on, it runs only between bytecodes. An ImportError in
/// a second interpreter of the process, which CPython itself refuses only since 3.12: objects would be shared.
pub(crate) fn prepare(py: Python<'_>, gc: &Bound<'_, PyAny>) -> PyResult<()> {
    if !GC.get_or_init(py, || gc.clone().unbind()).is(gc) {
        return Err(PyImportError::new_err(
            "dealkit works in one interpreter of a process, and another one has imported it",
        ));
    }
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

/// Keeps the garbage collector from running on this thread's allocations. Returns whether it was on.
fn switch_off(py: Python<'_>) -> PyResult<bool> {
    let Some(Some(collector)) = COLLECTOR.get(py) else {
        return Ok(false);
    };
    let is_on = collector.is_enabled.bind(py).call0()?.is_truthy()?;
    if is_on {
        collector.disable.bind(py).call0()?;
    }
    Ok(is_on)
}

/// Switches the collector on again, if this thread has switched it off. Returns whether it is inside [`uncollected`].
fn switch_on(py: Python<'_>) -> bool {
    let state = UNCOLLECTED.replace(None);
    if let (Some(true), Some(Some(collector))) = (state, COLLECTOR.get(py)) {
        // A C function that takes no arguments cannot fail.
        let _ = collector.enable.bind(py).call0();
    }
    state.is_some()
}

struct SwitchOn<'py>(Python<'py>);

impl Drop for SwitchOn<'_> {
    fn drop(&mut self) {
        switch_on(self.0);
    }
}

/// The thread that ends the interpreter, once it does: the main thread.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();

/// How much stack must be left, in bytes, and the size of a new stack that is made otherwise.
const ENOUGH_STACK: usize = 256 * 1024;
const NEW_STACK: usize = 2 * 1024 * 1024;

/// Does work that takes time, without the GIL.
///
/// A thread that the interpreter leaves behind (a daemon of the program) never returns from here: before 3.14, CPython
/// would end it here, with Rust frames below, so PyO3 makes it wait for the end of the process, as CPython itself has
/// done since.
pub(crate) fn release<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    // The collector is that of all threads, so it is switched off only while this one has the GIL.
    let is_uncollected = switch_on(py);
    let done = py.detach(|| with_stack(work));
    if is_uncollected {
        UNCOLLECTED.set(Some(switch_off(py).unwrap_or(false)));
    }
    done
}

/// Does not return on a thread that the interpreter leaves behind: what it asks for has ended, and an exception would
/// only be printed, with nobody to handle it.
pub(crate) fn end_if_left_behind(py: Python<'_>) {
    let current = thread::current().id();
    if ENDED_BY.get().is_some_and(|main| *main != current) {
        release(py, || {
            loop {
                thread::park();
            }
        })
    }
}

/// Runs with as much stack as the network needs, TLS included: Python threads can have very little, as they do by
/// default on Alpine.
pub(crate) fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH_STACK, NEW_STACK, work)
}

pub(crate) fn end() {
    // Set once: even after a fork while the interpreter ends, the thread is the same.
    let _ = ENDED_BY.set(thread::current().id());
}

/// Works with Python on the background thread, which ends before the interpreter does: only there may bytecode be
/// run. `None` if no interpreter is left.
pub(crate) fn attach_background<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    Python::try_attach(work)
}
