//! Many calls, a bounded number at a time: how they are configured, those in flight, and the stream of their results.
//! What is called for each input, and what is known of it afterwards, is a [`Work`].

use std::{
    future::{Future, poll_fn},
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt};
use http::StatusCode;
use tokio::sync::Semaphore;
#[cfg(feature = "ledger")]
use tokio::sync::SemaphorePermit;

use crate::{
    bulk::window::{Indexed, Window},
    calls::{
        call::{Async, Call},
        options::CallOptions,
    },
    error::{call::Error, kind::ErrorKind},
    value::opaque_debug,
};

/// What is called for each input of a [`Bulk`]: [`Retrieves`](crate::bulk::retrieve::Retrieves) or
/// [`Creates`](crate::bulk::create::Creates).
pub trait Work: sealed::Sealed + Unpin + Send + 'static {
    /// What a call is made from: an identifier, or a row.
    type Input: Send + 'static;
    /// What a call returns.
    type Value;
    /// What is known of an input in the end: a [`Retrieved`](crate::Retrieved) or a [`Creation`](crate::Creation).
    type Item: Send + 'static;
    #[doc(hidden)]
    type Running: Future<Output = Self::Item> + Unpin + Send + 'static;

    /// How many inputs are held so that this many calls can be in flight.
    #[doc(hidden)]
    fn held(&self, concurrency: usize) -> usize {
        concurrency
    }

    /// Begins with the input of this index. `send` sends the call; it is not called if nothing is to be sent.
    #[doc(hidden)]
    fn begin<F>(
        &mut self,
        index: usize,
        input: Self::Input,
        options: &CallOptions,
        job: &Job,
        send: impl FnOnce(Call<Self::Value>) -> F + Send + 'static,
    ) -> Self::Running
    where
        F: Future<Output = Result<Self::Value, Error>> + Send + 'static;

    /// Cancels calls, and returns what is known of each, if anything, with its index.
    #[doc(hidden)]
    fn give_up(
        &mut self,
        running: Indexed<Self::Running>,
    ) -> impl Future<Output = Indexed<Self::Item>> + Send;

    /// Releases what the calls needed, such as a ledger. No further call can begin.
    #[doc(hidden)]
    fn poll_end(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Only dealkit's own calls can be made in bulk.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// What the calls of a job have in common: whether, and for how many inputs, there is room.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Job(Arc<JobState>);

#[derive(Debug)]
struct JobState {
    has_stopped: AtomicBool,
    /// The places of rows with a ledger, of which more are held than are in flight.
    #[cfg_attr(
        not(feature = "ledger"),
        expect(dead_code, reason = "there is no ledger")
    )]
    places: Semaphore,
    /// The row because of which no further one is sent, and the status of its response, if it was sent.
    refused: OnceLock<(usize, Option<StatusCode>)>,
}

impl Job {
    pub(crate) fn new(concurrency: NonZeroUsize) -> Self {
        let places = concurrency.get().min(Semaphore::MAX_PERMITS);
        Self(Arc::new(JobState {
            has_stopped: AtomicBool::new(false),
            places: Semaphore::new(places),
            refused: OnceLock::new(),
        }))
    }

    pub(crate) fn stop(&self) {
        self.0.has_stopped.store(true, Ordering::Release);
    }

    /// Whether further inputs would only be refused, so that none is taken.
    pub fn has_stopped(&self) -> bool {
        self.0.has_stopped.load(Ordering::Acquire)
    }

    /// Waits until there is a place among the rows in flight, which is free again when this is dropped.
    #[cfg(feature = "ledger")]
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.0.places.acquire().await.ok()
    }

    /// Learns from the error of the row with this index whether the service refuses the key, or there is none.
    pub(crate) fn learn(&self, index: usize, error: &Error) {
        let has_no_key = error.kind() == ErrorKind::ServiceKey;
        if has_no_key || error.is_authentication() || error.is_permission_denied() {
            // Later ones change nothing.
            let _ = self.0.refused.set((index, error.status()));
        }
    }

    /// The error of a row that would be sent now, if the service has refused the key. It is the last one that is taken.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let refusal = self.0.refused.get().copied().map(Error::stopped);
        refusal.inspect(|_| self.stop())
    }
}

