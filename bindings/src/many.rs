//! Many deals: retrieved on the thread in the background, a bounded number at a time, so that they come
//! in while the caller works on those it has.

use std::{
    collections::VecDeque,
    iter, process,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use dealkit::Retrieved;
use pyo3::prelude::*;
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::AbortHandle,
};

use crate::{
    arguments::text,
    calls::Options,
    failure::{Failure, Outcome, entry, into_python},
    gil,
    pending::{Inbox, Mailbox},
    response::{self, ReadAs},
    runtime,
    waiting::SIGNAL_POLL_INTERVAL,
    watch::{Told, Watch},
};

type Item = Retrieved<dealkit::RawResponse>;

/// Deals in flight. The caller pushes identifiers, and never has more of them out than it wants to.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Many {
    ids: UnboundedSender<(String, Told)>,
    buffer: Arc<Buffer>,
    task: AbortHandle,
    process: u32,
    raw: bool,
}

/// Where deals that have come wait for the caller.
struct Buffer {
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
    waiting: Vec<(Arc<Inbox>, Py<PyAny>)>,
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        for (inbox, future) in waiting {
            inbox.news(&self.runtime, future);
        }
    }
}

/// Says that no more will come, whatever the reason.
struct End(Arc<Buffer>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.change(|state| state.has_ended = true);
    }
}

impl Many {
    /// Begins, with nothing in flight.
    pub(crate) fn start(
        client: &dealkit::Client,
        ordered: bool,
        options: Option<&Options>,
        raw: bool,
    ) -> Outcome<Self> {
        let mut many = client
            .deals()
            .retrieve_many(iter::empty::<String>())
            .raw_responses();
        if !ordered {
            many = many.as_completed();
        }
        if let Some(options) = options {
            many = options.on_many(many);
        }
        let (_, retrievals) = many.into_parts();
        let runtime = runtime::background()?;
        let buffer = Arc::new(Buffer {
            state: Mutex::default(),
            changed: Condvar::new(),
            runtime: runtime.clone(),
        });
        let (ids, pushed) = mpsc::unbounded_channel();
        let task = runtime.spawn(retrieve(retrievals, pushed, End(Arc::clone(&buffer))));
        Ok(Self {
            ids,
            buffer,
            task: task.abort_handle(),
            process: process::id(),
            raw,
        })
    }

    fn check(&self) -> Outcome<()> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Failure::Runtime(
                "these deals are in flight to another process, which this one was forked from"
                    .to_owned(),
            ))
        }
    }

    fn next(&self) -> Outcome<Option<Item>> {
        self.check()?;
        let mut state = self.buffer.lock();
        match state.items.pop_front() {
            None if state.has_ended => {
                Err(Failure::Runtime("no further deals will come".to_owned()))
            }
            item => Ok(item),
        }
    }
}

/// Retrieves what is pushed, until nobody can push any more.
async fn retrieve(
    mut retrievals: dealkit::InFlight<dealkit::RawResponse>,
    mut pushed: UnboundedReceiver<(String, Told)>,
    end: End,
) {
    loop {
        tokio::select! {
            biased;
            id = pushed.recv() => match id {
                Some((id, told)) => retrievals.push_with(id, |call| told.send(call)),
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
    /// Adds an identifier to what is in flight; `index` is its place, for the error text.
    fn push<'py>(
        &self,
        id: &Bound<'py, PyAny>,
        index: usize,
        watch: Option<&Bound<'py, Watch>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        gil::end_if_left_behind(id.py());
        entry(id.py(), || {
            self.check()?;
            let id = text(&format!("ids[{index}]"), id)?;
            self.ids
                .send((id, Watch::told(watch)))
                .map_err(|_| Failure::Runtime("no further deals can be retrieved here".to_owned()))
        })
    }

    /// The next deal that has come, as (index, id, deal or failure); None if none has.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        gil::end_if_left_behind(py);
        entry(py, || {
            let Some(Retrieved {
                index, id, result, ..
            }) = self.next()?
            else {
                return Ok(None);
            };
            let result = result.map_err(Arc::new);
            let deal = response::result(py, &result, ReadAs::Deal, self.raw);
            Ok(Some((index, id, into_python(py, deal)?)))
        })
    }

    /// Waits a little for a deal, on the calling thread.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let checked = self.check();
        if checked.is_ok() {
            gil::release(py, || {
                let nothing = |state: &mut State| state.items.is_empty() && !state.has_ended;
                let state = self.buffer.lock();
                let waited =
                    self.buffer
                        .changed
                        .wait_timeout_while(state, SIGNAL_POLL_INTERVAL, nothing);
                drop(waited);
            });
        }
        entry(py, || checked)
    }

    /// Resolves the future of the mailbox's event loop once a deal has come.
    fn tell<'py>(
        &self,
        mailbox: &Bound<'py, Mailbox>,
        future: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = mailbox.py();
        gil::end_if_left_behind(py);
        entry(py, || {
            self.check()?;
            let inbox = Arc::clone(&mailbox.get().inner);
            let mut state = self.buffer.lock();
            if state.items.is_empty() && !state.has_ended {
                state.waiting.push((inbox, future));
            } else {
                drop(state);
                inbox.news(&self.buffer.runtime, future);
            }
            Ok(())
        })
    }

    /// Cancels what is in flight.
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
