//! The client, its builder, and the validation of its settings.

use std::{error::Error as StdError, fmt, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use url::{Host, Url};

#[cfg(feature = "ledger")]
use crate::bulk::{create_once::IdempotencyKey, row::Created};
use crate::{
    calls::{
        agents::Agents,
        call::{Async, Call, CallFuture, read_raw},
        deals::Deals,
        options::CallOptions,
        response::RawResponse,
        service::{Propagate, Service, check_more_than_zero},
    },
    error::call::Error,
    json::unreadable::Unreadable,
    model::{Agent, CreateAgent, Deal},
    operations::Operations,
    specification::wire,
    transport::{
        base_url,
        call_metrics::CallMetrics,
        connect::{
            pools::{ConnectionSettings, Pools, Route, Versions},
            proxy::Proxy,
            tls::{IdentitySource, TlsSettings},
            transport::Transport,
        },
        environment,
        headers::parse_extra_header,
        key::{self, KeyProvider, KeySource, Keys},
        operation::Operation,
        path::escape_segment,
        rate::admission::SharedLimits,
        retry::attempts::RetryPolicy,
    },
    value::{
        message::{Message, Setting},
        opaque_debug,
    },
};

/// The environment variable from which [`Client::from_env`] reads the base URL.
pub const BASE_URL_VARIABLE: &str = "DEALKIT_BASE_URL";

/// The environment variable from which [`Client::from_env`] reads the service key.
pub const SERVICE_KEY_VARIABLE: &str = "DEALKIT_SERVICE_KEY";

/// The environment variable from which [`Client::from_env`] reads the path of the file with the service key.
pub const SERVICE_KEY_FILE_VARIABLE: &str = "DEALKIT_SERVICE_KEY_FILE";

/// A client of one service, with one key and one pool of connections.
///
/// A client is cheap to clone, and meant to be shared between tasks and threads. It works on any Tokio runtime.
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
    /// Returns a builder with the default settings. The base URL and the service key have no defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Creates a client with the base URL in `DEALKIT_BASE_URL`, and the key in `DEALKIT_SERVICE_KEY` or in the
    /// [file](ClientBuilder::service_key_file) that `DEALKIT_SERVICE_KEY_FILE` names. An empty variable counts as unset. For
    /// other settings, use [`ClientBuilder::from_env`].
    ///
    /// # Errors
    /// Of kind `Config` if a variable is missing or invalid, or if the variables for the key and for its file are both set.
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().from_env().build()
    }

    /// Returns the calls on agents.
    pub fn agents(&self) -> Agents {
        Agents {
            service: Arc::clone(&self.service),
            mode: Async,
        }
    }

    /// Returns the calls on deals.
    pub fn deals(&self) -> Deals {
        Deals {
            service: Arc::clone(&self.service),
            mode: Async,
        }
    }

    /// Prepares a call to an undocumented operation, with this client's key, limits and errors. The segments follow `/v1` and are
    /// escaped like identifiers. The first segment names the collection, so it must not contain a slash.
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
    #[doc(alias("custom", "raw"))]
    pub fn request<'s>(
        &self,
        method: Method,
        segments: impl AsRef<[&'s str]>,
    ) -> Call<RawResponse> {
        // Any segment may be an identifier, so the path template for messages shows no segment.
        let mut template = wire::API_PREFIX.to_owned();
        let mut path = Ok(wire::API_PREFIX.to_owned());
        for (index, segment) in segments.as_ref().iter().enumerate() {
            template.push_str("/{}");
            if index == 0 && (*segment == "v1" || segment.contains('/')) {
                path = Err(Error::config(
                    "the first segment is v1 or contains a slash: pass the segments separately and without /v1, such \
                     as \"deals\" and then the id",
                ));
            }
            path = path.and_then(|path| Ok(format!("{path}/{}", escape_segment(segment)?)));
        }
        let operation = Operation {
            method,
            template: template.into(),
        };
        Call::new(Arc::clone(&self.service), operation, path, read_raw)
    }

    /// Returns the maximum duration of a call, including all attempts; see [`ClientBuilder::timeout`].
    pub fn timeout(&self) -> Duration {
        self.service.total_timeout
    }

    /// Returns the number of retries after the first attempt; see [`RetryPolicy::max_retries`].
    pub fn max_retries(&self) -> u32 {
        self.service.retry.retry_limit()
    }

    /// Returns the origin of the base URL, such as `https://deals.example.com`. For bindings, which give each service its own
    /// runtime.
    #[doc(hidden)]
    pub fn origin(&self) -> String {
        self.service.base_url.origin().ascii_serialization()
    }

    /// Returns true if this client and the client `with` use the same connections; see [`ClientBuilder::share_connections`].
    pub fn shares_connections(&self, with: &Client) -> bool {
        Arc::ptr_eq(&self.service.pools, &with.service.pools)
    }

    /// Returns true if this client and the client `with` share the rate limit, the pauses that the service asks for, and the
    /// retry quota; see [`ClientBuilder::share_connections`].
    pub fn shares_limits(&self, with: &Client) -> bool {
        Arc::ptr_eq(&self.service.limits, &with.service.limits)
    }
}

