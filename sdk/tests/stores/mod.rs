//! The rules of a ledger, under any order of events and on every database; and what PostgreSQL alone can do.

use std::{
    cell::Cell,
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use tempfile::TempDir;

use super::{
    Ledger, LedgerError, LedgerErrorKind, Recorded,
    error::Cause,
    key_hash::{KeyHash, hash},
    lease::Lease,
    state::{Job, Record, Row, State, WhenInDoubt},
    store::{Store, Write},
};
use crate::value::AgentId;

#[path = "../cluster/mod.rs"]
mod cluster;
use cluster::Cluster;

const SERVICE: &str = "https://deals.example.com";

fn job(ledger: &Ledger) -> Box<dyn Store> {
    let store = ledger.open_to_send(true, SERVICE, Some("email"), Lease::default());
    store.unwrap()
}

fn claim(store: &mut dyn Store, key: KeyHash, when: WhenInDoubt) -> Option<Recorded> {
    try_claim(store, key, when).unwrap()
}

fn try_claim(
    store: &mut dyn Store,
    key: KeyHash,
    when: WhenInDoubt,
) -> Result<Option<Recorded>, Cause> {
    let claimed = store.write(&[&Write::Claim { key, when }]);
    claimed.map(|mut claimed| claimed.remove(0))
}

#[test]
fn a_row_that_was_asked_about_when_its_job_was_killed_is_in_doubt_as_before() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::sqlite(folder.path().join("agents.ledger"));
    let (mut first, mut second) = (job(&ledger), job(&ledger));
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
    assert_eq!(job(&ledger).look_up(&[key]).unwrap(), [Some(known)]);
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
    ];
    vec((0..2_usize, event), 1..40)
}

/// What may be sent follows from what the service may have done since somebody last said that there is no agent, in whatever
/// order jobs and people act. In both databases the rules are the same, and the statements are not.
#[test]
fn nothing_that_may_exist_is_sent_again() {
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
    let mut jobs = [job(ledger), job(ledger)];
    // Which job has claimed a row, and why; and whether the service may have created its agent.
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
                let is_settled = state == Some(State::Settled);
                match claimed.get(&row) {
                    // Nothing is sent before the answer, which is all that there can be to note.
                    Some((by, WhenInDoubt::Ask))
                        if *by == job && (is_settled || noted.is_none()) => {}
                    Some((by, WhenInDoubt::Report | WhenInDoubt::Resend))
                        if *by == job && !is_settled => {}
                    _ => continue,
                }
                let is_created = state == Some(State::Succeeded);
                let is_unknown = state == Some(State::Unknown);
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
                jobs[killed] = job(ledger);
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
    // This checks the sums.
    ledger.summary().unwrap();
    Ok(())
}

