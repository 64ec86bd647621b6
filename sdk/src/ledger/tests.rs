//! What happens to a ledger under attack, and the rules under any order of events.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::{collection::vec, prelude::*, test_runner::Config};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    Ledger, LedgerErrorKind, Recorded,
    error::{LedgerError, Purpose},
    key_hash::KeyHash,
    sqlite::{Sqlite, Write},
    state::Note,
};
use crate::{Outcome, value::AgentId};

const SERVICE: &str = "https://deals.example.com";

fn new_ledger() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("agents.ledger");
    (folder, path)
}

fn job(path: &Path) -> Sqlite {
    Sqlite::open_for_job(path, SERVICE, Some("email")).unwrap()
}

fn kind<T>(result: Result<T, LedgerError>) -> LedgerErrorKind {
    result.map(drop).unwrap_err().kind()
}

fn claim(store: &mut Sqlite, key: KeyHash, resends_unknown: bool) -> Option<Recorded> {
    let claim = Write::Claim {
        key,
        resends_unknown,
    };
    store.write([claim].iter()).unwrap().remove(0)
}

fn note(store: &mut Sqlite, key: KeyHash, note: Note) -> Result<(), LedgerError> {
    store.write([Write::Note { key, note }].iter()).map(drop)
}

fn created(id: &str) -> Note {
    Note::Succeeded {
        id: Some(id.to_owned()),
    }
}

/// A ledger with this many rows, created and in doubt in turn.
fn filled(path: &Path, rows: usize) {
    let mut store = job(path);
    let keys: Vec<_> = (0..rows).map(|n| store.hash(&n.to_string())).collect();
    let claims = keys.iter().map(|key| Write::Claim {
        key: *key,
        resends_unknown: false,
    });
    store.write(claims.collect::<Vec<_>>().iter()).unwrap();
    let notes = keys.iter().enumerate().map(|(n, key)| Write::Note {
        key: *key,
        note: if n % 2 == 0 {
            created(&format!("a_{n}"))
        } else {
            Note::Unknown {
                status: Some(503),
                request_id: None,
            }
        },
    });
    store.write(notes.collect::<Vec<_>>().iter()).unwrap();
}

/// What a job would find on these rows, if it could be run.
fn found(path: &Path, rows: usize) -> Result<Vec<Option<Recorded>>, LedgerError> {
    let store = Sqlite::open_for_job(path, SERVICE, Some("email"))?;
    store.verify()?;
    store.look_up((0..rows).map(|n| store.hash(&n.to_string())))
}

