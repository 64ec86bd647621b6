//! An httpmock service that gives one response to everything and keeps what arrived, and clients that do not retry.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::{Arc, Mutex};

use dealkit::{Client, ClientBuilder, RetryPolicy};
use httpmock::{HttpMockRequest, HttpMockResponse, MockServer};

use crate::peer::KEY;

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

/// An httpmock service that gives one response to everything, and keeps what arrived.
pub(crate) struct Service {
    server: MockServer,
    arrived: Arc<Mutex<Vec<HttpMockRequest>>>,
}

impl Service {
    /// Answers everything with this response; for async tests.
    pub(crate) async fn answering(
        status: u16,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Self {
        let answer = answer(status, headers, body.as_ref());
        let service = Self::on(MockServer::start_async().await);
        let arrived = service.arrived.clone();
        service
            .server
            .mock_async(|when, then| {
                when.is_true(|_| true);
                then.respond_with(keep(arrived, answer));
            })
            .await;
        service
    }

    /// Answers everything with this response; for tests that are not async.
    pub(crate) fn answering_blocking(status: u16, body: impl AsRef<[u8]>) -> Self {
        let answer = answer(status, &[], body.as_ref());
        let service = Self::on(MockServer::start());
        let arrived = service.arrived.clone();
        service.server.mock(|when, then| {
            when.is_true(|_| true);
            then.respond_with(keep(arrived, answer));
        });
        service
    }

    fn on(server: MockServer) -> Self {
        Self {
            server,
            arrived: Arc::default(),
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.base_url()
    }

    pub(crate) fn client(&self) -> Client {
        client(self.url())
    }

    /// Everything that arrived.
    pub(crate) fn arrived(&self) -> Vec<HttpMockRequest> {
        self.arrived.lock().unwrap().clone()
    }

    /// The one request that arrived.
    pub(crate) fn only(&self) -> HttpMockRequest {
        let arrived = self.arrived();
        assert_eq!(arrived.len(), 1, "{arrived:?}");
        arrived.into_iter().next().unwrap()
    }
}

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> HttpMockResponse {
    let answer = HttpMockResponse::builder().status(status).headers(
        headers
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if body.is_empty() {
        answer.no_body().build()
    } else {
        answer.body(body.to_vec()).build()
    }
}

fn keep(
    arrived: Arc<Mutex<Vec<HttpMockRequest>>>,
    answer: HttpMockResponse,
) -> impl Fn(&HttpMockRequest) -> HttpMockResponse + Send + Sync + 'static {
    move |request| {
        arrived.lock().unwrap().push(request.clone());
        answer.clone()
    }
}

/// The path and query of a request; httpmock puts the origin before them.
pub(crate) fn target(request: &HttpMockRequest) -> &str {
    let (_, rest) = request.uri_str().split_once("://").unwrap();
    &rest[rest.find('/').unwrap()..]
}

/// The values of a header of a request, regardless of the case of its name.
pub(crate) fn header<'a>(request: &'a HttpMockRequest, name: &str) -> Vec<&'a str> {
    request
        .headers_vec()
        .iter()
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}
