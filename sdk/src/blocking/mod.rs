//! The same client for programs without an async runtime (feature `blocking`).
//!
//! All names are those of the async client; a call is made with `send()` instead of being awaited. The calling
//! thread does the work; a background thread runs only while you iterate over the results of many calls.
//!
//! ```no_run
//! use dealkit::blocking::Client;
//!
//! let client = Client::builder()
//!     .base_url("https://deals.example.com")
//!     .service_key("my-key")
//!     .build()?; // or Client::from_env()
//! let deal = client.deals().retrieve("d_1").send()?;
//! println!("{:?}", deal.status);
//! for item in client.deals().retrieve_many(["d_1", "d_2"]) {
//!     println!("{}: {}", item.id, item.result.is_ok());
//! }
//! # Ok::<(), dealkit::Error>(())
//! ```

use std::{
    fmt,
    future::{Future, poll_fn},
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::{
    CreateAgent, CreateRow, Creation, CreationsInFlight, Error, InFlight, LedgerError, Method,
    RawResponse, Response, Retrieved, RetryPolicy,
    bulk::{create::Refusal, window::Source},
    model::{Agent, Deal},
};

/// The blocking client. Cheap to clone, and made to be shared between threads.
///
/// It also works on a thread of an async runtime, but stalls that thread: there, await the calls of
/// [`dealkit::Client`](crate::Client) instead, or make the blocking calls on a thread for blocking work.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    driver: Driver,
}

/// Runs calls to completion on the calling thread.
#[derive(Clone)]
struct Driver {
    runtime: Arc<OwnedRuntime>,
}

/// A runtime that may be dropped anywhere, even where waiting for it is not allowed.
struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Driver {
    fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::config(format!("the runtime cannot be started: {error}")))?;
        Ok(Self {
            runtime: Arc::new(OwnedRuntime(Some(runtime))),
        })
    }

    fn run<F>(&self, future: F) -> Result<F::Output, Error>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let Some(runtime) = &self.runtime.0 else {
            return Err(Error::config("the runtime has been shut down"));
        };
        let work = || {
            runtime.block_on(async {
                // Between calls, nothing polls the idle connections. Yielding to the runtime once lets
                // it notice those that the service has closed, before a request goes out on one.
                tokio::task::yield_now().await;
                future.await
            })
        };
        if Handle::try_current().is_err() {
            return Ok(work());
        }
        // Tokio panics if one runtime is driven on a thread of another, so this borrows a thread.
        match std::thread::scope(|scope| scope.spawn(work).join()) {
            Ok(output) => Ok(output),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Client {
    /// A builder with every default set; only the base URL and the service key are missing. Its options are
    /// those of [`dealkit::ClientBuilder`](crate::ClientBuilder).
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Wraps an async client.
    ///
    /// # Errors
    /// Of kind `Config` when the operating system refuses something that the runtime needs.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        Ok(Self {
            client,
            driver: Driver::new()?,
        })
    }

    /// See [`dealkit::Client::from_env`](crate::Client::from_env).
    ///
    /// # Errors
    /// Of kind `Config` when a variable is missing or its value is not valid.
    pub fn from_env() -> Result<Self, Error> {
        Self::new(crate::Client::from_env()?)
    }

    /// Calls on agents.
    pub fn agents(&self) -> Agents {
        Agents {
            agents: self.client.agents(),
            driver: self.driver.clone(),
        }
    }

    /// Calls on deals.
    pub fn deals(&self) -> Deals {
        Deals {
            deals: self.client.deals(),
            driver: self.driver.clone(),
        }
    }

    /// See [`dealkit::Client::request`](crate::Client::request).
    pub fn request<S: AsRef<str>>(
        &self,
        method: Method,
        segments: impl IntoIterator<Item = S>,
    ) -> Call<RawResponse> {
        self.driver.call(self.client.request(method, segments))
    }

    /// See [`dealkit::Client::timeout`](crate::Client::timeout).
    pub fn timeout(&self) -> Duration {
        self.client.timeout()
    }

    /// See [`dealkit::Client::max_retries`](crate::Client::max_retries).
    pub fn max_retries(&self) -> u32 {
        self.client.max_retries()
    }

    /// See [`dealkit::Client::shares_connections`](crate::Client::shares_connections).
    pub fn shares_connections(&self, with: &Client) -> bool {
        self.client.shares_connections(&with.client)
    }

    /// See [`dealkit::Client::shares_limits`](crate::Client::shares_limits).
    pub fn shares_limits(&self, with: &Client) -> bool {
        self.client.shares_limits(&with.client)
    }
}

