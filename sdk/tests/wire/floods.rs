//! What a hostile service can send without end costs neither the call's deadline nor the calls beside it.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use dealkit::{Client, ErrorKind, RetryPolicy};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::yield_now;

use crate::peer::builder;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// A service on a thread of its own that responds with `first`, and then with `flood` again and again. Serves one
/// connection after the other, until the test ends.
fn flooding(first: &'static str, flood: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let flood = flood.repeat(1_000_000 / flood.len());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            if stream.write_all(first.as_bytes()).is_ok() {
                while stream.write_all(flood.as_bytes()).is_ok() {}
            }
        }
    });
    url
}

/// The time that this thread has computed: unlike the time of day, it does not depend on what else the machine does.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

/// The longest time that a call of `client` kept everything else on this runtime from running.
async fn longest_turn(client: &Client) -> (Result<(), dealkit::Error>, Duration) {
    let call = async { client.deals().retrieve("d_1").await.map(drop) };
    tokio::pin!(call);
    let (mut longest, mut before) = (Duration::ZERO, computed());
    loop {
        tokio::select! {
            biased;
            outcome = &mut call => return (outcome, longest),
            () = yield_now() => {
                let now = computed();
                longest = longest.max(now - before);
                before = now;
            }
        }
    }
}

#[tokio::test]
async fn a_flood_holds_up_nobody_and_ends_with_the_deadline() {
    for (name, first, flood) in [
        ("digits of a chunk's length", CHUNKED, "0"),
        ("small chunks", CHUNKED, "1\r\n \r\n"),
        (
            "trailers",
            concat!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
                "0\r\n"
            ),
            "a: b\r\n",
        ),
        ("headers", "HTTP/1.1 200 OK\r\n", "a: b\r\n"),
    ] {
        let client = builder(&flooding(first, flood))
            .retry(RetryPolicy::never())
            .timeout(Duration::from_secs(1))
            .build()
            .unwrap();
        let began = Instant::now();
        client.deals().retrieve("d_1").await.unwrap_err();
        // Ample time for a busy machine; without a turn for others, it is half a minute.
        assert!(began.elapsed() < Duration::from_secs(6), "{name}");
        let (outcome, longest) = longest_turn(&client).await;
        let error = outcome.unwrap_err();
        assert!(error.is_connection(), "{name}: {error:?}");
        assert!(longest < Duration::from_millis(200), "{name}: {longest:?}");
    }
}

#[tokio::test]
async fn interim_responses_without_end_break_the_connection() {
    let url = flooding("", "HTTP/1.1 103 Early Hints\r\n\r\n");
    let client = builder(&url).retry(RetryPolicy::never()).build().unwrap();
    let (outcome, longest) = longest_turn(&client).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("100 interim responses"), "{source}");
    assert!(longest < Duration::from_millis(200), "{longest:?}");
}
