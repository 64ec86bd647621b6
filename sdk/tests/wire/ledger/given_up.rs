use std::{
    pin::pin,
    time::{Duration, Instant},
};

use dealkit::{
    CallOptions,
    Outcome::{NotSent, Succeeded, Unknown},
    blocking,
};
use rusqlite::Connection;

use super::*;
use crate::peer::{AGENT, Blackhole, builder, settle, until};

in_both! {
    what_is_cancelled_is_recorded_as_far_as_it_has_come
    what_is_dropped_is_recorded_as_far_as_it_has_come
    what_an_earlier_run_did_is_said_of_rows_that_are_given_up_too
    what_waits_for_a_connection_is_withdrawn
    ;
}

async fn what_is_cancelled_is_recorded_as_far_as_it_has_come(ledger: Ledger) {
    given_up(ledger, true).await;
}

async fn what_is_dropped_is_recorded_as_far_as_it_has_come(ledger: Ledger) {
    given_up(ledger, false).await;
}

async fn given_up(ledger: Ledger, is_cancelled: bool) {
    let mut peer = Peer::by_hand();
    let limited = builder(&peer.url).rate_limit(0.001).build().unwrap();
    let job = limited.agents().create_many(rows(3)).ledger(&ledger, None);
    let mut creations = job
        .options(CallOptions::new().timeout(Duration::from_secs(100_000)))
        .stream();
    let held = peer.next_of(creations.next()).await;
    let sent = number(&held);
    if is_cancelled {
        for creation in creations.cancel().await {
            let is_sent = creation.index == sent;
            let expected = [NotSent, Unknown][usize::from(is_sent)];
            assert_eq!(creation.outcome(), expected);
            assert_eq!(creation.key, Some(key(creation.index)));
            let attempts = creation.result.unwrap_err().attempts();
            assert_eq!(attempts, u32::from(is_sent));
        }
    } else {
        drop(creations);
    }
    held.gone().await;
    // After a drop, the ledger's own thread writes what is known.
    until(|| ledger.summary().is_ok_and(|summary| summary.in_flight == 0)).await;
    // Rows that waited for their turn left no trace: if the job had been killed instead of given up, they would not
    // be in doubt.
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.in_doubt.len(), summary.in_flight), (1, 0));
    assert_eq!((summary.succeeded, summary.rejected), (0, 0));
    let (came, again) = run(&mut peer, &ledger, false, rows(3), |_| Reply::Create).await;
    let others: Vec<_> = (0..3).filter(|number| *number != sent).collect();
    assert_eq!(again, others);
    assert_eq!(outcomes(&came)[sent], (Unknown, true));
}

async fn what_an_earlier_run_did_is_said_of_rows_that_are_given_up_too(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    run(&mut peer, &ledger, false, rows(1), |_| Reply::Create).await;
    let client = peer.client();
    let job = client.agents().create_many(std::iter::empty::<CreateRow>());
    let (_, mut in_flight) = job.ledger(&ledger, None).into_parts();
    for row in [row(0), row(1), broken_row(2)] {
        in_flight.push(row);
    }
    let left = in_flight.cancel().await;
    assert_eq!(
        outcomes(&left),
        [(Succeeded, true), (NotSent, false), (NotSent, false)]
    );
    assert_eq!(left[0].agent_id().unwrap(), "a_0");
    assert_eq!(left[2].result.as_ref().unwrap_err().violations().len(), 1);
}

async fn what_waits_for_a_connection_is_withdrawn(ledger: Ledger) {
    let blackhole = Blackhole::start().await;
    let client = client(blackhole.url.as_str());
    let job = client.agents().create_many(rows(2)).ledger(&ledger, None);
    let mut creations = job.stream();
    // Until both are claimed.
    tokio::select! {
        _ = creations.next() => panic!("nobody listens"),
        () = until(|| ledger.summary().is_ok_and(|summary| summary.in_flight == 2)) => {}
    }
    drop(creations);
    until(|| ledger.summary().is_ok_and(|summary| summary.in_flight == 0)).await;
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.in_flight, summary.in_doubt.len()), (0, 0));
}

/// The states of the rows, as they are in the file.
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
        let mut peer = Peer::by_hand();
        let client = peer.client();
        let job = client.agents().create_many(rows(1)).ledger(&ledger, None);
        let mut creations = job.stream();
        let _heard = peer.next_of(creations.next()).await;
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
                () = settle() => other.execute_batch("COMMIT").unwrap(),
            }
            assert_eq!(cancelling.await[0].outcome(), Unknown);
            assert_eq!(states(&ledger), ["unknown"]);
        }
        until(|| states(&ledger) == ["unknown"]).await;
    }
}

#[test]
fn giving_up_ends_the_wait_for_a_database() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let service = Peer::answering(201, &[], AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let job = || client.agents().create_many([row(0)]).ledger(&ledger, None);
    open(&service.client(), &ledger, None).unwrap();
    let mut held = cluster.hold(&url, "LOCK TABLE creates");
    let creations = job().into_iter();
    let handle = creations.cancel_handle();
    let cancelled = std::thread::scope(|threads| {
        let cancels = threads.spawn(|| {
            cluster.wait_for_a_lock(&url);
            handle.cancel();
            Instant::now()
        });
        assert_eq!(creations.count(), 1);
        cancels.join().unwrap()
    });
    // Otherwise it is half a minute.
    assert!(cancelled.elapsed() < Duration::from_secs(20));
    assert!(service.arrived().is_empty());
    held.wait().unwrap();
}
