//! A service that gives one response to everything, and clients that do not retry.
#![allow(dead_code, reason = "each test file uses its own part")]

use dealkit::{Client, ClientBuilder, RetryPolicy};

use crate::peer::{Http1, KEY, Peer, Request, Step};

/// The shortest possible agent.
pub(crate) const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// The shortest possible deal.
pub(crate) const DEAL: &str = r#"{"id":"d_1"}"#;

/// A builder for a client of a service at `url`. This is the only place that turns retries off: every call is one
/// request.
pub(crate) fn builder(url: impl Into<String>) -> ClientBuilder {
    Client::builder()
        .base_url(url)
        .service_key(KEY)
        .retry(RetryPolicy::never())
}

/// A client of the service at `url`, without retries.
pub(crate) fn client(url: impl Into<String>) -> Client {
    builder(url).build().unwrap()
}

/// A service that gives one response to everything.
pub(crate) struct Service(Peer);

impl Service {
    pub(crate) fn answering(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let headers = headers.iter().map(|(name, value)| {
            let name: &'static str = (*name).to_owned().leak();
            (name, (*value).to_owned())
        });
        let answer = Step::Answer(status, headers.collect(), body.as_ref().to_vec());
        Self(Peer::start(Http1, vec![vec![Step::Hear, answer]]))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url.clone()
    }

    pub(crate) fn client(&self) -> Client {
        client(self.url())
    }

    /// Everything that arrived.
    pub(crate) fn arrived(&self) -> Vec<Request> {
        self.0.so_far().arrived
    }

    /// The one request that arrived.
    pub(crate) fn only(&self) -> Request {
        let arrived = self.arrived();
        assert_eq!(arrived.len(), 1, "{arrived:?}");
        arrived.into_iter().next().unwrap()
    }
}
