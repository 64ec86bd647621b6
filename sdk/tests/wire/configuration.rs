//! Every setting of a client, valid and invalid, from the program and from the environment.
#![cfg(all(feature = "rustls", feature = "blocking"))]

use std::{
    future::IntoFuture,
    net::TcpListener,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use dealkit::{Client, ClientBuilder, Error, ErrorKind, Method, Outcome, blocking};

use crate::{
    child::{CHILD, child},
    mock::{AGENT, DEAL, Service, builder, client, header, target},
    peer::{KEY, ada},
};

/// The text of the configuration error that `build()` returns.
fn refused(builder: ClientBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(error.attempts(), 0);
    assert_eq!(error.status(), None);
    let text = format!("{error} {error:?}");
    assert!(!text.contains("CANARY") && !text.contains(KEY), "{text}");
    error.to_string()
}

/// Polls once, outside of any runtime.
fn poll_once<F: IntoFuture>(call: F) -> Poll<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    let mut future = pin!(call.into_future());
    future.as_mut().poll(&mut context)
}

fn is_config<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(error.outcome(), Outcome::NotSent);
    error.to_string()
}

#[test]
fn base_urls_that_are_fine() {
    for url in [
        "https://deals.example.com",
        "https://deals.example.com/",
        "https://deals.example.com:8443/a/b/",
        "HTTPS://DEALS.EXAMPLE.COM",
        "https://192.0.2.1",
        "https://[2001:db8::1]:8443",
        "https://b\u{fc}cher.example",
        // Plain http, to this machine.
        "http://localhost",
        "http://LOCALHOST:8080",
        "http://localhost.:8080",
        "http://127.0.0.1:8080",
        "http://127.9.8.7",
        "http://2130706433",
        "http://[::1]:8080",
        "http://[::ffff:127.0.0.1]",
    ] {
        let client = builder(url).build();
        assert!(client.is_ok(), "{url}: {client:?}");
    }
}

#[test]
fn base_urls_that_are_wrong() {
    for url in [
        "",
        "deals.example.com",
        "/v1",
        "//deals.example.com",
        "CANARY",
        "https://",
        "https://:CANARY@",
        "https://CANARY:99999",
        "https://[CANARY",
        "https://CANARY example.com",
        "ftp://CANARY.example.com",
        "file:///CANARY",
        "data:CANARY",
        "unix:/CANARY",
        "https://CANARY@deals.example.com",
        "https://CANARY:CANARY@deals.example.com",
        "https://:CANARY@deals.example.com",
        "https://deals.example.com?CANARY",
        "https://deals.example.com/?",
        "https://deals.example.com/#CANARY",
        "https://deals.example.com/#",
    ] {
        let text = refused(builder(url));
        assert!(text.contains("base_url"), "{url}: {text}");
    }
    let text = refused(Client::builder().service_key(KEY));
    assert!(
        text.contains("base_url") && text.contains("DEALKIT_BASE_URL"),
        "{text}"
    );
}

#[test]
fn a_base_url_without_the_version() {
    for url in [
        "https://deals.example.com/v1",
        "https://deals.example.com/v1/",
        "https://deals.example.com/v1//",
        "https://deals.example.com/CANARY/v1",
        "http://127.0.0.1:8080/v1",
    ] {
        assert_eq!(
            refused(builder(url)),
            "base_url must not end in /v1: dealkit adds it by itself",
        );
    }
    for url in [
        "https://deals.example.com/v2",
        "https://deals.example.com/api-v1",
        "https://deals.example.com/v1/deals",
        "https://v1.example.com",
    ] {
        assert!(builder(url).build().is_ok(), "{url}");
    }
}

#[test]
fn plain_http_to_another_machine_needs_consent() {
    for url in [
        "http://CANARY.example.com",
        "http://192.0.2.1:8080",
        "http://0.0.0.0:8080",
        "http://128.0.0.1",
        "http://[2001:db8::1]",
        "http://localhost.example.com",
        "http://notlocalhost",
        "http://127.0.0.1.example.com",
        "http://[::ffff:192.0.2.1]",
    ] {
        let text = refused(builder(url));
        assert!(
            text.contains("allow_http") && text.contains("https"),
            "{text}"
        );
        assert!(builder(url).allow_http(true).build().is_ok(), "{url}");
        refused(builder(url).allow_http(true).allow_http(false));
    }
}

