//! The server as a value: embedded in a test or a program, on threads of its own.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    ops::Deref,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use tokio::{net::TcpListener, runtime, sync::oneshot};

use crate::{
    attached::Attach,
    config::{Config, SandboxBuilder},
    contract::auth::{InvalidServiceKey, InvalidWorldKeys, ServiceKey, WorldKeys},
    net::{
        access_log::AccessLog,
        conn::Shared,
        listener,
        tls::{self, TlsError},
    },
    sandbox::reached::Reached,
    service::Service,
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
pub struct Sandbox {
    address: SocketAddr,
    service_key: ServiceKey,
    service: Service,
    /// Sending on it stops the server gracefully, dropping it ends the server at once.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Configures a server: by default on a free loopback port, with the key `sandbox-key` and the three sample
    /// deals `d_1`, `d_2`, `d_3`.
    pub fn builder() -> SandboxBuilder {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        SandboxBuilder::new(Config {
            listen,
            ..Config::default()
        })
    }

    /// A world of its own on a server that runs elsewhere, at `url`, and was started with `--worlds`. It has the methods of a
    /// sandbox, and ends when it is dropped.
    ///
    /// ```
    /// use dealkit_server::{Fault, Sandbox};
    ///
    /// let server = Sandbox::builder().worlds("test-*").start()?; // dealkit-server --worlds 'test-*'
    /// let one = Sandbox::attach(server.url()).start()?;
    /// let other = Sandbox::attach(server.url()).start()?;
    /// one.insert_deal(r#"{"id": "mine"}"#)?;
    /// one.fail_next(Fault::status(503))?;
    /// assert_ne!(one.service_key(), other.service_key());
    /// assert_eq!((one.faults()?.len(), other.faults()?.len()), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach(url: impl Into<String>) -> Attach {
        Attach::new(url)
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for a client, such as `http://127.0.0.1:40123`; with TLS `https://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.service.reached().scheme(), self.address)
    }

    /// The certificate to trust, in PEM, if it speaks TLS with a [self-signed](crate::Tls::self_signed) one: that of its issuer.
    pub fn ca_pem(&self) -> Option<&str> {
        self.service.reached().ca_pem.as_deref()
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
        self.service_key.reveal()
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
        let mut config = self.config;
        if let Some(key) = self.service_key {
            config.service_key = Some(key?);
        }
        if let Some(token) = self.admin_token {
            config.admin_token = Some(token.map_err(|_| StartError::AdminToken)?);
        }
        if let Some(keys) = self.worlds {
            config.worlds = WorldKeys::new(&keys)?;
        }
        let address = config.listen;
        if !address.ip().to_canonical().is_loopback() {
            let is_known = |key: &ServiceKey| key.is_default();
            let default = ServiceKey::DEFAULT.as_bytes();
            if config.service_key.as_ref().is_none_or(is_known)
                || config.worlds.find(default).is_some()
            {
                return Err(StartError::KeyRequired { address });
            }
            if config
                .admin_token
                .as_ref()
                .is_some_and(ServiceKey::is_default)
            {
                return Err(StartError::TokenRequired { address });
            }
        }
        if config.max_head_bytes < Config::MIN_HEAD_BYTES {
            return Err(StartError::MaxHeadBytes);
        }
        if config.max_connections == 0 {
            return Err(StartError::MaxConnections);
        }

        let mut seeds = Seeds::default();
        if self.deals.is_none() && self.files.is_empty() && self.generate.is_none() {
            seeds.add_all(SeedDeal::samples())?;
        }
        seeds.add_all(self.deals.unwrap_or_default())?;
        for file in &self.files {
            seeds.add_file(file)?;
        }
        if let Some((count, seed)) = self.generate {
            seeds.add_generated(count, seed)?;
        }
        run(config, seeds)
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
    #[error(transparent)]
    Worlds(#[from] InvalidWorldKeys),
    /// The address is not a loopback address, and the service key, or that of a world, is the default, which everybody knows.
    #[error(
        "{address} can be reached from other machines, and the default service key is not a secret: choose a service \
         key, or listen on 127.0.0.1"
    )]
    KeyRequired {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not a loopback address, and the token is the default service key, which everybody knows.
    #[error(
        "{address} can be reached from other machines, and the default service key is not a secret: choose another \
         sandbox token"
    )]
    TokenRequired {
        /// The address.
        address: SocketAddr,
    },
    /// [`Config::max_head_bytes`] is too small.
    #[error("the limit for request heads must be at least 8192 bytes")]
    MaxHeadBytes,
    /// [`Config::max_connections`] is zero.
    #[error("at least one connection must be allowed")]
    MaxConnections,
    /// It cannot speak TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system did not give the server what it needs to run.
    #[error("cannot start the server: {0}")]
    System(#[source] io::Error),
}

fn run(config: Config, seeds: Seeds) -> Result<Sandbox, StartError> {
    let configured = config.tls.as_ref();
    let configured = configured.map(|tls| tls::configure(tls, config.listen.ip()));
    let (tls, ca_pem) = configured.transpose()?.unzip();
    let reached = Reached {
        is_tls: tls.is_some(),
        ca_pem: ca_pem.flatten(),
    };
    let service = Service::with_seeds(&config, seeds, reached);
    let shared = Arc::new(Shared {
        service: service.clone(),
        log: AccessLog::new(config.log).map_err(StartError::System)?,
        bodies: Room::new(config.max_buffered_bytes as u64),
        tls,
        max_head_bytes: config.max_head_bytes,
        head_timeout: config.head_timeout,
        body_timeout: config.body_timeout,
    });
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("dealkit-server")
        .enable_all()
        .build()
        .map_err(StartError::System)?;
    let (stop, stopped) = oneshot::channel();
    let (bound, listening) = mpsc::sync_channel(1);
    let serving = async move {
        let listener = TcpListener::bind(config.listen).await;
        match listener.and_then(|listener| Ok((listener.local_addr()?, listener))) {
            Ok((address, listener)) => {
                let _ = bound.send(Ok(address));
                let (most, grace) = (config.max_connections, config.shutdown_timeout);
                listener::serve(listener, shared, most, grace, stopped).await;
            }
            Err(error) => drop(bound.send(Err(error))),
        }
    };
    let thread = thread::Builder::new()
        .name("dealkit-server".to_owned())
        .spawn(move || runtime.block_on(serving))
        .map_err(StartError::System)?;
    // It always says so before it ends.
    let listening = listening.recv().map_err(io::Error::other).flatten();
    let address = listening.map_err(|source| StartError::Listen {
        address: config.listen,
        source,
    })?;
    Ok(Sandbox {
        address,
        service_key: config.service_key.unwrap_or_default(),
        service,
        stop: Some(stop),
        thread: Some(thread),
    })
}