/// Sets up a [`Client`]; see [`dealkit::ClientBuilder`](crate::ClientBuilder).
pub type ClientBuilder = crate::ClientBuilder<Client>;

impl ClientBuilder {
    /// Checks the configuration and makes the client.
    ///
    /// # Errors
    /// Of kind `Config`. The text says which setting is wrong and what it takes, and contains neither
    /// the key nor the URL. Also when the operating system refuses something that the runtime needs.
    pub fn build(self) -> Result<Client, Error> {
        let shared = self.shares_with().cloned();
        let client = self.build_async(shared.as_ref().map(|shared| &shared.client))?;
        // Connections are driven by the runtime that made them.
        let driver = match shared {
            Some(shared) => shared.driver,
            None => Driver::new()?,
        };
        Ok(Client { client, driver })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

/// Calls on agents; see [`Client::agents`].
#[derive(Clone, Debug)]
pub struct Agents {
    agents: crate::Agents,
    driver: Driver,
}

impl Agents {
    /// Creates an agent; see [`dealkit::Agents::create`](crate::Agents::create).
    ///
    #[doc = include_str!("../calls/create_outcomes.md")]
    pub fn create(&self, request: CreateAgent) -> Call<Agent> {
        self.driver.call(self.agents.create(request))
    }

    /// Creates many agents, some at a time, as an iterator; see [`dealkit::CreateMany`](crate::CreateMany).
    pub fn create_many<I>(&self, rows: I) -> CreateMany<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<CreateRow>,
    {
        CreateMany {
            many: self.agents.create_many(rows),
            driver: self.driver.clone(),
        }
    }
}

/// Calls on deals; see [`Client::deals`].
#[derive(Clone, Debug)]
pub struct Deals {
    deals: crate::Deals,
    driver: Driver,
}

impl Deals {
    /// See [`dealkit::Deals::retrieve`](crate::Deals::retrieve).
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<Deal> {
        self.driver.call(self.deals.retrieve(id))
    }

    /// Retrieves many deals, some at a time, as an iterator; see
    /// [`dealkit::RetrieveMany`](crate::RetrieveMany).
    pub fn retrieve_many<I>(&self, ids: I) -> RetrieveMany<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        RetrieveMany {
            many: self.deals.retrieve_many(ids),
            driver: self.driver.clone(),
        }
    }
}

impl Driver {
    fn call<T>(&self, call: crate::Call<T>) -> Call<T> {
        Call {
            call,
            driver: self.clone(),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// A call that has not been made yet; see [`dealkit::Call`](crate::Call).
#[must_use = "a call does nothing until it is sent"]
#[derive(Debug)]
pub struct Call<T> {
    call: crate::Call<T>,
    driver: Driver,
}

impl<T: Send> Call<T> {
    /// See [`dealkit::Call::timeout`](crate::Call::timeout).
    pub fn timeout(mut self, total: Duration) -> Self {
        self.call = self.call.timeout(total);
        self
    }

    /// See [`dealkit::Call::retry`](crate::Call::retry).
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.call = self.call.retry(policy);
        self
    }

    /// See [`dealkit::Call::header`](crate::Call::header).
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.call = self.call.header(name, value);
        self
    }

    /// See [`dealkit::Call::into_request`](crate::Call::into_request).
    ///
    /// # Errors
    /// Whatever sending the call would find wrong before a byte leaves.
    pub fn into_request(self) -> Result<http::Request<Bytes>, Error> {
        self.call.into_request()
    }

    /// See [`dealkit::Call::with_response`](crate::Call::with_response).
    pub fn with_response(self) -> CallWithResponse<T> {
        CallWithResponse {
            call: self.call.with_response(),
            driver: self.driver,
        }
    }

    /// Makes the call and waits until it completes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send(self) -> Result<T, Error> {
        self.driver.run(self.call.send())?
    }
}

impl Call<RawResponse> {
    /// See [`dealkit::Call::json`](crate::Call::json).
    pub fn json(mut self, body: &(impl Serialize + ?Sized)) -> Self {
        self.call = self.call.json(body);
        self
    }

