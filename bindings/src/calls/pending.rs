//! Calls that are awaited: each runs on the background thread, and its outcome is delivered on the event loop.
//!
//! Outcomes are put into the event loop's mailbox. One wake-up of the loop empties it, however many there are: waking
//! the loop is the expensive part. A parcel stays in the mailbox until Python code has handed it over: a signal
//! handler may run between any two of its steps, and may raise.

use std::{
    collections::VecDeque,
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{AbortHandle, abortable};
use pyo3::{intern, prelude::*};
use tokio::{runtime::Handle, task::yield_now, time::sleep};

use crate::{
    calls::{runtime, watch::SentCall},
    models::response::{self, CallResult, ReadAs},
    python::{
        failure::{Failure, Outcome, entry},
        gil,
    },
};

/// How long a delivery may make no progress before the loop is woken again, at first and at most.
const PATIENCE: Duration = Duration::from_millis(100);
const LONGEST_PATIENCE: Duration = Duration::from_secs(5);

/// The mailbox of one event loop.
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
    parcels: VecDeque<(Py<PyAny>, Arc<Content>)>,
    /// Whether the loop is working on the mailbox, or will be: it need not be woken for the next parcel.
    is_awake: bool,
    /// How many parcels have been handed over in total.
    delivered: u64,
    /// Whether a task makes sure that a delivery ends.
    is_watched: bool,
}

/// The content of a parcel for its future.
enum Content {
    /// The outcome of a call.
    Outcome {
        result: Box<CallResult>,
        read_as: ReadAs,
        raw: bool,
    },
    /// Something has happened; the waiter knows where to look.
    News,
    /// The call never ended.
    Lost,
}

/// Opens the mailbox of the loop that the weak reference refers to. `deliver` is called on the loop, with the
/// mailbox, when something has come.
#[pyfunction]
pub(crate) fn open_mailbox(
    py: Python<'_>,
    event_loop: Py<PyAny>,
    deliver: Py<PyAny>,
) -> PyResult<Bound<'_, PyAny>> {
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
    /// The first future, and what there is for it: a value, or a failure. Both stay in the mailbox. None if the
    /// mailbox is empty, which ends the delivery.
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.inner.lock();
        let Some((future, content)) = state.parcels.front() else {
            state.is_awake = false;
            return Ok(py.None().into_bound(py));
        };
        let (future, content) = (future.clone_ref(py), Arc::clone(content));
        drop(state);
        let outcome = content.open(py)?;
        entry(py, || Ok((future, outcome)))
    }

    /// Takes out the first future, which has been served, and returns the next one as `first` does. The future is
    /// destroyed by the caller, in Python code.
    fn next<'py>(&self, future: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.inner.lock();
        let is_first = |(first, _): &(Py<PyAny>, _)| first.is(future);
        if state.parcels.front().is_some_and(is_first) {
            state.delivered += 1;
            // The caller also holds the future, so it is not destroyed here.
            state.parcels.pop_front();
        }
        drop(state);
        self.first(future.py())
    }
}

impl Content {
    fn open<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || match self {
            Content::News => Ok(py.None().into_bound(py)),
            Content::Lost => Err(Failure::Runtime(
                "the call never ended: this is a bug in dealkit, please report it".to_owned(),
            )),
            Content::Outcome {
                result,
                read_as,
                raw,
            } => response::result(py, result, *read_as, *raw),
        })
    }
}

impl Inbox {
    fn put(self: &Arc<Self>, runtime: &Handle, future: Py<PyAny>, content: Content) {
        let mut state = self.lock();
        state.parcels.push_back((future, Arc::new(content)));
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

    /// Reports that something has happened.
    pub(crate) fn news(self: &Arc<Self>, runtime: &Handle, future: Py<PyAny>) {
        self.put(runtime, future, Content::News);
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
            let undeliverable = std::mem::take(&mut state.parcels);
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

    /// Wakes the loop again if parcels are not handed over: a delivery may have failed at any of its steps, even the
    /// first. A loop that is merely busy is woken less and less often.
    async fn watch(self: Arc<Self>) {
        let mut patience = PATIENCE;
        let mut delivered_before = self.lock().delivered;
        loop {
            sleep(patience).await;
            let mut state = self.lock();
            if state.parcels.is_empty() {
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

/// A call in flight on the background thread.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Pending {
    call: AbortHandle,
    process: u32,
}

impl Pending {
    /// Begins a call on the background thread.
    pub(crate) fn start(
        sent: SentCall,
        read_as: ReadAs,
        raw: bool,
        inbox: Arc<Inbox>,
        future: Py<PyAny>,
    ) -> Outcome<Self> {
        let (sent, call) = abortable(sent);
        runtime::spawn(|runtime| {
            let mut promise = Promise {
                runtime,
                inbox,
                future: Some(future),
            };
            Box::pin(async move {
                // If it was aborted, the promise is dropped without a result.
                if let Ok(result) = sent.await {
                    promise.keep(Content::Outcome {
                        result: Box::new(result.map_err(Arc::new)),
                        read_as,
                        raw,
                    });
                }
            })
        })?;
        Ok(Self {
            call,
            process: process::id(),
        })
    }
}

#[pymethods]
impl Pending {
    /// Aborts the call, if it is still in flight.
    fn abort(&self) {
        // After a fork, the child must not abort a call of the parent.
        if self.process == process::id() {
            self.call.abort();
        }
    }
}

/// Guarantees that a future gets its parcel, whatever happens.
struct Promise {
    runtime: Handle,
    inbox: Arc<Inbox>,
    future: Option<Py<PyAny>>,
}

impl Promise {
    fn keep(&mut self, content: Content) {
        if let Some(future) = self.future.take() {
            self.inbox.put(&self.runtime, future, content);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        // Either the call was aborted, which its future knows, or it panicked, which the future must learn.
        self.keep(Content::Lost);
    }
}
