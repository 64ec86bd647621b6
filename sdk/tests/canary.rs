//! A marked key and marked personal data go through every kind of failure and success, while every log record of every
//! crate is caught: the marks never show.
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

/// Part of every key here.
const SECRET: &str = "c4n4ryS3cr3t";
/// Part of everything personal: of what is sent, and of the deals and agents in the responses.
const PERSONAL: &str = "c4n4ryP3rson";
/// The same, where only digits are allowed.
const DIGITS: &str = "5550100733";

fn key() -> String {
    format!("k-{SECRET}-k")
}

/// Everything that was shown: log records of all crates, error texts, `Debug`.
static SHOWN: Mutex<String> = Mutex::new(String::new());

/// Adds a line to what was shown.
fn show(line: &str) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    shown.push_str(line);
    shown.push('\n');
}

/// Where log records go.
struct Ear;

impl io::Write for Ear {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        show(str::from_utf8(line).unwrap().trim_end());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Catches every span and event of `tracing`, every record of `log`, and the message of every panic.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(|| Ear)
            .init();
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            show(&format!("panic {info}"));
            told(info);
        }));
    });
}

fn shown() -> String {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Checks that nothing shown so far has a mark.
fn nothing_shows(case: &str) {
    // A copy, because the message of a panic is itself shown.
    let shown = shown();
    for line in shown.lines() {
        let lower = line.to_lowercase();
        for mark in [SECRET, PERSONAL, DIGITS] {
            assert!(!lower.contains(&mark.to_lowercase()), "{case}: {line}");
        }
    }
}

/// Shows an error in every possible way, and its causes too. The response's headers, body and problem are left out:
/// they are the service's own, handed over as they are.
fn show_error(error: &Error) {
    show(&every_text(error));
    show_debug(&error.decode_error());
}

fn show_debug(thing: &impl Debug) {
    show(&format!("{thing:?} {thing:#?}"));
}

/// A request in which everything personal is marked.
fn marked() -> CreateAgent {
    let builder = CreateAgent::builder();
    show_debug(&builder);
    let builder = builder
        .email(format!("{PERSONAL}@example.com"))
        .first_name(PERSONAL)
        .last_name(PERSONAL)
        .phone(format!("+{DIGITS}"))
        .image_url(format!("https://example.com/{PERSONAL}"))
        .profile(AgentProfile::new().tier(PERSONAL).external_id(PERSONAL));
    show_debug(&builder);
    let request = builder.build().unwrap();
    show_debug(&request);
    request
}

/// A response, valid as an agent and as a deal, in which everything personal is marked.
fn marked_answer() -> String {
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

/// Makes every kind of call, and shows the results.
async fn call_everything(client: &Client) -> Vec<Error> {
    let id = format!("{PERSONAL}/{PERSONAL}?{DIGITS}");
    let header = format!("{PERSONAL} {SECRET}");
    let create = client.agents().create(marked()).header("x-mark", &header);
    let retrieve = client.deals().retrieve(&id).header("x-mark", &header);
    let json = serde_json::json!({"first_name": PERSONAL});
    let patch = client
        .request(Method::PATCH, ["agents", &id])
        .json(&json)
        .query(PERSONAL, &id);
    show_debug(&(
        client,
        &create,
        &retrieve,
        &patch,
        client.agents(),
        client.deals(),
    ));
    let mut many = client.deals().retrieve_many([id.clone()]);
    show_debug(&many);
    many = many.concurrency(2);
    let mut many = many.stream();
    let mut errors = Vec::new();
    match create.with_response().await {
        Ok(response) => show_debug(&(&response, response.value())),
        Err(error) => errors.push(error),
    }
    match retrieve.with_response().await {
        Ok(response) => show_debug(&(&response, response.value())),
        Err(error) => errors.push(error),
    }
    match patch.await {
        Ok(response) => show_debug(&response),
        Err(error) => errors.push(error),
    }
    show_debug(&many);
    match many.next().await.unwrap().result {
        Ok(deal) => show_debug(&deal),
        Err(error) => errors.push(error),
    }
    errors.iter().for_each(show_error);
    errors
}

/// Answers everything with one script, over either protocol.
async fn against(protocol: Protocol, script: Script, slow: bool) -> Vec<Error> {
    let peer = Peer::start(protocol, vec![script]);
    let builder = peer
        .builder()
        .service_key(key())
        .header("x-mark-all", PERSONAL)
        .max_response_bytes(8 * LIMIT);
    show_debug(&builder);
    let builder = if slow {
        let builder = builder.timeout(Duration::from_secs(1));
        builder.attempt_timeout(Duration::from_millis(100))
    } else {
        builder
    };
    let client = builder.build().unwrap();
    let errors = call_everything(&client).await;
    drop(client);
    let counts = peer.finish().await;
    if protocol == Http1 && counts.requests > 0 {
        let heard = String::from_utf8(counts.heard.concat()).unwrap();
        assert!(
            heard.contains(SECRET) && heard.contains(PERSONAL),
            "the marks were not even sent"
        );
    }
    errors
}

#[tokio::test]
async fn no_fault_shows_a_mark() {
    listen();
    let all = BOTH.into_iter().flat_map(|protocol| {
        catalogue::faults(protocol)
            .into_iter()
            .map(move |fault| against(protocol, fault.script, fault.slow))
    });
    join_all(all).await;
    let client = peer::builder(&refused())
        .service_key(key())
        .build()
        .unwrap();
    assert_eq!(call_everything(&client).await.len(), 4);
    nothing_shows("faults");
    // Every crate was listened to: silence alone would prove nothing.
    let shown = shown();
    for speaker in [" dealkit: ", " h2::", " hyper_util::", " reqwest::"] {
        assert!(shown.contains(speaker), "{speaker} says nothing");
    }
}

#[tokio::test]
async fn no_success_shows_a_mark() {
    listen();
    for protocol in BOTH {
        let errors = against(
            protocol,
            vec![Step::Hear, answer(200, &marked_answer())],
            false,
        )
        .await;
        assert_eq!(errors.len(), 0, "{errors:?}");
    }
    nothing_shows("success");
}

/// A service that sends the key back wherever a response has room for it.
#[tokio::test]
async fn a_key_that_the_service_sends_back_is_not_shown() {
    listen();
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
        against(Http2, script, false).await;
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
        against(Http1, script, false).await;
    }
    nothing_shows("echo");
}

/// Keys of which none shows while they replace each other, even if the service repeats old ones and new ones, and the provider
/// says one when it fails.
#[tokio::test]
async fn no_key_shows_while_keys_change() {
    listen();
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
            let refuse = Step::Answer(
                401,
                vec![("x-request-id", format!("k-{SECRET}-old"))],
                echo.clone().into(),
            );
            let peer = Peer::start(protocol, vec![vec![Step::Hear, refuse]]);
            let builder = peer.builder().service_key_provider(move || {
                let answer = answer_of(asked.fetch_add(1, Ordering::SeqCst));
                async move { answer }
            });
            show_debug(&builder);
            let client = builder.build().unwrap();
            let mut errors = call_everything(&client).await;
            errors.extend(call_everything(&client).await);
            assert_eq!(errors.len(), 8, "{errors:?}");
        }
    }
    nothing_shows("rotation");
}

