//! Many calls: made on the background thread, a bounded number at a time, so that results come in while the caller
//! works on those it has.
//!
//! No result of a create may be lost, wherever a Python signal handler raises: results that have come are appended to
//! a list of the caller's, inputs that were pushed are counted, and creates that are given up yield results like the
//! rest.

use std::{
    collections::VecDeque,
    future::{poll_fn, ready},
    iter, process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
};

use bytes::Bytes;
use dealkit::{
    Bulk, CreateRow, Creation, Error, InFlight, LedgerError, RawResponse, Retrieved,
    ValidationError, Violation, ViolationCode, Work, ledger::Ledger,
};
use pyo3::{prelude::*, types::PyList};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::AbortHandle,
};

use crate::{
    calls::{
        awaited::Awaited,
        call::{Call, Options},
        pending::Mailbox,
        runtime,
        watch::{Observer, Watch},
    },
    models::response::{self, CallResult, ReadAs},
    python::{
        arguments::text,
        failure::{Failure, Outcome, entry, into_python},
        gil,
    },
};

/// How many bytes of bodies are read in one go, or one body if it has more: signals are not checked in the meantime.
const READ_AT_ONCE: usize = 256 * 1024;

/// Calls in flight. The caller pushes the inputs, and never has more of them in flight than it wants.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Many {
    /// `None` once the calls in flight were given up.
    inputs: Mutex<Option<Inputs>>,
    /// How many were pushed in total.
    pushed: AtomicUsize,
    /// How many of them have not been taken.
    in_flight: AtomicUsize,
    buffer: Arc<Buffer>,
    task: AbortHandle,
    process: u32,
    read_as: ReadAs,
    raw: bool,
    job: dealkit::Job,
}

/// The channel to the background thread.
enum Inputs {
    Ids(Way<String>),
    Rows(Way<CreateRow>),
}

/// The path of a ledger, the name of its keys, and whether unknown rows are sent again.
pub(crate) type LedgerOptions = (String, Option<String>, bool);

type Way<T> = UnboundedSender<Vec<(T, Observer)>>;

/// The result of a call.
struct Item {
    index: usize,
    /// The identifier that was requested, or the key of the row.
    id: Option<String>,
    result: CallResult,
    record: Option<Record>,
}

/// What the ledger says about it.
struct Record {
    /// Whether it is the result of an earlier run.
    is_earlier: bool,
    agent_id: Option<String>,
    /// Why the ledger does not have it.
    error: Option<LedgerError>,
}

impl From<Retrieved<RawResponse>> for Item {
    fn from(retrieved: Retrieved<RawResponse>) -> Self {
        Self {
            index: retrieved.index,
            id: Some(retrieved.id),
            result: retrieved.result.map_err(Arc::new),
            record: None,
        }
    }
}

impl From<Creation<RawResponse>> for Item {
    fn from(creation: Creation<RawResponse>) -> Self {
        let agent_id = creation.recorded_agent_id().map(ToString::to_string);
        let has_record = creation.recorded || creation.ledger_error.is_some();
        Self {
            index: creation.index,
            id: creation.key,
            result: creation.result.map_err(Arc::new),
            record: has_record.then_some(Record {
                is_earlier: creation.recorded,
                agent_id,
                error: creation.ledger_error,
            }),
        }
    }
}

type RecordParts<'py> = (bool, Option<String>, Option<Bound<'py, PyAny>>);

impl Record {
    fn into_python(self, py: Python<'_>) -> PyResult<RecordParts<'_>> {
        let failure = self
            .error
            .map(|error| into_python::<()>(py, Err(error.into())));
        Ok((self.is_earlier, self.agent_id, failure.transpose()?))
    }
}

/// Where results wait for the caller.
struct Buffer {
    /// Notified when a result has come, or there is more room, or no more will come.
    state: Awaited<State>,
    job: dealkit::Job,
    /// Whether the calls in flight are being given up: nothing more may be sent.
    is_given_up: AtomicBool,
}

impl Buffer {
    /// Whether Python code has nothing to do: no result has come, and there is no more room than it knows.
    fn is_quiet(&self, state: &State) -> bool {
        state.items.is_empty() && !state.has_ended && self.job.recording() <= state.recording
    }
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    /// How many rows were being recorded when the caller last asked.
    recording: usize,
    /// Whether no more results will come.
    has_ended: bool,
}

/// Calls in flight, and the guard that reports their end: once they are gone and their ledger is closed.
struct Calls<W: Work> {
    in_flight: InFlight<W>,
    end: End,
}

/// Records that no more results will come, whatever the reason.
struct End(Arc<Buffer>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.state.tell();
    }
}

impl Many {
    /// Begins to retrieve deals, with none in flight.
    pub(crate) fn retrieve(
        client: &dealkit::Client,
        ordered: bool,
        options: Option<&Options>,
        raw: bool,
    ) -> Outcome<Self> {
        let many = client.deals().retrieve_many(iter::empty::<String>());
        let calls = none_in_flight(many.raw_responses(), ordered, options);
        Self::start(calls, Inputs::Ids, ReadAs::Deal, raw)
    }