/// Many calls: a value to configure and then read; [`RetrieveMany`](crate::RetrieveMany) and
/// [`CreateMany`](crate::CreateMany) are its two kinds.
///
/// `I` yields the inputs, `W` is what is called for each, and `M` is how: awaited, as a [stream](Self::stream), or by the
/// [blocking client](crate::blocking), as an iterator.
#[must_use = "nothing is sent until the results are read"]
pub struct Bulk<I, W, M = Async> {
    inputs: I,
    concurrency: NonZeroUsize,
    is_ordered: bool,
    options: CallOptions,
    pub(crate) work: W,
    pub(crate) mode: M,
}

impl<I, W, M> Bulk<I, W, M> {
    pub(crate) fn new(inputs: I, concurrency: usize, work: W, mode: M) -> Self {
        let many = Self {
            inputs,
            concurrency: NonZeroUsize::MIN,
            is_ordered: true,
            options: CallOptions::new(),
            work,
            mode,
        };
        many.concurrency(concurrency)
    }

    pub(crate) fn map<V>(self, other: impl FnOnce(W) -> V) -> Bulk<I, V, M> {
        Bulk {
            inputs: self.inputs,
            concurrency: self.concurrency,
            is_ordered: self.is_ordered,
            options: self.options,
            work: other(self.work),
            mode: self.mode,
        }
    }

    /// How many calls are in flight at a time, at least one. Default: 16 for deals, 32 for agents. Results that have
    /// arrived and wait for their turn count too, which limits memory. With a [ledger](crate::CreateMany::ledger), twice as
    /// many rows are held, so that rows are looked up and recorded while others are in flight.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = NonZeroUsize::new(concurrency).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Yields the results as they arrive, instead of in the order of the inputs.
    pub fn unordered(mut self) -> Self {
        self.is_ordered = false;
        self
    }

    /// Sets options of each call, such as its timeout; others stay as they are.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = self.options.with(options);
        self
    }
}

impl<I, W: Work, M> Bulk<I, W, M> {
    /// The inputs, and the queue to push them to one at a time, for callers that do not have them all as an iterator.
    pub fn into_parts(self) -> (I, InFlight<W>) {
        let in_flight = InFlight {
            options: self.options,
            window: Window::new(self.is_ordered),
            job: Job::new(self.concurrency),
            work: self.work,
        };
        (self.inputs, in_flight)
    }

    /// How many inputs are to be pushed at a time, from when they are pushed until their result is handed over.
    #[doc(hidden)]
    pub fn held(&self) -> usize {
        self.work.held(self.concurrency.get())
    }

    /// The inputs, taken only while there is room for them, and the queue to push them to.
    pub(crate) fn into_queue(self) -> (Inputs<I>, InFlight<W>) {
        let held = self.held();
        let (inputs, in_flight) = self.into_parts();
        let inputs = Inputs {
            left: Some(inputs),
            held,
            job: in_flight.job.clone(),
        };
        (inputs, in_flight)
    }
}

impl<I, W: Work> Bulk<I, W> {
    /// Starts a stream; the first requests go out when it is first read.
    pub fn stream(self) -> BulkStream<I, W>
    where
        I: Iterator,
    {
        let (inputs, in_flight) = self.into_queue();
        BulkStream { inputs, in_flight }
    }
}

opaque_debug!(Bulk<I, W, M>);

pub(crate) struct Inputs<I> {
    /// `None` once the iterator has ended, so that it is not called again.
    left: Option<I>,
    held: usize,
    job: Job,
}

impl<I: Iterator> Inputs<I> {
    /// The next input, if there is one and there is room for it beside those that are held.
    pub(crate) fn next(&mut self, held: usize) -> Option<I::Item> {
        if held >= self.held {
            return None;
        }
        if self.job.has_stopped() {
            self.end();
        }
        let next = self.left.as_mut()?.next();
        if next.is_none() {
            self.end();
        }
        next
    }
}

impl<I> Inputs<I> {
    pub(crate) fn end(&mut self) {
        self.left = None;
    }
}

/// The results of a [`Bulk`], one for each input.
#[must_use = "nothing is sent until the stream is read"]
pub struct BulkStream<I, W: Work> {
    inputs: Inputs<I>,
    in_flight: InFlight<W>,
}

impl<I, W> BulkStream<I, W>
where
    I: Iterator<Item: Into<W::Input>> + Unpin,
    W: Work,
{
    /// The next result, or `None` after the last. The future is cancel safe: dropping it loses no result.
    pub async fn next(&mut self) -> Option<W::Item> {
        StreamExt::next(self).await
    }
}

