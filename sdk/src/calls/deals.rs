//! The calls on deals.

use std::sync::Arc;

use http::Method;

use crate::{
    calls::{
        call::{Async, Call, read_model},
        service::Service,
    },
    error::call::Error,
    model::Deal,
    specification::wire,
    transport::{operation::Operation, path::escape_segment},
    value::opaque_debug,
};

/// Calls on deals; see [`Client::deals`](crate::Client::deals).
#[derive(Clone)]
pub struct Deals<M = Async> {
    pub(crate) service: Arc<Service>,
    pub(crate) mode: M,
}

impl<M> Deals<M> {
    pub(crate) fn to_async(&self) -> Deals {
        Deals {
            service: Arc::clone(&self.service),
            mode: Async,
        }
    }
}

impl<M: Clone> Deals<M> {
    /// Retrieves a deal by its identifier (specification, "Retrieve a deal").
    ///
    /// Every string is an identifier except the empty string, `.` and `..`, which no HTTP client can send, and a string that
    /// makes the URL longer than 65,534 characters. For these, the call fails with `invalid_id`.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
    /// let deal = client.deals().retrieve("d_1").await?;
    /// println!("{:?}", deal.status);
    /// # Ok(()) }
    /// ```
    #[doc(alias("get", "fetch"))]
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<Deal, M> {
        let id = escape_segment(id.as_ref()).map_err(Error::from);
        let path = id.map(|id| wire::DEAL_PATH.replace("{id}", &id));
        let read_deal = read_model(Deal::from_json_cancellable, Deal::unreadable);
        Call::new(
            Arc::clone(&self.service),
            retrieve_operation(),
            path,
            read_deal,
        )
        .in_mode(self.mode.clone())
    }
}

/// Returns the operation that retrieves a deal.
pub(crate) fn retrieve_operation() -> Operation {
    Operation {
        method: Method::GET,
        template: wire::DEAL_PATH.into(),
    }
}

opaque_debug!(Deals<M>);
