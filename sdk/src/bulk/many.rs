//! Jobs of many calls: their configuration, the inputs that are left, the calls in flight, and the results.

use std::{
    future::{Future, poll_fn},
    mem,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    vec,
};

use futures_util::{FutureExt as _, Stream, StreamExt, future::BoxFuture};
use http::StatusCode;
use tokio::sync::Semaphore;
#[cfg(feature = "ledger")]
use tokio::sync::SemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    bulk::window::{Indexed, Window},
    calls::{
        call::{Async, Call},
        options::CallOptions,
    },
    error::{call::Error, kind::ErrorKind},
    value::opaque_debug,
};

/// The operation that a [`Bulk`] calls for each input: [`CreateOperation`](crate::bulk::CreateOperation) or
/// [`RetrieveOperation`](crate::bulk::RetrieveOperation).
pub trait BulkOperation: sealed::Sealed + Unpin + Send + 'static {
    /// The input of a call: an identifier or a row.
    type Input: Send + 'static;
    /// The value that a call returns.
    type Value;
    /// The result for one input: a [`Retrieved`](crate::Retrieved) or a [`Creation`](crate::Creation).
    type Item: Send + 'static;
    #[doc(hidden)]
    type Running: Future<Output = Self::Item> + Unpin + Send + 'static;

    /// Returns the number of inputs to hold at a time, so that `concurrency` calls can be in flight.
    #[doc(hidden)]
    fn capacity(&self, concurrency: usize) -> usize {
        concurrency
    }

    /// Starts the call for the input with this index. `send` sends the call. It is not called if the input needs no request.
    #[doc(hidden)]
    fn start<F>(
        &mut self,
        index: usize,
        input: Self::Input,
        options: &CallOptions,
        job: &JobState,
        send: impl FnOnce(Call<Self::Value>) -> F + Send + 'static,
    ) -> Self::Running
    where
        F: Future<Output = Result<Self::Value, Error>> + Send + 'static;

    /// Returns the item of an input that is not sent because of an error.
    #[doc(hidden)]
    fn fail(index: usize, input: Self::Input, error: Error) -> Self::Item;

    /// Cancels calls, and returns the results that are known, each with its index.
    #[doc(hidden)]
    fn cancel(
        &mut self,
        running: Indexed<Self::Running>,
    ) -> impl Future<Output = Indexed<Self::Item>> + Send;

    /// Closes the ledger, if the operation has one. After that, no call can start.
    #[doc(hidden)]
    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Restricts [`BulkOperation`] to this crate.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The state that the calls of a job share: whether the job has stopped, and the permits for rows in flight.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct JobState(Arc<SharedState>);

#[derive(Debug)]
struct SharedState {
    has_stopped: AtomicBool,
    /// Permits for rows in flight. A job with a ledger holds more rows than there are permits.
    #[cfg_attr(
        not(feature = "ledger"),
        expect(dead_code, reason = "there is no ledger")
    )]
    permits: Semaphore,
    /// The index of the row whose service key was rejected, and the status of the response, if the row was sent.
    rejected_row: OnceLock<(usize, Option<StatusCode>)>,
}

impl JobState {
    pub(crate) fn new(concurrency: NonZeroUsize) -> Self {
        let permits = concurrency.get().min(Semaphore::MAX_PERMITS);
        Self(Arc::new(SharedState {
            has_stopped: AtomicBool::new(false),
            permits: Semaphore::new(permits),
            rejected_row: OnceLock::new(),
        }))
    }

    pub(crate) fn stop(&self) {
        self.0.has_stopped.store(true, Ordering::Release);
    }

    /// Returns whether the job takes no more inputs, because they would fail.
    pub fn has_stopped(&self) -> bool {
        self.0.has_stopped.load(Ordering::Acquire)
    }

    /// Waits for the permit of a row in flight.
    #[cfg(feature = "ledger")]
    pub(crate) async fn acquire_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.0.permits.acquire().await.ok()
    }

    /// Records the error of the row with this index, if the error means that every later row would fail: the service has
    /// rejected the service key, or there is no key.
    pub(crate) fn record_error(&self, index: usize, error: &Error) {
        let has_no_key = error.kind() == ErrorKind::ServiceKey;
        if has_no_key || error.is_authentication() || error.is_permission_denied() {
            // Only the first such row is reported.
            let _ = self.0.rejected_row.set((index, error.status()));
        }
    }

    /// Stops the job if the service has rejected the service key, and returns the error of the row that would be sent next.
    pub(crate) fn stop_if_rejected(&self) -> Option<Error> {
        let error = self.0.rejected_row.get().copied().map(Error::stopped);
        error.inspect(|_| self.stop())
    }
}

