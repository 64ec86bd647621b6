//! Leases: a job sends and claims nothing once other jobs may claim its rows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Cluster, Ledger, LedgerErrorKind, State, WhenUnresolved, claim, error_kind, note, open_job,
    try_claim,
};
use crate::ledger::{
    clock::Clock,
    lease::{Lease, Liveness},
    process::Process,
};

/// A clock that is set by hand.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Hands {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl Process for Hands {
    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn a_lease_is_held_until_it_ends() {
    let hands = Arc::new(Hands::default());
    let process = Some(Arc::clone(&hands) as Arc<dyn Process>);
    let lease = Lease::new(Clock { process });
    let held = |seconds, term| {
        hands.set(seconds);
        lease.remaining(term) != Some(Duration::ZERO)
    };
    assert!(held(1_000_000, 0));
    // 40 s, of the 60 s for which the database has the lease.
    lease.begin(Liveness::Lease, Duration::ZERO);
    assert!(held(39, 1) && !held(40, 1));
    lease.renew(Duration::from_secs(10));
    assert!(held(49, 1) && !held(50, 1));
    // A row claimed under an expired lease is not sent, even if another lease has begun since.
    lease.begin(Liveness::Lease, Duration::from_secs(50));
    assert!(!held(50, 1) && held(50, 2));
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
    let mut late = open_job(&ledger);
    let [one, two, three] = ["1", "2", "3"].map(|key| late.header().hash(key));
    for key in [one, two] {
        assert!(claim(&mut *late, key, WhenUnresolved::Report).is_none());
    }
    assert_eq!(ledger.summary().unwrap().in_flight, 2);
    assert!(late.renew().unwrap());
    expire(cluster, &url);
    let claimed = try_claim(&mut *late, three, WhenUnresolved::Report);
    assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
    assert!(!late.renew().unwrap());
    let mut next = open_job(&ledger);
    let found = claim(&mut *next, one, WhenUnresolved::Report).unwrap();
    assert!(found.is_unresolved());
    // Another job resends the row as requested. An outcome that the first job records later is kept.
    assert!(claim(&mut *next, one, WhenUnresolved::Resend).is_none());
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
        (
            summary.succeeded,
            summary.in_flight,
            summary.unresolved.len()
        ),
        (2, 0, 0)
    );
    assert_eq!(cluster.sql(&url, "SELECT count(*) FROM jobs"), "0");
}
