//! Many agents to create, a bounded number at a time.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _, Stream, StreamExt,
    future::{BoxFuture, ready as done},
};
use tokio::runtime::Handle;

use crate::{
    call::Call,
    error::{Error, Operation},
    http::{call_progress::CallProgress, retry::RetryPolicy},
    model::{Agent, CreateAgent},
    outcome::Outcome,
    response::RawResponse,
    service::CallOptions,
    value::Json,
    window::{Plan, Source, Taken, Window},
    wire,
};

/// How many agents are created at the same time unless the caller says otherwise.
const CONCURRENCY: usize = 8;

/// Creates many agents: a value to adjust and turn into a [stream](Self::stream).
///
/// Rows are taken from the iterator only as fast as the results are taken from the stream: the iterator may be
/// endless. Every row comes back exactly once, as one [`Creation`] with its index. One that fails is one item that
/// holds an error; the others go on. A row that breaks the rules is never sent: its error has every violation, and
/// the outcome `NotSent`. [`CreateRow`] says what a row can be.
///
/// ```no_run
/// use dealkit::{AgentProfile, CreateAgent};
///
/// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
/// let rows = ["ada@example.com", "grace@example.com"].map(|email| {
///     CreateAgent::builder()
///         .email(email)
///         .first_name("A")
///         .last_name("B")
///         .profile(AgentProfile::new())
///         .build()
/// });
/// let mut creations = client.agents().create_many(rows).stream();
/// while let Some(creation) = creations.next().await {
///     match &creation.result {
///         Ok(agent) => println!("row {}: created {}", creation.index, agent.id),
///         Err(error) => eprintln!("row {}: {}: {error}", creation.index, creation.outcome()),
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # Each create
///
/// follows the rules of [`Agents::create`](crate::Agents::create): it is retried only where it is certain that the
/// service did not act, and keeps the client's rate limit.
///
#[doc = include_str!("create_outcomes.md")]
///
/// # Stopping early
///
/// [`CreateStream::stop`] takes no further row; what is in flight still comes. [`CreateStream::cancel`] gives up
/// what is in flight, and says of each such row what is known of it. A stream that is merely dropped cancels too,
/// and says nothing, so a job that may be interrupted does it itself:
///
/// ```no_run
/// # use dealkit::{CreateAgent, ValidationError};
/// # async fn example(
/// #     client: dealkit::Client,
/// #     rows: Vec<Result<CreateAgent, ValidationError>>,
/// #     interrupt: impl Future<Output = ()>, // such as tokio::signal::ctrl_c()
/// # ) {
/// let mut creations = client.agents().create_many(rows).stream();
/// let mut interrupt = std::pin::pin!(interrupt);
/// loop {
///     tokio::select! {
///         creation = creations.next() => match creation {
///             Some(creation) => println!("row {}: {}", creation.index, creation.outcome()),
///             None => break,
///         },
///         () = &mut interrupt => {
///             for creation in creations.cancel() {
///                 println!("row {}: {}", creation.index, creation.outcome()); // `unknown`: look before you send it again
///             }
///             break;
///         }
///     }
/// }
/// # }
/// ```
#[must_use = "nothing is created until the stream is read"]
pub struct CreateMany<I, T = Agent> {
    rows: I,
    plan: Plan,
    call: MakeCall<T>,
}

/// Makes the call of one body.
type MakeCall<T> = Arc<dyn Fn(Bytes) -> Call<T> + Send + Sync>;

/// One agent of many: which row it is, and what came of it.
///
/// `Debug` shows nothing that is personal.
#[derive(Debug)]
#[non_exhaustive]
pub struct Creation<T = Agent> {
    /// The place of the row among those given, from 0.
    pub index: usize,
    /// The agent, or why there is none that is known.
    pub result: Result<T, Error>,
}

impl<T> Creation<T> {
    /// What the row came to: `Succeeded` where the agent was created, also where the response could not be read, or
    /// the [outcome of the error](Error::outcome).
    pub fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(_) => Outcome::Succeeded,
            Err(error) => error.outcome(),
        }
    }
}

/// A row of a [`CreateMany`]: the request of an agent, or why there is none.
///
/// | made from | |
/// |---|---|
/// | [`CreateAgent`] | every rule is checked before it is sent, however it was built |
/// | [`Json`] | a body that is sent as it is, for services that accept more than the rules |
/// | a `Result` of these | such as what [`build`](crate::CreateAgent::builder) returns: an error is the row's error |
pub struct CreateRow(Result<Bytes, Error>);

