//! Many calls: made on the background thread, a bounded number at a time, so that results come in while the caller works on
//! those it has. Results wait for the caller one by one, or are read into the columns of a table.
//!
//! A library that pulls the batches of a table may hold the GIL, for which the background thread may be waiting. Such a
//! table has a thread of its own, and nothing here needs the GIL.

use std::{
    collections::VecDeque,
    future::{poll_fn, ready},
    io, process,
    sync::Arc,
    task::Poll,
    thread,
};

use dealkit::{InFlight, RawResponse, Work, arrow::DealBatchBuilder, ledger::LedgerError};
use futures_util::future::{AbortHandle, AbortRegistration, Abortable};
use tokio::{
    runtime::{Builder, Handle},
    sync::Notify,
};

use super::{
    columns::{Columns, End},
    inputs::{Input, Inputs},
    questions::{Asked, Questions},
};
use crate::{
    calls::awaited::Awaited,
    models::item::Item,
    python::failure::{Failure, Outcome},
};

/// What the caller and the task that makes the calls have in common.
pub(super) struct Shared {
    /// Notified when there is something for the caller: see [`is_quiet`](Self::is_quiet).
    pub(super) state: Awaited<State>,
    /// Notified when there is something for the task.
    pub(super) changed: Notify,
    pub(super) job: dealkit::Job,
    process: u32,
    /// Ends the task.
    task: AbortHandle,
}

pub(super) struct State {
    pub(super) inputs: Inputs,
    /// Whether no more inputs will come.
    pub(super) has_all: bool,
    /// Whether the calls in flight are being given up: nothing more may be sent.
    pub(super) is_given_up: bool,
    /// How many inputs were pushed in total.
    pub(super) pushed: usize,
    /// How many of them have not been taken.
    pub(super) in_flight: usize,
    /// How many rows were being recorded when the caller last asked.
    pub(super) recording: usize,
    pub(super) items: VecDeque<Item>,
    /// The rows in doubt about which the caller is asked.
    pub(super) questions: Questions,
    /// Whether the ledger could be opened, once that is known, until the caller has been told.
    pub(super) opened: Option<Result<(), LedgerError>>,
    /// The sink, if it is a table.
    pub(super) columns: Option<Columns>,
    /// Whether no more results will come.
    pub(super) has_ended: bool,
}

impl Shared {
    pub(super) fn new(
        columns: Option<Columns>,
        job: dealkit::Job,
        background: Handle,
    ) -> (Arc<Self>, AbortRegistration) {
        let state = State {
            inputs: Inputs::new(),
            has_all: false,
            is_given_up: false,
            pushed: 0,
            in_flight: 0,
            recording: 0,
            items: VecDeque::new(),
            questions: Questions::default(),
            opened: None,
            columns,
            has_ended: false,
        };
        let (task, registration) = AbortHandle::new_pair();
        let shared = Self {
            state: Awaited::new(state, background),
            changed: Notify::new(),
            job,
            process: process::id(),
            task,
        };
        (Arc::new(shared), registration)
    }

    /// Whether the caller has nothing to do: nothing has come, and there is no more room than it knows.
    pub(super) fn is_quiet(&self, state: &State) -> bool {
        let has_batch = |columns: &Columns| columns.wants_ids || !columns.batches.is_empty();
        state.items.is_empty()
            && !state.has_ended
            && state.opened.is_none()
            && (state.is_given_up || !state.questions.has_news())
            && !state.columns.as_ref().is_some_and(has_batch)
            && self.job.recording() <= state.recording
    }

    /// A failure in the child of a fork: everything here is its parent's.
    pub(super) fn check(&self) -> Outcome<()> {
        if self.process == process::id() {
            Ok(())
        } else {
            Err(Failure::Runtime(IN_PARENT.to_owned()))
        }
    }

    /// Ends the task that makes the calls: nobody wants their results any more. The child of a fork must not end its
    /// parent's.
    pub(super) fn end(&self) {
        if self.check().is_ok() {
            self.task.abort();
        }
    }
}

pub(super) const IN_PARENT: &str =
    "the calls in flight here belong to another process, from which this one was forked";

/// Begins to make calls, on the background thread or on a thread of their own. `take` tells the inputs of its kind from
/// others, of which there are none.
pub(super) fn start<W>(
    in_flight: InFlight<W>,
    (shared, registration): (&Arc<Shared>, AbortRegistration),
    take: fn(Input) -> Option<W::Input>,
    deals: Option<DealBatchBuilder>,
    asked: Option<Asked>,
    background: Option<Handle>,
) -> Outcome<()>
where
    W: Work<Value = RawResponse, Item: Into<Item>>,
{
    let calls = Calls {
        in_flight,
        take,
        deals,
        asked,
        ending: Ending(Arc::clone(shared)),
    };
    let work = Abortable::new(make(calls), registration);
    match background {
        Some(background) => drop(background.spawn(work)),
        None => on_own_thread(work).map_err(|error| {
            Failure::Runtime(format!(
                "the thread of the stream cannot be started: {error}"
            ))
        })?,
    }
    Ok(())
}

/// Works on a thread that does nothing else and ends with it.
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

