//! TLS: server and client certificates, protocol versions, failed handshakes, and configuration errors. `http.rs` and `raw.rs`
//! run the contract's vectors over TLS, and `faults.rs` the faults.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use crate::support::{
    HANG, KEY, LOCALHOST, assert_closed, connect, get_deal, line,
    process::{Running, command},
    read_response, tls_client_config, tls_client_config_for, until,
};
use dealkit::{AgentProfile, Client, ClientBuilder, CreateAgent, Error, ErrorKind, Outcome};
use dealkit_server::{Fault, Sandbox, StartError, Tls};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ClientConnection, StreamOwned,
    version::{TLS12, TLS13},
};

#[path = "../../../sdk/tests/peer/issuer.rs"]
#[allow(dead_code, reason = "the SDK's tests use the rest")]
mod issuer;
use issuer::{Authority, Leaf};

const SHORT: Duration = Duration::from_millis(300);

fn start(tls: Tls) -> Sandbox {
    Sandbox::builder().tls(tls).start().unwrap()
}

fn client(sandbox: &Sandbox, pem: &str) -> ClientBuilder {
    let client = Client::builder().base_url(sandbox.url()).service_key(KEY);
    client.only_root_certificates(pem)
}

fn ada() -> CreateAgent {
    let agent = CreateAgent::builder().email("ada@example.com");
    let agent = agent.first_name("Ada").last_name("Lovelace");
    agent.profile(AgentProfile::new()).build().unwrap()
}

fn fails_to_connect(error: &Error, expected: &str) {
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Connect, Outcome::NotSent)
    );
}

/// A directory with a CA certificate, and a certificate for this machine with its key.
struct CertificateFiles {
    folder: TempDir,
    issuer: String,
    leaf: Leaf,
}

impl CertificateFiles {
    fn new() -> Self {
        let authority = Authority::new();
        Self {
            folder: TempDir::new().unwrap(),
            issuer: authority.pem(),
            leaf: authority.issue(),
        }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, content).unwrap();
        file
    }

    fn files(&self) -> Tls {
        Tls::files(
            self.file("tls.crt", &self.leaf.certificate),
            self.file("tls.key", &self.leaf.key),
        )
    }
}

#[tokio::test]
async fn a_client_needs_the_ca_certificate() {
    let (sandbox, other) = (start(Tls::self_signed()), start(Tls::self_signed()));
    let [pem, others] = [&sandbox, &other].map(|sandbox| sandbox.ca_pem().unwrap());
    let tls_client_config = client(&sandbox, pem).build().unwrap();
    tls_client_config.agents().create(ada()).await.unwrap();
    assert_eq!(
        tls_client_config.deals().retrieve("d_1").await.unwrap().id,
        "d_1"
    );
    let named = sandbox.url().replace("127.0.0.1", "localhost");
    let named = client(&sandbox, pem).base_url(named).build().unwrap();
    let deal = named.deals().retrieve("d_1").with_response().await.unwrap();
    assert_eq!(deal.version(), dealkit::http::Version::HTTP_2);

    let stranger = client(&sandbox, others).build().unwrap();
    let error = stranger.agents().create(ada()).await.unwrap_err();
    fails_to_connect(&error, "was not signed by the trusted issuer of that name");
    assert_eq!(sandbox.agents().len(), 1);
}

#[test]
fn tls_1_2_and_1_3_are_supported() {
    let sandbox = start(Tls::self_signed());
    for version in [&TLS12, &TLS13] {
        let config = tls_client_config_for(&[version], &sandbox, &["http/1.1"]);
        let mut connection = ClientConnection::new(config, LOCALHOST.into()).unwrap();
        let mut tcp = connect(&sandbox);
        connection.complete_io(&mut tcp).unwrap();
        assert_eq!(connection.protocol_version(), Some(version.version));
    }
}

/// The server's certificate comes from files, and clients must present one.
#[tokio::test]
async fn a_client_without_a_certificate_is_rejected() {
    let (own, clients, strange) = (
        CertificateFiles::new(),
        CertificateFiles::new(),
        CertificateFiles::new(),
    );
    let sandbox = start(
        own.files()
            .client_ca(clients.file("ca.pem", &clients.issuer)),
    );
    assert_eq!(sandbox.ca_pem(), None);
    let client = client(&sandbox, &own.issuer);
    let with =
        |issued: &CertificateFiles| client.clone().identity(issued.leaf.pem()).build().unwrap();
    with(&clients).agents().create(ada()).await.unwrap();
    for refused in [client.clone().build().unwrap(), with(&strange)] {
        let error = refused.deals().retrieve("d_1").await.unwrap_err();
        // The client may already be sending its request when the server rejects it.
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let text = format!("{error} {}", cause.unwrap_or_default());
        assert!(text.contains("identity"), "{text}");
    }
    assert_eq!(sandbox.requests().len(), 1);
}

/// A stalled handshake ends at the head timeout and does not block other connections.
#[test]
fn a_stalled_handshake_does_not_block_other_connections() {
    let stalled = |sandbox: &Sandbox| {
        let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00";
        [&b""[..], hello, b"GET /v"].map(|beginning| {
            let mut stream = connect(sandbox);
            stream.write_all(beginning).unwrap();
            stream
        })
    };
    // Clients that complete no handshake occupy three of the four connections.
    let sandbox = Sandbox::builder().tls(Tls::self_signed());
    let sandbox = sandbox.head_timeout(HANG).max_connections(4);
    let sandbox = sandbox.start().unwrap();
    let open = stalled(&sandbox);
    for _ in 0..5 {
        let mut line = line(&sandbox);
        line.write_all(get_deal("d_1").as_bytes()).unwrap();
        assert_eq!(read_response(&mut *line, false).status, 200);
    }
    drop(open);
    // Those connections end at the head timeout.
    let sandbox = Sandbox::builder().tls(Tls::self_signed());
    let sandbox = sandbox.head_timeout(SHORT).start().unwrap();
    let began = Instant::now();
    for mut stream in stalled(&sandbox) {
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
        assert!(began.elapsed() >= SHORT);
    }
}

