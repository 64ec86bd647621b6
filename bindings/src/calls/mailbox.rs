//! Mailboxes: queues of asyncio futures that an event loop must resolve. A future is added when the event that it waits for has
//! occurred.
//!
//! Waking an event loop is expensive: one wake-up empties the whole mailbox. A signal handler may run between any two bytecodes of
//! Python code, and may raise. A future therefore stays in the mailbox until Python code has resolved it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pyo3::{intern, prelude::*};
use tokio::{runtime::Handle, task::yield_now, time::sleep};

use crate::python::{
    failure::{EntryResult, run_entry},
    gil,
};

/// First delay after which an event loop that has resolved no futures is woken again.
const FIRST_REWAKE_DELAY: Duration = Duration::from_millis(100);
/// Maximum of that delay, which doubles at each wake-up that resolves no futures.
const MAX_REWAKE_DELAY: Duration = Duration::from_secs(5);

/// The mailbox of one event loop.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Mailbox {
    pub(crate) inbox: Arc<Inbox>,
}

/// The part of a mailbox that threads without the GIL use.
pub(crate) struct Inbox {
    /// A weak reference, so that the mailbox does not keep its event loop alive.
    event_loop: Py<PyAny>,
    /// The function that empties the mailbox, called on the event loop.
    deliver: Py<PyAny>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    futures: VecDeque<Py<PyAny>>,
    /// True if the loop is emptying the mailbox, or has been woken to do so.
    is_awake: bool,
    /// Number of futures that the loop has resolved.
    resolved_count: u64,
    /// True if the task [`rewake_until_empty`](Inbox::rewake_until_empty) is running.
    has_rewake_task: bool,
}

/// Opens the mailbox of an event loop, given as a weak reference. The loop calls `deliver` with the mailbox when there are
/// futures to resolve.
#[pyfunction]
pub(crate) fn open_mailbox(
    py: Python<'_>,
    event_loop: Py<PyAny>,
    deliver: Py<PyAny>,
) -> EntryResult<'_> {
    run_entry(py, || {
        Ok(Mailbox {
            inbox: Arc::new(Inbox {
                event_loop,
                deliver,
                state: Mutex::default(),
            }),
        })
    })
}

#[pymethods]
impl Mailbox {
    /// Returns the first future, which stays in the mailbox. None if the mailbox is empty: the loop must then stop.
    fn first(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let mut state = self.inbox.lock();
        let first = state.futures.front().map(|future| future.clone_ref(py));
        state.is_awake = first.is_some();
        first
    }

    /// Removes the first future, which the caller has resolved, and returns the next one.
    fn next(&self, future: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let mut state = self.inbox.lock();
        if state.futures.front().is_some_and(|first| first.is(future)) {
            state.resolved_count += 1;
            // The future's destructor, which may run bytecode, does not run here, because the caller also has a reference.
            state.futures.pop_front();
        }
        drop(state);
        self.first(future.py())
    }
}

impl Inbox {
    pub(crate) fn put(self: &Arc<Self>, runtime: &Handle, future: Py<PyAny>) {
        let mut state = self.lock();
        state.futures.push_back(future);
        if !std::mem::replace(&mut state.is_awake, true) {
            let inbox = Arc::clone(self);
            runtime.spawn(async move {
                // Yields, so that further futures can be added before the event loop wakes.
                yield_now().await;
                inbox.wake();
            });
        }
        if !std::mem::replace(&mut state.has_rewake_task, true) {
            runtime.spawn(Arc::clone(self).rewake_until_empty());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(self: &Arc<Self>) {
        let attach_result = gil::attach_background(|py| {
            if self.call_soon(py).is_ok() {
                return;
            }
            // The event loop is closed or has been freed. No task awaits these futures any more.
            let mut state = self.lock();
            state.is_awake = false;
            let undeliverable = std::mem::take(&mut state.futures);
            drop(state);
            drop(undeliverable);
        });
        // The interpreter has ended, and its event loops with it.
        if attach_result.is_none() {
            self.lock().is_awake = false;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "on a background thread")]
    fn call_soon(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let event_loop = self.event_loop.bind(py).call0()?;
        let inbox = Arc::clone(self);
        event_loop.call_method1(
            intern!(py, "call_soon_threadsafe"),
            (&self.deliver, Mailbox { inbox }),
        )?;
        Ok(())
    }

    /// Wakes the loop again while it resolves no futures: a signal handler may have interrupted `deliver`. The intervals grow,
    /// because the loop may also be busy.
    async fn rewake_until_empty(self: Arc<Self>) {
        let mut delay = FIRST_REWAKE_DELAY;
        let mut count_before = self.lock().resolved_count;
        loop {
            sleep(delay).await;
            let mut state = self.lock();
            if state.futures.is_empty() {
                state.has_rewake_task = false;
                return;
            }
            if count_before == state.resolved_count {
                delay = (delay * 2).min(MAX_REWAKE_DELAY);
                drop(state);
                self.wake();
            } else {
                delay = FIRST_REWAKE_DELAY;
                count_before = state.resolved_count;
            }
        }
    }
}
