//! Test support: the contract's vectors, invariants of responses, and a client on TCP sockets.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod http2;
mod invariants;
pub mod process;
#[path = "../vectors/mod.rs"]
pub mod vectors;

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use dealkit_server::{Sandbox, SandboxBuilder, Service, Tls};
use http::{HeaderMap, Request, Response};
use serde_json::{Map, Value, json};
use tokio::net::TcpSocket;
use tokio_rustls::rustls::{
    ALL_VERSIONS, ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use vectors::{given_in, name, tree, vectors};

pub const KEY: &str = "sandbox-key";
pub const AGENT: &str =
    r#"{"email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{}}"#;

/// Creates a service with the sample deals.
pub fn service(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Service {
    change(Sandbox::builder()).service().unwrap()
}

/// Sends a request to a service without a socket.
pub fn handle(
    service: &Service,
    request: http::request::Builder,
    body: impl Into<Bytes>,
) -> Received {
    service.handle(request.body(body.into()).unwrap()).into()
}

/// Builds a request with this key and a JSON content type.
pub fn build_request(method: &str, path: &str, key: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("x-service-key", key)
        .header("content-type", "application/json")
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

    /// Parses the body, with numbers as Rust types.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks the invariants of all responses.
    pub fn check_invariants(&self, name: &str, is_head: bool) {
        invariants::check(name, self.status, &self.headers, &self.body, is_head);
    }
}

fn remove(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/").replace("~0", "~");
    value.pointer_mut(parent)?.as_object_mut()?.remove(&field)
}

// ---- vectors -------------------------------------------------------------------------------------------

/// Asserts that an object of the vectors has no unknown members.
fn has_only(members: &str, object: &Value) {
    for name in object.as_object().into_iter().flat_map(Map::keys) {
        let is_known = members.split(' ').any(|member| member == name);
        assert!(is_known, "{name} in {object}");
    }
}

pub fn agent_cases() -> Vec<Value> {
    let cases: Vec<Value> = vectors("create_agent.json", 390);
    for case in &cases {
        has_only("name why json text base64 strict expect", case);
        has_only("status agent exact errors line", &case["expect"]);
    }
    cases
}

pub fn check_agent(case: &Value, response: &Received) {
    let (name, expect) = (name(case), &case["expect"]);
    response.check_invariants(name, false);
    let shown = String::from_utf8_lossy(&response.body);
    assert_eq!(response.status, expect["status"], "{name}: {shown}");
    match response.status {
        201 => {
            let mut agent = response.json();
            let id = remove(&mut agent, "/id").unwrap();
            assert!(id.as_str().is_some_and(|id| !id.is_empty()), "{name}: id");
            let mut expected = tree(&expect["agent"].to_string());
            for (pointer, text) in expect["exact"].as_object().into_iter().flatten() {
                remove(&mut expected, pointer);
                let found = remove(&mut agent, pointer);
                assert_eq!(
                    found,
                    text.as_str().map(tree),
                    "{name}: {pointer} in {shown}"
                );
            }
            assert_eq!(agent, expected, "{name}");
        }
        422 => {
            let problem = response.value();
            let errors = problem["errors"].as_array().unwrap().iter();
            let errors: Value = errors
                .map(|error| json!([error["pointer"], error["code"]]))
                .collect();
            assert_eq!(errors, expect["errors"], "{name}");
        }
        400 => {
            let line = line_of(response.value()["detail"].as_str().unwrap());
            let is_there = expect.get("line").is_none_or(|expected| *expected == line);
            assert!(is_there, "{name}: {shown}");
        }
        other => panic!("{name}: a status {other} that this runner does not know"),
    }
}

/// Returns the line number of a detail that ends with `at line L column C`.
fn line_of(detail: &str) -> usize {
    let (_, place) = detail.rsplit_once(" at line ").expect(detail);
    let (line, column) = place.split_once(" column ").expect(detail);
    assert!(column.parse::<usize>().unwrap() > 0, "{detail}");
    line.parse().unwrap()
}

/// Returns the cases that need a TCP socket, or the others.
pub fn request_cases(is_raw: bool) -> Vec<Value> {
    let mut cases: Vec<Value> = vectors("requests.json", 170);
    for case in &cases {
        has_only("name why raw limits request expect", case);
        has_only("max_body_bytes max_agents", &case["limits"]);
        has_only("method target headers text base64", &case["request"]);
        let expect = "status headers headers_not body detail_contains malformed_head";
        has_only(expect, &case["expect"]);
    }
    cases.retain(|case| (case["raw"] == true) == is_raw);
    assert!(cases.len() >= 20);
    cases
}

/// Starts a server with the limits of a case, with or without TLS.
pub fn start_with_limits(case: &Value, is_encrypted: bool) -> Sandbox {
    let limits = &case["limits"];
    let mut builder = Sandbox::builder();
    if let Some(bytes) = limits["max_body_bytes"].as_u64() {
        builder = builder.max_body_bytes(bytes.try_into().unwrap());
    }
    if let Some(agents) = limits["max_agents"].as_u64() {
        builder = builder.max_agents(agents);
    }
    if is_encrypted {
        builder = builder.tls(Tls::self_signed());
    }
    builder.start().unwrap()
}

/// Returns the method, target, headers and body of a case's request.
pub fn request_parts(case: &Value) -> (&str, &str, Vec<(&str, String)>, Vec<u8>) {
    let request = &case["request"];
    let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
    let headers = request["headers"].as_array().unwrap().iter();
    let headers = headers.map(|header| {
        let value = text(&header[1]).replace("{key}", KEY);
        (header[0].as_str().unwrap(), value)
    });
    let [method, target] = ["method", "target"].map(|member| request[member].as_str().unwrap());
    (
        method,
        target,
        headers.collect(),
        given_in(request).unwrap_or_default(),
    )
}

/// Returns the bytes of a case that needs a TCP socket.
pub fn request_bytes(case: &Value) -> Vec<u8> {
    let (method, target, headers, body) = request_parts(case);
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "connection: close\r\n\r\n";
    let head = head
        .chars()
        .map(|character| u8::try_from(character).unwrap());
    head.chain(body).collect()
}

pub fn check_request(case: &Value, response: &Received) {
    let (name, expect) = (name(case), &case["expect"]);
    let shown = String::from_utf8_lossy(&response.body);
    assert_eq!(response.status, expect["status"], "{name}: {shown}");
    if expect["malformed_head"] == true {
        return;
    }
    response.check_invariants(name, case["request"]["method"] == "HEAD");
    let members = |name: &str| expect[name].as_object().into_iter().flatten();
    for (header, value) in members("headers") {
        assert_eq!(response.header(header), value.as_str(), "{name}: {header}");
    }
    for (header, value) in members("headers_not") {
        let is_other = response.header(header).is_some_and(|sent| value != sent);
        assert!(is_other, "{name}: {header}");
    }
    for (pointer, value) in members("body") {
        assert_eq!(
            response.value().pointer(pointer),
            Some(value),
            "{name}: {pointer}"
        );
    }
    if let Some(part) = expect["detail_contains"].as_str() {
        let problem = response.value();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{name}: {detail}");
    }
}

// ---- TCP sockets ----------------------------------------------------------------------------------------

/// A server with an address.
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

/// Time limit for events that always happen. It ends tests that hang.
pub const HANG: Duration = Duration::from_secs(120);

/// Waits until the condition is true. `event` describes it in the failure message.
pub fn until(event: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < HANG, "waited in vain until {event}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the address rejects connections.
pub fn until_refused(address: SocketAddr) {
    until("connections are refused", || {
        TcpStream::connect(address).is_err()
    });
}

/// Reserves an address that rejects connections until the socket is dropped.
pub fn unused_address() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Opens a connection with timeouts.
pub fn connect(server: impl Listens) -> TcpStream {
    let stream = TcpStream::connect(server.at()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    stream
}

/// A connection to a sandbox, with or without TLS.
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
    let connection =
        ClientConnection::new(tls_client_config(sandbox, &[]), ServerName::from(LOCALHOST));
    Box::new(StreamOwned::new(connection.unwrap(), tcp))
}

pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Creates a TLS configuration that trusts the sandbox's CA and offers these protocols (ALPN).
pub fn tls_client_config(sandbox: &Sandbox, protocols: &[&str]) -> Arc<ClientConfig> {
    tls_client_config_for(ALL_VERSIONS, sandbox, protocols)
}

/// Creates a TLS configuration for these versions of TLS.
pub fn tls_client_config_for(
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
            // A socket with a timeout does not resume a read after a signal.
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

/// Sends a request and reads its response.
pub fn send(server: impl Listens, request: impl AsRef<[u8]>) -> Received {
    let request = request.as_ref();
    let mut stream = connect(server);
    stream.write_all(request).unwrap();
    read_response(&mut stream, request.starts_with(b"HEAD "))
}

/// Retrieves a deal.
pub fn retrieve_deal(server: impl Listens, id: &str) -> Received {
    send(server, get_deal(id))
}

/// Asserts that the server responds.
pub fn assert_serving(server: impl Listens) {
    assert_eq!(retrieve_deal(server, "d_1").status, 200);
}

/// Creates an agent.
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

/// Asserts that the server has closed the connection normally, with nothing more to read.
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
