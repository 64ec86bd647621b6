//! The connections of a client: which are kept, for which requests, and how they are made.

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
        retry::attempts::is_safe,
    },
    value::words::Words,
};

/// How long an idle connection is kept for a request that changes nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long after a request a connection is trusted with another one that may change something.
///
/// A service may close an idle connection just as a request goes out on it, and then nobody can tell whether
/// the service has acted. Services wait for seconds before they close one (gunicorn 2, Node and uvicorn 5, AWS'
/// load balancers 60, nginx 75), so within this time it happens only if a service is shutting down or runs out
/// of connections (when its `worker_connections` are used up, nginx closes even the youngest). AWS' SDK for
/// Node keeps its connections for the same time.
const TRUSTED: Duration = Duration::from_secs(1);

/// How many requests share a [`Lane`].
///
/// A service should allow no fewer streams than that on an HTTP/2 connection (RFC 9113, 6.5.2), and those that are widespread
/// do: HAProxy, Apache and Google's front ends allow 100, nginx and AWS' load balancers 128, Go's server 250. A request beyond
/// what a service allows would wait unseen in the library, while its time runs and it counts as sent.
const WIDTH: usize = 100;

/// The default limit of an attempt that is retried on a timeout.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an HTTP/2 connection may be silent before it is sent a ping, and how long the reply to that
/// may take; less if an attempt may take less than four times this.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// The maximum number of runtimes for which connections are kept. Programs have one or two, or in Python one or two for
/// each of up to 16 services; a test suite has many, one after the other, and those that have ended need none.
const RUNTIMES: usize = 32;

