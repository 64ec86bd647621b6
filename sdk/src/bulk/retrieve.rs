//! Retrieving many deals, a bounded number at a time.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::BoxFuture};

use crate::{
    bulk::window::{Plan, Source, Window},
    calls::{call::Call, response::RawResponse, service::CallOptions},
    error::call::Error,
    http::retry::attempts::RetryPolicy,
    model::Deal,
};

/// How many deals are fetched at the same time by default.
const CONCURRENCY: usize = 16;

/// Retrieves many deals: a value to configure and turn into a [stream](Self::stream).
///
/// Identifiers are taken from the iterator only as fast as results are taken from the stream, so the
/// iterator may be endless. A deal that fails is one item that holds an error; the others go on.
/// Dropping the stream cancels the calls in flight.
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
#[must_use = "nothing is retrieved until the stream is read"]
pub struct RetrieveMany<I, T = Deal> {
    ids: I,
    plan: Plan,
    call: MakeCall<T>,
}

/// Makes the call of one identifier.
type MakeCall<T> = Arc<dyn Fn(&str) -> Call<T> + Send + Sync>;

/// One deal of many: which one it is, and the result.
#[derive(Debug)]
#[non_exhaustive]
pub struct Retrieved<T = Deal> {
    /// The index of the identifier among those given, from 0.
    pub index: usize,
    /// The identifier, as it was given.
    pub id: String,
    /// The deal, or the error if it could not be retrieved.
    pub result: Result<T, Error>,
}

impl<I> RetrieveMany<I> {
    pub(crate) fn new(ids: I, call: impl Fn(&str) -> Call<Deal> + Send + Sync + 'static) -> Self {
        Self {
            ids,
            plan: Plan::new(CONCURRENCY),
            call: Arc::new(call),
        }
    }

    /// Makes every item come back with the raw response, whose body is left for the caller to read;
    /// see [`Call::raw_response`].
    pub fn raw_responses(self) -> RetrieveMany<I, RawResponse> {
        let call = self.call;
        RetrieveMany {
            ids: self.ids,
            plan: self.plan,
            call: Arc::new(move |id| call(id).raw_response()),
        }
    }
}

impl<I, T: 'static> RetrieveMany<I, T> {
    /// Adds a header to each request; see [`Call::header`].
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (call, name, value) = (self.call, name.into(), value.into());
        self.call = Arc::new(move |id| call(id).header(&name, &value));
        self
    }
}

impl<I, T> RetrieveMany<I, T> {
    /// How many deals are fetched at the same time, at least one. Default: 16. Deals that were fetched
    /// and wait for their turn count too, so memory is bounded.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.plan.concurrency(concurrency);
        self
    }

    /// Yields the deals as they arrive, instead of in the order in which they were asked for.
    pub fn as_completed(mut self) -> Self {
        self.plan.as_completed = true;
        self
    }

    /// The maximum duration of each deal's call, overriding the client's.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.plan.options.timeout = Some(total);
        self
    }

    /// What is retried, overriding the client's policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.plan.retry(policy);
        self
    }

    /// Starts a stream; the first requests go out when it is first read.
    pub fn stream(self) -> RetrieveStream<I, T>
    where
        I: Iterator,
    {
        let (ids, in_flight) = self.into_source();
        RetrieveStream { ids, in_flight }
    }

    /// The identifiers, taken only while there is room for them, and the queue to push them to.
    pub(crate) fn into_source(self) -> (Source<I>, InFlight<T>)
    where
        I: Iterator,
    {
        let concurrency = self.plan.concurrency;
        let (ids, in_flight) = self.into_parts();
        (Source::new(ids, concurrency), in_flight)
    }

    /// The identifiers, and the queue to push them to one at a time; for a caller that cannot hand all
    /// of them over as an iterator.
    pub fn into_parts(self) -> (I, InFlight<T>) {
        let in_flight = InFlight {
            options: self.plan.options,
            call: self.call,
            window: Window::new(self.plan.as_completed),
        };
        (self.ids, in_flight)
    }
}

impl<I, T> fmt::Debug for RetrieveMany<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrieveMany")
            .field("concurrency", &self.plan.concurrency)
            .field("as_completed", &self.plan.as_completed)
            .finish_non_exhaustive()
    }
}

/// The deals of a [`RetrieveMany`], each as one [`Retrieved`].
#[must_use = "nothing is retrieved until the stream is read"]
pub struct RetrieveStream<I, T = Deal> {
    ids: Source<I>,
    in_flight: InFlight<T>,
}

impl<I, T> RetrieveStream<I, T>
where
    I: Iterator + Unpin,
    I::Item: Into<String>,
    T: Send + 'static,
{
    /// The next deal, or `None` after the last.
    pub async fn next(&mut self) -> Option<Retrieved<T>> {
        StreamExt::next(self).await
    }
}

impl<I, T> Stream for RetrieveStream<I, T>
where
    I: Iterator + Unpin,
    I::Item: Into<String>,
    T: Send + 'static,
{
    type Item = Retrieved<T>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Retrieved<T>>> {
        let this = &mut *self;
        while let Some(id) = this.ids.next(this.in_flight.len()) {
            this.in_flight.push(id);
        }
        this.in_flight.poll_next_unpin(context)
    }
}

impl<I, T> fmt::Debug for RetrieveStream<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrieveStream")
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// The deals in flight, from which a [`RetrieveStream`] takes its items. For callers that hand
/// identifiers over one at a time instead of as an iterator; see [`RetrieveMany::into_parts`].
///
/// It is a stream that ends whenever nothing is in flight, and resumes after the next `push`.
#[must_use = "nothing is retrieved until it is read"]
pub struct InFlight<T = Deal> {
    options: CallOptions,
    call: MakeCall<T>,
    window: Window<BoxFuture<'static, Retrieved<T>>>,
}

impl<T: Send + 'static> InFlight<T> {
    /// Adds a deal to those in flight. It is up to the caller to bound their number.
    pub fn push(&mut self, id: impl Into<String>) {
        self.push_with(id, Call::send);
    }

    /// Adds a deal to those in flight, and uses `send` to send its call: with an extra header, say, or within a span.
    pub fn push_with<F>(&mut self, id: impl Into<String>, send: impl FnOnce(Call<T>) -> F)
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (index, id) = (self.window.next_index(), id.into());
        let sent = send((self.call)(&id).options(self.options));
        self.window.push(Box::pin(async move {
            let result = sent.await;
            Retrieved { index, id, result }
        }));
    }

    /// The next deal, or `None` when nothing is in flight.
    pub async fn next(&mut self) -> Option<Retrieved<T>> {
        StreamExt::next(self).await
    }
}

impl<T> InFlight<T> {
    /// How many deals were pushed but not yet handed over.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Send + 'static> Stream for InFlight<T> {
    type Item = Retrieved<T>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Retrieved<T>>> {
        self.window.poll_next_unpin(context)
    }
}

impl<T> fmt::Debug for InFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("in_flight", &self.len())
            .finish_non_exhaustive()
    }
}