/// A job of many calls: configure it, then read its results. [`RetrieveMany`](crate::RetrieveMany) and
/// [`CreateMany`](crate::CreateMany) are its two kinds.
///
/// `I` yields the inputs, `O` is the operation to call for each, and `M` is the call style: async, where the results are a
/// stream, or [blocking](crate::blocking), where they are an iterator.
#[must_use = "nothing is sent until the results are read"]
pub struct Bulk<I, O, M = Async> {
    inputs: I,
    concurrency: NonZeroUsize,
    is_ordered: bool,
    options: CallOptions,
    pub(crate) operation: O,
    pub(crate) mode: M,
}

impl<I, O, M> Bulk<I, O, M> {
    pub(crate) fn new(inputs: I, concurrency: usize, operation: O, mode: M) -> Self {
        let bulk = Self {
            inputs,
            concurrency: NonZeroUsize::MIN,
            is_ordered: true,
            options: CallOptions::new(),
            operation,
            mode,
        };
        bulk.concurrency(concurrency)
    }

    #[cfg(feature = "ledger")]
    pub(crate) fn map_inputs<J>(self, map: impl FnOnce(I) -> J) -> Bulk<J, O, M> {
        Bulk {
            inputs: map(self.inputs),
            concurrency: self.concurrency,
            is_ordered: self.is_ordered,
            options: self.options,
            operation: self.operation,
            mode: self.mode,
        }
    }

    pub(crate) fn map_operation<P>(self, map: impl FnOnce(O) -> P) -> Bulk<I, P, M> {
        Bulk {
            inputs: self.inputs,
            concurrency: self.concurrency,
            is_ordered: self.is_ordered,
            options: self.options,
            operation: map(self.operation),
            mode: self.mode,
        }
    }

    /// Sets the maximum number of calls in flight, at least one. Default: 16 for deals, 32 for agents. A result that has
    /// arrived also counts while it waits for an earlier result, which limits memory. With a
    /// [ledger](crate::CreateMany::ledger), the job holds twice as many rows: some are looked up or recorded while others are
    /// in flight.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = NonZeroUsize::new(concurrency).unwrap_or(NonZeroUsize::MIN);
        self
    }

    /// Yields the results as they arrive, instead of in the order of the inputs.
    pub fn unordered(mut self) -> Self {
        self.is_ordered = false;
        self
    }

    /// Sets options of each call, such as its timeout; options that are not set stay unchanged.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.options = self.options.with(options);
        self
    }
}

impl<I, O: BulkOperation, M> Bulk<I, O, M> {
    /// Returns the inputs, and the [`InFlight`] to which to push inputs one at a time. For callers that do not have all inputs
    /// as an iterator.
    pub fn into_parts(self) -> (I, InFlight<O>) {
        let in_flight = InFlight {
            options: self.options,
            window: Window::new(self.is_ordered),
            job: JobState::new(self.concurrency),
            operation: self.operation,
        };
        (self.inputs, in_flight)
    }

    /// Returns the maximum number of inputs to hold at a time. An input is held from its `push` until its result is returned.
    #[doc(hidden)]
    pub fn capacity(&self) -> usize {
        self.operation.capacity(self.concurrency.get())
    }

    /// Splits the job as [`into_parts`](Self::into_parts) does, but limits the inputs to the job's capacity.
    pub(crate) fn into_limited_parts(self) -> (Inputs<I>, InFlight<O>) {
        let capacity = self.capacity();
        let (inputs, in_flight) = self.into_parts();
        let inputs = Inputs {
            remaining: Some(inputs),
            capacity,
            job: in_flight.job.clone(),
        };
        (inputs, in_flight)
    }
}

impl<I, O: BulkOperation> Bulk<I, O> {
    pub(crate) fn into_results(self) -> Results<I, O> {
        let (inputs, in_flight) = self.into_limited_parts();
        let handle = CancelHandle::new(in_flight.job());
        Results {
            inputs,
            cancelled: Box::pin(handle.token.clone().cancelled_owned()),
            handle,
            calls: Calls::Running(in_flight),
        }
    }
}

opaque_debug!(Bulk<I, O, M>);

/// The inputs that a job has not taken yet.
pub(crate) struct Inputs<I> {
    /// `None` once the iterator has ended, so that it is not called again.
    remaining: Option<I>,
    capacity: usize,
    job: JobState,
}

impl<I: Iterator> Inputs<I> {
    /// Returns the next input, if there is one and fewer inputs than the capacity are held.
    pub(crate) fn next(&mut self, held_count: usize) -> Option<I::Item> {
        if held_count >= self.capacity {
            return None;
        }
        if self.job.has_stopped() {
            self.end_iteration();
        }
        let next_input = self.remaining.as_mut()?.next();
        if next_input.is_none() {
            self.end_iteration();
        }
        next_input
    }
}

impl<I> Inputs<I> {
    pub(crate) fn end_iteration(&mut self) {
        self.remaining = None;
    }
}