#[test]
fn a_request_without_tls_gets_an_explanation() {
    let sandbox = start(Tls::self_signed());
    for request in [get_deal("d_1").as_str(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = connect(&sandbox);
        stream.write_all(request.as_bytes()).unwrap();
        let response = read_response(&mut stream, false);
        assert_eq!(response.status, 400);
        assert_eq!(
            response.body,
            "This server speaks TLS: use https:// in place of http"
        );
        assert_closed(&mut stream);
    }
    assert!(sandbox.requests().is_empty());
}

/// A TLS client closes with an alert, which stays unread while a fault delays the response.
#[test]
fn a_fault_ends_when_its_client_disconnects() {
    let sandbox = Sandbox::builder().tls(Tls::self_signed());
    let sandbox = sandbox.max_connections(1).start().unwrap();
    sandbox
        .fail_next(Fault::delay(Duration::from_secs(3_600)))
        .unwrap();
    let connection = ClientConnection::new(tls_client_config(&sandbox, &[]), LOCALHOST.into());
    let mut caller = StreamOwned::new(connection.unwrap(), connect(&sandbox));
    caller.write_all(get_deal("d_1").as_bytes()).unwrap();
    until("the request has arrived", || !sandbox.requests().is_empty());
    caller.conn.send_close_notify();
    caller.flush().unwrap();
    drop(caller);
    let mut next = line(&sandbox);
    next.write_all(get_deal("d_1").as_bytes()).unwrap();
    assert_eq!(read_response(&mut *next, false).status, 200);
}

/// The message names the file, and contains nothing of its content.
#[test]
fn unusable_files_are_errors() {
    let (own, other) = (CertificateFiles::new(), CertificateFiles::new());
    let (crt, key) = (
        own.file("tls.crt", &own.leaf.certificate),
        own.file("tls.key", &own.leaf.key),
    );
    let empty = own.file("empty", "");
    let cut = own.file("cut", &own.leaf.key[..own.leaf.key.len() / 2]);
    let missing = own.folder.path().join("missing");
    let theirs = other.file("their.key", &other.leaf.key);
    for (tls, file, expected) in [
        (Tls::files(&missing, &key), &missing, "cannot be read: "),
        (Tls::files(&crt, &missing), &missing, "cannot be read: "),
        (Tls::files(&empty, &key), &empty, "contains no certificate"),
        (Tls::files(&key, &key), &key, "contains no certificate"),
        (Tls::files(&cut, &key), &cut, "contains no certificate"),
        (Tls::files(&crt, &crt), &crt, "contains no private key"),
        (Tls::files(&crt, &cut), &cut, "contains no private key"),
        (
            Tls::files(&crt, &theirs),
            &theirs,
            "does not belong to the first certificate in",
        ),
        (
            own.files().client_ca(&missing),
            &missing,
            "cannot be read: ",
        ),
        (own.files().client_ca(&key), &key, "contains no certificate"),
        (
            Tls::self_signed().ca_out(missing.join("x")),
            &missing.join("x"),
            "cannot be written: ",
        ),
    ] {
        let error = Sandbox::builder().tls(tls).start().unwrap_err();
        assert!(matches!(error, StartError::Tls(_)), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(&*file.to_string_lossy()) && text.contains(expected),
            "{text}"
        );
        let pem = own.leaf.pem();
        for line in pem.lines().filter(|line| !line.starts_with('-')) {
            assert!(!format!("{text} {error:?}").contains(line), "{text}");
        }
    }
    for (tls, expected) in [
        (
            Tls::default().client_ca(&crt),
            "the settings for TLS have no effect because TLS is off",
        ),
        (
            Tls::self_signed().name("two words"),
            "cannot be for \"two words\": expected a host name",
        ),
        (
            own.files().name("sandbox"),
            "need a self-signed certificate",
        ),
        (
            own.files().ca_out(&missing),
            "need a self-signed certificate",
        ),
    ] {
        let error = Sandbox::builder().tls(tls).start().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// The command's URL and files work with `curl`.
#[test]
fn the_command_prints_its_url() {
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("ca.pem");
    let server = Running::start({
        let mut command = command(&["--listen", "127.0.0.1:0", "--tls-ca-out"]);
        command
            .arg(&ca)
            .env("DEALKIT_SERVER_TLS", "self-signed")
            .env("DEALKIT_SERVER_TLS_NAME", "sandbox,box.test");
        command
    });
    let url = format!("https://{}", server.address);
    assert_eq!(
        server.first_line,
        format!("dealkit-server listening on {url}\n")
    );
    if Command::new("curl").arg("--version").output().is_err() {
        return;
    }
    let port = server.address.port();
    let curl = |arguments: &[&str]| {
        let output = Command::new("curl")
            .arg("--silent")
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let cacert = ["--cacert", ca.to_str().unwrap()];
    for name in ["localhost", "127.0.0.1", "sandbox", "box.test"] {
        let resolve = format!("{name}:{port}:127.0.0.1");
        let url = format!("https://{name}:{port}/__sandbox/ca.pem");
        let pem = curl(&[&cacert[..], &["--resolve", &resolve, &url]].concat());
        assert_eq!(pem, fs::read_to_string(&ca).unwrap(), "{name}");
    }
}
