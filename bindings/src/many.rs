//! Many deals: retrieved on the thread in the background, a bounded number at a time, so that they come
//! in while the caller works on those it has.

use std::{
    collections::VecDeque,
    iter, process,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dealkit::Retrieved;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::AbortHandle,
};

use crate::{
    calls::{Options, text},
    errors,
    pending::{Inbox, Mailbox},
    response::{self, ReadAs},
    runtime,
};

/// How long a waiting caller is deaf to Ctrl-C at most.
const SLICE: Duration = Duration::from_millis(50);

type Item = Retrieved<dealkit::RawResponse>;

/// Deals on their way. The caller pushes identifiers, and never has more of them out than it wants to.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Many {
    ids: UnboundedSender<String>,
    shelf: Arc<Shelf>,
    task: AbortHandle,
    process: u32,
}

/// Where deals that have come wait for the caller.
struct Shelf {
    state: Mutex<State>,
    changed: Condvar,
    runtime: Handle,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// Whether no more will come.
    has_ended: bool,
    /// Who waits on an event loop.
    waiting: Option<(Arc<Inbox>, Py<PyAny>)>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let waiting = state.waiting.take();
        drop(state);
        self.changed.notify_all();
        if let Some((inbox, future)) = waiting {
            inbox.news(&self.runtime, future);
        }
    }
}

/// Says that no more will come, whatever the reason.
struct End(Arc<Shelf>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.change(|state| state.has_ended = true);
    }
}

impl Many {
    /// Begins, with nothing on its way.
    pub(crate) fn start(
        py: Python<'_>,
        client: &dealkit::Client,
        ordered: bool,
        options: Options,
    ) -> PyResult<Self> {
        let mut many = client
            .deals()
            .retrieve_many(iter::empty::<String>())
            .raw_responses();
        if !ordered {
            many = many.as_completed();
        }
        if let Some(timeout) = options.timeout {
            many = many.timeout(timeout);
        }
        if let Some(policy) = options.retry() {
            many = many.retry(policy);
        }
        let (_, retrievals) = many.into_parts();
        let runtime = runtime::background(py)?;
        let shelf = Arc::new(Shelf {
            state: Mutex::default(),
            changed: Condvar::new(),
            runtime: runtime.clone(),
        });
        let (ids, pushed) = mpsc::unbounded_channel();
        let task = runtime.spawn(retrieve(retrievals, pushed, End(Arc::clone(&shelf))));
        Ok(Self {
            ids,
            shelf,
            task: task.abort_handle(),
            process: process::id(),
        })
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        runtime::end_if_left_behind(py);
        if self.process == process::id() {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err(
                "these deals are on their way to another process, which this one was forked from",
            ))
        }
    }
}

/// Retrieves what is pushed, until nobody can push any more.
async fn retrieve(
    mut retrievals: dealkit::Retrievals<dealkit::RawResponse>,
    mut pushed: UnboundedReceiver<String>,
    end: End,
) {
    loop {
        tokio::select! {
            biased;
            id = pushed.recv() => match id {
                Some(id) => retrievals.push(id),
                None => break,
            },
            Some(item) = retrievals.next(), if !retrievals.is_empty() => {
                end.0.change(|state| state.items.push_back(item));
            }
        }
    }
}

#[pymethods]
impl Many {
    /// Adds an identifier to what is on its way; `index` is its place, for the error text.
    fn push(&self, id: &Bound<'_, PyAny>, index: usize) -> PyResult<()> {
        let py = id.py();
        self.check(py)?;
        let id = text(&format!("ids[{index}]"), id)?;
        self.ids
            .send(id)
            .map_err(|_| PyRuntimeError::new_err("no further deals can be retrieved here"))
    }

    /// The next deal that has come, as (index, id, deal or exception); None if none has.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<(usize, String, Bound<'py, PyAny>)>> {
        self.check(py)?;
        let mut state = self.shelf.lock();
        let Some(Retrieved {
            index, id, result, ..
        }) = state.items.pop_front()
        else {
            return if state.has_ended {
                Err(PyRuntimeError::new_err("no further deals will come"))
            } else {
                Ok(None)
            };
        };
        drop(state);
        let value = match result {
            Ok(answer) => match response::read(py, &answer, ReadAs::Deal) {
                Ok(deal) => deal,
                Err(error) => error.into_value(py).into_bound(py).into_any(),
            },
            Err(error) => errors::exception(py, &error)?,
        };
        Ok(Some((index, id, value)))
    }

    /// Waits until a deal has come, on the calling thread.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)?;
        loop {
            let has_come = py.detach(|| {
                let nothing = |state: &mut State| state.items.is_empty() && !state.has_ended;
                let state = self.shelf.lock();
                let waited = self.shelf.changed.wait_timeout_while(state, SLICE, nothing);
                let (state, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
                drop(state);
                !timed_out.timed_out()
            });
            if has_come {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    /// Resolves the future of the mailbox's event loop once a deal has come.
    fn tell(&self, mailbox: &Bound<'_, Mailbox>, future: Py<PyAny>) -> PyResult<()> {
        let py = mailbox.py();
        self.check(py)?;
        let inbox = Arc::clone(&mailbox.get().inner);
        let mut state = self.shelf.lock();
        if state.items.is_empty() && !state.has_ended {
            let forgotten = state.waiting.replace((inbox, future));
            drop(state);
            drop(forgotten);
        } else {
            drop(state);
            inbox.news(&self.shelf.runtime, future);
        }
        Ok(())
    }

    /// Cancels what is on its way.
    fn close(&self) {
        if self.process == process::id() {
            self.task.abort();
        }
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.close();
    }
}
