//! Many deals as batches of a table: retrieved, and read into columns, on a thread that does not take the GIL.
//!
//! Identifiers go in, batches come out. Either Python code pushes identifiers as they are wanted and takes batches,
//! or it pushes all of them, and a C library takes the batches through an Arrow stream, from any thread and perhaps
//! holding the GIL. In that case, nothing here needs the GIL.

use std::{
    collections::{HashSet, VecDeque},
    future::ready,
    io, iter, process,
    sync::Arc,
    thread,
};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use dealkit::{
    Error, InFlight, RawResponse, Retrieved, Retrieves,
    arrow::{DealBatchBuilder, FailureBatchBuilder},
};
use futures_util::future::{AbortHandle, abortable};
use pyo3::{prelude::*, types::PyList};
use tokio::{runtime::Builder, sync::Notify};

use crate::{
    arrow::table::{Table, decimals, stream_capsule},
    bulk::{
        many::none_in_flight,
        unsent_ids::{Observers, UnsentIds},
    },
    calls::{awaited::Awaited, call::Options, pending::Mailbox, runtime, watch::Watch},
    python::{
        arguments::text,
        failure::{self, Failure, Outcome, entry, into_python},
        gil,
    },
};

/// Deals on their way into a table.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct DealStream {
    shared: Arc<Shared>,
    schema: SchemaRef,
    task: Task,
    /// Whether a C library takes the batches.
    has_reader: bool,
    process: u32,
}

/// What is retrieved, and how.
struct Plan {
    concurrency: usize,
    /// How many deals make up a batch.
    batch_size: usize,
}

struct Shared {
    plan: Plan,
    /// Notified when a batch has come, more identifiers are wanted, or the stream has ended.
    state: Awaited<State>,
    /// Notified when identifiers have come, or a batch was taken.
    has_room: Notify,
}

struct State {
    ids: UnsentIds,
    /// Whether no more identifiers will come.
    has_all_ids: bool,
    /// Whether only a few are left to send.
    wants_ids: bool,
    batches: VecDeque<RecordBatch>,
    /// How many deals have come that have not been reported to Python code.
    come: usize,
    /// The indexes of calls in progress that have a watch of their own.
    watched: HashSet<usize>,
    /// The watched calls that have ended: the index, and the error.
    ended: Vec<(usize, Option<Arc<Error>>)>,
    failures: Option<FailureBatchBuilder>,
    /// The failures, once the stream has ended.
    errors: Option<RecordBatch>,
    end: Option<End>,
}

impl State {
    /// Whether Python code has nothing to do.
    fn is_quiet(&self) -> bool {
        self.batches.is_empty() && !self.wants_ids && self.end.is_none()
    }
}

/// How the stream has ended.
#[derive(Clone)]
enum End {
    /// With the last deal.
    Whole,
    /// With the first deal that failed: its index and identifier.
    Failed(usize, String, Arc<Error>),
    /// With an Arrow error.
    Broken(String),
    /// Before the last deal, because nobody wants more.
    Cancelled,
}

impl Shared {
    /// The next batch, once it has come; `None` after the last.
    fn wait_for_batch(&self) -> Result<Option<RecordBatch>, End> {
        let mut state = self
            .state
            .wait_while(|state| state.batches.is_empty() && state.end.is_none());
        if let Some(batch) = state.batches.pop_front() {
            drop(state);
            self.has_room.notify_one();
            return Ok(Some(batch));
        }
        match &state.end {
            None | Some(End::Whole) => Ok(None),
            Some(end) => Err(end.clone()),
        }
    }
}

/// The task that works on a stream: it is ended when nobody wants its deals any more.
#[derive(Clone)]
struct Task(AbortHandle);

impl Task {
    fn end(&self, process: u32) {
        // After a fork, the child must not end a task of the parent.
        if process == process::id() {
            self.0.abort();
        }
    }
}

/// Marks the stream as ended, whatever the reason.
struct Ending {
    shared: Arc<Shared>,
    end: End,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.end = Some(self.end.clone());
        let errors = state.failures.take().map(|mut failures| failures.finish());
        match errors.transpose() {
            Ok(errors) => state.errors = errors,
            Err(error) => state.end = Some(End::Broken(error.to_string())),
        }
        drop(state);
        self.shared.state.tell();
    }
}

