//! TLS: trusted and untrusted certificates, client certificates, and errors with advice.

use std::{fs, path::Path, time::Duration};

use dealkit::{ClientBuilder, Error, ErrorKind, Outcome};
use rcgen::{BasicConstraints, CertificateParams, IsCa, date_time_ymd};
use tokio_rustls::rustls::{
    SupportedProtocolVersion,
    pki_types::{CertificateDer, pem::PemObject as _},
    version::{TLS12, TLS13},
};

use crate::{
    child::child,
    peer::{
        Http1, Http2, Peer, Script, Step, VALID_BODY, ada, answer, builder,
        clock::FrozenClock,
        runtime,
        tls::{Authority, Leaf, Tls, TlsFront},
    },
};

const ONLY_12: &[&SupportedProtocolVersion] = &[&TLS12];
const ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];
const EACH_VERSION: [&[&SupportedProtocolVersion]; 2] = [ONLY_12, ONLY_13];

/// Returns the results of a create, a read, and a read in a bulk job.
async fn make_calls(builder: &ClientBuilder) -> Vec<Result<(), Error>> {
    let client = builder.clone().build().unwrap();
    let mut many = client.deals().retrieve_many(["x_1"]).stream();
    vec![
        client.agents().create(ada()).await.map(drop),
        client.deals().retrieve("x_1").await.map(drop),
        many.next().await.unwrap().result.map(drop),
    ]
}

async fn assert_all_succeed(builder: &ClientBuilder) {
    for outcome in make_calls(builder).await {
        outcome.unwrap();
    }
}

/// Checks that each call fails with this message on the first attempt, and that nothing is sent.
async fn assert_all_fail(builder: &ClientBuilder, message: &str) {
    for outcome in make_calls(builder).await {
        let error = outcome.unwrap_err();
        assert_message(&error, message);
        assert_eq!(error.attempts(), 1, "{error:?}");
    }
}

fn assert_message(error: &Error, message: &str) {
    let (message, reference) = message.split_once(" [see ").unwrap_or((message, ""));
    let message = format!("no connection could be made: {message}");
    assert!(error.to_string().ends_with(reference), "{error}");
    let cause = std::error::Error::source(error);
    assert!(
        error.to_string().contains(&message),
        "{error}\n{message}\n{cause:?}"
    );
    assert_eq!(error.kind(), ErrorKind::Connect, "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
}

/// Checks that every call fails because its connection broke, with advice. Only the reads are retried.
async fn assert_all_break(builder: &ClientBuilder, message: &str) {
    for (outcome, attempts) in make_calls(builder).await.into_iter().zip([1, 3, 3]) {
        let error = outcome.unwrap_err();
        assert_broken_with_advice(&error, message);
        assert_eq!(error.attempts(), attempts, "{error:?}");
    }
}

fn assert_broken_with_advice(error: &Error, message: &str) {
    let advice = message.split(" [see").next().unwrap();
    let message = format!("the connection broke before the whole response had arrived: {advice}");
    assert!(error.to_string().contains(&message), "{error}\n{message}");
    assert!(error.to_string().ends_with(" [see identity]"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:?}");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
}

const UNKNOWN_ISSUER: &str = "the issuer of the service's certificate is not trusted; if the issuer is yours, \
    add its certificate to the trusted ones, or to the file in SSL_CERT_FILE [see root_certificates]";

#[tokio::test]
async fn a_service_is_trusted_through_its_issuer() {
    let (authority, other) = (Authority::new(), Authority::new());
    for protocol in [Http1, Http2] {
        for version in EACH_VERSION {
            let front = TlsFront::start(
                Peer::succeeding(protocol),
                &Tls::new(&authority.issue()).version(version),
            );
            for host in ["localhost", "127.0.0.1"] {
                let builder = builder(&front.url_as(host));
                assert_all_succeed(&builder.clone().root_certificates(authority.pem())).await;
                assert_all_succeed(&builder.clone().only_root_certificates(authority.pem())).await;
                // The right certificate is one of several, in one PEM or in two.
                let both = format!("# ours\n{}\n{}", other.pem(), authority.pem());
                assert_all_succeed(&builder.clone().root_certificates(both)).await;
                let each = builder
                    .root_certificates(other.pem().trim_end())
                    .root_certificates(authority.pem());
                assert_all_succeed(&each).await;
            }
            let (version, alpn) = (
                version[0].version,
                match protocol {
                    Http1 => "http/1.1",
                    Http2 => "h2",
                },
            );
            for handshake in front.handshakes() {
                assert_eq!(handshake.version, version);
                assert_eq!(handshake.alpn.as_deref(), Some(alpn));
            }
        }
    }
}

#[tokio::test]
async fn a_call_to_an_untrusted_issuer_is_not_retried() {
    let (authority, other) = (Authority::new(), Authority::new());
    for version in EACH_VERSION {
        for leaf in [authority.issue(), Leaf::self_signed(|_| ())] {
            let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&leaf).version(version));
            let builder = builder(&front.url());
            assert_all_fail(&builder, UNKNOWN_ISSUER).await;
            assert_all_fail(
                &builder.clone().root_certificates(other.pem()),
                UNKNOWN_ISSUER,
            )
            .await;
            assert_all_fail(&builder.only_root_certificates(other.pem()), UNKNOWN_ISSUER).await;
            assert_eq!(front.handshakes(), []);
            assert_eq!(front.peer.counts().connections, 0);
        }
    }
    // A client that does not trust the issuer does not get the connections of a client that does.
    let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&authority.issue()));
    assert_all_succeed(&builder(&front.url()).root_certificates(authority.pem())).await;
    assert_all_fail(&builder(&front.url()), UNKNOWN_ISSUER).await;
}

