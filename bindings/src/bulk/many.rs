//! Many calls, as Python sees them: inputs are pushed, and results are taken.
//!
//! No result of a create may be lost, wherever a Python signal handler raises: results that have come are appended to
//! a list of the caller's, inputs that were pushed are counted, and creates that are given up yield results like the
//! rest.

use std::{ffi::OsString, iter, sync::Arc};

use dealkit::{
    KeyedRow,
    bulk::{Bulk, BulkOperation, InFlight},
};
use pyo3::{prelude::*, types::PyList};

use super::{
    inputs::{self, Input},
    job::{self, Come, Shared},
    questions,
};
use crate::{
    calls::{call::Options, mailbox::Mailbox, runtime::Slot},
    models::response::ReadAs,
    python::{
        arguments,
        failure::{Failure, Outcome, Returned, entry},
        gil,
    },
};

/// How many bytes of bodies are read in one go, or one body if it has more: signals are not checked in the meantime.
const READ_AT_ONCE: usize = 256 * 1024;

/// Calls in flight. The caller pushes the inputs, and sees to it that no more of them are in flight than are to be held.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct Many {
    shared: Arc<Shared>,
    read_as: ReadAs,
    are_rows: bool,
    /// How many inputs are to be in flight at a time.
    #[pyo3(get)]
    held: usize,
}

/// The path or URL of a ledger, the name of its keys, what becomes of unresolved rows (`report`, `resend` or `ask`), and whether rows
/// in flight elsewhere are waited for.
pub(crate) type LedgerOptions = (OsString, Option<String>, String, bool);

impl Many {
    pub(crate) fn retrieve(
        slot: Slot,
        client: &dealkit::Client,
        ordered: bool,
        concurrency: usize,
        options: Option<&Options>,
    ) -> Outcome<Self> {
        let many = client.deals().retrieve_many(iter::empty::<String>());
        let (held, calls) = none_in_flight(many.raw_responses(), ordered, concurrency, options);
        let take = |input| match input {
            Input::Id(id) => Some(id),
            Input::Row(_) => None,
        };
        Ok(Self {
            shared: job::start(slot, calls, take, None)?,
            read_as: Some(dealkit::Deal::SCHEMA),
            are_rows: false,
            held,
        })
    }

    pub(crate) fn create(
        slot: Slot,
        client: &dealkit::Client,
        ordered: bool,
        concurrency: usize,
        options: Option<&Options>,
        ledger: Option<&LedgerOptions>,
    ) -> Outcome<Self> {
        let mut many = client.agents().create_many(iter::empty::<KeyedRow>());
        let mut asked = None;
        if let Some((name, keys, unresolved, waits_in_flight)) = ledger {
            many = many.ledger(&arguments::ledger(name.clone())?, keys.as_deref());
            match unresolved.as_str() {
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
        let (held, calls) = none_in_flight(many.raw_responses(), ordered, concurrency, options);
        let take = |input| match input {
            Input::Row(row) => Some(row),
            Input::Id(_) => None,
        };
        Ok(Self {
            shared: job::start(slot, calls, take, asked)?,
            read_as: Some(dealkit::Agent::SCHEMA),
            are_rows: true,
            held,
        })
    }

    /// Hands over the inputs, unless they were begun already; they may be the last, which are not sent. If one of them has
    /// the wrong type, none is handed over.
    fn hand_over(&self, given: &Bound<'_, PyList>, index: usize, gives_up: bool) -> Outcome<()> {
        self.shared.check()?;
        let state = self.shared.state.lock();
        if state.is_given_up || state.has_ended {
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
        state.is_given_up = gives_up;
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// The results that have come, at most so many that reading them takes only a moment.
    fn taken(&self) -> Outcome<Vec<Come>> {
        self.shared.check()?;
        let mut state = self.shared.state.lock();
        let mut bytes = 0;
        let count = state.items.iter().take_while(|item| {
            let is_room = bytes < READ_AT_ONCE;
            if let Come::Item(item) = item
                && let Some(Ok(response)) = &item.result
            {
                bytes += response.body().len();
            }
            is_room
        });
        let count = count.count();
        if count == 0 && state.has_ended {
            return Err(Failure::Runtime("nothing more will come".to_owned()));
        }
        Ok(state.items.drain(..count).collect())
    }
}

/// How many inputs are held, and the queue of their calls, in the order in which they are pushed or as they are completed.
fn none_in_flight<I, O: BulkOperation>(
    mut many: Bulk<I, O>,
    ordered: bool,
    concurrency: usize,
    options: Option<&Options>,
) -> (usize, InFlight<O>) {
    many = many.concurrency(concurrency);
    if !ordered {
        many = many.unordered();
    }
    if let Some(Options(options)) = options {
        many = many.options(options.clone());
    }
    (many.capacity(), many.into_parts().1)
}

#[pymethods]
impl Many {
    /// Adds inputs to the calls in flight, each with its Watch or None. An input is an identifier; or, with the row's
    /// key or None, the Call that creates an agent, or None for a row that is not to be sent, which yields an error.
    /// `index` is the position of the first. If one of them has the wrong type, none is added.
    fn push<'py>(&self, inputs: &Bound<'py, PyList>, index: usize) -> Returned<'py> {
        entry(inputs.py(), || self.hand_over(inputs, index, false))
    }

    /// Gives up the calls in flight, and the inputs added here as in `push`, which are not sent. What is known about
    /// each is delivered like other results.
    fn cancel<'py>(&self, inputs: &Bound<'py, PyList>, index: usize) -> Returned<'py> {
        let py = inputs.py();
        entry(py, || {
            self.shared.check()?;
            if !self.shared.state.lock().is_given_up {
                self.hand_over(inputs, index, true)?;
            }
            Ok(())
        })
    }

