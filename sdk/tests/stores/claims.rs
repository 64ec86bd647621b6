//! Concurrent claims: of several jobs, one claims a row.

use std::thread;

use super::{
    Cluster, Ledger, NOW, RowEntry, State, Store, WhenUnresolved, Write, claim_write, open_job,
};

#[test]
fn rows_that_several_jobs_claim_concurrently_are_claimed_once() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let ledger: Ledger = cluster.new_url().parse().unwrap();
    let mut claimed = thread::scope(|scope| {
        let ledger = &ledger;
        let claim = |step| scope.spawn(move || claim_many(open_job(ledger), step));
        let jobs = [3, 5, 7, 9].map(claim).into_iter();
        jobs.flat_map(|job| job.join().unwrap()).collect::<Vec<_>>()
    });
    claimed.sort_unstable();
    let all = claimed.len();
    claimed.dedup();
    assert_eq!(
        (claimed.len(), ledger.summary().unwrap().succeeded),
        (all, all)
    );
}

/// Claims overlapping batches in an order that depends on `step`; withdraws some rows and records the others as succeeded.
/// Returns the recorded ones.
fn claim_many(mut store: Box<dyn Store>, step: usize) -> Vec<usize> {
    let mut recorded = Vec::new();
    for batch in 0..30 {
        let keys = (0..20).map(|n| (batch * 7 + n * step % 20) % 200);
        let keys: Vec<_> = keys
            .map(|key| (key, store.header().hash(&key.to_string())))
            .collect();
        let when_unresolved = WhenUnresolved::Report;
        let claims = keys
            .iter()
            .map(|(_, key)| claim_write(*key, when_unresolved));
        let claims: Vec<_> = claims.collect();
        let results = store
            .write(&claims.iter().collect::<Vec<_>>(), &[], NOW)
            .unwrap();
        for ((number, key), _) in keys
            .into_iter()
            .zip(results)
            .filter(|(_, result)| matches!(result, Ok(None)))
        {
            let is_withdrawn = number % 3 == 0 && batch % 2 == 0;
            let outcome = (!is_withdrawn).then(|| RowEntry::new(State::Succeeded));
            recorded.extend(outcome.as_ref().map(|_| number));
            store
                .write(&[&Write::RecordOutcome { key, outcome }], &[], NOW)
                .unwrap();
        }
    }
    recorded
}
