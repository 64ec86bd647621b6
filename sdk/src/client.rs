//! The client: its configuration, checked once, and the way in to its calls.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, header};
use url::{Host, Url};

#[cfg(feature = "rustls-no-provider")]
use crate::http::tls;
use crate::{
    agents::Agents,
    base_url,
    call::Call,
    deals::Deals,
    error::{Error, Operation},
    http::{
        headers::extra_header,
        path::segment,
        pools::{Pools, Route, Settings},
        proxy::Proxy,
        retry::RetryPolicy,
        send::Limits,
        traffic::Traffic,
    },
    redact::Redactor,
    response::RawResponse,
    service::{Propagate, Service, more_than_zero},
    wire,
};

/// The environment variable that [`Client::from_env`] reads the base URL from.
pub const BASE_URL_VARIABLE: &str = "DEALKIT_BASE_URL";

/// The environment variable that [`Client::from_env`] reads the service key from.
pub const SERVICE_KEY_VARIABLE: &str = "DEALKIT_SERVICE_KEY";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_IDLE_CONNECTIONS: usize = 64;
const MAX_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;

/// A client of one service, with one key and one pool of connections.
///
/// Cheap to clone, and made to be shared between tasks and threads. It works on any Tokio runtime.
///
/// ```
/// use dealkit::Client;
///
/// let client = Client::builder()
///     .base_url("https://deals.example.com")
///     .service_key("my-key")
///     .build()?;
/// # let _ = client;
/// # Ok::<(), dealkit::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    service: Arc<Service>,
}

impl Client {
    /// A builder with every default set; it lacks the base URL and the service key.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client with the base URL in `DEALKIT_BASE_URL` and the key in `DEALKIT_SERVICE_KEY`.
    ///
    /// # Errors
    /// Of kind `Config` when a variable is missing or does not hold what it should.
    pub fn from_env() -> Result<Self, Error> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| {
                Error::config(format!(
                    "the environment variable {name} is not set, or is not Unicode text"
                ))
            })
        };
        Self::builder()
            .base_url(variable(BASE_URL_VARIABLE)?)
            .service_key(variable(SERVICE_KEY_VARIABLE)?)
            .build()
    }

    /// Calls on agents.
    pub fn agents(&self) -> Agents {
        Agents::new(Arc::clone(&self.service))
    }

    /// Calls on deals.
    pub fn deals(&self) -> Deals {
        Deals::new(Arc::clone(&self.service))
    }

    /// A call of an undocumented operation, with this client's key, limits and errors. The segments follow `/v1` and are escaped as
    /// identifiers are; the first names what the others are of, and so holds no slash.
    ///
    /// ```no_run
    /// # async fn example(client: dealkit::Client, id: &str) -> Result<(), dealkit::Error> {
    /// use dealkit::Method;
    ///
    /// let body = serde_json::json!({"first_name": "Ada"});
    /// let response = client.request(Method::PATCH, ["agents", id]).json(&body).send().await?;
    /// let agent: dealkit::Agent = response.json()?;
    /// # Ok(()) }
    /// ```
    pub fn request<S: AsRef<str>>(
        &self,
        method: Method,
        segments: impl IntoIterator<Item = S>,
    ) -> Call<RawResponse> {
        // Any of the segments may be an identifier, so the template shows none.
        let mut template = wire::API_PREFIX.to_owned();
        let mut path = Ok(wire::API_PREFIX.to_owned());
        for (at, part) in segments.into_iter().enumerate() {
            template.push_str("/{}");
            if at == 0 && (part.as_ref() == "v1" || part.as_ref().contains('/')) {
                path = Err(Error::config(
                    "the first segment is v1 or holds a slash: pass the segments apart and without /v1, \
                     such as \"deals\" and then the id",
                ));
            }
            path = path.and_then(|path| Ok(format!("{path}/{}", segment(part.as_ref())?)));
        }
        Call::raw(
            Arc::clone(&self.service),
            Operation {
                method,
                template: template.into(),
            },
            path,
        )
    }

    /// The most time that a call may take, all attempts included; see [`ClientBuilder::timeout`].
    pub fn timeout(&self) -> Duration {
        self.service.total_timeout
    }

    /// How many times a request is retried after the first attempt; see [`RetryPolicy::max_retries`].
    pub fn max_retries(&self) -> u32 {
        self.service.retry.retries()
    }

    /// Whether this client uses the connections of the other one; see [`ClientBuilder::share_connections`].
    pub fn shares_connections(&self, with: &Client) -> bool {
        Arc::ptr_eq(&self.service.pools, &with.service.pools)
    }

    /// Whether this client and the other one are one to the service: the rate limit, the pauses that the service
    /// asks for, and the retry quota are theirs together; see [`ClientBuilder::share_connections`].
    pub fn shares_limits(&self, with: &Client) -> bool {
        Arc::ptr_eq(&self.service.traffic, &with.service.traffic)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.service.base_url.as_str())
            .finish_non_exhaustive()
    }
}

