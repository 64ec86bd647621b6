//! The same calls with dealkit and with bare reqwest.

use bytes::Bytes;
use dealkit::{Client, Deal};
use futures_util::{Stream, StreamExt as _, stream};
use http::StatusCode;
use tokio::runtime::Runtime;

use crate::{Turn, clock::thread_cpu, document, plain, request, service::KEY};

/// The clients of one service.
#[derive(Debug)]
pub struct Clients {
    url: String,
    dealkit: Client,
    reqwest: reqwest::Client,
    contacts: usize,
}

impl Clients {
    /// Clients of the service at that URL.
    pub fn new(url: &str) -> Self {
        let dealkit = Client::builder().base_url(url).service_key(KEY);
        // reqwest takes what is installed, unless it links aws-lc; dealkit would choose the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            url: url.to_owned(),
            dealkit: dealkit.build().unwrap(),
            reqwest: reqwest::Client::builder().no_proxy().build().unwrap(),
            contacts: document::TYPICAL,
        }
    }

    /// Retrieves a deal.
    pub async fn retrieve(&self) {
        let deal = self.dealkit.deals().retrieve("d_1").await.unwrap();
        assert_eq!(deal.contacts.len(), self.contacts);
    }

    /// Retrieves a deal with reqwest and serde_json.
    pub async fn retrieve_with_reqwest(&self) {
        let deal = self.read_with_reqwest("d_1").await;
        assert_eq!(deal.contacts.len(), self.contacts);
    }

    /// Retrieves a deal with reqwest, and decodes it with dealkit: what is left is the cost of the call.
    pub async fn retrieve_with_reqwest_and_decode(&self) {
        let deal = Deal::from_json(self.send_with_reqwest("d_1").await).unwrap();
        assert_eq!(deal.contacts.len(), self.contacts);
    }

    /// Creates an agent, which is validated.
    pub async fn create(&self) {
        let request = request::checked().unwrap();
        let agent = self.dealkit.agents().create(request).await.unwrap();
        assert_eq!(agent.id, "a_1");
    }

    /// Creates an agent with reqwest and serde_json.
    pub async fn create_with_reqwest(&self) {
        let body = serde_json::to_vec(&request::unchecked()).unwrap();
        let request = self
            .reqwest
            .post(format!("{}/v1/agents", self.url))
            .header("x-service-key", KEY)
            .header("content-type", "application/json")
            .body(body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
        let body = response.bytes().await.unwrap();
        let agent: plain::Agent = serde_json::from_slice(&body).unwrap();
        assert_eq!(agent.id, "a_1");
    }

    /// Retrieves `count` deals, in the order of their identifiers.
    pub async fn retrieve_many(&self, count: usize, concurrency: usize) {
        let ids = (0..count).map(|n| format!("d_{n}"));
        let many = self
            .dealkit
            .deals()
            .retrieve_many(ids)
            .concurrency(concurrency);
        let mut deals = many.stream();
        let mut seen = 0;
        while let Some(item) = deals.next().await {
            let deal: Deal = item.result.unwrap();
            assert_eq!(deal.contacts.len(), self.contacts);
            seen += 1;
        }
        assert_eq!(seen, count);
    }

    /// Retrieves `count` deals with reqwest, serde_json and a buffered stream.
    pub async fn retrieve_many_with_reqwest(&self, count: usize, concurrency: usize) {
        let deals = stream::iter(0..count)
            .map(|n| async move { self.read_with_reqwest(&format!("d_{n}")).await });
        let checked = deals
            .buffered(concurrency)
            .map(|deal| assert_eq!(deal.contacts.len(), self.contacts));
        drain(checked, count).await;
    }

    /// Retrieves `count` deals with reqwest and a buffered stream, and decodes them with dealkit: the rest is the cost of the
    /// calls.
    pub async fn retrieve_many_with_reqwest_and_decode(&self, count: usize, concurrency: usize) {
        let bodies = stream::iter(0..count)
            .map(|n| async move { self.send_with_reqwest(&format!("d_{n}")).await });
        let checked = bodies.buffered(concurrency).map(|body| {
            let deal = Deal::from_json(body).unwrap();
            assert_eq!(deal.contacts.len(), self.contacts);
        });
        drain(checked, count).await;
    }

    async fn read_with_reqwest(&self, id: &str) -> plain::Deal {
        serde_json::from_slice(&self.send_with_reqwest(id).await).unwrap()
    }

    async fn send_with_reqwest(&self, id: &str) -> Bytes {
        let request = self
            .reqwest
            .get(format!("{}/v1/deals/{id}", self.url))
            .header("x-service-key", KEY);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.bytes().await.unwrap()
    }
}

/// A turn of many calls, of which a fixed number is in flight at once.
pub fn turn<'t, F: Future<Output = ()> + 't>(
    runtime: &'t Runtime,
    in_flight: usize,
    calls: usize,
    call: impl Fn() -> F + 't,
) -> Turn<'t> {
    let count = u32::try_from(calls).unwrap();
    Box::new(move || {
        let began = thread_cpu();
        let made = stream::iter(0..calls).map(|_| call());
        runtime.block_on(drain(made.buffer_unordered(in_flight), calls));
        (thread_cpu() - began) / count
    })
}

/// A turn of one piece of work that counts as many calls.
pub fn turn_of<'t, F: Future<Output = ()>>(
    runtime: &'t Runtime,
    calls: usize,
    work: impl Fn() -> F + 't,
) -> Turn<'t> {
    let calls = u32::try_from(calls).unwrap();
    Box::new(move || {
        let began = thread_cpu();
        runtime.block_on(work());
        (thread_cpu() - began) / calls
    })
}

async fn drain(outcomes: impl Stream<Item = ()>, expected: usize) {
    assert_eq!(outcomes.count().await, expected);
}
