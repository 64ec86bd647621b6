//! Proxies: tunnels for https, forwarded requests for http, errors with advice, and proxies in the environment variables.

use std::{error::Error as _, thread, time::Duration};

use dealkit::{Client, ClientBuilder, Error, ErrorKind, Outcome};

use crate::{
    child::{CHILD, child},
    peer::{
        Blackhole, Http1, Http2, Peer, Protocol, Step, ada, all_texts, answer, builder,
        proxy::{Proxy, ProxyBehavior},
        runtime,
        tls::{Authority, Tls, TlsFront},
        unreachable_url,
    },
};

/// A host name that only the proxies of these tests resolve, to the service behind them.
const HOST: &str = "deals.invalid";

/// The value of `Proxy-Authorization` for [`USER`] in a URL.
const AUTHORIZATION: &str = "Basic YWRhOnBhIHM6dHIzMw==";
const USER: &str = "ada:pa%20s:tr33";

/// Starts a service with a certificate for [`HOST`]. Returns it and its issuer's certificate.
fn start_with_tls(protocol: Protocol) -> (TlsFront, String) {
    let authority = Authority::new();
    let leaf = authority.issue_changed(|params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName(HOST.try_into().unwrap())];
    });
    (
        TlsFront::start(Peer::succeeding(protocol), &Tls::new(&leaf)),
        authority.pem(),
    )
}

fn tls_client(proxy: &str) -> ClientBuilder {
    builder(&format!("https://{HOST}")).proxy(proxy)
}

fn plain_client(proxy: &str) -> ClientBuilder {
    builder(&format!("http://{HOST}"))
        .allow_http(true)
        .proxy(proxy)
}

/// Returns the results of a create and of a read, and checks that they show nothing of the proxy's password.
async fn make_calls(builder: &ClientBuilder) -> Vec<Result<String, Error>> {
    let client = builder.clone().build().unwrap();
    let outcomes = vec![
        client
            .agents()
            .create(ada())
            .await
            .map(|agent| agent.id.to_string()),
        client
            .deals()
            .retrieve("x_1")
            .await
            .map(|deal| deal.id.to_string()),
    ];
    let mut shown = format!("{builder:?} {client:?} {outcomes:?}");
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        shown += &all_texts(error);
    }
    for secret in ["pa%20s", "pa s", "tr33", "YWRhOnBh", "CANARY"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    outcomes
}

async fn assert_succeeds(builder: &ClientBuilder) {
    for outcome in make_calls(builder).await {
        assert_eq!(outcome.unwrap(), "x_1");
    }
}

/// Checks that no connection can be made, with this text in the message.
async fn assert_fails(builder: &ClientBuilder, message: &str, attempts: u32) {
    for outcome in make_calls(builder).await {
        let error = outcome.unwrap_err();
        assert!(
            error.to_string().contains(message),
            "{error} {:?}",
            error.source()
        );
        assert_eq!(
            (error.kind(), error.outcome(), error.attempts()),
            (ErrorKind::Connect, Outcome::NotSent, attempts),
            "{error:?}"
        );
    }
}

const UNAUTHORIZED: &str = "the proxy rejects the connection: 407 Proxy Authentication Required; does its URL \
    contain the right user name and password";
const NOT_CONNECTED: &str = "the proxy does not connect to the service";
const UNREACHABLE: &str = "the proxy cannot be reached; is its address right, and is it up?";

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    for protocol in [Http1, Http2] {
        let (front, issuer) = start_with_tls(protocol);
        let proxy = Proxy::start(ProxyBehavior::Serve(front.address()));
        assert_succeeds(&tls_client(&proxy.url()).root_certificates(&issuer)).await;
        let heads = proxy.heads();
        assert!(!heads.is_empty());
        for head in heads {
            assert!(
                head.starts_with(
                    "CONNECT deals.invalid:443 HTTP/1.1\r\nHost: deals.invalid:443\r\n"
                ),
                "{head}"
            );
            assert!(!head.to_lowercase().contains("authorization"), "{head}");
            assert!(!head.contains("K3Y-canary"), "{head}");
        }
        // The requests in the tunnel are the same as without a proxy.
        let alpn = if protocol == Http1 { "http/1.1" } else { "h2" };
        for handshake in front.handshakes() {
            assert_eq!(handshake.alpn.as_deref(), Some(alpn));
        }
        let heard = front.peer.counts().received.concat();
        assert!(
            !String::from_utf8_lossy(&heard)
                .to_lowercase()
                .contains("proxy")
        );
    }
}