#[test]
fn keys_that_are_fine() {
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
fn keys_that_are_wrong_are_not_repeated() {
    let too_long = "CANARY".repeat(171);
    assert!(too_long.len() > 1024);
    let one_too_many = format!("CANARY{}", "k".repeat(1019));
    assert_eq!(one_too_many.len(), 1025);
    for key in [
        "",
        " ",
        "CANARY ",
        " CANARY",
        "CANARY CANARY",
        "CANARY\n",
        "CANARY\r\nx-evil: 1",
        "CANARY\t",
        "CANARY\0",
        "CANARY\u{7f}",
        "CANARY\u{e4}",
        "CANARY\u{1f600}",
        &too_long,
        &one_too_many,
    ] {
        let text = refused(builder("https://deals.example.com").service_key(key));
        assert!(
            text.contains("service_key") && text.contains("1024"),
            "{text}"
        );
    }
    let text = refused(Client::builder().base_url("https://deals.example.com"));
    assert!(
        text.contains("service_key") && text.contains("DEALKIT_SERVICE_KEY"),
        "{text}"
    );
}

#[test]
fn headers_that_may_not_be_set() {
    for name in [
        "x-service-key",
        "X-Service-Key",
        "X-SERVICE-KEY",
        "host",
        "Host",
        "content-length",
        "Content-Type",
        "transfer-encoding",
        "Connection",
        "expect",
    ] {
        let text = refused(builder("https://deals.example.com").header(name, "CANARY"));
        assert!(text.contains(&name.to_lowercase()), "{text}");
    }
    for (name, value) in [
        ("", "CANARY"),
        ("CANARY CANARY", "CANARY"),
        ("CANARY:", "CANARY"),
        ("x\u{e4}", "CANARY"),
        ("x-team", "CANARY\r\nx-evil: 1"),
        ("x-team", "CANARY\0"),
    ] {
        let text = refused(builder("https://deals.example.com").header(name, value));
        assert!(text.contains("header"), "{text}");
    }
}

#[test]
fn user_agents() {
    let text = refused(builder("https://deals.example.com").user_agent("CANARY\n"));
    assert!(text.contains("user_agent"), "{text}");
    let client = builder("https://deals.example.com")
        .user_agent("mine/1.0 (test)")
        .build()
        .unwrap();
    let request = client.deals().retrieve("d_1").into_request().unwrap();
    assert_eq!(request.headers()["user-agent"], "mine/1.0 (test)");
}

#[test]
fn timeouts_must_be_more_than_zero() {
    let fresh = || builder("https://deals.example.com");
    for (name, wrong) in [
        ("timeout", fresh().timeout(Duration::ZERO)),
        ("attempt_timeout", fresh().attempt_timeout(Duration::ZERO)),
        ("connect_timeout", fresh().connect_timeout(Duration::ZERO)),
    ] {
        let text = refused(wrong);
        assert!(text.contains(name) && text.contains("zero"), "{text}");
    }
    let every = fresh()
        .timeout(Duration::from_nanos(1))
        .attempt_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX);
    assert!(every.build().is_ok());
}

/// The longest possible timeouts mean "no limit", and computing the deadline does not panic.
#[tokio::test]
async fn the_longest_timeouts_work() {
    let service = Service::answering(200, &[], DEAL).await;
    let client = builder(service.url())
        .timeout(Duration::MAX)
        .attempt_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .build()
        .unwrap();
    assert!(client.deals().retrieve("d_1").await.is_ok());
    assert!(
        client
            .deals()
            .retrieve("d_1")
            .timeout(Duration::MAX)
            .await
            .is_ok()
    );
}

/// A call's own timeout is checked in the same way as the client's.
#[tokio::test]
async fn a_call_s_timeout_must_be_more_than_zero() {
    let service = Service::answering(200, &[], DEAL).await;
    let call = service
        .client()
        .deals()
        .retrieve("d_1")
        .timeout(Duration::ZERO);
    let text = is_config(call.await);
    assert!(text.contains("timeout") && text.contains("zero"), "{text}");
    assert!(service.arrived().is_empty());
}

