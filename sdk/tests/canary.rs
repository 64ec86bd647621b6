//! Canary test: calls with a marked key and marked personal data fail and succeed in every way. The marks must not appear in any
//! error text, `Debug` output, panic message or log record of any crate.
#![cfg(feature = "client")]

mod peer;

use std::{
    fmt::Debug,
    io, panic,
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use dealkit::{AgentProfile, Client, CreateAgent, Error, Method};
use futures_util::future::join_all;
use peer::{
    BOTH, FINE, Http1, Http2, Peer, Protocol, Script, Step, answer,
    catalogue::{self, LIMIT},
    every_text, refused,
};
use tracing_subscriber::{filter::LevelFilter, fmt::format::FmtSpan};

/// The mark of the service keys.
const SECRET: &str = "c4n4ryS3cr3t";
/// The mark of personal data, in requests and in the deals and agents of responses.
const PERSONAL: &str = "c4n4ryP3rson";
/// The mark of personal data in fields that allow only digits.
const DIGITS: &str = "5550100733";

fn key() -> String {
    format!("k-{SECRET}-k")
}

/// The output so far: log records of all crates, error texts, `Debug` output and panic messages.
static OUTPUT: Mutex<String> = Mutex::new(String::new());

/// Appends a line to the output.
fn append(line: &str) {
    let mut shown = OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
    shown.push_str(line);
    shown.push('\n');
}

/// A writer that appends log records to the output.
struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        append(str::from_utf8(line).unwrap().trim_end());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures every span and event of `tracing`, every record of `log`, and the message of every panic, from now on.
fn capture_output() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(|| LogWriter)
            .init();
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            append(&format!("panic {info}"));
            default_hook(info);
        }));
    });
}

fn output() -> String {
    OUTPUT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Checks that the output so far contains no mark.
fn check_no_marks(case: &str) {
    // A copy: the message of a failed assertion is appended to the output, which must not be locked then.
    let shown = output();
    for line in shown.lines() {
        let lower = line.to_lowercase();
        for mark in [SECRET, PERSONAL, DIGITS] {
            assert!(!lower.contains(&mark.to_lowercase()), "{case}: {line}");
        }
    }
}

/// Appends every text of an error and of its causes, except the response's headers, body and problem, which are unchanged data from
/// the service.
fn append_error(error: &Error) {
    append(&every_text(error));
    append_debug(&error.decode_error());
}

fn append_debug(thing: &impl Debug) {
    append(&format!("{thing:?} {thing:#?}"));
}

/// Returns a request whose personal data is marked.
fn marked_request() -> CreateAgent {
    let builder = CreateAgent::builder();
    append_debug(&builder);
    let builder = builder
        .email(format!("{PERSONAL}@example.com"))
        .first_name(PERSONAL)
        .last_name(PERSONAL)
        .phone(format!("+{DIGITS}"))
        .image_url(format!("https://example.com/{PERSONAL}"))
        .profile(AgentProfile::new().tier(PERSONAL).external_id(PERSONAL));
    append_debug(&builder);
    let request = builder.build().unwrap();
    append_debug(&request);
    request
}

/// Returns a response that is valid as an agent and as a deal, and whose personal data is marked.
fn marked_response() -> String {
    let contact = format!(
        r#"{{"id":"c","fields":[{{"id":"f","value":"{PERSONAL}"}}],"name":"{PERSONAL}","email":"{PERSONAL}"}}"#
    );
    format!(
        r#"{{"id":"x_1","email":"{PERSONAL}@example.com","first_name":"{PERSONAL}","last_name":"{PERSONAL}",
        "phone":"+{DIGITS}","image_url":"{PERSONAL}","date_of_birth":null,"profile":{{"tier":"{PERSONAL}","{PERSONAL}":1}},
        "role_assignments":[{{"role":"AGENT"}}],"address":{{"street":"{PERSONAL}"}},"external_id":"{PERSONAL}",
        "listing_contract":{{"address":{{"line1":"{PERSONAL}","line2":"{PERSONAL}","city":"{PERSONAL}","state":"{PERSONAL}",
        "zip":"{PERSONAL}"}},"agent":{{"email":"{PERSONAL}","first_name":"{PERSONAL}","last_name":"{PERSONAL}"}}}},"metadata":{{"{PERSONAL}":"{PERSONAL}"}},
        "contacts":[{contact}],"sides":[],"{PERSONAL}":"{PERSONAL}"}}"#
    )
}

