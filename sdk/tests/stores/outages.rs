//! A database that is killed or drops connections loses neither a claim nor an outcome.

use std::thread;

use super::{
    Cluster, Ledger, LedgerErrorKind, State, WhenInDoubt, claim, claim_write, error_kind, hex,
    note, open_job, try_claim,
};

#[test]
fn a_database_killed_during_a_claim_loses_no_claim() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let mut store = open_job(&ledger);
    let [one, two, three] = ["1", "2", "3"].map(|key| store.header().hash(key));
    assert!(claim(&mut *store, one, WhenInDoubt::Report).is_none());
    // Another transaction holds the row, so the claim waits when the database is killed.
    let hex = hex(&two.0);
    let insert = format!(
        "INSERT INTO creates (key, entry, state, claimed_at, noted_at)
        VALUES ('\\x{hex}', 0, 'sending', 0, 0)"
    );
    let mut other = cluster.hold(&url, &insert);
    let claiming = thread::spawn(move || {
        let claims = [two, three].map(|key| claim_write(key, WhenInDoubt::Report));
        let claimed = store.write(&claims.each_ref());
        (store, claimed)
    });
    cluster.wait_for_a_lock(&url);
    let mut noting = None;
    cluster.crash(|| {
        let (mut store, claimed) = claiming.join().unwrap();
        assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
        assert_eq!(error_kind(ledger.summary()), LedgerErrorKind::Unreachable);
        let claimed = try_claim(&mut *store, two, WhenInDoubt::Report);
        assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
        // Recording an outcome waits for the database.
        noting = Some(thread::spawn(move || {
            note(&mut *store, one, State::Succeeded)
        }));
    });
    noting.unwrap().join().unwrap().unwrap();
    let _ = other.wait();
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.succeeded, summary.in_flight, summary.in_doubt.len()),
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
    let mut store = open_job(&ledger);
    let key = store.header().hash("1");
    assert!(claim(&mut *store, key, WhenInDoubt::Report).is_none());
    let mut other = cluster.hold(&url, "LOCK TABLE creates");
    let noting = thread::spawn(move || note(&mut *store, key, State::Succeeded));
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
