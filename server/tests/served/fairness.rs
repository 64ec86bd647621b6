//! What takes long for one caller does not delay the others.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::support::{connect, get_deal, post_head, read_response};
use dealkit_server::Sandbox;

/// The time taken by the slowest of many small calls, on connections to every thread of the server, until `done`.
fn slowest_call(address: SocketAddr, done: &AtomicBool) -> Duration {
    let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    // Not forever, should the other call fail.
    while !done.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(60) {
        for stream in &mut streams {
            let asked = Instant::now();
            stream.write_all(get_deal("d_1").as_bytes()).unwrap();
            assert_eq!(read_response(stream, false).status, 200);
            slowest = slowest.max(asked.elapsed());
        }
    }
    slowest
}

/// A body that takes long to check: every key has to be compared with all the others.
#[test]
fn a_body_of_many_keys_holds_up_nobody() {
    let sandbox = Sandbox::builder()
        .max_body_bytes(64 << 20)
        .strict(true)
        .start()
        .unwrap();
    let fields: Vec<String> = (0..20_000).map(|at| format!(r#""k{at}": 1"#)).collect();
    let body = format!("{{{}}}", fields.join(","));
    let head = post_head(&format!("content-length: {}\r\n", body.len()));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let small = scope.spawn(|| slowest_call(sandbox.address(), &done));
        let mut stream = connect(sandbox.address());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        // Nearly all of it has arrived: what remains is to read it and to report what is wrong with it.
        let arrived = Instant::now();
        assert_eq!(read_response(&mut stream, false).status, 422);
        let took = arrived.elapsed();
        done.store(true, Ordering::Relaxed);
        let slowest = small.join().unwrap();
        assert!(slowest < took / 2, "{slowest:?} of {took:?}");
    });
}
