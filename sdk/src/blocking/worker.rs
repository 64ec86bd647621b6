//! Many calls, on a background thread, as an iterator.

use std::{
    fmt,
    future::poll_fn,
    sync::mpsc::{Receiver, Sender, channel},
    task::Poll,
    thread::{self, JoinHandle},
};

use futures_util::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    blocking::Blocking,
    bulk::many::{Bulk, InFlight, Inputs, Work},
};

impl<I, W> IntoIterator for Bulk<I, W, Blocking>
where
    I: Iterator<Item: Into<W::Input>>,
    W: Work,
{
    type Item = W::Item;
    type IntoIter = Iter<I, W>;

    fn into_iter(self) -> Iter<I, W> {
        let mode = self.mode.clone();
        let (inputs, in_flight) = self.into_queue();
        Iter {
            inputs,
            worker: Worker::new(in_flight, mode),
        }
    }
}

/// The results of a [`RetrieveMany`](super::RetrieveMany) or [`CreateMany`](super::CreateMany), one for each input.
///
/// A background thread drives the calls in flight, so that results arrive while the caller works on earlier ones; it ends
/// with the iterator.
pub struct Iter<I, W: Work> {
    inputs: Inputs<I>,
    worker: Worker<W>,
}

impl<I, W: Work> Iter<I, W> {
    /// See [`dealkit::BulkStream::stop`](crate::BulkStream::stop).
    pub fn stop(&mut self) {
        self.inputs.end();
    }

    /// See [`dealkit::BulkStream::cancel`](crate::BulkStream::cancel).
    pub fn cancel(self) -> Vec<W::Item> {
        self.worker.cancel()
    }
}

impl<I, W> Iterator for Iter<I, W>
where
    I: Iterator<Item: Into<W::Input>>,
    W: Work,
{
    type Item = W::Item;

    fn next(&mut self) -> Option<W::Item> {
        loop {
            while let Some(input) = self.inputs.next(self.worker.out) {
                self.worker.push(input.into());
            }
            if let Some(item) = self.worker.next()? {
                return Some(item);
            }
        }
    }
}

impl<I, W: Work> fmt::Debug for Iter<I, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("in_flight", &self.worker.out)
            .finish_non_exhaustive()
    }
}

/// Drives the calls in flight of an iterator.
struct Worker<W: Work> {
    /// How many calls were pushed but not handed over.
    out: usize,
    state: WorkerState<W>,
}

enum WorkerState<W: Work> {
    /// On the calling thread: as long as nothing is in flight, or if the operating system refuses a thread.
    Caller(InFlight<W>, Blocking),
    /// On a thread of its own.
    Background {
        inputs: UnboundedSender<W::Input>,
        /// The results; `None` whenever there is room for more calls before the next one.
        items: Receiver<Option<W::Item>>,
        /// Returns what is left in flight once no more can be pushed.
        thread: JoinHandle<Option<(InFlight<W>, Blocking)>>,
    },
    /// The thread has panicked.
    Gone,
}

impl<W: Work> Worker<W> {
    fn new(calls: InFlight<W>, mode: Blocking) -> Self {
        Self {
            out: 0,
            state: WorkerState::Caller(calls, mode),
        }
    }

    /// Adds a call to those in flight.
    fn push(&mut self, input: W::Input) {
        self.out += 1;
        let mut state = match self.take() {
            WorkerState::Caller(calls, mode) => WorkerState::start(calls, mode),
            state => state,
        };
        match &mut state {
            WorkerState::Caller(calls, _) => calls.push(input),
            // If nobody receives it, `next` finds out why.
            WorkerState::Background { inputs, .. } => drop(inputs.send(input)),
            WorkerState::Gone => {}
        }
        self.state = state;
    }

    /// Waits for the next result of the calls in flight, if there are any, or until there is room for more calls.
    fn next(&mut self) -> Option<Option<W::Item>> {
        if self.out == 0 {
            return None;
        }
        match &mut self.state {
            WorkerState::Caller(calls, mode) => {
                self.out -= 1;
                return mode.run(calls.next()).ok().flatten().map(Some);
            }
            WorkerState::Background { items, .. } => {
                if let Ok(news) = items.recv() {
                    self.out -= usize::from(news.is_some());
                    return Some(news);
                }
            }
            WorkerState::Gone => {}
        }
        if let WorkerState::Background { thread, .. } = self.take() {
            joined(thread);
        }
        None
    }

    /// Gives up the calls: returns the results that have come but were not handed over, and what is known of the
    /// others.
    fn cancel(mut self) -> Vec<W::Item> {
        let (mut results, left) = match self.take() {
            WorkerState::Caller(calls, mode) => (Vec::new(), Some((calls, mode))),
            WorkerState::Background {
                inputs,
                items,
                thread,
            } => {
                drop(inputs);
                let left = joined(thread);
                (items.into_iter().flatten().collect(), left)
            }
            WorkerState::Gone => (Vec::new(), None),
        };
        if let Some((mut calls, mode)) = left {
            // Runs on the runtime, because responses may have come.
            let finished = mode.run(async { calls.cancel() });
            results.extend(finished.unwrap_or_default());
        }
        results
    }

    fn take(&mut self) -> WorkerState<W> {
        std::mem::replace(&mut self.state, WorkerState::Gone)
    }
}

/// Gives up the calls in flight, and closes a ledger, before it returns.
impl<W: Work> Drop for Worker<W> {
    fn drop(&mut self) {
        if let WorkerState::Background { inputs, thread, .. } = self.take() {
            drop(inputs);
            // The thread may have panicked; dropping the worker must not panic as well.
            let _ = thread.join();
        }
    }
}

impl<W: Work> WorkerState<W> {
    fn start(calls: InFlight<W>, mode: Blocking) -> Self {
        let (inputs, pushed) = unbounded_channel();
        let (results, items) = channel();
        // The thread receives the calls only once it runs, so that they are not lost if the operating
        // system refuses a thread.
        let (hand_over, handed_over) = channel::<(InFlight<W>, Blocking)>();
        let work = move || {
            let (mut calls, mode) = handed_over.recv().ok()?;
            mode.run(make(&mut calls, pushed, results)).ok()?;
            Some((calls, mode))
        };
        match thread::Builder::new()
            .name("dealkit".to_owned())
            .spawn(work)
        {
            Ok(thread) => {
                let _ = hand_over.send((calls, mode));
                Self::Background {
                    inputs,
                    items,
                    thread,
                }
            }
            Err(_) => Self::Caller(calls, mode),
        }
    }
}

/// The result of a thread; a panic is propagated.
fn joined<T>(thread: JoinHandle<T>) -> T {
    match thread.join() {
        Ok(output) => output,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Makes the calls that are pushed, until no more can be pushed.
async fn make<W: Work>(
    calls: &mut InFlight<W>,
    mut pushed: UnboundedReceiver<W::Input>,
    results: Sender<Option<W::Item>>,
) {
    let job = calls.job();
    poll_fn(|context| {
        loop {
            let recording = job.recording();
            match pushed.poll_recv(context) {
                Poll::Ready(Some(input)) => calls.push(input),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => match calls.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => drop(results.send(Some(item))),
                    // If nothing is in flight, wait for the next push.
                    Poll::Ready(None) | Poll::Pending => {
                        if job.recording() > recording {
                            drop(results.send(None));
                        }
                        return Poll::Pending;
                    }
                },
            }
        }
    })
    .await;
}
