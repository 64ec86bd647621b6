//! The same client for programs without an async runtime (feature `blocking`).
//!
//! Every name is that of the async client; a call is made with `send()`, where the other is awaited.
//! The calling thread does the work; only while deals are iterated over is there a thread in the background.
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
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Serialize;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::{
    CreateAgent, Error, InFlight, Method, RawResponse, Response, Retrieved, RetryPolicy,
    model::{Agent, Deal},
};

/// The blocking client. Cheap to clone, and made to be shared between threads.
///
/// On a thread of an async runtime it works too, but stalls that thread: await the calls of
/// [`dealkit::Client`](crate::Client) there, or make them on a thread for blocking work.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    driver: Driver,
}

/// Runs calls to their end on the calling thread.
#[derive(Clone)]
struct Driver {
    runtime: Arc<OwnedRuntime>,
}

/// A runtime that may be dropped anywhere, also where waiting for it is not allowed.
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
                // Between calls nobody looks after the kept connections. Letting the runtime look once
                // finds those that the service has closed, before a request goes out on one.
                tokio::task::yield_now().await;
                future.await
            })
        };
        if Handle::try_current().is_err() {
            return Ok(work());
        }
        // Tokio panics where one runtime is driven on a thread of another, so this borrows a thread.
        match std::thread::scope(|scope| scope.spawn(work).join()) {
            Ok(output) => Ok(output),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Client {
    /// A builder with every default set; it lacks the base URL and the service key. Its options are those of
    /// [`dealkit::ClientBuilder`](crate::ClientBuilder).
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The blocking face of an async client.
    ///
    /// # Errors
    /// Of kind `Config` when the system refuses what the runtime needs.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        Ok(Self {
            client,
            driver: Driver::new()?,
        })
    }

    /// See [`dealkit::Client::from_env`](crate::Client::from_env).
    ///
    /// # Errors
    /// Of kind `Config` when a variable is missing or does not hold what it should.
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
    /// Of kind `Config`; the text says which setting is wrong and what it takes, and repeats neither the
    /// key nor the URL. Also when the system refuses what the runtime needs.
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
    #[doc = include_str!("create_outcomes.md")]
    pub fn create(&self, request: CreateAgent) -> Call<Agent> {
        self.driver.call(self.agents.create(request))
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
    /// What sending the call would find wrong before a byte leaves.
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

    /// Makes the call and waits for its end.
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

/// A call that comes back with the whole response; see [`Call::with_response`].
#[must_use = "a call does nothing until it is sent"]
#[derive(Debug)]
pub struct CallWithResponse<T> {
    call: crate::CallWithResponse<T>,
    driver: Driver,
}

impl<T: Send> CallWithResponse<T> {
    /// Makes the call and waits for its end.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send(self) -> Result<Response<T>, Error> {
        self.driver.run(self.call.send())?
    }
}

/// Retrieves many deals: a value to adjust and iterate over; see
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
        let concurrency = self.many.at_a_time();
        let (ids, in_flight) = self.many.into_parts();
        Iter {
            ids: Some(ids),
            concurrency,
            in_flight: 0,
            worker: Worker::Caller(in_flight, self.driver),
        }
    }
}

/// The deals of a [`RetrieveMany`]. A thread in the background looks after those in flight, so that they come in
/// while the caller works on those it has; it ends with the iterator.
#[derive(Debug)]
pub struct Iter<I> {
    /// `None` once the iterator has ended: it is not asked again.
    ids: Option<I>,
    concurrency: usize,
    /// How many deals the worker has not handed over.
    in_flight: usize,
    worker: Worker,
}

impl<I> Iterator for Iter<I>
where
    I: Iterator,
    I::Item: Into<String>,
{
    type Item = Retrieved;

    fn next(&mut self) -> Option<Retrieved> {
        while self.in_flight < self.concurrency {
            let Some(id) = self.ids.as_mut().and_then(Iterator::next) else {
                self.ids = None;
                break;
            };
            self.worker.push(id.into());
            self.in_flight += 1;
        }
        if self.in_flight == 0 {
            return None;
        }
        self.in_flight -= 1;
        self.worker.next()
    }
}

/// Who looks after the deals in flight of an iterator.
enum Worker {
    /// The calling thread: as long as nothing is in flight, and where the system refuses a thread.
    Caller(InFlight, Driver),
    /// A thread of their own.
    Background {
        ids: UnboundedSender<String>,
        items: Receiver<Retrieved>,
        thread: JoinHandle<()>,
    },
    /// It has panicked.
    Gone,
}

impl Worker {
    /// Adds a deal to those in flight.
    fn push(&mut self, id: String) {
        let mut worker = match std::mem::replace(self, Self::Gone) {
            Self::Caller(in_flight, driver) => Self::start(in_flight, driver),
            worker => worker,
        };
        match &mut worker {
            Self::Caller(in_flight, _) => in_flight.push(id),
            // Where nobody takes it, `next` finds out why.
            Self::Background { ids, .. } => drop(ids.send(id)),
            Self::Gone => {}
        }
        *self = worker;
    }

    fn start(in_flight: InFlight, driver: Driver) -> Self {
        let (ids, pushed) = unbounded_channel();
        let (came, items) = channel();
        // It gets them once it is there, so that they are not lost where the system refuses a thread.
        let (hand_over, handed_over) = channel::<(InFlight, Driver)>();
        let work = move || {
            if let Ok((in_flight, driver)) = handed_over.recv() {
                let _ = driver.run(retrieve(in_flight, pushed, came));
            }
        };
        match thread::Builder::new()
            .name("dealkit".to_owned())
            .spawn(work)
        {
            Ok(thread) => {
                let _ = hand_over.send((in_flight, driver));
                Self::Background { ids, items, thread }
            }
            Err(_) => Self::Caller(in_flight, driver),
        }
    }

    /// Waits for the next deal of those in flight.
    fn next(&mut self) -> Option<Retrieved> {
        match self {
            Self::Caller(in_flight, driver) => return driver.run(in_flight.next()).ok().flatten(),
            Self::Background { items, .. } => {
                if let Ok(item) = items.recv() {
                    return Some(item);
                }
            }
            Self::Gone => {}
        }
        if let Self::Background { thread, .. } = std::mem::replace(self, Self::Gone)
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
        None
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// Retrieves what is pushed, until nobody can push any more.
async fn retrieve(
    mut in_flight: InFlight,
    mut pushed: UnboundedReceiver<String>,
    came: Sender<Retrieved>,
) {
    poll_fn(|context| {
        loop {
            match pushed.poll_recv(context) {
                Poll::Ready(Some(id)) => in_flight.push(id),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => match in_flight.poll_next_unpin(context) {
                    Poll::Ready(Some(item)) => drop(came.send(item)),
                    // Where nothing is in flight, the next identifier is waited for.
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    })
    .await;
}
