//! Many requests in flight: the number of connections, their reuse, and the limit of file descriptors.

use std::{
    fs::File,
    future::IntoFuture as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use dealkit::{Client, RetryPolicy};
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use tokio::{
    net::TcpListener,
    sync::Barrier,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep},
};

use crate::{
    limits::{SECOND, ScriptedService},
    peer::{FINE, Http1, Http2, Peer, ada, builder, clock::FrozenClock, until, wait_until_idle},
};

/// Starts a service that counts its connections, and awaits a future before each response. Returns its URL and the count.
async fn serve<F>(
    wait: impl Fn() -> F + Clone + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let wait = wait.clone();
            let service = service_fn(move |_: Request<Incoming>| {
                let wait = wait();
                async move {
                    wait.await;
                    Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(FINE))))
                }
            });
            open.spawn(async move {
                let mut server = Builder::new(TokioExecutor::new());
                // HTTP/2 recommends at least 100.
                server.http2().max_concurrent_streams(100);
                let _ = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (url, connections)
}

/// One thread runs client and service, so that every connection is idle again before the next round. The clock is frozen, so
/// that no connection gets too old for a create.
#[tokio::test]
async fn requests_in_flight_have_connections_which_the_next_round_reuses() {
    let _clock = FrozenClock::start();
    for (protocol, creates, count, connections) in [
        (Http1, false, 256, 256),
        (Http1, true, 256, 256),
        (Http2, false, 250, 3),
        (Http2, true, 250, 3),
    ] {
        // The service responds only once all requests have arrived.
        let barrier = Arc::new(Barrier::new(count));
        let (url, made) = serve(move || {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
            }
        })
        .await;
        let client = builder(&url).http2_prior_knowledge(protocol == Http2);
        let client = client.build().unwrap();
        for _ in 0..3 {
            join_all((0..count).map(|_| call(&client, creates))).await;
            wait_until_idle().await;
        }
        let made = made.load(Ordering::Relaxed);
        assert_eq!(made, connections, "{protocol:?}, creates: {creates}");
    }
}

async fn call(client: &Client, creates: bool) {
    if creates {
        client.agents().create(ada()).await.unwrap();
    } else {
        client.deals().retrieve("x_1").await.unwrap();
    }
}

#[tokio::test]
async fn idle_connections_above_the_maximum_are_closed() {
    let barrier = Arc::new(Barrier::new(150));
    let (url, made) = serve(move || {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
        }
    })
    .await;
    let client = builder(&url).max_idle_connections(4).build().unwrap();
    for _ in 0..2 {
        join_all((0..150).map(|_| call(&client, false))).await;
        wait_until_idle().await;
    }
    assert!(made.load(Ordering::Relaxed) > 290);
}

/// The environment variable with the service's URL, for tests in a process of their own.
#[cfg(all(unix, feature = "rustls"))]
const URL: &str = "DEALKIT_TEST_URL";

#[cfg(all(unix, feature = "rustls"))]
#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_for_file_descriptors() {
    // The delay makes the requests overlap.
    let (url, _) = serve(|| sleep(Duration::from_millis(20))).await;
    let test = "many_in_flight::more_in_flight_than_descriptors";
    spawn_blocking(move || crate::child::child(test, &[(URL, &url)]))
        .await
        .unwrap();
}

#[cfg(all(unix, feature = "rustls"))]
#[tokio::test]
async fn more_in_flight_than_descriptors() {
    let Ok(url) = std::env::var(URL) else { return };
    limit_descriptors(64);
    // The program needs more descriptors than the client leaves to it.
    let files: Vec<_> = (0..24).map(|_| File::open("/dev/null").unwrap()).collect();
    let client = builder(&url).retry(RetryPolicy::never()).build().unwrap();
    for creates in [false, true, false] {
        join_all((0..300).map(|_| call(&client, creates))).await;
    }
    drop(files);
}

