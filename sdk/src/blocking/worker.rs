//! Iterator over the results of many calls, which a background thread makes.

use std::{
    future::poll_fn,
    io,
    panic::resume_unwind,
    sync::mpsc::{Receiver, RecvError, Sender, channel},
    task::Poll,
    thread::{self, JoinHandle},
};

use futures_util::StreamExt as _;
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel,
};
use tokio_util::sync::CancellationToken;

use crate::{
    blocking::Blocking,
    bulk::many::{Bulk, BulkOperation, CancelHandle, InFlight, Inputs},
    error::call::Error,
    value::opaque_debug,
};

/// Starts the thread that makes the calls. If the operating system does not start the thread, no call is made, and the result
/// of each input is an error of kind `Config`.
impl<I, O> IntoIterator for Bulk<I, O, Blocking>
where
    I: Iterator<Item: Into<O::Input>>,
    O: BulkOperation,
{
    type Item = O::Item;
    type IntoIter = Iter<I, O>;

    fn into_iter(self) -> Iter<I, O> {
        let mode = self.mode.clone();
        let (inputs, in_flight) = self.into_limited_parts();
        let cancel = CancelHandle::new(in_flight.job());
        let (sender, input_receiver) = unbounded_channel();
        let (events_sender, events) = channel();
        let token = cancel.token().clone();
        let run =
            move || drop(mode.run(make_calls(in_flight, input_receiver, events_sender, token)));
        Iter {
            inputs,
            in_flight: 0,
            cancel,
            sender: Some(sender),
            events,
            thread: thread::Builder::new().spawn(run).map(Some),
            taken_count: 0,
        }
    }
}

/// The results of a [`RetrieveMany`](super::RetrieveMany) or [`CreateMany`](super::CreateMany), one for each input.
///
/// A background thread makes the calls, so results arrive while the caller still works on earlier results. The thread ends when
/// the iterator is dropped. A [`CancelHandle`] cancels the job from another thread.
pub struct Iter<I, O: BulkOperation> {
    inputs: Inputs<I>,
    /// The number of inputs that were sent to the thread and whose results were not returned yet.
    in_flight: usize,
    cancel: CancelHandle,
    /// Sends inputs to the thread. `None` only while the iterator is being dropped.
    sender: Option<UnboundedSender<O::Input>>,
    events: Receiver<Event<O::Item>>,
    /// `None` once the thread was joined; an error if the thread was not started.
    thread: io::Result<Option<JoinHandle<()>>>,
    /// The number of inputs that were taken although the thread was not started.
    taken_count: usize,
}

/// An event of the background thread.
enum Event<T> {
    Item(T),
    /// The job was cancelled, and this many calls have no result.
    Cancelled(usize),
}

impl<I, O: BulkOperation> Iter<I, O> {
    /// See [`dealkit::CreateStream::stop`](crate::CreateStream::stop).
    pub fn stop(&mut self) {
        self.inputs.end_iteration();
    }

    /// See [`dealkit::CreateStream::cancel`](crate::CreateStream::cancel).
    pub fn cancel(mut self) -> Vec<O::Item> {
        self.cancel.cancel();
        let mut items = Vec::new();
        while self.in_flight > 0 {
            items.extend(self.wait_for_event());
        }
        items
    }

    /// Returns a handle that stops or cancels the job from another thread, while this thread waits for the next result.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    fn join_thread(&mut self) -> Option<thread::Result<()>> {
        let thread = self.thread.as_mut().ok()?.take();
        thread.map(JoinHandle::join)
    }

    /// Waits for the next event of the thread. Returns the result that the event contains, if any.
    fn wait_for_event(&mut self) -> Option<O::Item> {
        match self.events.recv() {
            Ok(Event::Item(item)) => {
                self.in_flight -= 1;
                return Some(item);
            }
            Ok(Event::Cancelled(calls)) => self.in_flight -= calls,
            // The thread has panicked.
            Err(RecvError) => {
                self.inputs.end_iteration();
                self.in_flight = 0;
                if let Some(Err(panic)) = self.join_thread() {
                    resume_unwind(panic);
                }
            }
        }
        None
    }
}

impl<I, O> Iterator for Iter<I, O>
where
    I: Iterator<Item: Into<O::Input>>,
    O: BulkOperation,
{
    type Item = O::Item;

    fn next(&mut self) -> Option<O::Item> {
        if let Err(error) = &self.thread {
            let (error, index) = (Error::thread_not_started(error), self.taken_count);
            let input = self.inputs.next(0)?;
            self.taken_count += 1;
            return Some(O::fail(index, input.into(), error));
        }
        loop {
            while let Some(input) = self.inputs.next(self.in_flight) {
                self.in_flight += 1;
                // Fails only if the thread has panicked, which `wait_for_event` reports.
                let _ = self.sender.as_ref().map(|sender| sender.send(input.into()));
            }
            if self.in_flight == 0 {
                return None;
            }
            if let Some(item) = self.wait_for_event() {
                return Some(item);
            }
        }
    }
}

/// Cancels the calls in flight. If there is a ledger, the outcomes of their rows are recorded after `drop` has returned. If no
/// call is in flight, the ledger is closed when `drop` returns.
impl<I, O: BulkOperation> Drop for Iter<I, O> {
    fn drop(&mut self) {
        self.sender = None;
        self.cancel.cancel();
        // A panic of the thread must not become a panic here.
        let _ = self.join_thread();
    }
}

opaque_debug!(Iter<I, O: BulkOperation>);

/// Makes a call for each input that the iterator sends. Once the job is cancelled, reports the known results of the calls in
/// flight, and of inputs that arrive later.
async fn make_calls<O: BulkOperation>(
    mut calls: InFlight<O>,
    mut input_receiver: UnboundedReceiver<O::Input>,
    events: Sender<Event<O::Item>>,
    cancellation: CancellationToken,
) {
    let calls_until_cancelled = poll_fn(|context| {
        loop {
            if cancellation.is_cancelled() {
                return Poll::Ready(());
            }
            match input_receiver.poll_recv(context) {
                Poll::Ready(Some(input)) => calls.push(input),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => match calls.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => drop(events.send(Event::Item(item))),
                    // If no call is in flight, waits for the next input.
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    });
    cancellation
        .run_until_cancelled(calls_until_cancelled)
        .await;
    loop {
        loop {
            match input_receiver.try_recv() {
                Ok(input) => calls.push(input),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    // The iterator was dropped. If all results were returned, the ledger is closed before the thread ends.
                    if calls.is_empty() {
                        calls.close().await;
                    }
                    return;
                }
            }
        }
        let count = calls.len();
        let known_items = calls.cancel().await;
        drop(events.send(Event::Cancelled(count - known_items.len())));
        for item in known_items {
            drop(events.send(Event::Item(item)));
        }
        match input_receiver.recv().await {
            Some(input) => calls.push(input),
            None => return,
        }
    }
}