impl<I, W: Work> BulkStream<I, W> {
    /// Takes no more inputs from the iterator. The results of those in flight still arrive.
    pub fn stop(&mut self) {
        self.inputs.end();
    }

    /// Cancels the calls in flight and returns, in order, what is known about the inputs that were taken from the
    /// iterator but whose results were not returned yet; see [`InFlight::cancel`].
    ///
    /// With a [ledger](crate::CreateMany::ledger), this waits until the outcome of each is recorded and the ledger is closed, without
    /// blocking the runtime. Await it to its end, or the results are lost.
    pub async fn cancel(mut self) -> Vec<W::Item> {
        let left = self.in_flight.cancel().await;
        self.in_flight.end().await;
        left
    }
}

impl<I, W> Stream for BulkStream<I, W>
where
    I: Iterator<Item: Into<W::Input>> + Unpin,
    W: Work,
{
    type Item = W::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<W::Item>> {
        let this = &mut *self;
        while let Some(input) = this.inputs.next(this.in_flight.len()) {
            this.in_flight.push(input);
        }
        let next = ready!(this.in_flight.poll_next_unpin(context));
        if next.is_none() && this.inputs.left.is_none() {
            // The next job, or the child of a fork, can then open the ledger.
            ready!(this.in_flight.work.poll_end(context));
        }
        Poll::Ready(next)
    }
}

opaque_debug!(BulkStream<I, W: Work>);

/// The calls in flight, from which a [`BulkStream`] takes its items. For callers that push inputs one at a time instead
/// of giving an iterator; see [`Bulk::into_parts`].
///
/// It is a stream that ends whenever nothing is in flight, and resumes after the next `push`.
#[must_use = "nothing is sent until it is read"]
pub struct InFlight<W: Work> {
    options: CallOptions,
    window: Window<W::Running>,
    job: Job,
    /// Declared after the calls in flight: they tell it how they ended, even when they are dropped.
    work: W,
}

impl<W: Work> InFlight<W> {
    /// Adds an input to those in flight. Limiting their number is up to the caller.
    pub fn push(&mut self, input: impl Into<W::Input>) {
        self.push_with(input, |call| call.send());
    }

    /// Adds an input to those in flight, and uses `send` to send its call: with an extra header, say, or within a span.
    /// `send` is not called for a row that is not sent.
    pub fn push_with<F>(
        &mut self,
        input: impl Into<W::Input>,
        send: impl FnOnce(Call<W::Value>) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<W::Value, Error>> + Send + 'static,
    {
        let index = self.window.pushed;
        let (options, job) = (&self.options, &self.job);
        let running = self.work.begin(index, input.into(), options, job, send);
        self.window.push(running);
    }

    /// The next result, or `None` when nothing is in flight.
    pub async fn next(&mut self) -> Option<W::Item> {
        StreamExt::next(self).await
    }

    /// Cancels the calls in flight and returns, in order, what is known about each input that was pushed and whose
    /// result was not returned yet.
    ///
    /// A deal comes back only if its response had arrived and was waiting for its turn. A row always comes back: if its
    /// response had arrived, with the agent or the error. Otherwise it has an error of kind `Cancelled`, whose outcome
    /// says how far the create got: `NotSent` or `Rejected` if there is certainly no agent, `Unknown` if there may be
    /// one, and `Succeeded` if the service confirmed it but the agent was still on its way.
    ///
    /// On a Tokio runtime, this includes responses that have arrived since the stream was last read.
    ///
    /// With a [ledger](crate::CreateMany::ledger), this waits until the outcome of each is recorded, without blocking the runtime. Await
    /// it to its end, or the results are lost.
    pub async fn cancel(&mut self) -> Vec<W::Item> {
        let (mut items, running) = self.window.empty();
        items.extend(self.work.give_up(running).await);
        items.into_values().collect()
    }

    /// Waits until a ledger is closed: for bindings, whose processes may fork. Nothing can be pushed after that.
    #[doc(hidden)]
    pub async fn end(&mut self) {
        poll_fn(|context| self.work.poll_end(context)).await;
    }

    /// How many inputs were pushed whose results were not returned yet.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says for how many further inputs there is room: for bindings, which take them elsewhere.
    #[doc(hidden)]
    pub fn job(&self) -> Job {
        self.job.clone()
    }
}

impl<W: Work> Stream for InFlight<W> {
    type Item = W::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<W::Item>> {
        self.window.poll_next_unpin(context)
    }
}

opaque_debug!(InFlight<W: Work>);
