//! Leases: a job sends and claims nothing once other jobs may claim its rows.

use std::time::Duration;

use super::{
    Cluster, Lease, Ledger, LedgerErrorKind, SERVICE, State, WhenInDoubt, claim, error_kind, note,
    open_job, try_claim,
};
use crate::ledger::lease;

#[test]
fn a_lease_is_held_until_it_ends() {
    let (lease, now) = (Lease::default(), lease::now());
    let held = |seconds, term| {
        let remaining = lease.remaining(now + Duration::from_secs(seconds), term);
        remaining != Some(Duration::ZERO)
    };
    assert!(held(1_000_000, 0));
    lease.begin(now + Duration::from_secs(20));
    lease.renew(now + Duration::from_secs(40));
    assert!(held(39, 1) && !held(40, 1));
    // A row claimed under an expired lease is not sent, even if another lease has begun since.
    lease.begin(now + Duration::from_secs(90));
    assert!(!held(39, 1) && held(39, 2));
    lease.end();
    assert!(!held(0, 2));
}

/// Expires the lease of every job of a ledger.
fn expire(cluster: &Cluster, url: &str) {
    cluster.sql(url, "UPDATE jobs SET lease_until = clock_timestamp()");
}

#[test]
fn a_job_with_an_expired_lease_claims_nothing_and_its_rows_become_unresolved() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let lease = Lease::default();
    let before = lease::now();
    let mut late = ledger
        .open_to_send(true, SERVICE, Some("email"), lease.clone())
        .unwrap();
    let after = lease::now();
    // Well before the lease in the database expires, which is after 60 s.
    let term = Duration::from_secs(40);
    let is_over = |now| lease.remaining(now, 1) == Some(Duration::ZERO);
    assert!(!is_over(before + term - Duration::from_millis(1)));
    assert!(is_over(after + term));
    let [one, two, three] = ["1", "2", "3"].map(|key| late.header().hash(key));
    for key in [one, two] {
        assert!(claim(&mut *late, key, WhenInDoubt::Report).is_none());
    }
    assert_eq!(ledger.summary().unwrap().in_flight, 2);
    late.renew().unwrap();
    expire(cluster, &url);
    let claimed = try_claim(&mut *late, three, WhenInDoubt::Report);
    assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
    // From now on, the job sends none of its claimed rows: the database's clock may have changed.
    assert!(is_over(before));
    late.renew().unwrap_err();
    let mut next = open_job(&ledger);
    let found = claim(&mut *next, one, WhenInDoubt::Report).unwrap();
    assert!(found.is_in_doubt());
    // Another job resends the row as requested. An outcome that the first job records later is kept.
    assert!(claim(&mut *next, one, WhenInDoubt::Resend).is_none());
    note(&mut *late, one, State::Unknown).unwrap();
    assert!(
        ledger.look_up(None, ["1"]).unwrap()[0]
            .as_ref()
            .unwrap()
            .in_flight
    );
    note(&mut *late, one, State::Succeeded).unwrap();
    note(&mut *next, one, State::Rejected).unwrap();
    note(&mut *late, two, State::Succeeded).unwrap();
    drop((late, next));
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.succeeded, summary.in_flight, summary.in_doubt.len()),
        (2, 0, 0)
    );
    assert_eq!(cluster.sql(&url, "SELECT count(*) FROM jobs"), "0");
}
