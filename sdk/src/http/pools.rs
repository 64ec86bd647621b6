//! The connections of a client: which are kept, for whom, and how they are made.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Method, Version};
use tokio::{
    runtime::{Handle, Id},
    time::Instant,
};

#[cfg(feature = "rustls-no-provider")]
use super::tls;
use super::{progress::ProgressLayer, proxy::Proxy, retry::is_safe};
use crate::error::Error;

/// How long an unused connection is kept for a request that changes nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection is trusted with a request that may change something after it has carried another.
///
/// A service may close an idle connection just as a request goes out on it, and then nobody can tell whether
/// it has acted. Services wait seconds before they do (gunicorn 2, Node and uvicorn 5, AWS' load balancers 60,
/// nginx 75), so within this time only a service that is ending or has too few connections does it (nginx takes
/// the youngest, too, when its `worker_connections` are used up). AWS' SDK for Node keeps its connections as
/// long.
const TRUSTED: Duration = Duration::from_secs(1);

/// How long a connection over HTTP/2 may be silent before it is asked for a sign of life, and how long it
/// may take to give it; less, where an attempt has less than four times that.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// For how many runtimes connections are kept. Programs have one or two; a test suite has many, one after
/// the other, and those that are gone need none.
const RUNTIMES: usize = 8;

/// How TLS is spoken, if it is.
#[cfg(feature = "rustls-no-provider")]
type Tls = rustls::ClientConfig;
#[cfg(not(feature = "rustls-no-provider"))]
struct Tls;

/// How connections are made. Clients in which all of this is the same can share them.
#[derive(Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) max_idle: usize,
    pub(crate) http2_prior_knowledge: bool,
    pub(crate) route: Route,
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) tls: tls::Settings,
}

/// The way to the service.
#[derive(Clone, PartialEq)]
pub(crate) enum Route {
    /// The service is on this machine: never through a proxy, whatever the environment says.
    Loopback {
        tls: bool,
    },
    Direct,
    Proxy(Proxy),
}

/// The connections of a client.
pub(crate) struct Pools {
    settings: Settings,
    tls: Tls,
    /// One for each runtime: a kept connection is driven by the runtime that made it, and one whose runtime
    /// stands still would never respond.
    pools: Mutex<Vec<(Id, Arc<Pool>)>>,
    /// For the first runtime: what cannot work was to be found before there was one.
    first: Mutex<Option<Connections>>,
}

/// The connections of a client on one runtime.
pub(crate) struct Pool {
    /// For GET and HEAD.
    safe: Connections,
    /// For requests that may change something: a connection is kept for as long as it is [`TRUSTED`].
    other: Connections,
    /// Whether the client has a certificate of its own to show.
    #[cfg(feature = "rustls-no-provider")]
    has_identity: bool,
    has_proxy: bool,
}

/// Connections that are kept for equally long.
pub(crate) struct Connections {
    http: reqwest::Client,
    /// When a response last came over HTTP/2, where one connection carries all requests.
    last_http2: Mutex<Option<Instant>>,
}

impl Pools {
    /// The connections of a client with these settings: those of another client, if they are made the same
    /// way, or else its own.
    pub(crate) fn shared_or_new(
        settings: Settings,
        of_other: Option<Arc<Self>>,
    ) -> Result<Arc<Self>, Error> {
        if let Some(pools) = of_other.filter(|pools| pools.settings == settings) {
            return Ok(pools);
        }
        let tls = settings.tls()?;
        // What cannot work is found now, and not at the first call.
        let first = Connections::kept_for(IDLE_TIMEOUT, &settings, &tls)?;
        Ok(Arc::new(Self {
            settings,
            tls,
            pools: Mutex::default(),
            first: Mutex::new(Some(first)),
        }))
    }

