//! Whatever a service or the network does to a call, the error says what happened and how far the request got, and
//! keeps what arrived; and the service is called exactly as often as the error says, and creates one agent at most.

use std::{
    error::Error as _,
    panic::AssertUnwindSafe,
    pin::pin,
    thread,
    time::{Duration, Instant},
};

use dealkit::{Client, Error, ErrorKind, Method, Outcome, RetryPolicy};
use futures_util::{FutureExt as _, future::join_all};

use crate::peer::{
    BOTH, Blackhole, Counts, FINE, Http1, Http2, KEY, PATIENCE, Peer, Protocol, Step, ada, answer,
    builder,
    catalogue::{self, Expected, Fault, Kept, LIMIT, SHORT},
    clock::FrozenClock,
    every_text, refused, settle,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    Post,
}

const VERBS: [Verb; 2] = [Verb::Get, Verb::Post];

async fn call(client: &Client, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Get => client.deals().retrieve("x_1").await.map(drop),
        Verb::Post => client.agents().create(ada()).await.map(drop),
    }
}

/// Checks everything that an error says.
fn check(case: &str, error: &Error, expected: &Expected, attempts: u32) {
    let text = format!("{case}: {error:?}");
    assert_eq!(error.kind(), expected.kind, "{text}");
    assert_eq!(error.outcome(), expected.outcome, "{text}");
    assert_eq!(
        error.status().map(|status| status.as_u16()),
        expected.status,
        "{text}"
    );
    assert_eq!(error.retry_after(), None, "{text}");
    let id = error
        .headers()
        .and_then(|headers| headers.get("x-request-id"));
    assert_eq!(error.request_id(), id.map(|id| id.to_str().unwrap()));
    let is_timeout = error.kind() == ErrorKind::Timeout;
    let is_connection = matches!(error.kind(), ErrorKind::Connect | ErrorKind::Interrupted);
    assert_eq!(error.is_timeout(), is_timeout, "{text}");
    assert_eq!(error.is_connection(), is_connection || is_timeout, "{text}");
    assert_eq!(error.attempts(), attempts, "{text}");
    if error.kind() == ErrorKind::TooLarge {
        let told = format!("limit of {LIMIT} bytes; raise the limit to read it");
        assert!(error.to_string().contains(&told), "{error}");
    }
    match (&expected.body, error.body()) {
        (Kept::Nothing, None) => {}
        (Kept::Exactly(whole), Some(kept)) if kept == whole => {}
        (Kept::SomeOf(whole), Some(kept))
            if whole.starts_with(kept) && kept.len() < whole.len() => {}
        (_, kept) => panic!("{text}: kept {kept:?}"),
    }
    let shown = format!("{error} {error:?} {error:#?}");
    for secret in [KEY, "x_1", "ada@example.com", "Lovelace"] {
        assert!(!shown.contains(secret), "{case} shows {secret}: {shown}");
    }
}

/// Runs a test whose attempts end with a deadline. If that fails with a short one, the machine may have been too busy to get as far
/// as the test expects, so a long one decides.
async fn with_deadline<F: Future<Output = ()>>(test: impl Fn(Duration) -> F) {
    if AssertUnwindSafe(test(SHORT)).catch_unwind().await.is_err() {
        test(20 * SHORT).await;
    }
}