impl CreateRow {
    /// A row of the text of a JSON value, or what is wrong with it: for bindings, which write it themselves.
    #[doc(hidden)]
    pub fn written(body: Result<Bytes, Error>) -> Self {
        Self(body)
    }
}

impl From<CreateAgent> for CreateRow {
    fn from(request: CreateAgent) -> Self {
        Self(match request.validate() {
            Ok(()) => Ok(request.to_json().into_text().into()),
            Err(error) => Err(error.into()),
        })
    }
}

impl From<Json> for CreateRow {
    fn from(body: Json) -> Self {
        Self(Ok(body.into_text().into()))
    }
}

impl<R: Into<CreateRow>, E: Into<Error>> From<Result<R, E>> for CreateRow {
    fn from(row: Result<R, E>) -> Self {
        match row {
            Ok(row) => row.into(),
            Err(error) => Self(Err(error.into())),
        }
    }
}

impl fmt::Debug for CreateRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateRow").finish_non_exhaustive()
    }
}

impl<I> CreateMany<I> {
    pub(crate) fn new(
        rows: I,
        call: impl Fn(Bytes) -> Call<Agent> + Send + Sync + 'static,
    ) -> Self {
        Self {
            rows,
            plan: Plan::new(CONCURRENCY),
            call: Arc::new(call),
        }
    }

    /// Makes every item come back with the raw response, its body left for the caller to read; see
    /// [`Call::raw_response`].
    pub fn raw_responses(self) -> CreateMany<I, RawResponse> {
        let call = self.call;
        CreateMany {
            rows: self.rows,
            plan: self.plan,
            call: Arc::new(move |body| call(body).raw_response()),
        }
    }
}

impl<I, T: 'static> CreateMany<I, T> {
    /// Adds a header to each request; see [`Call::header`].
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (call, name, value) = (self.call, name.into(), value.into());
        self.call = Arc::new(move |body| call(body).header(&name, &value));
        self
    }
}

impl<I, T> CreateMany<I, T> {
    /// How many agents are created at the same time, at least one. Default: 8. Those that were created and wait for
    /// their turn count too, so memory is bounded.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.plan.concurrency(concurrency);
        self
    }

    /// Hands the results over as they come, in place of the order of the rows.
    pub fn as_completed(mut self) -> Self {
        self.plan.as_completed = true;
        self
    }

    /// The most time that each create may take, in place of the client's.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.plan.options.timeout = Some(total);
        self
    }

    /// What is retried, in place of the client's policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.plan.retry(policy);
        self
    }

    /// Starts a stream; the first requests go out when it is first read.
    pub fn stream(self) -> CreateStream<I, T>
    where
        I: Iterator,
    {
        let (rows, in_flight) = self.into_source();
        CreateStream { rows, in_flight }
    }

    /// The rows, taken only while there is room for them, and what they are pushed to.
    pub(crate) fn into_source(self) -> (Source<I>, CreationsInFlight<T>)
    where
        I: Iterator,
    {
        let concurrency = self.plan.concurrency;
        let (rows, in_flight) = self.into_parts();
        (Source::new(rows, concurrency), in_flight)
    }

    /// The rows, and what they can be pushed to one at a time; for a caller that cannot hand all of them over as an
    /// iterator.
    pub fn into_parts(self) -> (I, CreationsInFlight<T>) {
        let in_flight = CreationsInFlight {
            options: self.plan.options,
            call: self.call,
            window: Window::new(self.plan.as_completed),
        };
        (self.rows, in_flight)
    }
}

impl<I, T> fmt::Debug for CreateMany<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateMany")
            .field("concurrency", &self.plan.concurrency)
            .field("as_completed", &self.plan.as_completed)
            .finish_non_exhaustive()
    }
}

/// The agents of a [`CreateMany`], each as one [`Creation`].
#[must_use = "nothing is created until the stream is read"]
pub struct CreateStream<I, T = Agent> {
    rows: Source<I>,
    in_flight: CreationsInFlight<T>,
}

impl<I, T> CreateStream<I, T>
where
    I: Iterator + Unpin,
    I::Item: Into<CreateRow>,
    T: Send + 'static,
{
    /// What the next row came to, or `None` after the last. Its future can be dropped: no row is lost.
    pub async fn next(&mut self) -> Option<Creation<T>> {
        StreamExt::next(self).await
    }
}

impl<I, T: Send + 'static> CreateStream<I, T> {
    /// Takes no further row from the iterator. What is in flight still comes.
    pub fn stop(&mut self) {
        self.rows.end();
    }

    /// Gives up what is in flight: each row that was taken from the iterator and not handed over, in their order;
    /// see [`CreationsInFlight::cancel`].
    pub fn cancel(mut self) -> Vec<Creation<T>> {
        self.in_flight.cancel()
    }
}

