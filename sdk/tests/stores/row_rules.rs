//! Single cases of the rules of one row.

use super::{Record, State};
use crate::ledger::state::{Job, Row};

#[test]
fn an_outcome_from_a_job_that_lost_its_claim_never_frees_the_row() {
    let row = |state, agent: Option<&str>, claimed_by: Option<(i64, bool)>| Record {
        agent_id: agent.map(str::to_owned),
        job: claimed_by.map(|(number, is_alive)| Job { number, is_alive }),
        ..Record::new(state)
    };
    // Notes that change the row: succeeded, unknown, rejected.
    for (found, kept) in [
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
        let notes = [State::Succeeded, State::Unknown, State::Rejected];
        for (state, is_kept) in notes.into_iter().zip(kept) {
            let mut changed = Row(vec![found.clone()]);
            changed.note(&[1], 7, Some(row(state, Some("a_2"), None)));
            let current = changed.current().unwrap();
            assert_eq!(
                current.agent_id.as_deref() == Some("a_2"),
                is_kept,
                "{found:?} {state:?}"
            );
            assert_eq!(changed.0.len(), 1 + usize::from(is_kept));
        }
        let mut changed = Row(vec![found.clone()]);
        changed.note(&[1], 7, None);
        assert_eq!(changed, Row(vec![found]));
    }
}