    /// See [`dealkit::Call::query`](crate::Call::query).
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.call = self.call.query(name, value);
        self
    }
}

/// A call that returns the whole response; see [`Call::with_response`].
#[must_use = "a call does nothing until it is sent"]
#[derive(Debug)]
pub struct CallWithResponse<T> {
    call: crate::CallWithResponse<T>,
    driver: Driver,
}

impl<T: Send> CallWithResponse<T> {
    /// Makes the call and waits until it completes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send(self) -> Result<Response<T>, Error> {
        self.driver.run(self.call.send())?
    }
}

/// Retrieves many deals: a value to configure and iterate over; see
/// [`dealkit::RetrieveMany`](crate::RetrieveMany).
#[must_use = "nothing is retrieved until it is iterated over"]
#[derive(Debug)]
pub struct RetrieveMany<I> {
    many: crate::RetrieveMany<I>,
    driver: Driver,
}

impl<I> RetrieveMany<I>
where
    I: Iterator,
    I::Item: Into<String>,
{
    /// See [`dealkit::RetrieveMany::concurrency`](crate::RetrieveMany::concurrency).
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.many = self.many.concurrency(concurrency);
        self
    }

    /// See [`dealkit::RetrieveMany::header`](crate::RetrieveMany::header).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.many = self.many.header(name, value);
        self
    }

    /// See [`dealkit::RetrieveMany::as_completed`](crate::RetrieveMany::as_completed).
    pub fn as_completed(mut self) -> Self {
        self.many = self.many.as_completed();
        self
    }

    /// See [`dealkit::RetrieveMany::timeout`](crate::RetrieveMany::timeout).
    pub fn timeout(mut self, total: Duration) -> Self {
        self.many = self.many.timeout(total);
        self
    }

    /// See [`dealkit::RetrieveMany::retry`](crate::RetrieveMany::retry).
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.many = self.many.retry(policy);
        self
    }
}

impl<I> IntoIterator for RetrieveMany<I>
where
    I: Iterator,
    I::Item: Into<String>,
{
    type Item = Retrieved;
    type IntoIter = Iter<I>;

    fn into_iter(self) -> Iter<I> {
        let (ids, in_flight) = self.many.into_source();
        Iter {
            ids,
            worker: Worker::new(in_flight, self.driver),
        }
    }
}

/// The deals of a [`RetrieveMany`]. A background thread drives the calls in flight, so that deals arrive while
/// the caller works on earlier ones; it ends with the iterator.
#[derive(Debug)]
pub struct Iter<I> {
    ids: Source<I>,
    worker: Worker<InFlight>,
}

impl<I> Iterator for Iter<I>
where
    I: Iterator,
    I::Item: Into<String>,
{
    type Item = Retrieved;

    fn next(&mut self) -> Option<Retrieved> {
        while let Some(id) = self.ids.next(self.worker.out) {
            self.worker.push(id.into());
        }
        self.worker.next()
    }
}

/// Creates many agents: a value to configure and iterate over; see
/// [`dealkit::CreateMany`](crate::CreateMany).
///
/// ```no_run
/// # fn example(client: dealkit::blocking::Client, rows: Vec<dealkit::CreateAgent>) {
/// for creation in client.agents().create_many(rows).concurrency(4) {
///     match &creation.result {
///         Ok(agent) => println!("row {}: created {}", creation.index, agent.id),
///         Err(error) => eprintln!("row {}: {}: {error}", creation.index, creation.outcome()),
///     }
/// }
/// # }
/// ```
#[must_use = "nothing is created until it is iterated over"]
#[derive(Debug)]
pub struct CreateMany<I> {
    many: crate::CreateMany<I>,
    driver: Driver,
}

