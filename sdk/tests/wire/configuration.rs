//! Settings of a client: valid and invalid values, from the program and from the environment.
#![cfg(all(feature = "rustls", feature = "blocking"))]

use std::{
    future::IntoFuture,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use dealkit::{Client, ClientBuilder, Error, ErrorKind, Outcome, blocking};

use crate::{
    child::{CHILD, child},
    peer::{AGENT, DEAL, HANG_LIMIT, KEY, Peer, ada, builder, client, runtime},
};

/// Returns the message of the configuration error of `build()`.
fn build_error(builder: ClientBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(error.attempts(), 0);
    assert_eq!(error.status(), None);
    let text = format!("{error} {error:?}");
    assert!(!text.contains("CANARY") && !text.contains(KEY), "{text}");
    error.to_string()
}

/// Polls a call once, outside of any runtime.
fn poll_once<F: IntoFuture>(call: F) -> Poll<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(call.into_future());
    future.as_mut().poll(&mut context)
}

/// Returns the message of a configuration error.
fn config_error<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(error.outcome(), Outcome::NotSent);
    error.to_string()
}

#[test]
fn valid_base_urls_are_accepted() {
    for url in [
        "https://deals.example.com",
        "https://deals.example.com/",
        "https://deals.example.com:8443/a/b/",
        "HTTPS://DEALS.EXAMPLE.COM",
        "https://[2001:db8::1]:8443",
        "https://b\u{fc}cher.example",
        "https://deals.example.com/api-v1",
        // Plain http is allowed to this machine.
        "http://localhost",
        "http://LOCALHOST:8080",
        "http://127.0.0.1:8080",
        "http://2130706433",
        "http://[::1]:8080",
        "http://[::ffff:127.0.0.1]",
    ] {
        let client = builder(url).build();
        assert!(client.is_ok(), "{url}: {client:?}");
    }
}

#[test]
fn invalid_base_urls_are_rejected() {
    for url in [
        "",
        "deals.example.com",
        "https://",
        "https://CANARY:99999",
        "ftp://CANARY.example.com",
        "https://CANARY@deals.example.com",
        "https://deals.example.com?CANARY",
        "https://deals.example.com/#CANARY",
        "https://deals.example.com/v1",
        "https://deals.example.com/CANARY/v1//",
    ] {
        let text = build_error(builder(url));
        assert!(text.contains("base_url"), "{url}: {text}");
    }
    let text = build_error(Client::builder().service_key(KEY));
    assert!(
        text.contains("base_url") && text.contains("DEALKIT_BASE_URL"),
        "{text}"
    );
}

#[test]
fn plain_http_to_another_machine_needs_consent() {
    for url in [
        "http://CANARY.example.com",
        "http://0.0.0.0:8080",
        "http://[2001:db8::1]",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://[::ffff:192.0.2.1]",
    ] {
        let text = build_error(builder(url));
        assert!(
            text.ends_with(" [see allow_http]") && text.contains("use https"),
            "{text}"
        );
        let setting = builder(url).build().unwrap_err().setting();
        assert_eq!(setting, Some("allow_http"));
        assert!(builder(url).allow_http(true).build().is_ok(), "{url}");
        build_error(builder(url).allow_http(true).allow_http(false));
    }
}

#[test]
fn valid_keys_are_accepted() {
    let longest = "k".repeat(1024);
    let every: String = ('!'..='~').collect();
    for key in ["k", longest.as_str(), every.as_str()] {
        let client = builder("https://deals.example.com")
            .service_key(key)
            .build()
            .unwrap();
        let request = client.deals().retrieve("d_1").into_request().unwrap();
        assert_eq!(request.headers()["x-service-key"], key);
        assert!(request.headers()["x-service-key"].is_sensitive());
    }
}