#[test]
fn proxies_that_are_wrong() {
    for (proxy, told) in [
        ("", "proxy is empty: leave it out"),
        ("CANARY CANARY", "white space"),
        (" http://CANARY", "white space"),
        ("http://CANARY\n", "white space"),
        ("http://CANARY\u{0}", "control character"),
        ("http://", "empty host"),
        ("http://:3128", "empty host"),
        ("http://[CANARY", "invalid IPv6"),
        ("http://CANARY:CANARY@[x", "invalid IPv6"),
        ("CANARY:99999", "invalid port"),
        ("socks5://CANARY:1080", "SOCKS proxies are not supported"),
        (
            "SOCKS5h://CANARY:CANARY@CANARY",
            "SOCKS proxies are not supported",
        ),
        ("socks4a://CANARY", "SOCKS proxies are not supported"),
        ("socks://CANARY", "SOCKS proxies are not supported"),
        ("ftp://CANARY", "must begin with http:// or https://"),
        ("://CANARY", "must begin with http:// or https://"),
        ("http://CANARY/proxy.pac", "without a path"),
        ("http://CANARY/?CANARY", "without a path, a query"),
        ("http://CANARY#CANARY", "or a fragment"),
    ] {
        let text = refused(builder("https://deals.example.com").proxy(proxy));
        assert!(
            text.starts_with("proxy ") && text.contains(told),
            "{proxy}: {text}"
        );
    }
}

#[test]
fn proxies_that_are_fine() {
    for proxy in [
        "http://proxy.example.com:3128",
        "HTTP://proxy.example.com:3128/",
        "https://proxy.example.com",
        "http://user:password@proxy.example.com:3128",
        "proxy.example.com:3128",
        "localhost:3128",
        "[::1]:3128",
    ] {
        let client = builder("https://deals.example.com").proxy(proxy).build();
        assert!(client.is_ok(), "{proxy}: {client:?}");
    }
}

#[test]
fn a_wrong_proxy_is_refused_even_where_none_is_used() {
    let text = refused(builder("http://127.0.0.1").proxy("CANARY CANARY"));
    assert!(text.contains("proxy"), "{text}");
}

#[tokio::test]
async fn a_proxy_is_for_other_machines_only() {
    let proxy = Service::answering(200, &[], DEAL).await;
    let service = Service::answering(200, &[], AGENT).await;
    let here = builder(service.url()).proxy(proxy.url()).build().unwrap();
    here.agents().create(ada()).await.unwrap();
    assert_eq!(service.arrived().len(), 1);
    assert!(proxy.arrived().is_empty());

    // .invalid never resolves: only a proxy can have answered.
    let elsewhere = builder("http://deals.invalid/api")
        .allow_http(true)
        .proxy(proxy.url())
        .build()
        .unwrap();
    assert_eq!(elsewhere.deals().retrieve("d_1").await.unwrap().id, "d_1");
    let request = proxy.only();
    assert_eq!(header(&request, "host"), ["deals.invalid"]);
    assert_eq!(target(&request), "/api/v1/deals/d_1");
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

    let fresh = builder("https://deals.example.com/api").header("x-secret", "CANARY");
    let mut shown = format!("{fresh:?} {fresh:#?}");
    let client = fresh.build().unwrap();
    sent(&client.deals().retrieve("d_1").into_future());
    sent(&client.deals().retrieve_many(["d_1"]).stream());
    shown += &format!(
        "{client:?} {client:#?} {:?} {:?}",
        client.agents(),
        client.deals()
    );
    shown += &format!(
        "{:?}",
        client.deals().retrieve("d_1").into_request().unwrap()
    );
    let blocking = blocking::Client::new(client).unwrap();
    shown += &format!(
        "{blocking:?} {:?} {:?}",
        blocking.deals(),
        blocking.deals().retrieve("d_1")
    );
    assert!(!shown.contains(KEY), "{shown}");
    assert!(shown.contains("deals.example.com"), "{shown}");
}

#[test]
fn debug_hides_the_headers_of_a_client() {
    let client = builder("https://deals.example.com")
        .header("x-secret", "CANARY")
        .build()
        .unwrap();
    let shown = format!("{client:?} {:?}", client.deals().retrieve("d_1"));
    assert!(!shown.contains("CANARY"), "{shown}");
}

