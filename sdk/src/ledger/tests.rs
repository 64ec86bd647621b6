//! The rules of a ledger, under any order of events.

use std::{collections::HashMap, path::Path};

use proptest::{collection::vec, prelude::*, test_runner::Config};
use tempfile::TempDir;

use super::{
    Ledger, Purpose, Recorded,
    key_hash::KeyHash,
    state::{Record, State, WhenInDoubt},
    store::{Store, Write},
};
use crate::value::AgentId;

fn job(path: &Path) -> Box<dyn Store> {
    let ledger = Ledger::sqlite(path);
    ledger
        .open_to_send(Purpose::Job, "https://deals.example.com", Some("email"))
        .unwrap()
}

fn claim(store: &mut dyn Store, key: KeyHash, when: WhenInDoubt) -> Option<Recorded> {
    let claim = Write::Claim { key, when };
    store.write(&[&claim]).unwrap().remove(0)
}

#[test]
fn a_row_that_was_asked_about_when_its_job_was_killed_is_in_doubt_as_before() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("agents.ledger");
    let (mut first, mut second) = (job(&path), job(&path));
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
    assert_eq!(job(&path).look_up(&[key]).unwrap(), [Some(known)]);
}

/// Something that happens to one of a few rows.
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
    /// The job is killed, and another takes its place.
    Kill {
        job: usize,
    },
    Settle {
        has_agent: bool,
    },
    Unsettle,
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
        Just(Some(Record::new(State::Settled))),
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
        1 => Just(Event::Unsettle),
    ];
    vec((0..2_usize, event), 1..40)
}

proptest! {
    #![proptest_config(Config { cases: 48, ..Config::default() })]

    /// What may be sent follows from what the service may have done since somebody last said that there is no agent, in
    /// whatever order jobs and people act.
    #[test]
    fn nothing_that_may_exist_is_sent_again(events in events()) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("agents.ledger");
        let mut jobs = [job(&path), job(&path)];
        let ledger = Ledger::sqlite(&path);
        // Which job has claimed a row, and why; whether the service may have created its agent; and what that was before people
        // said otherwise.
        let mut claimed: HashMap<usize, (usize, WhenInDoubt)> = HashMap::new();
        let mut may_exist: HashMap<usize, bool> = HashMap::new();
        let mut before_people: HashMap<usize, bool> = HashMap::new();
        for (row, event) in events {
            let name = row.to_string();
            let key = jobs[0].header().hash(&name);
            match event {
                Event::Claim { job, when } => {
                    let answer = claim(&mut *jobs[job], key, when);
                    let is_claimed = claimed.contains_key(&row);
                    prop_assert_eq!(is_claimed, answer.as_ref().is_some_and(|recorded| recorded.in_flight));
                    if answer.is_none() {
                        prop_assert!(!is_claimed);
                        let reports = when == WhenInDoubt::Report;
                        prop_assert!(!reports || !may_exist.get(&row).copied().unwrap_or(false));
                        claimed.insert(row, (job, when));
                        before_people.remove(&row);
                    }
                }
                Event::Note { job, mut noted } => {
                    let is_settled = noted.as_ref().is_some_and(|noted| noted.state == State::Settled);
                    match claimed.get(&row) {
                        // Nothing is sent before the answer, which is all that there can be to note.
                        Some((by, WhenInDoubt::Ask)) if *by == job && (is_settled || noted.is_none()) => {}
                        Some((by, WhenInDoubt::Report | WhenInDoubt::Resend)) if *by == job && !is_settled => {}
                        _ => continue,
                    }
                    let is_created = noted.as_ref().is_some_and(|noted| noted.state == State::Succeeded);
                    let is_unknown = noted.as_ref().is_some_and(|noted| noted.state == State::Unknown);
                    if let Some(noted) = noted.as_mut().filter(|_| is_created) {
                        // Each agent has an identifier of its own.
                        noted.agent_id = Some(format!("created_{row}"));
                    }
                    jobs[job].write(&[&Write::Note { key, noted }]).unwrap();
                    claimed.remove(&row);
                    let may_exist = may_exist.entry(row).or_default();
                    *may_exist = !is_settled && (*may_exist || is_created || is_unknown);
                }
                Event::Kill { job: killed } => {
                    jobs[killed] = job(&path);
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
                        before_people.entry(row).or_insert(may_exist.get(&row).copied().unwrap_or(false));
                        may_exist.insert(row, has_agent);
                    }
                }
                Event::Unsettle => {
                    if ledger.unsettle([&name]).is_ok_and(|undone| undone == 1) {
                        // What a job was told counts as said by people.
                        may_exist.insert(row, before_people.remove(&row).unwrap_or(true));
                    }
                }
            }
            for store in &jobs {
                store.verify().unwrap();
            }
            let recorded = ledger.look_up(None, [&name]).unwrap().remove(0);
            if may_exist.get(&row).copied().unwrap_or(false) {
                prop_assert!(recorded.is_some_and(|recorded| recorded.outcome.may_have_acted()));
            }
        }
    }
}
