//! The binary: its first line, signals, environment variables, and error messages.

use std::{
    io::{Read as _, Write as _},
    process::Output,
};

use crate::support::{
    get_deal,
    process::{Running, command},
    retrieve_deal, send, unused_address,
};
use tempfile::NamedTempFile;

fn error_message(arguments: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command(arguments).output().unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}");
    assert!(stdout.is_empty(), "{arguments:?} wrote to standard output");
    String::from_utf8(stderr).unwrap()
}

#[cfg(unix)]
#[test]
fn signals_end_the_server_with_code_0() {
    use rustix::process::Signal;
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Running::start(command(&["--listen", "127.0.0.1:0", "--log", "json"]));
        let expected = format!("dealkit-server listening on http://{}\n", server.address);
        assert_eq!(server.first_line, expected);
        assert_ne!(server.address.port(), 0);
        assert_eq!(retrieve_deal(&server, "d_1").status, 200);
        server.signal(signal);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal:?}");
        // The log was flushed before the process ended.
        let line: serde_json::Value = serde_json::from_str(server.stderr().trim()).unwrap();
        assert_eq!(
            (&line["method"], &line["path"]),
            (&"GET".into(), &"/v1/deals/{id}".into())
        );
        assert_eq!(line["status"], 200);
        assert!(line["ms"].is_number() && line["request_id"].is_string());
    }
}

#[cfg(unix)]
#[test]
fn the_log_shows_no_id_and_no_key() {
    let mut server = Running::start(command(&[
        "--listen",
        "localhost:0",
        "--service-key",
        "hunter2",
        "--strict",
    ]));
    send(
        &server,
        get_deal("secret-id").replace("sandbox-key", "hunter2"),
    );
    send(
        &server,
        b"FETCH-SECRET /secret-id HTTP/1.1\r\nhost: h\r\n\r\n",
    );
    // Requests to the control interface are not logged: the page sends one every two seconds.
    send(
        &server,
        b"GET /__sandbox/docs HTTP/1.1\r\nhost: localhost\r\n\r\n",
    );
    server.signal(rustix::process::Signal::TERM);
    let log = server.stderr();
    assert!(
        log.contains("GET /v1/deals/{id} 404 ") && log.contains("\n(other) (unknown) 404 "),
        "{log}"
    );
    let url = format!("http://{}/__sandbox/docs", server.address);
    let hint = format!("try it at {url}");
    assert!(
        log.lines().any(|line| line == hint) && log.lines().count() == 3,
        "{log}"
    );
    assert!(
        !log.contains("secret-id") && !log.contains("SECRET") && !log.contains("hunter2"),
        "{log}"
    );
}

/// Requests are served even if the pipe for the log is full.
#[test]
fn an_unread_log_does_not_block_requests() {
    let server = Running::start(command(&["--listen", "127.0.0.1:0"]));
    let id = "i".repeat(128);
    let request = get_deal("d_1").replace("\r\n\r\n", &format!("\r\nx-request-id: {id}\r\n\r\n"));
    for _ in 0..1_500 {
        assert_eq!(send(&server, &request).status, 200);
    }
}

#[test]
fn flags_take_precedence_over_environment_variables() {
    let mut from_environment = command(&[]);
    from_environment
        .env("DEALKIT_SERVER_LISTEN", "127.0.0.1:0")
        .env("DEALKIT_SERVER_SERVICE_KEY", "from-env")
        .env("DEALKIT_SERVER_GENERATE", "3")
        .env("DEALKIT_SERVER_STRICT", "true")
        // The client's variables do not apply to the server.
        .env("DEALKIT_SERVICE_KEY", "client")
        .env("DEALKIT_BASE_URL", "http://127.0.0.1:1");
    let server = Running::start(from_environment);
    let get = |key: &str| send(&server, get_deal("g_2").replace("sandbox-key", key)).status;
    assert_eq!(
        (get("from-env"), get("client"), get("sandbox-key")),
        (200, 401, 401)
    );
    let mut both = command(&["--listen", "127.0.0.1:0", "--service-key", "from-flag"]);
    let server = Running::start({
        both.env("DEALKIT_SERVER_SERVICE_KEY", "from-env");
        both
    });
    let request = get_deal("d_1").replace("sandbox-key", "from-flag");
    assert_eq!(send(&server, &request).status, 200);
}

