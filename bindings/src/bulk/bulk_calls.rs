//! The Python object of a bulk job: Python code pushes inputs and takes results.
//!
//! No result of a create may be lost, although a signal handler may raise between any two bytecodes of Python code. A result that a
//! function returns would be lost if a handler raised before Python code has stored it. This object therefore inserts results into
//! a list that Python code provides. It also counts the inputs that it has accepted, and delivers a result for each
//! cancelled create.

use std::{iter, sync::Arc};

use dealkit::bulk::{Bulk, BulkOperation, InFlight};
use pyo3::{prelude::*, types::PyList};

use super::{
    inputs::{self, Input},
    job::{self, Event, Shared},
};
use crate::{
    calls::{
        call::Options, ledger_options::LedgerOptions, mailbox::Mailbox, resolve_requests,
        runtime::Slot,
    },
    models::response::BodyModel,
    python::{
        failure::{EntryResult, Failure, Result, run_entry},
        gil,
    },
};

/// Number of body bytes after which [`BulkCalls::take`] returns, so that Python code can check for signals.
const MAX_BYTES_PER_TAKE: usize = 256 * 1024;

/// The calls of a bulk job. Python code limits the number of calls in flight to the capacity.
#[pyclass(frozen, module = "dealkit._native")]
pub(crate) struct BulkCalls {
    shared: Arc<Shared>,
    body_model: BodyModel,
    creates_agents: bool,
    /// Number of inputs that should be in flight at a time.
    #[pyo3(get)]
    capacity: usize,
}

/// Options of every bulk job.
pub(crate) struct BulkOptions<'a> {
    pub(crate) ordered: bool,
    pub(crate) concurrency: usize,
    pub(crate) call_options: Option<&'a Options>,
}

impl BulkCalls {
    pub(crate) fn start_retrieve_job(
        slot: Slot,
        client: &dealkit::Client,
        options: BulkOptions<'_>,
    ) -> Result<Self> {
        let bulk = client.deals().retrieve_many(iter::empty::<String>());
        let (capacity, calls) = options.apply(bulk.raw_responses());
        let convert_input = |input| match input {
            Input::Id(id) => Some(id),
            Input::Row(_) => None,
        };
        Ok(Self {
            shared: job::start(slot, calls, convert_input, None)?,
            body_model: Some(dealkit::Deal::SCHEMA),
            creates_agents: false,
            capacity,
        })
    }

    pub(crate) fn start_create_job(
        slot: Slot,
        client: &dealkit::Client,
        options: BulkOptions<'_>,
        ledger: Option<&LedgerOptions>,
    ) -> Result<Self> {
        let rows = iter::empty::<dealkit::KeyedRow>();
        let mut bulk = client.agents().create_many(rows);
        let mut resolve_requests = None;
        if let Some(options) = ledger {
            bulk = bulk.ledger(&options.ledger, options.key_name.as_deref());
            if options.resend_unknown {
                bulk = bulk.resend_unknown();
            }
            if options.resend_corrected {
                bulk = bulk.resend_corrected();
            }
            if options.resolve {
                let (resolve, requests) = resolve_requests::resolve_channel();
                (bulk, resolve_requests) = (bulk.resolve(resolve), Some(requests));
            }
            if options.wait_in_flight {
                bulk = bulk.wait_in_flight();
            }
        }
        let (capacity, calls) = options.apply(bulk.raw_responses());
        let convert_input = |input| match input {
            Input::Row(row) => Some(row),
            Input::Id(_) => None,
        };
        Ok(Self {
            shared: job::start(slot, calls, convert_input, resolve_requests)?,
            body_model: Some(dealkit::Agent::SCHEMA),
            creates_agents: true,
            capacity,
        })
    }

    /// Passes inputs to the task. If `cancels` is true, these are the last inputs, and none of them is sent.
    ///
    /// Accepts all inputs or, if an input is invalid, none of them. Fails if `first_index` shows that the inputs have been accepted
    /// before.
    fn add_inputs(
        &self,
        inputs: &Bound<'_, PyList>,
        traces: Option<&Bound<'_, PyList>>,
        first_index: usize,
        cancels: bool,
    ) -> Result<()> {
        self.shared.check_process()?;
        let state = self.shared.state.lock();
        if state.is_cancelled || state.has_ended {
            return Err(Failure::Runtime(
                "no further calls can be made here".to_owned(),
            ));
        }
        if first_index != state.pushed_count {
            return Err(Failure::Runtime(
                "these calls were begun already: this is a bug in dealkit, please report it"
                    .to_owned(),
            ));
        }
        // The state is unlocked while the inputs are converted, which takes time.
        drop(state);
        let mut parsed_inputs =
            inputs::parse_inputs(inputs, traces, first_index, self.creates_agents)?;
        let mut state = self.shared.state.lock();
        state.pushed_count += parsed_inputs.len();
        state.in_flight_count += parsed_inputs.len();
        state.inputs.append(&mut parsed_inputs);
        state.is_cancelled = cancels;
        drop(state);
        self.shared.inputs_changed.notify_one();
        Ok(())
    }

    /// Takes out events, at least one if there are any, until their bodies exceed [`MAX_BYTES_PER_TAKE`].
    fn take_events(&self) -> Result<Vec<Event>> {
        self.shared.check_process()?;
        let mut state = self.shared.state.lock();
        let mut byte_count = 0;
        let count = state.events.iter().take_while(|event| {
            let is_below_limit = byte_count < MAX_BYTES_PER_TAKE;
            if let Event::Result(result) = event {
                byte_count += result.body_size();
            }
            is_below_limit
        });
        let count = count.count();
        if count == 0 && state.has_ended {
            return Err(Failure::Runtime("there are no more results".to_owned()));
        }
        Ok(state.events.drain(..count).collect())
    }
}

