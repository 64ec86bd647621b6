//! Retries, mostly over real connections: after which failures, how often, and within which time, with the default policy, the
//! client's and the call's.

use std::time::Duration;

use dealkit::{CallOptions, ErrorKind, Outcome};
use tokio::time::Instant;

use crate::{
    limits::ScriptedService,
    peer::{BOTH, FINE, Peer, Script, Step, answer, at_once},
    waiting::GRAIN,
};

fn accepts() -> Script {
    vec![Step::Hear, answer(200, FINE)]
}

fn breaks() -> Script {
    vec![Step::Hear, Step::Reset]
}

#[tokio::test]
async fn a_call_s_policy_overrides_the_client_s_which_overrides_the_default() {
    for protocol in BOTH {
        for (client_retries, call_retries, attempts) in [
            (None, None, 3),
            (Some(0), None, 1),
            (Some(4), None, 5),
            (None, Some(1), 2),
            (Some(4), Some(0), 1),
            (Some(0), Some(3), 4),
        ] {
            let peer = Peer::start(protocol, vec![breaks()]);
            let mut builder = peer.builder();
            if let Some(retries) = client_retries {
                builder = builder.retry(at_once().max_retries(retries));
            }
            let client = builder.build().unwrap();
            let mut call = client.deals().retrieve("x_1");
            let mut many = client.deals().retrieve_many(["x_1"]);
            if let Some(retries) = call_retries {
                call = call.retry(at_once().max_retries(retries));
                many = many.options(CallOptions::new().max_retries(retries));
            }
            let error = call.await.unwrap_err();
            let bulk_error = many.stream().next().await.unwrap().result.unwrap_err();
            assert_eq!(
                (error.attempts(), bulk_error.attempts()),
                (attempts, attempts)
            );
            drop(client);
            assert_eq!(peer.finish().await.requests, 2 * attempts as usize);
        }
    }
}

/// The service is a transport that never responds, and the clock is paused.
#[tokio::test(start_paused = true)]
async fn the_timeout_bounds_all_attempts() {
    let total = Duration::from_millis(300);
    let service = ScriptedService::start(Duration::ZERO, [(0, None)]).await;
    let builder = service.builder().attempt_timeout(total / 3);
    let builder = builder.retry(at_once().max_retries(u32::MAX));
    let by_client = builder.clone().timeout(total).build().unwrap();
    let by_call = builder.build().unwrap();
    for call in [
        by_client.deals().retrieve("x_1"),
        by_call.deals().retrieve("x_1").timeout(total),
    ] {
        let start = Instant::now();
        let error = call.await.unwrap_err();
        let duration = start.elapsed();
        assert!((total..total + GRAIN).contains(&duration), "{duration:?}");
        let facts = (error.kind(), error.outcome());
        assert_eq!(facts, (ErrorKind::Timeout, Outcome::Unknown));
        // Three attempts take 0.1 s each; the clock's resolution may leave time for a fourth.
        assert!((3..=4).contains(&error.attempts()), "{error}");
    }
}

#[cfg(feature = "blocking")]
mod blocking {
    use dealkit::blocking::Client;

    use super::*;
    use crate::peer::{Http1, Http2};

    /// Between calls, no thread polls the idle connections of a blocking client. A connection that the service has closed
    /// meanwhile must not fail the next call.
    #[test]
    fn the_blocking_client_survives_a_connection_that_closed_between_calls() {
        for (protocol, last) in [
            (Http1, Step::End),
            (Http1, Step::Reset),
            // No Http2 with Reset: the peer does not know when the client has read the first response.
            (Http2, Step::End),
        ] {
            let closes = vec![Step::Hear, answer(200, FINE), last];
            let peer = Peer::start(protocol, vec![closes, accepts()]);
            let client = Client::new(peer.retrying_client()).unwrap();
            client.deals().retrieve("x_1").send().unwrap();
            let second = client.deals().retrieve("x_1").with_response();
            let response = second.send().unwrap();
            assert!(response.attempts() <= 2);
            drop((client, response));
            let counts = peer.finish_blocking();
            assert_eq!((counts.connections, counts.requests), (2, 2));
        }
    }
}