async fn run(protocol: Protocol, verb: Verb, fault: Fault, deadline: Duration) {
    let case = format!("{} ({verb:?}, {protocol:?})", fault.name);
    let expected = &fault.expected;
    let is_heard = fault.script.iter().any(|step| matches!(step, Step::Hear));
    let acts = is_heard && expected.outcome != Outcome::NotSent;
    let script = if acts {
        acting(&fault.script)
    } else {
        fault.script.clone()
    };
    let peer = Peer::start(protocol, vec![script]);
    let mut builder = peer.builder().max_response_bytes(LIMIT);
    if fault.slow {
        builder = builder.attempt_timeout(deadline);
    }
    let client = builder.build().unwrap();
    let error = call(&client, verb).await.expect_err(&case);
    drop(client);
    // What was not sent is sent again, and so is a read that nothing answered.
    let broke = matches!(expected.kind, ErrorKind::Interrupted | ErrorKind::Timeout);
    let is_retried = expected.outcome == Outcome::NotSent || broke && verb == Verb::Get;
    let attempts = if is_retried { 3 } else { 1 };
    check(&case, &error, expected, attempts);
    let counts = peer.finish().await;
    let heard = if is_heard { attempts as usize } else { 0 };
    assert_eq!(counts.requests, heard, "{case}");
    let is_created = acts && verb == Verb::Post;
    assert_eq!(counts.agents, usize::from(is_created), "{case}");
}

/// The service creates the agent as soon as it has the request.
fn acting(script: &[Step]) -> Vec<Step> {
    let acts = |step: &Step| match step {
        Step::Hear => vec![Step::Hear, Step::Act],
        step => vec![step.clone()],
    };
    script.iter().flat_map(acts).collect()
}

async fn run_all(protocol: Protocol) {
    let (slow, quick): (Vec<_>, Vec<_>) = catalogue::faults(protocol)
        .into_iter()
        .partition(|fault| fault.slow);
    for fault in quick {
        for verb in VERBS {
            run(protocol, verb, fault.clone(), PATIENCE).await;
        }
    }
    let slow = slow.iter().flat_map(|fault| {
        VERBS
            .map(|verb| with_deadline(move |deadline| run(protocol, verb, fault.clone(), deadline)))
    });
    join_all(slow).await;
}

#[tokio::test]
async fn faults_over_http1() {
    run_all(Http1).await;
}

#[tokio::test]
async fn faults_over_http2() {
    run_all(Http2).await;
}

/// The result of a call that never had a connection.
fn unconnected(kind: ErrorKind) -> Expected {
    Expected {
        kind,
        outcome: Outcome::NotSent,
        status: None,
        body: Kept::Nothing,
    }
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_whatever_the_method() {
    for (protocol, verb) in every() {
        let client = builder(&refused())
            .http2_prior_knowledge(protocol == Http2)
            .build()
            .unwrap();
        let error = call(&client, verb).await.unwrap_err();
        check("refused", &error, &unconnected(ErrorKind::Connect), 3);
        let told = "no connection could be made: nothing is listening at the host and port in the base URL; are they right, \
            and is the service up? (after 3 attempts) [see base_url]";
        assert!(error.to_string().ends_with(told), "{error}");
        assert!(error.source().is_some());
        every_text(&error);
    }
}

#[tokio::test]
async fn a_connection_that_is_never_made_is_a_timeout_and_was_not_sent() {
    let blackhole = Blackhole::start().await;
    // No bytes are ever in flight.
    tokio::time::pause();
    let short = Duration::from_millis(50);
    for (protocol, verb) in every() {
        let builder = || builder(&blackhole.url).http2_prior_knowledge(protocol == Http2);
        for (which, builder) in [
            ("connect", builder().connect_timeout(short)),
            ("attempt", builder().attempt_timeout(short)),
        ] {
            let error = call(&builder.build().unwrap(), verb).await.unwrap_err();
            check(which, &error, &unconnected(ErrorKind::Timeout), 3);
            assert!(
                error.to_string().contains("timed out after 0.05 s"),
                "{error}"
            );
        }
        let client = builder().timeout(short).build().unwrap();
        let error = call(&client, verb).await.unwrap_err();
        check("total", &error, &unconnected(ErrorKind::Timeout), 1);
    }
}

/// An HTTP/2 connection begins with a preface of its own. If it breaks before the client has started to send the
/// request, the request was not sent; if the client had started, nobody knows.
#[tokio::test]
async fn a_connection_that_breaks_at_once_over_http2() {
    for breaks in [Step::Reset, Step::End] {
        for verb in VERBS {
            let peer = Peer::start(Http2, vec![vec![Step::Glance, breaks.clone()]]);
            for _ in 0..20 {
                // Each client has a retry quota of its own.
                let error = call(&peer.retrying_client(), verb).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:?}");
                match error.outcome() {
                    Outcome::NotSent => assert_eq!(error.attempts(), 3, "{error:?}"),
                    Outcome::Unknown if verb == Verb::Get => assert_eq!(error.attempts(), 3),
                    // The attempt that had started was the last one.
                    Outcome::Unknown => assert!(error.attempts() <= 3),
                    outcome => panic!("{outcome:?}: {error:?}"),
                }
            }
            assert_eq!(peer.finish().await.requests, 0);
        }
    }
}