#[tokio::test]
async fn an_unacceptable_certificate_is_reported_with_advice() {
    let named = Authority::named("The same name");
    let authority = Authority::named("The same name");
    let changed = |change: fn(&mut CertificateParams)| authority.issue_changed(change);
    for (leaf, message, library_text) in [
        (
            changed(|params| params.not_after = date_time_ymd(2025, 3, 1)),
            "has expired; the service has to renew it, unless this machine's clock is wrong",
            "not valid after 1740787200",
        ),
        (
            changed(|params| params.not_before = date_time_ymd(3000, 1, 31)),
            "is not valid yet; is this machine's clock right?",
            "not valid before 32506272000",
        ),
        (
            changed(|params| drop(params.subject_alt_names.pop())),
            "is not for the host in the base URL; is that host right?",
            "is only valid for DnsName(\"",
        ),
        (
            named.issue(),
            "was not signed by the trusted issuer of that name; is the issuer's certificate up to date?",
            "BadSignature",
        ),
        (
            Leaf::self_signed(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            "is the certificate of an issuer (CA:TRUE), which `openssl req -x509` creates by default; create it with the \
             option -addext basicConstraints=critical,CA:FALSE, too",
            "CaUsedAsEndEntity",
        ),
    ] {
        for version in EACH_VERSION {
            let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&leaf).version(version));
            let builder = builder(&front.url()).only_root_certificates(authority.pem());
            for outcome in make_calls(&builder).await {
                let error = outcome.unwrap_err();
                assert_message(&error, &format!("the service's certificate {message} ("));
                assert!(error.to_string().contains(library_text), "{error}");
                assert_eq!(error.attempts(), 1, "{error:?}");
            }
            assert_eq!(front.handshakes(), []);
        }
    }
}

#[tokio::test]
async fn a_client_certificate_is_presented_on_request() {
    let (authority, issuer) = (Authority::new(), Authority::new());
    for protocol in [Http1, Http2] {
        for version in EACH_VERSION {
            let leaf = authority.issue();
            let tls = Tls::new(&leaf)
                .version(version)
                .require_client_certificate(&issuer);
            let front = TlsFront::start(Peer::succeeding(protocol), &tls);
            let client = issuer.issue();
            let builder = builder(&front.url()).root_certificates(authority.pem());
            assert_all_succeed(&builder.clone().identity(client.pem())).await;
            // Some files have the key first, and the issuer's certificate last.
            let pem = format!("{}{}{}", client.key, client.certificate, issuer.pem());
            assert_all_succeed(&builder.clone().identity(pem)).await;
            // A service that does not ask for a certificate gets none.
            let relaxed = TlsFront::start(
                Peer::succeeding(protocol),
                &Tls::new(&leaf).version(version),
            );
            let builder = crate::peer::builder(&relaxed.url()).root_certificates(authority.pem());
            assert_all_succeed(&builder.identity(client.pem())).await;
        }
    }
}