#[test]
fn a_call_without_a_runtime_is_an_error_and_no_panic() {
    let client = client("http://127.0.0.1:9");
    let Poll::Ready(outcome) = poll_once(client.deals().retrieve("d_1")) else {
        panic!("is still waiting");
    };
    let text = is_config(outcome);
    assert!(
        text.contains("Tokio") && text.contains("blocking"),
        "{text}"
    );
    let Poll::Ready(outcome) = poll_once(client.agents().create(ada()).with_response()) else {
        panic!("is still waiting");
    };
    is_config(outcome);
    let Poll::Ready(outcome) = poll_once(client.request(Method::GET, ["x"])) else {
        panic!("is still waiting");
    };
    is_config(outcome);
    let mut many = client.deals().retrieve_many(["d_1"]).stream();
    let mut next = pin!(many.next());
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(item)) = next.as_mut().poll(&mut context) else {
        panic!("is still waiting");
    };
    is_config(item.result);
}

#[test]
fn a_client_works_on_one_runtime_after_another() {
    let service = Service::answering_blocking(200, DEAL);
    let client = service.client();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let deal = runtime.block_on(client.deals().retrieve("d_1").into_future());
        assert_eq!(deal.unwrap().id, "d_1");
    }
    assert_eq!(service.arrived().len(), 3);
}

/// "It works on any Tokio runtime", even while another one on which it was used before is blocked.
#[test]
fn a_client_works_on_a_runtime_while_another_stands_still() {
    let service = Service::answering_blocking(200, DEAL);
    let client = service.client();
    let retrieve = || {
        client
            .deals()
            .retrieve("d_1")
            .timeout(Duration::from_secs(3))
            .into_future()
    };
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (one, two) = (runtime(), runtime());
    for round in 0..2 {
        one.block_on(retrieve())
            .unwrap_or_else(|error| panic!("one, {round}: {error}"));
        two.block_on(retrieve())
            .unwrap_or_else(|error| panic!("two, {round}: {error}"));
    }
}

