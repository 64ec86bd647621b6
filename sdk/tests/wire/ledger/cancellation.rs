use std::{
    pin::pin,
    time::{Duration, Instant},
};

use dealkit::{Outcome::Unknown, blocking};
use rusqlite::Connection;

use super::*;
use crate::peer::{AGENT, until, wait_until_idle};

/// Reads the states of the rows from the file.
fn states(ledger: &Ledger) -> Vec<String> {
    let database = Connection::open(ledger.path().unwrap()).unwrap();
    let mut states = database.prepare("SELECT state FROM creates").unwrap();
    let states = states.query_map([], |row| row.get(0)).unwrap();
    states.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn neither_cancelling_nor_dropping_blocks_the_runtime_while_a_ledger_is_locked() {
    for is_dropped in [false, true] {
        let (_folder, ledger) = new_ledger();
        let mut peer = Peer::manual();
        let client = peer.client();
        let job = client.agents().create_many(rows(1)).ledger(&ledger, None);
        let mut creations = job.stream();
        let _request = peer.next_during(creations.next()).await;
        let other = Connection::open(ledger.path().unwrap()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        if is_dropped {
            drop(creations);
            other.execute_batch("COMMIT").unwrap();
        } else {
            let mut cancelling = pin!(creations.cancel());
            tokio::select! {
                biased;
                _ = &mut cancelling => panic!("the ledger is locked"),
                () = wait_until_idle() => other.execute_batch("COMMIT").unwrap(),
            }
            assert_eq!(cancelling.await[0].outcome(), Unknown);
            assert_eq!(states(&ledger), ["unknown"]);
        }
        until(|| states(&ledger) == ["unknown"]).await;
    }
}

#[test]
fn cancelling_ends_the_wait_for_a_database() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.new_url();
    let ledger: Ledger = url.parse().unwrap();
    let service = Peer::answering(201, &[], AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let job = || client.agents().create_many([row(0)]).ledger(&ledger, None);
    open(&service.client(), &ledger, None).unwrap();
    let mut transaction = cluster.start_transaction(&url, "LOCK TABLE creates");
    let creations = job().into_iter();
    let handle = creations.cancel_handle();
    let cancelled = std::thread::scope(|threads| {
        let cancels = threads.spawn(|| {
            cluster.wait_until_blocked(&url);
            handle.cancel();
            Instant::now()
        });
        assert_eq!(creations.count(), 1);
        cancels.join().unwrap()
    });
    // Without the cancellation, the wait lasts half a minute.
    assert!(cancelled.elapsed() < Duration::from_secs(20));
    assert!(service.arrived().is_empty());
    transaction.wait().unwrap();
}