/// Connecting includes TLS: the request waits for it, so it was not sent.
#[cfg(feature = "rustls")]
#[tokio::test]
async fn tls_that_fails_or_stalls_was_not_sent() {
    for (name, script, kind) in [
        ("end", vec![Step::Glance, Step::End], ErrorKind::Connect),
        ("reset", vec![Step::Glance, Step::Reset], ErrorKind::Connect),
        ("silence", vec![Step::Silence], ErrorKind::Timeout),
    ] {
        for verb in VERBS {
            let peer = Peer::start(Http1, vec![script.clone()]);
            let mut builder = builder(&peer.url.replace("http:", "https:"));
            if kind == ErrorKind::Timeout {
                builder = builder.connect_timeout(SHORT);
            }
            let client = builder.build().unwrap();
            let error = call(&client, verb).await.unwrap_err();
            drop(client);
            check(name, &error, &unconnected(kind), 3);
            let counts = peer.finish().await;
            assert_eq!((counts.connections, counts.requests), (3, 0), "{name}");
        }
    }
}

fn every() -> impl Iterator<Item = (Protocol, Verb)> {
    BOTH.into_iter()
        .flat_map(|protocol| VERBS.map(|verb| (protocol, verb)))
}

/// Makes one call of each verb over each protocol, which must succeed, and checks what reached the peer.
async fn succeeds(case: &str, script: impl Fn(Protocol) -> Vec<Step>) {
    for (protocol, verb) in every() {
        let peer = Peer::start(protocol, vec![script(protocol)]);
        let client = peer.builder().max_response_bytes(LIMIT).build().unwrap();
        let outcome = call(&client, verb).await;
        drop(client);
        outcome.unwrap_or_else(|error| panic!("{case} ({verb:?}, {protocol:?}): {error:?}"));
        let counts = peer.finish().await;
        assert_eq!(
            (counts.connections, counts.requests),
            (1, 1),
            "{case} ({verb:?}, {protocol:?})"
        );
    }
}

#[tokio::test]
async fn a_body_at_the_limit_is_read() {
    let padded = format!(
        "{FINE}{}",
        " ".repeat(usize::try_from(LIMIT).unwrap() - FINE.len())
    );
    succeeds("at the limit", |_| vec![Step::Hear, answer(200, &padded)]).await;
    succeeds("at the limit, without a length", |protocol| {
        let headers = if protocol == Http1 {
            vec![("connection", "close".to_owned())]
        } else {
            Vec::new()
        };
        let body = Step::Body(padded.clone().into_bytes(), true);
        let mut script = vec![Step::Hear, Step::Head(200, headers), body];
        if protocol == Http1 {
            script.push(Step::End);
        }
        script
    })
    .await;
}

#[tokio::test]
async fn a_response_before_the_whole_request_is_taken() {
    // The service refuses before it has read the request.
    for (protocol, verb) in every().filter(|(protocol, _)| *protocol == Http1) {
        let peer = Peer::start(
            protocol,
            vec![vec![Step::Glance, answer(413, ""), Step::End]],
        );
        let client = peer.retrying_client();
        let error = call(&client, verb).await.unwrap_err();
        drop(client);
        assert_eq!(error.status().unwrap().as_u16(), 413, "{error:?}");
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Rejected, 1));
        peer.finish().await;
    }
}

