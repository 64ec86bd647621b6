//! The operations as a trait: what a program calls, whoever answers.

use std::pin::Pin;

use crate::{
    error::call::Error,
    model::{Agent, CreateAgent, Deal},
};

/// The future of a call.
pub type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The operations of the interface, as a [`Client`](crate::Client) calls them with its own options.
///
/// A program that takes a `&dyn Operations`, or holds an `Arc<dyn Operations>`, is tested without a service: with
#[cfg_attr(feature = "test-util", doc = "a [`Stub`](crate::test_util::Stub),")]
#[cfg_attr(not(feature = "test-util"), doc = "a `Stub` (feature `test-util`),")]
/// or with an implementation of its own.
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
/// `retrieve_many` and `create_many` are not among them: order, concurrency, stopping and the ledger are what a program uses
/// them for, and a stand-in would have to imitate all that. Test such a program with a real `Client`, and the sandbox in the
/// service's place.
///
/// An operation that is added to the interface gets a default body here, so that implementations go on compiling.
pub trait Operations: Send + Sync {
    /// Creates an agent; see [`Agents::create`](crate::Agents::create).
    fn create_agent(&self, request: CreateAgent) -> CallFuture<Agent>;

    /// Retrieves a deal; see [`Deals::retrieve`](crate::Deals::retrieve).
    fn retrieve_deal(&self, id: &str) -> CallFuture<Deal>;
}