    /// Begins to create agents, with none in flight.
    pub(crate) fn create(
        client: &dealkit::Client,
        ordered: bool,
        options: Option<&Options>,
        raw: bool,
        ledger: Option<&LedgerOptions>,
    ) -> Outcome<Self> {
        let mut many = client.agents().create_many(iter::empty::<CreateRow>());
        if let Some((path, keys, resends_unknown)) = ledger {
            many = many.ledger(&Ledger::sqlite(path), keys.as_deref());
            if *resends_unknown {
                many = many.resend_unknown();
            }
            many = many.open_ledger()?;
        }
        let calls = none_in_flight(many.raw_responses(), ordered, options);
        Self::start(calls, Inputs::Rows, ReadAs::Agent, raw)
    }

    fn start<W: Work<Value = RawResponse, Item: Into<Item>>>(
        calls: InFlight<W>,
        inputs: fn(Way<W::Input>) -> Inputs,
        read_as: ReadAs,
        raw: bool,
    ) -> Outcome<Self> {
        let job = calls.job();
        let runtime = runtime::background()?;
        let buffer = Arc::new(Buffer {
            state: Awaited::new(State::default(), runtime.clone()),
            job: job.clone(),
            is_given_up: AtomicBool::new(false),
        });
        let (sender, pushed) = mpsc::unbounded_channel();
        let calls = Calls {
            in_flight: calls,
            end: End(Arc::clone(&buffer)),
        };
        let task = runtime.spawn(make(calls, pushed));
        Ok(Self {
            inputs: Mutex::new(Some(inputs(sender))),
            pushed: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            buffer,
            task: task.abort_handle(),
            process: process::id(),
            read_as,
            raw,
            job,
        })
    }

    fn inputs(&self) -> MutexGuard<'_, Option<Inputs>> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the inputs. If one of them has the wrong type, none is handed over.
    fn hand_over(&self, inputs: &Inputs, given: &Bound<'_, PyList>, index: usize) -> Outcome<()> {
        if index != self.pushed() {
            return Err(Failure::Runtime(
                "these calls were begun already: this is a bug in dealkit, please report it"
                    .to_owned(),
            ));
        }
        let handed_over = match inputs {
            Inputs::Ids(sender) => {
                let ids = given.iter().zip(index..).map(|(pair, index)| {
                    let (id, watch) =
                        pair.extract::<(Bound<'_, PyAny>, Option<Bound<'_, Watch>>)>()?;
                    let id = text(format_args!("ids[{index}]"), &id)?;
                    Ok((id, Watch::observer(watch.as_ref())))
                });
                sender.send(ids.collect::<Outcome<_>>()?).is_ok()
            }
            Inputs::Rows(sender) => {
                let rows = given.iter().map(|pair| {
                    let ((call, key), watch) = pair.extract::<(
                        (Option<Bound<'_, Call>>, Option<String>),
                        Option<Bound<'_, Watch>>,
                    )>()?;
                    let mut row = row(call.as_ref().map(|call| call.get()));
                    if let Some(key) = key {
                        row = row.key(key);
                    }
                    Ok((row, Watch::observer(watch.as_ref())))
                });
                sender.send(rows.collect::<Outcome<_>>()?).is_ok()
            }
        };
        if !handed_over {
            return Err(Failure::Runtime(
                "no further calls can be made here".to_owned(),
            ));
        }
        self.pushed.fetch_add(given.len(), Ordering::Relaxed);
        self.in_flight.fetch_add(given.len(), Ordering::Relaxed);
        Ok(())
    }

    fn check(&self) -> Outcome<()> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Failure::Runtime(
                "the calls in flight here belong to another process, from which this one was forked"
                    .to_owned(),
            ))
        }
    }

    /// The results that have come, at most so many that reading them takes only a moment.
    fn taken(&self) -> Outcome<Vec<Item>> {
        self.check()?;
        let mut state = self.buffer.state.lock();
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
            return Err(Failure::Runtime("nothing more will come".to_owned()));
        }
        Ok(state.items.drain(..count).collect())
    }
}

/// A row, from the call that creates its agent; without a call, a row that is not sent, whose error Python code has.
fn row(call: Option<&Call>) -> CreateRow {
    CreateRow::written(match call.and_then(|call| call.body.clone()) {
        Some(body) => Ok(body),
        None => {
            let violation = Violation::new("", ViolationCode::WrongType, "must be an agent");
            let refused = ValidationError::check(vec![violation]);
            refused.map(|()| Bytes::new()).map_err(Error::from)
        }
    })
}

/// The queue of many calls, in the order in which they are pushed or as they are completed.
pub(super) fn none_in_flight<I, W: Work>(
    mut many: Bulk<I, W>,
    ordered: bool,
    options: Option<&Options>,
) -> InFlight<W> {
    if !ordered {
        many = many.as_completed();
    }
    if let Some(Options(options)) = options {
        many = many.options(options.clone());
    }
    many.into_parts().1
}

