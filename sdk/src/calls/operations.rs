//! The operations as a trait: what a program calls, whoever answers.

use std::pin::Pin;

use crate::{
    error::call::Error,
    model::{Agent, CreateAgent, Deal},
};

/// The future of a call.
pub type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The API's operations, as a [`Client`](crate::Client) calls them with its own options.
///
/// To test a program that takes a `&dyn Operations`, or holds an `Arc<dyn Operations>`, without a service, use
#[cfg_attr(feature = "test-util", doc = "a [`Stub`](crate::test_util::Stub),")]
#[cfg_attr(not(feature = "test-util"), doc = "a `Stub` (feature `test-util`),")]
/// or an implementation of your own.
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
/// `retrieve_many` and `create_many` are not among them: a stub would have to imitate their order, concurrency,
/// stopping and ledger. Test such a program with a real `Client` and the sandbox.
///
/// Operations added later get a default body, so that implementations keep compiling.
pub trait Operations: Send + Sync {
    /// Creates an agent; see [`Agents::create`](crate::Agents::create).
    fn create_agent(&self, request: CreateAgent) -> CallFuture<Agent>;

    /// Retrieves a deal; see [`Deals::retrieve`](crate::Deals::retrieve).
    fn retrieve_deal(&self, id: &str) -> CallFuture<Deal>;
}