/// The settings of a stream, handed on by the engine.
pub(crate) struct Settings {
    pub(crate) ordered: bool,
    pub(crate) concurrency: usize,
    pub(crate) batch_size: usize,
    pub(crate) scale: Option<u8>,
    pub(crate) returns_errors: bool,
    /// Whether it works on a thread of its own. This is needed if the consumer of the batches may hold the GIL, since
    /// the background thread may wait for the GIL.
    pub(crate) own_thread: bool,
}

impl DealStream {
    /// Begins, with nothing in flight.
    pub(crate) fn start(
        client: &dealkit::Client,
        options: Option<&Options>,
        settings: &Settings,
    ) -> Outcome<Self> {
        let many = client.deals().retrieve_many(iter::empty::<String>());
        let in_flight = none_in_flight(many.raw_responses(), settings.ordered, options);
        let builder = DealBatchBuilder::new(decimals(settings.scale)?);
        let schema = Arc::clone(builder.schema());
        let background = runtime::background()?;
        let state = State {
            ids: UnsentIds::default(),
            has_all_ids: false,
            wants_ids: true,
            batches: VecDeque::new(),
            come: 0,
            watched: HashSet::new(),
            ended: Vec::new(),
            failures: settings.returns_errors.then(FailureBatchBuilder::new),
            errors: None,
            end: None,
        };
        let shared = Arc::new(Shared {
            plan: Plan {
                concurrency: settings.concurrency.max(1),
                batch_size: settings.batch_size.max(1),
            },
            state: Awaited::new(state, background.clone()),
            has_room: Notify::new(),
        });
        let ending = Ending {
            shared: Arc::clone(&shared),
            end: End::Cancelled,
        };
        let work = retrieve(in_flight, builder, ending);
        let (work, task) = abortable(work);
        if settings.own_thread {
            on_own_thread(work).map_err(|error| {
                Failure::Runtime(format!(
                    "the thread of the stream cannot be started: {error}"
                ))
            })?;
        } else {
            background.spawn(work);
        }
        Ok(Self {
            shared,
            schema,
            task: Task(task),
            has_reader: settings.own_thread,
            process: process::id(),
        })
    }

    fn check(&self) -> Outcome<()> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Failure::Runtime(IN_PARENT.to_owned()))
        }
    }

    /// The failures as a table, if they are to be returned and all deals have come.
    fn table_of_errors(&self) -> Option<Table> {
        let errors = self.shared.state.lock().errors.clone()?;
        Some(Table::new(errors.schema(), vec![errors]))
    }
}

impl Drop for DealStream {
    fn drop(&mut self) {
        // A stream that is read in C is ended by its reader.
        if !self.has_reader {
            self.close();
        }
    }
}

const IN_PARENT: &str =
    "these deals are in flight in another process, from which this one was forked";

/// Works on a stream on a thread that does nothing else and ends with it.
fn on_own_thread(work: impl Future + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new()
        .name("dealkit-arrow".to_owned())
        .spawn(move || {
            runtime.block_on(work);
            // A name look-up that is in progress is not waited for.
            runtime.shutdown_background();
        })?;
    Ok(())
}

/// Retrieves the deals whose identifiers are pushed, and reads them into batches, until there are no more or one has
/// failed.
async fn retrieve(
    mut in_flight: InFlight<Retrieves<RawResponse>>,
    mut deals: DealBatchBuilder,
    mut ending: Ending,
) {
    let shared = &ending.shared;
    let mut has_news = false;
    let end = loop {
        has_news |= send(shared, &mut in_flight, deals.len());
        tokio::select! {
            biased;
            Some(item) = in_flight.next(), if !in_flight.is_empty() => {
                match add(shared, &mut deals, item) {
                    Ok(is_news) => has_news |= is_news,
                    Err(end) => break end,
                }
            }
            // All news is reported at once: waking a waiter costs more than handling a deal.
            () = ready(()), if has_news => {
                shared.state.tell();
                has_news = false;
            }
            () = ready(()), if in_flight.is_empty() && has_all(shared) => {
                break match finish_batch(shared, &mut deals) {
                    Ok(()) => End::Whole,
                    Err(end) => end,
                };
            }
            () = shared.has_room.notified() => {}
        }
    };
    ending.end = end;
}

/// Whether every identifier was sent.
fn has_all(shared: &Shared) -> bool {
    let state = shared.state.lock();
    state.has_all_ids && state.ids.is_empty()
}

