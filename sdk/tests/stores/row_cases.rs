//! Selected cases of the rules of one row.

use super::{RequestInfo, RowEntry, State, WhenUnresolved};
use crate::{
    ledger::{
        key_hash::ValueHash,
        row::{Job, Row},
    },
    transport::outcome::Outcome,
};

fn request(number: Option<u8>) -> RequestInfo {
    RequestInfo {
        body_hash: number.map(|number| ValueHash([number; 16])),
        ..RequestInfo::default()
    }
}

fn rejected_row(request: RequestInfo) -> RowEntry {
    RowEntry {
        status: Some(422),
        request,
        ..RowEntry::new(State::Rejected)
    }
}

#[test]
fn only_a_rejected_row_with_another_request_is_sent_again_as_corrected() {
    let is_claimed = |entry: RowEntry, corrected: RequestInfo| {
        let mut row = Row(vec![entry]);
        let blocking = row.claim(9, 7, WhenUnresolved::Report, true, &corrected);
        assert_eq!(row.0.len() == 2, blocking.is_none());
        if blocking.is_none() {
            let claim = row.current().unwrap();
            assert_eq!((claim.state, claim.status), (State::Sending, None));
            assert_eq!(claim.request, corrected);
        }
        blocking.is_none()
    };
    for (sent, now, expected) in [
        (Some(1), Some(2), true),
        (Some(1), Some(1), false),
        (None, Some(2), false),
        (Some(1), None, false),
        (None, None, false),
    ] {
        let entry = rejected_row(request(sent));
        assert_eq!(
            is_claimed(entry, request(now)),
            expected,
            "{sent:?} {now:?}"
        );
    }
    for state in [
        State::Sending,
        State::Unknown,
        State::Succeeded,
        State::Resolved,
    ] {
        for job in [
            None,
            Some(Job {
                number: 2,
                is_alive: true,
            }),
        ] {
            let entry = RowEntry {
                agent_id: (state == State::Resolved).then(|| "a_1".to_owned()),
                job: job.filter(|_| state == State::Sending),
                request: request(Some(1)),
                ..RowEntry::new(state)
            };
            assert!(!is_claimed(entry, request(Some(2))), "{state:?}");
        }
    }
}

#[test]
fn the_outcome_of_a_corrected_row_replaces_the_rejection_or_leaves_it() {
    let claimed_row = || {
        let mut row = Row(vec![rejected_row(request(Some(1)))]);
        let claim = row.claim(9, 7, WhenUnresolved::Report, true, &request(Some(2)));
        assert_eq!(claim, None);
        row
    };
    let record = |outcome: Option<RowEntry>| {
        let mut row = claimed_row();
        row.record_outcome(&[9], 8, outcome);
        row
    };
    // The earlier rejection stays in the history of the row.
    let rejected_again = record(Some(rejected_row(request(Some(2)))));
    assert_eq!(rejected_again.0.len(), 2);
    assert_eq!(rejected_again.current().unwrap().request, request(Some(2)));
    let claim_again = |number| {
        let mut row = rejected_again.clone();
        let request = request(Some(number));
        row.claim(9, 9, WhenUnresolved::Report, true, &request)
    };
    assert!(claim_again(2).is_some() && claim_again(3).is_none());

    let unsent = record(None);
    assert_eq!(unsent, Row(vec![rejected_row(request(Some(1)))]));
    let unknown = record(Some(RowEntry::new(State::Unknown)));
    assert_eq!(unknown.current().unwrap().state, State::Unknown);

    // The job is killed: the outcome is unknown.
    let mut killed = claimed_row();
    killed.0.last_mut().unwrap().job = Some(Job {
        number: 9,
        is_alive: false,
    });
    let found = killed.claim(10, 9, WhenUnresolved::Report, true, &request(Some(3)));
    assert_eq!(found.unwrap().outcome, Outcome::Unknown);
}

#[test]
fn a_rejection_that_is_recorded_twice_does_not_replace_the_rejection_of_a_correction() {
    let mut row = Row(vec![
        rejected_row(request(Some(1))),
        rejected_row(request(Some(2))),
    ]);
    let before = row.clone();
    // The database has committed this rejection, but its response was lost, so the job records it again.
    row.record_outcome(&[1], 7, Some(rejected_row(request(Some(1)))));
    assert_eq!(row, before);
}

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
        (row(State::Resolved, None, None), [true, true, false]),
        (row(State::Rejected, None, None), [true, true, false]),
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
