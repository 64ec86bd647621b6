//! The client for programs without an async runtime (feature `blocking`).
//!
//! All names are the same as in the async client, but a call is made with `send()` instead of being awaited. Calls run on the
//! calling thread. A background thread runs only while you iterate over the results of many calls.
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

mod worker;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::runtime::{Builder, Handle, Runtime};

pub use self::worker::Iter;
#[cfg(feature = "ledger")]
use crate::bulk::create_with_ledger::make_blocking_resolve;
pub use crate::bulk::many::CancelHandle;
use crate::{
    Error, Method, RawResponse,
    model::{Agent, Deal},
    value::opaque_debug,
};

/// The blocking client. Cheap to clone, and meant to be shared between threads. There is an [example](self).
///
/// This client also works on a thread of an async runtime, but blocks the thread. On such a thread, await the calls of
/// [`dealkit::Client`](crate::Client) instead, or make the blocking calls on a thread for blocking work (`spawn_blocking`).
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    mode: Blocking,
}

/// Calls on agents; see [`Client::agents`].
pub type Agents = crate::Agents<Blocking>;

/// Calls on deals; see [`Client::deals`].
pub type Deals = crate::Deals<Blocking>;

/// A call that has not been made yet, and is made with `send()`; see [`dealkit::Call`](crate::Call).
pub type Call<T> = crate::Call<T, Blocking>;

/// A call that returns the whole response; see [`dealkit::Call::with_response`](crate::Call::with_response).
pub type CallWithResponse<T> = crate::CallWithResponse<T, Blocking>;

/// A create with an idempotency key, which is made with `send()`; see [`dealkit::Call::once`](crate::Call::once).
#[cfg(feature = "ledger")]
pub type CreateOnce<T = Agent> = crate::CreateOnce<T, Blocking>;

/// A job that retrieves many deals: configure it, then iterate over its results; see
/// [`dealkit::RetrieveMany`](crate::RetrieveMany).
pub type RetrieveMany<I, T = Deal> = crate::RetrieveMany<I, T, Blocking>;

/// A job that creates many agents: configure it, then iterate over its results; see [`dealkit::CreateMany`](crate::CreateMany).
///
/// ```no_run
/// # fn example(client: dealkit::blocking::Client, rows: Vec<dealkit::CreateAgent>) {
/// for creation in client.agents().create_many(rows).concurrency(4) {
///     match &creation.result {
///         Ok(_) => println!("row {}: created {:?}", creation.index, creation.agent_id()),
///         Err(error) => eprintln!("row {}: {}: {error}", creation.index, creation.outcome()),
///     }
/// }
/// # }
/// ```
pub type CreateMany<I, T = Agent> = crate::CreateMany<I, T, Blocking>;

/// The mode of calls that run on the calling thread.
#[derive(Clone)]
pub struct Blocking {
    runtime: Arc<OwnedRuntime>,
}

/// A runtime that may be dropped anywhere, even on a thread of another runtime.
struct OwnedRuntime(Option<Runtime>);

impl Drop for OwnedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Blocking {
    fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::config(format!("the runtime cannot be started: {error}")))?;
        Ok(Self {
            runtime: Arc::new(OwnedRuntime(Some(runtime))),
        })
    }

    pub(crate) fn run<F>(&self, future: F) -> Result<F::Output, Error>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let Some(runtime) = &self.runtime.0 else {
            return Err(Error::config("the runtime has been shut down"));
        };
        let block_on_future = || {
            runtime.block_on(async {
                // This runtime runs only during calls, so it does not notice when the service closes an idle connection.
                // Yielding once lets the runtime notice closed connections before a request is sent over one of them.
                tokio::task::yield_now().await;
                future.await
            })
        };
        if Handle::try_current().is_err() {
            return Ok(block_on_future());
        }
        // Tokio panics if one runtime is driven on a thread of another runtime. So the future runs on a new thread.
        let join_result = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, block_on_future)?;
            std::io::Result::Ok(thread.join())
        });
        match join_result {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(Error::thread_not_started(&error)),
        }
    }
}

opaque_debug!(Blocking);

