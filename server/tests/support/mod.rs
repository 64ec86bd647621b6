//! What the tests share: the contract's vectors, responses and their invariants, and a client for bare bytes.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod http2;
mod invariants;
pub mod process;
#[path = "../vectors/mod.rs"]
pub mod vectors;

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use dealkit_server::{Sandbox, SandboxBuilder, Service, Tls};
use http::{HeaderMap, Response};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio_rustls::rustls::{
    ALL_VERSIONS, ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use vectors::{given, vectors};

pub const KEY: &str = "sandbox-key";
pub const AGENT: &str =
    r#"{"email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{}}"#;

/// A service with the sample deals.
pub fn service(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Service {
    change(Sandbox::builder()).service().unwrap()
}

// ---- responses -------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
pub struct Received {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl From<Response<Bytes>> for Received {
    fn from(response: Response<Bytes>) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        invariants::header(&self.headers, name)
    }

    pub fn json(&self) -> Value {
        tree(std::str::from_utf8(&self.body).unwrap())
    }

    /// What holds for every response, whatever the request.
    pub fn check_invariants(&self, name: &str, is_head: bool) {
        invariants::check(name, self.status, &self.headers, &self.body, is_head);
    }
}

/// JSON as a `Value` in which every number is `{"\0": "its exact text"}`, to compare without losing digits.
pub fn tree(text: &str) -> Value {
    let text = text.trim();
    match text.as_bytes()[0] {
        b'{' => {
            let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap();
            fields
                .into_iter()
                .map(|(name, value)| (name, tree(value.get())))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            elements
                .into_iter()
                .map(|value| tree(value.get()))
                .collect::<Vec<_>>()
                .into()
        }
        b'"' | b't' | b'f' | b'n' => serde_json::from_str(text).unwrap(),
        _ => {
            serde_json::from_str::<&RawValue>(text).unwrap();
            serde_json::json!({ "\0": text })
        }
    }
}

fn remove(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/").replace("~0", "~");
    value.pointer_mut(parent)?.as_object_mut()?.remove(&field)
}

// ---- vectors -------------------------------------------------------------------------------------------

/// A field that may be null: what matters is whether it is present.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentCase {
    pub name: String,
    #[serde(rename = "why")]
    _why: String,
    #[serde(default, deserialize_with = "present")]
    json: Option<Value>,
    text: Option<String>,
    base64: Option<String>,
    #[serde(default)]
    pub strict: bool,
    expect: AgentExpect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentExpect {
    status: u16,
    agent: Option<Value>,
    exact: Option<BTreeMap<String, String>>,
    /// The pointer and the code of each violation.
    errors: Option<Vec<(String, String)>>,
    line: Option<usize>,
}

pub fn agent_cases() -> Vec<AgentCase> {
    vectors("create_agent.json", 400)
}

impl AgentCase {
    pub fn bytes(&self) -> Bytes {
        let (text, base64) = (self.text.as_deref(), self.base64.as_deref());
        given(self.json.as_ref(), text, base64)
            .unwrap_or_else(|| panic!("{}: has no bytes", self.name))
            .into()
    }

    pub fn expects(&self, status: u16) -> bool {
        self.expect.status == status
    }

    pub fn check(&self, response: &Received) {
        let (name, expect) = (&self.name, &self.expect);
        response.check_invariants(name, false);
        let shown = String::from_utf8_lossy(&response.body);
        assert_eq!(response.status, expect.status, "{name}: {shown}");
        match expect.status {
            201 => {
                let mut agent = response.json();
                let id = remove(&mut agent, "/id").unwrap();
                assert!(id.as_str().is_some_and(|id| !id.is_empty()), "{name}: id");
                let expected = expect.agent.as_ref();
                let expected = expected.unwrap_or_else(|| panic!("{name}: no agent"));
                let mut expected = tree(&expected.to_string());
                for (pointer, text) in expect.exact.iter().flatten() {
                    remove(&mut expected, pointer);
                    assert_eq!(
                        remove(&mut agent, pointer),
                        Some(tree(text)),
                        "{name}: {pointer} in {shown}"
                    );
                }
                assert_eq!(agent, expected, "{name}");
            }
            422 => {
                let problem: Value = serde_json::from_slice(&response.body).unwrap();
                let errors = problem["errors"].as_array().unwrap().iter().map(|error| {
                    let text = |member| error[member].as_str().unwrap().to_owned();
                    (text("pointer"), text("code"))
                });
                let expected = expect
                    .errors
                    .as_ref()
                    .unwrap_or_else(|| panic!("{name}: no errors"));
                assert_eq!(&errors.collect::<Vec<_>>(), expected, "{name}");
            }
            400 => {
                let problem: Value = serde_json::from_slice(&response.body).unwrap();
                let line = line_of(problem["detail"].as_str().unwrap());
                assert!(
                    expect.line.is_none_or(|expected| expected == line),
                    "{name}: {shown}"
                );
            }
            other => panic!("{name}: a status {other} that this runner does not know"),
        }
    }
}

/// The line in a detail that ends with `at line L column C`.
fn line_of(detail: &str) -> usize {
    let (_, place) = detail
        .rsplit_once(" at line ")
        .unwrap_or_else(|| panic!("no place: {detail}"));
    let (line, column) = place
        .split_once(" column ")
        .unwrap_or_else(|| panic!("no column: {detail}"));
    assert!(column.parse::<usize>().unwrap() > 0, "{detail}");
    line.parse().unwrap()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestCase {
    pub name: String,
    #[serde(rename = "why")]
    _why: String,
    #[serde(default)]
    pub raw: bool,
    #[serde(default)]
    pub limits: Limits,
    pub request: CaseRequest,
    expect: RequestExpect,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_body_bytes: Option<usize>,
    pub max_agents: Option<u64>,
}

impl Limits {
    /// A server with these limits, with TLS or without.
    pub fn sandbox(self, is_encrypted: bool) -> Sandbox {
        let mut builder = Sandbox::builder();
        if let Some(bytes) = self.max_body_bytes {
            builder = builder.max_body_bytes(bytes);
        }
        if let Some(agents) = self.max_agents {
            builder = builder.max_agents(agents);
        }
        if is_encrypted {
            builder = builder.tls(Tls::self_signed());
        }
        builder.start().unwrap()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRequest {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
    text: Option<String>,
    base64: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestExpect {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    headers_not: BTreeMap<String, String>,
    #[serde(default)]
    body: BTreeMap<String, Value>,
    detail_contains: Option<String>,
    #[serde(default)]
    malformed_head: bool,
}

pub fn request_cases() -> Vec<RequestCase> {
    let cases: Vec<RequestCase> = vectors("requests.json", 170);
    assert!(cases.iter().filter(|case| case.raw).count() >= 20);
    cases
}

impl CaseRequest {
    pub fn headers(&self) -> impl Iterator<Item = (&str, String)> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.replace("{key}", KEY)))
    }

    pub fn body(&self) -> Option<Bytes> {
        given(None, self.text.as_deref(), self.base64.as_deref()).map(Bytes::from)
    }

    /// The bytes of a raw case.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in self.headers() {
            head += &format!("{name}: {value}\r\n");
        }
        head += "connection: close\r\n\r\n";
        let mut bytes: Vec<u8> = head
            .chars()
            .map(|character| u8::try_from(character).unwrap())
            .collect();
        bytes.extend_from_slice(&self.body().unwrap_or_default());
        bytes
    }
}

impl RequestCase {
    pub fn check(&self, response: &Received) {
        let (name, expect) = (&self.name, &self.expect);
        assert_eq!(
            response.status,
            expect.status,
            "{name}: {}",
            String::from_utf8_lossy(&response.body)
        );
        if expect.malformed_head {
            return;
        }
        response.check_invariants(name, self.request.method == "HEAD");
        for (header, value) in &expect.headers {
            assert_eq!(
                response.header(header),
                Some(value.as_str()),
                "{name}: {header}"
            );
        }
        for (header, value) in &expect.headers_not {
            assert!(
                response.header(header).is_some_and(|sent| sent != value),
                "{name}: {header}"
            );
        }
        for (pointer, value) in &expect.body {
            let body: Value = serde_json::from_slice(&response.body).unwrap();
            assert_eq!(body.pointer(pointer), Some(value), "{name}: {pointer}");
        }
        if let Some(part) = &expect.detail_contains {
            let body: Value = serde_json::from_slice(&response.body).unwrap();
            let detail = body["detail"].as_str().unwrap();
            assert!(detail.contains(part), "{name}: {detail}");
        }
    }
}

// ---- bare bytes ----------------------------------------------------------------------------------------

/// Where a server listens.
pub trait Listens {
    fn at(self) -> SocketAddr;
}

impl Listens for SocketAddr {
    fn at(self) -> SocketAddr {
        self
    }
}

impl Listens for &Sandbox {
    fn at(self) -> SocketAddr {
        self.address()
    }
}

impl Listens for &process::Running {
    fn at(self) -> SocketAddr {
        self.address
    }
}

/// A connection that fails instead of hanging.
pub fn connect(server: impl Listens) -> TcpStream {
    let stream = TcpStream::connect(server.at()).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    stream
}

/// A connection to a sandbox, encrypted if that speaks TLS.
pub trait Line: Read + Write {
    fn tcp(&self) -> &TcpStream;
}

impl Line for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Line for StreamOwned<ClientConnection, TcpStream> {
    fn tcp(&self) -> &TcpStream {
        &self.sock
    }
}

pub fn line(sandbox: &Sandbox) -> Box<dyn Line> {
    let tcp = connect(sandbox);
    if sandbox.ca_pem().is_none() {
        return Box::new(tcp);
    }
    let connection = ClientConnection::new(trusting(sandbox, &[]), ServerName::from(LOCALHOST));
    Box::new(StreamOwned::new(connection.unwrap(), tcp))
}

pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What a caller knows who trusts the sandbox's certificate, and speaks these protocols.
pub fn trusting(sandbox: &Sandbox, protocols: &[&str]) -> Arc<ClientConfig> {
    speaking(ALL_VERSIONS, sandbox, protocols)
}

/// The same for these versions of TLS.
pub fn speaking(
    versions: &[&'static SupportedProtocolVersion],
    sandbox: &Sandbox,
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let pem = sandbox.ca_pem().unwrap();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
    let mut config = config
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    Arc::new(config)
}

/// Reads one response, which must have a content-length or no body.
pub fn read_response(stream: &mut (impl Read + ?Sized), is_head: bool) -> Received {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        let read = match stream.read(&mut byte) {
            // With a timeout set, the system does not resume a read that a signal has interrupted.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.expect("a response"),
        };
        assert!(
            read == 1,
            "the connection ended in the head: {}",
            String::from_utf8_lossy(&head)
        );
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.append(
            http::HeaderName::try_from(name).unwrap(),
            value.parse().unwrap(),
        );
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let mut body = vec![0; if is_head { 0 } else { length }];
    stream.read_exact(&mut body).unwrap();
    Received {
        status,
        headers,
        body: body.into(),
    }
}

/// Sends the bytes of one request, and reads its response.
pub fn send(server: impl Listens, request: impl AsRef<[u8]>) -> Received {
    let request = request.as_ref();
    let mut stream = connect(server);
    stream.write_all(request).unwrap();
    read_response(&mut stream, request.starts_with(b"HEAD "))
}

/// Asks for a deal.
pub fn deal(server: impl Listens, id: &str) -> Received {
    send(server, get_deal(id))
}

/// Checks that callers are served.
pub fn served(server: impl Listens) {
    assert_eq!(deal(server, "d_1").status, 200);
}

/// Asks for an agent to be created.
pub fn create(server: impl Listens, agent: &str) -> Received {
    send(server, create_agent(agent))
}

pub fn get_deal(id: &str) -> String {
    format!("GET /v1/deals/{id} HTTP/1.1\r\nhost: h\r\nx-service-key: {KEY}\r\n\r\n")
}

pub fn post_head(extra: &str) -> String {
    format!(
        "POST /v1/agents HTTP/1.1\r\nhost: h\r\nx-service-key: {KEY}\r\ncontent-type: application/json\r\n{extra}\r\n"
    )
}

pub fn create_agent(body: &str) -> String {
    post_head(&format!("content-length: {}\r\n", body.len())) + body
}

/// Checks that the server has ended the connection: nothing more to read, and no reset.
pub fn assert_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("an orderly end");
    assert!(
        rest.is_empty(),
        "unexpected: {}",
        String::from_utf8_lossy(&rest)
    );
    let _ = stream.shutdown(Shutdown::Both);
}
