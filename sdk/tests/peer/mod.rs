//! A scripted service for tests: [`Peer`]. It counts connections and requests, and responds in one of three ways.
//!
//! * [`Peer::start`] performs a [`Script`] of [`Step`]s on each TCP connection, byte for byte, in HTTP/1.1 or HTTP/2. A step can
//!   break the connection.
//! * [`Peer::answering`] sends the same response to every request.
//! * [`Peer::manual`] and [`Peer::in_memory`] pass every request to the test, which responds ([`PendingRequest::answer`]).
//!   `in_memory` is a transport without sockets, for a paused clock.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod catalogue;
pub(crate) mod clock;
mod connection;
mod in_memory;
mod issuer;
pub(crate) mod proxy;
mod requests;
pub(crate) mod tls;

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use dealkit::{AgentProfile, Client, ClientBuilder, CreateAgent, Error, RetryPolicy};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Runtime,
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use connection::Connection;
pub(crate) use requests::{PendingRequest, Request, Requests};

/// The service key of the tests' clients. It is unique, so that tests can search output for it.
pub(crate) const KEY: &str = "K3Y-canary-7e91";

/// A body that is valid both as an agent and as a deal.
pub(crate) const VALID_BODY: &str = r#"{"id":"x_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// The shortest possible agent.
pub(crate) const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// The shortest possible deal.
pub(crate) const DEAL: &str = r#"{"id":"d_1"}"#;

/// Time limit for events that always happen. It ends tests that hang.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// HTTP/2 with prior knowledge, without TLS.
    Http2,
}

pub(crate) use Protocol::{Http1, Http2};

pub(crate) const BOTH: [Protocol; 2] = [Http1, Http2];

type Headers = Vec<(&'static str, String)>;

/// An action of the peer on a connection. A script restarts after its last step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads a whole request.
    ReadRequest,
    /// Waits for the first byte of a request and leaves it unread.
    PeekRequest,
    /// HTTP/2: from now on, sends no SETTINGS and no acknowledgements.
    Mute,
    /// HTTP/2: waits until the client has read everything sent before (PING). HTTP/1.1 has no equivalent.
    Sync,
    /// HTTP/1.1: passes the last request to the test and sends the test's response.
    Ask,
    /// Processes the last request: a POST creates an agent.
    Process,
    /// A whole response.
    Answer(u16, Headers, Vec<u8>),
    /// The head of a response. The headers contain the length, if any.
    Head(u16, Headers),
    /// A part of the body. `true` ends the body in HTTP/2.
    Body(Vec<u8>, bool),
    /// Arbitrary bytes.
    Raw(Vec<u8>),
    /// An HTTP/2 frame: type, flags, true for the request's stream (false for stream 0), payload.
    Frame(u8, u8, bool, Vec<u8>),
    /// The bytes of another step, one at a time, with this pause after each.
    Slowly(Duration, Box<Step>),
    /// Resets the connection (RST).
    Reset,
    /// Closes the peer's side of the connection (FIN).
    End,
    /// Sends nothing more until the client closes the connection.
    Silence,
}

pub(crate) type Script = Vec<Step>;

/// Creates a response with a body and only the headers that declare its length.
pub(crate) fn answer(status: u16, body: &str) -> Step {
    Step::Answer(status, Vec::new(), body.into())
}

/// Counters and records of a peer's connections and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    /// Connections that have ended.
    pub(crate) ended: usize,
    /// Completely read requests.
    pub(crate) requests: usize,
    /// Agents created.
    pub(crate) agents: usize,
    /// Completely written responses.
    pub(crate) answered: usize,
    /// The requests read over HTTP/1.1.
    pub(crate) arrived: Vec<Request>,
    /// All bytes read, for each connection.
    pub(crate) received: Vec<Vec<u8>>,
}

pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
    builder: ClientBuilder,
    counts: Arc<Mutex<Counts>>,
    /// `None` for a peer in memory.
    server: Option<Server>,
    requests: Requests,
}

/// Handle of the task that accepts connections.
struct Server {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Peer {
    /// Starts a peer. Each connection performs the next script; further connections repeat the last one.
    ///
    /// The peer runs on a separate thread, because blocking clients need that, and so that it does not write to a client's log.
    pub(crate) fn start(protocol: Protocol, scripts: Vec<Script>) -> Self {
        Self::at("127.0.0.1:0", protocol, scripts)
    }

    /// Starts a peer at this address, like [`start`](Self::start).
    pub(crate) fn at(address: &str, protocol: Protocol, scripts: Vec<Script>) -> Self {
        let (peer, serve) = Self::bind(address, protocol, scripts).unwrap();
        spawn_thread(serve);
        peer
    }