/// Stops or cancels a job from another task or thread, such as a handler of Ctrl-C, while the job's results are being read. Made by
/// [`CreateStream::cancel_handle`](crate::CreateStream::cancel_handle),
/// [`RetrieveStream::cancel_handle`](crate::RetrieveStream::cancel_handle) and, with the blocking client, `Iter::cancel_handle`.
///
/// [`stop`](Self::stop) lets the calls in flight complete, which leaves no outcome unknown. [`cancel`](Self::cancel) abandons them:
/// the results then are the results that `cancel` of the stream or iterator would return, and end. Every row that was taken is
/// returned, with its known outcome.
///
/// A program should stop on the first Ctrl-C, and cancel on the second:
///
/// ```no_run
/// # async fn example(client: dealkit::Client, rows: Vec<dealkit::CreateAgent>) {
/// let mut creations = client.agents().create_many(rows).stream();
/// let handle = creations.cancel_handle();
/// tokio::spawn(async move {
///     if tokio::signal::ctrl_c().await.is_ok() {
///         eprintln!("waiting for the rows in flight; press Ctrl-C again to abandon them");
///         handle.stop();
///     }
///     if tokio::signal::ctrl_c().await.is_ok() {
///         handle.cancel();
///     }
/// });
/// while let Some(creation) = creations.next().await {
///     println!("row {}: {}", creation.index, creation.outcome()); // `unknown`: look before you send it again
/// }
/// # }
/// ```
///
/// With the blocking client, on a thread:
#[cfg_attr(feature = "blocking", doc = "```no_run")]
#[cfg_attr(not(feature = "blocking"), doc = "```ignore")]
/// use dealkit::{CreateAgent, blocking::Client};
///
/// # fn on_ctrl_c(handler: impl FnMut() + Send + 'static) {} // such as ctrlc::set_handler
/// # fn example(client: Client, rows: Vec<CreateAgent>) {
/// let creations = client.agents().create_many(rows).into_iter();
/// let handle = creations.cancel_handle();
/// on_ctrl_c(move || match handle.is_stopped() {
///     false => handle.stop(),
///     true => handle.cancel(),
/// });
/// for creation in creations {
///     println!("row {}: {}", creation.index, creation.outcome());
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias("abort", "shutdown", "ctrl-c", "interrupt"))]
pub struct CancelHandle {
    job: JobState,
    token: CancellationToken,
}

