//! Many deals: retrieved on the thread in the background, a bounded number at a time, so that they come
//! in while the caller works on those it has.

use std::{
    collections::VecDeque,
    future::ready,
    iter, process,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use dealkit::Retrieved;
use pyo3::{prelude::*, types::PyList};
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
    runtime::{self, SIGNAL_POLL_INTERVAL},
    watch::{Told, Watch},
};

type Item = Retrieved<dealkit::RawResponse>;

/// How many bytes of bodies are read in one go, or one body if it has more: signals are not looked after meanwhile.
const READ_AT_ONCE: usize = 256 * 1024;

/// Deals in flight. The caller pushes identifiers, and never has more of them out than it wants to.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Many {
    ids: UnboundedSender<Vec<(String, Told)>>,
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
    /// How many threads wait.
    threads: usize,
    /// Who waits on an event loop.
    waiting: Vec<(Arc<Inbox>, Py<PyAny>)>,
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody who waits that something has come, or that nothing will.
    fn tell(&self) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.waiting);
        let threads = state.threads;
        drop(state);
        if threads > 0 {
            self.changed.notify_all();
        }
        for (inbox, future) in waiting {
            inbox.news(&self.runtime, future);
        }
    }

    /// Waits a little, unless something has come or nothing will.
    fn wait(&self) {
        let nothing = |state: &mut State| state.items.is_empty() && !state.has_ended;
        let mut state = self.lock();
        state.threads += 1;
        let waited = self
            .changed
            .wait_timeout_while(state, SIGNAL_POLL_INTERVAL, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.threads -= 1;
    }
}

/// Says that no more will come, whatever the reason.
struct End(Arc<Buffer>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.tell();
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

    /// Those that have come, at most so many that reading them takes but a moment.
    fn taken(&self) -> Outcome<Vec<Item>> {
        self.check()?;
        let mut state = self.buffer.lock();
        let mut bytes = 0;
        let count = state.items.iter().take_while(|item| {
            let is_room = bytes < READ_AT_ONCE;
            bytes += item
                .result
                .as_ref()
                .map_or(0, |response| response.body().len());
            is_room
        });
        let count = count.count();
        if count == 0 && state.has_ended {
            return Err(Failure::Runtime("no further deals will come".to_owned()));
        }
        Ok(state.items.drain(..count).collect())
    }
}

/// Retrieves what is pushed, until nobody can push any more.
async fn retrieve(
    mut retrievals: dealkit::InFlight<dealkit::RawResponse>,
    mut pushed: UnboundedReceiver<Vec<(String, Told)>>,
    end: End,
) {
    let buffer = &end.0;
    let mut has_news = false;
    loop {
        tokio::select! {
            biased;
            ids = pushed.recv() => match ids {
                Some(ids) => for (id, told) in ids {
                    retrievals.push_with(id, |call| told.send(call));
                },
                None => break,
            },
            Some(item) = retrievals.next(), if !retrievals.is_empty() => {
                buffer.lock().items.push_back(item);
                has_news = true;
            }
            // Told of all at once: waking somebody costs more than a deal does.
            () = ready(()), if has_news => {
                buffer.tell();
                has_news = false;
            }
        }
    }
}

#[pymethods]
impl Many {
    /// Adds identifiers to what is in flight, each with its Watch or None; `index` is the place of the first, for
    /// the error text. Where one is of the wrong type, none of them is.
    fn push<'py>(&self, ids: &Bound<'py, PyList>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = ids.py();
        gil::end_if_left_behind(py);
        entry(py, || {
            self.check()?;
            let ids = ids.iter().zip(index..).map(|(pair, index)| {
                let (id, watch) = pair.extract::<(Bound<'_, PyAny>, Option<Bound<'_, Watch>>)>()?;
                let id = text(format_args!("ids[{index}]"), &id)?;
                Ok((id, Watch::told(watch.as_ref())))
            });
            self.ids
                .send(ids.collect::<Outcome<_>>()?)
                .map_err(|_| Failure::Runtime("no further deals can be retrieved here".to_owned()))
        })
    }

    /// Deals that have come, each as (index, id, deal or failure).
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        gil::end_if_left_behind(py);
        entry(py, || {
            let taken = PyList::empty(py);
            for item in self.taken()? {
                let Retrieved {
                    index, id, result, ..
                } = item;
                let result = result.map_err(Arc::new);
                let deal = response::result(py, &result, ReadAs::Deal, self.raw);
                taken.append((index, id, into_python(py, deal)?))?;
            }
            Ok(taken)
        })
    }

    /// Waits a little for a deal, on the calling thread.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let checked = self.check();
        if checked.is_ok() {
            gil::release(py, || self.buffer.wait());
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
