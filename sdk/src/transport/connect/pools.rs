//! Connection pools of a client: creation, reuse and limits.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::Method;
#[cfg(unix)]
use rustix::process::{Resource, getrlimit};
use rustls::ClientConfig;
use tokio::{
    runtime::{Handle, Id},
    sync::{Semaphore, watch},
};

use crate::{
    transport::{
        connect::{progress::ConnectorLayer, proxy::Proxy, tls::TlsSettings, transport::Transport},
        retry::attempts::is_read,
    },
    value::message::Message,
};

/// Lifetime of an idle connection for reads.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Lifetime of an idle connection for creates and other requests that may change data.
///
/// A service may close an idle connection just as a request is sent on it, and then the client does not know whether the service
/// has acted. Services keep an idle connection for some seconds (gunicorn 2, Node and uvicorn 5, AWS' load balancers 60, nginx
/// 75). So a connection that was used within the last second is closed only if the service shuts down or runs out of
/// connections: when its `worker_connections` are used up, nginx closes even the newest. AWS' SDK for Node uses the same
/// lifetime.
const UNSAFE_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of requests in flight in a [`PoolShard`].
///
/// RFC 9113 (6.5.2) recommends that a service allow at least this many streams on an HTTP/2 connection, and the widespread
/// servers do: HAProxy, Apache and Google's front ends allow 100, nginx and AWS' load balancers 128, Go's server 250. A request
/// beyond the service's limit would wait inside the HTTP library: its timeout would run, and it would count as sent.
const REQUESTS_PER_SHARD: usize = 100;

/// The default timeout of an attempt that is retried on a timeout.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest interval between HTTP/2 keep-alive pings, and the longest wait for a reply. Both are at most a quarter of the
/// attempt timeout.
const MAX_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The maximum number of runtimes with connections. A program has one or two runtimes, or in Python one or two for each of up to
/// 16 services. A test suite starts many runtimes one after the other, and the ended ones need no connections.
const MAX_RUNTIMES: usize = 32;

/// Settings of connections. Clients with equal settings can share connections.
#[derive(Clone, PartialEq)]
pub(crate) struct ConnectionSettings {
    pub(crate) connect_timeout: Duration,
    /// If `None`, an attempt that is retried on a timeout has [`ATTEMPT_TIMEOUT`], and any other attempt has the call's timeout.
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) max_idle: usize,
    pub(crate) versions: Versions,
    pub(crate) route: Route,
    pub(crate) tls: TlsSettings,
}

/// The HTTP versions that a client speaks.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Versions {
    /// The version negotiated over TLS; HTTP/1.1 without TLS.
    Any,
    Http1,
    /// HTTP/2 without negotiation.
    Http2,
}

/// The way from the client to the service.
#[derive(Clone, PartialEq)]
pub(crate) enum Route {
    Direct,
    Proxy(Proxy),
    /// A custom transport, in place of dealkit's own connections.
    Transport(Transport),
}

/// The connection pools of one or more clients with equal settings.
pub(crate) struct Pools {
    pub(crate) settings: ConnectionSettings,
    /// `None` for a custom transport.
    tls: Option<ClientConfig>,
    /// Permits of requests in flight. Each request may need a connection, and so a file descriptor.
    permits: Semaphore,
    /// The maximum number of idle connections in a group. There can be more idle connections than requests in flight: if a
    /// request finds an idle connection while a new connection is being made for it, the new connection goes to the pool.
    max_idle: usize,
    /// True if the idle connections of reads and as many connections of creates would use too many file descriptors.
    has_few_descriptors: bool,
    groups: Mutex<ConnectionGroups>,
}

/// Pool shards by runtime and by lifetime of idle connections, the most recently used group last.
///
/// An idle connection is driven by the runtime that made it. If another runtime used the connection while the first runtime is
/// blocked, the connection would not respond. A request takes the first shard with free capacity, so later shards are used only
/// while many requests are in flight.
type ConnectionGroups = Vec<((Id, Duration), Vec<Arc<PoolShard>>)>;

/// A pool for at most [`REQUESTS_PER_SHARD`] requests in flight. Each request holds a reference to the shard. Over HTTP/1.1,
/// each request has its own connection. Over HTTP/2, all requests share a connection.
pub(crate) struct PoolShard {
    pub(crate) http_client: reqwest::Client,
    /// Dropping this sender stops connections that are still being made although no request waits for them.
    _pool_alive: watch::Sender<()>,
}

impl Pools {
    /// Returns the pools of another client if their settings are equal to `settings`, otherwise new pools.
    pub(crate) fn share_or_create(
        settings: ConnectionSettings,
        other_pools: Option<Arc<Self>>,
    ) -> Result<Arc<Self>, Message> {
        if let Some(pools) = other_pools.filter(|pools| pools.settings == settings) {
            return Ok(pools);
        }
        let descriptors = descriptor_limit();
        Ok(Arc::new(Self {
            tls: match settings.route {
                Route::Transport(_) => None,
                _ => Some(settings.build_tls()?),
            },
            max_idle: settings.max_idle.min(max_connections(descriptors)),
            settings,
            permits: Semaphore::new(max_connections(descriptors)),
            has_few_descriptors: descriptors.is_some_and(|limit| limit < 4 * OTHER_DESCRIPTORS),
            groups: Mutex::default(),
        }))
    }

    /// Returns the permits of requests in flight, which all clients with these pools share.
    pub(crate) fn permits(&self) -> &Semaphore {
        &self.permits
    }