/// Two clients share their connections, and therefore the permits for requests in flight. Many calls wait for the first client's
/// limit of a request in ten seconds, and hold no permits meanwhile.
#[cfg(all(unix, feature = "rustls"))]
#[test]
fn a_limited_client_leaves_the_permits_to_others() {
    crate::child::child("many_in_flight::limited_and_unlimited", &[(URL, "none")]);
}

#[cfg(all(unix, feature = "rustls"))]
#[tokio::test(start_paused = true)]
async fn limited_and_unlimited() {
    if std::env::var(URL).is_err() {
        return;
    }
    // There are three permits.
    limit_descriptors(12);
    let service = ScriptedService::start(SECOND, [(200, None)]).await;
    let limited = service.builder().rate_limit(0.1).timeout(600 * SECOND);
    let limited = limited.retry(RetryPolicy::never()).build().unwrap();
    let other = service.builder().share_connections(&limited);
    let other = other.build().unwrap();
    assert!(other.shares_connections(&limited));

    let start = Instant::now();
    let slow = join_all((0..20).map(|_| call(&limited, true)));
    let fast = async {
        sleep(SECOND / 2).await;
        join_all((0..20).map(|_| call(&other, false))).await;
        start.elapsed()
    };
    let (_, duration) = tokio::join!(slow, fast);
    // Two or three requests are in flight at a time, each for a second.
    assert!(duration < 11 * SECOND, "{duration:?}");
    assert_eq!(start.elapsed().as_secs(), 191);
}

/// Calls of a limited client that have waited for permits are not sent together when the permits become free.
#[cfg(all(unix, feature = "rustls"))]
#[test]
fn a_rate_limit_applies_after_a_wait_for_permits() {
    crate::child::child("many_in_flight::after_a_wait_for_permits", &[(URL, "none")]);
}

#[cfg(all(unix, feature = "rustls"))]
#[tokio::test(start_paused = true)]
async fn after_a_wait_for_permits() {
    if std::env::var(URL).is_err() {
        return;
    }
    limit_descriptors(12);
    // The first three requests take all permits for 20 seconds.
    let mut peer = Peer::in_memory();
    let limited = peer.builder().rate_limit(1.0).timeout(600 * SECOND);
    let limited = limited.retry(RetryPolicy::never()).build().unwrap();
    let other = peer
        .builder()
        .share_connections(&limited)
        .timeout(600 * SECOND);
    let other = other.build().unwrap();
    let start = Instant::now();
    let times = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&times);
    tokio::spawn(async move {
        while let Some(request) = peer.next_of_all().await {
            let wait = {
                let mut log = log.lock().unwrap();
                log.push(start.elapsed());
                if log.len() <= 3 {
                    20 * SECOND
                } else {
                    SECOND / 10
                }
            };
            tokio::spawn(async move {
                sleep(wait).await;
                request.answer_if_there(200, &[], FINE);
            });
        }
    });
    let slow = join_all((0..3).map(|_| call(&other, false)));
    let limited = async {
        sleep(SECOND).await;
        join_all((0..10).map(|_| call(&limited, false))).await
    };
    tokio::join!(slow, limited);
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 13);
    assert_eq!(times[3].as_secs(), 20);
    for pair in times[3..].windows(2) {
        // The timer has a resolution of a millisecond.
        let interval = pair[1] - pair[0];
        assert!(interval.as_millis().abs_diff(1_000) <= 2, "{times:?}");
    }
}

/// Creates of a limited client that wait for a locked ledger hold no permits. They are not sent together when the ledger is
/// unlocked, and are claimed only shortly before they are sent.
#[cfg(all(unix, feature = "rustls", feature = "ledger"))]
#[test]
fn a_locked_ledger_delays_only_its_own_creates() {
    crate::child::child("many_in_flight::with_a_locked_ledger", &[(URL, "none")]);
}

