//! A create reaches a service at most once per call, wherever the connection breaks, even if the service creates the agent
//! before it breaks the connection. `faults` tests the outcome of each fault.

use std::time::Duration;

use dealkit::Outcome;
use futures_util::future::join_all;
use proptest::{prelude::*, test_runner::TestRunner};

use crate::peer::{
    BOTH, Http1, Http2, Peer, Protocol, Script, Step, VALID_BODY, ada, answer, runtime,
};

/// Over HTTP/2, the calls share a connection, and all fail with it.
#[tokio::test]
async fn many_creates_in_flight_are_each_sent_once() {
    for protocol in BOTH {
        let hear = vec![Step::ReadRequest, Step::Process];
        let broken = match protocol {
            Http1 => [hear, vec![Step::Reset]].concat(),
            Http2 => [vec![hear; 16].concat(), vec![Step::Reset]].concat(),
        };
        let peer = Peer::start(protocol, vec![broken]);
        let client = peer.retrying_client();
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

fn any_script() -> impl Strategy<Value = Script> {
    let step = prop_oneof![
        3 => Just(vec![Step::ReadRequest, Step::Process]),
        1 => Just(vec![Step::PeekRequest]),
        1 => Just(vec![Step::ReadRequest, answer(429, "")]),
        1 => Just(vec![answer(503, "")]),
        1 => Just(vec![answer(201, VALID_BODY)]),
        1 => Just(vec![answer(307, "")]),
        1 => Just(vec![answer(100, "")]),
        1 => Just(vec![Step::Head(200, vec![("content-length", "9".to_owned())])]),
        1 => Just(vec![Step::Body(b"12345".to_vec(), false)]),
        1 => Just(vec![Step::Raw(b"HTTP/1.1 2".to_vec())]),
        // INTERNAL_ERROR; REFUSED_STREAM; a GOAWAY that covers every request.
        1 => Just(vec![Step::Frame(3, 0, true, vec![0, 0, 0, 2])]),
        1 => Just(vec![Step::ReadRequest, Step::Frame(3, 0, true, vec![0, 0, 0, 7])]),
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
fn creates_are_sent_once_for_random_scripts() {
    let runtime = runtime();
    for protocol in [Http1, Http2] {
        let scripts = proptest::collection::vec(any_script(), 1..4);
        TestRunner::new(ProptestConfig::with_cases(150))
            .run(&scripts, |scripts| {
                runtime.block_on(run(protocol, scripts));
                Ok(())
            })
            .unwrap();
    }
}

/// Runs creates against a service with these scripts. The service may respond 201 although it has not created an agent.
async fn run(protocol: Protocol, scripts: Vec<Script>) {
    let case = format!("{scripts:?} ({protocol:?})");
    let peer = Peer::start(protocol, scripts);
    // Many of these scripts wait for a second request, which never arrives.
    let client = peer
        .builder()
        .attempt_timeout(Duration::from_millis(30))
        .build()
        .unwrap();
    let outcome = client.agents().create(ada()).await;
    drop(client);
    let agents = peer.finish().await.agents;
    assert!(agents <= 1, "{case}: {outcome:?}");
    if outcome.is_err_and(|error| error.outcome() == Outcome::NotSent) {
        assert_eq!(agents, 0, "{case}");
    }
}