/// The files are replaced one after the other; each case is a new connection.
#[tokio::test]
async fn a_client_certificate_in_files_is_read_again() {
    let clock = FrozenClock::start();
    let (authority, issuer) = (Authority::new(), Authority::new());
    let (one, two) = (issuer.issue(), issuer.issue());
    let der = |leaf: &Leaf| CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
    for version in EACH_VERSION {
        let leaf = authority.issue();
        let tls = Tls::new(&leaf)
            .version(version)
            .require_client_certificate(&issuer);
        let front = TlsFront::start(Peer::succeeding(Http1), &tls);
        let folder = tempfile::TempDir::new().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let settings = builder(&front.url())
            .root_certificates(authority.pem())
            .max_idle_connections(0);
        let settings = settings.identity_files(&certificate, &key);
        let missing = settings.clone().build().unwrap_err().to_string();
        assert!(
            missing.starts_with(&format!(
                "identity {} cannot be read: ",
                certificate.display()
            )),
            "{missing}"
        );
        fs::write(&certificate, &one.certificate).unwrap();
        fs::write(&key, &two.key).unwrap();
        let mismatch = settings.clone().build().unwrap_err().to_string();
        assert!(
            mismatch.ends_with(
                ") contains a private key that does not belong to its first certificate"
            ),
            "{mismatch}"
        );
        fs::write(&key, &one.key).unwrap();
        let client = settings.build().unwrap();
        for (certificate_of, key_of, is_later, presented) in [
            (&one, &one, false, &one),
            // The files are cached for a second.
            (&two, &one, false, &one),
            // The key does not match the certificate.
            (&two, &one, true, &one),
            (&two, &two, true, &two),
        ] {
            fs::write(&certificate, &certificate_of.certificate).unwrap();
            fs::write(&key, &key_of.key).unwrap();
            if is_later {
                clock.advance(Duration::from_secs(2)).await;
            }
            client.deals().retrieve("x_1").await.unwrap();
            let last = front.handshakes().pop().unwrap();
            assert_eq!(
                last.client_certificate.as_deref(),
                Some(der(presented).as_ref()),
                "{version:?}"
            );
        }
    }
}

/// In TLS 1.3, the service sends the alert after the handshake. The client may already have sent a request, which the service does not
/// read.
#[tokio::test]
async fn a_missing_or_rejected_client_certificate_is_reported_with_advice() {
    let (authority, issuer) = (Authority::new(), Authority::new());
    let leaf = authority.issue();
    let strange = authority.issue();
    let old = issuer.issue_changed(|params| params.not_after = date_time_ymd(2025, 3, 1));
    let not_accepted = |alert| {
        format!(
            "the service does not accept the client's certificate ({alert}); is it the right one"
        )
    };
    let (unknown, expired) = (
        not_accepted("UnknownCA"),
        not_accepted("CertificateExpired"),
    );
    for protocol in [Http1, Http2] {
        for version in EACH_VERSION {
            let tls = Tls::new(&leaf)
                .version(version)
                .require_client_certificate(&issuer);
            let front = TlsFront::start(Peer::succeeding(protocol), &tls);
            let builder = builder(&front.delayed_url()).root_certificates(authority.pem());
            // In TLS 1.3 over HTTP/2, the alert arrives after the handshake, and only its text: it adds advice to the error, and
            // decides nothing.
            let is_text_only = protocol == Http2 && version == ONLY_13;
            for (builder, message) in [
                (builder.clone(), ASKS),
                (builder.clone().identity(strange.pem()), &unknown),
                (builder.clone().identity(old.pem()), &expired),
            ] {
                if is_text_only {
                    assert_all_break(&builder, message).await;
                } else {
                    assert_all_fail(&builder, message).await;
                }
            }
            // Every call that waits for the single HTTP/2 connection gets the error.
            let client = builder.build().unwrap();
            let creates = (0..16).map(|_| client.agents().create(ada()).send());
            for outcome in futures_util::future::join_all(creates).await {
                let error = outcome.unwrap_err();
                if is_text_only {
                    assert_broken_with_advice(&error, ASKS);
                } else {
                    assert_message(&error, ASKS);
                }
            }
            assert_eq!(front.peer.counts().connections, 0);
        }
    }
}

const ASKS: &str = "the service asks for a client certificate, and none is set [see identity]";

/// The service closes the connection before or while the client sends.
#[tokio::test]
async fn a_missing_client_certificate_is_reported_even_by_a_fast_service() {
    let (authority, issuer) = (Authority::new(), Authority::new());
    let leaf = authority.issue();
    let strange = authority.issue();
    for protocol in [Http1, Http2] {
        let tls = Tls::new(&leaf)
            .version(ONLY_13)
            .require_client_certificate(&issuer);
        let front = TlsFront::start(Peer::succeeding(protocol), &tls);
        let builder = builder(&front.url()).root_certificates(authority.pem());
        for builder in [builder.clone(), builder.identity(strange.pem())] {
            for _ in 0..10 {
                for outcome in make_calls(&builder).await {
                    let error = outcome.unwrap_err();
                    // A client that is still writing does not read the alert.
                    if error.kind() != ErrorKind::Interrupted {
                        assert!(error.to_string().contains("[see identity]"), "{error}");
                    }
                }
            }
        }
        assert_eq!(front.peer.counts().connections, 0);
    }
}

