//! Through a proxy: tunnels for https, forwarded requests for http, what the errors say about proxies that do not work,
//! and which proxy the environment names.

use std::{error::Error as _, thread, time::Duration};

use dealkit::{Client, ClientBuilder, Error, ErrorKind, Outcome};

use crate::{
    child::{CHILD, child},
    peer::{
        Blackhole, FINE, Http1, Http2, Peer, Protocol, Step, ada, answer, builder, every_text,
        proxy::{Manner, Proxy},
        refused, runtime,
        tls::{Authority, Front, Tls},
    },
};

/// A name that the proxies here map to the service behind them, and that nobody else knows.
const HOST: &str = "deals.invalid";

/// What `ada:pa%20s:tr33` in a URL is in `Proxy-Authorization`.
const AUTHORIZATION: &str = "Basic YWRhOnBhIHM6dHIzMw==";
const USER: &str = "ada:pa%20s:tr33";

fn fine(protocol: Protocol) -> Peer {
    let script = vec![Step::Hear, Step::Act, answer(200, FINE)];
    Peer::start(protocol, vec![script])
}

/// A service with a certificate for [`HOST`], and its issuer's certificate.
fn secure(protocol: Protocol) -> (Front, String) {
    let authority = Authority::new();
    let leaf = authority.issue_changed(|params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName(HOST.try_into().unwrap())];
    });
    (
        Front::start(fine(protocol), &Tls::new(&leaf)),
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

/// The results of a create and of a read, which show nothing of the proxy's password.
async fn calls(builder: &ClientBuilder) -> Vec<Result<String, Error>> {
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
        shown += &every_text(error);
    }
    for secret in ["pa%20s", "pa s", "tr33", "YWRhOnBh", "CANARY"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    outcomes
}

async fn succeed(builder: &ClientBuilder) {
    for outcome in calls(builder).await {
        assert_eq!(outcome.unwrap(), "x_1");
    }
}

/// No connection can be made, for the reason in the text.
async fn fail(builder: &ClientBuilder, told: &str, attempts: u32) {
    for outcome in calls(builder).await {
        let error = outcome.unwrap_err();
        assert!(
            error.to_string().contains(told),
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
const REFUSED: &str = "the proxy does not connect to the service";
const UNREACHABLE: &str = "the proxy cannot be reached; is its address right, and is it up?";

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    for protocol in [Http1, Http2] {
        let (front, issuer) = secure(protocol);
        let proxy = Proxy::start(Manner::Serve(front.address()));
        succeed(&tls_client(&proxy.url()).root_certificates(&issuer)).await;
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
        // What goes through the tunnel is the same as without one.
        let alpn = if protocol == Http1 { "http/1.1" } else { "h2" };
        for handshake in front.handshakes() {
            assert_eq!(handshake.alpn.as_deref(), Some(alpn));
        }
        let heard = front.peer.so_far().heard.concat();
        assert!(
            !String::from_utf8_lossy(&heard)
                .to_lowercase()
                .contains("proxy")
        );
    }
}

#[tokio::test]
async fn a_proxy_gets_the_password_and_the_service_does_not() {
    let (front, issuer) = secure(Http1);
    let proxy = Proxy::start(Manner::ServeWith(front.address(), AUTHORIZATION));
    succeed(&tls_client(&proxy.url_for(USER)).root_certificates(&issuer)).await;
    let peer = fine(Http1);
    let proxy = Proxy::start(Manner::ServeWith(peer.address(), AUTHORIZATION));
    succeed(&plain_client(&proxy.url_for(USER))).await;
    for service in [front.peer, peer] {
        let heard = service.so_far().heard.concat();
        let heard = String::from_utf8(heard).unwrap().to_lowercase();
        assert!(
            heard.contains("x-service-key") && !heard.contains("proxy-"),
            "{heard}"
        );
    }
}

#[tokio::test]
async fn http_is_handed_on_by_the_proxy() {
    let peer = fine(Http1);
    let proxy = Proxy::start(Manner::Serve(peer.address()));
    succeed(&plain_client(&proxy.url())).await;
    let told = [
        "POST http://deals.invalid/v1/agents HTTP/1.1",
        "GET http://deals.invalid/v1/deals/x_1 HTTP/1.1",
    ];
    assert_eq!(proxy.lines(), told);
}

#[tokio::test]
async fn a_missing_or_wrong_password_is_reported_with_advice() {
    let (front, issuer) = secure(Http1);
    let proxy = Proxy::start(Manner::ServeWith(front.address(), AUTHORIZATION));
    for url in [proxy.url(), proxy.url_for("ada:password")] {
        fail(
            &tls_client(&url).root_certificates(&issuer),
            UNAUTHORIZED,
            3,
        )
        .await;
        // Without a tunnel, the refusal is a response like any other.
        for outcome in calls(&plain_client(&url)).await {
            let error = outcome.unwrap_err();
            assert_eq!(error.status().unwrap(), 407);
            assert_eq!((error.outcome(), error.attempts()), (Outcome::Rejected, 1));
        }
    }
    assert_eq!(front.connections(), 0);
}

/// A proxy returns 403 where it never will connect, and 502 to 504 where it cannot now: since it is not known which it
/// was, it is asked again.
#[tokio::test]
async fn a_proxy_that_refuses() {
    for status in ["403 Forbidden", "502 Bad Gateway"] {
        let response =
            format!("HTTP/1.1 {status}\r\nVia: CANARY\r\nContent-Length: 6\r\n\r\nCANARY");
        let proxy = Proxy::start(Manner::Say(response.leak()));
        fail(&tls_client(&proxy.url_for(USER)), REFUSED, 3).await;
        assert_eq!(proxy.heads().len(), 6);
    }
    let told = "the server at the proxy's address does not respond to CONNECT as a proxy does";
    let proxy = Proxy::start(Manner::Say(""));
    fail(&tls_client(&proxy.url_for(USER)), told, 3).await;
}

#[tokio::test]
async fn a_proxy_that_is_down() {
    let down = refused();
    let down = down.strip_prefix("http://").unwrap();
    for proxy in [
        format!("http://{USER}@{down}"),
        format!("https://{USER}@{down}"),
    ] {
        fail(&tls_client(&proxy), UNREACHABLE, 3).await;
        fail(&plain_client(&proxy), UNREACHABLE, 3).await;
    }
    let unknown = format!("http://{USER}@proxy.invalid:3128");
    let patient = |builder: ClientBuilder| builder.connect_timeout(Duration::from_secs(10));
    fail(&patient(plain_client(&unknown)), UNREACHABLE, 3).await;
    fail(&patient(tls_client(&unknown)), UNREACHABLE, 3).await;
}

#[tokio::test]
async fn a_proxy_that_stalls_takes_no_longer_than_a_connection_may() {
    let proxy = Proxy::start(Manner::Stall);
    let blackhole = Blackhole::start().await;
    let limit = Duration::from_millis(150);
    for builder in [
        tls_client(&proxy.url_for(USER)),
        tls_client(&blackhole.url),
        plain_client(&blackhole.url),
    ] {
        for outcome in calls(&builder.connect_timeout(limit)).await {
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
    let told = "no secure connection to the proxy could be made";
    let (front, _) = secure(Http1);
    let plain = Peer::start(Http1, vec![vec![Step::Glance, answer(400, ""), Step::End]]);
    for url in [front.url(), plain.url.replace("http:", "https:")] {
        let url = url.replace("://", &format!("://{USER}@"));
        fail(&tls_client(&url), told, 1).await;
        fail(&plain_client(&url), told, 1).await;
    }
}

/// In a child process: calls every URL once, through whatever proxy the environment names.
#[test]
fn child_calls() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = runtime();
    for url in std::env::var("DEALKIT_TEST_URLS").unwrap().split(' ') {
        // The addresses for documentation belong to nobody; all others are on this machine, which may be busy.
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
fn told_of(urls: &[&str], variables: &[(&str, &str)]) -> String {
    let urls = urls.join(" ");
    let mut all = vec![("DEALKIT_TEST_URLS", urls.as_str())];
    all.extend(variables);
    child("proxy::child_calls", &all)
}

#[test]
fn the_environment_names_a_proxy() {
    let (front, issuer) = secure(Http1);
    let tunnel = Proxy::start(Manner::ServeWith(front.address(), AUTHORIZATION));
    let peer = fine(Http1);
    let plain = Proxy::start(Manner::ServeWith(peer.address(), AUTHORIZATION));
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
        let told = told_of(
            &urls,
            &[&variables[..], &[("DEALKIT_TEST_ISSUER", &issuer)]].concat(),
        );
        assert_eq!(
            told.matches("Ok(\"x_1\")").count(),
            2,
            "{variables:?}: {told}"
        );
    }
    assert_eq!(tunnel.lines(), ["CONNECT deals.invalid:443 HTTP/1.1"; 2]);
    assert_eq!(plain.heads().len(), 2);

    // A proxy set on the client takes precedence; this machine needs none.
    let here = fine(Http1);
    let told = told_of(&[&here.url], &[("ALL_PROXY", &tunnel_url)]);
    assert!(told.contains("Ok("), "{told}");
    assert_eq!(tunnel.heads().len(), 2);
}

/// Which hosts are called directly, depending on `NO_PROXY`.
#[test]
fn hosts_that_need_no_proxy() {
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
        let proxy = Proxy::start(Manner::Say("HTTP/1.1 407 No\r\n\r\n"));
        let told = told_of(&all, &[("HTTPS_PROXY", &proxy.url()), (name, no_proxy)]);
        assert_eq!(told.matches("TOLD: ").count(), all.len());
        let expected: Vec<_> = (0..all.len())
            .filter(|index| !direct.contains(index))
            .map(|index| format!("CONNECT {}:443 HTTP/1.1", &all[index][8..]))
            .collect();
        assert_eq!(proxy.lines(), expected, "{name}={no_proxy}");
    };
    // Most of the time is spent waiting for addresses that nobody has.
    thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || try_it(case));
        }
    });
}

