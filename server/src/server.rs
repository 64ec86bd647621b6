//! The server as a value: embedded in a test or a program, on threads of its own.

use std::{
    io,
    net::SocketAddr,
    ops::Deref,
    sync::Arc,
    thread::{self, JoinHandle},
};

use dashmap::DashMap;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::{net::TcpListener, runtime, sync::oneshot};
use tokio_rustls::rustls::ServerConfig;

use crate::{
    config::SandboxBuilder,
    contract::auth::{InvalidServiceKey, ServiceKey, WorldKeys},
    net::{
        access_log::AccessLog,
        conn::Shared,
        listener,
        tls::{self, TlsError},
    },
    sandbox::{
        access::Access,
        world::{Beginning, Settings, World, Worlds},
    },
    service::{Inner, Service},
    state::{
        room::Room,
        seed::{SeedDeal, SeedError, Seeds},
    },
};

/// How many threads serve connections. Something that takes long on one of them leaves the other alone.
const WORKERS: usize = 2;

/// A running server. It listens when [`SandboxBuilder::start`] returns, and stops when it is dropped. It has
/// its own threads and runtimes, so it works the same in sync and async programs.
///
/// ```
/// use std::{io::{Read, Write}, net::TcpStream};
/// use dealkit_server::Sandbox;
///
/// let sandbox = Sandbox::builder().deals([r#"{"id": "d_42"}"#]).start()?;
/// let mut stream = TcpStream::connect(sandbox.address())?;
/// write!(stream, "GET /v1/deals/d_42 HTTP/1.1\r\nhost: {}\r\nx-service-key: {}\r\nconnection: close\r\n\r\n",
///     sandbox.address(), sandbox.service_key())?;
/// let mut response = String::new();
/// stream.read_to_string(&mut response)?;
/// assert!(response.starts_with("HTTP/1.1 200") && response.ends_with(r#"{"id": "d_42"}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sandbox {
    scheme: &'static str,
    address: SocketAddr,
    service: Service,
    /// Sending on it stops the server gracefully, dropping it ends the server at once.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sandbox {
    /// Configures a server: by default on a free loopback port, with the key `sandbox-key` and the three sample
    /// deals `d_1`, `d_2`, `d_3`.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::new()
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for a client, such as `http://127.0.0.1:40123`; with TLS `https://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The certificate to trust, in PEM, if it speaks TLS with a [self-signed](crate::Tls::self_signed) one: that of its issuer.
    pub fn ca_pem(&self) -> Option<&str> {
        self.service.0.ca_pem.as_deref()
    }

    /// A client of this sandbox that is still to be built: with its URL, its key and, if it made its own certificate, trust in
    /// that alone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dealkit_server::{Sandbox, Tls};
    ///
    /// let sandbox = Sandbox::builder().tls(Tls::self_signed()).start()?;
    /// let client = sandbox.client().rate_limit(100.0).build()?;
    /// assert_eq!(client.deals().retrieve("d_1").await?.id, "d_1");
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "client")]
    pub fn client(&self) -> dealkit::ClientBuilder {
        let client = dealkit::Client::builder()
            .base_url(self.url())
            .service_key(self.service_key());
        match self.ca_pem() {
            Some(pem) => client.only_root_certificates(pem),
            None => client,
        }
    }

    /// The key that requests must carry, unless [`accept_keys`](Service::accept_keys) has replaced it.
    pub fn service_key(&self) -> &str {
        self.service.service_key().reveal()
    }

    /// Stops: refuses new connections, answers the requests in flight, and returns when all are answered or
    /// the shutdown timeout is over. Merely dropping the server does not wait for requests.
    pub fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            // If the thread is gone, the server has stopped.
            let _ = stop.send(());
        }
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, the server has ended all the same.
            let _ = thread.join();
        }
    }
}

/// What the server holds, has seen, and is to do.
impl Deref for Sandbox {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.join();
    }
}

impl SandboxBuilder {
    /// Starts the server. It listens when this returns.
    ///
    /// # Errors
    /// When a deal or a setting is wrong, or the address cannot be listened on. Nothing runs then.
    pub fn start(self) -> Result<Sandbox, StartError> {
        let (tls, ca_pem) = tls::configure(&self.tls, self.listen.ip())?;
        let service = self.service_trusted_by(ca_pem)?;
        run(self, service, tls)
    }

    /// The same without sockets: see [`Service`].
    ///
    /// # Errors
    /// When a deal or a setting is wrong.
    pub fn service(&self) -> Result<Service, StartError> {
        self.service_trusted_by(None)
    }

    fn service_trusted_by(&self, ca_pem: Option<String>) -> Result<Service, StartError> {
        let key = self.service_key.as_ref().or(self.service_key_file.as_ref());
        let key = key.map(ServiceKey::new).transpose()?;
        let token = self.admin_token.as_ref().or(self.admin_token_file.as_ref());
        let token = token.map(ServiceKey::new).transpose();
        let token = token.map_err(|_| StartError::AdminToken)?;
        let worlds = match &self.worlds {
            Some(keys) => WorldKeys::new(keys).ok_or(StartError::Worlds)?,
            None => WorldKeys::default(),
        };
        let is_loopback = self.listen.ip().to_canonical().is_loopback();
        let is_secret =
            |key: &Option<ServiceKey>| key.as_ref().is_some_and(|key| !key.is_default());
        let is_guessed = !is_secret(&key)
            || worlds.find(ServiceKey::DEFAULT.as_bytes()).is_some()
            || token.as_ref().is_some_and(ServiceKey::is_default);
        if !is_loopback && is_guessed {
            let address = self.listen;
            return Err(StartError::KeyRequired { address });
        }
        let access = match token {
            _ if self.no_admin => Access::Off,
            Some(token) => Access::Token(token),
            None if !is_loopback => Access::Closed,
            None => match key.clone().filter(|key| !key.is_default()) {
                Some(key) => Access::Token(key),
                None => Access::Open,
            },
        };
        let beginning = Beginning {
            seed: Arc::new(self.seeds()?.0),
            settings: Settings {
                readings: self.readings.clone(),
                strict: self.strict,
            },
            max_agents: self.max_agents,
            rate_limit: self.rate_limit,
            room: Room::new(self.max_store_bytes),
            for_faults: Room::new(64 * 1024 * 1024),
            for_requests: Room::new(512 * 1024 * 1024),
        };
        let worlds = Worlds {
            first: Arc::new(World::new(key.unwrap_or_default(), &beginning, None)),
            keys: worlds,
            max: self.max_worlds,
            beginning,
            others: DashMap::default(),
            searched: Mutex::default(),
        };
        Ok(Service(Arc::new(Inner {
            worlds,
            access,
            ca_pem,
            max_body_bytes: self.max_body_bytes,
        })))
    }

    fn seeds(&self) -> Result<Seeds, SeedError> {
        let mut seeds = Seeds::default();
        if self.seeds.is_none() && self.files.is_empty() && self.generate.is_none() {
            seeds.add_all("", SeedDeal::samples())?;
        }
        seeds.add_all("", self.seeds.iter().flatten().cloned())?;
        for file in &self.files {
            seeds.add_file(file)?;
        }
        if let Some(count) = self.generate {
            seeds.add_generated(count, self.seed)?;
        }
        Ok(seeds)
    }
}

/// Why a server did not start.
///
/// ```
/// use dealkit_server::{Sandbox, StartError};
///
/// let started = Sandbox::builder().listen(([0, 0, 0, 0], 0)).start();
/// assert!(matches!(started, Err(StartError::KeyRequired { .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The deals to start with are wrong.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The service key is not valid.
    #[error(transparent)]
    ServiceKey(#[from] InvalidServiceKey),
    /// The token is not valid.
    #[error("the sandbox token must be 1 to 1,024 visible ASCII characters, without spaces")]
    AdminToken,
    /// What says which keys have worlds is not valid.
    #[error(
        "worlds need service keys, or prefixes that end in *, separated by commas, such as test-*: each of 1 to 1,000 \
         visible ASCII characters, with no other * in it"
    )]
    Worlds,
    /// The address is not a loopback address, and the service key, that of a world or the token is the default key, which
    /// everybody knows.
    #[error(
        "{address} can be reached from other machines, and the default service key is not a secret: choose a service \
         key, and another sandbox token if that is the same, or listen on 127.0.0.1"
    )]
    KeyRequired {
        /// The address.
        address: SocketAddr,
    },
    /// It cannot speak TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The system did not give the server what it needs to run.
    #[error("cannot start the server: {0}")]
    System(io::Error),
}

