//! A database that is killed or drops connections loses neither a claim nor an outcome.

use std::thread;

use futures_util::future::join_all;
use tokio::runtime::Builder;

use super::{Cluster, Ledger, LedgerErrorKind, RequestInfo, SERVICE, error_kind, hex};
use crate::ledger::{
    KeyHash, LedgerError, LedgerHandle, LedgerRow, OpenLedger, RowEntry, State, WhenUnresolved,
};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

/// Starts a job, and looks up four keys.
fn start_job(ledger: &Ledger) -> (OpenLedger, [KeyHash; 4]) {
    let started = ledger.start_worker(true, SERVICE.to_owned(), Some("email".to_owned()));
    let job = started.unwrap();
    let keys = ["1", "2", "3", "4"].map(|key| {
        let found = block_on(job.handle().look_up(key.to_owned()));
        found.unwrap().key
    });
    (job, keys)
}

async fn claim(job: &LedgerHandle, key: KeyHash) -> Result<Option<LedgerRow>, LedgerError> {
    job.claim(key, WhenUnresolved::Report, false, RequestInfo::default())
        .await
}

async fn record_success(
    job: &LedgerHandle,
    key: KeyHash,
) -> Result<Option<LedgerRow>, LedgerError> {
    job.record_outcome(key, Some(RowEntry::new(State::Succeeded)))
        .await
}

#[test]
fn a_database_killed_during_a_claim_loses_no_claim() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.new_url();
    let ledger: Ledger = url.parse().unwrap();
    let (job, [one, two, three, four]) = start_job(&ledger);
    assert!(block_on(claim(job.handle(), one)).unwrap().is_none());
    // Another transaction has locked the row, so the claim is waiting when the database is killed.
    let hex = hex(&two.0);
    let insert = format!(
        "INSERT INTO creates (key, entry, state, claimed_at, noted_at)
        VALUES ('\\x{hex}', 0, 'sending', 0, 0)"
    );
    let mut transaction = cluster.start_transaction(&url, &insert);
    let handle = job.handle().clone();
    let claiming = thread::spawn(move || {
        let claims = [two, three].map(|key| claim(&handle, key));
        block_on(join_all(claims))
    });
    cluster.wait_until_blocked(&url);
    let mut recording = None;
    cluster.crash_during(|| {
        for claimed in claiming.join().unwrap() {
            assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
        }
        assert_eq!(error_kind(ledger.summary()), LedgerErrorKind::Unreachable);
        let claimed = block_on(claim(job.handle(), four));
        assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
        // Recording an outcome waits for the database.
        let handle = job.handle().clone();
        recording = Some(thread::spawn(move || {
            block_on(record_success(&handle, one))
        }));
    });
    recording.unwrap().join().unwrap().unwrap();
    let _ = transaction.wait();
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (
            summary.succeeded,
            summary.in_flight,
            summary.unresolved.len()
        ),
        (1, 0, 0)
    );
    assert_eq!(cluster.run_sql(&url, "SELECT count(*) FROM creates"), "1");
}

#[test]
fn an_outcome_is_recorded_although_connections_break_repeatedly() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.new_url();
    let ledger: Ledger = url.parse().unwrap();
    let (job, [key, ..]) = start_job(&ledger);
    assert!(block_on(claim(job.handle(), key)).unwrap().is_none());
    let mut transaction = cluster.start_transaction(&url, "LOCK TABLE creates");
    let recording = thread::spawn(move || block_on(record_success(job.handle(), key)));
    for _ in 0..3 {
        cluster.wait_until_blocked(&url);
        let waiting =
            "SELECT pid FROM pg_locks WHERE relation = 'creates'::regclass AND NOT granted";
        let terminate =
            format!("SELECT count(pg_terminate_backend(pid)) FROM ({waiting}) AS waiting");
        cluster.run_sql(&url, &terminate);
    }
    drop(transaction.stdin.take());
    let _ = transaction.wait();
    recording.join().unwrap().unwrap();
    assert_eq!(ledger.summary().unwrap().succeeded, 1);
}