impl Client {
    /// Returns a builder with the default settings. The base URL and the service key have no defaults. For the settings, see
    /// [`dealkit::ClientBuilder`](crate::ClientBuilder).
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Wraps an async client.
    ///
    /// # Errors
    /// Of kind `Config` if the operating system denies a resource that the runtime needs, such as a file descriptor.
    pub fn new(client: crate::Client) -> Result<Self, Error> {
        Ok(Self {
            client,
            mode: Blocking::new()?,
        })
    }

    /// See [`dealkit::Client::from_env`](crate::Client::from_env).
    ///
    /// # Errors
    /// Of kind `Config` if a variable is missing or invalid.
    pub fn from_env() -> Result<Self, Error> {
        Self::new(crate::Client::from_env()?)
    }

    /// Returns the calls on agents.
    pub fn agents(&self) -> Agents {
        Agents {
            service: self.client.agents().service,
            mode: self.mode.clone(),
        }
    }

    /// Returns the calls on deals.
    pub fn deals(&self) -> Deals {
        Deals {
            service: self.client.deals().service,
            mode: self.mode.clone(),
        }
    }

    /// See [`dealkit::Client::request`](crate::Client::request).
    pub fn request<'s>(
        &self,
        method: Method,
        segments: impl AsRef<[&'s str]>,
    ) -> Call<RawResponse> {
        self.client
            .request(method, segments)
            .in_mode(self.mode.clone())
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
}

/// Sets up a [`Client`]; see [`dealkit::ClientBuilder`](crate::ClientBuilder).
pub type ClientBuilder = crate::ClientBuilder<Client>;

impl ClientBuilder {
    /// Checks the configuration and creates the client.
    ///
    /// # Errors
    /// Of kind `Config`. The message names the invalid setting and the values that the setting accepts. It contains neither the
    /// service key nor the base URL. Also if the operating system denies a resource that the runtime needs, such as a file
    /// descriptor.
    pub fn build(self) -> Result<Client, Error> {
        let shared = self.share_with.clone();
        let client = self.build_async(shared.as_ref().map(|shared| &shared.client))?;
        // A connection is driven by the runtime on which it was made. So clients that share connections also share a runtime.
        let mode = match shared {
            Some(shared) => shared.mode,
            None => Blocking::new()?,
        };
        Ok(Client { client, mode })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

impl<T: Send> Call<T> {
    /// Makes the call and waits until it completes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send(self) -> Result<T, Error> {
        let (call, mode) = self.into_async();
        mode.run(call.send())?
    }
}

#[cfg(feature = "ledger")]
impl<I, T> crate::CreateMany<I, T, Blocking> {
    /// Calls `resolve` for each unresolved row before the row is sent again; see
    /// [`dealkit::CreateMany::resolve`](crate::CreateMany::resolve). `resolve` runs on separate threads, and may block them. A
    /// job that is cancelled does not wait for `resolve`.
    pub fn resolve<F, E>(self, resolve: F) -> Self
    where
        F: Fn(crate::ledger::UnresolvedRow) -> Result<crate::ledger::Resolution, E>
            + Send
            + Sync
            + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.set_resolve(make_blocking_resolve(resolve))
    }
}

#[cfg(feature = "ledger")]
impl<T> CreateOnce<T> {
    /// Calls `resolve` if the outcome of the key is unknown; see [`dealkit::CreateOnce::resolve`](crate::CreateOnce::resolve).
    /// `resolve` runs on a separate thread, and may block it.
    pub fn resolve<F, E>(self, resolve: F) -> Self
    where
        F: Fn(crate::ledger::UnresolvedRow) -> Result<crate::ledger::Resolution, E>
            + Send
            + Sync
            + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.set_resolve(make_blocking_resolve(resolve))
    }
}

#[cfg(feature = "ledger")]
impl<T: Send + 'static> CreateOnce<T> {
    /// Makes the call, unless the ledger already has an outcome of the idempotency key, and waits for the result.
    ///
    /// # Errors
    /// See [`dealkit::Call::once`](crate::Call::once).
    pub fn send(self) -> Result<crate::Created<T>, Error> {
        let (once, mode) = self.into_async();
        mode.run(once.send())?
    }
}
