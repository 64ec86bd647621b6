//! The API's operations as a trait, so that tests can replace the client.

use crate::{
    calls::call::CallFuture,
    model::{Agent, CreateAgent, Deal},
};

/// The API's operations, as a [`Client`](crate::Client) calls them with its own options.
///
/// If a program takes a `&dyn Operations`, or holds an `Arc<dyn Operations>`, you can test it without a service. Use
#[cfg_attr(feature = "test-util", doc = "a [`Stub`](crate::test_util::Stub),")]
#[cfg_attr(not(feature = "test-util"), doc = "a `Stub` (feature `test-util`),")]
/// or your own implementation.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use dealkit::{Client, Deal, Error, Operations};
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
/// Methods that are added later get a default body, so that implementations keep compiling.
pub trait Operations: Send + Sync {
    /// Creates an agent; see [`Agents::create`](crate::Agents::create).
    fn create_agent(&self, request: CreateAgent) -> CallFuture<Agent>;

    /// Retrieves a deal; see [`Deals::retrieve`](crate::Deals::retrieve).
    fn retrieve_deal(&self, id: &str) -> CallFuture<Deal>;
}
