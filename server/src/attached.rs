//! A world on a server that runs elsewhere, with the methods of a sandbox that this process has started.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use dealkit::{Json, wire};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, uri::Authority};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

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

/// How long to wait for the server, at each step.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one call waits for requests.
const WAIT: Duration = Duration::from_secs(10);

/// A world of its own on a server that was started with `--worlds`; see [`Sandbox::attach`](crate::Sandbox::attach). It ends
/// when this is dropped.
///
/// Each method calls the server, and blocks the thread until it has responded.
pub struct AttachedSandbox {
    server: Server,
    key: ServiceKey,
}

/// Configures an [`AttachedSandbox`]; see [`Sandbox::attach`](crate::Sandbox::attach).
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `start` is called"]
pub struct Attach {
    url: String,
    admin_token: Option<Result<ServiceKey, InvalidServiceKey>>,
    service_key: Option<Result<ServiceKey, InvalidServiceKey>>,
    readings: Vec<Reading>,
    strict: Option<bool>,
}

impl Attach {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            admin_token: None,
            service_key: None,
            readings: Vec::new(),
            strict: None,
        }
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
        let server = Server::new(&self.url, self.admin_token.transpose()?)?;
        let key = match self.service_key {
            Some(key) => key?,
            None => {
                #[derive(Deserialize)]
                struct Begun {
                    service_key: String,
                }
                let begun: Begun =
                    server.read(&server.call(None, &Method::POST, "world", b"")?)?;
                ServiceKey::new(begun.service_key)?
            }
        };
        let sandbox = AttachedSandbox { server, key };
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
        "the URL of a sandbox is http:// with a host and perhaps a port, such as http://127.0.0.1:8080"
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
    /// The server did not respond.
    #[error("the sandbox at {url} cannot be reached: {source}")]
    Unreachable {
        /// The server.
        url: String,
        /// Why.
        source: io::Error,
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
    /// The response is not that of a sandbox of this version.
    #[error("the server at {url} is not a sandbox of this version")]
    Unexpected {
        /// The server.
        url: String,
    },
}

impl fmt::Debug for AttachedSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedSandbox")
            .field("url", &self.server.url)
            .finish_non_exhaustive()
    }
}

impl AttachedSandbox {
    /// The base URL for a client, such as `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        self.server.url.clone()
    }

    /// The key of the world, which requests must carry.
    pub fn service_key(&self) -> &str {
        self.key.reveal()
    }

    /// See [`Service::agents`](crate::Service::agents).
    ///
    /// # Errors
    /// When the call fails.
    pub fn agents(&self) -> Result<Vec<CreatedAgent>, AttachError> {
        #[derive(Deserialize)]
        struct Entry {
            agent: Id,
            sent: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct Id {
            id: String,
        }
        let read = |entry: Entry| {
            let number = entry.agent.id.strip_prefix("a_")?.parse().ok()?;
            CreatedAgent::read(number, entry.sent.get().as_bytes())
        };
        self.list("agents", read)
    }

    /// See [`Service::requests`](crate::Service::requests). Where a body is not UTF-8, it has replacement characters.
    ///
    /// # Errors
    /// When the call fails.
    pub fn requests(&self) -> Result<Vec<RecordedRequest>, AttachError> {
        self.list("requests", Seen::read)
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
        self.list("faults", |mut fields: BTreeMap<String, Json>| {
            let mut number = |name| fields.remove(name)?.as_str().parse().ok();
            Some(PendingFault {
                id: number("id")?,
                matched: number("matched")?,
                played: number("played")?,
                fault: Fault::from_json(json!(fields).to_string()).ok()?,
            })
        })
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

    fn call(
        &self,
        method: Method,
        path: &str,
        body: impl AsRef<[u8]>,
    ) -> Result<Bytes, AttachError> {
        self.server
            .call(Some(&self.key), &method, path, body.as_ref())
    }

    /// All entries of a list, on however many pages.
    fn list<E: DeserializeOwned, T>(
        &self,
        name: &str,
        read: impl Fn(E) -> Option<T>,
    ) -> Result<Vec<T>, AttachError> {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("{name}?limit=1000&after={after}");
            let page = self.call(Method::GET, &path, "")?;
            let mut page: BTreeMap<String, Box<RawValue>> = self.server.read(&page)?;
            let entries = page.remove(name).ok_or_else(|| self.server.unexpected())?;
            for entry in self.server.read::<Vec<E>>(entries.get().as_bytes())? {
                all.push(read(entry).ok_or_else(|| self.server.unexpected())?);
            }
            let next = page
                .remove("next")
                .ok_or_else(|| self.server.unexpected())?;
            after = match self.server.read(next.get().as_bytes())? {
                Value::String(next) => next,
                Value::Number(next) => next.to_string(),
                _ => return Ok(all),
            };
        }
    }
}

