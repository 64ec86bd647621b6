//! The blocking client behaves like the async one, even when called from many threads.
#![cfg(feature = "blocking")]

use std::sync::OnceLock;

use dealkit::{
    ErrorKind, Outcome,
    blocking::{CancelHandle, Client},
};

use crate::child::{CHILD, child};
use crate::peer::{
    DEAL, Http1, KEY, Peer, PendingRequest, Step, VALID_BODY, ada, answer, client, runtime, until,
};

/// Starts a peer on its own thread. The test sends every response.
fn start_manual_peer() -> Peer {
    Peer::start(Http1, vec![vec![Step::ReadRequest, Step::Ask]])
}

/// Receives the next requests.
fn hear(peer: &mut Peer, count: usize) -> Vec<PendingRequest> {
    runtime().block_on(async {
        let mut heard = Vec::new();
        while heard.len() < count {
            heard.push(peer.next().await);
        }
        heard
    })
}

/// The second client uses the connection of the first client, although no runtime has run between the calls.
#[test]
fn two_clients_share_connections() {
    let peer = Peer::start(
        Http1,
        vec![vec![Step::ReadRequest, answer(200, VALID_BODY)]],
    );
    let settings = || Client::builder().base_url(&peer.url).service_key(KEY);
    let client = settings().build().unwrap();
    let other = settings()
        .header("x-team", "blue")
        .share_connections(&client)
        .build()
        .unwrap();
    assert!(other.shares_connections(&client));
    for client in [&client, &other, &client, &other] {
        client.deals().retrieve("x_1").send().unwrap();
    }
    drop((client, other));
    let counts = peer.finish_blocking();
    assert_eq!((counts.connections, counts.requests), (1, 4));
}

/// The service responds only once all eight calls have arrived: if one call waited for another, none would return.
#[test]
fn eight_threads_make_calls_at_the_same_time() {
    let mut peer = start_manual_peer();
    let client = Client::new(peer.client()).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..8 {
            let deals = client.deals();
            threads.spawn(move || match thread % 2 {
                0 => deals.retrieve("d_1").send().unwrap(),
                _ => deals
                    .retrieve_many(["d_1"])
                    .into_iter()
                    .next()
                    .unwrap()
                    .result
                    .unwrap(),
            });
        }
        hear(&mut peer, 8)
            .into_iter()
            .for_each(PendingRequest::answer_deal);
    });
}

/// Calls in flight make progress while the caller handles earlier deals: a slow caller causes no timeouts.
#[test]
fn responses_are_read_while_the_caller_is_busy() {
    let mut peer = start_manual_peer();
    let client = peer.builder().max_response_bytes(64 * 1024 * 1024).build();
    let client = Client::new(client.unwrap()).unwrap();
    let many = client.deals().retrieve_many(["d_1", "d_2"]).unordered();
    let mut deals = many.into_iter();
    std::thread::scope(|threads| {
        let answering = threads.spawn(|| {
            let mut heard = hear(&mut peer, 2);
            // Larger than the buffers of the connection, so the service can write the body only if the client reads it.
            let large = format!("{DEAL}{}", " ".repeat(32 * 1024 * 1024));
            heard.remove(0).answer(200, DEAL);
            heard.remove(0).answer(200, &large);
        });
        deals.next().unwrap().result.unwrap();
        answering.join().unwrap();
    });
    // The caller is busy until the service has sent everything.
    runtime().block_on(until(|| peer.counts().answered == 2));
    deals.next().unwrap().result.unwrap();
    assert!(deals.next().is_none());
}

