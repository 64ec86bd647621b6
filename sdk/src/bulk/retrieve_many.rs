//! The retrieval of many deals, a limited number at a time.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture};

use crate::{
    bulk::{
        many::{Bulk, BulkOperation, CancelHandle, JobState, Results, sealed},
        window::Indexed,
    },
    calls::{
        call::{Async, Call},
        deals::Deals,
        options::CallOptions,
        response::RawResponse,
    },
    error::call::Error,
    model::Deal,
    value::opaque_debug,
};

/// The default number of calls in flight.
const DEFAULT_CONCURRENCY: usize = 16;

/// A job that retrieves many deals: configure it, then turn it into a [stream](RetrieveMany::stream).
///
/// The iterator is consumed only as fast as you take results, so it may be infinite. If the retrieval of a deal fails, its item
/// has an error, and the other deals continue. Dropping the stream cancels the calls in flight.
///
/// ```no_run
/// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
/// let mut deals = client.deals().retrieve_many(["d_1", "d_2", "d_3"]).concurrency(32).stream();
/// while let Some(item) = deals.next().await {
///     match item.result {
///         Ok(deal) => println!("{}: {:?}", item.id, deal.status),
///         Err(error) => eprintln!("item {}: {error}", item.index),
///     }
/// }
/// # Ok(()) }
/// ```
pub type RetrieveMany<I, T = Deal, M = Async> = Bulk<I, RetrieveOperation<T>, M>;

/// The deals of a [`RetrieveMany`], each as one [`Retrieved`].
#[must_use = "nothing is sent until the stream is read"]
pub struct RetrieveStream<I, T: Send + 'static = Deal>(Results<I, RetrieveOperation<T>>);

/// The operation of a [`RetrieveMany`]: retrieves a deal for each identifier.
pub struct RetrieveOperation<T = Deal> {
    deals: Deals,
    make_call: fn(&Deals, &str) -> Call<T>,
}

/// The result for one identifier of a [`RetrieveMany`]. There is an example at [`RetrieveMany`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Retrieved<T = Deal> {
    /// The index of the identifier in the input, from 0.
    pub index: usize,
    /// The identifier, as in the input.
    pub id: String,
    /// The deal, or the error if it could not be retrieved.
    pub result: Result<T, Error>,
}

impl<M: Clone> Deals<M> {
    /// Retrieves many deals, a limited number at a time; see [`RetrieveMany`].
    #[doc(alias("paginate", "pagination", "list", "batch"))]
    pub fn retrieve_many<I>(&self, ids: I) -> RetrieveMany<I::IntoIter, Deal, M>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let operation = RetrieveOperation {
            deals: self.to_async(),
            make_call: |deals, id| deals.retrieve(id),
        };
        Bulk::new(
            ids.into_iter(),
            DEFAULT_CONCURRENCY,
            operation,
            self.mode.clone(),
        )
    }
}

impl<I, T: Send + 'static> RetrieveMany<I, T> {
    /// Starts a stream; the first requests are sent when it is first read.
    pub fn stream(self) -> RetrieveStream<I, T>
    where
        I: Iterator,
    {
        RetrieveStream(self.into_results())
    }
}

impl<I, M> RetrieveMany<I, Deal, M> {
    /// Returns every item with the raw response, whose body you read yourself; see [`Call::raw_response`].
    pub fn raw_responses(self) -> RetrieveMany<I, RawResponse, M> {
        self.map_operation(|RetrieveOperation { deals, .. }| RetrieveOperation {
            deals,
            make_call: |deals, id| deals.retrieve(id).raw_response(),
        })
    }
}

impl<I, T> RetrieveStream<I, T>
where
    I: Iterator<Item: Into<String>> + Unpin,
    T: Send + 'static,
{
    /// Returns the next result, or `None` after the last one. The future is cancel safe: dropping it loses no result.
    pub async fn next(&mut self) -> Option<Retrieved<T>> {
        self.0.next().await
    }
}

impl<I, T: Send + 'static> RetrieveStream<I, T> {
    /// Returns a handle that stops or cancels the job from another task, while this task waits for the next result; see
    /// [`CancelHandle`].
    pub fn cancel_handle(&self) -> CancelHandle {
        self.0.cancel_handle()
    }

    /// Takes no more identifiers from the iterator. The results of the calls in flight still arrive.
    pub fn stop(&mut self) {
        self.0.inputs.end_iteration();
    }

    /// Cancels the calls in flight. Returns, in order, the results that had arrived and were waiting for earlier results.
    pub async fn cancel(self) -> Vec<Retrieved<T>> {
        self.0.cancel().await
    }
}

impl<I, T> Stream for RetrieveStream<I, T>
where
    I: Iterator<Item: Into<String>> + Unpin,
    T: Send + 'static,
{
    type Item = Retrieved<T>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Retrieved<T>>> {
        self.0.poll_next_unpin(context)
    }
}

impl<I, T: Send + 'static> fmt::Debug for RetrieveStream<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrieveStream").finish_non_exhaustive()
    }
}

opaque_debug!(RetrieveOperation<T>);

impl<T> sealed::Sealed for RetrieveOperation<T> {}

impl<T: Send + 'static> BulkOperation for RetrieveOperation<T> {
    type Input = String;
    type Value = T;
    type Item = Retrieved<T>;
    type Running = BoxFuture<'static, Retrieved<T>>;

    fn fail(index: usize, id: String, error: Error) -> Retrieved<T> {
        let result = Err(error);
        Retrieved { index, id, result }
    }

    fn start<F>(
        &mut self,
        index: usize,
        id: String,
        options: &CallOptions,
        _: &JobState,
        send: impl FnOnce(Call<T>) -> F + Send + 'static,
    ) -> Self::Running
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let send_future = send((self.make_call)(&self.deals, &id).options(options.clone()));
        // An async block would store the future twice, as a captured variable and while awaiting it.
        Box::pin(send_future.map(move |result| Retrieved { index, id, result }))
    }

    /// Returns nothing: a cancelled retrieval changes nothing at the service.
    async fn cancel(&mut self, _: Indexed<Self::Running>) -> Indexed<Retrieved<T>> {
        Vec::new()
    }
}