impl Drop for AttachedSandbox {
    fn drop(&mut self) {
        // The server may be gone, and its worlds with it.
        let _ = self.call(Method::DELETE, "world", "");
    }
}

/// A request, as the interface shows it.
#[derive(Deserialize)]
struct Seen {
    number: u64,
    at: DateTime<Utc>,
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, String)>,
    body: String,
    body_bytes: u64,
    status: Option<u16>,
    duration: f64,
    request_id: String,
    fault: Option<String>,
    done: bool,
}

impl Seen {
    fn read(self) -> Option<RecordedRequest> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            let name = HeaderName::try_from(name).ok()?;
            headers.append(name, HeaderValue::try_from(value).ok()?);
        }
        Some(RecordedRequest {
            number: self.number,
            at: self.at.into(),
            method: self.method.parse().ok()?,
            path: self.path,
            query: self.query,
            headers,
            body: self.body.into(),
            body_bytes: self.body_bytes,
            status: self.status.map(StatusCode::from_u16).transpose().ok()?,
            duration: Duration::try_from_secs_f64(self.duration).ok()?,
            request_id: self.request_id,
            fault: self.fault,
            is_done: self.done,
        })
    }
}

/// A server that runs elsewhere.
struct Server {
    url: String,
    authority: Authority,
    token: Option<ServiceKey>,
}

impl Server {
    fn new(url: &str, token: Option<ServiceKey>) -> Result<Self, AttachError> {
        let uri: Uri = url.parse().map_err(|_| AttachError::Url)?;
        let is_origin =
            uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
        let authority = uri.into_parts().authority.filter(|_| is_origin);
        let authority = authority.filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or(AttachError::Url)?;
        Ok(Self {
            url: format!("http://{authority}"),
            authority,
            token,
        })
    }

    /// The body of the response to a call, which is about the world of `key` if there is one.
    fn call(
        &self,
        key: Option<&ServiceKey>,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<Bytes, AttachError> {
        // Of HTTP/1.0, so that the response comes without chunks, and ends with the connection.
        let mut request = format!(
            "{method} /__sandbox/{path} HTTP/1.0\r\nhost: {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n",
            self.authority,
            wire::JSON,
            body.len()
        );
        let key = key.map(|key| (wire::SERVICE_KEY_HEADER, key));
        let token = self.token.as_ref().map(|token| (TOKEN_HEADER, token));
        for (name, secret) in key.into_iter().chain(token) {
            request += &format!("{name}: {}\r\n", secret.reveal());
        }
        let request = [(request + "\r\n").as_bytes(), body].concat();
        let response = self
            .exchange(&request)
            .map_err(|source| AttachError::Unreachable {
                url: self.url.clone(),
                source,
            })?;
        let (status, body) = parsed(response).ok_or_else(|| self.unexpected())?;
        if status.is_success() {
            return Ok(body);
        }
        #[derive(Default, Deserialize)]
        struct Problem {
            detail: String,
        }
        let problem: Problem = serde_json::from_slice(&body).unwrap_or_default();
        Err(AttachError::Refused {
            url: self.url.clone(),
            status,
            detail: problem.detail,
        })
    }

    fn exchange(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let mut stream = TcpStream::connect((host, self.authority.port_u16().unwrap_or(80)))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(request)?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        Ok(response)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, AttachError> {
        serde_json::from_slice(body).map_err(|_| self.unexpected())
    }

    fn unexpected(&self) -> AttachError {
        AttachError::Unexpected {
            url: self.url.clone(),
        }
    }
}

/// The status and the body of a response.
fn parsed(response: Vec<u8>) -> Option<(StatusCode, Bytes)> {
    let response = Bytes::from(response);
    let head = response.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let status = response.get("HTTP/1.x ".len().."HTTP/1.x 200".len())?;
    Some((
        StatusCode::from_bytes(status).ok()?,
        response.slice(head + 4..),
    ))
}
