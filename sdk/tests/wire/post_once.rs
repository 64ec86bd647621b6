//! A create is acted on at most once per call, whatever breaks and whenever: for all faults, against a service that
//! acts first and then breaks.

use std::time::Duration;

use dealkit::{Client, Error, Outcome};
use futures_util::future::join_all;
use proptest::{prelude::*, test_runner::TestRunner};

use crate::peer::{
    BOTH, Counts, FINE, Http1, Http2, Peer, Protocol, Script, Step, ada, answer, at_once,
    catalogue::{self, LIMIT, SHORT},
};

/// A case: what happens on each connection, and whether the deadline ends it.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    scripts: Vec<Script>,
    slow: bool,
}

/// The service creates the agent as soon as it has the request.
fn acting(script: &Script) -> Script {
    let acts = |step: &Step| match step {
        Step::Hear => vec![Step::Hear, Step::Act],
        step => vec![step.clone()],
    };
    script.iter().flat_map(acts).collect()
}

fn fine() -> Script {
    acting(&vec![Step::Hear, answer(201, FINE)])
}

fn cases(protocol: Protocol) -> Vec<Case> {
    let mut cases = Vec::new();
    for fault in catalogue::faults(protocol) {
        let name = fault.name;
        // A service that says that it did not act is taken at its word.
        let says_so = matches!(fault.expected.outcome, Outcome::NotSent | Outcome::Rejected);
        let script = if says_so {
            fault.script
        } else {
            acting(&fault.script)
        };
        let mut add = |how: &str, scripts| {
            cases.push(Case {
                name: format!("{name}{how}"),
                scripts,
                slow: fault.slow,
            });
        };
        add("", vec![script.clone()]);
        // The next connection would readily act again.
        add(
            ", then a service that is fine",
            vec![script.clone(), fine()],
        );
        if !fault.slow {
            // On the same connection.
            let busy = vec![Step::Hear, answer(429, "")];
            add(", after 429", vec![[busy, script].concat()]);
        }
    }
    let of_first_byte = [
        (
            "acts on the first byte, and resets",
            vec![Step::Glance, Step::Act, Step::Reset],
        ),
        (
            "acts on the first byte, and ends",
            vec![Step::Glance, Step::Act, Step::End],
        ),
    ];
    // Over HTTP/2, the first bytes belong to the connection itself, and there is no request yet to act on.
    let of_first_byte = of_first_byte.into_iter().filter(|_| protocol == Http1);
    let also = [
        ("resets at once", vec![Step::Reset]),
        ("ends at once", vec![Step::End]),
        (
            "speaks first",
            vec![
                Step::Raw(b"220 mail.example.com ESMTP\r\n".to_vec()),
                Step::Hear,
                Step::Act,
                Step::End,
            ],
        ),
        (
            "answers before it is asked",
            vec![answer(408, ""), Step::Hear, Step::Act, Step::Reset],
        ),
    ];
    let also = also.into_iter().chain(of_first_byte);
    cases.extend(also.map(|(name, script)| Case {
        name: name.to_owned(),
        scripts: vec![script, fine()],
        slow: false,
    }));
    cases
}

fn client(peer: &Peer, case: &Case) -> Client {
    let builder = peer.builder().max_response_bytes(LIMIT);
    let builder = if case.slow {
        builder.attempt_timeout(SHORT)
    } else {
        builder
    };
    builder.build().unwrap()
}

fn judge(case: &str, outcome: Result<(), Error>, counts: &Counts) {
    let said = match &outcome {
        Ok(()) => "a success".to_owned(),
        Err(error) => format!("{error:?}"),
    };
    assert!(
        counts.agents <= 1,
        "{case}: {} agents, {said}",
        counts.agents
    );
    match outcome {
        Err(error) if error.outcome() == Outcome::NotSent => {
            assert_eq!(counts.agents, 0, "{case}: {said}")
        }
        Err(_) => {}
        Ok(()) => assert_eq!(counts.agents, 1, "{case}: {said}"),
    }
}

async fn run(protocol: Protocol, case: Case) -> usize {
    let peer = Peer::start(protocol, case.scripts.clone());
    let client = client(&peer, &case);
    let outcome = client.agents().create(ada()).await.map(drop);
    drop(client);
    let counts = peer.finish().await;
    judge(&format!("{} ({protocol:?})", case.name), outcome, &counts);
    counts.agents
}