#[test]
fn a_new_ledger_is_whole_private_and_alone_in_its_folder() {
    let (folder, path) = new_ledger();
    drop(job(&path));
    let names = || {
        let entries = fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["agents.ledger"]);
    let mut store = job(&path);
    let key = store.hash("ada@example.com");
    claim(&mut store, key, false);
    drop(store);
    assert_eq!(names(), ["agents.ledger", "agents.ledger-journal"]);
    #[cfg(unix)]
    for name in names() {
        use std::os::unix::fs::MetadataExt as _;
        let mode = fs::metadata(folder.path().join(name)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let bytes = fs::read(&path).unwrap();
    assert!(!bytes.windows(3).any(|window| window == b"ada"));
    assert!(bytes.starts_with(b"SQLite format 3\0"));
    assert_eq!(&bytes[68..72], b"deal");
}

#[test]
fn what_is_no_ledger_is_refused_and_left_as_it_was() {
    let (folder, path) = new_ledger();
    let other = folder.path().join("other.db");
    let database = Connection::open(&other).unwrap();
    database
        .execute_batch("CREATE TABLE creates (key)")
        .unwrap();
    drop(database);
    for content in [
        Vec::new(),
        b"email,first_name\nada@example.com,Ada\n".to_vec(),
        br#"{"format":"dealkit-ledger","version":"1.1"}"#.to_vec(),
        fs::read(&other).unwrap(),
        vec![0; 5000],
    ] {
        fs::write(&path, &content).unwrap();
        let opened = Sqlite::open_for_job(&path, SERVICE, None);
        assert_eq!(kind(opened), LedgerErrorKind::NotALedger);
        assert_eq!(
            kind(Ledger::sqlite(&path).summary()),
            LedgerErrorKind::NotALedger
        );
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let opened = Sqlite::open_for_job(folder.path(), SERVICE, None);
    assert_eq!(kind(opened), LedgerErrorKind::NotALedger);
    let missing = folder.path().join("none/agents.ledger");
    assert_eq!(
        kind(Sqlite::open_for_job(&missing, SERVICE, None)),
        LedgerErrorKind::Io
    );
    let missing = Ledger::sqlite(missing);
    assert_eq!(missing.look_up(None, ["a"]).unwrap(), [None]);
    assert_eq!(kind(missing.summary()), LedgerErrorKind::Io);
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let opened = Sqlite::open_for_job(&link, SERVICE, None);
        assert_eq!(kind(opened), LedgerErrorKind::NotALedger);
    }
    assert!(Ledger::in_folder(folder.path()).unwrap().is_empty());
}

#[test]
fn ledgers_are_found_whatever_they_are_called_even_damaged_ones() {
    let (folder, path) = new_ledger();
    filled(&path, 3);
    filled(&folder.path().join("last week"), 3);
    fs::write(folder.path().join("agents.csv"), "email\n").unwrap();
    let newer = folder.path().join("newer");
    fs::copy(&path, &newer).unwrap();
    let database = Connection::open(&newer).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    drop(database);
    assert_eq!(kind(found(&newer, 1)), LedgerErrorKind::NewerFormat);
    let found = Ledger::in_folder(folder.path()).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|ledger| ledger.path().file_name().unwrap())
        .collect();
    assert_eq!(names, ["agents.ledger", "last week", "newer"]);
    assert!(
        Ledger::in_folder(folder.path().join("none"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_change_by_anything_else_is_noticed() {
    for change in [
        "UPDATE ledger SET salt = zeroblob(32)",
        "UPDATE creates SET state = 'rejected' WHERE state = 'unknown'",
        "UPDATE creates SET agent_id = 'a_9' WHERE agent_id = 'a_0'",
        "DELETE FROM creates WHERE agent_id = 'a_0'",
        "DELETE FROM creates",
        "DROP TABLE creates",
        "UPDATE creates SET key = zeroblob(16) WHERE agent_id = 'a_0'",
        "PRAGMA journal_mode = WAL; UPDATE ledger SET sum = sum + 1",
    ] {
        let (_folder, path) = new_ledger();
        filled(&path, 10);
        Connection::open(&path)
            .unwrap()
            .execute_batch(change)
            .unwrap();
        assert_eq!(kind(found(&path, 10)), LedgerErrorKind::Broken, "{change}");
    }
}

#[test]
fn no_flipped_bit_and_no_missing_end_makes_a_row_be_sent() {
    const ROWS: usize = 300;
    let (folder, path) = new_ledger();
    filled(&path, ROWS);
    let whole = fs::read(&path).unwrap();
    let expected = found(&path, ROWS).unwrap();
    let damaged = folder.path().join("damaged");
    let mut noticed = 0;
    // A prime, so that every part of a page is hit.
    for at in (0..whole.len() * 8).step_by(1009) {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        fs::write(&damaged, bytes).unwrap();
        match found(&damaged, ROWS) {
            Ok(found) => assert_eq!(found, expected, "bit {at}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 100, "{noticed}");
    for length in (1..whole.len()).step_by(1500) {
        fs::write(&damaged, &whole[..length]).unwrap();
        found(&damaged, ROWS).unwrap_err();
    }
}

#[test]
fn a_file_that_vanishes_under_a_job_stops_it() {
    type Attack = fn(&Path);
    let attacks: [(&str, Attack, LedgerErrorKind); 6] = [
        (
            "deleted",
            |path| fs::remove_file(path).unwrap(),
            LedgerErrorKind::Moved,
        ),
        (
            "renamed",
            |path| fs::rename(path, path.with_extension("old")).unwrap(),
            LedgerErrorKind::Moved,
        ),
        (
            "replaced by a copy, as sed -i does",
            |path| {
                let copy = path.with_extension("copy");
                fs::copy(path, &copy).unwrap();
                fs::rename(copy, path).unwrap();
            },
            LedgerErrorKind::Moved,
        ),
        (
            "overwritten with another ledger",
            |path| {
                let other = path.with_extension("other");
                filled(&other, 3);
                fs::write(path, fs::read(other).unwrap()).unwrap();
            },
            LedgerErrorKind::Moved,
        ),
        (
            "overwritten with an older copy",
            |path| fs::write(path, fs::read(path.with_extension("older")).unwrap()).unwrap(),
            LedgerErrorKind::Moved,
        ),
        (
            "emptied",
            |path| fs::write(path, "").unwrap(),
            LedgerErrorKind::Broken,
        ),
    ];
    for (how, attack, expected) in attacks {
        let (_folder, path) = new_ledger();
        filled(&path, 3);
        fs::copy(&path, path.with_extension("older")).unwrap();
        let mut store = job(&path);
        let key = store.hash("new");
        assert_eq!(claim(&mut store, key, false), None);
        attack(&path);
        assert_eq!(
            kind(note(&mut store, key, created("a_1"))),
            expected,
            "{how}"
        );
        let key = store.hash("newer");
        let write = Write::Claim {
            key,
            resends_unknown: false,
        };
        assert_eq!(kind(store.write([write].iter())), expected, "{how}");
    }
}

#[test]
fn what_a_killed_job_had_claimed_is_in_doubt_and_what_a_live_one_has_is_not() {
    let (_folder, path) = new_ledger();
    let (mut one, mut other) = (job(&path), job(&path));
    let key = one.hash("ada@example.com");
    assert_eq!(claim(&mut one, key, false), None);
    for resends_unknown in [false, true] {
        let recorded = claim(&mut other, key, resends_unknown).unwrap();
        assert!(recorded.in_flight && recorded.outcome == Outcome::Unknown);
    }
    let settle =
        |id: &str| Ledger::sqlite(&path).settle([("ada@example.com", Some(AgentId::from(id)))]);
    assert_eq!(kind(settle("a_1")), LedgerErrorKind::Refused);
    // As if it were killed: nothing more is noted.
    drop(one);
    let recorded = claim(&mut other, key, false).unwrap();
    assert!(!recorded.in_flight && recorded.outcome == Outcome::Unknown);
    assert_eq!(Ledger::sqlite(&path).summary().unwrap().in_doubt.len(), 1);
    assert_eq!(settle("a_1").unwrap(), 1);
    let recorded = claim(&mut other, key, true).unwrap();
    assert_eq!(recorded.agent_id.unwrap(), "a_1");
}

/// Something that happens to one of a few rows.
#[derive(Clone, Debug)]
enum Event {
    Claim {
        job: usize,
        resends_unknown: bool,
    },
    Note {
        job: usize,
        note: Note,
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
    let (status, request_id) = (Some(422), None);
    let notes = prop_oneof![
        Just(created("a_1")),
        Just(Note::NotSent),
        Just(Note::Rejected {
            status,
            request_id: request_id.clone()
        }),
        Just(Note::Rejected {
            status: Some(401),
            request_id: request_id.clone()
        }),
        Just(Note::Unknown {
            status: None,
            request_id
        }),
    ];
    let event = prop_oneof![
        4 => (0..2_usize, any::<bool>())
            .prop_map(|(job, resends_unknown)| Event::Claim { job, resends_unknown }),
        4 => (0..2_usize, notes).prop_map(|(job, note)| Event::Note { job, note }),
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
        let (_folder, path) = new_ledger();
        let mut jobs = [job(&path), job(&path)];
        let ledger = Ledger::sqlite(&path);
        // Which job has claimed a row; whether the service may have created its agent; and what that was before people
        // said otherwise.
        let mut claimed: HashMap<usize, usize> = HashMap::new();
        let mut may_exist: HashMap<usize, bool> = HashMap::new();
        let mut before_people: HashMap<usize, bool> = HashMap::new();
        for (row, event) in events {
            let name = row.to_string();
            let key = jobs[0].hash(&name);
            match event {
                Event::Claim { job, resends_unknown } => {
                    let answer = claim(&mut jobs[job], key, resends_unknown);
                    let is_claimed = claimed.contains_key(&row);
                    prop_assert_eq!(is_claimed, answer.as_ref().is_some_and(|recorded| recorded.in_flight));
                    if answer.is_none() {
                        prop_assert!(!is_claimed);
                        prop_assert!(resends_unknown || !may_exist.get(&row).copied().unwrap_or(false));
                        claimed.insert(row, job);
                        before_people.remove(&row);
                    }
                }
                Event::Note { job, note: noted } => {
                    if claimed.get(&row) != Some(&job) {
                        continue;
                    }
                    let acted = matches!(noted, Note::Succeeded { .. } | Note::Unknown { .. });
                    let noted = match noted {
                        // Each agent has an identifier of its own.
                        Note::Succeeded { .. } => created(&format!("created_{row}")),
                        noted => noted,
                    };
                    note(&mut jobs[job], key, noted).unwrap();
                    claimed.remove(&row);
                    *may_exist.entry(row).or_default() |= acted;
                }
                Event::Kill { job: killed } => {
                    jobs[killed] = job(&path);
                    claimed.retain(|row, job| {
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
                        let before = before_people.remove(&row);
                        prop_assert!(before.is_some());
                        may_exist.insert(row, before.unwrap_or(true));
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

#[test]
fn a_ledger_is_read_while_a_job_writes_it() {
    let (_folder, path) = new_ledger();
    filled(&path, 50);
    let store = Sqlite::open(&path, Purpose::Read).unwrap().unwrap();
    let mut writer = job(&path);
    for n in 50..60 {
        let key = writer.hash(&n.to_string());
        assert_eq!(claim(&mut writer, key, false), None);
        let recorded = store.look_up([key]).unwrap().remove(0).unwrap();
        assert!(recorded.in_flight);
    }
}