/// Sets up a [`Client`]. Only [`build`](Self::build) fails.
///
/// A clone of it makes another client, with other settings where they differ:
///
/// ```
/// use std::time::Duration;
///
/// use dealkit::Client;
///
/// let settings = Client::builder().base_url("https://deals.example.com").service_key("my-key");
/// let client = settings.clone().build()?;
/// let patient = settings.timeout(Duration::from_secs(600)).share_connections(&client).build()?;
/// assert_eq!(patient.timeout(), Duration::from_secs(600));
/// assert!(patient.shares_connections(&client));
/// # Ok::<(), dealkit::Error>(())
/// ```
///
/// `C` is what it builds: this client, or the [blocking one](crate::blocking::Client).
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder<C = Client> {
    base_url: Option<String>,
    service_key: Option<String>,
    connect_timeout: Duration,
    attempt_timeout: Duration,
    total_timeout: Duration,
    max_idle_connections: usize,
    max_response_bytes: u64,
    user_agent: Option<String>,
    headers: Vec<(String, String)>,
    proxy: Option<String>,
    http2_prior_knowledge: bool,
    allow_http: bool,
    retry: RetryPolicy,
    rate_limit: Option<f64>,
    #[cfg(feature = "rustls-no-provider")]
    tls: tls::Settings,
    share_with: Option<C>,
    propagate: Option<Propagate>,
}

impl<C> Default for ClientBuilder<C> {
    fn default() -> Self {
        Self {
            base_url: None,
            service_key: None,
            connect_timeout: CONNECT_TIMEOUT,
            attempt_timeout: ATTEMPT_TIMEOUT,
            total_timeout: TOTAL_TIMEOUT,
            max_idle_connections: MAX_IDLE_CONNECTIONS,
            max_response_bytes: MAX_RESPONSE_BYTES,
            user_agent: None,
            headers: Vec::new(),
            proxy: None,
            http2_prior_knowledge: false,
            allow_http: false,
            retry: RetryPolicy::new(),
            rate_limit: None,
            #[cfg(feature = "rustls-no-provider")]
            tls: tls::Settings::default(),
            share_with: None,
            propagate: None,
        }
    }
}

impl<C: Clone> ClientBuilder<C> {
    /// The service's address, without the `/v1` that dealkit adds: with or without a path, with or without a
    /// last slash.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// The key issued to the caller: 1 to 1,024 visible ASCII characters.
    pub fn service_key(mut self, key: impl Into<String>) -> Self {
        self.service_key = Some(key.into());
        self
    }