impl<I> CreateMany<I>
where
    I: Iterator,
    I::Item: Into<CreateRow>,
{
    /// See [`dealkit::CreateMany::concurrency`](crate::CreateMany::concurrency).
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.many = self.many.concurrency(concurrency);
        self
    }

    /// See [`dealkit::CreateMany::header`](crate::CreateMany::header).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.many = self.many.header(name, value);
        self
    }

    /// See [`dealkit::CreateMany::as_completed`](crate::CreateMany::as_completed).
    pub fn as_completed(mut self) -> Self {
        self.many = self.many.as_completed();
        self
    }

    /// See [`dealkit::CreateMany::ledger`](crate::CreateMany::ledger).
    ///
    /// # Errors
    /// If the ledger cannot be opened or written, or does not belong to this job.
    pub fn ledger<'a>(
        mut self,
        path: impl AsRef<Path>,
        keys: impl Into<Option<&'a str>>,
    ) -> Result<Self, LedgerError> {
        self.many = self.many.ledger(path, keys)?;
        Ok(self)
    }

    /// See [`dealkit::CreateMany::resend_unknown`](crate::CreateMany::resend_unknown).
    pub fn resend_unknown(mut self) -> Self {
        self.many = self.many.resend_unknown();
        self
    }

    /// See [`dealkit::CreateMany::timeout`](crate::CreateMany::timeout).
    pub fn timeout(mut self, total: Duration) -> Self {
        self.many = self.many.timeout(total);
        self
    }

    /// See [`dealkit::CreateMany::retry`](crate::CreateMany::retry).
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.many = self.many.retry(policy);
        self
    }
}

impl<I> IntoIterator for CreateMany<I>
where
    I: Iterator,
    I::Item: Into<CreateRow>,
{
    type Item = Creation;
    type IntoIter = Creations<I>;

    fn into_iter(self) -> Creations<I> {
        let (rows, in_flight) = self.many.into_source();
        Creations {
            rows,
            refusal: Arc::clone(in_flight.refusal()),
            worker: Worker::new(in_flight, self.driver),
        }
    }
}

/// The agents of a [`CreateMany`], each as one [`Creation`]. A background thread drives the calls in flight; it ends
/// with the iterator.
#[derive(Debug)]
pub struct Creations<I> {
    rows: Source<I>,
    refusal: Arc<Refusal>,
    worker: Worker<CreationsInFlight>,
}

impl<I> Creations<I> {
    /// See [`dealkit::CreateStream::stop`](crate::CreateStream::stop).
    pub fn stop(&mut self) {
        self.rows.end();
    }

    /// See [`dealkit::CreateStream::cancel`](crate::CreateStream::cancel).
    pub fn cancel(self) -> Vec<Creation> {
        self.worker.end(CreationsInFlight::cancel)
    }
}

impl<I> Iterator for Creations<I>
where
    I: Iterator,
    I::Item: Into<CreateRow>,
{
    type Item = Creation;

    fn next(&mut self) -> Option<Creation> {
        loop {
            if self.refusal.has_stopped() {
                self.rows.end();
            }
            let Some(row) = self.rows.next(self.worker.out) else {
                break;
            };
            self.worker.push(row.into());
        }
        self.worker.next()
    }
}

/// Calls in flight that a worker drives.
trait Calls: Stream<Item: Send> + Unpin + Send + 'static {
    /// The type that is pushed to them.
    type Input: Send + 'static;

    fn push(&mut self, input: Self::Input);
}

impl Calls for InFlight {
    type Input = String;

    fn push(&mut self, id: String) {
        InFlight::push(self, id);
    }
}

impl Calls for CreationsInFlight {
    type Input = CreateRow;

    fn push(&mut self, row: CreateRow) {
        CreationsInFlight::push(self, row);
    }
}

/// Drives the calls in flight of an iterator.
struct Worker<C: Calls> {
    /// How many calls were pushed but not handed over.
    out: usize,
    state: WorkerState<C>,
}