/// Makes the calls that are pushed, until nobody can push any more.
async fn make<W: Work<Value = RawResponse, Item: Into<Item>>>(
    mut calls: Calls<W>,
    mut pushed: UnboundedReceiver<Vec<(W::Input, Observer)>>,
) {
    let Calls { in_flight, end } = &mut calls;
    let buffer = &end.0;
    let mut has_news = false;
    loop {
        let is_due = !in_flight.is_empty() && !buffer.is_given_up.load(Ordering::Acquire);
        let recording = buffer.job.recording();
        tokio::select! {
            biased;
            inputs = pushed.recv() => match inputs {
                Some(inputs) => for (input, observer) in inputs {
                    in_flight.push_with(input, |call| observer.send(call));
                },
                None => break,
            },
            Some(item) = in_flight.next(), if is_due => {
                buffer.state.lock().items.push_back(item.into());
                has_news = true;
            }
            // All results are reported at once: waking a waiter costs more than handling a deal.
            () = ready(()), if has_news => {
                buffer.state.tell();
                has_news = false;
            }
            // A response makes room while it is recorded.
            () = poll_fn(|_| match buffer.job.recording() > recording {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }) => has_news = true,
        }
    }
    let left = in_flight.cancel().into_iter().map(Into::into);
    buffer.state.lock().items.extend(left);
}

#[pymethods]
impl Many {
    /// Adds inputs to the calls in flight, each with its Watch or None. An input is an identifier; or, with the row's
    /// key or None, the Call that creates an agent, or None for a row that is not to be sent, which yields an error.
    /// `index` is the position of the first. If one of them has the wrong type, none is added.
    fn push<'py>(&self, inputs: &Bound<'py, PyList>, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = inputs.py();
        entry(py, || {
            self.check()?;
            match &*self.inputs() {
                Some(way) => self.hand_over(way, inputs, index),
                None => Err(Failure::Runtime(
                    "no further calls can be made here".to_owned(),
                )),
            }
        })
    }

    /// Gives up the calls in flight, and the inputs added here as in `push`, which are not sent. What is known about
    /// each is delivered like other results.
    fn cancel<'py>(
        &self,
        inputs: &Bound<'py, PyList>,
        index: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = inputs.py();
        entry(py, || {
            self.check()?;
            let mut way = self.inputs();
            if let Some(open) = &*way {
                self.buffer.is_given_up.store(true, Ordering::Release);
                self.hand_over(open, inputs, index)?;
                *way = None;
            }
            Ok(())
        })
    }

    /// How many were pushed in total.
    #[getter]
    fn pushed(&self) -> usize {
        self.pushed.load(Ordering::Relaxed)
    }

    /// How many were pushed and not taken.
    #[getter]
    fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether further inputs would only be refused, so that none should be pushed.
    #[getter]
    fn has_stopped(&self) -> bool {
        self.job.has_stopped()
    }

    /// How many of those in flight have had their response and are being recorded. Until this changes, `wait` does not
    /// return because of it.
    #[getter]
    fn recording(&self) -> usize {
        let mut state = self.buffer.state.lock();
        state.recording = self.job.recording();
        state.recording
    }

    /// Takes out the results that have come, each as (index, identifier or key or None, value or failure, record or
    /// None). They go to the front of `ready`, the last one first, so the next one is always at its end. A record is
    /// (whether it is from an earlier run, its agent's identifier or None, why the ledger does not have it or None).
    fn take<'py>(&self, ready: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let py = ready.py();
        entry(py, || {
            let taken = PyList::empty(py);
            let items = self.taken()?;
            let count = items.len();
            for item in items.into_iter().rev() {
                let value = response::result(py, &item.result, self.read_as, self.raw);
                let record = item
                    .record
                    .map(|record| record.into_python(py))
                    .transpose()?;
                taken.append((item.index, item.id, into_python(py, value)?, record))?;
            }
            ready.set_slice(0, 0, &taken)?;
            self.in_flight.fetch_sub(count, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Waits briefly, on the calling thread, for a result to come or for more room.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let checked = self.check();
        if checked.is_ok() {
            gil::release(py, || {
                let is_quiet = |state: &State| self.buffer.is_quiet(state);
                self.buffer.state.wait_a_little_while(is_quiet);
            });
        }
        entry(py, || checked)
    }

    /// Resolves the future of the mailbox's event loop once a result has come or there is more room.
    fn tell<'py>(
        &self,
        mailbox: &Bound<'py, Mailbox>,
        future: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = mailbox.py();
        entry(py, || {
            self.check()?;
            let buffer = &self.buffer;
            let is_quiet = |state: &State| buffer.is_quiet(state);
            buffer.state.resolve_while(mailbox.get(), future, is_quiet);
            Ok(())
        })
    }

    /// Waits briefly for the end of the calls that were given up, and returns whether it has come: then the ledger is
    /// closed.
    fn wait_for_end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = &self.buffer.state;
        let has_ended = self.process != process::id()
            || gil::release(py, || {
                state
                    .wait_a_little_while(|state| !state.has_ended)
                    .has_ended
            });
        entry(py, || Ok(has_ended))
    }

    /// Cancels the calls in flight, which then yield no results.
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
