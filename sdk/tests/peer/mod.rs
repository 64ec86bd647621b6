//! The service of every test here: [`Peer`]. It counts everything that reaches it, and it responds in one of three ways.
//!
//! * [`Peer::start`] follows a [`Script`] of [`Step`]s on each TCP connection, byte for byte, in HTTP/1.1 or HTTP/2, and breaks
//!   connections where the script says so.
//! * [`Peer::answering`] sends the same response to every request: the shortest script.
//! * [`Peer::by_hand`] and [`Peer::in_memory`] hand every request to the test, which responds ([`Heard::answer`]); the latter is a
//!   transport without sockets, for a paused clock.
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
pub(crate) use requests::{Heard, Request, Requests};

/// The key of every client here; nothing else looks like it.
pub(crate) const KEY: &str = "K3Y-canary-7e91";

/// Valid as an agent and as a deal.
pub(crate) const FINE: &str = r#"{"id":"x_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// The shortest possible agent.
pub(crate) const AGENT: &str = r#"{"id":"a_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// The shortest possible deal.
pub(crate) const DEAL: &str = r#"{"id":"d_1"}"#;

/// The longest wait of a test. It only ends a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// Without TLS and without an upgrade: HTTP/2 from the first byte.
    Http2,
}

pub(crate) use Protocol::{Http1, Http2};

pub(crate) const BOTH: [Protocol; 2] = [Http1, Http2];

type Headers = Vec<(&'static str, String)>;

/// One action of the peer on a connection. After the last step of a script, the first follows.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads one whole request.
    Hear,
    /// Waits for the first byte of a request and leaves it unread.
    Glance,
    /// HTTP/2: sends no SETTINGS and acknowledges nothing from here on.
    Mute,
    /// HTTP/2: waits until the client has read everything that was sent (PING). HTTP/1.1 has no equivalent.
    Sync,
    /// HTTP/1.1: hands the last request to the test and sends the test's response.
    Ask,
    /// Handles the last request: a POST creates an agent.
    Act,
    /// A whole response.
    Answer(u16, Headers, Vec<u8>),
    /// The head of a response; the headers give the length.
    Head(u16, Headers),
    /// A part of the body; `true` makes it the last one in HTTP/2.
    Body(Vec<u8>, bool),
    /// These bytes.
    Raw(Vec<u8>),
    /// An HTTP/2 frame on the request's stream, or on stream 0: type, flags, whether on the stream, payload.
    Frame(u8, u8, bool, Vec<u8>),
    /// The bytes of another step, one at a time, with this much time in between.
    Slowly(Duration, Box<Step>),
    /// Resets the connection (RST).
    Reset,
    /// Ends its own side of the connection (FIN).
    End,
    /// Sends nothing more until the client closes the connection.
    Silence,
}

pub(crate) type Script = Vec<Step>;

/// A response with a body, and with no headers except those that frame it.
pub(crate) fn answer(status: u16, body: &str) -> Step {
    Step::Answer(status, Vec::new(), body.into())
}

/// Counts and records of everything that reached the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    /// Connections that have ended.
    pub(crate) ended: usize,
    /// Requests that were read to their end.
    pub(crate) requests: usize,
    /// Agents created.
    pub(crate) agents: usize,
    /// Responses that were written as a whole.
    pub(crate) answered: usize,
    /// The requests read over HTTP/1.1.
    pub(crate) arrived: Vec<Request>,
    /// Everything read, connection by connection.
    pub(crate) heard: Vec<Vec<u8>>,
}

pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
    builder: ClientBuilder,
    counts: Arc<Mutex<Counts>>,
    /// None in memory.
    server: Option<Server>,
    requests: Requests,
}

/// The peer's task that accepts connections.
struct Server {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Peer {
    /// The first connection gets the first script, and so on; further connections get the last one again.
    ///
    /// It runs on its own thread, because blocking clients need that, and so that it adds nothing to a client's log.
    pub(crate) fn start(protocol: Protocol, scripts: Vec<Script>) -> Self {
        Self::at("127.0.0.1:0", protocol, scripts)
    }

    /// As [`start`](Self::start), at this address.
    pub(crate) fn at(address: &str, protocol: Protocol, scripts: Vec<Script>) -> Self {
        let (peer, serve) = Self::bind(address, protocol, scripts).unwrap();
        on_own_thread(serve);
        peer
    }

    /// Sends the same response to every request, over HTTP/1.1, from its own thread.
    pub(crate) fn answering(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let headers = headers.iter().map(|(name, value)| {
            let name: &'static str = (*name).to_owned().leak();
            (name, (*value).to_owned())
        });
        let answer = Step::Answer(status, headers.collect(), body.as_ref().to_vec());
        Self::start(Http1, vec![vec![Step::Hear, answer]])
    }

    /// Speaks HTTP/1.1, and leaves every response to the test: [`next`](Requests::next).
    ///
    /// It runs on the test's own thread, so that nothing happens unless the test waits.
    pub(crate) fn by_hand() -> Self {
        let script = vec![Step::Hear, Step::Ask];
        let (peer, serve) = Self::bind("127.0.0.1:0", Http1, vec![script]).unwrap();
        tokio::spawn(serve);
        peer
    }

    /// Leaves every response to the test, as [`by_hand`](Self::by_hand) does, without sockets: for a paused clock. Its clients
    /// have the default settings, because their waits take no time.
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