/// Sends as many as there is room for; returns whether more identifiers are newly wanted, since few are left to send.
fn send(
    shared: &Shared,
    in_flight: &mut InFlight<Retrieves<RawResponse>>,
    in_batch: usize,
) -> bool {
    let Plan {
        concurrency,
        batch_size,
    } = shared.plan;
    let mut state = shared.state.lock();
    while in_flight.len() < concurrency
        // While a batch waits, only one more is filled, and no further deals are requested: nothing piles up.
        && (state.batches.is_empty() || in_batch + in_flight.len() < batch_size)
        && let Some((id, observer)) = state.ids.next()
    {
        in_flight.push_with(id, |call| observer.send(call));
    }
    let wants_ids = !state.has_all_ids && state.ids.len() < concurrency;
    let is_new = wants_ids && !state.wants_ids;
    state.wants_ids = wants_ids;
    is_new
}

/// Adds a deal that has come, or its error; returns whether a batch is full.
fn add(
    shared: &Shared,
    deals: &mut DealBatchBuilder,
    item: Retrieved<RawResponse>,
) -> Result<bool, End> {
    let Retrieved {
        index, id, result, ..
    } = item;
    let mut is_full = false;
    let read = match result {
        Ok(response) => {
            if !deals.has_room_for(response.body().len()) {
                finish_batch(shared, deals)?;
                is_full = true;
            }
            deals
                .push_json(response.body())
                .map_err(|error| response.into_decode_error(error))
        }
        Err(error) => Err(error),
    };
    let error = read.err().map(Arc::new);
    let mut state = shared.state.lock();
    state.come += 1;
    if state.watched.remove(&index) {
        state.ended.push((index, error.clone()));
    }
    if let Some(error) = error {
        match &mut state.failures {
            Some(failures) => {
                failures.push_with_message(index, &id, &error, &failure::text(&error));
            }
            None => return Err(End::Failed(index, id, error)),
        }
    }
    drop(state);
    if deals.len() >= shared.plan.batch_size {
        finish_batch(shared, deals)?;
        is_full = true;
    }
    Ok(is_full)
}

/// Hands over the batch that is being filled, if there is anything in it.
fn finish_batch(shared: &Shared, deals: &mut DealBatchBuilder) -> Result<(), End> {
    if deals.is_empty() {
        return Ok(());
    }
    let batch = deals
        .finish()
        .map_err(|error| End::Broken(error.to_string()))?;
    shared.state.lock().batches.push_back(batch);
    Ok(())
}