/// An unsolicited response, such as the 408 of a server that hangs up, is not taken for the response to the next
/// request.
#[tokio::test]
async fn an_unasked_response_is_not_taken_for_the_next_one() {
    let unasked =
        Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"id\":\"bad\"}".to_vec());
    let scripts = vec![
        vec![Step::Hear, answer(200, FINE), unasked, Step::Silence],
        vec![Step::Hear, answer(200, FINE)],
    ];
    let peer = Peer::start(Http1, scripts);
    let client = peer.retrying_client();
    call(&client, Verb::Get).await.unwrap();
    // The client hangs up when it sees the unsolicited response.
    peer.an_end().await;
    let deal = client.deals().retrieve("x_1").await.unwrap();
    assert_eq!(deal.id.as_str(), "x_1");
    drop(client);
    peer.finish().await;
}

/// An HTTP/2 connection that has silently died would swallow every later request.
#[tokio::test]
async fn a_dead_connection_over_http2_is_given_up() {
    with_deadline(give_up_a_dead_connection).await;
}

async fn give_up_a_dead_connection(deadline: Duration) {
    let scripts = vec![
        vec![Step::Hear, answer(200, FINE), Step::Hear, Step::Silence],
        vec![Step::Hear, answer(200, FINE)],
    ];
    let peer = Peer::start(Http2, scripts);
    let client = peer.builder().attempt_timeout(deadline).build().unwrap();
    call(&client, Verb::Get).await.unwrap();
    let outcome = call(&client, Verb::Get).await;
    drop(client);
    outcome.unwrap();
    let counts = peer.finish().await;
    assert_eq!(counts.connections, 2);
}

#[tokio::test]
async fn the_longest_timeouts_there_are_mean_never() {
    for (protocol, verb) in every() {
        let peer = Peer::start(protocol, vec![vec![Step::Hear, answer(200, FINE)]]);
        let longest = Duration::MAX;
        let builder = peer.builder().timeout(longest).attempt_timeout(longest);
        let client = builder.connect_timeout(longest).build().unwrap();
        call(&client, verb).await.unwrap();
        let deal = client.deals().retrieve("x_1").timeout(longest).await;
        deal.unwrap();
        drop(client);
        peer.finish().await;
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed_and_only_its_origin_is_named() {
    for (protocol, verb) in every() {
        let elsewhere = Peer::start(protocol, vec![vec![Step::Hear, answer(200, FINE)]]);
        let port = elsewhere.url.rsplit(':').next().unwrap();
        for (location, named) in [
            (
                format!("{}/v1/deals/SECRET?q=SECRET#SECRET", elsewhere.url),
                elsewhere.url.clone(),
            ),
            (
                format!("http://SECRET:SECRET@localhost:{port}/SECRET"),
                format!("http://localhost:{port}"),
            ),
            (
                format!("\\\\localhost:{port}\\SECRET"),
                format!("http://localhost:{port}"),
            ),
            (
                "/SECRET".to_owned(),
                "another path on the same host".to_owned(),
            ),
            ("mailto:SECRET@example.com".to_owned(), "".to_owned()),
        ] {
            for status in [302, 308] {
                let script = vec![
                    Step::Hear,
                    Step::Answer(status, vec![("location", location.clone())], Vec::new()),
                ];
                let peer = Peer::start(protocol, vec![script]);
                let client = peer.retrying_client();
                let error = call(&client, verb).await.unwrap_err();
                drop(client);
                let text = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Status, "{text}");
                assert_eq!(error.status().unwrap().as_u16(), status, "{text}");
                assert_eq!(
                    (error.outcome(), error.attempts()),
                    (catalogue::outcome_of(status), 1),
                    "{text}"
                );
                assert!(
                    text.contains(&named) && text.contains("never followed"),
                    "{location}: {text}"
                );
                assert!(
                    !format!("{text}{error:?}").contains("SECRET"),
                    "{location}: {text}"
                );
                assert_eq!(peer.finish().await.requests, 1);
            }
        }
        assert_eq!(elsewhere.finish().await, Counts::default());
    }
}

#[tokio::test]
async fn the_head_of_a_response_that_is_not_valid_http_is_named() {
    for (head, place) in [
        (
            "HTTP/1.1 200 OK\r\nx-fine: 1\r\nCANARY bad\r\n\r\n",
            "one of its header lines, below the status line",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: CANARY\r\n\r\n",
            "the header Content-Length",
        ),
        ("HTTP/1.1 CANARY\r\n\r\n", "its status line"),
        ("CANARY\r\n\r\n", "its status line"),
    ] {
        let peer = Peer::start(
            Http1,
            vec![vec![Step::Hear, Step::Raw(head.into()), Step::End]],
        );
        let client = peer.builder().retry(RetryPolicy::never()).build().unwrap();
        let error = client.deals().retrieve("x_1").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Interrupted, Outcome::Unknown)
        );
        let told = format!(
            "GET /v1/deals/{{id}}: the head of the response is not valid HTTP, in {place}; `curl --include` shows it"
        );
        assert_eq!(error.to_string(), told);
        assert!(!every_text(&error).contains("CANARY"));
    }
}