    /// Starts a peer that sends the same response to every request, over HTTP/1.1, from a separate thread.
    pub(crate) fn answering(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let headers = headers.iter().map(|(name, value)| {
            let name: &'static str = (*name).to_owned().leak();
            (name, (*value).to_owned())
        });
        let answer = Step::Answer(status, headers.collect(), body.as_ref().to_vec());
        Self::start(Http1, vec![vec![Step::ReadRequest, answer]])
    }

    /// Starts a peer that processes each request and responds with [`VALID_BODY`].
    pub(crate) fn succeeding(protocol: Protocol) -> Self {
        let script = vec![Step::ReadRequest, Step::Process, answer(200, VALID_BODY)];
        Self::start(protocol, vec![script])
    }

    /// Starts a peer that passes every request to the test ([`next`](Requests::next)), over HTTP/1.1.
    ///
    /// The peer runs on the test's thread, so that it makes progress only while the test waits.
    pub(crate) fn manual() -> Self {
        let script = vec![Step::ReadRequest, Step::Ask];
        let (peer, serve) = Self::bind("127.0.0.1:0", Http1, vec![script]).unwrap();
        tokio::spawn(serve);
        peer
    }

    /// Creates a peer that passes every request to the test, like [`manual`](Self::manual), but without sockets, for a paused
    /// clock. Its clients have the default settings, because their waits take no real time.
    pub(crate) fn in_memory() -> Self {
        let counts = Arc::new(Mutex::new(Counts::default()));
        let (ask, requests) = Requests::channel();
        let url = "https://deals.example.com";
        let transport = in_memory::transport(counts.clone(), ask);
        let builder = Client::builder().base_url(url).service_key(KEY);
        Self {
            url: url.to_owned(),
            protocol: Http1,
            builder: builder.transport(transport),
            counts,
            server: None,
            requests,
        }
    }

    fn bind(
        address: &str,
        protocol: Protocol,
        scripts: Vec<Script>,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let counts = Arc::new(Mutex::new(Counts::default()));
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (ask, requests) = Requests::channel();
        let serve = serve(listener, protocol, scripts, counts.clone(), ask, stopped);
        let peer = Self {
            builder: builder(&url).http2_prior_knowledge(protocol == Http2),
            url,
            protocol,
            counts,
            server: Some(Server { stop, ended }),
            requests,
        };
        let serve = async move {
            serve.await;
            let _ = end.send(());
        };
        Ok((peer, serve))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.url.trim_start_matches("http://").parse().unwrap()
    }

    /// Creates a client builder for this peer. Over sockets, its retries do not wait.
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder.clone()
    }

    /// Creates a client without retries: every call is one request.
    pub(crate) fn client(&self) -> Client {
        let builder = self.builder().retry(RetryPolicy::never());
        builder.build().unwrap()
    }

    /// Creates a client with the builder's retries.
    pub(crate) fn retrying_client(&self) -> Client {
        self.builder().build().unwrap()
    }

    /// Returns the counts so far. They include all responses that the client has received.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }

    /// Returns all requests so far.
    pub(crate) fn arrived(&self) -> Vec<Request> {
        self.counts().arrived
    }

    /// Returns the only request so far.
    pub(crate) fn only_request(&self) -> Request {
        let arrived = self.arrived();
        assert_eq!(arrived.len(), 1, "{arrived:?}");
        arrived.into_iter().next().unwrap()
    }

    /// Waits until a connection has ended and a client on the test's thread has noticed it.
    pub(crate) async fn wait_for_end(&self) {
        let wait = async {
            while self.counts().ended == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(HANG_LIMIT, wait).await.expect("no connection ends");
        wait_until_idle().await;
    }

    /// Stops the peer, waits until every connection has ended, and returns the counts. The client must have been dropped.
    pub(crate) async fn finish(mut self) -> Counts {
        let server = self.server.take().unwrap();
        let _ = server.stop.send(());
        timeout(HANG_LIMIT, server.ended)
            .await
            .expect("a connection stays open")
            .unwrap();
        self.counts()
    }

    /// Synchronous version of [`finish`](Self::finish).
    pub(crate) fn finish_blocking(self) -> Counts {
        runtime().block_on(self.finish())
    }
}

impl Deref for Peer {
    type Target = Requests;

    fn deref(&self) -> &Requests {
        &self.requests
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }
}

/// Waits until the condition is true, while other tasks run.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + HANG_LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "the condition stays false");
        tokio::task::yield_now().await;
    }
}