    /// Makes no further calls, and closes a ledger: `wait_for_end` and `tell_end` report that.
    fn finish<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let checked = self.shared.check();
        if checked.is_ok() {
            self.shared.state.lock().is_given_up = true;
            self.shared.changed.notify_one();
        }
        entry(py, || checked)
    }

    #[getter]
    fn pushed(&self) -> usize {
        self.shared.state.lock().pushed
    }

    #[getter]
    fn in_flight(&self) -> usize {
        self.shared.state.lock().in_flight
    }

    /// Whether further inputs would only be refused, so that none should be pushed.
    #[getter]
    fn has_stopped(&self) -> bool {
        self.shared.job.has_stopped()
    }

    /// Takes out the results that have come, each as (index, identifier or key or None, value or failure, record or
    /// None), or a Question. They go to the front of `ready`, the last one first, so the next one is always at its end. A record is
    /// (whether it is from an earlier run, the identifier of the agent that was created then or None, when it was sent in
    /// milliseconds since 1970 or None, why the ledger does not have it or None). With an agent of an earlier run, the
    /// value is None; a response is whole if `raw` is set.
    fn take<'py>(&self, ready: &Bound<'py, PyList>, raw: bool) -> Returned<'py> {
        let py = ready.py();
        entry(py, || {
            let taken = PyList::empty(py);
            let mut count = 0;
            for come in self.taken()?.into_iter().rev() {
                match come {
                    Come::Item(item) => {
                        taken.append(item.parts(py, self.read_as, raw)?)?;
                        count += 1;
                    }
                    Come::Question(question) => taken.append(Bound::new(py, question)?)?,
                }
            }
            ready.set_slice(0, 0, &taken)?;
            self.shared.state.lock().in_flight -= count;
            Ok(())
        })
    }

    /// Waits briefly, on the calling thread, for a result to come.
    fn wait<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let checked = self.shared.check();
        if checked.is_ok() {
            gil::release(py, || {
                drop(self.shared.state.wait_a_little_while(Shared::is_quiet));
            });
        }
        entry(py, || checked)
    }

    /// Resolves the future of the mailbox's event loop once a result has come.
    fn tell<'py>(&self, mailbox: &Bound<'py, Mailbox>, future: Py<PyAny>) -> Returned<'py> {
        let py = mailbox.py();
        entry(py, || {
            self.shared.check()?;
            let state = &self.shared.state;
            state.resolve_while(mailbox.get(), future, Shared::is_quiet);
            Ok(())
        })
    }

    /// Whether the calls that were given up have ended: then the ledger is closed.
    #[getter]
    fn has_ended(&self) -> bool {
        self.shared.check().is_err() || self.shared.state.lock().has_ended
    }

    /// Resolves the future of the mailbox's event loop at the end of the calls that were given up.
    fn tell_end<'py>(&self, mailbox: &Bound<'py, Mailbox>, future: Py<PyAny>) -> Returned<'py> {
        let py = mailbox.py();
        entry(py, || {
            self.shared.check()?;
            let state = &self.shared.state;
            state.resolve_while(mailbox.get(), future, |state| !state.has_ended);
            Ok(())
        })
    }

    /// Waits briefly for the end of the calls that were given up, and returns whether it has come: then the ledger is
    /// closed.
    fn wait_for_end<'py>(&self, py: Python<'py>) -> Returned<'py> {
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
}

impl Drop for Many {
    fn drop(&mut self) {
        self.close();
    }
}
