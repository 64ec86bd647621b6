//! Selected cases of the rules of one row.

use super::{RowEntry, State};
use crate::ledger::row::{Job, Row};

#[test]
fn an_outcome_from_a_job_that_lost_its_claim_never_frees_the_row() {
    let row = |state, agent: Option<&str>, claimed_by: Option<(i64, bool)>| RowEntry {
        agent_id: agent.map(str::to_owned),
        job: claimed_by.map(|(number, is_alive)| Job { number, is_alive }),
        ..RowEntry::new(state)
    };
    // Each row, and whether a late outcome is recorded in it: succeeded, unknown, rejected.
    for (existing, expected) in [
        (
            row(State::Sending, None, Some((2, true))),
            [true, false, false],
        ),
        (
            row(State::Sending, None, Some((2, false))),
            [true, true, false],
        ),
        (row(State::Unknown, None, None), [true, true, false]),
        (
            row(State::Succeeded, Some("a_1"), None),
            [true, false, false],
        ),
        (
            row(State::Resolved, Some("a_1"), None),
            [true, false, false],
        ),
        (row(State::Resolved, None, None), [true, true, true]),
        (row(State::Rejected, None, None), [true, true, true]),
    ] {
        let outcomes = [State::Succeeded, State::Unknown, State::Rejected];
        for (state, is_recorded) in outcomes.into_iter().zip(expected) {
            let mut changed = Row(vec![existing.clone()]);
            changed.record_outcome(&[1], 7, Some(row(state, Some("a_2"), None)));
            let current = changed.current().unwrap();
            assert_eq!(
                current.agent_id.as_deref() == Some("a_2"),
                is_recorded,
                "{existing:?} {state:?}"
            );
            assert_eq!(changed.0.len(), 1 + usize::from(is_recorded));
        }
        let mut changed = Row(vec![existing.clone()]);
        changed.record_outcome(&[1], 7, None);
        assert_eq!(changed, Row(vec![existing]));
    }
}