#[tokio::test]
async fn every_fault_after_every_act() {
    for protocol in BOTH {
        let (slow, quick): (Vec<_>, Vec<_>) =
            cases(protocol).into_iter().partition(|case| case.slow);
        let mut agents = 0;
        // Cases with a deadline are not delayed by the others.
        for together in [quick, slow] {
            let made = join_all(together.into_iter().map(|case| run(protocol, case))).await;
            agents += made.iter().sum::<usize>();
        }
        // The service did act, and many times.
        assert!(agents > 80, "{agents}");
    }
}

/// Over HTTP/2 they share a connection, and its fate.
#[tokio::test]
async fn many_at_once_are_tried_once_each() {
    for protocol in BOTH {
        let hear = vec![Step::Hear, Step::Act];
        let broken = match protocol {
            Http1 => [hear, vec![Step::Reset]].concat(),
            Http2 => [vec![hear; 16].concat(), vec![Step::Reset]].concat(),
        };
        let peer = Peer::start(protocol, vec![broken]);
        let client = peer.client();
        let calls = (0..16).map(|_| client.agents().create(ada()).send());
        let outcomes = join_all(calls).await;
        drop(client);
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.as_ref().unwrap_err().attempts() == 1)
        );
        let counts = peer.finish().await;
        assert_eq!((counts.requests, counts.agents), (16, 16), "{protocol:?}");
    }
}

/// The count can exceed one: without the default's caution, it does.
#[tokio::test]
async fn whoever_opts_in_may_get_more() {
    for protocol in BOTH {
        let peer = Peer::start(protocol, vec![vec![Step::Hear, Step::Act, Step::Reset]]);
        let client = peer.client();
        let call = client
            .agents()
            .create(ada())
            .retry(at_once().retry_non_idempotent(true));
        let error = call.await.unwrap_err();
        drop(client);
        assert_eq!((error.attempts(), error.outcome()), (3, Outcome::Unknown));
        assert_eq!(peer.finish().await.agents, 3, "{protocol:?}");
    }
}

fn any_script() -> impl Strategy<Value = Script> {
    let step = prop_oneof![
        3 => Just(vec![Step::Hear, Step::Act]),
        1 => Just(vec![Step::Glance]),
        1 => Just(vec![Step::Hear, answer(429, "")]),
        1 => Just(vec![answer(503, "")]),
        1 => Just(vec![answer(201, FINE)]),
        1 => Just(vec![answer(307, "")]),
        1 => Just(vec![answer(100, "")]),
        1 => Just(vec![Step::Head(200, vec![("content-length", "9".to_owned())])]),
        1 => Just(vec![Step::Body(b"12345".to_vec(), false)]),
        1 => Just(vec![Step::Raw(b"HTTP/1.1 2".to_vec())]),
        // INTERNAL_ERROR; REFUSED_STREAM; a GOAWAY that covers every request.
        1 => Just(vec![Step::Frame(3, 0, true, vec![0, 0, 0, 2])]),
        1 => Just(vec![Step::Hear, Step::Frame(3, 0, true, vec![0, 0, 0, 7])]),
        1 => Just(vec![Step::Frame(7, 0, false, vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])]),
    ];
    let last = prop_oneof![Just(Step::Reset), Just(Step::End)];
    (proptest::collection::vec(step, 0..5), last).prop_map(|(steps, last)| {
        let mut script = steps.concat();
        script.push(last);
        script
    })
}

#[test]
fn over_scripts_that_chance_writes() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    for protocol in [Http1, Http2] {
        let scripts = proptest::collection::vec(any_script(), 1..4);
        TestRunner::new(config.clone())
            .run(&scripts, |scripts| {
                let case = Case {
                    name: format!("{scripts:?}"),
                    scripts,
                    slow: false,
                };
                runtime.block_on(run_loosely(protocol, case));
                Ok(())
            })
            .unwrap();
    }
}

/// Such a service may claim that it has created an agent when it has not.
async fn run_loosely(protocol: Protocol, case: Case) {
    let peer = Peer::start(protocol, case.scripts.clone());
    // Many of these wait for a second request, which never arrives.
    let client = peer
        .builder()
        .attempt_timeout(Duration::from_millis(30))
        .build()
        .unwrap();
    let outcome = client.agents().create(ada()).await.map(drop);
    drop(client);
    let counts = peer.finish().await;
    assert!(
        counts.agents <= 1,
        "{} ({protocol:?}): {outcome:?}",
        case.name
    );
    if let Err(error) = outcome
        && error.outcome() == Outcome::NotSent
    {
        assert_eq!(counts.agents, 0, "{} ({protocol:?}): {error:?}", case.name);
    }
}