/// Calls in flight, and the guard that reports their end: once they are gone and their ledger is closed.
struct Calls<W: Work> {
    in_flight: InFlight<W>,
    take: fn(Input) -> Option<W::Input>,
    /// The batch that is being filled, if the sink is a table.
    deals: Option<DealBatchBuilder>,
    /// Where the rows in doubt come from about which the caller is asked.
    asked: Option<Asked>,
    ending: Ending,
}

/// Records that no more results will come, whatever the reason.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let Some(columns) = &mut state.columns {
            columns.end();
        }
        state.has_ended = true;
        drop(state);
        self.0.state.tell();
    }
}

/// Makes the calls whose inputs are pushed, until there are no more, they are given up, or a table has failed.
async fn make<W>(mut calls: Calls<W>)
where
    W: Work<Value = RawResponse, Item: Into<Item>>,
{
    let shared = Arc::clone(&calls.ending.0);
    let mut has_news = false;
    let end = loop {
        let (is_news, is_given_up, has_all) = calls.send(&shared);
        has_news |= is_news;
        let recording = shared.job.recording();
        let (in_flight, asked) = (&mut calls.in_flight, &mut calls.asked);
        let question = async {
            match asked {
                Some(asked) => asked.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            () = ready(()), if is_given_up => {
                let left = in_flight.cancel().into_iter().map(Into::into);
                shared.state.lock().items.extend(left);
                break End::Cancelled;
            }
            Some(item) = in_flight.next(), if !in_flight.is_empty() => {
                match calls.add(&shared, item.into()) {
                    Ok(is_news) => has_news |= is_news,
                    Err(end) => break end,
                }
            }
            Some(question) = question => {
                shared.state.lock().questions.add(question);
                has_news = true;
            }
            // All news is reported at once: waking a waiter costs more than handling a deal.
            () = ready(()), if has_news => {
                shared.state.tell();
                has_news = false;
            }
            () = ready(()), if has_all && in_flight.is_empty() => {
                break calls.finish(&shared).err().unwrap_or(End::Whole);
            }
            // A response makes room while it is recorded.
            () = poll_fn(|_| match shared.job.recording() > recording {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }) => has_news = true,
            () = shared.changed.notified() => {}
        }
    };
    if let Some(columns) = &mut shared.state.lock().columns {
        columns.end = end;
    }
}

impl<W> Calls<W>
where
    W: Work<Value = RawResponse, Item: Into<Item>>,
{
    /// Sends as many as there is room for: without a table, the caller sees to that. Returns whether more inputs are newly
    /// wanted, whether the calls are given up, and whether every input was sent.
    fn send(&mut self, shared: &Shared) -> (bool, bool, bool) {
        let in_batch = self.deals.as_ref().map_or(0, DealBatchBuilder::len);
        let mut state = shared.state.lock();
        let State {
            inputs, columns, ..
        } = &mut *state;
        while columns
            .as_ref()
            .is_none_or(|columns| columns.has_room(self.in_flight.len(), in_batch))
            && let Some((input, observer)) = inputs.pop_front()
            && let Some(input) = (self.take)(input)
        {
            if let Some(columns) = columns {
                columns.sends(observer.is_there());
            }
            self.in_flight.push_with(input, |call| observer.send(call));
        }
        let (unsent, has_all) = (inputs.len(), state.has_all);
        let columns = state.columns.as_mut();
        let is_news = columns.is_some_and(|columns| columns.note_unsent(unsent, has_all));
        (is_news, state.is_given_up, has_all && unsent == 0)
    }

    /// Adds a result that has come; returns whether that is news: to a table, it is once a batch is full.
    fn add(&mut self, shared: &Shared, item: Item) -> Result<bool, End> {
        let Some(deals) = &mut self.deals else {
            shared.state.lock().items.push_back(item);
            return Ok(true);
        };
        let Item {
            index,
            id,
            result: Some(result),
            ..
        } = item
        else {
            return Ok(false); // Of deals there is always one.
        };
        let mut is_news = false;
        let read = match result {
            Ok(response) => {
                if !deals.has_room_for(response.body().len()) {
                    finish_batch(deals, shared)?;
                    is_news = true;
                }
                match deals.push_json_with(response.body(), response.unreadable()) {
                    Ok(skipped) => {
                        response.tell_skipped(&skipped);
                        Ok(())
                    }
                    Err(error) => Err(Arc::new(response.into_decode_error(error))),
                }
            }
            Err(error) => Err(error),
        };
        let mut is_full = false;
        if let Some(columns) = &mut shared.state.lock().columns {
            columns.take(index, id.unwrap_or_default(), read.err())?;
            is_full = deals.len() >= columns.batch_size;
        }
        if is_full {
            finish_batch(deals, shared)?;
        }
        Ok(is_news || is_full)
    }

    /// Makes a table whole.
    fn finish(&mut self, shared: &Shared) -> Result<(), End> {
        match &mut self.deals {
            Some(deals) => finish_batch(deals, shared),
            None => Ok(()),
        }
    }
}

/// Hands over the batch that is being filled, if there is anything in it.
fn finish_batch(deals: &mut DealBatchBuilder, shared: &Shared) -> Result<(), End> {
    if !deals.is_empty() {
        let batch = deals.finish();
        let batch = batch.map_err(|error| End::Broken(error.to_string()))?;
        if let Some(columns) = &mut shared.state.lock().columns {
            columns.batches.push_back(batch);
        }
    }
    Ok(())
}
