//! Concurrent claims: of several jobs, one claims a row.

use std::thread;

use super::{
    Cluster, Ledger, NOW, RequestInfo, RowEntry, State, Store, WhenUnresolved, Write, claim_write,
    for_each_database, open_job,
};
use crate::ledger::key_hash::ValueHash;

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

fn request(number: u8) -> RequestInfo {
    RequestInfo {
        body_hash: Some(ValueHash([number; 16])),
        ..RequestInfo::default()
    }
}

/// Claims rows, and returns the positions of the claimed ones.
fn claim_corrected(store: &mut dyn Store, rows: usize, request: &RequestInfo) -> Vec<usize> {
    let claim = |row: usize| Write::Claim {
        key: store.header().hash(&row.to_string()),
        when_unresolved: WhenUnresolved::Report,
        resends_corrected: true,
        request: request.clone(),
    };
    let claims: Vec<_> = (0..rows).map(claim).collect();
    let claims: Vec<_> = claims.iter().collect();
    let results = store.write(&claims, &[], NOW).unwrap().into_iter();
    let claimed = results
        .enumerate()
        .filter(|(_, result)| matches!(result, Ok(None)));
    claimed.map(|(row, _)| row).collect()
}

fn reject(store: &mut dyn Store, row: usize, request: &RequestInfo) {
    let outcome = RowEntry {
        status: Some(422),
        request: request.clone(),
        ..RowEntry::new(State::Rejected)
    };
    let write = Write::RecordOutcome {
        key: store.header().hash(&row.to_string()),
        outcome: Some(outcome),
    };
    store.write(&[&write], &[], NOW).unwrap();
}

#[test]
fn a_correction_that_several_jobs_have_is_claimed_once() {
    const ROWS: usize = 8;
    for_each_database(|ledger| {
        let mut first = open_job(ledger);
        assert_eq!(claim_corrected(&mut *first, ROWS, &request(1)).len(), ROWS);
        (0..ROWS).for_each(|row| reject(&mut *first, row, &request(1)));
        for correction in [2, 3] {
            // The jobs record their outcomes only after all of them have tried to claim the rows.
            let claim = |mut store: Box<dyn Store>| {
                let claimed = claim_corrected(&mut *store, ROWS, &request(correction));
                (store, claimed)
            };
            let claims: Vec<_> = thread::scope(|scope| {
                let jobs = (0..4).map(|_| open_job(ledger)).collect::<Vec<_>>();
                let jobs: Vec<_> = jobs
                    .into_iter()
                    .map(|store| scope.spawn(move || claim(store)))
                    .collect();
                jobs.into_iter().map(|job| job.join().unwrap()).collect()
            });
            let mut claimed: Vec<_> = claims.iter().flat_map(|(_, rows)| rows.clone()).collect();
            claimed.sort_unstable();
            assert_eq!(claimed, (0..ROWS).collect::<Vec<_>>());
            for (mut store, rows) in claims {
                for row in rows {
                    reject(&mut *store, row, &request(correction));
                }
            }
            // Every row has this request now, so another job with it claims none.
            assert!(claim_corrected(&mut *first, ROWS, &request(correction)).is_empty());
        }
        assert_eq!(ledger.summary().unwrap().rejected, ROWS);
    });
}