#[test]
fn what_a_job_notes_of_a_row_that_is_not_its_own_any_more_sets_nobody_free() {
    let row = |state, agent: Option<&str>, claimed_by: Option<(i64, bool)>| Record {
        agent_id: agent.map(str::to_owned),
        job: claimed_by.map(|(number, is_alive)| Job { number, is_alive }),
        ..Record::new(state)
    };
    // Which notes are kept: that it was created, that nobody knows, that it was rejected.
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
        (row(State::Settled, Some("a_1"), None), [true, false, false]),
        (row(State::Settled, None, None), [true, true, true]),
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

#[test]
fn a_hash_is_what_the_specification_says() {
    // Made with Python: hashlib.blake2b(bytes(range(32)) + b"ada@example.com", digest_size=16)
    let salt = std::array::from_fn(|n| n as u8);
    let of_key = hash(&salt, "ada@example.com").0;
    assert_eq!(hex(&of_key), "c97431b51534f9ce9f1d46c7780316b8");
    // The check of a salt: hashlib.blake2b(bytes(range(32)), digest_size=16)
    let check = hash(&salt, "").0;
    assert_eq!(hex(&check), "f39a2cad58411cd49f577e5086b8031f");
    assert_ne!(check, hash(&[0; 32], "").0);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_lease_is_held_until_it_ends() {
    let (lease, now) = (Lease::default(), Instant::now());
    let held = |seconds, term| lease.is_held(now + Duration::from_secs(seconds), term);
    assert!(held(1_000_000, 0));
    lease.begin(now + Duration::from_secs(20));
    lease.renew(now + Duration::from_secs(40));
    assert!(held(39, 1) && !held(40, 1));
    // What was claimed with a lease that is over is not sent, whatever began since.
    lease.begin(now + Duration::from_secs(90));
    assert!(!held(39, 1) && held(39, 2));
}

fn note(store: &mut dyn Store, key: KeyHash, state: State) -> Result<(), Cause> {
    let noted = Some(Record::new(state));
    store.write(&[&Write::Note { key, noted }]).map(drop)
}

fn kind<T>(result: Result<T, impl Into<LedgerError>>) -> LedgerErrorKind {
    result.map(drop).map_err(Into::into).unwrap_err().kind()
}

impl From<Cause> for LedgerError {
    fn from(cause: Cause) -> Self {
        Self::of_file("".as_ref(), cause)
    }
}

/// Makes others take every job of a ledger for dead.
fn expire(cluster: &Cluster, url: &str) {
    cluster.sql(url, "UPDATE jobs SET lease_until = clock_timestamp()");
}

#[test]
fn a_job_whose_lease_has_run_out_claims_nothing_and_what_it_had_is_in_doubt() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let lease = Lease::default();
    let before = Instant::now();
    let mut late = ledger
        .open_to_send(true, SERVICE, Some("email"), lease.clone())
        .unwrap();
    let after = Instant::now();
    // Long before others take it for dead, which is after 60 s.
    let term = Duration::from_secs(40);
    assert!(lease.is_held(before + term - Duration::from_millis(1), 1));
    assert!(!lease.is_held(after + term, 1));
    let [one, two, three] = ["1", "2", "3"].map(|key| late.header().hash(key));
    for key in [one, two] {
        assert!(claim(&mut *late, key, WhenInDoubt::Report).is_none());
    }
    assert_eq!(ledger.summary().unwrap().in_flight, 2);
    late.renew().unwrap();
    expire(cluster, &url);
    let claimed = try_claim(&mut *late, three, WhenInDoubt::Report);
    assert_eq!(kind(claimed), LedgerErrorKind::Unreachable);
    late.renew().unwrap_err();
    let mut next = job(&ledger);
    let found = claim(&mut *next, one, WhenInDoubt::Report).unwrap();
    assert!(found.is_in_doubt());
    // Another sends it again, as it was told to. What the first finds out then is not forgotten.
    assert!(claim(&mut *next, one, WhenInDoubt::Resend).is_none());
    note(&mut *late, one, State::Unknown).unwrap();
    assert!(
        ledger.look_up(None, ["1"]).unwrap()[0]
            .as_ref()
            .unwrap()
            .in_flight
    );
    note(&mut *late, one, State::Succeeded).unwrap();
    note(&mut *next, one, State::Rejected).unwrap();
    note(&mut *late, two, State::Succeeded).unwrap();
    drop((late, next));
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.succeeded, summary.in_flight, summary.in_doubt.len()),
        (2, 0, 0)
    );
    assert_eq!(cluster.sql(&url, "SELECT count(*) FROM jobs"), "0");
}

#[test]
fn a_database_that_is_killed_in_the_middle_of_a_claim_forgets_no_claim() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let mut store = job(&ledger);
    let [one, two, three] = ["1", "2", "3"].map(|key| store.header().hash(key));
    assert!(claim(&mut *store, one, WhenInDoubt::Report).is_none());
    // Somebody holds the row, so that the claim waits when the database dies.
    let hex = hex(&two.0);
    let insert = format!(
        "INSERT INTO creates (key, entry, state, claimed_at, noted_at)
        VALUES ('\\x{hex}', 0, 'sending', 0, 0)"
    );
    let mut other = cluster.hold(&url, &insert);
    let claiming = thread::spawn(move || {
        let claims = [two, three].map(|key| Write::Claim {
            key,
            when: WhenInDoubt::Report,
        });
        let claimed = store.write(&claims.each_ref());
        (store, claimed)
    });
    cluster.wait_for_a_lock(&url);
    let mut noting = None;
    cluster.crash(|| {
        let (mut store, claimed) = claiming.join().unwrap();
        assert_eq!(kind(claimed), LedgerErrorKind::Unreachable);
        assert_eq!(kind(ledger.summary()), LedgerErrorKind::Unreachable);
        let claimed = try_claim(&mut *store, two, WhenInDoubt::Report);
        assert_eq!(kind(claimed), LedgerErrorKind::Unreachable);
        // What became of a row waits for the database.
        noting = Some(thread::spawn(move || {
            note(&mut *store, one, State::Succeeded)
        }));
    });
    noting.unwrap().join().unwrap().unwrap();
    let _ = other.wait();
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.succeeded, summary.in_flight, summary.in_doubt.len()),
        (1, 0, 0)
    );
    assert_eq!(cluster.sql(&url, "SELECT count(*) FROM creates"), "1");
}

