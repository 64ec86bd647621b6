//! The connections of a client: which are kept, for which requests, and how they are made.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Method, Version};
use tokio::{
    runtime::{Handle, Id},
    sync::watch,
    time::Instant,
};

#[cfg(feature = "rustls-no-provider")]
use crate::http::connect::tls;
use crate::{
    http::{
        connect::{progress::ConnectorLayer, proxy::Proxy, transport::Transport},
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

/// How long an HTTP/2 connection may be silent before it is sent a ping, and how long the reply to that
/// may take; less if an attempt may take less than four times this.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// The maximum number of runtimes for which connections are kept. Programs have one or two; a test suite
/// has many, one after the other, and those that have ended need none.
const RUNTIMES: usize = 8;

/// The TLS configuration, if there is TLS.
#[cfg(feature = "rustls-no-provider")]
type Tls = rustls::ClientConfig;
#[cfg(not(feature = "rustls-no-provider"))]
struct Tls;

/// How connections are made. Clients for which all of this is the same can share connections.
#[derive(Clone, PartialEq)]
pub(crate) struct ConnectionSettings {
    pub(crate) connect_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) max_idle: usize,
    pub(crate) http2_prior_knowledge: bool,
    pub(crate) route: Route,
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) tls: tls::TlsSettings,
}

/// The route to the service.
#[derive(Clone, PartialEq)]
pub(crate) enum Route {
    /// The service is on this machine: never through a proxy, whatever the environment says.
    Loopback {
        tls: bool,
    },
    Direct,
    Proxy(Proxy),
    /// None of dealkit's own: a transport is in their place.
    Transport(Transport),
}

/// The connections of a client.
pub(crate) struct Pools {
    settings: ConnectionSettings,
    tls: Tls,
    /// One for each runtime: an idle connection is driven by the runtime that made it, and if that runtime
    /// stands still, the connection would never respond.
    pools: Mutex<Vec<(Id, Arc<Pool>)>>,
}

/// What sends the requests of a client on one runtime.
pub(crate) enum Sender {
    Pool(Arc<Pool>),
    Transport(Transport),
}

/// The connections of a client on one runtime.
pub(crate) struct Pool {
    /// For GET and HEAD.
    safe: Connections,
    /// For requests that may change something: a connection is kept for as long as it is [`TRUSTED`].
    other: Connections,
    /// Whether the client has a certificate of its own.
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) has_identity: bool,
    pub(crate) has_proxy: bool,
}

/// Connections that are kept for the same time.
pub(crate) struct Connections {
    http: reqwest::Client,
    /// Ends, when dropped, the making of connections that no request waits for.
    _in_use: watch::Sender<()>,
    /// When a response last came over HTTP/2, where one connection carries all requests.
    last_http2: Mutex<Option<Instant>>,
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
        Ok(Arc::new(Self {
            tls: settings.tls()?,
            settings,
            pools: Mutex::default(),
        }))
    }

    /// What sends requests on this runtime.
    pub(crate) fn of(&self, runtime: &Handle) -> Result<Sender, Words> {
        if let Route::Transport(transport) = &self.settings.route {
            return Ok(Sender::Transport(transport.clone()));
        }
        let id = runtime.id();
        let mut pools = lock(&self.pools);
        if let Some((_, pool)) = pools.iter().find(|(of, _)| *of == id) {
            return Ok(Sender::Pool(Arc::clone(pool)));
        }
        let kept_for = |time| Connections::kept_for(time, &self.settings, &self.tls);
        let pool = Arc::new(Pool {
            safe: kept_for(IDLE_TIMEOUT)?,
            other: kept_for(TRUSTED)?,
            #[cfg(feature = "rustls-no-provider")]
            has_identity: self.settings.tls.identity.is_some(),
            has_proxy: matches!(self.settings.route, Route::Proxy(_)),
        });
        if pools.len() == RUNTIMES {
            pools.remove(0);
        }
        pools.push((id, Arc::clone(&pool)));
        Ok(Sender::Pool(pool))
    }
}

impl Pool {
    /// The connections for a request with this method.
    pub(crate) fn of(&self, method: &Method) -> &Connections {
        if is_safe(method) || self.safe.have_responded_over_http2() {
            &self.safe
        } else {
            &self.other
        }
    }
}

impl Connections {
    fn kept_for(
        idle_timeout: Duration,
        settings: &ConnectionSettings,
        tls: &Tls,
    ) -> Result<Self, Words> {
        let (layer, in_use) = ConnectorLayer::new();
        Ok(Self {
            http: settings.make(idle_timeout, tls, layer)?,
            _in_use: in_use,
            last_http2: Mutex::default(),
        })
    }

    /// Sends a request, and returns the head of its response.
    pub(crate) fn send(
        &self,
        request: reqwest::Request,
    ) -> impl Future<Output = Result<reqwest::Response, reqwest::Error>> {
        // Called outside the future, because the future would otherwise contain the request.
        let responded = self.http.execute(request);
        async move {
            let response = responded.await?;
            if response.version() == Version::HTTP_2 {
                *lock(&self.last_http2) = Some(Instant::now());
            }
            Ok(response)
        }
    }

    /// Whether the next request goes out on an HTTP/2 connection that is [`TRUSTED`].
    fn have_responded_over_http2(&self) -> bool {
        lock(&self.last_http2).is_some_and(|at| at.elapsed() < TRUSTED)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionSettings {
    /// A pool that keeps idle connections for `idle_timeout`.
    #[cfg_attr(not(feature = "rustls-no-provider"), allow(unused_variables))]
    fn make(
        &self,
        idle_timeout: Duration,
        tls: &Tls,
        layer: ConnectorLayer,
    ) -> Result<reqwest::Client, Words> {
        let mut pool = reqwest::Client::builder()
            // reqwest would send the service key to another host.
            .redirect(reqwest::redirect::Policy::none())
            // dealkit alone decides what is retried, and how often. With no retries allowed,
            // reqwest does not keep a copy of the request for them either.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connector_layer(layer)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(self.max_idle)
            .pool_idle_timeout(idle_timeout);
        if self.http2_prior_knowledge {
            pool = pool.http2_prior_knowledge();
        }
        if self.max_idle > 0 {
            // Over HTTP/2 many requests share a connection, and one that died silently would take every later request
            // with it. So it is sent a ping while a request waits, and given up within half the time of an attempt.
            let patience = (self.attempt_timeout / 4).min(LONGEST_SILENCE);
            pool = pool
                .http2_keep_alive_interval(patience)
                .http2_keep_alive_timeout(patience);
        }
        pool = match &self.route {
            Route::Proxy(proxy) => pool.proxy(proxy.to_reqwest()),
            Route::Loopback { .. } | Route::Direct | Route::Transport(_) => pool.no_proxy(),
        };
        #[cfg(feature = "rustls-no-provider")]
        let pool = pool.tls_backend_preconfigured(tls.clone());
        pool.build()
            .map_err(|error| format!("connections cannot be made: {error}").into())
    }

    #[cfg(feature = "rustls-no-provider")]
    fn tls(&self) -> Result<Tls, Words> {
        let is_unused = matches!(
            self.route,
            Route::Loopback { tls: false } | Route::Transport(_)
        );
        self.tls.config(!is_unused, self.http2_prior_knowledge)
    }

    #[cfg(not(feature = "rustls-no-provider"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with TLS")]
    fn tls(&self) -> Result<Tls, Words> {
        Ok(Tls)
    }
}