#[tokio::test]
async fn a_proxy_gets_the_password_and_the_service_does_not() {
    let (front, issuer) = start_with_tls(Http1);
    let proxy = Proxy::start(ProxyBehavior::ServeAuthenticated(
        front.address(),
        AUTHORIZATION,
    ));
    assert_succeeds(&tls_client(&proxy.url_for(USER)).root_certificates(&issuer)).await;
    let peer = Peer::succeeding(Http1);
    let proxy = Proxy::start(ProxyBehavior::ServeAuthenticated(
        peer.address(),
        AUTHORIZATION,
    ));
    assert_succeeds(&plain_client(&proxy.url_for(USER))).await;
    for service in [front.peer, peer] {
        let heard = service.counts().received.concat();
        let heard = String::from_utf8(heard).unwrap().to_lowercase();
        assert!(
            heard.contains("x-service-key") && !heard.contains("proxy-"),
            "{heard}"
        );
    }
}

#[tokio::test]
async fn the_proxy_forwards_plain_http() {
    let peer = Peer::succeeding(Http1);
    let proxy = Proxy::start(ProxyBehavior::Serve(peer.address()));
    assert_succeeds(&plain_client(&proxy.url())).await;
    let message = [
        "POST http://deals.invalid/v1/agents HTTP/1.1",
        "GET http://deals.invalid/v1/deals/x_1 HTTP/1.1",
    ];
    assert_eq!(proxy.lines(), message);
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_reported_with_advice() {
    let (front, issuer) = start_with_tls(Http1);
    let proxy = Proxy::start(ProxyBehavior::ServeAuthenticated(
        front.address(),
        AUTHORIZATION,
    ));
    for url in [proxy.url(), proxy.url_for("ada:password")] {
        assert_fails(
            &tls_client(&url).root_certificates(&issuer),
            UNAUTHORIZED,
            3,
        )
        .await;
        // Without a tunnel, the rejection is an ordinary response.
        for outcome in make_calls(&plain_client(&url)).await {
            let error = outcome.unwrap_err();
            assert_eq!(error.status().unwrap(), 407);
            assert_eq!((error.outcome(), error.attempts()), (Outcome::Rejected, 1));
        }
    }
    assert_eq!(front.connections(), 0);
}

/// A proxy rejects a tunnel permanently with a 403 and temporarily with a 502 to 504. The library does not report the status, so the
/// call is retried in both cases.
#[tokio::test]
async fn a_proxy_that_rejects_the_tunnel() {
    for status in ["403 Forbidden", "502 Bad Gateway"] {
        let response =
            format!("HTTP/1.1 {status}\r\nVia: CANARY\r\nContent-Length: 6\r\n\r\nCANARY");
        let proxy = Proxy::start(ProxyBehavior::RespondWith(response.leak()));
        assert_fails(&tls_client(&proxy.url_for(USER)), NOT_CONNECTED, 3).await;
        assert_eq!(proxy.heads().len(), 6);
    }
    let message = "the server at the proxy's address does not respond to CONNECT as a proxy does";
    let proxy = Proxy::start(ProxyBehavior::RespondWith(""));
    assert_fails(&tls_client(&proxy.url_for(USER)), message, 3).await;
}

#[tokio::test]
async fn a_proxy_that_is_down() {
    let down = unreachable_url();
    let down = down.strip_prefix("http://").unwrap();
    for proxy in [
        format!("http://{USER}@{down}"),
        format!("https://{USER}@{down}"),
    ] {
        assert_fails(&tls_client(&proxy), UNREACHABLE, 3).await;
        assert_fails(&plain_client(&proxy), UNREACHABLE, 3).await;
    }
    let unknown = format!("http://{USER}@proxy.invalid:3128");
    let patient = |builder: ClientBuilder| builder.connect_timeout(Duration::from_secs(10));
    assert_fails(&patient(plain_client(&unknown)), UNREACHABLE, 3).await;
    assert_fails(&patient(tls_client(&unknown)), UNREACHABLE, 3).await;
}

#[tokio::test]
async fn a_proxy_that_stalls_is_limited_by_the_connect_timeout() {
    let proxy = Proxy::start(ProxyBehavior::Stall);
    let blackhole = Blackhole::start().await;
    let limit = Duration::from_millis(150);
    for builder in [
        tls_client(&proxy.url_for(USER)),
        tls_client(&blackhole.url),
        plain_client(&blackhole.url),
    ] {
        for outcome in make_calls(&builder.connect_timeout(limit)).await {
            let error = outcome.unwrap_err();
            assert!(
                error.to_string().contains("timed out after 0.15 s"),
                "{error}"
            );
            assert_eq!(
                (error.kind(), error.outcome(), error.attempts()),
                (ErrorKind::Timeout, Outcome::NotSent, 3)
            );
        }
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_trusted_or_does_not_speak_tls() {
    let message = "no secure connection to the proxy could be made";
    let (front, _) = start_with_tls(Http1);
    let plain = Peer::start(
        Http1,
        vec![vec![Step::PeekRequest, answer(400, ""), Step::End]],
    );
    for url in [front.url(), plain.url.replace("http:", "https:")] {
        let url = url.replace("://", &format!("://{USER}@"));
        assert_fails(&tls_client(&url), message, 1).await;
        assert_fails(&plain_client(&url), message, 1).await;
    }
}

/// Calls each URL once, in a child process, through the proxy in the environment variables.
#[test]
fn child_calls() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = runtime();
    for url in std::env::var("DEALKIT_TEST_URLS").unwrap().split(' ') {
        // The addresses for documentation are unassigned, so calls to them may time out. All other addresses are on this machine, which
        // may be slow.
        let nowhere = url.contains("//192.0.") || url.contains("//[2001:db8:");
        let limit = Duration::from_secs(if nowhere { 1 } else { 30 });
        let mut client = Client::builder()
            .base_url(url)
            .service_key(crate::peer::KEY)
            .allow_http(true)
            .retry(dealkit::RetryPolicy::never())
            .connect_timeout(limit);
        if let Ok(issuer) = std::env::var("DEALKIT_TEST_ISSUER") {
            client = client.root_certificates(issuer);
        }
        let outcome = match client.build() {
            Ok(client) => runtime.block_on(async { client.agents().create(ada()).await }),
            Err(error) => Err(error),
        };
        println!("TOLD: {url} {:?}", outcome.map(|agent| agent.id));
    }
}

/// The output of a child process that calls these URLs.
fn call_in_child(urls: &[&str], variables: &[(&str, &str)]) -> String {
    let urls = urls.join(" ");
    let mut all = vec![("DEALKIT_TEST_URLS", urls.as_str())];
    all.extend(variables);
    child("proxy::child_calls", &all)
}

#[test]
fn a_proxy_in_the_environment_is_used() {
    let (front, issuer) = start_with_tls(Http1);
    let tunnel = Proxy::start(ProxyBehavior::ServeAuthenticated(
        front.address(),
        AUTHORIZATION,
    ));
    let peer = Peer::succeeding(Http1);
    let plain = Proxy::start(ProxyBehavior::ServeAuthenticated(
        peer.address(),
        AUTHORIZATION,
    ));
    let (tunnel_url, plain_url) = (tunnel.url_for(USER), plain.url_for(USER));
    let bare = tunnel_url.strip_prefix("http://").unwrap();
    let urls = ["https://deals.invalid", "http://deals.invalid"];
    for variables in [
        [
            ("HTTPS_PROXY", tunnel_url.as_str()),
            ("HTTP_PROXY", &plain_url),
        ],
        [("ALL_PROXY", bare), ("http_proxy", &plain_url)],
    ] {
        let output = call_in_child(
            &urls,
            &[&variables[..], &[("DEALKIT_TEST_ISSUER", &issuer)]].concat(),
        );
        assert_eq!(
            output.matches("Ok(\"x_1\")").count(),
            2,
            "{variables:?}: {output}"
        );
    }
    assert_eq!(tunnel.lines(), ["CONNECT deals.invalid:443 HTTP/1.1"; 2]);
    assert_eq!(plain.heads().len(), 2);

    // A proxy of the client takes precedence, and a service on this machine needs no proxy.
    let here = Peer::succeeding(Http1);
    let output = call_in_child(&[&here.url], &[("ALL_PROXY", &tunnel_url)]);
    assert!(output.contains("Ok("), "{output}");
    assert_eq!(tunnel.heads().len(), 2);
}

/// Which hosts are called directly, depending on `NO_PROXY`.
#[test]
fn hosts_in_no_proxy_are_called_directly() {
    let all = [
        "https://deals.invalid",
        "https://api.deals.invalid",
        "https://notdeals.invalid",
        "https://192.0.2.7",
        "https://192.0.3.7",
        "https://[2001:db8::7]",
    ];
    let cases = [
        ("NO_PROXY", "other.invalid, ,", &[][..]),
        ("no_proxy", "other.invalid,DEALS.invalid", &[0, 1]),
        ("NO_PROXY", "192.0.0.0/16,2001:db8::7", &[3, 4, 5]),
        ("no_proxy", "other.invalid, *", &[0, 1, 2, 3, 4, 5]),
        ("NO_PROXY", "other.invalid deals.invalid.", &[0, 1]),
        ("NO_PROXY", "*.deals.invalid\t192.0.2.7", &[0, 1, 3]),
        (
            "NO_PROXY",
            "deals.invalid:8443,192.0.2.7:443,[2001:db8::7]:443",
            &[3, 5],
        ),
    ];
    let try_it = |(name, no_proxy, direct): (&str, &str, &[usize])| {
        let proxy = Proxy::start(ProxyBehavior::RespondWith("HTTP/1.1 407 No\r\n\r\n"));
        let output = call_in_child(&all, &[("HTTPS_PROXY", &proxy.url()), (name, no_proxy)]);
        assert_eq!(output.matches("TOLD: ").count(), all.len());
        let expected: Vec<_> = (0..all.len())
            .filter(|index| !direct.contains(index))
            .map(|index| format!("CONNECT {}:443 HTTP/1.1", &all[index][8..]))
            .collect();
        assert_eq!(proxy.lines(), expected, "{name}={no_proxy}");
    };
    // Calls to unassigned addresses wait for their timeout, so the cases run in parallel.
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || try_it(case));
        }
    });
}