#[pymethods]
impl DealStream {
    /// Adds identifiers to be retrieved. `watches` has a Watch for each of the first identifiers, or is one for all,
    /// or None. `index` is the position of the first. If one of them has the wrong type, none is added.
    #[pyo3(signature = (ids, watches, index, is_last))]
    fn push<'py>(
        &self,
        ids: &Bound<'py, PyList>,
        watches: Option<&Bound<'py, PyAny>>,
        index: usize,
        is_last: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = ids.py();
        entry(py, || {
            self.check()?;
            let ids = ids
                .iter()
                .zip(index..)
                .map(|(id, index)| text(format_args!("ids[{index}]"), &id))
                .collect::<Outcome<Vec<_>>>()?;
            let each = watches.and_then(|watches| watches.cast::<PyList>().ok());
            let observers = match (each, watches) {
                (Some(each), _) => Observers::Each(
                    each.iter()
                        .map(|watch| Watch::observer(watch.cast::<Watch>().ok()))
                        .collect(),
                ),
                (None, one) => Observers::All(Watch::observer(
                    one.and_then(|one| one.cast::<Watch>().ok()),
                )),
            };
            let mut state = self.shared.state.lock();
            let watched = each.map_or(0, |each| each.len());
            state.watched.extend(index..index + watched);
            state.ids.push(&ids, observers);
            state.has_all_ids = is_last;
            state.wants_ids = false;
            drop(state);
            self.shared.has_room.notify_one();
            Ok(())
        })
    }

    /// What has happened: how many deals have come, whether more identifiers are wanted, the calls with a Watch of
    /// their own that have ended, with the failure of each, and whether everything has ended. Nothing is reported
    /// twice.
    fn news<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // The end of the interpreter cancels every stream, which must not look like a complete one.
        gil::end_if_left_behind(py);
        entry(py, || {
            self.check()?;
            let mut state = self.shared.state.lock();
            let come = std::mem::take(&mut state.come);
            let news = std::mem::take(&mut state.ended);
            let (wants_ids, has_ended) = (state.wants_ids, state.end.is_some());
            drop(state);
            let ended = PyList::empty(py);
            for (index, error) in news {
                let failure = match error {
                    Some(error) => Some(into_python(py, Err::<(), _>(Failure::Error(error)))?),
                    None => None,
                };
                ended.append((index, failure))?;
            }
            Ok((come, wants_ids, ended, has_ended))
        })
    }

    /// The next batch, as a table, if one has come.
    fn batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.check()?;
            let batch = self.shared.state.lock().batches.pop_front();
            let Some(batch) = batch else { return Ok(None) };
            self.shared.has_room.notify_one();
            let table = Table::new(Arc::clone(&self.schema), vec![batch]);
            Ok(Some(Bound::new(py, table)?))
        })
    }

    /// The deal whose failure has ended the stream, if there is one: its index, its identifier, and its failure.
    fn failed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let end = self.shared.state.lock().end.clone();
            match end {
                Some(End::Failed(index, id, error)) => {
                    let failure = into_python(py, Err::<(), _>(Failure::Error(error)))?;
                    Ok(Some((index, id, failure)))
                }
                Some(End::Broken(text)) => Err(Failure::Runtime(text)),
                _ => Ok(None),
            }
        })
    }

    /// These tables combined into one, with the errors of the deals that failed, if they are to be returned.
    fn whole<'py>(&self, tables: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let py = tables.py();
        entry(py, || {
            let batches = Table::batches_of(tables)?;
            let errors = self.table_of_errors().map(|errors| Py::new(py, errors));
            let table =
                Table::new(Arc::clone(&self.schema), batches).with_errors(errors.transpose()?);
            Ok(Bound::new(py, table)?)
        })
    }

    /// The deals that failed, as a table, if they are to be returned. A failure if not all deals have come yet.
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            if self.shared.state.lock().end.is_none() {
                return Err(Failure::Runtime(
                    "the errors are known once the last deal has arrived".to_owned(),
                ));
            }
            Ok(self.table_of_errors())
        })
    }

    /// Waits briefly, on the calling thread, for a batch, for more identifiers to be wanted, or for the end; or only
    /// for the end.
    fn wait<'py>(&self, py: Python<'py>, for_the_end: bool) -> PyResult<Bound<'py, PyAny>> {
        let checked = self.check();
        if checked.is_ok() {
            gil::release(py, || {
                self.shared.state.wait_a_little_while(|state| {
                    state.end.is_none() && (for_the_end || state.is_quiet())
                });
            });
        }
        entry(py, || checked)
    }

    /// Resolves the future of the mailbox's event loop once a batch has come, more identifiers are wanted, or the
    /// stream has ended.
    fn tell<'py>(
        &self,
        mailbox: &Bound<'py, Mailbox>,
        future: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = mailbox.py();
        entry(py, || {
            self.check()?;
            let state = &self.shared.state;
            state.resolve_while(mailbox.get(), future, State::is_quiet);
            Ok(())
        })
    }

    /// The batches as an Arrow stream, in a capsule. It retrieves while it is read, and releasing it cancels the
    /// calls in flight.
    fn capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.check()?;
            let reader = Reader {
                shared: Arc::clone(&self.shared),
                schema: Arc::clone(&self.schema),
                task: self.task.clone(),
                process: self.process,
                has_ended: false,
            };
            stream_capsule(py, reader)
        })
    }

    /// Cancels the calls in flight.
    fn close(&self) {
        self.task.end(self.process);
    }
}

/// The stream that a C library reads.
struct Reader {
    shared: Arc<Shared>,
    schema: SchemaRef,
    task: Task,
    process: u32,
    has_ended: bool,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let text = if self.process == process::id() {
            match self.shared.wait_for_batch() {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) => {
                    self.has_ended = true;
                    return None;
                }
                Err(End::Failed(index, _, error)) => {
                    format!("deal {index}: {}", failure::text(&error))
                }
                Err(End::Broken(text)) => text,
                Err(End::Whole | End::Cancelled) => {
                    "the stream was closed before the last deal had arrived".to_owned()
                }
            }
        } else {
            IN_PARENT.to_owned()
        };
        self.has_ended = true;
        // The text becomes a C string, which a zero byte would end.
        Some(Err(ArrowError::ExternalError(
            text.replace('\0', "\u{fffd}").into(),
        )))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.end(self.process);
    }
}