    /// The connections for requests on this runtime.
    pub(crate) fn of(&self, runtime: &Handle) -> Result<Arc<Pool>, Error> {
        let id = runtime.id();
        let mut pools = lock(&self.pools);
        if let Some((_, pool)) = pools.iter().find(|(of, _)| *of == id) {
            return Ok(Arc::clone(pool));
        }
        let kept_for = |time| Connections::kept_for(time, &self.settings, &self.tls);
        let first = lock(&self.first).take();
        let pool = Arc::new(Pool {
            safe: first.map_or_else(|| kept_for(IDLE_TIMEOUT), Ok)?,
            other: kept_for(TRUSTED)?,
            #[cfg(feature = "rustls-no-provider")]
            has_identity: self.settings.tls.has_identity(),
            has_proxy: matches!(self.settings.route, Route::Proxy(_)),
        });
        if pools.len() == RUNTIMES {
            pools.remove(0);
        }
        pools.push((id, Arc::clone(&pool)));
        Ok(pool)
    }
}

impl Pool {
    #[cfg(feature = "rustls-no-provider")]
    pub(crate) fn has_identity(&self) -> bool {
        self.has_identity
    }

    pub(crate) fn has_proxy(&self) -> bool {
        self.has_proxy
    }

    /// The connections for a request of this method.
    pub(crate) fn of(&self, method: &Method) -> &Connections {
        if is_safe(method) || self.safe.have_responded_over_http2() {
            &self.safe
        } else {
            &self.other
        }
    }
}

impl Connections {
    fn kept_for(idle_timeout: Duration, settings: &Settings, tls: &Tls) -> Result<Self, Error> {
        Ok(Self {
            http: settings.make(idle_timeout, tls)?,
            last_http2: Mutex::default(),
        })
    }

    /// Sends a request; comes back with the head of its response.
    pub(crate) fn send(
        &self,
        request: reqwest::Request,
    ) -> impl Future<Output = Result<reqwest::Response, reqwest::Error>> {
        // Outside of the future, which would carry the request about.
        let responded = self.http.execute(request);
        async move {
            let response = responded.await?;
            if response.version() == Version::HTTP_2 {
                *lock(&self.last_http2) = Some(Instant::now());
            }
            Ok(response)
        }
    }

    /// Whether the next request goes out on a connection over HTTP/2 that is [`TRUSTED`].
    fn have_responded_over_http2(&self) -> bool {
        lock(&self.last_http2).is_some_and(|at| at.elapsed() < TRUSTED)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Settings {
    /// A pool that keeps unused connections for `idle_timeout`.
    #[cfg_attr(not(feature = "rustls-no-provider"), allow(unused_variables))]
    fn make(&self, idle_timeout: Duration, tls: &Tls) -> Result<reqwest::Client, Error> {
        let mut pool = reqwest::Client::builder()
            // reqwest would take the service key along to another host.
            .redirect(reqwest::redirect::Policy::none())
            // What is retried, and how often, is decided in one place: here, by dealkit.
            // With none allowed, reqwest keeps no copy of the request for them either.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connector_layer(ProgressLayer)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(self.max_idle)
            .pool_idle_timeout(idle_timeout);
        if self.http2_prior_knowledge {
            pool = pool.http2_prior_knowledge();
        }
        if self.max_idle > 0 {
            // Over HTTP/2 many requests share a connection, and one that has died in silence would take
            // every later request with it. So it is asked for a sign of life while a request waits, and
            // given up within half the time of an attempt.
            let patience = (self.attempt_timeout / 4).min(LONGEST_SILENCE);
            pool = pool
                .http2_keep_alive_interval(patience)
                .http2_keep_alive_timeout(patience);
        }
        pool = match &self.route {
            Route::Loopback { .. } | Route::Direct => pool.no_proxy(),
            Route::Proxy(proxy) => pool.proxy(proxy.to_reqwest()),
        };
        #[cfg(feature = "rustls-no-provider")]
        let pool = pool.tls_backend_preconfigured(tls.clone());
        pool.build()
            .map_err(|error| Error::config(format!("connections cannot be made: {error}")))
    }

    #[cfg(feature = "rustls-no-provider")]
    fn tls(&self) -> Result<Tls, Error> {
        match self.route {
            // Where no TLS can come of it, no certificates are loaded: that takes time, and fails in a container
            // that has none.
            Route::Loopback { tls: false } => self.tls.unused(),
            _ => self.tls.config(self.http2_prior_knowledge),
        }
    }

    #[cfg(not(feature = "rustls-no-provider"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with TLS")]
    fn tls(&self) -> Result<Tls, Error> {
        Ok(Tls)
    }
}