#[tokio::test]
async fn the_two_sides_agree_on_a_protocol() {
    let authority = Authority::new();
    let leaf = authority.issue();
    for (protocol, only, offered, agreed) in [
        (Http2, false, &["h2", "http/1.1"][..], Some("h2")),
        (Http2, false, &["h2"], Some("h2")),
        (Http1, true, &["h2", "http/1.1"], Some("http/1.1")),
        (Http1, false, &["http/1.1"], Some("http/1.1")),
        (Http1, false, &["http/1.1", "h2"], Some("http/1.1")),
        // A service without ALPN speaks HTTP/1.1.
        (Http1, false, &[], None),
    ] {
        let front = TlsFront::start(Peer::succeeding(protocol), &Tls::new(&leaf).alpn(offered));
        let builder = builder(&front.url()).root_certificates(authority.pem());
        assert_all_succeed(&builder.http1_only(only)).await;
        for handshake in front.handshakes() {
            assert_eq!(handshake.alpn.as_deref(), agreed);
        }
    }
    let message = &disagreement("NoApplicationProtocol");
    let front = TlsFront::start(
        Peer::succeeding(Http1),
        &Tls::new(&leaf).alpn(&["http/1.1"]),
    );
    let trusting = builder(&front.url()).root_certificates(authority.pem());
    assert_all_fail(&trusting.http2_prior_knowledge(true), message).await;
    let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&leaf).alpn(&["imap"]));
    assert_all_fail(
        &builder(&front.url()).root_certificates(authority.pem()),
        message,
    )
    .await;
}

fn disagreement(alert: &str) -> String {
    format!(
        "the two sides cannot agree on a secure connection (received fatal alert: {alert}); is the host in the base URL \
         right, and does the service speak HTTPS, with TLS 1.2 or 1.3, and with HTTP/2 if the client speaks nothing else?"
    )
}

/// The services respond to the first bytes of the handshake with an alert.
#[tokio::test]
async fn an_alert_during_the_handshake_is_reported() {
    for (alert, name) in [
        (70, "ProtocolVersion"),
        (112, "UnrecognisedName"),
        (40, "HandshakeFailure"),
        (71, "InsufficientSecurity"),
    ] {
        let alert = Step::Raw(vec![21, 3, 3, 0, 2, 2, alert]);
        let peer = Peer::start(Http1, vec![vec![Step::PeekRequest, alert, Step::End]]);
        assert_all_fail(
            &builder(&peer.url.replace("http:", "https:")),
            &disagreement(name),
        )
        .await;
    }
}

#[tokio::test]
async fn a_call_to_a_port_without_tls_is_not_retried() {
    let peer = Peer::start(
        Http1,
        vec![vec![Step::PeekRequest, answer(400, ""), Step::End]],
    );
    assert_all_fail(
        &builder(&peer.url.replace("http:", "https:")),
        "the port does not speak TLS; should its URL begin with http:// rather than https://?",
    )
    .await;
    assert_eq!(peer.counts().requests, 0);
}

/// Without Content-Length or a TLS close alert, the body may have been truncated on the way.
#[tokio::test]
async fn a_truncated_body_is_an_error() {
    let authority = Authority::new();
    let leaf = authority.issue();
    let length = |length| format!("content-length: {length}\r\n");
    for (length, says_goodbye, is_whole) in [
        (length(VALID_BODY.len() + 1), true, false),
        (length(VALID_BODY.len()), false, true),
        // The body ends with the connection.
        (String::new(), true, true),
        (String::new(), false, false),
    ] {
        for version in EACH_VERSION {
            let response = format!("HTTP/1.1 200 OK\r\n{length}\r\n{VALID_BODY}");
            let script: Script = vec![Step::ReadRequest, Step::Raw(response.into()), Step::End];
            let tls = Tls::new(&leaf).version(version);
            let tls = if says_goodbye {
                tls
            } else {
                tls.without_close_notify()
            };
            let front = TlsFront::start(Peer::start(Http1, vec![script]), &tls);
            let builder = builder(&front.url()).root_certificates(authority.pem());
            for outcome in make_calls(&builder).await {
                let actual = outcome.map_err(|error| (error.kind(), error.outcome()));
                let expected = match is_whole {
                    true => Ok(()),
                    false => Err((ErrorKind::Interrupted, Outcome::Succeeded)),
                };
                assert_eq!(actual, expected, "{length} {says_goodbye}");
            }
        }
    }
}

