//! A database that is killed or drops connections loses neither a claim nor an outcome.

use std::thread;

use futures_util::future::join_all;
use tokio::runtime::Builder;

use super::{Cluster, Ledger, LedgerErrorKind, RequestInfo, SERVICE, error_kind, hex};
use crate::ledger::{
    Handle, KeyHash, LedgerError, LedgerRow, Record, State, WhenUnresolved, Writer,
};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Starts a job, and looks up four keys.
fn start(ledger: &Ledger) -> (Writer, [KeyHash; 4]) {
    let started = ledger.start(true, SERVICE.to_owned(), Some("email".to_owned()));
    let job = started.unwrap();
    let keys = ["1", "2", "3", "4"].map(|key| {
        let found = block_on(job.handle().look_up(key.to_owned()));
        found.unwrap().key
    });
    (job, keys)
}

async fn claim(job: &Handle, key: KeyHash) -> Result<Option<LedgerRow>, LedgerError> {
    job.claim(key, WhenUnresolved::Report, RequestInfo::default())
        .await
}

async fn note_success(job: &Handle, key: KeyHash) -> Result<Option<LedgerRow>, LedgerError> {
    job.note(key, Some(Record::new(State::Succeeded))).await
}

#[test]
fn a_database_killed_during_a_claim_loses_no_claim() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let (job, [one, two, three, four]) = start(&ledger);
    assert!(block_on(claim(job.handle(), one)).unwrap().is_none());
    // Another transaction holds the row, so the claim waits when the database is killed.
    let hex = hex(&two.0);
    let insert = format!(
        "INSERT INTO creates (key, entry, state, claimed_at, noted_at)
        VALUES ('\\x{hex}', 0, 'sending', 0, 0)"
    );
    let mut other = cluster.hold(&url, &insert);
    let handle = job.handle().clone();
    let claiming = thread::spawn(move || {
        let claims = [two, three].map(|key| claim(&handle, key));
        block_on(join_all(claims))
    });
    cluster.wait_for_a_lock(&url);
    let mut noting = None;
    cluster.crash(|| {
        for claimed in claiming.join().unwrap() {
            assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
        }
        assert_eq!(error_kind(ledger.summary()), LedgerErrorKind::Unreachable);
        let claimed = block_on(claim(job.handle(), four));
        assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
        // Recording an outcome waits for the database.
        let handle = job.handle().clone();
        noting = Some(thread::spawn(move || block_on(note_success(&handle, one))));
    });
    noting.unwrap().join().unwrap().unwrap();
    let _ = other.wait();
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (
            summary.succeeded,
            summary.in_flight,
            summary.unresolved.len()
        ),
        (1, 0, 0)
    );
    assert_eq!(cluster.sql(&url, "SELECT count(*) FROM creates"), "1");
}

#[test]
fn an_outcome_is_recorded_although_connections_break_repeatedly() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let (job, [key, ..]) = start(&ledger);
    assert!(block_on(claim(job.handle(), key)).unwrap().is_none());
    let mut other = cluster.hold(&url, "LOCK TABLE creates");
    let noting = thread::spawn(move || block_on(note_success(job.handle(), key)));
    for _ in 0..3 {
        cluster.wait_for_a_lock(&url);
        let waiting =
            "SELECT pid FROM pg_locks WHERE relation = 'creates'::regclass AND NOT granted";
        let terminate =
            format!("SELECT count(pg_terminate_backend(pid)) FROM ({waiting}) AS waiting");
        cluster.sql(&url, &terminate);
    }
    drop(other.stdin.take());
    let _ = other.wait();
    noting.join().unwrap().unwrap();
    assert_eq!(ledger.summary().unwrap().succeeded, 1);
}
