//! Services for the tests: httpmock that keeps what arrived, and a peer that answers when it is told to.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use dealkit::{AgentProfile, Client, ClientBuilder, CreateAgent, RetryPolicy};
use httpmock::{HttpMockRequest, HttpMockResponse, MockServer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};

/// The key of every client here; nothing else looks like it.
pub(crate) const KEY: &str = "K3Y-canary-51c0";

/// An agent as short as may be.
pub(crate) const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// A deal as short as may be.
pub(crate) const DEAL: &str = r#"{"id":"d_1"}"#;

/// A builder for a service at `url`. The one place to turn retries off: every call here is one request.
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

/// A request that keeps every rule.
pub(crate) fn ada() -> CreateAgent {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build()
        .unwrap()
}

/// httpmock that gives one answer to everything, and keeps what arrived.
pub(crate) struct Service {
    server: MockServer,
    arrived: Arc<Mutex<Vec<HttpMockRequest>>>,
}

impl Service {
    /// Answers everything with this; for tests that are async.
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

    /// Answers everything with this; for tests that are not async.
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

/// Path and query of what arrived; httpmock puts the origin before them.
pub(crate) fn target(request: &HttpMockRequest) -> &str {
    let (_, rest) = request.uri_str().split_once("://").unwrap();
    &rest[rest.find('/').unwrap()..]
}

/// The values of a header of what arrived, whatever the case of its name.
pub(crate) fn header<'a>(request: &'a HttpMockRequest, name: &str) -> Vec<&'a str> {
    request
        .headers_vec()
        .iter()
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

/// A service on a bare socket: what it hears is handed to the test, which answers when it likes.
pub(crate) struct Peer {
    pub(crate) url: String,
    heard: mpsc::UnboundedReceiver<Heard>,
}

/// One request that the peer heard, and the way to answer it.
pub(crate) struct Heard {
    /// Request line and headers, byte for byte.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    answer: oneshot::Sender<Answer>,
    gone: oneshot::Receiver<Infallible>,
}

/// The bytes to answer with, and whether the connection ends after them.
struct Answer {
    text: Vec<u8>,
    close: bool,
}

/// The longest that a test waits for something in flight: it ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(20);

impl Peer {
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1:0").await.unwrap()
    }

    pub(crate) async fn at(address: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (sender, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, sender.clone()));
            }
        });
        Ok(Self { url, heard })
    }

    /// The next request, as soon as it is there.
    pub(crate) async fn next(&mut self) -> Heard {
        tokio::time::timeout(PATIENCE, self.heard.recv())
            .await
            .expect("no request came")
            .unwrap()
    }

    /// A request that is already there.
    pub(crate) fn waiting(&mut self) -> Option<Heard> {
        self.heard.try_recv().ok()
    }
}

impl Heard {
    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap()
    }

    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// The last segment of the path, as it was sent.
    pub(crate) fn segment(&self) -> &str {
        self.target().rsplit('/').next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Answers with a status and a body.
    pub(crate) fn answer(self, status: u16, body: &str) {
        let text = format!(
            "HTTP/1.1 {status} Any\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(text, false);
    }

    /// Answers with these bytes and ends the connection.
    pub(crate) fn answer_and_close(self, text: &str) {
        self.send(text.to_owned(), true);
    }

    fn send(self, text: String, close: bool) {
        let text = text.into_bytes();
        let sent = self.answer.send(Answer { text, close });
        assert!(sent.is_ok(), "the client is gone");
    }

    /// Answers with the deal that was asked for.
    pub(crate) fn answer_deal(self) {
        let body = format!(r#"{{"id":"{}"}}"#, self.segment());
        self.answer(200, &body);
    }

    /// Waits until the client has given the connection up.
    pub(crate) async fn gone(self) {
        // The answer stays possible until then: it is the client that ends this.
        let _answer = self.answer;
        let ended = tokio::time::timeout(PATIENCE, self.gone).await;
        ended
            .expect("the client holds on to the connection")
            .unwrap_err();
    }
}

/// One connection: request, answer, request, answer.
async fn converse(mut stream: TcpStream, sender: mpsc::UnboundedSender<Heard>) {
    let mut bytes = Vec::new();
    loop {
        let Some((head, body)) = hear(&mut stream, &mut bytes).await else {
            return;
        };
        let (answer, answered) = oneshot::channel();
        let (held, gone) = oneshot::channel::<Infallible>();
        let heard = Heard {
            head,
            body,
            answer,
            gone,
        };
        if sender.send(heard).is_err() {
            return;
        }
        let mut ignored = [0; 1];
        let answer = tokio::select! {
            answer = answered => answer,
            _ = stream.read(&mut ignored) => return,
        };
        drop(held);
        // Without an answer the connection ends: the test has thrown the request away.
        let Ok(Answer { text, close }) = answer else {
            return;
        };
        if stream.write_all(&text).await.is_err() || close {
            return;
        }
    }
}

/// Reads one request; `bytes` keeps what was read of the next.
async fn hear(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(stream, bytes).await?;
    };
    let head: String = bytes.drain(..end).map(char::from).collect();
    let length = head
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then_some(value)?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    while bytes.len() < length {
        read_more(stream, bytes).await?;
    }
    let body = bytes.drain(..length).collect();
    Some((head, body))
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 4096];
    match stream.read(&mut chunk).await {
        Ok(0) | Err(_) => None,
        Ok(count) => {
            bytes.extend(chunk.iter().take(count));
            Some(())
        }
    }
}