#[test]
fn a_socks_proxy_in_the_environment_is_rejected_if_it_would_be_used() {
    for scheme in ["socks4", "socks4a", "socks5", "socks5h"] {
        let socks = format!("{scheme}://{USER}@CANARY.invalid:1080");
        let urls = ["https://deals.invalid", "http://127.0.0.1:9"];
        let output = call_in_child(&urls, &[("ALL_PROXY", &socks)]);
        let expected_error = "TOLD: https://deals.invalid Err(the proxy in the environment variable ALL_PROXY is a SOCKS \
            proxy, and SOCKS proxies are not supported: name an HTTP proxy, such as http://proxy.example.com:3128; correct \
            it, set another proxy, or name the service's host in NO_PROXY [see proxy] (kind: config, outcome: not_sent, \
            attempts: 0)";
        assert!(output.contains(expected_error), "{output}");
        assert!(
            output.contains("(kind: connect, outcome: not_sent, attempts: "),
            "{output}"
        );
        assert!(
            !output.contains("CANARY") && !output.contains("pa%20s"),
            "{output}"
        );
        let output = call_in_child(&urls, &[("ALL_PROXY", &socks), ("NO_PROXY", "*")]);
        assert!(!output.contains("SOCKS"), "{output}");
    }
}

#[test]
fn an_invalid_proxy_in_the_environment_is_an_error() {
    let urls = ["https://deals.invalid"];
    for wrong in [
        "http//CANARY:3128",
        "\"http://CANARY:3128\"",
        "ftp://CANARY",
        "http://",
        "http://CANARY CANARY",
    ] {
        let output = call_in_child(
            &urls,
            &[("https_proxy", wrong), ("ALL_PROXY", "http://127.0.0.1:9")],
        );
        let expected_error = "Err(the proxy in the environment variable https_proxy ";
        assert!(
            output.contains(expected_error) && !output.contains("CANARY"),
            "{wrong}: {output}"
        );
        let output = call_in_child(
            &urls,
            &[("https_proxy", wrong), ("NO_PROXY", "deals.invalid")],
        );
        assert!(output.contains("kind: connect"), "{wrong}: {output}");
    }
}

/// An empty variable hides no other one, white space around a value is ignored, and in a CGI program, a request can set
/// `HTTP_PROXY` but no other variable.
#[test]
fn variables_that_are_passed_over() {
    let peer = Peer::succeeding(Http1);
    let proxy = Proxy::start(ProxyBehavior::Serve(peer.address()));
    let url = format!(" {} ", proxy.url());
    let cgi = ("REQUEST_METHOD", "GET");
    for variables in [
        &[("HTTP_PROXY", ""), ("http_proxy", url.as_str())][..],
        &[
            ("HTTP_PROXY", " "),
            ("http_proxy", ""),
            ("ALL_PROXY", ""),
            ("all_proxy", &url),
        ],
        &[cgi, ("http_proxy", &url)],
        &[
            cgi,
            ("HTTP_PROXY", "http://127.0.0.1:9"),
            ("ALL_PROXY", &url),
        ],
    ] {
        let output = call_in_child(&["http://deals.invalid"], variables);
        assert!(output.contains("Ok(\"x_1\")"), "{variables:?}: {output}");
    }
    assert_eq!(proxy.heads().len(), 4);
}