    /// A builder for a client of this peer. Over sockets, its retries do not wait.
    pub(crate) fn builder(&self) -> ClientBuilder {
        self.builder.clone()
    }

    /// A client that never retries: every call is one request.
    pub(crate) fn client(&self) -> Client {
        let builder = self.builder().retry(RetryPolicy::never());
        builder.build().unwrap()
    }

    /// A client with the builder's retries.
    pub(crate) fn retrying_client(&self) -> Client {
        self.builder().build().unwrap()
    }

    /// Returns the counts so far; complete up to the responses that the client has received.
    pub(crate) fn so_far(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }

    /// Every request that arrived.
    pub(crate) fn arrived(&self) -> Vec<Request> {
        self.so_far().arrived
    }

    /// The one request that arrived.
    pub(crate) fn only(&self) -> Request {
        let arrived = self.arrived();
        assert_eq!(arrived.len(), 1, "{arrived:?}");
        arrived.into_iter().next().unwrap()
    }

    /// Waits until a connection ends and a client on the test's thread has noticed it.
    pub(crate) async fn an_end(&self) {
        let wait = async {
            while self.so_far().ended == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, wait).await.expect("no connection ends");
        wait_until_idle().await;
    }

    /// Stops the peer, waits until every connection has ended, and returns the counts. The client must have been dropped.
    pub(crate) async fn finish(mut self) -> Counts {
        let server = self.server.take().unwrap();
        let _ = server.stop.send(());
        timeout(PATIENCE, server.ended)
            .await
            .expect("a connection stays open")
            .unwrap();
        self.so_far()
    }

    /// [`finish`](Self::finish) for a test that is not async.
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

/// Waits until a condition holds, while other tasks run.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "the condition never holds");
        tokio::task::yield_now().await;
    }
}

/// Yields until every task has run, where client and peer share the test's only thread.
pub(crate) async fn wait_until_idle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// Polls a future while every other task runs. The future must not end.
pub(crate) async fn waits<T>(sending: impl Future<Output = T>) {
    tokio::select! {
        _ = sending => panic!("it ended without a response"),
        () = wait_until_idle() => {}
    }
}

/// A client of `url` that never retries: every call is one request.
pub(crate) fn client(url: impl Into<String>) -> Client {
    let builder = builder(&url.into()).retry(RetryPolicy::never());
    builder.build().unwrap()
}

/// A builder for a client of `url`, whose retries do not wait.
pub(crate) fn builder(url: &str) -> ClientBuilder {
    Client::builder()
        .base_url(url)
        .service_key(KEY)
        .retry(at_once())
        .timeout(PATIENCE)
        .attempt_timeout(PATIENCE)
}

/// The default policy without its waits.
pub(crate) fn at_once() -> RetryPolicy {
    RetryPolicy::new().max_backoff(Duration::ZERO)
}

/// Display and Debug of the error and every cause, in all their forms. Fails the test if one repeats another, as programs that
/// print the whole chain would.
pub(crate) fn every_text(error: &Error) -> String {
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

/// A request that satisfies every rule.
pub(crate) fn ada() -> CreateAgent {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build()
        .unwrap()
}

fn on_own_thread(work: impl Future<Output = ()> + Send + 'static) {
    thread::spawn(move || runtime().block_on(work));
}

/// A runtime on the thread that uses it.
pub(crate) fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// A URL whose port rejects every connection: it is bound, so that no other program gets it, and nothing listens.
pub(crate) fn refused() -> String {
    static BOUND: OnceLock<TcpSocket> = OnceLock::new();
    let bound = BOUND.get_or_init(|| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        socket
    });
    format!("http://{}", bound.local_addr().unwrap())
}

/// The number of connections that Linux queues for a listener with a backlog of 1.
const QUEUED: usize = 2;

/// Fills the queue of a listener with a backlog of 1 that accepts nothing: from then on, the kernel drops requests for
/// further connections.
pub(crate) async fn fill_queue(address: SocketAddr) -> Vec<TcpStream> {
    let mut waiting = Vec::new();
    loop {
        // A busy machine may take longer to connect: the time counts only once the queue must be full.
        let limit = match waiting.len() {
            0..QUEUED => PATIENCE,
            _ => Duration::from_millis(100),
        };
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => return waiting,
        }
        assert!(waiting.len() < 100, "the queue never fills");
    }
}

/// An address where connections are neither accepted nor refused: the listener's queue is full, so the kernel drops
/// further requests for one.
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
    ask: mpsc::UnboundedSender<Heard>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    let mut scripts = VecDeque::from(scripts);
    let mut connections = JoinSet::new();
    let mut play = |stream: TcpStream| {
        let script = if scripts.len() > 1 {
            scripts.pop_front().unwrap()
        } else {
            scripts[0].clone()
        };
        let connection = Connection::new(stream, protocol, counts.clone(), ask.clone());
        let counts = counts.clone();
        connections.spawn(async move {
            connection.play(script).await;
            counts.lock().unwrap().ended += 1;
        });
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => play(accepted.unwrap().0),
            _ = &mut stopped => break,
        }
    }
    // Connections in the kernel's queue.
    let listener = listener.into_std().unwrap();
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true).unwrap();
        play(TcpStream::from_std(stream).unwrap());
    }
    connections.join_all().await;
}
