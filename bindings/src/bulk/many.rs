//! Many calls, as Python sees them: inputs are pushed, and results are taken one by one or as batches of a table.
//!
//! No result of a create may be lost, wherever a Python signal handler raises: results that have come are appended to
//! a list of the caller's, inputs that were pushed are counted, and creates that are given up yield results like the
//! rest.

use std::{iter, sync::Arc};

use dealkit::{Bulk, CreateRow, InFlight, Work};
use pyo3::{prelude::*, types::PyList};

use super::{
    columns::{Columns, End, TableOptions},
    inputs::{self, Input},
    job::{self, Shared, State},
    questions,
    reader::Reader,
};
use crate::{
    arrow::table::{Table, stream_capsule},
    calls::{call::Options, mailbox::Mailbox, runtime},
    models::{item::Item, response::ReadAs},
    python::{
        failure::{Failure, Outcome, entry, into_python},
        gil,
    },
};

/// How many bytes of bodies are read in one go, or one body if it has more: signals are not checked in the meantime.
const READ_AT_ONCE: usize = 256 * 1024;

/// Calls in flight. The caller pushes the inputs. It never has more of them in flight than it wants, unless the results
/// become a table, which sees to that itself.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Many {
    shared: Arc<Shared>,
    read_as: ReadAs,
    raw: bool,
    are_rows: bool,
    /// Whether a C library takes the batches.
    has_reader: bool,
}

/// The path or URL of a ledger, the name of its keys, what becomes of rows in doubt (`report`, `resend` or `ask`), and whether rows
/// in flight elsewhere are waited for.
pub(crate) type LedgerOptions = (String, Option<String>, String, bool);

impl Many {
    /// Begins to retrieve deals, with none in flight.
    pub(crate) fn retrieve(
        client: &dealkit::Client,
        ordered: bool,
        options: Option<&Options>,
        raw: bool,
        table: Option<TableOptions>,
    ) -> Outcome<Self> {
        let many = client.deals().retrieve_many(iter::empty::<String>());
        let calls = none_in_flight(many.raw_responses(), ordered, options);
        let (columns, deals) = table.map(Columns::new).transpose()?.unzip();
        let background = runtime::background()?;
        let (shared, task) = Shared::new(columns, calls.job(), background.clone());
        let has_reader = table.is_some_and(|(.., own_thread)| own_thread);
        let background = (!has_reader).then_some(background);
        let take = |input| match input {
            Input::Id(id) => Some(id),
            Input::Row(_) => None,
        };
        job::start(calls, (&shared, task), take, deals, None, background)?;
        Ok(Self {
            shared,
            read_as: Some(dealkit::Deal::SCHEMA),
            raw,
            are_rows: false,
            has_reader,
        })
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
        let mut asked = None;
        if let Some((name, keys, in_doubt, waits_in_flight)) = ledger {
            many = many.ledger(&name.parse()?, keys.as_deref());
            match in_doubt.as_str() {
                "resend" => many = many.resend_unknown(),
                "ask" => {
                    let (ask, questions) = questions::ask();
                    (many, asked) = (many.resolve(ask), Some(questions));
                }
                _ => {}
            }
            if *waits_in_flight {
                many = many.wait_in_flight();
            }
        }
        let opening = ledger.map(|_| many.opening());
        let calls = none_in_flight(many.raw_responses(), ordered, options);
        let background = runtime::background()?;
        let (shared, task) = Shared::new(None, calls.job(), background.clone());
        if let Some(opening) = opening {
            let shared = Arc::clone(&shared);
            background.spawn(async move {
                let opened = opening.await;
                shared.state.lock().opened = Some(opened);
                shared.state.tell();
            });
        }
        let take = |input| match input {
            Input::Row(row) => Some(row),
            Input::Id(_) => None,
        };
        job::start(calls, (&shared, task), take, None, asked, Some(background))?;
        Ok(Self {
            shared,
            read_as: Some(dealkit::Agent::SCHEMA),
            raw,
            are_rows: true,
            has_reader: false,
        })
    }