/// Checks that nothing of this PEM except its armor was shown so far.
#[cfg(feature = "rustls")]
fn nothing_shows_of(pem: &str) {
    let shown = shown();
    for line in pem.lines().filter(|line| !line.contains("-----")) {
        assert!(!shown.contains(line), "{line}");
    }
}

/// Over TLS, whether it works or not: no mark, and nothing of a certificate or a private key.
#[cfg(feature = "rustls")]
#[tokio::test]
async fn no_secure_connection_shows_a_mark() {
    use peer::tls::{Authority, Front, Tls};

    listen();
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
            let script = vec![Step::Hear, answer(200, &marked_answer())];
            let peer = Peer::start(protocol, vec![script]);
            let front = Front::start(peer, &Tls::new(leaf).asking(&issuer));
            let mut builder = peer::builder(&front.url())
                .service_key(key())
                .root_certificates(roots);
            if let Some(identity) = identity {
                builder = builder.identity(identity.pem());
            }
            show_debug(&builder);
            let errors = call_everything(&builder.build().unwrap()).await;
            assert_eq!(errors.len(), failures, "{errors:?}");
        }
    }
    nothing_shows("tls");
    for pem in [identity.pem(), strange.pem(), leaf.pem(), authority.pem()] {
        nothing_shows_of(&pem);
    }
    assert!(shown().contains(" rustls_platform_verifier"));
}

/// The tests above are only worth something if a mark that is shown is found.
#[test]
fn every_way_to_show_a_mark_is_watched() {
    listen();
    let ways = ["tracing", "log", "span", "panic"].map(|way| format!("seen-in-{way}"));
    tracing::trace!(text = %ways[0], "x");
    log::trace!("{}", ways[1]);
    drop(tracing::trace_span!("x", text = ways[2]));
    let shown_by_panic = panic::catch_unwind(|| panic!("{}", ways[3]));
    shown_by_panic.unwrap_err();
    let shown = shown();
    for way in ways {
        assert!(shown.contains(&way), "{way}");
    }
}
