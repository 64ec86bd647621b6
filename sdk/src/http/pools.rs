//! The connections of a client: which are kept, for whom, and how they are made.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Method;
use tokio::runtime::{Handle, Id};

use super::{progress::ProgressLayer, proxy::Proxy, retry::is_safe};
use crate::error::Error;

/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection over HTTP/2 may be silent before it is asked for a sign of life, and how long it
/// may take to give it; less, where an attempt has less than four times that.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// For how many runtimes connections are kept. Programs have one or two; a test suite has many, one after
/// the other, and those that are gone need none.
const RUNTIMES: usize = 8;

/// How connections are made. Clients in which all of this is the same can share them.
#[derive(Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) connect_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) max_idle: usize,
    pub(crate) http2_prior_knowledge: bool,
    pub(crate) route: Route,
}

/// The way to the service.
#[derive(Clone, PartialEq)]
pub(crate) enum Route {
    /// The service is on this machine: never through a proxy, whatever the environment says.
    Loopback {
        tls: bool,
    },
    /// Through the proxy that the environment names, if it names one.
    SystemProxy,
    Proxy(Proxy),
}

/// The connections of a client.
pub(crate) struct Pools {
    settings: Settings,
    /// For requests that may change something: a connection of its own for each. On a kept connection the
    /// service may hang up just as the request goes out, and it would be unknown whether it had acted.
    unpooled: reqwest::Client,
    /// For GET and HEAD, one pool for each runtime: a kept connection is driven by the runtime that made
    /// it, and one whose runtime stands still would never respond.
    pooled: Mutex<Vec<(Id, reqwest::Client)>>,
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
        let unpooled = settings.make(0)?;
        Ok(Arc::new(Self {
            settings,
            unpooled,
            pooled: Mutex::default(),
        }))
    }

    /// The pool for a request of this method on this runtime.
    pub(crate) fn of(&self, method: &Method, runtime: &Handle) -> Result<reqwest::Client, Error> {
        if !is_safe(method) || self.settings.max_idle == 0 {
            return Ok(self.unpooled.clone());
        }
        let id = runtime.id();
        let mut pooled = self.pooled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pooled.iter().find(|(of, _)| *of == id) {
            return Ok(pool.clone());
        }
        let pool = self.settings.make(self.settings.max_idle)?;
        if pooled.len() == RUNTIMES {
            pooled.remove(0);
        }
        pooled.push((id, pool.clone()));
        Ok(pool)
    }
}

impl Settings {
    /// A pool that keeps at most `max_idle` unused connections.
    fn make(&self, max_idle: usize) -> Result<reqwest::Client, Error> {
        let mut pool = reqwest::Client::builder()
            // reqwest would take the service key along to another host.
            .redirect(reqwest::redirect::Policy::none())
            // What is retried, and how often, is decided in one place: here, by dealkit.
            .retry(reqwest::retry::never())
            .connector_layer(ProgressLayer)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(max_idle)
            .pool_idle_timeout(IDLE_TIMEOUT);
        if self.http2_prior_knowledge {
            pool = pool.http2_prior_knowledge();
        }
        if max_idle > 0 {
            // Over HTTP/2 many requests share a connection, and one that has died in silence would take
            // every later request with it. So it is asked for a sign of life while a request waits, and
            // given up within half the time of an attempt.
            let patience = (self.attempt_timeout / 4).min(LONGEST_SILENCE);
            pool = pool
                .http2_keep_alive_interval(patience)
                .http2_keep_alive_timeout(patience);
        }
        pool = match &self.route {
            Route::Loopback { tls: true } => pool.no_proxy(),
            Route::Loopback { tls: false } => without_certificates(pool.no_proxy()),
            Route::SystemProxy => pool,
            Route::Proxy(proxy) => pool.proxy(proxy.to_reqwest()),
        };
        pool.build()
            .map_err(|error| Error::config(format!("connections cannot be made: {error}")))
    }
}

/// Where no TLS can come of it, no certificates are loaded: that takes milliseconds, and fails in a
/// container that has none.
#[cfg(feature = "rustls")]
fn without_certificates(pool: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    pool.tls_certs_only([])
}

#[cfg(not(feature = "rustls"))]
fn without_certificates(pool: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    pool
}