    /// Hands over the inputs, unless they were begun already, and changes the state with them. If one of them has the wrong
    /// type, none is handed over.
    fn hand_over(
        &self,
        given: &Bound<'_, PyList>,
        index: usize,
        change: impl FnOnce(&mut State),
    ) -> Outcome<()> {
        self.shared.check()?;
        let state = self.shared.state.lock();
        // A table that has ended says so elsewhere.
        if state.has_all || (state.has_ended && state.columns.is_none()) {
            return Err(Failure::Runtime(
                "no further calls can be made here".to_owned(),
            ));
        }
        if index != state.pushed {
            return Err(Failure::Runtime(
                "these calls were begun already: this is a bug in dealkit, please report it"
                    .to_owned(),
            ));
        }
        drop(state);
        // Not with the lock: this takes time.
        let mut inputs = inputs::read(given, index, self.are_rows)?;
        let mut state = self.shared.state.lock();
        state.inputs.append(&mut inputs);
        state.pushed += given.len();
        state.in_flight += given.len();
        change(&mut state);
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// The results that have come, at most so many that reading them takes only a moment.
    fn taken(&self) -> Outcome<Vec<Item>> {
        self.shared.check()?;
        let mut state = self.shared.state.lock();
        let mut bytes = 0;
        let count = state.items.iter().take_while(|item| {
            let is_room = bytes < READ_AT_ONCE;
            bytes += match &item.result {
                Some(Ok(response)) => response.body().len(),
                _ => 0,
            };
            is_room
        });
        let count = count.count();
        if count == 0 && state.has_ended {
            return Err(Failure::Runtime("nothing more will come".to_owned()));
        }
        Ok(state.items.drain(..count).collect())
    }

    /// Does something with the table that the results become.
    fn with_columns<T>(&self, work: impl FnOnce(&mut Columns) -> Outcome<T>) -> Outcome<T> {
        self.shared.check()?;
        match &mut self.shared.state.lock().columns {
            Some(columns) => work(columns),
            None => Err(Failure::Runtime("these calls make no table".to_owned())),
        }
    }
}

/// The queue of many calls, in the order in which they are pushed or as they are completed.
fn none_in_flight<I, W: Work>(
    mut many: Bulk<I, W>,
    ordered: bool,
    options: Option<&Options>,
) -> InFlight<W> {
    if !ordered {
        many = many.unordered();
    }
    if let Some(Options(options)) = options {
        many = many.options(options.clone());
    }
    many.into_parts().1
}

#[pymethods]
impl Many {
    /// Adds inputs to the calls in flight, each with its Watch or None. An input is an identifier; or, with the row's
    /// key or None, the Call that creates an agent, or None for a row that is not to be sent, which yields an error.
    /// `index` is the position of the first. If one of them has the wrong type, none is added. A table needs to know
    /// which are the last.
    #[pyo3(signature = (inputs, index, is_last=false))]
    fn push<'py>(
        &self,
        inputs: &Bound<'py, PyList>,
        index: usize,
        is_last: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = inputs.py();
        entry(py, || {
            self.hand_over(inputs, index, |state| {
                state.has_all = is_last;
                if let Some(columns) = &mut state.columns {
                    columns.wants_ids = false;
                }
            })
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
            self.shared.check()?;
            if !self.shared.state.lock().is_given_up {
                self.hand_over(inputs, index, |state| {
                    state.has_all = true;
                    state.is_given_up = true;
                })?;
            }
            Ok(())
        })
    }
    /// How many were pushed in total.
    #[getter]
    fn pushed(&self) -> usize {
        self.shared.state.lock().pushed
    }

    /// How many were pushed and not taken.
    #[getter]
    fn in_flight(&self) -> usize {
        self.shared.state.lock().in_flight
    }

    /// Whether further inputs would only be refused, so that none should be pushed.
    #[getter]
    fn has_stopped(&self) -> bool {
        self.shared.job.has_stopped()
    }

    /// How many of those in flight have had their response and are being recorded. Until this changes, `wait` does not
    /// return because of it.
    #[getter]
    fn recording(&self) -> usize {
        let mut state = self.shared.state.lock();
        state.recording = self.shared.job.recording();
        state.recording
    }