enum WorkerState<C: Calls> {
    /// On the calling thread: as long as nothing is in flight, or if the operating system refuses a thread.
    Caller(C, Driver),
    /// On a thread of its own.
    Background {
        inputs: UnboundedSender<C::Input>,
        items: Receiver<C::Item>,
        /// Returns what is left in flight once no more can be pushed.
        thread: JoinHandle<Option<(C, Driver)>>,
    },
    /// The thread has panicked.
    Gone,
}

impl<C: Calls> Worker<C> {
    fn new(calls: C, driver: Driver) -> Self {
        Self {
            out: 0,
            state: WorkerState::Caller(calls, driver),
        }
    }

    /// Adds a call to those in flight.
    fn push(&mut self, input: C::Input) {
        self.out += 1;
        let mut state = match self.take() {
            WorkerState::Caller(calls, driver) => WorkerState::start(calls, driver),
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

    /// Waits for the next result of the calls in flight, if there are any.
    fn next(&mut self) -> Option<C::Item> {
        if self.out == 0 {
            return None;
        }
        self.out -= 1;
        match &mut self.state {
            WorkerState::Caller(calls, driver) => return driver.run(calls.next()).ok().flatten(),
            WorkerState::Background { items, .. } => {
                if let Ok(item) = items.recv() {
                    return Some(item);
                }
            }
            WorkerState::Gone => {}
        }
        if let WorkerState::Background { thread, .. } = self.take() {
            joined(thread);
        }
        None
    }

    /// Stops driving the calls: returns the results that have come but were not handed over, and what `finish`
    /// makes of the remaining calls.
    fn end(mut self, finish: impl FnOnce(&mut C) -> Vec<C::Item> + Send) -> Vec<C::Item> {
        let (mut came, left) = match self.take() {
            WorkerState::Caller(calls, driver) => (Vec::new(), Some((calls, driver))),
            WorkerState::Background {
                inputs,
                items,
                thread,
            } => {
                drop(inputs);
                let left = joined(thread);
                (items.into_iter().collect(), left)
            }
            WorkerState::Gone => (Vec::new(), None),
        };
        if let Some((mut calls, driver)) = left {
            // Runs on the runtime, because responses may have come.
            let finished = driver.run(async { finish(&mut calls) });
            came.extend(finished.unwrap_or_default());
        }
        came
    }

    fn take(&mut self) -> WorkerState<C> {
        std::mem::replace(&mut self.state, WorkerState::Gone)
    }
}

/// Gives up the calls in flight, and closes a ledger, before it returns.
impl<C: Calls> Drop for Worker<C> {
    fn drop(&mut self) {
        if let WorkerState::Background { inputs, thread, .. } = self.take() {
            drop(inputs);
            // The thread may have panicked; dropping the worker must not panic as well.
            let _ = thread.join();
        }
    }
}

impl<C: Calls> WorkerState<C> {
    fn start(calls: C, driver: Driver) -> Self {
        let (inputs, pushed) = unbounded_channel();
        let (came, items) = channel();
        // The thread receives the calls only once it runs, so that they are not lost if the operating
        // system refuses a thread.
        let (hand_over, handed_over) = channel::<(C, Driver)>();
        let work = move || {
            let (mut calls, driver) = handed_over.recv().ok()?;
            driver.run(make(&mut calls, pushed, came)).ok()?;
            Some((calls, driver))
        };
        match thread::Builder::new()
            .name("dealkit".to_owned())
            .spawn(work)
        {
            Ok(thread) => {
                let _ = hand_over.send((calls, driver));
                Self::Background {
                    inputs,
                    items,
                    thread,
                }
            }
            Err(_) => Self::Caller(calls, driver),
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

impl<C: Calls> fmt::Debug for Worker<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// Makes the calls that are pushed, until no more can be pushed.
async fn make<C: Calls>(
    calls: &mut C,
    mut pushed: UnboundedReceiver<C::Input>,
    came: Sender<C::Item>,
) {
    poll_fn(|context| {
        loop {
            match pushed.poll_recv(context) {
                Poll::Ready(Some(input)) => calls.push(input),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => match calls.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => drop(came.send(item)),
                    // If nothing is in flight, wait for the next push.
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    })
    .await;
}
