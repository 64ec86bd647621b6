//! A world on a server that runs elsewhere, with the methods of a sandbox that this process has started.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use dealkit::{Json, Problem, wire};
use http::{Method, Request, StatusCode, Uri, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use ureq::{
    Agent,
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use crate::{
    contract::auth::{InvalidServiceKey, ServiceKey},
    sandbox::{
        Fault, InvalidFault, NotSeen, PendingFault, Reading, RecordedRequest, Wanted,
        access::TOKEN_HEADER,
    },
    state::{
        agent::CreatedAgent,
        seed::{SeedDeal, SeedError},
    },
};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of a response is read: more than a page of requests can be.
const MAX_RESPONSE: u64 = 1 << 30;

/// How long one call waits for requests.
const WAIT: Duration = Duration::from_secs(10);

/// A world of its own on a server that was started with `--worlds`; see [`Sandbox::attach`](crate::Sandbox::attach). It ends
/// when this is dropped.
///
/// Each method calls the server, and blocks the thread until it has responded.
#[derive(Debug)]
pub struct AttachedSandbox {
    url: String,
    agent: Agent,
    token: Option<ServiceKey>,
    /// None until the world has begun.
    key: Option<ServiceKey>,
}

/// Configures an [`AttachedSandbox`]; see [`Sandbox::attach`](crate::Sandbox::attach).
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until `start` is called"]
pub struct Attach {
    url: String,
    ca_pem: Option<String>,
    admin_token: Option<Result<ServiceKey, InvalidServiceKey>>,
    service_key: Option<Result<ServiceKey, InvalidServiceKey>>,
    readings: Vec<Reading>,
    strict: Option<bool>,
}

impl Attach {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// The certificates to trust, in PEM, for a server that speaks TLS: what it writes to `--tls-ca-out`.
    pub fn ca_pem(mut self, pem: impl Into<String>) -> Self {
        self.ca_pem = Some(pem.into());
        self
    }

    /// The token that the server's interface asks for: that of `--admin-token` or, without one, a service key that was
    /// chosen for the server.
    pub fn admin_token(mut self, token: impl Into<String>) -> Self {
        self.admin_token = Some(ServiceKey::new(token));
        self
    }

    /// The key of the world, instead of one that the server makes up. What is in its world already is kept.
    pub fn service_key(mut self, key: impl Into<String>) -> Self {
        self.service_key = Some(ServiceKey::new(key));
        self
    }

    /// How the world reads the specification, instead of how the server does. Of several readings, each changes what the one
    /// before has written.
    pub fn reading(mut self, reading: Reading) -> Self {
        self.readings.push(reading);
        self
    }

    /// Whether undocumented fields are refused in the world, instead of what the server does.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = Some(strict);
        self
    }

    /// Begins the world.
    ///
    /// # Errors
    /// When the server cannot be reached, does not let the caller in, or has no such world or no room for another one.
    pub fn start(self) -> Result<AttachedSandbox, AttachError> {
        let mut sandbox = AttachedSandbox::new(&self.url, self.ca_pem)?;
        sandbox.token = self.admin_token.transpose()?;
        sandbox.key = Some(match self.service_key {
            Some(key) => key?,
            None => {
                let begun: Value = sandbox.read(&sandbox.call(Method::POST, "world", "")?)?;
                let key = begun.get("service_key").and_then(Value::as_str);
                ServiceKey::new(key.unwrap_or_default())?
            }
        });
        let names: Vec<_> = self.readings.iter().map(|reading| reading.name()).collect();
        let reading = (!names.is_empty()).then(|| names.join(","));
        let settings = json!({"reading": reading, "strict": self.strict});
        sandbox.call(Method::PUT, "world", settings.to_string())?;
        Ok(sandbox)
    }
}

/// Why a world could not be attached to, or a call of its server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The URL is not one of a sandbox.
    #[error(
        "the URL of a sandbox is http:// or https:// with a host and perhaps a port, such as http://127.0.0.1:8080"
    )]
    Url,
    /// The key or the token is not valid.
    #[error(transparent)]
    ServiceKey(#[from] InvalidServiceKey),
    /// The fault is not valid.
    #[error(transparent)]
    Fault(#[from] InvalidFault),
    /// Fewer requests came than were waited for.
    #[error(transparent)]
    NotSeen(#[from] NotSeen),
    /// The deal is not valid.
    #[error(transparent)]
    Deal(#[from] SeedError),
    /// The server did not respond, or not as a sandbox of this version does.
    #[error("the sandbox at {url} cannot be reached: {source}")]
    Unreachable {
        /// The server.
        url: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server refused the call.
    #[error("the sandbox at {url} responded {status}: {detail}")]
    Refused {
        /// The server.
        url: String,
        /// The status of its response.
        status: StatusCode,
        /// What was wrong, in its words.
        detail: String,
    },
}

impl AttachedSandbox {
    /// The base URL for a client, such as `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The key of the world, which requests must carry.
    pub fn service_key(&self) -> &str {
        self.key.as_ref().map_or("", ServiceKey::reveal)
    }

    /// See [`Service::agents`](crate::Service::agents).
    ///
    /// # Errors
    /// When the call fails.
    pub fn agents(&self) -> Result<Vec<CreatedAgent>, AttachError> {
        self.list("agents")
    }

    /// See [`Service::requests`](crate::Service::requests). Where a body is not UTF-8, it has replacement characters.
    ///
    /// # Errors
    /// When the call fails.
    pub fn requests(&self) -> Result<Vec<RecordedRequest>, AttachError> {
        self.list("requests")
    }

    /// See [`Service::wait_for`](crate::Service::wait_for).
    ///
    /// # Errors
    /// When there are fewer after that time, or the call fails.
    pub fn wait_for(
        &self,
        wanted: &Wanted,
        within: Duration,
    ) -> Result<Vec<RecordedRequest>, AttachError> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let path = format!("requests?limit=1&{}", wanted.query(left.min(WAIT)));
            self.call(Method::GET, &path, "")?;
            let found = wanted.find(self.requests()?);
            if found.is_ok() || left <= WAIT {
                return Ok(found?);
            }
        }
    }

    /// See [`Service::clear_requests`](crate::Service::clear_requests).
    ///
    /// # Errors
    /// When the call fails.
    pub fn clear_requests(&self) -> Result<(), AttachError> {
        self.call(Method::DELETE, "requests", "").map(drop)
    }

    /// See [`Service::fail_next`](crate::Service::fail_next).
    ///
    /// # Errors
    /// When the fault is invalid, or the call fails.
    pub fn fail_next(&self, fault: Fault) -> Result<(), AttachError> {
        fault.check()?;
        let fault = json!(fault).to_string();
        self.call(Method::POST, "faults", fault).map(drop)
    }

    /// See [`Service::faults`](crate::Service::faults).
    ///
    /// # Errors
    /// When the call fails.
    pub fn faults(&self) -> Result<Vec<PendingFault>, AttachError> {
        let listed = self.list("faults")?.into_iter();
        let read = |mut fields: BTreeMap<String, Json>| {
            let mut number = |name| fields.remove(name)?.as_str().parse().ok();
            Some(PendingFault {
                id: number("id")?,
                matched: number("matched")?,
                played: number("played")?,
                fault: Fault::from_json(json!(fields).to_string()).ok()?,
            })
        };
        let read = listed.map(read).collect::<Option<_>>();
        read.ok_or_else(|| self.unexpected())
    }

    /// See [`Service::clear_faults`](crate::Service::clear_faults).
    ///
    /// # Errors
    /// When the call fails.
    pub fn clear_faults(&self) -> Result<(), AttachError> {
        self.call(Method::DELETE, "faults", "").map(drop)
    }

    /// See [`Service::insert_deal`](crate::Service::insert_deal).
    ///
    /// # Errors
    /// When the deal is not one, or the call fails.
    pub fn insert_deal(&self, deal: impl Into<SeedDeal>) -> Result<(), AttachError> {
        let (id, text) = deal.into().check("deal")?;
        let path = format!("deals/{}", utf8_percent_encode(&id, NON_ALPHANUMERIC));
        self.call(Method::PUT, &path, text).map(drop)
    }

    /// See [`Service::reset`](crate::Service::reset).
    ///
    /// # Errors
    /// When the call fails.
    pub fn reset(&self) -> Result<(), AttachError> {
        self.call(Method::POST, "reset", "").map(drop)
    }

    fn new(url: &str, ca_pem: Option<String>) -> Result<Self, AttachError> {
        let uri: Uri = url.parse().map_err(|_| AttachError::Url)?;
        let scheme = uri
            .scheme_str()
            .filter(|it| matches!(*it, "http" | "https"));
        let authority = uri.authority().map(|authority| authority.as_str());
        let authority = authority.filter(|authority| !authority.contains('@'));
        let (Some(scheme), Some(authority), "/", None) =
            (scheme, authority, uri.path(), uri.query())
        else {
            return Err(AttachError::Url);
        };
        // Named, because a program can link more than one, and none of them is then the default.
        let provider = Arc::new(ring::default_provider());
        let roots = match ca_pem {
            None => RootCerts::PlatformVerifier,
            Some(pem) => {
                let found = parse_pem(pem.as_bytes()).filter_map(|item| match item {
                    Ok(PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                });
                let found: Vec<_> = found.collect();
                if found.is_empty() {
                    return Err(AttachError::Unreachable {
                        url: format!("{scheme}://{authority}"),
                        source: "the certificate to trust must be PEM".into(),
                    });
                }
                RootCerts::from(found)
            }
        };
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(roots);
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            // A connection that is kept would be shared with a process that was forked.
            .max_idle_connections(0)
            .build();
        Ok(Self {
            url: format!("{scheme}://{authority}"),
            agent: agent.into(),
            token: None,
            key: None,
        })
    }

    /// The body of the response to a call, which is about this world if it has begun.
    fn call(
        &self,
        method: Method,
        path: &str,
        body: impl AsRef<[u8]>,
    ) -> Result<Vec<u8>, AttachError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/__sandbox/{path}", self.url))
            .header(header::CONTENT_TYPE, wire::JSON);
        let key = self.key.as_ref().map(|key| (wire::SERVICE_KEY_HEADER, key));
        let token = self.token.as_ref().map(|token| (TOKEN_HEADER, token));
        for (name, secret) in key.into_iter().chain(token) {
            request = request.header(name, secret.reveal());
        }
        let exchange = || {
            let (head, body) = self.agent.run(request.body(body.as_ref())?)?.into_parts();
            let body = body.into_with_config().limit(MAX_RESPONSE);
            Ok((head.status, body.read_to_vec()?))
        };
        let responded: Result<_, ureq::Error> = exchange();
        let (status, body) = responded.map_err(|error| self.unreachable(error))?;
        if status.is_success() {
            return Ok(body);
        }
        let problem = Problem::from_json(&body);
        Err(AttachError::Refused {
            url: self.url.clone(),
            status,
            detail: problem.and_then(|it| it.detail).unwrap_or_default(),
        })
    }

    /// All entries of a list, on however many pages.
    fn list<E: DeserializeOwned>(&self, name: &str) -> Result<Vec<E>, AttachError> {
        #[derive(Deserialize)]
        struct Page<E> {
            #[serde(alias = "agents", alias = "faults", alias = "requests")]
            entries: Vec<E>,
            next: Value,
        }
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("{name}?limit=1000&after={after}");
            let page: Page<E> = self.read(&self.call(Method::GET, &path, "")?)?;
            all.extend(page.entries);
            after = match page.next {
                Value::String(next) => next,
                Value::Number(next) => next.to_string(),
                _ => return Ok(all),
            };
        }
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, AttachError> {
        serde_json::from_slice(body).map_err(|_| self.unexpected())
    }

    fn unexpected(&self) -> AttachError {
        self.unreachable("it does not respond as a sandbox of this version does")
    }

    fn unreachable(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> AttachError {
        AttachError::Unreachable {
            url: self.url.clone(),
            source: source.into(),
        }
    }
}

impl Drop for AttachedSandbox {
    fn drop(&mut self) {
        if self.key.is_some() {
            // The server may be gone, and its worlds with it.
            let _ = self.call(Method::DELETE, "world", "");
        }
    }
}
