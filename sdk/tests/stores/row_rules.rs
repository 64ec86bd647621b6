//! The rules of one row, under any order of events and on every database.

use std::{cell::Cell, collections::HashMap};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use tempfile::TempDir;

use super::{Cluster, Ledger, Record, State, WhenInDoubt, Write, claim, open_job};
use crate::{
    ledger::state::{Job, Row},
    value::AgentId,
};

#[test]
fn a_row_whose_resolution_is_cut_off_by_a_kill_stays_unresolved() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::sqlite(folder.path().join("agents.ledger"));
    let (mut first, mut second) = (open_job(&ledger), open_job(&ledger));
    let key = first.header().hash("ada@example.com");
    let noted = Record {
        status: Some(503),
        request_id: Some("r-1".to_owned()),
        ..Record::new(State::Unknown)
    };
    assert_eq!(claim(&mut *second, key, WhenInDoubt::Report), None);
    let noted = Some(noted);
    second.write(&[&Write::Note { key, noted }]).unwrap();
    let known = first.look_up(&[key]).unwrap().remove(0).unwrap();
    assert_eq!(claim(&mut *second, key, WhenInDoubt::Ask), None);
    let refused = claim(&mut *first, key, WhenInDoubt::Resend).unwrap();
    assert!(refused.in_flight && refused.sent_at == known.sent_at);
    drop(second);
    assert_eq!(open_job(&ledger).look_up(&[key]).unwrap(), [Some(known)]);
}

/// An event in the life of one of a few rows.
#[derive(Clone, Debug)]
enum Event {
    Claim {
        job: usize,
        when: WhenInDoubt,
    },
    Note {
        job: usize,
        noted: Option<Record>,
    },
    /// Kills the job and starts another.
    Kill {
        job: usize,
    },
    Settle {
        has_agent: bool,
    },
}

fn events() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let rejected = |status| {
        Some(Record {
            status: Some(status),
            ..Record::new(State::Rejected)
        })
    };
    let notes = prop_oneof![
        Just(Some(Record::new(State::Succeeded))),
        Just(None),
        Just(rejected(422)),
        Just(rejected(401)),
        Just(Some(Record::new(State::Unknown))),
        Just(Some(Record::new(State::Resolved))),
    ];
    let when = prop_oneof![
        Just(WhenInDoubt::Report),
        Just(WhenInDoubt::Resend),
        Just(WhenInDoubt::Ask),
    ];
    let event = prop_oneof![
        4 => (0..2_usize, when).prop_map(|(job, when)| Event::Claim { job, when }),
        4 => (0..2_usize, notes).prop_map(|(job, noted)| Event::Note { job, noted }),
        1 => (0..2_usize).prop_map(|job| Event::Kill { job }),
        1 => any::<bool>().prop_map(|has_agent| Event::Settle { has_agent }),
    ];
    vec((0..2_usize, event), 1..40)
}

/// A row may be sent only if the service cannot have created its agent since it was last resolved as having none, in any order
/// of jobs and manual changes. The rules are the same for both databases; the SQL statements differ.
#[test]
fn an_agent_that_may_exist_is_never_sent_again() {
    let folder = TempDir::new().unwrap();
    let file = |n| Ledger::sqlite(folder.path().join(format!("{n}.ledger")));
    let run = |cases, ledger: &dyn Fn(u64) -> Ledger| {
        let number = Cell::new(0);
        let checked = TestRunner::new(Config::with_cases(cases)).run(&events(), |events| {
            number.set(number.get() + 1);
            check(&ledger(number.get()), events)
        });
        checked.unwrap();
    };
    run(48, &file);
    if let Some(cluster) = Cluster::shared() {
        run(8, &|_| cluster.url().parse().unwrap());
    }
}

fn check(ledger: &Ledger, events: Vec<(usize, Event)>) -> Result<(), TestCaseError> {
    let mut jobs = [open_job(ledger), open_job(ledger)];
    // The job that has claimed each row, with its mode; and if the service may have created the row's agent.
    let mut claimed: HashMap<usize, (usize, WhenInDoubt)> = HashMap::new();
    let mut may_exist: HashMap<usize, bool> = HashMap::new();
    for (row, event) in events {
        let name = row.to_string();
        let key = jobs[0].header().hash(&name);
        match event {
            Event::Claim { job, when } => {
                let answer = claim(&mut *jobs[job], key, when);
                let is_claimed = claimed.contains_key(&row);
                prop_assert_eq!(
                    is_claimed,
                    answer.as_ref().is_some_and(|recorded| recorded.in_flight)
                );
                if answer.is_none() {
                    prop_assert!(!is_claimed);
                    let reports = when == WhenInDoubt::Report;
                    prop_assert!(!reports || !may_exist.get(&row).copied().unwrap_or(false));
                    claimed.insert(row, (job, when));
                }
            }
            Event::Note { job, mut noted } => {
                let state = noted.as_ref().map(|noted| noted.state);
                let is_settled = state == Some(State::Resolved);
                match claimed.get(&row) {
                    // Before the row is resolved nothing is sent, so only the resolution can be noted.
                    Some((by, WhenInDoubt::Ask))
                        if *by == job && (is_settled || noted.is_none()) => {}
                    Some((by, WhenInDoubt::Report | WhenInDoubt::Resend))
                        if *by == job && !is_settled => {}
                    _ => continue,
                }
                let is_created = state == Some(State::Succeeded);
                let is_unknown = state == Some(State::Unknown);
                if let Some(noted) = noted.as_mut().filter(|_| is_created) {
                    // Each agent has its own identifier.
                    noted.agent_id = Some(format!("created_{row}"));
                }
                jobs[job].write(&[&Write::Note { key, noted }]).unwrap();
                claimed.remove(&row);
                let may_exist = may_exist.entry(row).or_default();
                *may_exist = !is_settled && (*may_exist || is_created || is_unknown);
            }
            Event::Kill { job: killed } => {
                jobs[killed] = open_job(ledger);
                claimed.retain(|row, (job, _)| {
                    if *job == killed {
                        may_exist.insert(*row, true);
                    }
                    *job != killed
                });
            }
            Event::Settle { has_agent } => {
                let id = has_agent.then(|| AgentId::from(format!("settled_{row}")));
                let settled = ledger.settle([(&name, id)]);
                if claimed.contains_key(&row) {
                    prop_assert!(settled.is_err());
                }
                if settled.is_ok_and(|changed| changed == 1) {
                    may_exist.insert(row, has_agent);
                }
            }
        }
        let recorded = ledger.look_up(None, [&name]).unwrap().remove(0);
        if may_exist.get(&row).copied().unwrap_or(false) {
            prop_assert!(recorded.is_some_and(|recorded| recorded.outcome.may_have_acted()));
        }
    }
    // Checks the totals.
    ledger.summary().unwrap();
    Ok(())
}

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
            changed.note(1, 7, Some(row(state, Some("a_2"), None)));
            let current = changed.current().unwrap();
            assert_eq!(
                current.agent_id.as_deref() == Some("a_2"),
                is_kept,
                "{found:?} {state:?}"
            );
            assert_eq!(changed.0.len(), 1 + usize::from(is_kept));
        }
        let mut changed = Row(vec![found.clone()]);
        changed.note(1, 7, None);
        assert_eq!(changed, Row(vec![found]));
    }
}