/// Another thread cancels the job while the caller waits for a service that never responds.
#[test]
fn a_job_is_cancelled_from_another_thread() {
    let mut peer = start_manual_peer();
    let client = Client::new(peer.client()).unwrap();
    let many = client.agents().create_many(std::iter::repeat_with(ada));
    let mut creations = many.concurrency(2).into_iter();
    let handle = creations.cancel_handle();
    std::thread::scope(|threads| {
        let stalled = threads.spawn(move || {
            let held = hear(&mut peer, 2);
            handle.cancel();
            (peer, held)
        });
        let completed: Vec<_> = creations.by_ref().collect();
        let kinds = completed.iter().map(|creation| {
            let error = creation.result.as_ref().unwrap_err();
            (creation.index, error.kind(), error.outcome())
        });
        let cancelled = |index| (index, ErrorKind::Cancelled, Outcome::Unknown);
        assert_eq!(kinds.collect::<Vec<_>>(), [cancelled(0), cancelled(1)]);
        stalled.join().unwrap();
    });
    assert!(creations.next().is_none() && creations.cancel().is_empty());
}

/// The rows in flight complete, and no further rows are taken.
#[test]
fn a_job_is_stopped_from_another_thread() {
    let mut peer = start_manual_peer();
    let client = Client::new(peer.client()).unwrap();
    let many = client.agents().create_many(std::iter::repeat_with(ada));
    let creations = many.concurrency(2).into_iter();
    let handle = creations.cancel_handle();
    std::thread::scope(|threads| {
        let stopping = threads.spawn(move || {
            let held = hear(&mut peer, 2);
            handle.stop();
            for request in held {
                request.answer(201, VALID_BODY);
            }
            peer
        });
        let outcomes: Vec<_> = creations.map(|creation| creation.outcome()).collect();
        assert_eq!(outcomes, [Outcome::Succeeded; 2]);
        assert_eq!(stopping.join().unwrap().counts().requests, 2);
    });
}

#[test]
fn a_row_that_is_taken_while_its_job_is_cancelled_is_returned() {
    let client = Client::new(client("http://127.0.0.1:9")).unwrap();
    let handle = OnceLock::<CancelHandle>::new();
    let rows = (0..).map(|index| {
        if index == 1 {
            handle.get().unwrap().cancel();
        }
        ada()
    });
    let mut creations = client.agents().create_many(rows).concurrency(4).into_iter();
    handle.set(creations.cancel_handle()).unwrap();
    let completed: Vec<_> = creations.by_ref().collect();
    let indexes: Vec<_> = completed.iter().map(|creation| creation.index).collect();
    assert_eq!(indexes, [0, 1]);
    let late = completed[1].result.as_ref().unwrap_err();
    assert_eq!(
        (late.kind(), late.outcome()),
        (ErrorKind::Cancelled, Outcome::NotSent)
    );

    let creations = client.agents().create_many([ada()]).into_iter();
    creations.cancel_handle().cancel();
    assert_eq!(creations.count(), 0);
}

/// In a child process: every thread is to have a larger stack than the address space holds.
#[test]
fn a_thread_that_the_system_does_not_start_is_an_error() {
    if std::env::var_os(CHILD).is_none() {
        let enormous = (1_u64 << 50).to_string();
        child(
            "blocking::a_thread_that_the_system_does_not_start_is_an_error",
            &[("RUST_MIN_STACK", &enormous), ("RUST_TEST_THREADS", "1")],
        );
        return;
    }
    let builder = Client::builder().base_url("http://127.0.0.1:9");
    let client = builder.service_key(KEY).build().unwrap();
    let is_thread_error = |error: &dealkit::Error| {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Config, Outcome::NotSent)
        );
        assert!(
            error.to_string().contains("did not start a thread"),
            "{error}"
        );
    };
    for (index, retrieved) in client
        .deals()
        .retrieve_many(["d_1", "d_2"])
        .into_iter()
        .enumerate()
    {
        assert_eq!(retrieved.index, index);
        is_thread_error(&retrieved.result.unwrap_err());
    }
    let creations: Vec<_> = client
        .agents()
        .create_many([ada(), ada()])
        .into_iter()
        .collect();
    assert_eq!(creations.len(), 2);
    for creation in creations {
        is_thread_error(&creation.result.unwrap_err());
    }
    // Within a runtime, a blocking call borrows a thread.
    let runtime = runtime();
    let _guard = runtime.enter();
    is_thread_error(&client.deals().retrieve("d_1").send().unwrap_err());
}
