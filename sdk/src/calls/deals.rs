//! Deals: the calls that read them.

use std::{fmt, sync::Arc};

use crate::{
    calls::{
        call::{Async, Call, read_model},
        service::Service,
    },
    contract::wire,
    model::Deal,
};

/// Calls on deals; see [`Client::deals`](crate::Client::deals).
#[derive(Clone)]
pub struct Deals<M = Async> {
    pub(crate) service: Arc<Service>,
    pub(crate) mode: M,
}

impl<M> Deals<M> {
    /// The same calls, to be awaited.
    pub(crate) fn awaited(&self) -> Deals {
        Deals {
            service: Arc::clone(&self.service),
            mode: Async,
        }
    }
}

impl<M: Clone> Deals<M> {
    /// Retrieves a deal by its identifier (specification, "Retrieve a deal").
    ///
    /// Every string is an identifier except the empty one, `.` and `..`, which no HTTP client can send, and one that
    /// makes the URL longer than 65,534 characters; the call then fails with `invalid_id`.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
    /// let deal = client.deals().retrieve("d_1").await?;
    /// println!("{:?}", deal.status);
    /// # Ok(()) }
    /// ```
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<Deal, M> {
        Call::retrieve(
            &self.service,
            wire::DEAL_PATH,
            id.as_ref(),
            read_model(Deal::from_json_while, Deal::unreadable),
        )
        .in_mode(self.mode.clone())
    }
}

impl<M> fmt::Debug for Deals<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deals").finish_non_exhaustive()
    }
}