/// Yields until every task has run, where client and peer share the test's only thread.
pub(crate) async fn wait_until_idle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// Asserts that a future is still pending after all other tasks have run.
pub(crate) async fn assert_pending<T>(sending: impl Future<Output = T>) {
    tokio::select! {
        _ = sending => panic!("it ended without a response"),
        () = wait_until_idle() => {}
    }
}

/// Creates a client of `url` without retries: every call is one request.
pub(crate) fn client(url: impl Into<String>) -> Client {
    let builder = builder(&url.into()).retry(RetryPolicy::never());
    builder.build().unwrap()
}

/// Creates a client builder for `url`, whose retries do not wait.
pub(crate) fn builder(url: &str) -> ClientBuilder {
    Client::builder()
        .base_url(url)
        .service_key(KEY)
        .retry(immediate_retries())
        .timeout(HANG_LIMIT)
        .attempt_timeout(HANG_LIMIT)
}

/// Returns the default retry policy without pauses.
pub(crate) fn immediate_retries() -> RetryPolicy {
    RetryPolicy::new().max_backoff(Duration::ZERO)
}

/// Formats the error and its causes with Display and Debug. Panics if an error's message contains its cause's message, which
/// programs that print the whole chain would repeat.
pub(crate) fn all_texts(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    let mut shown = error.to_string();
    while let Some(cause) = source {
        assert!(!shown.contains(&cause.to_string()), "{shown}: {cause}");
        shown = cause.to_string();
        text.push_str(&format!(" {cause} {cause:?} {cause:#?}"));
        source = cause.source();
    }
    text
}

/// Creates a valid request.
pub(crate) fn ada() -> CreateAgent {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build()
        .unwrap()
}

fn spawn_thread(work: impl Future<Output = ()> + Send + 'static) {
    thread::spawn(move || runtime().block_on(work));
}

/// Creates a single-threaded runtime.
pub(crate) fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// Returns a URL whose port rejects connections. The port is bound, so that no other program can use it, but does not listen.
pub(crate) fn unreachable_url() -> String {
    static BOUND: OnceLock<TcpSocket> = OnceLock::new();
    let bound = BOUND.get_or_init(|| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        socket
    });
    format!("http://{}", bound.local_addr().unwrap())
}

/// The number of connections that Linux queues for a listener with a backlog of 1.
const QUEUE_LENGTH: usize = 2;

/// Fills the queue of a listener with a backlog of 1 that accepts nothing, so that the kernel drops further connection
/// requests.
pub(crate) async fn fill_queue(address: SocketAddr) -> Vec<TcpStream> {
    let mut waiting = Vec::new();
    loop {
        // The short limit applies only when the queue must be full, because connecting can be slow on a busy machine.
        let limit = match waiting.len() {
            0..QUEUE_LENGTH => HANG_LIMIT,
            _ => Duration::from_millis(100),
        };
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => return waiting,
        }
        assert!(waiting.len() < 100, "the queue never fills");
    }
}

/// An address that neither accepts nor rejects connections: the listener's queue is full, so the kernel drops connection
/// requests.
pub(crate) struct Blackhole {
    pub(crate) url: String,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Blackhole {
    pub(crate) async fn start() -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into()).await
    }

    pub(crate) async fn at(ip: IpAddr) -> Self {
        let socket = if ip.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.unwrap();
        socket.bind((ip, 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        Self {
            url: format!("http://{address}"),
            _listener: listener,
            _waiting: fill_queue(address).await,
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    protocol: Protocol,
    scripts: Vec<Script>,
    counts: Arc<Mutex<Counts>>,
    ask: mpsc::UnboundedSender<PendingRequest>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    let mut scripts = VecDeque::from(scripts);
    let mut connections = JoinSet::new();
    let mut start = |stream: TcpStream| {
        let script = if scripts.len() > 1 {
            scripts.pop_front().unwrap()
        } else {
            scripts[0].clone()
        };
        let connection = Connection::new(stream, protocol, counts.clone(), ask.clone());
        let counts = counts.clone();
        connections.spawn(async move {
            connection.perform(script).await;
            counts.lock().unwrap().ended += 1;
        });
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => start(accepted.unwrap().0),
            _ = &mut stopped => break,
        }
    }
    // Serve the connections that are still in the kernel's queue.
    let listener = listener.into_std().unwrap();
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true).unwrap();
        start(TcpStream::from_std(stream).unwrap());
    }
    connections.join_all().await;
}