#[test]
fn invalid_keys_are_rejected_and_not_shown() {
    let too_long = "CANARY".repeat(171);
    let one_too_many = format!("CANARY{}", "k".repeat(1019));
    for key in [
        "",
        "CANARY ",
        "CANARY CANARY",
        "CANARY\r\nx-evil: 1",
        "CANARY\u{e4}",
        &too_long,
        &one_too_many,
    ] {
        let text = build_error(builder("https://deals.example.com").service_key(key));
        assert!(
            text.contains("service_key") && text.contains("1024"),
            "{text}"
        );
    }
    let text = build_error(Client::builder().base_url("https://deals.example.com"));
    assert!(
        text.contains("service_key") && text.contains("DEALKIT_SERVICE_KEY"),
        "{text}"
    );
}

#[test]
fn headers_that_only_the_client_sets_are_rejected() {
    for name in [
        "x-service-key",
        "X-Service-Key",
        "host",
        "content-length",
        "Content-Type",
        "transfer-encoding",
        "Connection",
        "expect",
    ] {
        let text = build_error(builder("https://deals.example.com").header(name, "CANARY"));
        assert!(text.contains(&name.to_lowercase()), "{text}");
        assert_eq!(call_header_error(name, "CANARY"), text);
    }
    for (name, value) in [
        ("", "CANARY"),
        ("CANARY CANARY", "CANARY"),
        ("CANARY:", "CANARY"),
        ("x\u{e4}", "CANARY"),
        ("x-team", "CANARY\r\nx-evil: 1"),
        ("x-team", "CANARY\0"),
    ] {
        let text = build_error(builder("https://deals.example.com").header(name, value));
        assert!(text.contains("header"), "{text}");
        assert_eq!(call_header_error(name, value), text);
    }
}

/// Returns the message of the error of a call with this header.
fn call_header_error(name: &str, value: &str) -> String {
    let call = client("https://deals.example.com")
        .deals()
        .retrieve("CANARY");
    let text = config_error(call.header(name, value).into_request());
    assert!(!text.contains("CANARY"), "{text}");
    text.split_once(": ").unwrap().1.to_owned()
}

#[test]
fn timeouts_must_be_more_than_zero() {
    let fresh = || builder("https://deals.example.com");
    for (name, wrong) in [
        ("timeout", fresh().timeout(Duration::ZERO)),
        ("attempt_timeout", fresh().attempt_timeout(Duration::ZERO)),
        ("connect_timeout", fresh().connect_timeout(Duration::ZERO)),
    ] {
        let text = build_error(wrong);
        assert!(text.contains(name) && text.contains("zero"), "{text}");
    }
    let error = fresh().timeout(Duration::ZERO).build().unwrap_err();
    assert_eq!(error.setting(), Some("timeout"));
    let call = fresh().build().unwrap().deals().retrieve("d_1");
    let outcome = runtime().block_on(call.timeout(Duration::ZERO).into_future());
    assert!(config_error(outcome).contains("timeout must be more than zero"));
    let every = fresh()
        .timeout(Duration::from_nanos(1))
        .attempt_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX);
    assert!(every.build().is_ok());
}

#[test]
fn invalid_proxies_are_rejected() {
    for (proxy, message) in [
        ("", "proxy is empty: leave it out"),
        ("CANARY CANARY", "white space"),
        ("http://CANARY\n", "white space"),
        ("http://CANARY\u{0}", "control character"),
        ("http://", "empty host"),
        ("http://[CANARY", "invalid IPv6"),
        ("CANARY:99999", "invalid port"),
        ("socks5://CANARY:1080", "SOCKS proxies are not supported"),
        (
            "SOCKS5h://CANARY:CANARY@CANARY",
            "SOCKS proxies are not supported",
        ),
        ("ftp://CANARY", "must begin with http:// or https://"),
        ("http://CANARY/proxy.pac", "without a path"),
        ("http://CANARY#CANARY", "or a fragment"),
    ] {
        // The proxy is checked even for a loopback address, for which it is not used.
        for url in ["https://deals.example.com", "http://127.0.0.1"] {
            let text = build_error(builder(url).proxy(proxy));
            assert!(
                text.starts_with("proxy ") && text.contains(message),
                "{proxy}: {text}"
            );
        }
    }
}