    /// Returns the shard for a request with this method on this runtime.
    pub(crate) fn find_shard(
        &self,
        runtime: &Handle,
        method: &Method,
    ) -> Result<Arc<PoolShard>, Message> {
        let idle_timeout = if is_read(method) {
            IDLE_TIMEOUT
        } else {
            UNSAFE_IDLE_TIMEOUT
        };
        let key = (runtime.id(), idle_timeout);
        let mut groups = lock(&self.groups);
        let position = groups.iter().position(|(group_key, _)| *group_key == key);
        let mut shards = position.map_or_else(Vec::new, |position| groups.remove(position).1);
        let shard = self.find_or_add_shard(&mut shards, idle_timeout);
        if self.has_few_descriptors {
            for (_, other_shards) in &mut *groups {
                // Dropping a shard without a request in flight closes its idle connections.
                other_shards.retain(|shard| Arc::strong_count(shard) > 1);
            }
        }
        if groups.len() == 2 * MAX_RUNTIMES {
            groups.remove(0);
        }
        groups.push((key, shards));
        shard
    }

    fn find_or_add_shard(
        &self,
        shards: &mut Vec<Arc<PoolShard>>,
        idle_timeout: Duration,
    ) -> Result<Arc<PoolShard>, Message> {
        let max_idle = self
            .max_idle
            .saturating_sub(shards.len() * REQUESTS_PER_SHARD);
        // The list of shards holds one reference to each shard, and each request in flight holds another.
        let free_shard = shards
            .iter()
            .find(|shard| Arc::strong_count(shard) <= REQUESTS_PER_SHARD);
        // If the shards together have reached the limit of idle connections, the last shard takes the request.
        let usable_shard = free_shard.or(shards.last().filter(|_| max_idle == 0));
        if let Some(shard) = usable_shard {
            return Ok(Arc::clone(shard));
        }
        let (layer, pool_alive) = ConnectorLayer::new();
        let max_idle = max_idle.min(REQUESTS_PER_SHARD);
        let http_client =
            (self.settings).build_client(max_idle, idle_timeout, self.tls.as_ref(), layer)?;
        let shard = Arc::new(PoolShard {
            http_client,
            _pool_alive: pool_alive,
        });
        shards.push(Arc::clone(&shard));
        Ok(shard)
    }

    /// Closes the idle connections, which frees file descriptors.
    pub(crate) fn close_idle(&self) {
        lock(&self.groups).clear();
    }

    pub(crate) fn transport(&self) -> Option<&Transport> {
        match &self.settings.route {
            Route::Transport(transport) => Some(transport),
            _ => None,
        }
    }
}

/// The number of file descriptors that are reserved for the rest of the process, such as ledgers, if the limit allows it.
const OTHER_DESCRIPTORS: u64 = 32;

/// Returns the maximum number of connections of a client: all but [`OTHER_DESCRIPTORS`] of the process's file descriptors, at
/// least a quarter of them, and at most three quarters.
fn max_connections(descriptors: Option<u64>) -> usize {
    let max = descriptors.map(|limit| {
        let remaining = limit.saturating_sub(OTHER_DESCRIPTORS);
        remaining.clamp(limit / 4, limit / 4 * 3)
    });
    let max = max.and_then(|max| usize::try_from(max).ok());
    max.unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

/// Returns the limit of file descriptors of this process, if there is one.
fn descriptor_limit() -> Option<u64> {
    #[cfg(unix)]
    return getrlimit(Resource::Nofile).current;
    #[cfg(not(unix))]
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionSettings {
    /// Builds an HTTP client that keeps at most `max_idle` idle connections, each for `idle_timeout`.
    fn build_client(
        &self,
        max_idle: usize,
        idle_timeout: Duration,
        tls: Option<&ClientConfig>,
        layer: ConnectorLayer,
    ) -> Result<reqwest::Client, Message> {
        // Over HTTP/2, many requests share a connection, and all of them would fail on a connection that is dead without having
        // been closed. So the client sends a ping while a request waits, and closes the connection within half of the attempt
        // timeout if there is no reply.
        let attempt_timeout = self.attempt_timeout.unwrap_or(ATTEMPT_TIMEOUT);
        let keep_alive = (attempt_timeout / 4).min(MAX_KEEP_ALIVE);
        let mut builder = reqwest::Client::builder()
            // Following a redirect, reqwest would send the service key to another host.
            .redirect(reqwest::redirect::Policy::none())
            // dealkit has its own retry policy. And if reqwest does not retry, it keeps no copy of the request.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connector_layer(layer)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(max_idle)
            .pool_idle_timeout(idle_timeout)
            .http2_keep_alive_interval(keep_alive)
            .http2_keep_alive_timeout(keep_alive);
        builder = match self.versions {
            Versions::Any => builder,
            Versions::Http1 => builder.http1_only(),
            Versions::Http2 => builder.http2_prior_knowledge(),
        };
        builder = match &self.route {
            Route::Proxy(proxy) => builder.proxy(proxy.to_reqwest()),
            Route::Direct | Route::Transport(_) => builder.no_proxy(),
        };
        if let Some(tls) = tls {
            builder = builder.tls_backend_preconfigured(tls.clone());
        }
        builder
            .build()
            .map_err(|error| format!("the HTTP client cannot be set up: {error}").into())
    }

    /// Builds the TLS configuration, with the protocols to negotiate (ALPN).
    fn build_tls(&self) -> Result<ClientConfig, Message> {
        let mut tls = self.tls.build_config()?;
        let (http2, http1) = (b"h2".to_vec(), b"http/1.1".to_vec());
        tls.alpn_protocols = match self.versions {
            Versions::Any => vec![http2, http1],
            Versions::Http1 => vec![http1],
            Versions::Http2 => vec![http2],
        };
        Ok(tls)
    }
}