#[test]
fn rows_that_many_jobs_claim_at_the_same_time_are_claimed_once() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let ledger: Ledger = cluster.url().parse().unwrap();
    let mut claimed = thread::scope(|scope| {
        let ledger = &ledger;
        let claim = |step| scope.spawn(move || claim_many(job(ledger), step));
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

/// Claims overlapping batches, in an order of its own, and withdraws or notes what it gets, which it returns.
fn claim_many(mut store: Box<dyn Store>, step: usize) -> Vec<usize> {
    let mut mine = Vec::new();
    for batch in 0..30 {
        let keys = (0..20).map(|n| (batch * 7 + n * step % 20) % 200);
        let keys: Vec<_> = keys
            .map(|key| (key, store.header().hash(&key.to_string())))
            .collect();
        let when = WhenInDoubt::Report;
        let claims = keys.iter().map(|(_, key)| Write::Claim { key: *key, when });
        let claims: Vec<_> = claims.collect();
        let answers = store.write(&claims.iter().collect::<Vec<_>>()).unwrap();
        for ((number, key), _) in keys.into_iter().zip(answers).filter(|(_, no)| no.is_none()) {
            let is_withdrawn = number % 3 == 0 && batch % 2 == 0;
            let noted = (!is_withdrawn).then(|| Record::new(State::Succeeded));
            mine.extend(noted.as_ref().map(|_| number));
            store.write(&[&Write::Note { key, noted }]).unwrap();
        }
    }
    mine
}

#[test]
fn a_database_that_is_not_as_dealkit_left_it_is_refused() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    for (change, expected, under_a_job) in [
        (
            "UPDATE ledger SET salt = sha256('')",
            LedgerErrorKind::Broken,
            LedgerErrorKind::Moved,
        ),
        (
            "DELETE FROM ledger",
            LedgerErrorKind::Io,
            LedgerErrorKind::Moved,
        ),
        (
            "UPDATE creates SET state = 'elsewhere'",
            LedgerErrorKind::Broken,
            LedgerErrorKind::Broken,
        ),
        (
            "UPDATE version SET version = 2",
            LedgerErrorKind::NewerFormat,
            LedgerErrorKind::NewerFormat,
        ),
    ] {
        let url = cluster.url();
        let ledger: Ledger = url.parse().unwrap();
        assert!(ledger.look_up(None, ["1"]).unwrap()[0].is_none());
        let mut store = job(&ledger);
        let key = store.header().hash("1");
        claim(&mut *store, key, WhenInDoubt::Report);
        cluster.sql(&url, change);
        assert_eq!(kind(ledger.summary()), expected, "{change}");
        if under_a_job != LedgerErrorKind::NewerFormat {
            assert_eq!(
                kind(note(&mut *store, key, State::Succeeded)),
                under_a_job,
                "{change}"
            );
        }
    }
    let url = cluster.url();
    cluster.sql(
        &url,
        &format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.creates ()",
            schema = url.rsplit_once('=').unwrap().1
        ),
    );
    let ledger: Ledger = url.parse().unwrap();
    assert_eq!(kind(ledger.init()), LedgerErrorKind::NotALedger);
}

#[test]
fn a_user_without_rights_is_refused_and_no_text_has_the_password() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.url();
    cluster.sql(&url, "CREATE ROLE guest LOGIN PASSWORD 'open sesame'");
    let schema = url.rsplit_once('=').unwrap().1;
    let certificate = cluster.certificate();
    let guest = |password: &str, host: &str, more: &str| -> Ledger {
        let url = format!(
            "postgresql://guest:{password}@{host}:{}/postgres?schema={schema}{more}",
            cluster.port
        );
        url.parse().unwrap()
    };
    let trusted = format!("&sslmode=verify-full&sslrootcert={}", certificate.display());
    let known = guest("open%20sesame", "localhost", &trusted);
    // The tables are missing, and the guest may make none; then they are there, but not the guest's.
    let mut errors = vec![known.init().unwrap_err()];
    let ledger: Ledger = url.parse().unwrap();
    ledger.init().unwrap();
    errors.push(known.summary().unwrap_err());
    errors.push(
        guest("open%20sesame!", "localhost", &trusted)
            .init()
            .unwrap_err(),
    );
    assert!(
        errors
            .iter()
            .all(|error| error.kind() == LedgerErrorKind::Io),
        "{errors:?}"
    );
    // Granted, everything works, with and without TLS.
    drop(job(&ledger));
    cluster.sql(
        &url,
        &format!(
            "GRANT USAGE ON SCHEMA {schema} TO guest;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO guest"
        ),
    );
    for granted in [&known, &guest("open%20sesame", "127.0.0.1", "")] {
        drop(job(granted));
        granted.summary().unwrap();
    }
    // The certificate is of another name, of an issuer that nobody knows, or the server is not there.
    for unreachable in [
        guest("open%20sesame", "127.0.0.1", &trusted),
        guest("open%20sesame", "localhost", "&sslmode=require"),
        format!("postgresql://guest:open%20sesame@127.0.0.1:1/postgres?schema={schema}")
            .parse()
            .unwrap(),
    ] {
        let error = unreachable.summary().unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::Unreachable, "{error}");
        errors.push(error);
    }
    for refused in [
        "postgresql://localhost/x?sesame=1",
        "postgres://:5432/x",
        "postgresql://localhost/x?sslmode=allow",
        "postgresql://localhost/?schema=a;b",
    ] {
        let error = refused.parse::<Ledger>().unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
        errors.push(error);
    }
    for error in errors {
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }
    assert!(!format!("{known:?} {known}").contains("sesame"));
    assert_eq!(
        known.to_string(),
        format!(
            "postgresql://localhost:{}/postgres?schema={schema}",
            cluster.port
        )
    );
}