#[cfg(all(unix, feature = "rustls", feature = "ledger"))]
#[tokio::test]
async fn with_a_locked_ledger() {
    use rustix::process::{Resource, getrlimit};

    if std::env::var(URL).is_err() {
        return;
    }
    let clock = FrozenClock::start();
    let mut peer = Peer::in_memory();
    let limit = getrlimit(Resource::Nofile).current.unwrap();
    limit_descriptors(4);
    let limited = peer.builder().rate_limit(1.0).timeout(600 * SECOND);
    let limited = limited.retry(RetryPolicy::never()).build().unwrap();
    limit_descriptors(limit);
    let other = peer.builder().share_connections(&limited).build().unwrap();
    let (_folder, ledger) = crate::rows::new_ledger();
    let create = |key: usize| {
        let create = limited.agents().create(ada());
        tokio::spawn(create.once(&ledger, key.to_string()).into_future())
    };
    let first = create(0);
    peer.next().await.answer(201, FINE);
    first.await.unwrap().unwrap();

    let creates: Vec<_> = (1..=6).map(create).collect();
    wait_until_idle().await;
    // The ledger's thread works in order: it has looked up the other creates before this one.
    assert!(create(0).await.unwrap().unwrap().now().is_none());
    wait_until_idle().await;
    assert_eq!(ledger.summary().unwrap().in_flight, 0);
    let lock = rusqlite::Connection::open(ledger.path().unwrap()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..6 {
        clock.advance(SECOND).await;
        wait_until_idle().await;
    }
    assert!(peer.waiting().is_none());
    tokio::select! {
        deal = other.deals().retrieve("x_1") => drop(deal.unwrap()),
        () = async {
            wait_until_idle().await;
            let request = peer.waiting().expect("there is a permit");
            request.answer_deal();
            wait_until_idle().await;
        } => panic!("no response"),
    }
    drop(lock);
    until(|| ledger.summary().is_ok_and(|summary| summary.in_flight == 6)).await;
    for _ in 0..2 {
        peer.next().await.answer(201, FINE);
        wait_until_idle().await;
        assert!(peer.waiting().is_none(), "more than the limit allows");
        clock.advance(SECOND).await;
        wait_until_idle().await;
    }
    peer.next().await.answer(201, FINE);
    // The other creates were not sent: their claims are withdrawn.
    until(|| ledger.summary().is_ok_and(|summary| summary.succeeded == 4)).await;
    for create in &creates {
        create.abort();
    }
    until(|| ledger.summary().is_ok_and(|summary| summary.in_flight == 0)).await;
    assert!(ledger.summary().unwrap().unresolved.is_empty());
}

/// Idle connections leave file descriptors for a ledger.
#[cfg(all(unix, feature = "rustls", feature = "ledger"))]
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_opens_next_to_many_idle_connections() {
    let (url, _) = serve(|| sleep(Duration::from_millis(20))).await;
    let test = "many_in_flight::ledger_next_to_idle_connections";
    spawn_blocking(move || crate::child::child(test, &[(URL, &url)]))
        .await
        .unwrap();
}

#[cfg(all(unix, feature = "rustls", feature = "ledger"))]
#[tokio::test]
async fn ledger_next_to_idle_connections() {
    use std::os::fd::AsRawFd as _;

    let Ok(url) = std::env::var(URL) else { return };
    limit_descriptors(64);
    // The program itself uses 14 descriptors.
    let mut files = vec![File::open("/dev/null").unwrap()];
    while files.last().unwrap().as_raw_fd() < 13 {
        files.push(File::open("/dev/null").unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let client = builder(&url).retry(RetryPolicy::never()).build().unwrap();
    for name in ["a", "b"] {
        join_all((0..100).map(|_| call(&client, false))).await;
        let ledger = dealkit::ledger::Ledger::sqlite(folder.path().join(name));
        let create = client.agents().create(ada()).once(&ledger, "ada");
        create.await.unwrap();
        join_all((0..100).map(|_| call(&client, true))).await;
    }
    drop(files);
}

/// Limits the files that this process may have open. Open files stay open.
#[cfg(all(unix, feature = "rustls"))]
fn limit_descriptors(limit: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limits = getrlimit(Resource::Nofile);
    limits.current = Some(limit);
    setrlimit(Resource::Nofile, limits).unwrap();
}
