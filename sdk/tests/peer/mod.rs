//! A service that follows a script, byte for byte, and breaks where the script says so, or that lets the test answer.
//! It counts everything that reaches it.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod catalogue;
pub(crate) mod clock;
mod heard;
pub(crate) mod in_memory;
mod issuer;
mod line;
pub(crate) mod proxy;
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

pub(crate) use heard::{Heard, Request, Requests};

/// The key of every client here; nothing else looks like it.
pub(crate) const KEY: &str = "K3Y-canary-7e91";

/// Valid as an agent and as a deal.
pub(crate) const FINE: &str = r#"{"id":"x_1","email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{},"role_assignments":[{"role":"AGENT"}]}"#;

/// The longest that anything here waits, so that no test hangs; more than anything takes on a busy machine.
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

/// What the peer does next on a connection. After the last step it starts again with the first.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads one whole request.
    Hear,
    /// Waits for the first byte of a request, and leaves it unread.
    Glance,
    /// HTTP/2: sends no SETTINGS and acknowledges nothing from here on.
    Mute,
    /// HTTP/2: waits until the client has read everything that was sent (PING). HTTP/1.1 has no equivalent.
    Sync,
    /// HTTP/1.1: hands the last request to the test, and sends the test's answer.
    Ask,
    /// Does what the last request asked for: a POST creates an agent.
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
    /// Breaks the connection off (RST).
    Reset,
    /// Ends its own side of the connection (FIN).
    End,
    /// Sends nothing more until the client gives up.
    Silence,
}

pub(crate) type Script = Vec<Step>;

/// A response with a body, and with no headers except those that frame it.
pub(crate) fn answer(status: u16, body: &str) -> Step {
    Step::Answer(status, Vec::new(), body.into())
}

/// What reached the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: usize,
    /// Connections that have ended.
    pub(crate) ended: usize,
    /// Whole requests read.
    pub(crate) requests: usize,
    /// Agents created.
    pub(crate) agents: usize,
    /// The requests read over HTTP/1.1.
    pub(crate) arrived: Vec<Request>,
    /// Everything read, connection by connection.
    pub(crate) heard: Vec<Vec<u8>>,
}

pub(crate) struct Peer {
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
    counts: Arc<Mutex<Counts>>,
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
    requests: Requests,
}

impl Peer {
    /// The first connection gets the first script, and so on; further connections get the last one again.
    ///
    /// It runs on a thread of its own, because blocking clients need that, and so that it adds nothing to a client's
    /// log.
    pub(crate) fn start(protocol: Protocol, scripts: Vec<Script>) -> Self {
        Self::at("127.0.0.1:0", protocol, scripts)
    }

    pub(crate) fn at(address: &str, protocol: Protocol, scripts: Vec<Script>) -> Self {
        let (peer, serve) = Self::bind(address, protocol, scripts).unwrap();
        on_own_thread(serve);
        peer
    }

    /// Speaks HTTP/1.1, and leaves every response to the test: [`next`](Self::next).
    ///
    /// It runs on the test's own thread, so that nothing happens unless the test waits.
    pub(crate) fn by_hand() -> Self {
        let script = vec![Step::Hear, Step::Ask];
        let (peer, serve) = Self::bind("127.0.0.1:0", Http1, vec![script]).unwrap();
        tokio::spawn(serve);
        peer
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
            url,
            protocol,
            counts,
            stop: Some(stop),
            ended,
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

    /// A builder for a client of this peer, whose retries do not wait.
    pub(crate) fn builder(&self) -> ClientBuilder {
        builder(&self.url).http2_prior_knowledge(self.protocol == Http2)
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    /// What has reached the peer so far; complete up to the responses that the client has received.
    pub(crate) fn so_far(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }

    /// Waits until a connection ends, and lets a client on the test's thread notice that.
    pub(crate) async fn an_end(&self) {
        let wait = async {
            while self.so_far().ended == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, wait).await.expect("no connection ends");
        settle().await;
    }

    /// Everything that reached the peer, once every connection has ended: the client must be gone.
    pub(crate) async fn finish(mut self) -> Counts {
        let _ = self.stop.take().unwrap().send(());
        timeout(PATIENCE, &mut self.ended)
            .await
            .expect("a connection stays open")
            .unwrap();
        self.so_far()
    }

    /// [`finish`](Self::finish) for a test that is not async.
    pub(crate) fn finish_blocking(mut self) -> Counts {
        let _ = self.stop.take().unwrap().send(());
        self.ended.blocking_recv().unwrap();
        let counts = self.counts.lock().unwrap();
        counts.clone()
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

/// Waits until this is so, while other tasks run.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it is never so");
        tokio::task::yield_now().await;
    }
}

/// Lets everything run that can, where both ends share the test's single thread.
pub(crate) async fn settle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// Lets everything run that can, of which this must not end.
pub(crate) async fn waits<T>(sending: impl Future<Output = T>) {
    tokio::select! {
        _ = sending => panic!("nothing was answered"),
        () = settle() => {}
    }
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
    RetryPolicy::new().backoff(Duration::ZERO, Duration::ZERO)
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
        let line = line::Line::new(stream, protocol, counts.clone(), ask.clone());
        let counts = counts.clone();
        connections.spawn(async move {
            line.play(script).await;
            counts.lock().unwrap().ended += 1;
        });
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => play(accepted.unwrap().0),
            _ = &mut stopped => break,
        }
    }
    // Connections that the kernel has accepted and nobody has taken yet.
    let listener = listener.into_std().unwrap();
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true).unwrap();
        play(TcpStream::from_std(stream).unwrap());
    }
    connections.join_all().await;
}