#[test]
fn socks_in_the_environment_is_refused_where_it_would_be_used() {
    for scheme in ["socks4", "socks4a", "socks5", "socks5h"] {
        let socks = format!("{scheme}://{USER}@CANARY.invalid:1080");
        let urls = ["https://deals.invalid", "http://127.0.0.1:9"];
        let told = told_of(&urls, &[("ALL_PROXY", &socks)]);
        let refusal = "TOLD: https://deals.invalid Err(Error { kind: Config, outcome: NotSent, attempts: 0, status: \
            None, message: the proxy in the environment variable ALL_PROXY is a SOCKS proxy, and SOCKS \
            proxies are not supported: name an HTTP proxy, such as http://proxy.example.com:3128; correct it, set another \
            proxy, or name the service's host in NO_PROXY [see proxy]";
        assert!(told.contains(refusal), "{told}");
        assert!(
            told.contains("http://127.0.0.1:9 Err(Error { kind: Connect"),
            "{told}"
        );
        assert!(
            !told.contains("CANARY") && !told.contains("pa%20s"),
            "{told}"
        );
        let told = told_of(&urls, &[("ALL_PROXY", &socks), ("NO_PROXY", "*")]);
        assert!(!told.contains("SOCKS"), "{told}");
    }
}

#[test]
fn a_proxy_in_the_environment_that_is_no_url_is_an_error() {
    let urls = ["https://deals.invalid"];
    for wrong in [
        "http//CANARY:3128",
        "\"http://CANARY:3128\"",
        "ftp://CANARY",
        "http://",
        "http://CANARY CANARY",
    ] {
        let told = told_of(
            &urls,
            &[("https_proxy", wrong), ("ALL_PROXY", "http://127.0.0.1:9")],
        );
        let refusal = "kind: Config, outcome: NotSent, attempts: 0, status: None, message: the proxy in the environment \
            variable https_proxy ";
        assert!(
            told.contains(refusal) && !told.contains("CANARY"),
            "{wrong}: {told}"
        );
        let told = told_of(
            &urls,
            &[("https_proxy", wrong), ("NO_PROXY", "deals.invalid")],
        );
        assert!(told.contains("kind: Connect"), "{wrong}: {told}");
    }
}

/// An empty variable hides no other one, white space around a value is ignored, and in a CGI program, a request can set
/// `HTTP_PROXY` but no other variable.
#[test]
fn variables_that_are_passed_over() {
    let peer = fine(Http1);
    let proxy = Proxy::start(Manner::Serve(peer.address()));
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
        let told = told_of(&["http://deals.invalid"], variables);
        assert!(told.contains("Ok(\"x_1\")"), "{variables:?}: {told}");
    }
    assert_eq!(proxy.heads().len(), 4);
}
