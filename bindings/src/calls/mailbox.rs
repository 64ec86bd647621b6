//! What resolves the futures of an event loop, once what they wait for has come.
//!
//! One wake-up of the loop empties its mailbox, however many futures there are: waking the loop is the expensive part. A
//! future stays in the mailbox until Python code has resolved it: a signal handler may run between any two of its steps, and
//! may raise.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pyo3::{intern, prelude::*};
use tokio::{runtime::Handle, task::yield_now, time::sleep};

use crate::python::{
    failure::{Returned, entry},
    gil,
};

/// How long a delivery may make no progress before the loop is woken again, at first and at most.
const PATIENCE: Duration = Duration::from_millis(100);
const LONGEST_PATIENCE: Duration = Duration::from_secs(5);

#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Mailbox {
    pub(crate) inner: Arc<Inbox>,
}

pub(crate) struct Inbox {
    /// A weak reference to the loop, which its mailbox must not keep alive.
    event_loop: Py<PyAny>,
    /// The function that the loop is woken with, which empties the mailbox.
    deliver: Py<PyAny>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    futures: VecDeque<Py<PyAny>>,
    /// Whether the loop is working on the mailbox, or will be: it need not be woken for the next future.
    is_awake: bool,
    delivered: u64,
    /// Whether a task makes sure that a delivery ends.
    is_watched: bool,
}

/// Opens the mailbox of the loop that the weak reference refers to. `deliver` is called on the loop, with the
/// mailbox, when something has come.
#[pyfunction]
pub(crate) fn open_mailbox(
    py: Python<'_>,
    event_loop: Py<PyAny>,
    deliver: Py<PyAny>,
) -> Returned<'_> {
    entry(py, || {
        Ok(Mailbox {
            inner: Arc::new(Inbox {
                event_loop,
                deliver,
                state: Mutex::default(),
            }),
        })
    })
}

#[pymethods]
impl Mailbox {
    /// The first future, which stays in the mailbox. None if the mailbox is empty, which ends the delivery.
    fn first(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let mut state = self.inner.lock();
        let first = state.futures.front().map(|future| future.clone_ref(py));
        state.is_awake = first.is_some();
        first
    }

    /// Takes out the first future, which has been resolved, and returns the next one. The future is destroyed by the
    /// caller, in Python code.
    fn next(&self, future: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let mut state = self.inner.lock();
        if state.futures.front().is_some_and(|first| first.is(future)) {
            state.delivered += 1;
            // The caller also holds the future, so it is not destroyed here.
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
                // Whatever else has come by now is delivered along with it.
                yield_now().await;
                inbox.wake();
            });
        }
        if !std::mem::replace(&mut state.is_watched, true) {
            runtime.spawn(Arc::clone(self).watch());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(self: &Arc<Self>) {
        // An interpreter that is ending has no loop to wake.
        let woken = gil::attach_background(|py| {
            if self.call_soon(py).is_ok() {
                return;
            }
            // The loop is closed or gone, and so are all its waiters.
            let mut state = self.lock();
            state.is_awake = false;
            let undeliverable = std::mem::take(&mut state.futures);
            drop(state);
            drop(undeliverable);
        });
        if woken.is_none() {
            self.lock().is_awake = false;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "on the thread in the background")]
    fn call_soon(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let event_loop = self.event_loop.bind(py).call0()?;
        let inner = Arc::clone(self);
        event_loop.call_method1(
            intern!(py, "call_soon_threadsafe"),
            (&self.deliver, Mailbox { inner }),
        )?;
        Ok(())
    }

    /// Wakes the loop again if futures are not resolved: a delivery may have failed at any of its steps, even the
    /// first. A loop that is merely busy is woken less and less often.
    async fn watch(self: Arc<Self>) {
        let mut patience = PATIENCE;
        let mut delivered_before = self.lock().delivered;
        loop {
            sleep(patience).await;
            let mut state = self.lock();
            if state.futures.is_empty() {
                state.is_watched = false;
                return;
            }
            if delivered_before == state.delivered {
                patience = (patience * 2).min(LONGEST_PATIENCE);
                drop(state);
                self.wake();
            } else {
                patience = PATIENCE;
                delivered_before = state.delivered;
            }
        }
    }
}