fn run(
    settings: SandboxBuilder,
    service: Service,
    tls: Option<Arc<ServerConfig>>,
) -> Result<Sandbox, StartError> {
    let listen = settings.listen;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let shared = Arc::new(Shared {
        service: service.clone(),
        log: AccessLog::new(settings.log).map_err(StartError::System)?,
        bodies: Room::new(settings.max_buffered_bytes as u64),
        tls,
        settings,
    });
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("dealkit-server")
        .enable_all()
        .build()
        .map_err(StartError::System)?;
    let bound = {
        let _runtime = runtime.enter();
        // It is a future only because names have to be looked up, and this is none.
        let listener = TcpListener::bind(listen).now_or_never();
        let listener = listener.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()));
        listener.and_then(|listener| Ok((listener.local_addr()?, listener)))
    };
    let (address, listener) = match bound {
        Ok(bound) => bound,
        Err(error) => {
            // Dropped, it would wait for its threads, which async code must not do.
            runtime.shutdown_background();
            let address = listen;
            return Err(StartError::Listen { address, error });
        }
    };
    let (stop, stopped) = oneshot::channel();
    let serving = listener::serve(listener, shared, stopped);
    // The thread receives the runtime after its start: if the start failed, dropping the runtime with the closure would block.
    let (hand_over, handed_over) = std::sync::mpsc::channel::<runtime::Runtime>();
    let thread = thread::Builder::new()
        .name("dealkit-server".to_owned())
        .spawn(move || {
            if let Ok(runtime) = handed_over.recv() {
                runtime.block_on(serving);
            }
        });
    let thread = match thread {
        Ok(thread) => thread,
        Err(error) => {
            runtime.shutdown_background();
            return Err(StartError::System(error));
        }
    };
    // The thread is waiting for the runtime, so this does not fail.
    let _ = hand_over.send(runtime);
    Ok(Sandbox {
        scheme,
        address,
        service,
        stop: Some(stop),
        thread: Some(thread),
    })
}
