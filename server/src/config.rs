//! The settings of a server.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::{
    contract::auth::ServiceKey,
    sandbox::{Reading, access::Access},
};

/// What a server listens on, which key it asks for, and its limits. [`Config::default`] is what the binary does
/// without flags.
///
/// ```
/// let mut config = dealkit_server::Config::default();
/// config.strict = true;
/// assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The address to listen on; port 0 asks for a free one.
    pub listen: SocketAddr,
    /// The key that requests must carry. Without one it is [`ServiceKey::DEFAULT`], and the address must be
    /// a loopback address.
    pub service_key: Option<ServiceKey>,
    /// Whether undocumented fields are violations. They are ignored otherwise.
    pub strict: bool,
    /// How the specification is read where it leaves something open.
    pub reading: Reading,
    /// Whether the interface under `/__sandbox/` exists (except `health` and `openapi.json`, which always do), and
    /// whether the headers `x-sandbox-fault` and `x-sandbox-reading` have any effect.
    pub admin: bool,
    /// The token that the interface asks for. Without one, on a loopback address, the interface is open to programs on
    /// this machine, or, where a service key was chosen, that key is the token. On any other address, nobody is let in
    /// unless there is a token.
    pub admin_token: Option<ServiceKey>,
    /// The access log on standard error.
    pub log: LogFormat,
    /// The longest request body, in bytes.
    pub max_body_bytes: usize,
    /// How many bytes of all request bodies together are held at once, while they arrive and are answered. A request
    /// whose body does not fit gets a 503.
    pub max_buffered_bytes: usize,
    /// How many agents can be created.
    pub max_agents: u64,
    /// How many bytes of JSON are kept of agents, and of deals beyond those that the server starts with.
    pub max_store_bytes: u64,
    /// The largest file of deals to start with, in bytes; it applies to standard input, too.
    pub max_seed_bytes: u64,
    /// The longest request head (request line and headers), in bytes. At least [`Config::MIN_HEAD_BYTES`].
    pub max_head_bytes: usize,
    /// How many connections are served at once. Others wait until one of them ends.
    pub max_connections: usize,
    /// How long a connection may go without a complete request head, from its start or the last response. This
    /// is also how long an idle connection is kept (over HTTP/2, up to twice as long), and how long a caller may make no
    /// room for more of its response.
    pub head_timeout: Duration,
    /// How long a request body may take to arrive, from the end of its head.
    pub body_timeout: Duration,
    /// How long requests in flight may take to end after the server was asked to stop.
    pub shutdown_timeout: Duration,
}

impl Config {
    /// The smallest [`Config::max_head_bytes`]: hyper needs that much.
    pub const MIN_HEAD_BYTES: usize = 8_192;

    /// Who may use the interface under `/__sandbox/`.
    pub(crate) fn access(&self) -> Access {
        if !self.admin {
            return Access::Off;
        }
        if let Some(token) = &self.admin_token {
            return Access::Token(token.clone());
        }
        if !self.listen.ip().to_canonical().is_loopback() {
            return Access::Closed;
        }
        match &self.service_key {
            Some(key) if !key.is_default() => Access::Token(key.clone()),
            _ => Access::Open,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            service_key: None,
            strict: false,
            reading: Reading::Reference,
            admin: true,
            admin_token: None,
            log: LogFormat::Off,
            max_body_bytes: 1024 * 1024,
            max_buffered_bytes: 256 * 1024 * 1024,
            max_agents: 1_000_000,
            max_store_bytes: 1024 * 1024 * 1024,
            max_seed_bytes: 1024 * 1024 * 1024,
            max_head_bytes: 64 * 1024,
            max_connections: default_max_connections(),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}

/// The format of the access log: one line for each response, on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// No log, the default of an embedded server.
    #[default]
    Off,
    /// `GET /v1/deals/{id} 200 0.2 ms req_1`
    Text,
    /// The same as one JSON object.
    Json,
}

/// 1,024, or fewer where the process may not open that many files: 32 descriptors are left for everything
/// that is not a connection.
fn default_max_connections() -> usize {
    const PREFERRED: usize = 1024;
    const RESERVED: usize = 32;
    descriptor_limit().map_or(PREFERRED, |limit| {
        limit.saturating_sub(RESERVED).clamp(1, PREFERRED)
    })
}

#[cfg(unix)]
fn descriptor_limit() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    usize::try_from(limit).ok()
}

#[cfg(not(unix))]
fn descriptor_limit() -> Option<usize> {
    None
}
