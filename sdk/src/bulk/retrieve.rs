//! Retrieving many deals, a limited number at a time.

use futures_util::future::BoxFuture;

use crate::{
    bulk::{
        many::{Bulk, BulkStream, Job, Work, sealed},
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

const CONCURRENCY: usize = 16;

/// Retrieves many deals: a value to configure and turn into a [stream](Bulk::stream).
///
/// The iterator is consumed only as fast as you take results, so it may be infinite. A deal that fails is one item with
/// an error; the others continue. Dropping the stream cancels the calls in flight.
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
pub type RetrieveMany<I, T = Deal, M = Async> = Bulk<I, Retrieves<T>, M>;

/// The deals of a [`RetrieveMany`], each as one [`Retrieved`].
pub type RetrieveStream<I, T = Deal> = BulkStream<I, Retrieves<T>>;

/// The work of a [`RetrieveMany`]: it retrieves a deal for each identifier.
pub struct Retrieves<T = Deal> {
    deals: Deals,
    call: fn(&Deals, &str) -> Call<T>,
}

/// One deal of many: its identifier, and the result. [`RetrieveMany`] has an example.
#[derive(Debug)]
#[non_exhaustive]
pub struct Retrieved<T = Deal> {
    /// The index of the identifier among those given, from 0.
    pub index: usize,
    /// The identifier, as given.
    pub id: String,
    /// The deal, or the error if it could not be retrieved.
    pub result: Result<T, Error>,
}

impl<M: Clone> Deals<M> {
    /// Retrieves many deals, some at a time; see [`RetrieveMany`].
    pub fn retrieve_many<I>(&self, ids: I) -> RetrieveMany<I::IntoIter, Deal, M>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let work = Retrieves {
            deals: self.awaited(),
            call: |deals, id| deals.retrieve(id),
        };
        Bulk::new(ids.into_iter(), CONCURRENCY, work, self.mode.clone())
    }
}

impl<I, M> RetrieveMany<I, Deal, M> {
    /// Returns every item with the raw response, whose body you read yourself; see [`Call::raw_response`].
    pub fn raw_responses(self) -> RetrieveMany<I, RawResponse, M> {
        self.map(|Retrieves { deals, .. }| Retrieves {
            deals,
            call: |deals, id| deals.retrieve(id).raw_response(),
        })
    }
}

opaque_debug!(Retrieves<T>);

impl<T> sealed::Sealed for Retrieves<T> {}

impl<T: Send + 'static> Work for Retrieves<T> {
    type Input = String;
    type Value = T;
    type Item = Retrieved<T>;
    type Running = BoxFuture<'static, Retrieved<T>>;

    fn begin<F>(
        &mut self,
        index: usize,
        id: String,
        options: &CallOptions,
        _: &Job,
        send: impl FnOnce(Call<T>) -> F + Send + 'static,
    ) -> Self::Running
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let sent = send((self.call)(&self.deals, &id).options(options.clone()));
        Box::pin(async move {
            let result = sent.await;
            Retrieved { index, id, result }
        })
    }

    /// Nothing is known of them: they change nothing at the service, either.
    async fn give_up(&mut self, _: Indexed<Self::Running>) -> Indexed<Retrieved<T>> {
        Vec::new()
    }
}
