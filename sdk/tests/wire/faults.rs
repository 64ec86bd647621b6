//! Faults of services and networks. Each error names the fault and how far the request got, and holds the received part of the
//! body. The service is called as often as the error says, and creates at most one agent.

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
    BOTH, Blackhole, Counts, HANG_LIMIT, Http1, Http2, KEY, Peer, Protocol, Step, VALID_BODY, ada,
    all_texts, answer, builder,
    catalogue::{self, Expected, ExpectedBody, Fault, LIMIT, SHORT},
    clock::FrozenClock,
    unreachable_url, wait_until_idle,
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

/// Checks each accessor and the message of an error.
fn check_error(case: &str, error: &Error, expected: &Expected, attempts: u32) {
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
        let message = format!("limit of {LIMIT} bytes; raise the limit to read it");
        assert!(error.to_string().contains(&message), "{error}");
    }
    match (&expected.body, error.body()) {
        (ExpectedBody::Nothing, None) => {}
        (ExpectedBody::Exactly(whole), Some(body)) if body == whole => {}
        (ExpectedBody::PrefixOf(whole), Some(body))
            if whole.starts_with(body) && body.len() < whole.len() => {}
        (_, body) => panic!("{text}: the body is {body:?}"),
    }
    let shown = format!("{error} {error:?} {error:#?}");
    for secret in [KEY, "x_1", "ada@example.com", "Lovelace"] {
        assert!(!shown.contains(secret), "{case} shows {secret}: {shown}");
    }
}

/// Runs a test whose attempts end at a short deadline. If it fails, the machine may have been too busy to send the request in
/// time, so the result with a long deadline decides.
async fn with_deadline<F: Future<Output = ()>>(test: impl Fn(Duration) -> F) {
    if AssertUnwindSafe(test(SHORT)).catch_unwind().await.is_err() {
        test(20 * SHORT).await;
    }
}

