//! Calls that are awaited: each on the thread in the background, its outcome on the event loop.
//!
//! Outcomes are put into the event loop's mailbox. One wake-up of the loop empties it, however many
//! there are: waking the loop is what costs. Python hands the parcels over: a thread that ends with the
//! interpreter while Rust calls Python code takes the process with it.

use std::{
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use dealkit::Error;
use pyo3::{exceptions::PyRuntimeError, intern, prelude::*};
use tokio::{
    runtime::Handle,
    task::{AbortHandle, yield_now},
};

use crate::{
    errors,
    response::{self, RawResponse, ReadAs},
    runtime,
};

/// The mailbox of one event loop.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Mailbox {
    pub(crate) inner: Arc<Inbox>,
}

pub(crate) struct Inbox {
    /// A weak reference to the loop, which must not live on for its mailbox.
    event_loop: Py<PyAny>,
    /// What the loop is woken with: a function that empties the mailbox.
    deliver: Py<PyAny>,
    parcels: Mutex<Vec<(Py<PyAny>, Content)>>,
    /// Whether the loop will look into the mailbox without being woken once more.
    is_woken: AtomicBool,
}

/// Something for a future.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Parcel(Mutex<Content>);

enum Content {
    /// The outcome of a call.
    Outcome {
        outcome: Box<Result<dealkit::RawResponse, Error>>,
        read_as: ReadAs,
        raw: bool,
    },
    /// Something has happened; the one who waits knows where to look.
    News,
    /// The call came to no end.
    Lost,
}

#[pymethods]
impl Mailbox {
    /// The mailbox of the loop that the weak reference is to. `deliver` is called on the loop, with the
    /// mailbox, when something has come.
    #[new]
    fn new(event_loop: Py<PyAny>, deliver: Py<PyAny>) -> Self {
        Self {
            inner: Arc::new(Inbox {
                event_loop,
                deliver,
                parcels: Mutex::default(),
                is_woken: AtomicBool::new(false),
            }),
        }
    }

    /// Takes out what has come: futures, and a parcel for each.
    fn take(&self) -> Vec<(Py<PyAny>, Parcel)> {
        // Put down first: a parcel that comes from here on wakes the loop again.
        self.inner.is_woken.store(false, Ordering::Release);
        let parcels = std::mem::take(&mut *self.inner.lock());
        parcels
            .into_iter()
            .map(|(future, content)| (future, Parcel(Mutex::new(content))))
            .collect()
    }
}

#[pymethods]
impl Parcel {
    /// What is in it: a value, or an exception in its place. There is nothing in it afterwards.
    ///
    /// The exception is not raised here: its traceback would hold on to the future, and the future to it.
    fn open<'py>(&self, py: Python<'py>) -> (Option<Bound<'py, PyAny>>, Option<Py<PyAny>>) {
        match self.value(py) {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.into_value(py).into_any())),
        }
    }
}

impl Parcel {
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let content = std::mem::replace(&mut *content, Content::Lost);
        match content {
            Content::News => Ok(py.None().into_bound(py)),
            Content::Lost => Err(PyRuntimeError::new_err(
                "the call came to no end: this is a bug in dealkit, please report it",
            )),
            Content::Outcome {
                outcome,
                read_as,
                raw,
            } => match *outcome {
                Ok(answer) if raw => {
                    Ok(Bound::new(py, RawResponse::new(answer, read_as))?.into_any())
                }
                Ok(answer) => response::read(py, &answer, read_as),
                Err(error) => Err(errors::to_python(py, &error)),
            },
        }
    }
}

impl Inbox {
    fn put(self: &Arc<Self>, runtime: &Handle, future: Py<PyAny>, content: Content) {
        self.lock().push((future, content));
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            let inbox = Arc::clone(self);
            runtime.spawn(async move {
                // Whatever else has come by now goes along.
                yield_now().await;
                inbox.wake();
            });
        }
    }

    /// Says that something has happened.
    pub(crate) fn news(self: &Arc<Self>, runtime: &Handle, future: Py<PyAny>) {
        self.put(runtime, future, Content::News);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Py<PyAny>, Content)>> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(self: &Arc<Self>) {
        // An interpreter that is ending has no loop that could be woken.
        let woken = Python::try_attach(|py| {
            let event_loop = self.event_loop.bind(py).call0()?;
            let inner = Arc::clone(self);
            event_loop.call_method1(
                intern!(py, "call_soon_threadsafe"),
                (&self.deliver, Mailbox { inner }),
            )?;
            PyResult::Ok(())
        });
        if !matches!(woken, Some(Ok(()))) {
            // The loop is closed or gone, and so is everybody who waited on it.
            let undeliverable = std::mem::take(&mut *self.lock());
            drop(undeliverable);
            self.is_woken.store(false, Ordering::Release);
        }
    }
}

/// A call that is under way.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Pending {
    task: AbortHandle,
    process: u32,
}

impl Pending {
    /// Begins a call on the thread in the background.
    pub(crate) fn start(
        py: Python<'_>,
        call: dealkit::Call<dealkit::RawResponse>,
        read_as: ReadAs,
        raw: bool,
        inbox: Arc<Inbox>,
        future: Py<PyAny>,
    ) -> PyResult<Self> {
        let runtime = runtime::background(py)?;
        let mut promise = Promise {
            runtime: runtime.clone(),
            inbox,
            future: Some(future),
        };
        let task = runtime.spawn(async move {
            let outcome = Box::new(call.send().await);
            promise.keep(Content::Outcome {
                outcome,
                read_as,
                raw,
            });
        });
        Ok(Self {
            task: task.abort_handle(),
            process: process::id(),
        })
    }
}

#[pymethods]
impl Pending {
    /// Aborts the call, if it is still under way.
    fn abort(&self) {
        // A call of the parent's is not the child's to abort.
        if self.process == process::id() {
            self.task.abort();
        }
    }
}

/// That a future gets its parcel, whatever happens.
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
        // Aborted, which its future knows, or a panic, of which it must hear.
        self.keep(Content::Lost);
    }
}