    /// Takes out the results that have come, each as (index, identifier or key or None, value or failure, record or
    /// None). They go to the front of `ready`, the last one first, so the next one is always at its end. A record is
    /// (whether it is from an earlier run, the identifier of the agent that was created then or None, when it was sent in
    /// milliseconds since 1970 or None, why the ledger does not have it or None). With an agent of an earlier run, the
    /// value is None.
    fn take<'py>(&self, ready: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let py = ready.py();
        entry(py, || {
            let taken = PyList::empty(py);
            let items = self.taken()?;
            let count = items.len();
            for item in items.into_iter().rev() {
                taken.append(item.parts(py, self.read_as, self.raw)?)?;
            }
            ready.set_slice(0, 0, &taken)?;
            self.shared.state.lock().in_flight -= count;
            Ok(())
        })
    }

    /// Whether the ledger is open, if there is one; a failure if it cannot be opened, and nothing can be created. Until then,
    /// `wait` waits for that.
    fn opened<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.shared.check()?;
            match self.shared.state.lock().opened.take() {
                Some(opened) => Ok(opened.map(|()| true)?),
                None => Ok(false),
            }
        })
    }

    /// The rows in doubt about which the caller is asked, and has not answered: for each a number, the row's key, when it was
    /// sent in milliseconds since 1970, the status or None, and the request's id or None.
    fn questions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.shared.check()?;
            Ok(self.shared.state.lock().questions.tell())
        })
    }

    /// Answers the question with this number: `agent` with its identifier, `no_agent`, `unknown`, or `failed`.
    #[pyo3(signature = (number, said, id=None))]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        said: String,
        id: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            self.shared.check()?;
            self.shared.state.lock().questions.answer(number, &said, id)
        })
    }

    /// Waits briefly, on the calling thread, for a result to come or for more room.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let checked = self.shared.check();
        if checked.is_ok() {
            gil::release(py, || {
                let is_quiet = |state: &State| self.shared.is_quiet(state);
                self.shared.state.wait_a_little_while(is_quiet);
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
            self.shared.check()?;
            let shared = &self.shared;
            let is_quiet = |state: &State| shared.is_quiet(state);
            shared.state.resolve_while(mailbox.get(), future, is_quiet);
            Ok(())
        })
    }

    /// Waits briefly for the end of the calls that were given up, and returns whether it has come: then the ledger is
    /// closed.
    fn wait_for_end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = &self.shared.state;
        let has_ended = self.shared.check().is_err()
            || gil::release(py, || {
                state
                    .wait_a_little_while(|state| !state.has_ended)
                    .has_ended
            });
        entry(py, || Ok(has_ended))
    }

    /// Cancels the calls in flight, which then yield no results.
    fn close(&self) {
        self.shared.end();
    }

    /// What has happened to a table: how many deals have come, whether more identifiers are wanted, the watched calls that
    /// have ended, with the failure of each, and whether everything has ended. Nothing is reported twice.
    fn news<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // The end of the interpreter cancels every stream, which must not look like a complete one.
        gil::end_if_left_behind(py);
        entry(py, || {
            let has_ended = self.shared.state.lock().has_ended;
            let (come, wants_ids, news) = self.with_columns(|columns| Ok(columns.news()))?;
            let ended = PyList::empty(py);
            for (index, error) in news {
                let failure = error.map(|error| into_python::<()>(py, Err(Failure::Error(error))));
                ended.append((index, failure.transpose()?))?;
            }
            Ok((come, wants_ids, ended, has_ended))
        })
    }

    /// The next batch, as a table, if one has come.
    fn batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let table = self.with_columns(|columns| {
                let batch = columns.batches.pop_front();
                Ok(batch.map(|batch| Table::new(Arc::clone(&columns.schema), vec![batch])))
            })?;
            self.shared.changed.notify_one();
            Ok(table.map(|table| Bound::new(py, table)).transpose()?)
        })
    }

    /// The deal whose failure has ended the table, if there is one: its index, its identifier, and its failure.
    fn failed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            match self.with_columns(|columns| Ok(columns.end.clone()))? {
                End::Failed(index, id, error) => {
                    let failure = into_python(py, Err::<(), _>(Failure::Error(error)))?;
                    Ok(Some((index, id, failure)))
                }
                End::Broken(text) => Err(Failure::Runtime(text)),
                End::Whole | End::Cancelled => Ok(None),
            }
        })
    }

    /// These tables combined into one, with the errors of the deals that failed, if they are to be returned.
    fn whole<'py>(&self, tables: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
        let py = tables.py();
        entry(py, || {
            let batches = Table::batches_of(tables)?;
            let (schema, errors) = self.with_columns(|columns| {
                Ok((Arc::clone(&columns.schema), columns.table_of_errors()))
            })?;
            let errors = errors.map(|errors| Py::new(py, errors)).transpose()?;
            Ok(Bound::new(
                py,
                Table::new(schema, batches).with_errors(errors),
            )?)
        })
    }

    /// The deals that failed, as a table, if they are to be returned. A failure if not all deals have come yet.
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            if !self.shared.state.lock().has_ended {
                return Err(Failure::Runtime(
                    "the errors are known once the last deal has arrived".to_owned(),
                ));
            }
            self.with_columns(|columns| Ok(columns.table_of_errors()))
        })
    }

    /// The batches as an Arrow stream, in a capsule. It retrieves while it is read, and releasing it cancels the
    /// calls in flight.
    fn capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry(py, || {
            let schema = self.with_columns(|columns| Ok(Arc::clone(&columns.schema)))?;
            stream_capsule(py, Reader::new(Arc::clone(&self.shared), schema))
        })
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        // A stream that is read in C is ended by its reader.
        if !self.has_reader {
            self.close();
        }
    }
}