#[test]
fn a_client_is_shared_and_shows_no_key() {
    fn shared<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}
    fn sent<T: Send>(_: &T) {}
    shared::<Client>();
    shared::<dealkit::Agents>();
    shared::<dealkit::Deals>();
    shared::<blocking::Client>();
    shared::<blocking::Agents>();
    shared::<blocking::Deals>();
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_error::<Error>();

    let client = client("https://deals.example.com");
    sent(&client.deals().retrieve("d_1").into_future());
    sent(&client.deals().retrieve_many(["d_1"]).stream());
    let blocking = blocking::Client::new(client).unwrap();
    let call = blocking.deals().retrieve("CANARY");
    let shown = format!("{blocking:?} {:?} {call:?}", blocking.deals());
    assert!(!shown.contains(KEY) && !shown.contains("CANARY"), "{shown}");
    assert!(shown.contains("deals.example.com"), "{shown}");
}

#[test]
fn a_call_without_a_runtime_is_an_error() {
    let client = client("http://127.0.0.1:9");
    let Poll::Ready(outcome) = poll_once(client.deals().retrieve("d_1")) else {
        panic!("is still waiting");
    };
    let text = config_error(outcome);
    assert!(
        text.contains("Tokio") && text.contains("blocking"),
        "{text}"
    );
    let mut many = client.deals().retrieve_many(["d_1"]).stream();
    let mut next = pin!(many.next());
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(item)) = next.as_mut().poll(&mut context) else {
        panic!("is still waiting");
    };
    config_error(item.result);
}

/// An idle connection belongs to the runtime that made it, so the other runtime needs a new connection.
#[test]
fn a_client_works_on_a_runtime_while_another_is_blocked() {
    let service = Peer::answering(200, &[], DEAL);
    let client = service.client();
    let runtimes = [runtime(), runtime()];
    for runtime in runtimes.iter().chain(&runtimes) {
        let call = client.deals().retrieve("d_1");
        let call = call.timeout(HANG_LIMIT);
        runtime.block_on(call.into_future()).unwrap();
    }
}

/// The client blocks the thread. It does not panic, even if it is created or dropped there.
#[test]
fn the_blocking_client_works_inside_a_runtime() {
    let service = Peer::answering(200, &[], AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let inside = |client: blocking::Client| {
        client.deals().retrieve("d_1").send().unwrap();
        client.agents().create(ada()).send().unwrap();
        let many = client.deals().retrieve_many(["d_1", "..", "d_2"]);
        let items: Vec<_> = many
            .into_iter()
            .map(|item| (item.index, item.result.is_ok()))
            .collect();
        assert_eq!(items, [(0, true), (1, false), (2, true)]);
        drop(client);
        drop(blocking::Client::new(service.client()).unwrap());
    };
    runtime().block_on(async { inside(client.clone()) });
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    threads.block_on(async { inside(client) });
    assert_eq!(service.arrived().len(), 2 * 4);
}

// The environment belongs to the process, so tests of variables run in child processes.

#[test]
fn child_from_env() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    for outcome in [
        Client::from_env(),
        blocking::Client::from_env().and_then(|_| Client::from_env()),
    ] {
        match outcome {
            Ok(client) => {
                let request = client.deals().retrieve("d_1").into_request().unwrap();
                let length = request.headers()["x-service-key"].len();
                println!("TOLD: {} with a key of {length}", request.uri());
            }
            Err(error) => println!("TOLD: {:?}: {error}", error.kind()),
        }
    }
}

#[test]
fn from_env_reads_the_variables_that_are_not_empty() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    let expected = format!(
        "TOLD: https://deals.example.com/api/v1/deals/d_1 with a key of {}",
        KEY.len()
    );
    let file = file.path().to_str().unwrap();
    for (key, file) in [
        (Some(KEY), None),
        (None, Some(file)),
        (Some(KEY), Some("")),
        (Some(""), Some(file)),
    ] {
        let mut variables = vec![("DEALKIT_BASE_URL", "https://deals.example.com/api/")];
        variables.extend(key.map(|key| ("DEALKIT_SERVICE_KEY", key)));
        variables.extend(file.map(|file| ("DEALKIT_SERVICE_KEY_FILE", file)));
        let output = child("configuration::child_from_env", &variables);
        assert_eq!(output.matches(&expected).count(), 2, "{output}");
    }
}

