//! The task of a bulk job. It sends calls on a background thread, a bounded number at a time, so that responses arrive while
//! Python code works on earlier results.

use std::{collections::VecDeque, future::ready, sync::Arc};

use dealkit::{
    RawResponse,
    bulk::{BulkOperation, InFlight, JobState},
};
use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::Notify;

use super::inputs::{Input, Inputs};
use crate::{
    calls::{
        resolve_requests::{ResolveRequest, ResolveRequests, next_request},
        runtime::{self, PerProcess, Slot},
        shared_state::SharedState,
    },
    models::call_result::ItemResult,
    python::failure::{Failure, Result},
};

/// State that the Python object and the task of a job share.
pub(super) struct Shared {
    pub(super) state: SharedState<State>,
    /// Notified when Python code has added inputs or has cancelled the job.
    pub(super) inputs_changed: Notify,
    pub(super) job: JobState,
    /// Aborts the task. Per process, because a forked child must not abort its parent's task.
    abort_handle: PerProcess<AbortHandle>,
}

#[derive(Default)]
pub(super) struct State {
    /// Inputs that the task has not taken yet.
    pub(super) inputs: Inputs,
    /// True if the job is being cancelled. It then accepts no inputs.
    pub(super) is_cancelled: bool,
    /// Number of inputs that Python code has added so far.
    pub(super) pushed_count: usize,
    /// Number of inputs whose results have not been taken.
    pub(super) in_flight_count: usize,
    pub(super) events: VecDeque<Event>,
    /// True if the task has ended, and the ledger is closed.
    pub(super) has_ended: bool,
}

/// An event that Python code must handle.
pub(super) enum Event {
    Result(Box<ItemResult>),
    Resolve(ResolveRequest),
}

impl Shared {
    /// True if Python code has nothing to do and must wait.
    pub(super) fn must_wait(state: &State) -> bool {
        state.events.is_empty() && !state.has_ended
    }

    /// Fails in a forked child, because the job belongs to the parent process.
    pub(super) fn check_process(&self) -> Result<()> {
        self.abort_handle.with(|_| ()).ok_or_else(|| {
            Failure::Runtime(
                "the calls in flight here belong to another process, from which this one was forked"
                    .to_owned(),
            )
        })
    }

    /// Aborts the task. There will be no more results.
    pub(super) fn abort(&self) {
        self.abort_handle.with(|handle| handle.abort());
    }
}

/// Starts the task of a job. `convert_input` converts an input to the job's type of inputs.
pub(super) fn start<O>(
    slot: Slot,
    in_flight: InFlight<O>,
    convert_input: fn(Input) -> Option<O::Input>,
    resolve_requests: Option<ResolveRequests>,
) -> Result<Arc<Shared>>
where
    O: BulkOperation<Value = RawResponse, Item: Into<ItemResult>>,
{
    let background = runtime::get_background_runtime(slot)?;
    let (abort_handle, abort_registration) = AbortHandle::new_pair();
    let shared = Arc::new(Shared {
        state: SharedState::new(State::default(), background.clone()),
        inputs_changed: Notify::new(),
        job: in_flight.job(),
        abort_handle: PerProcess::from_value(abort_handle),
    });
    let guard = EndGuard(Arc::clone(&shared));
    let task = run_task(in_flight, convert_input, resolve_requests, guard);
    background.spawn(Abortable::new(task, abort_registration));
    Ok(shared)
}

/// Records the end of the task when it is dropped, even if the task was aborted or has panicked.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.state.notify_all();
    }
}

/// Sends the calls of a job until the job is cancelled.
async fn run_task<O>(
    in_flight: InFlight<O>,
    convert_input: fn(Input) -> Option<O::Input>,
    mut resolve_requests: Option<ResolveRequests>,
    guard: EndGuard,
) where
    O: BulkOperation<Value = RawResponse, Item: Into<ItemResult>>,
{
    let shared = Arc::clone(&guard.0);
    // A local variable, which is dropped before the parameter `guard`: the calls end before their end is recorded.
    let mut in_flight = in_flight;
    let mut must_notify = false;
    loop {
        let is_cancelled = {
            // Python code limits the number of inputs.
            let mut state = shared.state.lock();
            for (input, observer) in state.inputs.drain(..) {
                if let Some(input) = convert_input(input) {
                    in_flight.push_with(input, |call| observer.send(call));
                }
            }
            state.is_cancelled
        };
        tokio::select! {
            biased;
            () = ready(()), if is_cancelled => {
                let results = in_flight.cancel().await.into_iter();
                let events = results.map(|result| Event::Result(Box::new(result.into())));
                shared.state.lock().events.extend(events);
                shared.state.notify_all();
                // Closes the ledger before the task ends.
                in_flight.close().await;
                return;
            }
            Some(result) = in_flight.next(), if !in_flight.is_empty() => {
                let event = Event::Result(Box::new(result.into()));
                shared.state.lock().events.push_back(event);
                must_notify = true;
            }
            Some(request) = next_request(&mut resolve_requests) => {
                shared.state.lock().events.push_back(Event::Resolve(request));
                must_notify = true;
            }
            // Reached only when no more events are ready, because waking a waiter costs more than handling a deal.
            () = ready(()), if must_notify => {
                shared.state.notify_all();
                must_notify = false;
            }
            () = shared.inputs_changed.notified() => {}
        }
    }
}