/// HEAD is retried like GET, and its content-length does not announce a body to wait for.
#[tokio::test]
async fn head_has_no_body_whatever_its_length_says() {
    let head = Step::Head(200, vec![("content-length", "999999".to_owned())]);
    let peer = Peer::start(
        Http1,
        vec![vec![Step::Hear, Step::Reset], vec![Step::Hear, head]],
    );
    let client = peer.builder().max_response_bytes(LIMIT).build().unwrap();
    let response = client
        .request(Method::HEAD, ["deals", "x_1"])
        .send()
        .await
        .unwrap();
    assert_eq!((response.attempts(), response.body().len()), (2, 0));
    drop(client);
    assert_eq!(peer.finish().await.requests, 2);
}

/// GOAWAY may contain text from the service. dealkit's error does not repeat it; h2's own TRACE records of the frames
/// that it receives do, and no client can prevent that.
#[tokio::test]
async fn a_key_in_a_goaway_is_not_shown_by_an_error() {
    let mut payload = vec![0, 0, 0, 0, 0, 0, 0, 2];
    payload.extend(KEY.bytes());
    let script = vec![Step::Hear, Step::Frame(7, 0, false, payload), Step::End];
    let peer = Peer::start(Http2, vec![script]);
    let client = peer.retrying_client();
    let error = call(&client, Verb::Post).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Interrupted, Outcome::NotSent)
    );
    let texts = every_text(&error);
    assert!(!texts.contains(KEY), "{texts}");
    drop(client);
    peer.finish().await;
}

/// A response that arrived while the process was stopped is read, although the attempt's time was over meanwhile.
#[tokio::test]
async fn a_response_that_arrived_while_the_process_was_stopped_is_not_late() {
    let clock = FrozenClock::start();
    let mut peer = Peer::start(Http1, vec![vec![Step::Hear, Step::Ask]]);
    let client = peer.client();
    let mut call = pin!(client.agents().create(ada()).send());
    // Until the request has left.
    for _ in 0..100 {
        assert!((&mut call).now_or_never().is_none());
        settle().await;
    }
    let heard = peer.next().await;
    // The thread is blocked, as in a process that is stopped, so nothing reads the response.
    heard.answer(201, FINE);
    let began = Instant::now();
    while peer.so_far().answered == 0 {
        assert!(began.elapsed() < PATIENCE, "the response was not written");
        thread::sleep(Duration::from_millis(1));
    }
    clock.advance(Duration::from_secs(3600)).await;
    assert_eq!(call.await.unwrap().id, "x_1");
}