impl CancelHandle {
    pub(crate) fn new(job: JobState) -> Self {
        Self {
            job,
            token: CancellationToken::new(),
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Takes no more inputs. The calls in flight complete, and their results still arrive.
    pub fn stop(&self) {
        self.job.stop();
    }

    /// Returns true if the job takes no more inputs, because it was stopped or cancelled, or because later calls would fail.
    pub fn is_stopped(&self) -> bool {
        self.job.has_stopped()
    }

    /// Cancels the calls in flight, and takes no more inputs. Does nothing if the job has ended or was cancelled.
    pub fn cancel(&self) {
        self.job.stop();
        self.token.cancel();
    }
}

/// The results of a job, one for each input: the common part of [`CreateStream`](crate::CreateStream) and
/// [`RetrieveStream`](crate::RetrieveStream).
pub(crate) struct Results<I, O: BulkOperation> {
    pub(crate) inputs: Inputs<I>,
    handle: CancelHandle,
    /// Completes when the handle cancels the job.
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    calls: Calls<O>,
}

/// The calls of a job, from start to end.
enum Calls<O: BulkOperation> {
    Running(InFlight<O>),
    /// The calls are being cancelled.
    Cancelling(BoxFuture<'static, Cancelled<O>>),
    Cancelled(Cancelled<O>),
    /// All results were returned, and the ledger is closed.
    Ended,
}

/// A job whose calls were cancelled, and their known results.
struct Cancelled<O: BulkOperation> {
    in_flight: InFlight<O>,
    items: vec::IntoIter<O::Item>,
}

/// Results are never pinned within this value.
impl<I: Unpin, O: BulkOperation> Unpin for Results<I, O> {}

impl<I, O: BulkOperation> Results<I, O> {
    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        self.handle.clone()
    }

    pub(crate) async fn cancel(mut self) -> Vec<O::Item> {
        self.handle.cancel();
        let mut items = Vec::new();
        while let Some(item) = poll_fn(|context| self.poll_calls(context)).await {
            items.push(item);
        }
        items
    }

    /// Returns the next result of the calls in flight, or the known results once they are cancelled.
    fn poll_calls(&mut self, context: &mut Context<'_>) -> Poll<Option<O::Item>> {
        if matches!(self.calls, Calls::Running(_)) && self.cancelled.poll_unpin(context).is_ready()
        {
            self.inputs.end_iteration();
            if let Calls::Running(mut in_flight) = mem::replace(&mut self.calls, Calls::Ended) {
                let cancel_future = async move {
                    let items = in_flight.cancel().await.into_iter();
                    Cancelled { in_flight, items }
                };
                self.calls = Calls::Cancelling(cancel_future.boxed());
            }
        }
        if let Calls::Cancelling(cancel_future) = &mut self.calls {
            self.calls = Calls::Cancelled(ready!(cancel_future.poll_unpin(context)));
        }
        let (next_item, in_flight) = match &mut self.calls {
            Calls::Running(in_flight) => (ready!(in_flight.poll_next_unpin(context)), in_flight),
            Calls::Cancelled(cancelled) => (cancelled.items.next(), &mut cancelled.in_flight),
            Calls::Cancelling(_) | Calls::Ended => return Poll::Ready(None),
        };
        if next_item.is_none() && self.inputs.remaining.is_none() {
            // The ledger is closed before the stream ends, so that the next job or a forked child process can open the ledger.
            ready!(in_flight.operation.poll_close(context));
        }
        Poll::Ready(next_item)
    }
}

impl<I, O> Stream for Results<I, O>
where
    I: Iterator<Item: Into<O::Input>> + Unpin,
    O: BulkOperation,
{
    type Item = O::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<O::Item>> {
        let this = &mut *self;
        if let Calls::Running(in_flight) = &mut this.calls {
            while let Some(input) = this.inputs.next(in_flight.len()) {
                in_flight.push(input);
            }
        }
        this.poll_calls(context)
    }
}

/// The calls in flight of a job, for callers that push inputs one at a time instead of passing an iterator; see
/// [`Bulk::into_parts`].
///
/// It is a stream that ends whenever no call is in flight, and resumes after the next `push`.
#[must_use = "nothing is sent until it is read"]
pub struct InFlight<O: BulkOperation> {
    options: CallOptions,
    window: Window<O::Running>,
    job: JobState,
    /// Declared after `window`, and so dropped after the calls in flight: even calls that are dropped record their outcomes in
    /// the ledger of the operation.
    operation: O,
}

impl<O: BulkOperation> InFlight<O> {
    /// Starts the call for an input. The caller limits the number of inputs.
    pub fn push(&mut self, input: impl Into<O::Input>) {
        self.push_with(input, |call| call.send());
    }

    /// Starts the call for an input, and sends it with `send`: with an extra header, for example, or within a span. `send` is
    /// not called for a row that is not sent.
    pub fn push_with<F>(
        &mut self,
        input: impl Into<O::Input>,
        send: impl FnOnce(Call<O::Value>) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<O::Value, Error>> + Send + 'static,
    {
        let index = self.window.pushed_count;
        let (options, job) = (&self.options, &self.job);
        let running = self
            .operation
            .start(index, input.into(), options, job, send);
        self.window.push(running);
    }

    /// Returns the next result, or `None` when no call is in flight.
    pub async fn next(&mut self) -> Option<O::Item> {
        StreamExt::next(self).await
    }

    /// Cancels the calls in flight. Returns, in order, the known results of all inputs that were pushed and not returned yet.
    ///
    /// A deal is returned only if its response had arrived and was waiting for earlier results. A row is always returned: if
    /// its response had arrived, with the agent or the error. Otherwise it has an error of kind `Cancelled`, whose outcome says
    /// how far the create got: `NotSent` or `Rejected` if there is certainly no agent, `Unknown` if there may be an agent, and
    /// `Succeeded` if the service confirmed the create but the agent was not received completely.
    ///
    /// On a Tokio runtime, this includes responses that have arrived since the stream was last read.
    ///
    /// With a [ledger](crate::CreateMany::ledger), this waits until the outcome of each row is recorded, without blocking the
    /// runtime. Await this future to its end, or the results are lost.
    pub async fn cancel(&mut self) -> Vec<O::Item> {
        let (mut items, running) = self.window.drain();
        items.extend(self.operation.cancel(running).await);
        items.into_values().collect()
    }

    /// Closes the job's ledger, if there is one, and waits until it is closed. After that, nothing can be pushed. For the
    /// bindings: a Python process may fork, and must not have a ledger open then.
    #[doc(hidden)]
    pub async fn close(&mut self) {
        poll_fn(|context| self.operation.poll_close(context)).await;
    }

    /// Returns the number of inputs that were pushed and whose results were not returned yet.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Returns whether no call is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the shared state of the job, for bindings, which take the inputs themselves.
    #[doc(hidden)]
    pub fn job(&self) -> JobState {
        self.job.clone()
    }
}

impl<O: BulkOperation> Stream for InFlight<O> {
    type Item = O::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<O::Item>> {
        self.window.poll_next_unpin(context)
    }
}

opaque_debug!(InFlight<O: BulkOperation>);