/// The same when the other runtime is the blocking client's.
#[test]
fn a_client_may_be_used_both_ways() {
    let service = Service::answering_blocking(200, DEAL);
    let client = service.client();
    let blocking = blocking::Client::new(client.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for round in 0..2 {
        let call = blocking
            .deals()
            .retrieve("d_1")
            .timeout(Duration::from_secs(3));
        call.send()
            .unwrap_or_else(|error| panic!("blocking, {round}: {error}"));
        let call = client
            .deals()
            .retrieve("d_1")
            .timeout(Duration::from_secs(3));
        let outcome = runtime.block_on(call.into_future());
        outcome.unwrap_or_else(|error| panic!("async, {round}: {error}"));
    }
}

/// It blocks the thread, but it neither panics nor fails.
#[test]
fn the_blocking_client_works_inside_a_runtime() {
    let service = Service::answering_blocking(200, AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let inside = || {
        client.deals().retrieve("d_1").send().unwrap();
        client
            .deals()
            .retrieve("d_1")
            .with_response()
            .send()
            .unwrap();
        client.agents().create(ada()).send().unwrap();
        client.request(Method::GET, ["x"]).send().unwrap();
        let many = client.deals().retrieve_many(["d_1", "..", "d_2"]);
        let items: Vec<_> = many
            .into_iter()
            .map(|item| (item.index, item.result.is_ok()))
            .collect();
        assert_eq!(items, [(0, true), (1, false), (2, true)]);
    };
    let one = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    one.block_on(async { inside() });
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    threads.block_on(async { inside() });
    std::thread::scope(|scope| {
        scope.spawn(inside);
    });
    assert_eq!(service.arrived().len(), 3 * 6);
}

#[test]
fn a_blocking_client_may_be_made_and_dropped_inside_a_runtime() {
    let service = Service::answering_blocking(200, DEAL);
    let used = blocking::Client::new(service.client()).unwrap();
    used.deals().retrieve("d_1").send().unwrap();
    for runtime in [
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap(),
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap(),
    ] {
        let used = used.clone();
        runtime.block_on(async move {
            drop(used);
            drop(blocking::Client::new(client("http://127.0.0.1:9")).unwrap());
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async move { drop(used) });
}

// The environment belongs to the process: whatever reads it runs in a child.

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
fn from_env_reads_both_variables() {
    let told = child(
        "configuration::child_from_env",
        &[
            ("DEALKIT_BASE_URL", "https://deals.example.com/api/"),
            ("DEALKIT_SERVICE_KEY", KEY),
        ],
    );
    let expected = format!(
        "TOLD: https://deals.example.com/api/v1/deals/d_1 with a key of {}",
        KEY.len()
    );
    assert_eq!(told.matches(&expected).count(), 2, "{told}");
}

#[test]
fn from_env_says_which_variable_is_missing_or_wrong() {
    let url = ("DEALKIT_BASE_URL", "https://deals.example.com");
    let key = ("DEALKIT_SERVICE_KEY", KEY);
    for (variables, named) in [
        (vec![], "DEALKIT_BASE_URL"),
        (vec![key], "DEALKIT_BASE_URL"),
        (vec![url], "DEALKIT_SERVICE_KEY"),
        (vec![("DEALKIT_BASE_URL", ""), key], "base_url"),
        (
            vec![("DEALKIT_BASE_URL", "http://CANARY.example.com"), key],
            "allow_http",
        ),
        (vec![url, ("DEALKIT_SERVICE_KEY", "")], "service_key"),
        (
            vec![url, ("DEALKIT_SERVICE_KEY", "CANARY CANARY")],
            "service_key",
        ),
    ] {
        let told = child("configuration::child_from_env", &variables);
        let lines: Vec<&str> = told
            .lines()
            .filter(|line| line.contains("TOLD: "))
            .collect();
        assert_eq!(lines.len(), 2, "{told}");
        for line in lines {
            assert!(
                line.contains("TOLD: Config: ") && line.contains(named),
                "{line}"
            );
            assert!(!line.contains("CANARY"), "{line}");
        }
    }
}

#[cfg(unix)]
#[test]
fn from_env_survives_what_is_not_unicode() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command
        .args(["configuration::child_from_env", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("DEALKIT_BASE_URL", "https://deals.example.com")
        .env("DEALKIT_SERVICE_KEY", OsStr::from_bytes(b"CANARY\xff"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("TOLD: Config: ") && told.contains("DEALKIT_SERVICE_KEY"),
        "{told}"
    );
    assert!(!told.contains("CANARY"), "{told}");
}

/// Calls the service that the variable names, with the async and with the blocking client.
#[test]
fn child_calls() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // One client for each: using one on two runtimes is tested elsewhere.
    let client = || {
        Client::builder()
            .base_url(std::env::var("DEALKIT_BASE_URL").unwrap())
            .service_key(KEY)
            .allow_http(true)
            .build()
            .unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(client().agents().create(ada()).into_future());
    println!("TOLD: {:?}", outcome.map(|agent| agent.id));
    let outcome = blocking::Client::new(client())
        .unwrap()
        .agents()
        .create(ada())
        .send();
    println!("TOLD: {:?}", outcome.map(|agent| agent.id));
}

#[test]
fn loopback_never_goes_through_the_environment_s_proxy() {
    let service = Service::answering_blocking(200, AGENT);
    let port = service.url().rsplit(':').next().unwrap().to_owned();
    // A proxy that nobody runs: whatever is sent there fails.
    let dead = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let dead = format!("http://{dead}");
    let mut hosts = vec!["127.0.0.1", "localhost"];
    if cfg!(unix) {
        // Windows makes IPv6 sockets without IPv4 (IPV6_V6ONLY), from which this address cannot be reached.
        hosts.push("[::ffff:127.0.0.1]");
    }
    let mut calls = 0;
    for host in hosts {
        let url = format!("http://{host}:{port}");
        let told = child(
            "configuration::child_calls",
            &[
                ("DEALKIT_BASE_URL", &url),
                ("HTTP_PROXY", &dead),
                ("http_proxy", &dead),
                ("HTTPS_PROXY", &dead),
                ("ALL_PROXY", &dead),
                ("all_proxy", &dead),
            ],
        );
        calls += 2;
        assert_eq!(
            told.matches("TOLD: Ok(\"a_1\")").count(),
            2,
            "{url}: {told}"
        );
        assert_eq!(service.arrived().len(), calls, "{url}");
    }
}

/// Without this, the test above could pass even if the variables had no effect.
#[test]
fn other_hosts_go_through_the_environment_s_proxy() {
    let proxy = Service::answering_blocking(200, AGENT);
    for (at, variable) in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"]
        .into_iter()
        .enumerate()
    {
        let told = child(
            "configuration::child_calls",
            &[
                ("DEALKIT_BASE_URL", "http://deals.invalid"),
                (variable, &proxy.url()),
            ],
        );
        assert_eq!(
            told.matches("TOLD: Ok(\"a_1\")").count(),
            2,
            "{variable}: {told}"
        );
        assert_eq!(proxy.arrived().len(), (at + 1) * 2, "{variable}");
    }
}