/// How connections are made. Clients for which all of this is the same can share connections.
#[derive(Clone, PartialEq)]
pub(crate) struct ConnectionSettings {
    pub(crate) connect_timeout: Duration,
    /// `None`: [`ATTEMPT_TIMEOUT`] for an attempt that is retried on a timeout, no limit of its own for another one.
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) max_idle: usize,
    pub(crate) versions: Versions,
    pub(crate) route: Route,
    pub(crate) tls: TlsSettings,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Versions {
    /// What the two sides agree on over TLS; HTTP/1.1 without it.
    Any,
    Http1,
    /// From the first byte.
    Http2,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Route {
    Direct,
    Proxy(Proxy),
    /// None of dealkit's own: a transport is in their place.
    Transport(Transport),
}

pub(crate) struct Pools {
    pub(crate) settings: ConnectionSettings,
    /// None of dealkit's own for a transport.
    tls: Option<ClientConfig>,
    /// One for each request that may be in flight: a request may need a connection, and so a descriptor.
    permits: Semaphore,
    /// The most idle connections of one kind. A connection that is made for a request that has found another in the meantime is idle
    /// as well, so that there may be more than requests in flight.
    max_idle: usize,
    /// True if idle connections of reads, and as many connections of creates, would leave too few descriptors.
    has_few_descriptors: bool,
    lanes: Mutex<Lanes>,
}

/// Lanes by runtime, and by how long idle connections are kept; the last are those in use.
///
/// An idle connection is driven by the runtime that made it, and if that runtime stands still, the connection would never
/// respond. A request takes the first lane that has room, so that the last ones are needed only while many are in flight.
type Lanes = Vec<((Id, Duration), Vec<Arc<Lane>>)>;

/// The connections of at most [`WIDTH`] requests in flight, each of which holds on to the lane: over HTTP/1.1 as many
/// as that, over HTTP/2 only one.
pub(crate) struct Lane {
    pub(crate) http: reqwest::Client,
    /// Ends, when dropped, the making of connections that no request waits for.
    _in_use: watch::Sender<()>,
}

impl Pools {
    /// The connections of a client with these settings: those of another client, if they are made in the
    /// same way, otherwise its own.
    pub(crate) fn shared_or_new(
        settings: ConnectionSettings,
        of_other: Option<Arc<Self>>,
    ) -> Result<Arc<Self>, Words> {
        if let Some(pools) = of_other.filter(|pools| pools.settings == settings) {
            return Ok(pools);
        }
        let descriptors = descriptor_limit();
        Ok(Arc::new(Self {
            tls: match settings.route {
                Route::Transport(_) => None,
                _ => Some(settings.tls()?),
            },
            max_idle: settings.max_idle.min(most_connections(descriptors)),
            settings,
            permits: Semaphore::new(most_connections(descriptors)),
            has_few_descriptors: descriptors.is_some_and(|limit| limit < 4 * OTHER_DESCRIPTORS),
            lanes: Mutex::default(),
        }))
    }

    /// The permits of requests in flight, shared by all clients with these connections.
    pub(crate) fn permits(&self) -> &Semaphore {
        &self.permits
    }

    /// The lane for a request with this method, on this runtime.
    pub(crate) fn lane(&self, runtime: &Handle, method: &Method) -> Result<Arc<Lane>, Words> {
        let idle_timeout = if is_safe(method) {
            IDLE_TIMEOUT
        } else {
            TRUSTED
        };
        let kind = (runtime.id(), idle_timeout);
        let mut lanes = lock(&self.lanes);
        let known = lanes.iter().position(|(of, _)| *of == kind);
        let mut of_kind = known.map_or_else(Vec::new, |at| lanes.remove(at).1);
        let lane = self.lane_among(&mut of_kind, idle_timeout);
        if self.has_few_descriptors {
            for (_, others) in &mut *lanes {
                // Lanes without a request in flight are closed.
                others.retain(|lane| Arc::strong_count(lane) > 1);
            }
        }
        if lanes.len() == 2 * RUNTIMES {
            lanes.remove(0);
        }
        lanes.push((kind, of_kind));
        lane
    }

    fn lane_among(
        &self,
        lanes: &mut Vec<Arc<Lane>>,
        idle_timeout: Duration,
    ) -> Result<Arc<Lane>, Words> {
        let max_idle = self.max_idle.saturating_sub(lanes.len() * WIDTH);
        // One of those who hold on to a lane is the client.
        let found = lanes.iter().find(|lane| Arc::strong_count(lane) <= WIDTH);
        // If these keep as many connections as may be kept, there is no other.
        let found = found.or(lanes.last().filter(|_| max_idle == 0));
        if let Some(lane) = found {
            return Ok(Arc::clone(lane));
        }
        let (layer, in_use) = ConnectorLayer::new();
        let max_idle = max_idle.min(WIDTH);
        let http = (self.settings).make(max_idle, idle_timeout, self.tls.as_ref(), layer)?;
        let lane = Arc::new(Lane {
            http,
            _in_use: in_use,
        });
        lanes.push(Arc::clone(&lane));
        Ok(lane)
    }

    /// Closes the idle connections, so that there are descriptors for others.
    pub(crate) fn close_idle(&self) {
        lock(&self.lanes).clear();
    }

    pub(crate) fn transport(&self) -> Option<&Transport> {
        match &self.settings.route {
            Route::Transport(transport) => Some(transport),
            _ => None,
        }
    }
}

/// The number of descriptors that connections leave to the rest of the process, such as ledgers, if it may have twice as many.
const OTHER_DESCRIPTORS: u64 = 32;

/// Returns the most connections that a client may use at the same time: three quarters of the descriptors of this process, or
/// fewer if little else would be left.
fn most_connections(descriptors: Option<u64>) -> usize {
    let most = descriptors.map(|limit| {
        let left = limit.saturating_sub(OTHER_DESCRIPTORS);
        left.clamp(limit / 4, limit / 4 * 3)
    });
    let most = most.and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

/// Returns the number of descriptors that this process may have.
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
    /// A pool that keeps so many idle connections, for `idle_timeout`.
    fn make(
        &self,
        max_idle: usize,
        idle_timeout: Duration,
        tls: Option<&ClientConfig>,
        layer: ConnectorLayer,
    ) -> Result<reqwest::Client, Words> {
        // Over HTTP/2 many requests share a connection, and one that died silently would take every later request
        // with it. So it is sent a ping while a request waits, and given up within half the time of an attempt.
        let attempt_timeout = self.attempt_timeout.unwrap_or(ATTEMPT_TIMEOUT);
        let patience = (attempt_timeout / 4).min(LONGEST_SILENCE);
        let mut pool = reqwest::Client::builder()
            // reqwest would send the service key to another host.
            .redirect(reqwest::redirect::Policy::none())
            // dealkit alone decides what is retried, and how often. With no retries allowed,
            // reqwest does not keep a copy of the request for them either.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connector_layer(layer)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(max_idle)
            .pool_idle_timeout(idle_timeout)
            .http2_keep_alive_interval(patience)
            .http2_keep_alive_timeout(patience);
        pool = match self.versions {
            Versions::Any => pool,
            Versions::Http1 => pool.http1_only(),
            Versions::Http2 => pool.http2_prior_knowledge(),
        };
        pool = match &self.route {
            Route::Proxy(proxy) => pool.proxy(proxy.to_reqwest()),
            Route::Direct | Route::Transport(_) => pool.no_proxy(),
        };
        if let Some(tls) = tls {
            pool = pool.tls_backend_preconfigured(tls.clone());
        }
        pool.build()
            .map_err(|error| format!("connections cannot be made: {error}").into())
    }

    fn tls(&self) -> Result<ClientConfig, Words> {
        let mut tls = self.tls.config()?;
        let (http2, http1) = (b"h2".to_vec(), b"http/1.1".to_vec());
        tls.alpn_protocols = match self.versions {
            Versions::Any => vec![http2, http1],
            Versions::Http1 => vec![http1],
            Versions::Http2 => vec![http2],
        };
        Ok(tls)
    }
}