impl Operations for Client {
    fn create_agent_with(&self, request: CreateAgent, options: CallOptions) -> CallFuture<Agent> {
        let call = self.agents().create(request).options(options);
        call.into_future()
    }

    #[cfg(feature = "ledger")]
    fn create_agent_once_with(
        &self,
        request: CreateAgent,
        key: IdempotencyKey,
        options: CallOptions,
    ) -> CallFuture<Created> {
        let call = self.agents().create(request).options(options);
        call.once_with(key).into_future()
    }

    fn retrieve_deal_with(&self, id: &str, options: CallOptions) -> CallFuture<Deal> {
        self.deals().retrieve(id).options(options).into_future()
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
/// Clone a builder to make several clients with different settings:
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
/// `C` is the type of the client to build: this async client, or the [blocking client](crate::blocking::Client).
#[derive(Clone)]
#[must_use]
#[doc(alias("config", "settings"))]
pub struct ClientBuilder<C = Client> {
    base_url: Option<String>,
    key: Option<KeySource>,
    /// True if the environment provides the base URL and the key, if they are not set.
    uses_environment: bool,
    total_timeout: Duration,
    max_response_bytes: u64,
    user_agent: Option<String>,
    headers: Vec<(String, String)>,
    proxy: Option<String>,
    allow_http: bool,
    retry: RetryPolicy,
    unreadable: Unreadable,
    rate_limit: Option<f64>,
    /// The settings of connections. Their route is set when the client is built.
    connections: ConnectionSettings,
    transport: Option<Transport>,
    pub(crate) share_with: Option<C>,
    propagate: Option<Propagate>,
}

impl<C> Default for ClientBuilder<C> {
    fn default() -> Self {
        Self {
            base_url: None,
            key: None,
            uses_environment: false,
            total_timeout: Duration::from_secs(60),
            max_response_bytes: 16 * 1024 * 1024,
            user_agent: None,
            headers: Vec::new(),
            proxy: None,
            allow_http: false,
            retry: RetryPolicy::new(),
            unreadable: Unreadable::default(),
            rate_limit: None,
            connections: ConnectionSettings {
                connect_timeout: Duration::from_secs(5),
                attempt_timeout: None,
                max_idle: usize::MAX,
                versions: Versions::Any,
                route: Route::Direct,
                tls: TlsSettings::default(),
            },
            transport: None,
            share_with: None,
            propagate: None,
        }
    }
}

impl<C: Clone> ClientBuilder<C> {
    /// Takes the base URL and the key from the environment, as [`Client::from_env`] does, unless this builder sets them. The
    /// variables are read when the client is built, and only if they are needed.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use dealkit::Client;
    ///
    /// let client = Client::builder().from_env().timeout(Duration::from_secs(10)).build()?;
    /// # let _ = client;
    /// # Ok::<(), dealkit::Error>(())
    /// ```
    #[doc(alias = "environment")]
    pub fn from_env(mut self) -> Self {
        self.uses_environment = true;
        self
    }

    /// Sets the service's URL, without the `/v1` that dealkit adds. The URL may have a path, and may end with a slash.
    #[doc(alias("endpoint", "host", "url"))]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets your key: 1 to 1,024 visible ASCII characters. A client has one source of its key: this setting,
    /// [`service_key_file`](Self::service_key_file) and [`service_key_provider`](Self::service_key_provider) replace each
    /// other.
    #[doc(alias("token", "api key", "api_key", "authentication", "credentials"))]
    pub fn service_key(self, key: impl Into<String>) -> Self {
        self.key_source(KeySource::Text(key.into()))
    }

    /// Sets a file with the key, such as a mounted secret. White space around the key is ignored.
    ///
    /// The file is read when the client is built. It is read again by a call that starts more than a second after the last
    /// reading, and when the service responds with a 401. So a new key is used after at most a second. A call that was rejected
    /// with the old key is sent again with the new key: see [`RetryPolicy`]. Replace the file by renaming another file over it,
    /// as Kubernetes does with mounted secrets. While the file is unreadable or empty, calls use the last key until the service
    /// rejects it.
    #[doc(alias("token", "secret"))]
    pub fn service_key_file(self, path: impl Into<PathBuf>) -> Self {
        self.key_source(KeySource::File(path.into()))
    }

    /// Sets a provider of the key, such as a closure that gets the key from a vault; [`KeyProvider`] has an example.
    ///
    /// The provider is called when a call needs a key. The key is cached until it [expires](crate::ServiceKey::expires_in), or
    /// until the service responds with a 401: if the provider then returns a new key, the call is sent again with that key,
    /// even a create (see [`RetryPolicy`]). Calls that wait for a key at the same time share one request to the provider. If
    /// the provider fails or does not return within the call's timeout, the call fails with kind
    /// [`ServiceKey`](crate::ErrorKind::ServiceKey) and outcome `NotSent`.
    #[doc(alias("token", "vault", "rotation"))]
    pub fn service_key_provider(self, provider: impl KeyProvider) -> Self {
        self.key_source(KeySource::from_provider(provider))
    }

    /// Sets the source of the key. For bindings, whose clients share a provider.
    #[doc(hidden)]
    pub fn key_source(mut self, source: KeySource) -> Self {
        self.key = Some(source);
        self
    }

    /// Sets the maximum duration of a call, including all attempts. Default: 60 s.
    #[doc(alias("deadline"))]
    pub fn timeout(mut self, total: Duration) -> Self {
        self.total_timeout = total;
        self
    }

    /// Sets the maximum duration of one attempt, including connecting. Default: 30 s for an attempt that is retried on a timeout. By
    /// default, any other attempt, such as the attempt of a create, may take as long as the call: a shorter limit would only turn a
    /// late response into an unknown outcome.
    pub fn attempt_timeout(mut self, attempt: Duration) -> Self {
        self.connections.attempt_timeout = Some(attempt);
        self
    }

    /// Sets the maximum time for making a connection, including TLS. Default: 5 s.
    pub fn connect_timeout(mut self, connect: Duration) -> Self {
        self.connections.connect_timeout = connect;
        self
    }

    /// Sets the retry policy. Default: [`RetryPolicy::new`].
    #[doc(alias("retries", "backoff"))]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets the maximum number of requests per second, over all of the client's calls and their attempts; `0.5` is one request
    /// every two seconds. Default: no limit.
    ///
    /// Requests are evenly spaced and sent in order of arrival. If the limit delays a call beyond its timeout, the call fails
    /// immediately, with kind `Throttled` and outcome `NotSent`. The limit applies to a client and its clones. Other clients
    /// and processes have limits of their own.
    ///
    /// In addition, a client learns what the service accepts. After a 429, or a 503 with `Retry-After`, all its
    /// calls wait as long as the service asks, but at most a minute if the response was to another call. They then
    /// continue, evenly spaced, at 70 % of the rate at which the service accepted calls. The rate grows until the next rejection, with
    /// the algorithm of the adaptive retry mode in AWS SDKs. If responses report how much is left of a quota for up to a
    /// minute (`RateLimit` and `RateLimit-Policy`, as in draft-ietf-httpapi-ratelimit-headers-11), the client slows
    /// down before it is rejected. The learned rate is never less than one request per second.
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
    #[doc(alias("throttle", "quota"))]
    pub fn rate_limit(mut self, per_second: f64) -> Self {
        self.rate_limit = Some(per_second);
        self
    }

    /// Sets the maximum number of idle connections that the client keeps for later calls. With 0, no connection is reused. By
    /// default there is no maximum: the client keeps as many as were in use at the same time in the last seconds.
    ///
    /// GET and HEAD reuse a connection for up to 30 s, all other requests only within 1 s of the previous request: the service may
    /// close an older connection just as the request is sent, and then it is unknown whether the service acted.
    pub fn max_idle_connections(mut self, connections: usize) -> Self {
        self.connections.max_idle = connections;
        self
    }

    /// Sets the maximum size of a response body, in bytes. Default: 16 MiB. At most 1 MiB of an error body is read, and a document has at
    /// most a million values.
    pub fn max_response_bytes(mut self, bytes: u64) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets the handling of an unreadable optional field of a response. By default, such a field is an error of the call. With
    /// [`Unreadable::Skip`], the field is skipped, and a log event for each response names its skipped fields.
    ///
    /// ```
    /// use dealkit::{Client, Unreadable};
    ///
    /// let client = Client::builder()
    ///     .base_url("https://deals.example.com")
    ///     .service_key("my-key")
    ///     .unreadable(Unreadable::Skip)
    ///     .build()?;
    /// # let _ = client;
    /// # Ok::<(), dealkit::Error>(())
    /// ```
    #[doc(alias("lenient"))]
    pub fn unreadable(mut self, unreadable: Unreadable) -> Self {
        self.unreadable = unreadable;
        self
    }

    /// Sets the `User-Agent` header. Default: `dealkit/` and the version.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = Some(user_agent.into());
        self
    }

    /// Adds a header to every request. The service key and the headers that frame the message, such as `Content-Length`, cannot
    /// be set.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let header = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.headers.push(header);
        self
    }

