//! The embedded server, with its own threads.

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
    contract::auth::{InvalidServiceKey, NamespaceKeys, ServiceKey},
    net::{
        access_log::AccessLog,
        connection::Shared,
        listener,
        tls::{self, TlsError},
    },
    sandbox::{
        access::Access,
        namespace::{InitialState, Namespace, Namespaces, Settings},
    },
    service::{Inner, Service},
    state::{
        memory_budget::MemoryBudget,
        seed::{SeedError, SeedSources},
    },
};

/// Number of threads that serve connections. With two, a slow request does not block all others.
const WORKER_THREADS: usize = 2;

/// A running server. It is listening when [`SandboxBuilder::start`] returns, and stops when it is dropped. It has its own threads
/// and runtime, so it works in synchronous and asynchronous programs.
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
    /// Sending a message starts a graceful shutdown; dropping the sender stops the server immediately.
    stop_sender: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sandbox {
    /// Configures a server. By default, it has a free loopback port, the key `sandbox-key`, and three sample deals `d_1`, `d_2`,
    /// `d_3`.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::new()
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for a client, such as `http://127.0.0.1:40123`; with TLS `https://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the CA certificate to trust, in PEM, if the server has a [self-signed](crate::Tls::self_signed) certificate.
    pub fn ca_pem(&self) -> Option<&str> {
        self.service.0.ca_pem.as_deref()
    }

    /// Creates a client builder with the sandbox's URL, key and, for a self-signed certificate, its CA.
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

    /// Returns the initial service key, which [`accept_keys`](Service::accept_keys) may have replaced.
    pub fn service_key(&self) -> &str {
        self.service.service_key().reveal()
    }

    /// Stops the server: rejects new connections, and waits for the requests in flight, up to the shutdown timeout. Dropping the
    /// server does not wait for requests.
    pub fn shutdown(mut self) {
        if let Some(stop_sender) = self.stop_sender.take() {
            // Ignore errors: if the thread has ended, the server has stopped.
            let _ = stop_sender.send(());
        }
        self.join_thread();
    }

    fn join_thread(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Ignore a panic of the thread: the server has stopped in any case.
            let _ = thread.join();
        }
    }
}

/// Gives access to the server's agents, deals, faults and journal.
impl Deref for Sandbox {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.stop_sender.take());
        self.join_thread();
    }
}

impl SandboxBuilder {
    /// Starts the server. It is listening when this method returns.
    ///
    /// # Errors
    /// If a deal or a setting is invalid, or the server cannot listen on the address. Then nothing is running.
    pub fn start(self) -> Result<Sandbox, StartError> {
        let (tls, ca_pem) = tls::configure(&self.tls, self.listen.ip())?;
        let service = self.build_service(ca_pem)?;
        start_listening(self, service, tls)
    }

    /// Creates the server without sockets: see [`Service`].
    ///
    /// # Errors
    /// If a deal or a setting is invalid.
    pub fn service(&self) -> Result<Service, StartError> {
        self.build_service(None)
    }

    fn build_service(&self, ca_pem: Option<String>) -> Result<Service, StartError> {
        let key = self.service_key.as_ref().or(self.service_key_file.as_ref());
        let key = key.map(ServiceKey::new).transpose()?;
        let token = self.admin_token.as_ref().or(self.admin_token_file.as_ref());
        let token = token.map(ServiceKey::new).transpose();
        let token = token.map_err(|_| StartError::AdminToken)?;
        let namespace_keys = match &self.namespaces {
            Some(keys) => NamespaceKeys::parse(keys).ok_or(StartError::Namespaces)?,
            None => NamespaceKeys::default(),
        };
        let is_loopback = self.listen.ip().to_canonical().is_loopback();
        let is_secret =
            |key: &Option<ServiceKey>| key.as_ref().is_some_and(|key| !key.is_default());
        let has_known_secret = !is_secret(&key)
            || namespace_keys
                .match_key(ServiceKey::DEFAULT.as_bytes())
                .is_some()
            || token.as_ref().is_some_and(ServiceKey::is_default);
        if !is_loopback && has_known_secret {
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
        let seed_sources = SeedSources {
            deals: self.initial_deals.clone(),
            files: self.deal_files.clone(),
            generate: self.generate.map(|count| (count, self.seed)),
        };
        let initial = InitialState {
            seed_deals: Mutex::new(seed_sources.load()?),
            seed_sources,
            settings: Settings {
                variants: self.variants.clone(),
                strict: self.strict,
            },
            max_agents: self.max_agents,
            rate_limit: self.rate_limit,
            store_budget: MemoryBudget::new(self.max_store_bytes),
            fault_budget: MemoryBudget::new(64 * 1024 * 1024),
            journal_budget: MemoryBudget::new(512 * 1024 * 1024),
        };
        let namespaces = Namespaces {
            default: Arc::new(Namespace::new(key.unwrap_or_default(), &initial, None)),
            keys: namespace_keys,
            max_count: self.max_namespaces,
            initial,
            key_namespaces: DashMap::default(),
            last_cleanup: Mutex::default(),
        };
        Ok(Service(Arc::new(Inner {
            namespaces,
            access,
            ca_pem,
            max_body_bytes: self.max_body_bytes,
        })))
    }
}

/// An error at the start of a server.
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
    /// An initial deal is invalid.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The service key is invalid.
    #[error(transparent)]
    ServiceKey(#[from] InvalidServiceKey),
    /// The token is invalid.
    #[error("the sandbox token must be 1 to 1,024 visible ASCII characters, without spaces")]
    AdminToken,
    /// The keys of namespaces are invalid.
    #[error(
        "namespaces need service keys, or prefixes that end in *, separated by commas, such as test-*: each of 1 to 1,000 \
         visible ASCII characters, with no other * in it"
    )]
    Namespaces,
    /// The address is not a loopback address, and the service key, a namespace's key or the token is the documented default key.
    #[error(
        "{address} can be reached from other machines, and the default service key is not a secret: choose a service \
         key, and another sandbox token if that is the same, or listen on 127.0.0.1"
    )]
    KeyRequired {
        /// The address.
        address: SocketAddr,
    },
    /// The TLS configuration is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        error: io::Error,
    },
    /// The operating system did not provide a thread or another resource.
    #[error("cannot start the server: {0}")]
    System(io::Error),
}

fn start_listening(
    settings: SandboxBuilder,
    service: Service,
    tls: Option<Arc<ServerConfig>>,
) -> Result<Sandbox, StartError> {
    let listen = settings.listen;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let shared = Arc::new(Shared {
        service: service.clone(),
        log: AccessLog::new(settings.log).map_err(StartError::System)?,
        body_budget: MemoryBudget::new(settings.max_buffered_bytes as u64),
        tls,
        settings,
    });
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .thread_name("dealkit-server")
        .enable_all()
        .build()
        .map_err(StartError::System)?;
    let bind_result = {
        let _runtime = runtime.enter();
        // Ready immediately: `bind` is asynchronous only for DNS lookups, and this is an IP address.
        let listener = TcpListener::bind(listen).now_or_never();
        let listener = listener.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()));
        listener.and_then(|listener| Ok((listener.local_addr()?, listener)))
    };
    let (address, listener) = match bind_result {
        Ok(address_and_listener) => address_and_listener,
        Err(error) => {
            // Dropping a runtime waits for its threads, and panics in asynchronous code.
            runtime.shutdown_background();
            let address = listen;
            return Err(StartError::Listen { address, error });
        }
    };
    let (stop_sender, stop_receiver) = oneshot::channel();
    let serving = listener::serve(listener, shared, stop_receiver);
    // The thread receives the runtime after its start: if the start failed, dropping the runtime with the closure would block.
    let (runtime_sender, runtime_receiver) = std::sync::mpsc::channel::<runtime::Runtime>();
    let thread = thread::Builder::new()
        .name("dealkit-server".to_owned())
        .spawn(move || {
            if let Ok(runtime) = runtime_receiver.recv() {
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
    let _ = runtime_sender.send(runtime);
    Ok(Sandbox {
        scheme,
        address,
        service,
        stop_sender: Some(stop_sender),
        thread: Some(thread),
    })
}
