//! The blocking client behaves like the async one, even when called from many threads.
#![cfg(feature = "blocking")]

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::OnceLock,
};

use dealkit::{
    ErrorKind, Outcome,
    blocking::{CancelHandle, Client},
};

use crate::{
    mock::{DEAL, builder},
    peer::{FINE, Http1, KEY, PATIENCE, Peer, Step, ada, answer},
};

/// A client whose calls are sure to end, whatever happens in the test.
fn patient(url: String) -> Client {
    let client = builder(url).timeout(PATIENCE).build();
    Client::new(client.unwrap()).unwrap()
}

/// The second client finds the first one's connection alive, although nothing has run between the calls.
#[test]
fn it_shares_connections_with_another() {
    let peer = Peer::start(Http1, vec![vec![Step::Hear, answer(200, FINE)]]);
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

/// The service answers nobody before all eight calls have arrived: if they were made one after another, none would
/// return.
#[test]
fn eight_threads_wait_at_the_same_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = patient(url);
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
        let mut streams: Vec<_> = (0..8).map(|_| listener.accept().unwrap().0).collect();
        // A call that is late takes a connection over that is free by then, rather than its own.
        streams.iter_mut().for_each(read_head);
        streams.iter_mut().for_each(write_answer);
    });
}

/// Calls in flight make progress while the caller works on the deals that it has: otherwise a slow caller would find
/// that the others have timed out.
#[test]
fn deals_come_in_while_the_caller_is_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (written, all_of_it) = std::sync::mpsc::channel();
    let service = std::thread::spawn(move || {
        let mut streams = [listener.accept().unwrap().0, listener.accept().unwrap().0];
        streams.iter_mut().for_each(read_head);
        let [first, second] = &mut streams;
        write_answer(first);
        // More than fits into the buffers between the two, so somebody must read it.
        let body = format!("{DEAL}{}", " ".repeat(32 * 1024 * 1024));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        second.write_all(head.as_bytes()).unwrap();
        second.write_all(body.as_bytes()).unwrap();
        written.send(()).unwrap();
    });
    let client = builder(url).max_response_bytes(64 * 1024 * 1024).build();
    let client = Client::new(client.unwrap()).unwrap();
    let many = client.deals().retrieve_many(["d_1", "d_2"]).unordered();
    let mut deals = many.into_iter();
    deals.next().unwrap().result.unwrap();
    // The caller is busy until the service has nothing more to send.
    all_of_it.recv_timeout(PATIENCE).unwrap();
    deals.next().unwrap().result.unwrap();
    assert!(deals.next().is_none());
    service.join().unwrap();
}

/// Another thread gives the job up while the caller waits for a service that never answers.
#[test]
fn a_job_is_cancelled_from_another_thread() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = patient(format!("http://{}", listener.local_addr().unwrap()));
    let many = client.agents().create_many(std::iter::repeat_with(ada));
    let mut creations = many.concurrency(2).into_iter();
    let handle = creations.cancel_handle();
    std::thread::scope(|threads| {
        let stalled = threads.spawn(move || {
            let mut streams = [listener.accept().unwrap().0, listener.accept().unwrap().0];
            streams.iter_mut().for_each(read_head);
            handle.cancel();
            streams
        });
        let came: Vec<_> = creations.by_ref().collect();
        let kinds = came.iter().map(|creation| {
            let error = creation.result.as_ref().unwrap_err();
            (creation.index, error.kind(), error.outcome())
        });
        let given_up = |index| (index, ErrorKind::Cancelled, Outcome::Unknown);
        assert_eq!(kinds.collect::<Vec<_>>(), [given_up(0), given_up(1)]);
        stalled.join().unwrap();
    });
    assert!(creations.next().is_none() && creations.cancel().is_empty());
}

#[test]
fn a_row_that_is_taken_while_its_job_is_cancelled_comes_back() {
    let client = patient("http://127.0.0.1:9".to_owned());
    let handle = OnceLock::<CancelHandle>::new();
    let rows = (0..).map(|index| {
        if index == 1 {
            handle.get().unwrap().cancel();
        }
        ada()
    });
    let mut creations = client.agents().create_many(rows).concurrency(4).into_iter();
    handle.set(creations.cancel_handle()).unwrap();
    let came: Vec<_> = creations.by_ref().collect();
    let indexes: Vec<_> = came.iter().map(|creation| creation.index).collect();
    assert_eq!(indexes, [0, 1]);
    let late = came[1].result.as_ref().unwrap_err();
    assert_eq!(
        (late.kind(), late.outcome()),
        (ErrorKind::Cancelled, Outcome::NotSent)
    );

    let creations = client.agents().create_many([ada()]).into_iter();
    creations.cancel_handle().cancel();
    assert_eq!(creations.count(), 0);
}

fn read_head(stream: &mut impl Read) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
}

fn write_answer(stream: &mut impl Write) {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{DEAL}",
        DEAL.len()
    );
    stream.write_all(answer.as_bytes()).unwrap();
}