/// A client makes one full handshake on all runtimes together, unless its certificate may change.
#[tokio::test]
async fn sessions_are_resumed_across_runtimes() {
    for version in EACH_VERSION {
        let (authority, issuer) = (Authority::new(), Authority::new());
        let (leaf, identity) = (authority.issue(), issuer.issue().pem());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, &identity).unwrap();
        let front = TlsFront::start(
            Peer::succeeding(Http1),
            &Tls::new(&leaf)
                .version(version)
                .require_client_certificate(&issuer),
        );
        let settings = builder(&front.url()).only_root_certificates(authority.pem());
        for settings in [
            settings.clone().identity(&identity),
            settings.identity_files(file.path(), file.path()),
        ] {
            let client = settings.build().unwrap();
            for _ in 0..2 {
                let client = client.clone();
                let work = move || {
                    let call = client.deals().retrieve("x_1");
                    runtime().block_on(call.into_future()).unwrap();
                };
                std::thread::spawn(work).join().unwrap();
            }
        }
        let resumed: Vec<_> = front.handshakes().iter().map(|h| h.is_resumed).collect();
        assert_eq!(resumed, [false, true, false, false], "{version:?}");
    }
}

#[test]
fn an_invalid_pem_is_rejected_and_not_shown() {
    let authority = Authority::new();
    let (leaf, other) = (authority.issue(), authority.issue());
    let ok = || builder("https://deals.example.com");
    let begin = "-----BEGIN CERTIFICATE-----\n";
    let end = "-----END CERTIFICATE-----\n";
    let no_certificate = "c2VjcmV0LWNhbmFyeQ==\n";
    for malformed in [
        String::new(),
        leaf.key.clone(),
        format!("{begin}{no_certificate}{end}"),
        format!("{begin}secret-canary!\n{end}"),
        format!("{}{begin}{no_certificate}", authority.pem()),
        format!("{begin}{}{end}", &authority.pem()[28..100]),
        "\u{0}\u{1}secret-canary\u{ff}".to_owned(),
    ] {
        let begins = ["root_certificates ", "only_root_certificates ", "identity "];
        let built = [
            ok().root_certificates(&malformed).build(),
            ok().only_root_certificates(&malformed).build(),
            ok().identity(&malformed).build(),
        ];
        for (begins, built) in begins.into_iter().zip(built) {
            let error = built.unwrap_err();
            assert!(error.to_string().starts_with(begins), "{error}");
            assert_shows_no_pem(&error, &malformed);
        }
        // The PEM is checked even for a client without TLS.
        let plain = builder("http://127.0.0.1:9").root_certificates(&malformed);
        assert_eq!(plain.build().unwrap_err().kind(), ErrorKind::Config);
    }
    let encrypted = leaf.key.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let no_key = "no private key that can be read: it must be PEM without a password, with the certificate and its \
        private key";
    for (pem, message) in [
        (leaf.certificate.clone(), no_key),
        (format!("{}{encrypted}", leaf.certificate), no_key),
        (
            format!("{}{}", leaf.certificate, other.key),
            "a private key that does not belong to its first certificate",
        ),
        (
            format!(
                "{}-----BEGIN PRIVATE KEY-----\n{no_certificate}-----END PRIVATE KEY-----\n",
                leaf.certificate
            ),
            "a certificate or a private key that cannot be read or whose type is not supported",
        ),
        (
            format!("{begin}{no_certificate}{end}{}", leaf.key),
            "a certificate or a private key that cannot be read or whose type is not supported",
        ),
    ] {
        let error = ok().identity(&pem).build().unwrap_err();
        assert_eq!(error.to_string(), format!("identity contains {message}"));
        assert_shows_no_pem(&error, &pem);
    }
}

/// Checks that the error shows nothing of the PEM except the lines that all PEMs have.
fn assert_shows_no_pem(error: &Error, pem: &str) {
    assert_eq!(error.kind(), ErrorKind::Config);
    let shown = format!("{error} {error:?}");
    assert!(std::error::Error::source(error).is_none());
    assert!(
        !shown.contains("canary") && !shown.contains("CANARY"),
        "{shown}"
    );
    // A fifth dash may have been removed.
    let lines = pem.lines().filter(|line| !line.contains("----"));
    for line in lines.filter(|line| line.len() > 20) {
        assert!(!shown.contains(line), "{shown}");
    }
}