impl<I, T> Stream for CreateStream<I, T>
where
    I: Iterator + Unpin,
    I::Item: Into<CreateRow>,
    T: Send + 'static,
{
    type Item = Creation<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Creation<T>>> {
        let this = &mut *self;
        while let Some(row) = this.rows.next(this.in_flight.len()) {
            this.in_flight.push(row);
        }
        this.in_flight.poll_next_unpin(context)
    }
}

impl<I, T> fmt::Debug for CreateStream<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateStream")
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// The creates in flight: what a [`CreateStream`] takes its items from, for callers that hand rows over one at a time
/// instead of an iterator; see [`CreateMany::into_parts`].
///
/// It is a stream that ends whenever nothing is in flight, and goes on after the next `push`.
#[must_use = "nothing is created until it is read"]
pub struct CreationsInFlight<T = Agent> {
    options: CallOptions,
    call: MakeCall<T>,
    window: Window<Creating<T>>,
}

impl<T: Send + 'static> CreationsInFlight<T> {
    /// Adds a row to those in flight. How many there are is the caller's to bound.
    pub fn push(&mut self, row: impl Into<CreateRow>) {
        self.push_with(row, Call::send);
    }

    /// Adds a row to those in flight, sent as `send` does it: with a header of its own, within a span. A row that is
    /// not sent is not given to it.
    pub fn push_with<F>(&mut self, row: impl Into<CreateRow>, send: impl FnOnce(Call<T>) -> F)
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let index = self.window.next_index();
        let creating = match row.into().0 {
            Ok(body) => {
                let call = (self.call)(body).options(self.options);
                Creating {
                    index,
                    progress: call.progress(),
                    call: Box::pin(send(call)),
                }
            }
            Err(error) => Creating {
                index,
                progress: Arc::default(),
                call: Box::pin(done(Err(error.with_operation(&operation())))),
            },
        };
        self.window.push(creating);
    }

    /// What the next row came to, or `None` when nothing is in flight.
    pub async fn next(&mut self) -> Option<Creation<T>> {
        StreamExt::next(self).await
    }

    /// Gives up what is in flight: each row that was pushed and not handed over, in their order.
    ///
    /// Where the response has come, it is the agent or the error. Otherwise it is an error of kind `Cancelled`, whose
    /// outcome says how far the create had come: `NotSent` or `Rejected` where there is certainly no agent,
    /// `Unknown` where the service may have made one, and `Succeeded` where it said so, and the agent was still on
    /// its way.
    ///
    /// On a Tokio runtime, responses that have come since the stream was last read count, too.
    pub fn cancel(&mut self) -> Vec<Creation<T>> {
        let taken = self.window.empty().into_iter();
        let creations = taken.map(|row| match row {
            Taken::Came(creation) => creation,
            Taken::InFlight(creating) => creating.cancelled(),
        });
        creations.collect()
    }
}

impl<T> CreationsInFlight<T> {
    /// How many rows were pushed and not yet handed over.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Send + 'static> Stream for CreationsInFlight<T> {
    type Item = Creation<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Creation<T>>> {
        self.window.poll_next_unpin(context)
    }
}

impl<T> fmt::Debug for CreationsInFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreationsInFlight")
            .field("in_flight", &self.len())
            .finish_non_exhaustive()
    }
}

/// One row in flight, which knows how far it has come.
struct Creating<T> {
    index: usize,
    progress: Arc<CallProgress>,
    call: BoxFuture<'static, Result<T, Error>>,
}

impl<T> Creating<T> {
    /// What became of it, now that it is given up.
    fn cancelled(mut self) -> Creation<T> {
        // The response may have come since it was last polled. Polling one that is yet to be sent could send it, and
        // without a runtime none can be polled.
        let is_worth_a_look = self.progress.is_response_due() && Handle::try_current().is_ok();
        let came = is_worth_a_look.then(|| (&mut self.call).now_or_never());
        let result = came.flatten().unwrap_or_else(|| {
            let error = Error::cancelled(self.progress.outcome(), self.progress.attempts());
            Err(error.with_operation(&operation()))
        });
        Creation {
            index: self.index,
            result,
        }
    }
}

impl<T> Future for Creating<T> {
    type Output = Creation<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Creation<T>> {
        let result = ready!(self.call.as_mut().poll(context));
        Poll::Ready(Creation {
            index: self.index,
            result,
        })
    }
}

/// What every row asks for.
fn operation() -> Operation {
    Operation {
        method: http::Method::POST,
        template: wire::AGENTS_PATH.into(),
    }
}
