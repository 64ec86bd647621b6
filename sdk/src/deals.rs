//! Deals: the calls that read them.

use std::fmt;

use http::Method;

use crate::{
    call::Call,
    client::Client,
    error::{Error, Operation},
    http::path::segment,
    model::Deal,
    retrieve_many::RetrieveMany,
    wire,
};

/// Calls on deals; see [`Client::deals`].
#[derive(Clone)]
pub struct Deals {
    client: Client,
}

impl Deals {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Retrieves a deal by its identifier (specification, "Retrieve a deal").
    ///
    /// Every string is an identifier but the empty one, `.` and `..`, which no HTTP client can send; the
    /// call then fails with `invalid_id`.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client) -> Result<(), dealkit::Error> {
    /// let deal = client.deals().retrieve("d_1").await?;
    /// println!("{:?}", deal.status);
    /// # Ok(()) }
    /// ```
    pub fn retrieve(&self, id: impl AsRef<str>) -> Call<Deal> {
        let operation = Operation {
            method: Method::GET,
            template: wire::DEAL_PATH.to_owned(),
        };
        let path = segment(id.as_ref())
            .map(|id| wire::DEAL_PATH.replace("{id}", &id))
            .map_err(Error::from);
        Call::new(self.client.clone(), operation, path, |answer, _| {
            Deal::from_json(&answer.body).map_err(Error::decode)
        })
    }

    /// Retrieves many deals, some at a time, as a stream; see [`RetrieveMany`].
    pub fn retrieve_many<I>(&self, ids: I) -> RetrieveMany<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        RetrieveMany::new(self.clone(), ids.into_iter())
    }
}

impl fmt::Debug for Deals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deals").finish_non_exhaustive()
    }
}