/// Calls a service in a child process, with the certificates in the environment variables, and prints the error, if any.
#[test]
fn child_trusts_the_system() {
    let Ok(url) = std::env::var(ARGUMENT) else {
        return;
    };
    let client = builder(&url).build().unwrap();
    let outcome = runtime().block_on(async { client.deals().retrieve("x_1").await.map(drop) });
    let error = outcome.err().map(|error| error.to_string());
    println!("OUTPUT: {}", error.unwrap_or_default());
}

#[tokio::test]
async fn a_certificate_after_a_byte_order_mark_is_read() {
    let authority = Authority::new();
    let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&authority.issue()));
    let marked = format!("\u{feff}{}", authority.pem());
    assert_all_succeed(&builder(&front.url()).root_certificates(&marked)).await;
    let other = Authority::named("Another issuer").pem();
    let both = builder(&front.url()).only_root_certificates(&other);
    assert_all_succeed(&both.only_root_certificates(&marked)).await;

    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, format!("{marked}{other}")).unwrap();
    let variables = [
        ("SSL_CERT_FILE", file.path().to_str().unwrap()),
        (ARGUMENT, &front.url()),
    ];
    let output = child("tls::child_trusts_the_system", &variables);
    assert!(output.contains("OUTPUT: \n"), "{output}");
}

#[test]
fn empty_variables_count_as_unset() {
    let authority = Authority::new();
    let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&authority.issue()));
    let url = front.url();
    let unset = child("tls::child_trusts_the_system", &[(ARGUMENT, &url)]);
    let line = |output: &str| {
        output
            .split_once("OUTPUT: ")
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    for empty in [
        &["SSL_CERT_FILE"][..],
        &["SSL_CERT_DIR"],
        &["SSL_CERT_FILE", "SSL_CERT_DIR"],
    ] {
        let mut variables = vec![(ARGUMENT, url.as_str())];
        variables.extend(empty.iter().map(|name| (*name, "")));
        let output = child("tls::child_trusts_the_system", &variables);
        assert_eq!(line(&output), line(&unset), "{empty:?}");
    }
}

/// The variable with the argument of a child process.
const ARGUMENT: &str = "DEALKIT_TEST_ARGUMENT";

/// The first connection that needs the system's certificates loads them. A client without them trusts its own certificates, and later
/// clients need no file.
#[tokio::test]
async fn the_systems_certificates_are_loaded_once_on_demand() {
    let Ok(given) = std::env::var(ARGUMENT) else {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("own.pem"), authority.pem()).unwrap();
        let front = TlsFront::start(Peer::succeeding(Http1), &Tls::new(&authority.issue()));
        let system = folder.path().join("system.pem");
        child(
            "tls::the_systems_certificates_are_loaded_once_on_demand",
            &[
                ("SSL_CERT_FILE", system.to_str().unwrap()),
                (
                    ARGUMENT,
                    &format!("{} {}", front.url(), folder.path().display()),
                ),
            ],
        );
        assert_eq!(front.handshakes().len(), 3);
        return;
    };
    let (url, folder) = given.split_once(' ').unwrap();
    let [own, system] = ["own.pem", "system.pem"].map(|file| Path::new(folder).join(file));
    let other = Authority::named("Another issuer").pem();
    let call = async |builder: ClientBuilder| {
        let client = builder.build().unwrap();
        client.deals().retrieve("x_1").await.map(drop)
    };
    let trusting = |pem: &str| builder(url).root_certificates(pem);

    let missing = "the certificates that the system trusts cannot be used: unexpected error: No CA certificates were loaded from \
        the system; \
        install them (on Debian the package ca-certificates), or let SSL_CERT_FILE name an existing file of certificates, \
        which is then used instead of the system's; or trust certificates of your own [see root_certificates]";
    assert_all_fail(&builder(url), missing).await;
    assert_all_fail(&trusting(&other), UNKNOWN_ISSUER).await;
    call(trusting(&fs::read_to_string(&own).unwrap()))
        .await
        .unwrap();
    fs::rename(&own, &system).unwrap();
    call(builder(url)).await.unwrap();
    fs::remove_file(&system).unwrap();
    call(trusting(&other)).await.unwrap();
}
