//! The real binary: its first line, its end by signals, and what it says to a beginner.

mod support;

use std::process::Output;

use support::{
    get_deal,
    process::{Running, command},
    send,
};

fn refused(arguments: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command(arguments).output().unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}");
    assert!(stdout.is_empty(), "{arguments:?} wrote to standard output");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn the_first_line_is_the_bound_address() {
    let server = Running::start(command(&["--listen", "127.0.0.1:0"]));
    assert_eq!(
        server.first_line,
        format!("dealkit-server listening on http://{}\n", server.address)
    );
    assert_ne!(server.address.port(), 0);
    assert_eq!(send(server.address, get_deal("d_1").as_bytes()).status, 200);
}

#[cfg(unix)]
#[test]
fn signals_end_it_with_code_0() {
    use rustix::process::Signal;
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Running::start(command(&["--listen", "127.0.0.1:0", "--log", "json"]));
        assert_eq!(
            send(server.address, &[get_deal("d_1").as_bytes(), b""].concat()).status,
            200
        );
        server.signal(signal);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal:?}");
        // The log is complete although the process has ended.
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
        server.address,
        get_deal("secret-id")
            .replace("sandbox-key", "hunter2")
            .as_bytes(),
    );
    send(
        server.address,
        b"FETCH-SECRET /secret-id HTTP/1.1\r\nhost: h\r\n\r\n",
    );
    server.signal(rustix::process::Signal::TERM);
    let log = server.stderr();
    assert!(
        log.starts_with("GET /v1/deals/{id} 404 ") && log.contains("\n(other) (unknown) 404 "),
        "{log}"
    );
    assert!(
        !log.contains("secret-id") && !log.contains("SECRET") && !log.contains("hunter2"),
        "{log}"
    );
}

/// Nobody reads the log: requests must be answered all the same.
#[test]
fn an_unread_log_holds_nothing_up() {
    let server = Running::start(command(&["--listen", "127.0.0.1:0"]));
    let id = "i".repeat(128);
    let request = get_deal("d_1").replace("\r\n\r\n", &format!("\r\nx-request-id: {id}\r\n\r\n"));
    for _ in 0..1_500 {
        assert_eq!(send(server.address, request.as_bytes()).status, 200);
    }
}

#[test]
fn settings_come_from_the_environment_too_and_flags_win() {
    let mut from_environment = command(&[]);
    from_environment
        .env("DEALKIT_SERVER_LISTEN", "127.0.0.1:0")
        .env("DEALKIT_SERVER_SERVICE_KEY", "from-env")
        .env("DEALKIT_SERVER_GENERATE", "3")
        .env("DEALKIT_SERVER_STRICT", "true")
        // The client's variables are not the server's.
        .env("DEALKIT_SERVICE_KEY", "client")
        .env("DEALKIT_BASE_URL", "http://127.0.0.1:1");
    let server = Running::start(from_environment);
    let get = |key: &str| {
        send(
            server.address,
            get_deal("g_2").replace("sandbox-key", key).as_bytes(),
        )
        .status
    };
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
    assert_eq!(send(server.address, request.as_bytes()).status, 200);
}

#[test]
fn a_bad_seed_starts_nothing_and_says_where() {
    let path = std::env::temp_dir().join(format!("dealkit-process-{}", std::process::id()));
    let name = path.to_str().unwrap();
    for (content, expected) in [
        (
            r#"[{"id":"x"},{"id":"y","quotes":[{"created_at":7}]}]"#,
            ": index 1: /quotes/0/created_at: ",
        ),
        (
            "{\"id\":\"x\"}\n{\"id\":\"y\",\"metadata\":{\"a\":1}}\n",
            ": line 2: /metadata/a: ",
        ),
        ("{\"id\":\"x\"}\n{\"id\":\"x\"}\n", ": line 2: /id: "),
    ] {
        std::fs::write(&path, content).unwrap();
        let message = refused(&["--listen", "127.0.0.1:0", "--deals", name]);
        assert!(
            message.starts_with(&format!("error: {name}{expected}")),
            "{message}"
        );
    }
    std::fs::remove_file(&path).unwrap();
    assert!(
        refused(&["--deals", "/no/such/file"])
            .starts_with("error: /no/such/file: cannot be read: ")
    );
}

#[test]
fn wrong_use_is_explained() {
    let message = refused(&["--listen", "0.0.0.0:0"]);
    assert!(
        message.contains("other machines") && message.contains("--service-key"),
        "{message}"
    );
    for arguments in [["--service-key", "hunter2 hunter2"], ["--service-key", ""]] {
        let message = refused(&arguments);
        assert!(
            message.contains("visible ASCII") && message.contains("--service-key"),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }
    assert!(!refused(&["--servicekey=hunter2"]).contains("hunter2"));
    assert!(!refused(&["--service-key=hunter2", "hunter3"]).contains("hunter2"));
    for (arguments, expected) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--listen", "8080"], "127.0.0.1:8080"),
        (&["--head-deadline", "soon"], "seconds"),
        (&["--head-deadline", "0"], "seconds"),
        (&["--max-head-bytes", "10"], "8192"),
        (&["--max-connections", "0"], "0"),
        (&["--log", "xml"], "text"),
        (&["--seed", "1"], "--generate"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn a_taken_port_is_code_1() {
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
fn help_names_every_flag_and_shows_no_environment() {
    let mut help = command(&["--help"]);
    help.env("DEALKIT_SERVER_SERVICE_KEY", "hunter2")
        .env("DEALKIT_SERVER_DEALS", "hunter2");
    let output = help.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty() && !text.contains("hunter2"));
    for flag in [
        "listen",
        "service-key",
        "deals",
        "generate",
        "seed",
        "strict",
        "log",
        "max-body-bytes",
        "max-agents",
        "max-head-bytes",
        "max-connections",
        "head-deadline",
        "body-deadline",
        "drain-deadline",
    ] {
        assert!(text.contains(&format!("--{flag}")), "{flag}");
        let variable = format!("DEALKIT_SERVER_{}", flag.replace('-', "_").to_uppercase());
        assert!(text.contains(&variable), "{variable}");
    }
}