/// Makes every kind of call, appends the results to the output, and returns the errors.
async fn make_calls(client: &Client) -> Vec<Error> {
    let id = format!("{PERSONAL}/{PERSONAL}?{DIGITS}");
    let header = format!("{PERSONAL} {SECRET}");
    let create = client
        .agents()
        .create(marked_request())
        .header("x-mark", &header);
    let retrieve = client.deals().retrieve(&id).header("x-mark", &header);
    let json = serde_json::json!({"first_name": PERSONAL});
    let patch = client
        .request(Method::PATCH, ["agents", &id])
        .json(&json)
        .query(PERSONAL, &id);
    append_debug(&(
        client,
        &create,
        &retrieve,
        &patch,
        client.agents(),
        client.deals(),
    ));
    let mut many = client.deals().retrieve_many([id.clone()]);
    append_debug(&many);
    many = many.concurrency(2);
    let mut many = many.stream();
    let mut errors = Vec::new();
    match create.with_response().await {
        Ok(response) => append_debug(&(&response, response.value())),
        Err(error) => errors.push(error),
    }
    match retrieve.with_response().await {
        Ok(response) => append_debug(&(&response, response.value())),
        Err(error) => errors.push(error),
    }
    match patch.await {
        Ok(response) => append_debug(&response),
        Err(error) => errors.push(error),
    }
    append_debug(&many);
    match many.next().await.unwrap().result {
        Ok(deal) => append_debug(&deal),
        Err(error) => errors.push(error),
    }
    errors.iter().for_each(append_error);
    errors
}

/// Makes every kind of call to a peer that follows a script, and returns the errors.
async fn call_peer(protocol: Protocol, script: Script, slow: bool) -> Vec<Error> {
    let peer = Peer::start(protocol, vec![script]);
    let builder = peer
        .builder()
        .service_key(key())
        .header("x-mark-all", PERSONAL)
        .max_response_bytes(8 * LIMIT);
    append_debug(&builder);
    let builder = if slow {
        let builder = builder.timeout(Duration::from_secs(1));
        builder.attempt_timeout(Duration::from_millis(100))
    } else {
        builder
    };
    let client = builder.build().unwrap();
    let errors = make_calls(&client).await;
    drop(client);
    let counts = peer.finish().await;
    if protocol == Http1 && counts.requests > 0 {
        let heard = String::from_utf8(counts.heard.concat()).unwrap();
        assert!(
            heard.contains(SECRET) && heard.contains(PERSONAL),
            "the marks were not sent"
        );
    }
    errors
}

#[tokio::test]
async fn no_fault_shows_a_mark() {
    capture_output();
    let all = BOTH.into_iter().flat_map(|protocol| {
        catalogue::faults(protocol)
            .into_iter()
            .map(move |fault| call_peer(protocol, fault.script, fault.slow))
    });
    join_all(all).await;
    let client = peer::builder(&refused())
        .service_key(key())
        .build()
        .unwrap();
    assert_eq!(make_calls(&client).await.len(), 4);
    check_no_marks("faults");
    // An empty output would prove nothing, so each of these crates must have logged something.
    let shown = output();
    for target in [" dealkit: ", " h2::", " hyper_util::", " reqwest::"] {
        assert!(shown.contains(target), "{target} logged nothing");
    }
}

#[tokio::test]
async fn no_success_shows_a_mark() {
    capture_output();
    for protocol in BOTH {
        let errors = call_peer(
            protocol,
            vec![Step::Hear, answer(200, &marked_response())],
            false,
        )
        .await;
        assert_eq!(errors.len(), 0, "{errors:?}");
    }
    check_no_marks("success");
}