async fn run_fault(protocol: Protocol, verb: Verb, fault: Fault, deadline: Duration) {
    let case = format!("{} ({verb:?}, {protocol:?})", fault.name);
    let expected = &fault.expected;
    let is_heard = fault
        .script
        .iter()
        .any(|step| matches!(step, Step::ReadRequest));
    let acts = is_heard && expected.outcome != Outcome::NotSent;
    let script = if acts {
        create_on_request(&fault.script)
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
    // A request that was not sent is retried, and so is a read without a response.
    let has_no_response = matches!(expected.kind, ErrorKind::Interrupted | ErrorKind::Timeout);
    let is_retried = expected.outcome == Outcome::NotSent || has_no_response && verb == Verb::Get;
    let attempts = if is_retried { 3 } else { 1 };
    check_error(&case, &error, expected, attempts);
    let counts = peer.finish().await;
    let heard = if is_heard { attempts as usize } else { 0 };
    assert_eq!(counts.requests, heard, "{case}");
    let is_created = acts && verb == Verb::Post;
    assert_eq!(counts.agents, usize::from(is_created), "{case}");
}

/// Returns the script of a service that creates the agent as soon as it has received the request.
fn create_on_request(script: &[Step]) -> Vec<Step> {
    let acts = |step: &Step| match step {
        Step::ReadRequest => vec![Step::ReadRequest, Step::Process],
        step => vec![step.clone()],
    };
    script.iter().flat_map(acts).collect()
}

async fn run_all_faults(protocol: Protocol) {
    let (slow, quick): (Vec<_>, Vec<_>) = catalogue::faults(protocol)
        .into_iter()
        .partition(|fault| fault.slow);
    for fault in quick {
        for verb in VERBS {
            run_fault(protocol, verb, fault.clone(), HANG_LIMIT).await;
        }
    }
    let slow = slow.iter().flat_map(|fault| {
        VERBS.map(|verb| {
            with_deadline(move |deadline| run_fault(protocol, verb, fault.clone(), deadline))
        })
    });
    join_all(slow).await;
}

#[tokio::test]
async fn faults_over_http1() {
    run_all_faults(Http1).await;
}

#[tokio::test]
async fn faults_over_http2() {
    run_all_faults(Http2).await;
}

/// Returns the error of a call that never had a connection.
fn without_connection(kind: ErrorKind) -> Expected {
    Expected {
        kind,
        outcome: Outcome::NotSent,
        status: None,
        body: ExpectedBody::Nothing,
    }
}

#[tokio::test]
async fn a_rejected_connection_is_retried_for_every_method() {
    for (protocol, verb) in protocols_and_verbs() {
        let client = builder(&unreachable_url())
            .http2_prior_knowledge(protocol == Http2)
            .build()
            .unwrap();
        let error = call(&client, verb).await.unwrap_err();
        let expected = &without_connection(ErrorKind::Connect);
        check_error("rejected", &error, expected, 3);
        let message = "no connection could be made: nothing is listening at the host and port in the base URL; are they right, \
            and is the service up? (after 3 attempts) [see base_url]";
        assert!(error.to_string().ends_with(message), "{error}");
        assert!(error.source().is_some());
        all_texts(&error);
    }
}

#[tokio::test]
async fn a_connection_that_is_never_made_is_a_timeout_and_was_not_sent() {
    let blackhole = Blackhole::start().await;
    // No bytes are ever in flight.
    tokio::time::pause();
    let short = Duration::from_millis(50);
    for (protocol, verb) in protocols_and_verbs() {
        let builder = || builder(&blackhole.url).http2_prior_knowledge(protocol == Http2);
        for (which, builder) in [
            ("connect", builder().connect_timeout(short)),
            ("attempt", builder().attempt_timeout(short)),
        ] {
            let error = call(&builder.build().unwrap(), verb).await.unwrap_err();
            check_error(which, &error, &without_connection(ErrorKind::Timeout), 3);
            assert!(
                error.to_string().contains("timed out after 0.05 s"),
                "{error}"
            );
        }
        let client = builder().timeout(short).build().unwrap();
        let error = call(&client, verb).await.unwrap_err();
        check_error("total", &error, &without_connection(ErrorKind::Timeout), 1);
    }
}

/// An HTTP/2 connection begins with a preface of its own. If it breaks before the client has started to send the
/// request, the request was not sent. If the client had started, the outcome is unknown.
#[tokio::test]
async fn an_http2_connection_that_breaks_during_its_preface() {
    for breaks in [Step::Reset, Step::End] {
        for verb in VERBS {
            let peer = Peer::start(Http2, vec![vec![Step::PeekRequest, breaks.clone()]]);
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

/// The request is sent after the TLS handshake, so a handshake that fails means that it was not sent.
#[cfg(feature = "rustls")]
#[tokio::test]
async fn tls_that_fails_or_stalls_was_not_sent() {
    for (name, script, kind) in [
        (
            "end",
            vec![Step::PeekRequest, Step::End],
            ErrorKind::Connect,
        ),
        (
            "reset",
            vec![Step::PeekRequest, Step::Reset],
            ErrorKind::Connect,
        ),
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
            check_error(name, &error, &without_connection(kind), 3);
            let counts = peer.finish().await;
            assert_eq!((counts.connections, counts.requests), (3, 0), "{name}");
        }
    }
}

fn protocols_and_verbs() -> impl Iterator<Item = (Protocol, Verb)> {
    BOTH.into_iter()
        .flat_map(|protocol| VERBS.map(|verb| (protocol, verb)))
}

/// Makes one call of each verb over each protocol, which must succeed, and checks what reached the peer.
async fn check_success(case: &str, script: impl Fn(Protocol) -> Vec<Step>) {
    for (protocol, verb) in protocols_and_verbs() {
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
        "{VALID_BODY}{}",
        " ".repeat(usize::try_from(LIMIT).unwrap() - VALID_BODY.len())
    );
    check_success("at the limit", |_| {
        vec![Step::ReadRequest, answer(200, &padded)]
    })
    .await;
    check_success("at the limit, without a length", |protocol| {
        let headers = if protocol == Http1 {
            vec![("connection", "close".to_owned())]
        } else {
            Vec::new()
        };
        let body = Step::Body(padded.clone().into_bytes(), true);
        let mut script = vec![Step::ReadRequest, Step::Head(200, headers), body];
        if protocol == Http1 {
            script.push(Step::End);
        }
        script
    })
    .await;
}

#[tokio::test]
async fn a_response_before_the_end_of_the_request_is_accepted() {
    // The service rejects the request before it has read all of it.
    for (protocol, verb) in protocols_and_verbs().filter(|(protocol, _)| *protocol == Http1) {
        let peer = Peer::start(
            protocol,
            vec![vec![Step::PeekRequest, answer(413, ""), Step::End]],
        );
        let client = peer.retrying_client();
        let error = call(&client, verb).await.unwrap_err();
        drop(client);
        assert_eq!(error.status().unwrap().as_u16(), 413, "{error:?}");
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Rejected, 1));
        peer.finish().await;
    }
}

/// A service may send an unsolicited response, such as a 408 before it closes the connection. The client does not use it as
/// the response to the next request.
#[tokio::test]
async fn an_unsolicited_response_is_not_the_response_to_the_next_request() {
    let unsolicited =
        Step::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"id\":\"bad\"}".to_vec());
    let scripts = vec![
        vec![
            Step::ReadRequest,
            answer(200, VALID_BODY),
            unsolicited,
            Step::Silence,
        ],
        vec![Step::ReadRequest, answer(200, VALID_BODY)],
    ];
    let peer = Peer::start(Http1, scripts);
    let client = peer.retrying_client();
    call(&client, Verb::Get).await.unwrap();
    // The client closes the connection when it receives the unsolicited response.
    peer.wait_for_end().await;
    let deal = client.deals().retrieve("x_1").await.unwrap();
    assert_eq!(deal.id.as_str(), "x_1");
    drop(client);
    peer.finish().await;
}