/// In a container, the health check has the server's environment.
#[test]
fn health_checks_the_server_of_the_same_environment() {
    let health = |listen: &str| {
        let mut asked = command(&["health"]);
        asked.env("DEALKIT_SERVER_LISTEN", listen);
        let Output {
            status,
            stdout,
            stderr,
        } = asked.output().unwrap();
        assert!(stdout.is_empty(), "{listen}");
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    let up = (Some(0), String::new());
    let server = Running::quiet(&["--no-admin", "--admin-token", "hunter2"]);
    let port = server.address.port();
    assert_eq!(health(&format!("127.0.0.1:{port}")), up);
    // A server on 0.0.0.0 is reachable on loopback.
    assert_eq!(health(&format!("0.0.0.0:{port}")), up);
    drop(server);
    let (_unused, unused) = unused_address();
    let encrypted = Running::quiet(&["--tls", "self-signed"]);
    assert_eq!(health(&encrypted.address.to_string()), up);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other_server = other.local_addr().unwrap().to_string();
    let other_thread = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        // Closing with the request unread would reset the connection.
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap();
    });
    for (listen, expected) in [
        (other_server, "error: the program at 127.0.0.1:"),
        (unused.to_string(), "error: no response from 127.0.0.1:"),
    ] {
        let (code, message) = health(&listen);
        assert!(
            code == Some(1) && message.starts_with(expected),
            "{listen}: {message}"
        );
    }
    other_thread.join().unwrap();
}

#[test]
fn keys_can_be_in_files() {
    let (key, token) = (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
    std::fs::write(key.path(), "from-file\n").unwrap();
    std::fs::write(token.path(), " hunter2 \r\n").unwrap();
    let mut by_environment = command(&[
        "--listen",
        "127.0.0.1:0",
        "--admin-token-file",
        name(&token),
    ]);
    by_environment.env("DEALKIT_SERVER_SERVICE_KEY_FILE", key.path());
    let server = Running::start(by_environment);
    let request = get_deal("d_1").replace("sandbox-key", "from-file");
    assert_eq!(send(&server, &request).status, 200);
    let look = b"GET /__sandbox/requests HTTP/1.1\r\nhost: h\r\nx-sandbox-token: hunter2\r\n\r\n";
    assert_eq!(send(&server, look).status, 200);

    let message = error_message(&["--service-key-file", "/no/such/file"]);
    let expected = "'--service-key-file <FILE>': cannot be read: ";
    assert!(message.contains(expected), "{message}");
    std::fs::write(key.path(), "hunter2 hunter2").unwrap();
    let message = error_message(&["--service-key-file", name(&key)]);
    assert!(
        message.contains("must be 1 to 1,024 visible ASCII"),
        "{message}"
    );
    assert!(!message.contains("hunter2"), "{message}");
    let message = error_message(&[
        "--service-key-file",
        name(&token),
        "--service-key",
        "hunter2",
    ]);
    assert!(message.contains("cannot be used with"), "{message}");
    assert!(!message.contains("hunter2"), "{message}");
}

fn name(file: &NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

#[test]
fn invalid_arguments_are_explained() {
    let message = error_message(&["--listen", "0.0.0.0:0"]);
    for expected in [
        "other machines",
        "DEALKIT_SERVER_SERVICE_KEY,",
        "--service-key-file",
        "DEALKIT_SERVER_SERVICE_KEY_FILE",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    for arguments in [["--service-key", "hunter2 hunter2"], ["--service-key", ""]] {
        let message = error_message(&arguments);
        assert!(
            message.contains("a service key must be 1 to 1,024 visible ASCII"),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert!(!error_message(&["--servicekey=hunter2"]).contains("hunter2"));
    assert!(!error_message(&["--service-key=hunter2", "hunter3"]).contains("hunter2"));
    for (arguments, expected) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--listen", "8080"], "127.0.0.1:8080"),
        (&["--head-timeout", "soon"], "seconds"),
        (&["--head-timeout", "0"], "seconds"),
        (&["--tls-name", "sandbox"], "TLS is off"),
        (&["--log", "xml"], "text"),
        (
            &["--max-agents", "many"],
            "expected a whole number, 0 or more",
        ),
        (
            &["--rate-limit", "0"],
            "expected a whole number from 1 to 65535",
        ),
        (&["--seed", "1"], "--generate"),
        (
            &["--variant", "fancy"],
            "possible values: reference, ok, forbidden,",
        ),
    ] {
        let message = error_message(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn a_port_in_use_exits_with_code_1() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = command(&["--listen", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("choose another port")
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn help_shows_no_values_of_variables() {
    let mut help = command(&["--help"]);
    help.env("DEALKIT_SERVER_SERVICE_KEY", "hunter2")
        .env("DEALKIT_SERVER_DEALS", "hunter2");
    let output = help.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty() && !text.contains("hunter2"));
}

#[test]
fn an_empty_variable_is_ignored() {
    let mut start = command(&["--listen", "127.0.0.1:0"]);
    for name in [
        "SERVICE_KEY",
        "DEALS",
        "MAX_AGENTS",
        "BODY_TIMEOUT",
        "STRICT",
        "TLS",
        "LOG",
    ] {
        start.env(format!("DEALKIT_SERVER_{name}"), "");
    }
    let server = Running::start(start);
    assert_eq!(retrieve_deal(&server, "d_1").status, 200);
}