    /// The most time that a call may take, all attempts included. Default: 60 s.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.total_timeout = total;
        self
    }

    /// The most time that one attempt may take, connecting included. Default: 30 s.
    pub fn attempt_timeout(mut self, attempt: Duration) -> Self {
        self.attempt_timeout = attempt;
        self
    }

    /// The most time that making a connection may take, TLS included. Default: 5 s.
    pub fn connect_timeout(mut self, connect: Duration) -> Self {
        self.connect_timeout = connect;
        self
    }

    /// What is retried, how often, and after what wait. Default: [`RetryPolicy::new`].
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The most requests a second, over all calls of the client and all their attempts; `0.5` is one every two
    /// seconds. Default: no limit.
    ///
    /// Requests go out evenly spaced. Calls wait for their turn, first come, first served, within their time; when
    /// it would come too late, the call fails at once, with kind `Timeout` and outcome `NotSent`. The limit is one
    /// client's and its clones': another client, or another process, has its own.
    ///
    /// Without it a client still heeds a service that has had enough: after a 429, or a 503 with `Retry-After`, all
    /// its calls wait as long as the service asks, but no longer than a minute for what another call was told, and
    /// go on evenly spaced, at 0.7 of the rate before. They are back at that rate after 5 s, at 3.4 times that
    /// rate after 15 s, and without any limit a minute after the last refusal.
    ///
    /// ```
    /// use dealkit::Client;
    ///
    /// let client = Client::builder()
    ///     .base_url("https://deals.example.com")
    ///     .service_key("my-key")
    ///     .rate_limit(50.0)
    ///     .build()?;
    /// # let _ = client;
    /// # Ok::<(), dealkit::Error>(())
    /// ```
    pub fn rate_limit(mut self, per_second: f64) -> Self {
        self.rate_limit = Some(per_second);
        self
    }

    /// How many unused connections are kept for the next call. Default: 64.
    ///
    /// GET and HEAD use a connection again for up to 30 s. Every other request does only within 1 s of the
    /// request before it: on an older connection the service may hang up just as the request goes out, and it
    /// would be unknown whether it had acted.
    pub fn max_idle_connections(mut self, connections: usize) -> Self {
        self.max_idle_connections = connections;
        self
    }

    /// The largest body of a response that is read, in bytes. Default: 64 MiB. Of the body of an error at
    /// most 1 MiB is read, whatever this says, and a document holds at most
    /// [`MAX_VALUES`](crate::document::MAX_VALUES) values.
    pub fn max_response_bytes(mut self, bytes: u64) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// The `User-Agent` header. Default: `dealkit/` and the version.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = Some(user_agent.into());
        self
    }

    /// A header to send on every request. The service key and the headers that frame the message
    /// cannot be set.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A proxy to go through, such as `http://user:password@proxy.example.com:3128`, in place of the one that the
    /// environment names. It speaks HTTP; SOCKS is not supported. A service on a loopback address is always
    /// called directly.
    ///
    /// The environment is read when the client is built: `HTTPS_PROXY` and `HTTP_PROXY` by the base URL's scheme,
    /// else `ALL_PROXY`; in `NO_PROXY` stand hosts (with all below them), addresses, networks such as
    /// `10.0.0.0/8`, or `*`, with commas between them. Each may be in lower case.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Trusts these certificates, in PEM, beside those that the system trusts: for a service whose certificate
    /// an issuer of your own has signed. Called again, it adds to them.
    ///
    /// The system's certificates are those of the platform; on Linux those that `SSL_CERT_FILE` or
    /// `SSL_CERT_DIR` name, or else the distribution's. They are loaded once in a process. There is no way
    /// to trust just any certificate: whoever is between would read the service key.
    ///
    /// ```no_run
    /// # use dealkit::Client;
    /// let client = Client::builder()
    ///     .base_url("https://deals.example.com")
    ///     .service_key("my-key")
    ///     .root_certificates(std::fs::read("our-issuer.pem")?)
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "rustls-no-provider")]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.tls.add_roots(pem.as_ref());
        self
    }

    /// Trusts these certificates, in PEM, and none of those that the system trusts. Together with
    /// [`root_certificates`](Self::root_certificates) it trusts what either is given.
    #[cfg(feature = "rustls-no-provider")]
    pub fn only_root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.tls.add_roots(pem.as_ref());
        self.tls.leave_system_out();
        self
    }

    /// Shows this certificate to a service that asks for one (mutual TLS): in PEM, the certificate, those that
    /// lead to its issuer if need be, and the private key without a password.
    ///
    /// ```no_run
    /// # use dealkit::Client;
    /// let mut pem = std::fs::read("client.pem")?;
    /// pem.extend(std::fs::read("client.key")?);
    /// let client = Client::builder()
    ///     .base_url("https://deals.example.com")
    ///     .service_key("my-key")
    ///     .identity(pem)
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "rustls-no-provider")]
    pub fn identity(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.tls.set_identity(pem.as_ref());
        self
    }

    /// Speaks HTTP/2 from the first byte, for a service that does so without TLS. Over TLS the two
    /// sides agree on HTTP/2 by themselves.
    pub fn http2_prior_knowledge(mut self, http2: bool) -> Self {
        self.http2_prior_knowledge = http2;
        self
    }

    /// Allows plain `http` to a host that is not this machine. Everybody on the way can then read the
    /// service key.
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = allow;
        self
    }

    /// Lets each call carry the current trace on: `write` is run once for each call, within its span, and writes
    /// headers such as `traceparent`. Where a header of the call or of the client has one of these names, none
    /// of them is sent.
    ///
    /// With `tracing-opentelemetry` and `opentelemetry-http`, as the example `traces` shows:
    ///
    /// ```ignore
    /// let client = Client::builder().propagate(|headers| {
    ///     let context = tracing::Span::current().context();
    ///     opentelemetry::global::get_text_map_propagator(|propagator| {
    ///         propagator.inject_context(&context, &mut HeaderInjector(headers));
    ///     });
    /// });
    /// ```
    pub fn propagate(mut self, write: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> Self {
        self.propagate = Some(Arc::new(write));
        self
    }

    /// Shares the connections of `with` where this client would make them in the same way.
    ///
    /// The base URL, the key, headers, the user agent, retries, the total timeout and the limit of a response
    /// may differ. Where the connect timeout, the attempt timeout, the number of idle connections, HTTP/2
    /// without TLS, certificates or the proxy differ, or one client alone calls a loopback address, this client gets
    /// connections of its own.
    ///
    /// Where the base URL, the key and the rate limit are the same, the two are one client to the service: they
    /// share the rate limit, the pauses that the service asks for, and the retry quota.
    pub fn share_connections(mut self, with: &C) -> Self {
        self.share_with = Some(with.clone());
        self
    }

    /// The client that this one shares connections with, if there is one.
    pub(crate) fn shares_with(&self) -> Option<&C> {
        self.share_with.as_ref()
    }

    /// Checks the configuration and makes the async client, which every other one is made of.
    pub(crate) fn build_async(self, share_with: Option<&Client>) -> Result<Client, Error> {
        let base = self.checked_base_url()?;
        let key = self.checked_key()?;
        let headers = self.checked_headers(&key)?;
        let mut headers_with_body = headers.clone();
        let json = HeaderValue::from_static(wire::JSON);
        headers_with_body.insert(header::CONTENT_TYPE, json);
        for (name, timeout) in [
            ("timeout", self.total_timeout),
            ("attempt_timeout", self.attempt_timeout),
            ("connect_timeout", self.connect_timeout),
        ] {
            more_than_zero(name, timeout)?;
        }
        let settings = Settings {
            connect_timeout: self.connect_timeout,
            attempt_timeout: self.attempt_timeout,
            max_idle: self.max_idle_connections,
            http2_prior_knowledge: self.http2_prior_knowledge,
            route: self.route(&base)?,
            #[cfg(feature = "rustls-no-provider")]
            tls: self.tls,
        };
        let traffic = Traffic::new(self.rate_limit)?;
        let other = share_with.map(|client| &*client.service);
        let pools = Pools::shared_or_new(settings, other.map(|other| Arc::clone(&other.pools)))?;
        let is_same_caller = |other: &&Service| {
            other.base_url == base
                && other.headers.get(wire::SERVICE_KEY_HEADER) == Some(&key)
                && other.traffic.is_limited_like(&traffic)
        };
        let traffic = match other.filter(is_same_caller) {
            Some(other) => Arc::clone(&other.traffic),
            None => Arc::new(traffic),
        };
        Ok(Client {
            service: Arc::new(Service {
                pools,
                traffic,
                base_url: base,
                headers: Arc::new(headers),
                headers_with_body: Arc::new(headers_with_body),
                redactor: Redactor::new(&key),
                total_timeout: self.total_timeout,
                limits: Limits {
                    connect: self.connect_timeout,
                    attempt: self.attempt_timeout,
                    max_response_bytes: self.max_response_bytes,
                },
                retry: self.retry,
                propagate: self.propagate,
            }),
        })
    }

    fn checked_base_url(&self) -> Result<Url, Error> {
        let Some(text) = &self.base_url else {
            return Err(Error::config(format!(
                "base_url is missing: set it, or {BASE_URL_VARIABLE} with Client::from_env()"
            )));
        };
        let url = base_url::parse(text).map_err(Error::config)?;
        if url.scheme() == "http" && !is_loopback(&url) && !self.allow_http {
            return Err(Error::config(
                "base_url is plain http to another machine, where everybody on the way can read the service key: \
                 use https, or set allow_http if the network is yours",
            ));
        }
        if url.scheme() == "https" && cfg!(not(feature = "rustls-no-provider")) {
            return Err(Error::config(
                "base_url is https, and dealkit was built without its feature `rustls`",
            ));
        }
        Ok(url)
    }

    fn checked_key(&self) -> Result<HeaderValue, Error> {
        let Some(key) = &self.service_key else {
            return Err(Error::config(format!(
                "service_key is missing: set it, or {SERVICE_KEY_VARIABLE} with Client::from_env()"
            )));
        };
        let wrong = || {
            Error::config(format!(
                "service_key must be 1 to {} visible ASCII characters; is there a line end or a space in it?",
                wire::SERVICE_KEY_MAX
            ))
        };
        if !wire::is_service_key(key) {
            return Err(wrong());
        }
        let mut key = HeaderValue::from_str(key).map_err(|_| wrong())?;
        key.set_sensitive(true);
        Ok(key)
    }

    /// The headers that every request carries.
    fn checked_headers(&self, key: &HeaderValue) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(wire::JSON));
        let user_agent = self
            .user_agent
            .as_deref()
            .unwrap_or(concat!("dealkit/", env!("CARGO_PKG_VERSION")));
        let user_agent = HeaderValue::from_str(user_agent)
            .map_err(|_| Error::config("user_agent holds characters that no header may hold"))?;
        headers.insert(header::USER_AGENT, user_agent);
        for (name, value) in &self.headers {
            let (name, value) = extra_header(name, value)?;
            headers.insert(name, value);
        }
        headers.insert(wire::SERVICE_KEY_HEADER, key.clone());
        Ok(headers)
    }

    fn route(&self, base: &Url) -> Result<Route, Error> {
        let told = self.proxy.as_deref().map(Proxy::new).transpose()?;
        // The proxy would get the key of a service on this very machine.
        if is_loopback(base) {
            return Ok(Route::Loopback {
                tls: base.scheme() == "https",
            });
        }
        let proxy = match told {
            Some(proxy) => Some(proxy),
            None => Proxy::of_environment(base)?,
        };
        Ok(proxy.map_or(Route::Direct, Route::Proxy))
    }
}

impl ClientBuilder {
    /// Checks the configuration and makes the client.
    ///
    /// # Errors
    /// Of kind `Config`; the text says which setting is wrong and what it takes, and repeats neither the
    /// key nor the URL.
    pub fn build(self) -> Result<Client, Error> {
        let share_with = self.shares_with().cloned();
        self.build_async(share_with.as_ref())
    }
}

impl<C> fmt::Debug for ClientBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").finish_non_exhaustive()
    }
}

/// Whether the URL names this machine itself.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical().is_loopback(),
        None => false,
    }
}
