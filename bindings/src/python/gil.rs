//! The rule for all native code, and the only module that may release the GIL.
//!
//! **Native code runs no Python bytecode, and releases the GIL only in [`release`].**
//!
//! The reason: before Python 3.14, once the interpreter is shutting down, CPython ends each daemon thread at the point where the
//! thread next asks for the GIL. If there are Rust frames on the thread's stack, that aborts the process. A thread may ask for
//! the GIL wherever it runs bytecode. An entry point (a function that Python calls) therefore follows three steps, see
//! [`run_entry`](crate::python::failure::run_entry):
//!
//! 1. It takes objects of built-in types, which Python code has checked and converted.
//! 2. It calls only C code on them.
//! 3. It returns data from which Python code raises an exception, builds an object or writes a log.
//!
//! Before Python 3.12, the garbage collector can run wherever a container is made, and it runs finalisers written in Python.
//! [`without_gc`] therefore disables it during an entry point.
//!
//! Three checks enforce the rule. Clippy rejects every other way into Python (`clippy.toml`), `tests/test_entries.py` traces
//! each entry point of the module, and `tests/test_exit.py` ends the interpreter during each of them.

#![allow(
    clippy::disallowed_methods,
    reason = "this module implements the exceptions to the rule"
)]

use std::{
    cell::Cell,
    sync::OnceLock,
    thread::{self, ThreadId},
};

use pyo3::{exceptions::PyImportError, prelude::*, sync::PyOnceLock};

thread_local! {
    /// `Some` during [`without_gc`]: true if this thread has disabled the collector, false if it was disabled before.
    static GC_STATE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Runs `work`, which makes Python objects, with the garbage collector disabled.
pub(crate) fn without_gc<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if GC_STATE.get().is_some() {
        return work();
    }
    GC_STATE.set(Some(disable_gc(py)?));
    let _guard = EnableGcGuard(py);
    work()
}

/// Python's module `gc`, which identifies the interpreter that has imported dealkit.
static GC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Functions of the module `gc`.
struct Collector {
    is_enabled: Py<PyAny>,
    disable: Py<PyAny>,
    enable: Py<PyAny>,
}

/// `None` from 3.12 on, where the collector runs only between bytecodes and need not be disabled.
static COLLECTOR: PyOnceLock<Option<Collector>> = PyOnceLock::new();

/// Stores the module `gc`.
///
/// Raises ImportError in a second interpreter of the process, because the two interpreters would share objects. CPython itself
/// rejects such an import only since 3.12.
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

/// Disables the garbage collector. Returns whether it was enabled.
fn disable_gc(py: Python<'_>) -> PyResult<bool> {
    let Some(Some(collector)) = COLLECTOR.get(py) else {
        return Ok(false);
    };
    let was_enabled = collector.is_enabled.bind(py).call0()?.is_truthy()?;
    if was_enabled {
        collector.disable.bind(py).call0()?;
    }
    Ok(was_enabled)
}

/// Enables the collector again, if this thread has disabled it. Returns whether this thread is inside [`without_gc`].
fn enable_gc(py: Python<'_>) -> bool {
    let state = GC_STATE.replace(None);
    if let (Some(true), Some(Some(collector))) = (state, COLLECTOR.get(py)) {
        // `gc.enable` takes no arguments and never raises.
        let _ = collector.enable.bind(py).call0();
    }
    state.is_some()
}

/// Enables the collector again when it is dropped.
struct EnableGcGuard<'py>(Python<'py>);

impl Drop for EnableGcGuard<'_> {
    fn drop(&mut self) {
        enable_gc(self.0);
    }
}

/// The main thread, once it has begun to shut down the interpreter.
static FINALIZING_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// Stack size in bytes that network code needs, TLS included.
const MIN_STACK: usize = 256 * 1024;
/// Size of the stack that is allocated if the thread has less than [`MIN_STACK`] left.
const NEW_STACK: usize = 2 * 1024 * 1024;

/// Releases the GIL and runs `work`, which may take time.
///
/// Never returns on a daemon thread that outlives the interpreter. Before 3.14, CPython would end such a thread here, with
/// Rust frames on its stack. PyO3 therefore parks the thread until the process ends, as CPython does since 3.14.
pub(crate) fn release<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    // All threads share the collector. This thread may therefore disable it only while it holds the GIL.
    let was_without_gc = enable_gc(py);
    let result = py.detach(|| with_enough_stack(work));
    if was_without_gc {
        GC_STATE.set(Some(disable_gc(py).unwrap_or(false)));
    }
    result
}

/// Parks the current thread forever if another thread has begun to shut down the interpreter: Python would only print this
/// thread's exception, because no code is left to handle it.
pub(crate) fn park_if_finalizing(py: Python<'_>) {
    let current = thread::current().id();
    if FINALIZING_THREAD.get().is_some_and(|main| *main != current) {
        release(py, || {
            loop {
                thread::park();
            }
        })
    }
}

/// Runs `work` on a new stack if the thread's own is too small. Python's threads can have very small stacks: on Alpine, that is
/// the default.
pub(crate) fn with_enough_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(MIN_STACK, NEW_STACK, work)
}

/// Records that the current thread has begun to shut down the interpreter.
pub(crate) fn mark_finalizing() {
    // A second call, in a process forked during shutdown, comes from the same thread.
    let _ = FINALIZING_THREAD.set(thread::current().id());
}

/// Takes the GIL on a background thread and runs `work`. Returns `None` if the interpreter has ended.
///
/// Only `work` may run bytecode: background threads are joined before the interpreter ends.
pub(crate) fn attach_background<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    Python::try_attach(work)
}