    /// Sets the proxy, such as `http://user:password@proxy.example.com:3128`, instead of the proxy in the environment
    /// variables. It must be an HTTP proxy; SOCKS is not supported. A service on a loopback address is always called directly.
    ///
    /// The environment variables are read when the client is built: `HTTPS_PROXY` or `HTTP_PROXY`, depending on the base URL's
    /// scheme, otherwise `ALL_PROXY`. `NO_PROXY` is a list of hosts (each including all its subdomains), addresses, networks
    /// such as `10.0.0.0/8`, or `*`, separated by commas or spaces; a host may have a port. Each variable name may be in lower
    /// case, and an empty variable counts as unset. In a CGI program, `HTTP_PROXY` is ignored, because a request can set it.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Trusts these CA certificates (PEM) in addition to the system's, for a service whose certificate comes from your own CA. Further
    /// calls add certificates.
    ///
    /// The system's certificates come from the platform; on Linux from `SSL_CERT_FILE` or `SSL_CERT_DIR`, or else from the
    /// distribution. They are loaded once per process, when a connection first needs them. Verification cannot be turned off: a man in
    /// the middle could read the service key.
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
    #[doc(alias("tls", "ssl", "ca"))]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.connections.tls.add_roots(pem.as_ref());
        self
    }

    /// Trusts only these CA certificates (PEM), and not the system's. If you also call
    /// [`root_certificates`](Self::root_certificates), the certificates from both calls are trusted.
    pub fn only_root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.connections.tls.add_roots(pem.as_ref());
        self.connections.tls.excludes_system = true;
        self
    }

    /// Presents this certificate to a service that requires a client certificate (mutual TLS). The PEM contains the
    /// certificate, any intermediate certificates, and the unencrypted private key.
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
    #[doc(alias("mtls", "client certificate"))]
    pub fn identity(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.connections.tls.identity = Some(IdentitySource::Pem(pem.as_ref().to_owned()));
        self
    }

    /// Presents the certificate in a file, with the private key in another file or in the same file; both in the form that
    /// [`identity`](Self::identity) takes. The files are read when the client is built, and again when a connection is made
    /// more than a second later, so every new connection uses a replaced certificate. While the files are unreadable or do not
    /// match, the previous certificate is used.
    ///
    /// Each new connection makes a full handshake, so that the service sees the certificate.
    pub fn identity_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let files = IdentitySource::Files(certificate.into(), key.into());
        self.connections.tls.identity = Some(files);
        self
    }

    /// Speaks HTTP/2 without negotiation, for a service that speaks HTTP/2 without TLS. Over TLS, client and service negotiate
    /// HTTP/2 anyway.
    pub fn http2_prior_knowledge(self, http2: bool) -> Self {
        self.set_versions(Versions::Http2, http2)
    }

    /// Speaks HTTP/1.1 only. By default, the client speaks HTTP/2 over TLS if the service supports HTTP/2. This setting and
    /// [`http2_prior_knowledge`](Self::http2_prior_knowledge) replace each other.
    pub fn http1_only(self, http1: bool) -> Self {
        self.set_versions(Versions::Http1, http1)
    }

    fn set_versions(mut self, only: Versions, is_set: bool) -> Self {
        let versions = &mut self.connections.versions;
        if is_set {
            *versions = only;
        } else if *versions == only {
            *versions = Versions::Any;
        }
        self
    }

    /// Allows plain HTTP to other machines. Anyone along the way can then read the service key.
    pub fn allow_http(mut self, allow: bool) -> Self {
        self.allow_http = allow;
        self
    }

    /// Propagates the current trace with each call: `write` runs once per call, within its span, and writes headers such as
    /// `traceparent`. If the call or the client already sets a header with one of these names, none of them is sent. A
    /// propagator of baggage would send the baggage to the service, too: use `TraceContextPropagator` alone.
    ///
    /// With `tracing-opentelemetry` and `opentelemetry-http`:
    ///
    /// ```ignore
    /// let client = Client::builder().propagate(|headers| {
    ///     let context = tracing::Span::current().context();
    ///     opentelemetry::global::get_text_map_propagator(|propagator| {
    ///         propagator.inject_context(&context, &mut HeaderInjector(headers));
    ///     });
    /// });
    /// ```
    #[doc(alias("traceparent", "opentelemetry", "tracing"))]
    pub fn propagate(mut self, write: impl Fn(&mut HeaderMap) + Send + Sync + 'static) -> Self {
        self.propagate = Some(Arc::new(write));
        self
    }

    /// Sends every request through `service`, a [tower](https://docs.rs/tower-service) service, and not over connections of
    /// dealkit's own: through the HTTP client that a program has, for example, or into a service without a socket.
    ///
    /// There is one rule: **the transport sends a request at most once, and only to the host in its URI.** It does not retry,
    /// and it follows no redirect: only dealkit decides whether a create is sent again, and the key is for one host only.
    ///
    /// Timeouts, retries, limits, the maximum size of a response, and errors do not change. The outcome of a failed request depends on
    /// the step that failed:
    ///
    /// | the transport | the outcome | is a create retried? |
    /// |---|---|---|
    /// | is not ready in time, or fails before it is ready | `NotSent` | yes |
    /// | fails with [`TransportNotSent`](crate::TransportNotSent), or with an error that it caused | `NotSent` | yes |
    /// | fails in any other way once it was called, or does not respond in time | `Unknown` | no |
    ///
    /// Settings of connections (the connect timeout, the number of idle connections, HTTP/2, the proxy, certificates) have no effect.
    /// The transport writes the headers for the host and the length of the body, as every HTTP client does.
    ///
    /// This transport makes no connection, and returns the same body each time:
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use bytes::Bytes;
    /// use dealkit::Client;
    /// use http::{Request, Response};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dealkit::Error> {
    /// let responder = tower::service_fn(async |request: Request<Bytes>| {
    ///     assert_eq!(request.uri(), "https://deals.example.com/v1/deals/d_1");
    ///     Ok::<_, Infallible>(Response::new(r#"{"id": "d_1"}"#.to_owned()))
    /// });
    /// let client = Client::builder().base_url("https://deals.example.com").service_key("my-key").transport(responder).build()?;
    /// assert_eq!(client.deals().retrieve("d_1").await?.id, "d_1");
    /// # Ok(()) }
    /// ```
    // The transport is a tower service rather than a trait of dealkit: HTTP clients, middleware and servers are tower services
    // already, and the sandbox is one without depending on this client. While `poll_ready` waits, nothing has been sent.
    // Version 0.3 has been the only version of tower-service since 2019. For another version, a second method could be added.
    #[doc(alias("mock", "tower", "middleware"))]
    pub fn transport<S, B>(mut self, service: S) -> Self
    where
        S: tower_service::Service<http::Request<Bytes>, Response = http::Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Error: Into<Box<dyn StdError + Send + Sync>>,
        S::Future: Send,
        B: http_body::Body + Send + Sync + 'static,
        B::Data: Into<Bytes>,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.transport = Some(Transport::new(service));
        self
    }

    /// Shares the connections of another client if the settings of connections are the same.
    ///
    /// The base URL, the key, headers, the user agent, retries, the total timeout and the response size limit may
    /// differ. If the connect timeout, the attempt timeout, the number of idle connections, the versions of HTTP,
    /// certificates, the proxy or the transport differ, this client gets connections of its own.
    ///
    /// If the base URL, the key (or its file, or its provider) and the rate limit are the same, the two clients share the rate limit,
    /// the pauses that the service asks for, and the retry quota.
    #[doc(alias("pool"))]
    pub fn share_connections(mut self, with: &C) -> Self {
        self.share_with = Some(with.clone());
        self
    }

    /// Checks the settings and creates the async client, which the blocking client wraps.
    pub(crate) fn build_async(mut self, share_with: Option<&Client>) -> Result<Client, Error> {
        if self.uses_environment {
            self.fill_from_environment()?;
        }
        let service_url = self.parse_base_url()?;
        let other_service = share_with.map(|client| &*client.service);
        let keys = self.share_or_create_keys(other_service)?;
        let headers = self.build_headers()?;
        let settings = ConnectionSettings {
            route: self.choose_route(&service_url)?,
            ..self.connections
        };
        for (setting, timeout) in [
            (Setting::Timeout, Some(self.total_timeout)),
            (Setting::AttemptTimeout, settings.attempt_timeout),
            (Setting::ConnectTimeout, Some(settings.connect_timeout)),
        ] {
            timeout.map_or(Ok(()), |timeout| check_more_than_zero(setting, timeout))?;
        }
        let limits = SharedLimits::new(self.rate_limit).map_err(Error::config)?;
        let pools = Pools::share_or_create(
            settings,
            other_service.map(|other_service| Arc::clone(&other_service.pools)),
        )
        .map_err(Error::config)?;
        let is_equivalent = |other_service: &&Service| {
            other_service.base_url == service_url
                && Arc::ptr_eq(&other_service.keys, &keys)
                && other_service.limits.has_same_rate_limit(&limits)
        };
        let limits = match other_service.filter(is_equivalent) {
            Some(other_service) => Arc::clone(&other_service.limits),
            None => Arc::new(limits),
        };
        #[cfg(feature = "ledger")]
        let ledgers = other_service.map_or_else(Arc::default, |other_service| {
            Arc::clone(&other_service.ledgers)
        });
        Ok(Client {
            service: Arc::new(Service {
                pools,
                limits,
                metrics: CallMetrics::new(&service_url),
                base_url: service_url,
                headers: Arc::new(headers),
                keys,
                total_timeout: self.total_timeout,
                max_response_bytes: self.max_response_bytes,
                retry: self.retry,
                unreadable: self.unreadable,
                propagate: self.propagate,
                #[cfg(feature = "ledger")]
                ledgers,
            }),
        })
    }

    /// Sets the base URL and the key from the environment, unless they are set or the environment lacks them.
    fn fill_from_environment(&mut self) -> Result<(), Error> {
        let variable = |name: &str| environment::read_variable(name).map_err(Error::config);
        if self.base_url.is_none() {
            self.base_url = variable(BASE_URL_VARIABLE)?;
        }
        if self.key.is_some() {
            return Ok(());
        }
        let (key, file) = (SERVICE_KEY_VARIABLE, SERVICE_KEY_FILE_VARIABLE);
        self.key = match (variable(key)?, variable(file)?) {
            (Some(key), None) => Some(KeySource::Text(key)),
            (None, Some(file)) => Some(KeySource::File(file.into())),
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err(Error::config(format!(
                    "both of the environment variables {key} and {file} are set: set only one of them"
                )));
            }
        };
        Ok(())
    }

    fn parse_base_url(&self) -> Result<Url, Error> {
        let Some(text) = &self.base_url else {
            return Err(missing_setting_error(Setting::BaseUrl, BASE_URL_VARIABLE));
        };
        let url = base_url::parse(text)
            .map_err(|problem| Error::invalid_setting(Setting::BaseUrl, problem))?;
        if url.scheme() == "http" && !is_loopback(&url) && !self.allow_http {
            return Err(Error::config(
                Message::from(
                    "the base URL is plain http to another machine, so anyone along the way can read the service key: use \
                     https, or allow plain http if the network is yours",
                )
                .see(Setting::AllowHttp),
            ));
        }
        Ok(url)
    }

    /// Returns the keys of the other client if they come from the same source, otherwise new keys.
    fn share_or_create_keys(&self, other_service: Option<&Service>) -> Result<Arc<Keys>, Error> {
        let Some(source) = &self.key else {
            return Err(missing_setting_error(
                Setting::ServiceKey,
                &format!("{SERVICE_KEY_VARIABLE} or {SERVICE_KEY_FILE_VARIABLE}"),
            ));
        };
        match other_service.filter(|other_service| other_service.keys.have_source(source)) {
            Some(other_service) => Ok(Arc::clone(&other_service.keys)),
            None => Keys::new(source.clone()).map_err(Error::config),
        }
    }

    fn build_headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(wire::JSON));
        let user_agent = self
            .user_agent
            .as_deref()
            .unwrap_or(concat!("dealkit/", env!("CARGO_PKG_VERSION")));
        let user_agent = HeaderValue::from_str(user_agent).map_err(|_| {
            Error::invalid_setting(
                Setting::UserAgent,
                "contains characters that are not allowed in a header",
            )
        })?;
        headers.insert(header::USER_AGENT, user_agent);
        for (name, value) in &self.headers {
            let (name, value) = parse_extra_header(name, value).map_err(Error::config)?;
            headers.insert(name, value);
        }
        // Each attempt inserts its key here.
        headers.insert(&key::HEADER, HeaderValue::from_static(""));
        Ok(headers)
    }

    fn choose_route(&self, service_url: &Url) -> Result<Route, Error> {
        if let Some(transport) = &self.transport {
            return Ok(Route::Transport(transport.clone()));
        }
        let configured_proxy = self
            .proxy
            .as_deref()
            .map(Proxy::parse)
            .transpose()
            .map_err(Error::config)?;
        // A service on this machine is called directly, because a proxy would receive its key.
        if is_loopback(service_url) {
            return Ok(Route::Direct);
        }
        let proxy = match configured_proxy {
            Some(proxy) => Some(proxy),
            None => Proxy::from_environment(service_url).map_err(Error::config)?,
        };
        Ok(proxy.map_or(Route::Direct, Route::Proxy))
    }
}

impl ClientBuilder {
    /// Checks the settings and creates the client.
    ///
    /// # Errors
    /// Of kind `Config`. The message names the invalid setting and the values that the setting accepts. It contains neither the
    /// service key nor the base URL.
    pub fn build(self) -> Result<Client, Error> {
        let share_with = self.share_with.clone();
        self.build_async(share_with.as_ref())
    }
}

opaque_debug!(ClientBuilder<C>);

fn missing_setting_error(setting: Setting, variables: &str) -> Error {
    let advice = format!(
        "is missing: set it, or set the environment variable {variables} and use from_env()"
    );
    Error::invalid_setting(setting, advice)
}

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
