//! The API's operations as a trait, so that tests can replace the client.

#[cfg(feature = "ledger")]
use crate::{
    bulk::{create_once::IdempotencyKey, row::Created},
    error::call::Error,
};
use crate::{
    calls::{call::CallFuture, options::CallOptions},
    model::{Agent, CreateAgent, Deal},
};

/// The API's operations, as a [`Client`](crate::Client) calls them.
///
/// If a program takes a `&dyn Operations`, or holds an `Arc<dyn Operations>`, you can test it without a service. Use
#[cfg_attr(feature = "test-util", doc = "a [`Stub`](crate::test_util::Stub),")]
#[cfg_attr(not(feature = "test-util"), doc = "a `Stub` (feature `test-util`),")]
/// or your own implementation.
///
/// ```no_run
/// use std::{sync::Arc, time::Duration};
///
/// use dealkit::{CallOptions, Client, Deal, Error, Operations};
///
/// struct Program {
///     calls: Arc<dyn Operations>,
/// }
///
/// impl Program {
///     async fn is_won(&self, id: &str) -> Result<bool, Error> {
///         let deal = self.calls.retrieve_deal(id).await?;
///         Ok(deal.status.is_some_and(|status| status == "CLOSED"))
///     }
///
///     async fn retrieve_quickly(&self, id: &str) -> Result<Deal, Error> {
///         let options = CallOptions::new().timeout(Duration::from_secs(2));
///         self.calls.retrieve_deal_with(id, options).await
///     }
/// }
///
/// let program = Program { calls: Arc::new(Client::from_env()?) };
/// # let _ = program;
/// # Ok::<(), Error>(())
/// ```
///
/// The trait has no `retrieve_many` and `create_many`: a stub would have to imitate their order, concurrency,
/// stopping and ledger. Test a program that calls them with a real `Client` and the sandbox.
///
/// An implementation defines [`create_agent_with`](Self::create_agent_with) and
/// [`retrieve_deal_with`](Self::retrieve_deal_with). Methods that are added later get a default body, so that implementations keep
/// compiling.
#[doc(alias("mock", "stub", "fake"))]
pub trait Operations: Send + Sync {
    /// Creates an agent; see [`Agents::create`](crate::Agents::create).
    fn create_agent(&self, request: CreateAgent) -> CallFuture<Agent> {
        self.create_agent_with(request, CallOptions::new())
    }

    /// Creates an agent with options of this call, which replace the client's.
    fn create_agent_with(&self, request: CreateAgent, options: CallOptions) -> CallFuture<Agent>;

    /// Creates an agent at most once for an idempotency key; see [`Call::once`](crate::Call::once) (feature `ledger`).
    ///
    /// In a web handler, spawn the future as a task, so that the create completes even if the handler is dropped:
    ///
    /// ```no_run
    /// # use dealkit::{CreateAgent, IdempotencyKey, Operations, ledger::Ledger};
    /// # async fn example(calls: &dyn Operations, request: CreateAgent) -> Result<(), Box<dyn std::error::Error>> {
    /// let key = IdempotencyKey::new(&Ledger::sqlite("agents.ledger"), "crm-4711");
    /// let created = tokio::spawn(calls.create_agent_once(request, key)).await??;
    /// # let _ = created; Ok(()) }
    /// ```
    #[cfg(feature = "ledger")]
    fn create_agent_once(&self, request: CreateAgent, key: IdempotencyKey) -> CallFuture<Created> {
        self.create_agent_once_with(request, key, CallOptions::new())
    }

    /// Creates an agent at most once for an idempotency key, with options of this call (feature `ledger`). The default body
    /// returns an error of kind `Config`, for implementations that do not support idempotency keys.
    #[cfg(feature = "ledger")]
    fn create_agent_once_with(
        &self,
        request: CreateAgent,
        key: IdempotencyKey,
        options: CallOptions,
    ) -> CallFuture<Created> {
        let _ = (request, key, options);
        let error =
            Error::config("not sent: this implementation of Operations has no create_agent_once");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Retrieves a deal; see [`Deals::retrieve`](crate::Deals::retrieve).
    fn retrieve_deal(&self, id: &str) -> CallFuture<Deal> {
        self.retrieve_deal_with(id, CallOptions::new())
    }

    /// Retrieves a deal with options of this call, which replace the client's.
    fn retrieve_deal_with(&self, id: &str, options: CallOptions) -> CallFuture<Deal>;
}
