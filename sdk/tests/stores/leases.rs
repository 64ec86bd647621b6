//! Leases: a job sends and claims nothing once other jobs may claim its rows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    Cluster, Ledger, LedgerErrorKind, State, WhenUnresolved, claim, error_kind, open_job,
    record_state, try_claim,
};
use crate::ledger::{
    clock::Clock,
    lease::{Lease, Liveness},
    process::Process,
};

/// A clock that the test sets.
#[derive(Debug, Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl Process for ManualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[test]
fn rows_may_be_sent_until_the_lease_ends() {
    let clock = Arc::new(ManualClock::default());
    let process = Some(Arc::clone(&clock) as Arc<dyn Process>);
    let lease = Lease::new(Clock { process });
    let may_send = |seconds, number| {
        clock.set(seconds);
        lease.remaining_time(number) != Some(Duration::ZERO)
    };
    assert!(may_send(1_000_000, 0));
    // A job may send for 40 s of the 60 s for which the database has the lease.
    lease.begin(Liveness::Lease, Duration::ZERO);
    assert!(may_send(39, 1) && !may_send(40, 1));
    lease.renew(Duration::from_secs(10));
    assert!(may_send(49, 1) && !may_send(50, 1));
    // A row claimed under an expired lease is not sent, even if another lease has begun since.
    lease.begin(Liveness::Lease, Duration::from_secs(50));
    assert!(!may_send(50, 1) && may_send(50, 2));
    lease.end();
    assert!(!may_send(0, 2));
}

/// Expires the lease of every job of a ledger.
fn expire_leases(cluster: &Cluster, url: &str) {
    cluster.run_sql(url, "UPDATE jobs SET lease_until = clock_timestamp()");
}

#[test]
fn a_job_with_an_expired_lease_claims_nothing_and_its_rows_become_unresolved() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.new_url();
    let ledger: Ledger = url.parse().unwrap();
    let mut late = open_job(&ledger);
    let [one, two, three] = ["1", "2", "3"].map(|key| late.header().hash(key));
    for key in [one, two] {
        assert!(claim(&mut *late, key, WhenUnresolved::Report).is_none());
    }
    assert_eq!(ledger.summary().unwrap().in_flight, 2);
    assert!(late.renew_lease().unwrap());
    expire_leases(cluster, &url);
    let claimed = try_claim(&mut *late, three, WhenUnresolved::Report);
    assert_eq!(error_kind(claimed), LedgerErrorKind::Unreachable);
    assert!(!late.renew_lease().unwrap());
    let mut next = open_job(&ledger);
    let existing = claim(&mut *next, one, WhenUnresolved::Report).unwrap();
    assert!(existing.is_unresolved());
    // Another job resends the row as requested. If the first job then records that the agent was created, this counts.
    assert!(claim(&mut *next, one, WhenUnresolved::Resend).is_none());
    record_state(&mut *late, one, State::Unknown).unwrap();
    assert!(
        ledger.look_up(None, ["1"]).unwrap()[0]
            .as_ref()
            .unwrap()
            .in_flight
    );
    record_state(&mut *late, one, State::Succeeded).unwrap();
    record_state(&mut *next, one, State::Rejected).unwrap();
    record_state(&mut *late, two, State::Succeeded).unwrap();
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
    assert_eq!(cluster.run_sql(&url, "SELECT count(*) FROM jobs"), "0");
}
