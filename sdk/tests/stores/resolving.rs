//! Manual resolution of rows with an unknown outcome.

use std::thread;

use super::{
    NOW, RowEntry, State, WhenUnresolved, Write, claim, claim_write, for_each_database, open_job,
    record_state,
};
use crate::value::AgentId;

#[test]
fn an_agent_is_assigned_to_one_row_only() {
    const ROWS: usize = 12;
    for_each_database(|ledger| {
        let mut job = open_job(ledger);
        let keys: Vec<_> = (0..ROWS).map(|n| n.to_string()).collect();
        for key in &keys {
            let key = job.header().hash(key);
            assert!(claim(&mut *job, key, WhenUnresolved::Report).is_none());
            record_state(&mut *job, key, State::Unknown).unwrap();
        }
        // Twelve operators give the same agent to different rows at the same time: one of them succeeds.
        let start = std::sync::Barrier::new(ROWS);
        let accepted = thread::scope(|scope| {
            let resolve = |key| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    ledger.resolve([(key, Some(AgentId::from("a_1")))]).is_ok()
                })
            };
            let resolved: Vec<_> = keys.iter().map(resolve).collect();
            let accepted = resolved.into_iter().map(|thread| thread.join().unwrap());
            accepted.filter(|is_accepted| *is_accepted).count()
        });
        assert_eq!(accepted, 1);
        // One job gives the same agent to several rows in the same transaction: one is accepted.
        let hashes: Vec<_> = keys.iter().map(|key| job.header().hash(key)).collect();
        let claims: Vec<_> = hashes
            .iter()
            .map(|key| claim_write(*key, WhenUnresolved::Ask))
            .collect();
        let claimed = job
            .write(&claims.iter().collect::<Vec<_>>(), &[], NOW)
            .unwrap();
        let claimed: Vec<_> = hashes
            .iter()
            .zip(claimed)
            .filter(|(_, result)| matches!(result, Ok(None)))
            .collect();
        assert_eq!(claimed.len(), ROWS - 1);
        let resolves = claimed
            .iter()
            .enumerate()
            .map(|(index, (key, _))| Write::Resolve {
                key: **key,
                index,
                agent_id: Some(AgentId::from("a_2")),
            });
        let resolves: Vec<_> = resolves.collect();
        let resolved = job
            .write(&resolves.iter().collect::<Vec<_>>(), &[], NOW)
            .unwrap();
        assert_eq!(resolved.iter().filter(|result| result.is_ok()).count(), 1);
        drop(job);
        assert_eq!(ledger.summary().unwrap().resolved_with_agent, 2);
        // The service may return the same identifier for two rows. Entries that the ledger already has are accepted again.
        let mut job = open_job(ledger);
        for key in ["x", "y"] {
            let key = job.header().hash(key);
            assert!(claim(&mut *job, key, WhenUnresolved::Report).is_none());
            let outcome = Some(RowEntry {
                agent_id: Some("a_3".to_owned()),
                ..RowEntry::new(State::Succeeded)
            });
            job.write(&[&Write::RecordOutcome { key, outcome }], &[], NOW)
                .unwrap();
        }
        let both = ["x", "y"].map(|key| (key, Some(AgentId::from("a_3"))));
        assert_eq!(ledger.resolve(both).unwrap(), 0);
    });
}

#[test]
fn an_unknown_key_is_reported_before_other_errors() {
    for_each_database(|ledger| {
        let mut job = open_job(ledger);
        let key = job.header().hash("0042");
        assert!(claim(&mut *job, key, WhenUnresolved::Report).is_none());
        let outcome = Some(RowEntry {
            agent_id: Some("a_1".to_owned()),
            ..RowEntry::new(State::Succeeded)
        });
        job.write(&[&Write::RecordOutcome { key, outcome }], &[], NOW)
            .unwrap();
        // A spreadsheet program has removed the leading zeros of a key.
        let error = ledger
            .resolve([("42", Some(AgentId::from("a_1")))])
            .unwrap_err();
        assert!(
            error.to_string().contains("its key is not in the ledger"),
            "{error}"
        );
    });
}

#[test]
fn a_row_that_a_job_sends_is_not_marked_as_unknown() {
    for_each_database(|ledger| {
        let mut job = open_job(ledger);
        let key = job.header().hash("b");
        assert!(claim(&mut *job, key, WhenUnresolved::Report).is_none());
        let error = ledger.mark_unknown(None, ["a", "b"]).unwrap_err();
        assert_eq!(error.index(), Some(1));
        assert!(error.to_string().contains("a job is sending this row now"));
        assert!(ledger.summary().unwrap().unresolved.is_empty());
        record_state(&mut *job, key, State::Rejected).unwrap();
        assert_eq!(ledger.mark_unknown(None, ["a", "b", "a"]).unwrap(), 2);
    });
}