/// An HTTP/2 connection that no longer responds would time out every later request.
#[tokio::test]
async fn a_dead_http2_connection_is_abandoned() {
    with_deadline(check_dead_connection).await;
}

async fn check_dead_connection(deadline: Duration) {
    let scripts = vec![
        vec![
            Step::ReadRequest,
            answer(200, VALID_BODY),
            Step::ReadRequest,
            Step::Silence,
        ],
        vec![Step::ReadRequest, answer(200, VALID_BODY)],
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
async fn the_longest_timeouts_never_expire() {
    for (protocol, verb) in protocols_and_verbs() {
        let peer = Peer::start(
            protocol,
            vec![vec![Step::ReadRequest, answer(200, VALID_BODY)]],
        );
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
    for (protocol, verb) in protocols_and_verbs() {
        let elsewhere = Peer::start(
            protocol,
            vec![vec![Step::ReadRequest, answer(200, VALID_BODY)]],
        );
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
                    Step::ReadRequest,
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
async fn an_invalid_response_head_is_located() {
    for (head, location) in [
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
            vec![vec![Step::ReadRequest, Step::Raw(head.into()), Step::End]],
        );
        let client = peer.builder().retry(RetryPolicy::never()).build().unwrap();
        let error = client.deals().retrieve("x_1").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Interrupted, Outcome::Unknown)
        );
        let message = format!(
            "GET /v1/deals/{{id}}: the head of the response is not valid HTTP, in {location}; report this to the service's operator"
        );
        assert_eq!(error.to_string(), message);
        assert!(!all_texts(&error).contains("CANARY"));
    }
}

/// HEAD is retried like GET. The content-length of its response is not followed by a body.
#[tokio::test]
async fn the_response_to_head_has_no_body_despite_its_content_length() {
    let head = Step::Head(200, vec![("content-length", "999999".to_owned())]);
    let peer = Peer::start(
        Http1,
        vec![
            vec![Step::ReadRequest, Step::Reset],
            vec![Step::ReadRequest, head],
        ],
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

/// A GOAWAY frame may contain text from the service, which dealkit's error does not repeat. The TRACE events of the crate h2 do
/// contain it, and a client cannot prevent that.
#[tokio::test]
async fn a_key_in_a_goaway_is_not_shown_by_an_error() {
    let mut payload = vec![0, 0, 0, 0, 0, 0, 0, 2];
    payload.extend(KEY.bytes());
    let script = vec![
        Step::ReadRequest,
        Step::Frame(7, 0, false, payload),
        Step::End,
    ];
    let peer = Peer::start(Http2, vec![script]);
    let client = peer.retrying_client();
    let error = call(&client, Verb::Post).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Interrupted, Outcome::NotSent)
    );
    let texts = all_texts(&error);
    assert!(!texts.contains(KEY), "{texts}");
    drop(client);
    peer.finish().await;
}

/// The attempt's timeout expires while the process is stopped. A response that has arrived by then is read all the same.
#[tokio::test]
async fn a_response_that_arrived_while_the_process_was_stopped_is_not_late() {
    let clock = FrozenClock::start();
    let mut peer = Peer::start(Http1, vec![vec![Step::ReadRequest, Step::Ask]]);
    let client = peer.client();
    let mut call = pin!(client.agents().create(ada()).send());
    // Polls until the request has been sent.
    for _ in 0..100 {
        assert!((&mut call).now_or_never().is_none());
        wait_until_idle().await;
    }
    let heard = peer.next().await;
    // The thread is blocked, as in a process that is stopped, so nothing reads the response.
    heard.answer(201, VALID_BODY);
    let began = Instant::now();
    while peer.counts().answered == 0 {
        assert!(began.elapsed() < HANG_LIMIT, "the response was not written");
        thread::sleep(Duration::from_millis(1));
    }
    clock.advance(Duration::from_secs(3600)).await;
    assert_eq!(call.await.unwrap().id, "x_1");
}