/// The service repeats the key in every part of its responses.
#[tokio::test]
async fn a_key_that_the_service_sends_back_is_not_shown() {
    capture_output();
    let key = key();
    let problem = format!(
        r#"{{"type":"{key}","title":"{key}","detail":"what is {key}?","request_id":"{key}","errors":[{{"pointer":"/{key}","code":"{key}","detail":"{key}"}}],"{key}":"{key}"}}"#
    );
    let echoed = |name| Step::Answer(400, vec![(name, key.clone())], Vec::new());
    let located = |location: String| Step::Answer(302, vec![("location", location)], Vec::new());
    let mut scripts = vec![
        vec![Step::Hear, answer(400, &problem)],
        vec![Step::Hear, answer(422, &problem)],
        vec![Step::Hear, answer(500, &key)],
        vec![
            Step::Hear,
            answer(200, &format!(r#"{{"id":"x","metadata":{{"{key}":1}}}}"#)),
        ],
        vec![Step::Hear, answer(200, &format!(r#"{{"id":"x","{key}":"#))],
        vec![Step::Hear, answer(200, &key)],
        vec![
            Step::Hear,
            Step::Answer(200, vec![("x-request-id", key.clone())], FINE.into()),
        ],
        vec![Step::Hear, echoed("x-request-id")],
        vec![Step::Hear, echoed("retry-after")],
        vec![Step::Hear, echoed("www-authenticate")],
        vec![Step::Hear, echoed("set-cookie")],
        vec![Step::Hear, located(format!("http://{key}.example.com/"))],
        vec![Step::Hear, located(format!("http://example.com/{key}"))],
        vec![Step::Hear, located(format!("{key}:{key}"))],
        vec![Step::Hear, located(key.clone())],
    ];
    for script in scripts.clone() {
        call_peer(Http2, script, false).await;
    }
    scripts.push(vec![
        Step::Hear,
        Step::Raw(format!("{key}\r\n\r\n").into_bytes()),
        Step::End,
    ]);
    scripts.push(vec![
        Step::Hear,
        Step::Raw(format!("HTTP/1.1 200 {key}\r\n{key}\r\n\r\n").into_bytes()),
        Step::End,
    ]);
    scripts.push(vec![
        Step::Hear,
        Step::Raw(
            format!("HTTP/1.1 404 {key}\r\n{key}: {key}\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        ),
    ]);
    scripts.push(vec![
        Step::Hear,
        Step::Raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {key}\r\n\r\n").into_bytes()),
        Step::End,
    ]);
    for script in scripts {
        call_peer(Http1, script, false).await;
    }
    check_no_marks("echo");
}

/// The key provider returns several keys, one after the other. The service repeats an old and a new key, and the provider's error
/// contains another.
#[tokio::test]
async fn no_key_shows_while_keys_change() {
    capture_output();
    let provider = |number: u32| {
        move |asked: u32| match asked {
            0 => Ok(format!("k-{SECRET}-old")),
            1 => Ok(format!("k-{SECRET}-new")),
            _ if number == 0 => Err(format!("k-{SECRET}-lost")),
            _ => Ok(format!("k-{SECRET}-\n")),
        }
    };
    let echo = format!(
        r#"{{"title":"k-{SECRET}-old","detail":"k-{SECRET}-new","request_id":"k-{SECRET}-OLD"}}"#
    );
    for protocol in BOTH {
        for number in 0..2 {
            let (answer_of, asked) = (provider(number), AtomicU32::new(0));
            let rejection = Step::Answer(
                401,
                vec![("x-request-id", format!("k-{SECRET}-old"))],
                echo.clone().into(),
            );
            let peer = Peer::start(protocol, vec![vec![Step::Hear, rejection]]);
            let builder = peer.builder().service_key_provider(move || {
                let answer = answer_of(asked.fetch_add(1, Ordering::SeqCst));
                async move { answer }
            });
            append_debug(&builder);
            let client = builder.build().unwrap();
            let mut errors = make_calls(&client).await;
            errors.extend(make_calls(&client).await);
            assert_eq!(errors.len(), 8, "{errors:?}");
        }
    }
    check_no_marks("rotation");
}

/// Checks that the output so far contains no line of this PEM file except its delimiters.
#[cfg(feature = "rustls")]
fn check_no_pem(pem: &str) {
    let shown = output();
    for line in pem.lines().filter(|line| !line.contains("-----")) {
        assert!(!shown.contains(line), "{line}");
    }
}

/// Calls over TLS that succeed, and that fail: the output contains no mark, no certificate and no private key.
#[cfg(feature = "rustls")]
#[tokio::test]
async fn no_secure_connection_shows_a_mark() {
    use peer::tls::{Authority, Front, Tls};

    capture_output();
    let (authority, issuer) = (Authority::new(), Authority::new());
    let (leaf, identity) = (authority.issue(), issuer.issue());
    let strange = authority.issue();
    let elsewhere = authority.issue_changed(|params| params.subject_alt_names.clear());
    for protocol in BOTH {
        for (leaf, roots, identity, failures) in [
            (&leaf, authority.pem(), Some(&identity), 0),
            (&leaf, issuer.pem(), Some(&identity), 4),
            (&leaf, authority.pem(), Some(&strange), 4),
            (&leaf, authority.pem(), None, 4),
            (&elsewhere, authority.pem(), Some(&identity), 4),
        ] {
            let script = vec![Step::Hear, answer(200, &marked_response())];
            let peer = Peer::start(protocol, vec![script]);
            let front = Front::start(peer, &Tls::new(leaf).asking(&issuer));
            let mut builder = peer::builder(&front.url())
                .service_key(key())
                .root_certificates(roots);
            if let Some(identity) = identity {
                builder = builder.identity(identity.pem());
            }
            append_debug(&builder);
            let errors = make_calls(&builder.build().unwrap()).await;
            assert_eq!(errors.len(), failures, "{errors:?}");
        }
    }
    check_no_marks("tls");
    for pem in [identity.pem(), strange.pem(), leaf.pem(), authority.pem()] {
        check_no_pem(&pem);
    }
    assert!(output().contains(" rustls_platform_verifier"));
}

/// The tests above prove nothing unless they would find a mark.
#[test]
fn every_kind_of_output_is_captured() {
    capture_output();
    let marks = ["tracing", "log", "span", "panic"].map(|kind| format!("seen-in-{kind}"));
    tracing::trace!(text = %marks[0], "x");
    log::trace!("{}", marks[1]);
    drop(tracing::trace_span!("x", text = marks[2]));
    let shown_by_panic = panic::catch_unwind(|| panic!("{}", marks[3]));
    shown_by_panic.unwrap_err();
    let shown = output();
    for mark in marks {
        assert!(shown.contains(&mark), "{mark}");
    }
}