#[test]
fn from_env_names_the_missing_or_invalid_variable() {
    let url = ("DEALKIT_BASE_URL", "https://deals.example.com");
    let key = ("DEALKIT_SERVICE_KEY", KEY);
    for (variables, named) in [
        (vec![], "DEALKIT_BASE_URL"),
        (vec![key], "DEALKIT_BASE_URL"),
        (vec![url], "DEALKIT_SERVICE_KEY"),
        (
            vec![("DEALKIT_BASE_URL", ""), key],
            "base_url is missing: set it, or set the environment variable DEALKIT_BASE_URL",
        ),
        (
            vec![("DEALKIT_BASE_URL", "http://CANARY.example.com"), key],
            "allow_http",
        ),
        (
            vec![
                url,
                ("DEALKIT_SERVICE_KEY", ""),
                ("DEALKIT_SERVICE_KEY_FILE", ""),
            ],
            "service_key is missing: set it, or set the environment variable DEALKIT_SERVICE_KEY or DEALKIT_SERVICE_KEY_FILE",
        ),
        (
            vec![url, ("DEALKIT_SERVICE_KEY", "\"CANARY\"")],
            "service_key must not be in quotation marks: remove them",
        ),
        (
            vec![("DEALKIT_BASE_URL", "'https://CANARY.example.com'"), key],
            "base_url must not be in quotation marks: remove them",
        ),
        (
            vec![url, ("DEALKIT_SERVICE_KEY", "CANARY CANARY")],
            "service_key",
        ),
        (
            vec![url, key, ("DEALKIT_SERVICE_KEY_FILE", "/nowhere")],
            "both of the environment variables",
        ),
        (
            vec![url, ("DEALKIT_SERVICE_KEY_FILE", "/nowhere")],
            "service_key_file /nowhere cannot be read",
        ),
    ] {
        let output = child("configuration::child_from_env", &variables);
        let lines: Vec<&str> = output
            .lines()
            .filter(|line| line.contains("TOLD: "))
            .collect();
        assert_eq!(lines.len(), 2, "{output}");
        for line in lines {
            assert!(
                line.contains("TOLD: Config: ") && line.contains(named),
                "{line}"
            );
            assert!(!line.contains("CANARY"), "{line}");
        }
    }
}

/// In a child process, whose variables are wrong or missing where the program overrides them.
#[test]
fn a_builder_overrides_the_environment() {
    const NAME: &str = "configuration::a_builder_overrides_the_environment";
    if std::env::var_os(CHILD).is_none() {
        let (key, file) = (
            ("DEALKIT_SERVICE_KEY", KEY),
            ("DEALKIT_SERVICE_KEY_FILE", "/nowhere"),
        );
        child(NAME, &[("DEALKIT_BASE_URL", "CANARY"), key, file]);
        child(NAME, &[]);
        return;
    }
    let url = "https://deals.example.com";
    let timeout = Duration::from_secs(7);
    // Also if the program overrides the environment before it asks for it.
    for builder in [
        Client::builder()
            .from_env()
            .base_url(url)
            .service_key("mine"),
        Client::builder()
            .base_url(url)
            .service_key("mine")
            .from_env(),
    ] {
        let client = builder.timeout(timeout).build().unwrap();
        assert_eq!(client.timeout(), timeout);
        let request = client.deals().retrieve("d_1").into_request().unwrap();
        assert_eq!(request.uri(), "https://deals.example.com/v1/deals/d_1");
        assert_eq!(request.headers()["x-service-key"], "mine");
    }
    let blocking = blocking::Client::builder().from_env().base_url(url);
    blocking.service_key("mine").build().unwrap();
    let without_key = Client::builder().from_env().base_url(url);
    let text = build_error(without_key);
    assert!(text.contains("DEALKIT_SERVICE_KEY_FILE"), "{text}");
}