impl BulkOptions<'_> {
    /// Applies the options to a job. Returns the job's capacity, and its set of calls in flight, which is still empty.
    fn apply<I, O: BulkOperation>(self, bulk: Bulk<I, O>) -> (usize, InFlight<O>) {
        let mut bulk = bulk.concurrency(self.concurrency);
        if !self.ordered {
            bulk = bulk.unordered();
        }
        if let Some(Options(options)) = self.call_options {
            bulk = bulk.options(options.clone());
        }
        (bulk.capacity(), bulk.into_parts().1)
    }
}

#[pymethods]
impl BulkCalls {
    /// Adds inputs: identifiers or, for a job of `create_many`, `Call` and `CreateRow` objects. `traces` is None, or has a
    /// `CallTrace` or None for each input. `first_index` is the index of the first input. If an input has the wrong type, adds no
    /// inputs.
    #[pyo3(signature = (inputs, traces, first_index))]
    fn push<'py>(
        &self,
        inputs: &Bound<'py, PyList>,
        traces: Option<&Bound<'py, PyList>>,
        first_index: usize,
    ) -> EntryResult<'py> {
        run_entry(inputs.py(), || {
            self.add_inputs(inputs, traces, first_index, false)
        })
    }

    /// Cancels the calls in flight and these last inputs, which are not sent. Each cancelled call or input yields a result.
    #[pyo3(signature = (inputs, first_index))]
    fn cancel<'py>(&self, inputs: &Bound<'py, PyList>, first_index: usize) -> EntryResult<'py> {
        let py = inputs.py();
        run_entry(py, || {
            self.shared.check_process()?;
            if !self.shared.state.lock().is_cancelled {
                self.add_inputs(inputs, None, first_index, true)?;
            }
            Ok(())
        })
    }

    /// Begins to cancel the calls in flight and to close the ledger. `wait_for_end` and `notify_end` wait until that is done.
    fn finish<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let process_check = self.shared.check_process();
        if process_check.is_ok() {
            self.shared.state.lock().is_cancelled = true;
            self.shared.inputs_changed.notify_one();
        }
        run_entry(py, || process_check)
    }

    /// Number of inputs that have been added.
    #[getter]
    fn pushed(&self) -> usize {
        self.shared.state.lock().pushed_count
    }

    /// Number of inputs whose results have not been taken.
    #[getter]
    fn in_flight(&self) -> usize {
        self.shared.state.lock().in_flight_count
    }

    /// True if the job would reject further inputs, for example after a 401.
    #[getter]
    fn has_stopped(&self) -> bool {
        self.shared.job.has_stopped()
    }

    /// Moves `BulkResult` and `ResolveRequest` objects to the beginning of the list `ready`, in reverse order. The object to handle
    /// next is therefore always the last item of the list. With `raw`, values are whole responses.
    #[pyo3(signature = (ready, raw))]
    fn take<'py>(&self, ready: &Bound<'py, PyList>, raw: bool) -> EntryResult<'py> {
        let py = ready.py();
        run_entry(py, || {
            let new_items = PyList::empty(py);
            let mut result_count = 0;
            for event in self.take_events()?.into_iter().rev() {
                match event {
                    Event::Result(result) => {
                        new_items.append(result.into_bulk_result(py, self.body_model, raw)?)?;
                        result_count += 1;
                    }
                    Event::Resolve(request) => new_items.append(Bound::new(py, request)?)?,
                }
            }
            ready.set_slice(0, 0, &new_items)?;
            self.shared.state.lock().in_flight_count -= result_count;
            Ok(())
        })
    }

    /// Blocks the calling thread until there is something to take, but at most for the poll interval.
    fn wait<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let process_check = self.shared.check_process();
        if process_check.is_ok() {
            gil::release(py, || {
                drop(self.shared.state.wait_briefly(Shared::must_wait));
            });
        }
        run_entry(py, || process_check)
    }

    /// Resolves the future when there is something to take. The mailbox must belong to the future's event loop.
    fn notify<'py>(&self, mailbox: &Bound<'py, Mailbox>, future: Py<PyAny>) -> EntryResult<'py> {
        let py = mailbox.py();
        run_entry(py, || {
            self.shared.check_process()?;
            let state = &self.shared.state;
            state.resolve_unless(mailbox.get(), future, Shared::must_wait);
            Ok(())
        })
    }

    /// True if all calls have ended and the ledger is closed.
    #[getter]
    fn has_ended(&self) -> bool {
        self.shared.check_process().is_err() || self.shared.state.lock().has_ended
    }

    /// Resolves the future when all calls have ended and the ledger is closed.
    fn notify_end<'py>(
        &self,
        mailbox: &Bound<'py, Mailbox>,
        future: Py<PyAny>,
    ) -> EntryResult<'py> {
        let py = mailbox.py();
        run_entry(py, || {
            self.shared.check_process()?;
            let state = &self.shared.state;
            state.resolve_unless(mailbox.get(), future, |state| !state.has_ended);
            Ok(())
        })
    }

    /// Blocks until all calls have ended and the ledger is closed, but at most for the poll interval. Returns `has_ended`.
    fn wait_for_end<'py>(&self, py: Python<'py>) -> EntryResult<'py> {
        let state = &self.shared.state;
        let has_ended = self.shared.check_process().is_err()
            || gil::release(py, || {
                state.wait_briefly(|state| !state.has_ended).has_ended
            });
        run_entry(py, || Ok(has_ended))
    }

    /// Aborts the calls in flight. There will be no more results.
    fn close(&self) {
        self.shared.abort();
    }
}

impl Drop for BulkCalls {
    fn drop(&mut self) {
        self.close();
    }
}
