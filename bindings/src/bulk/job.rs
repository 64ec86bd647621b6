//! Many calls: made on the background thread, a bounded number at a time, so that results come in while the caller works on
//! those it has.

use std::{collections::VecDeque, future::ready, sync::Arc};

use dealkit::{
    RawResponse,
    bulk::{BulkOperation, InFlight, JobState},
};
use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::Notify;

use super::{
    inputs::{Input, Inputs},
    questions::{Asked, Question},
};
use crate::{
    calls::{
        awaited::Awaited,
        runtime::{self, PerProcess, Slot},
    },
    models::item::Item,
    python::failure::{Failure, Outcome},
};

/// What the caller and the task that makes the calls have in common.
pub(super) struct Shared {
    /// Notified when there is something for the caller: see [`is_quiet`](Self::is_quiet).
    pub(super) state: Awaited<State>,
    pub(super) changed: Notify,
    pub(super) job: JobState,
    /// Ends the task. The child of a fork must not end its parent's.
    task: PerProcess<AbortHandle>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) inputs: Inputs,
    /// Whether the calls in flight are being given up: nothing more may be pushed.
    pub(super) is_given_up: bool,
    pub(super) pushed: usize,
    /// How many of them have not been taken.
    pub(super) in_flight: usize,
    pub(super) items: VecDeque<Come>,
    pub(super) has_ended: bool,
}

pub(super) enum Come {
    Item(Box<Item>),
    /// An unresolved row about which the caller is asked.
    Question(Question),
}

impl Shared {
    /// Whether the caller has nothing to do, because nothing has come.
    pub(super) fn is_quiet(state: &State) -> bool {
        state.items.is_empty() && !state.has_ended
    }

    /// A failure in the child of a fork: everything here is its parent's.
    pub(super) fn check(&self) -> Outcome<()> {
        self.task.with(|_| ()).ok_or_else(|| {
            Failure::Runtime(
                "the calls in flight here belong to another process, from which this one was forked"
                    .to_owned(),
            )
        })
    }

    /// Ends the task that makes the calls: nobody wants their results any more.
    pub(super) fn end(&self) {
        self.task.with(AbortHandle::abort);
    }
}

/// Begins to make calls on the background thread. `take` tells the inputs of its kind from others, of which there are none.
pub(super) fn start<O>(
    slot: Slot,
    in_flight: InFlight<O>,
    take: fn(Input) -> Option<O::Input>,
    asked: Option<Asked>,
) -> Outcome<Arc<Shared>>
where
    O: BulkOperation<Value = RawResponse, Item: Into<Item>>,
{
    let background = runtime::background(slot)?;
    let (task, registration) = AbortHandle::new_pair();
    let shared = Arc::new(Shared {
        state: Awaited::new(State::default(), background.clone()),
        changed: Notify::new(),
        job: in_flight.job(),
        task: PerProcess::of(task),
    });
    let ending = Ending(Arc::clone(&shared));
    let made = make(in_flight, take, asked, ending);
    background.spawn(Abortable::new(made, registration));
    Ok(shared)
}

/// Records that no more results will come, whatever the reason: the calls are gone, and their ledger is closed.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.state.tell();
    }
}

/// Makes the calls whose inputs are pushed, until they are given up.
async fn make<O>(
    in_flight: InFlight<O>,
    take: fn(Input) -> Option<O::Input>,
    mut asked: Option<Asked>,
    ending: Ending,
) where
    O: BulkOperation<Value = RawResponse, Item: Into<Item>>,
{
    let shared = Arc::clone(&ending.0);
    // Dropped before the end is reported.
    let mut in_flight = in_flight;
    let mut has_news = false;
    loop {
        let is_given_up = {
            // How many there are is up to the caller.
            let mut state = shared.state.lock();
            for (input, observer) in state.inputs.drain(..) {
                if let Some(input) = take(input) {
                    in_flight.push_with(input, |call| observer.send(call));
                }
            }
            state.is_given_up
        };
        let question = async {
            match &mut asked {
                Some(asked) => asked.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            () = ready(()), if is_given_up => {
                let left = in_flight.cancel().await;
                let left = left.into_iter();
                let left = left.map(|item| Come::Item(Box::new(item.into())));
                shared.state.lock().items.extend(left);
                shared.state.tell();
                // The end of the task is then also that of the ledger.
                in_flight.close().await;
                return;
            }
            Some(item) = in_flight.next(), if !in_flight.is_empty() => {
                shared.state.lock().items.push_back(Come::Item(Box::new(item.into())));
                has_news = true;
            }
            Some(question) = question => {
                shared.state.lock().items.push_back(Come::Question(question));
                has_news = true;
            }
            // All news is reported at once: waking a waiter costs more than handling a deal.
            () = ready(()), if has_news => {
                shared.state.tell();
                has_news = false;
            }
            () = shared.changed.notified() => {}
        }
    }
}
