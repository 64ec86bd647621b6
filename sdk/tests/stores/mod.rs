//! The rules of a ledger, under any order of events and on every database; and what PostgreSQL alone can do.

use std::{cell::Cell, collections::HashMap, thread, time::Duration};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use tempfile::TempDir;

use super::{
    Ledger, LedgerError, LedgerErrorKind, Recorded,
    error::Cause,
    key_hash::{KeyHash, Salt},
    lease::{self, Lease},
    state::{Job, Record, RequestInfo, Row, State, WhenInDoubt},
    store::{Header, Store, Write},
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
    let claimed = store.write(&[&claim_of(key, when)]);
    claimed.map(|mut claimed| claimed.remove(0).unwrap())
}

fn claim_of(key: KeyHash, when: WhenInDoubt) -> Write {
    Write::Claim {
        key,
        when,
        request: RequestInfo::default(),
    }
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
                let is_settled = state == Some(State::Resolved);
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

#[test]
fn hashes_are_those_of_the_specification() {
    // Made with Python: salt = bytes(range(32)); hashlib.blake2b(salt + b"…", digest_size=16)
    let salt = Salt(std::array::from_fn(|n| n as u8));
    let of_key = |name, key| hex(&salt.hash_key(name, key).0);
    assert_eq!(
        of_key(None, "ada@example.com"),
        "c97431b51534f9ce9f1d46c7780316b8"
    );
    // In form NFC, without format characters, and in lower case if they are addresses.
    for key in [
        "\u{feff}Jose\u{301}@Example.com",
        "jos\u{e9}@exam\u{ad}ple.com\u{200b}",
    ] {
        assert_eq!(
            of_key(Some("email"), key),
            of_key(None, "jos\u{e9}@example.com")
        );
    }
    assert_ne!(of_key(Some("id"), "A"), of_key(Some("id"), "a"));
    let requests = [
        r#"{"email":"ada@example.com","profile":{"tier":"A","x":[1.0,null]},"a":"\u00e9"}"#,
        r#" { "a": "é", "profile": {"x": [1.0, null], "tier": "A"}, "email": "ada@example.com" } "#,
    ];
    // salt + b"request\0" + '{"a":"é","email":"ada@example.com","profile":{"tier":"A","x":[1.0,null]}}'.encode()
    for request in requests {
        let hash = salt.hash_request(request.as_bytes());
        assert_eq!(hex(&hash.0), "a18282b2037e1b817db25cdfbcf4e224");
    }
    assert_ne!(
        salt.hash_request(b"{\"x\":1.0}"),
        salt.hash_request(b"{\"x\":1}")
    );
    // salt + b"email\0ada@example.com"
    let email = salt.hash_email(" Ada@Example.com");
    assert_eq!(hex(&email.0), "1b526a8dac87802180b397bc153dc0aa");
    // salt + b"header\0" + b"\1" + (4).to_bytes(8) + b"http" + b"\0" + (0).to_bytes(8)
    let header = Header {
        salt,
        service: "http".to_owned(),
        keys: None,
    };
    assert_eq!(hex(&header.check()), "ea770e5b09a8a92760d41cb1480d5af5");
    // Nothing is too deep, and what is no JSON has a hash, too.
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_ne!(salt.hash_request(deep.as_bytes()), salt.hash_request(b"["));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_lease_is_held_until_it_ends() {
    let (lease, now) = (Lease::default(), lease::now());
    let held = |seconds, term| {
        let remaining = lease.remaining(now + Duration::from_secs(seconds), term);
        remaining != Some(Duration::ZERO)
    };
    assert!(held(1_000_000, 0));
    lease.begin(now + Duration::from_secs(20));
    lease.renew(now + Duration::from_secs(40));
    assert!(held(39, 1) && !held(40, 1));
    // A row claimed with a lease that is over is not sent, even if another lease has begun since.
    lease.begin(now + Duration::from_secs(90));
    assert!(!held(39, 1) && held(39, 2));
    lease.end();
    assert!(!held(0, 2));
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
    let before = lease::now();
    let mut late = ledger
        .open_to_send(true, SERVICE, Some("email"), lease.clone())
        .unwrap();
    let after = lease::now();
    // Long before others take it for dead, which is after 60 s.
    let term = Duration::from_secs(40);
    let is_over = |now| lease.remaining(now, 1) == Some(Duration::ZERO);
    assert!(!is_over(before + term - Duration::from_millis(1)));
    assert!(is_over(after + term));
    let [one, two, three] = ["1", "2", "3"].map(|key| late.header().hash(key));
    for key in [one, two] {
        assert!(claim(&mut *late, key, WhenInDoubt::Report).is_none());
    }
    assert_eq!(ledger.summary().unwrap().in_flight, 2);
    late.renew().unwrap();
    expire(cluster, &url);
    let claimed = try_claim(&mut *late, three, WhenInDoubt::Report);
    assert_eq!(kind(claimed), LedgerErrorKind::Unreachable);
    // Nothing that it has claimed is sent from now on: the clock of the database may have been moved.
    assert!(is_over(before));
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
        let claims = [two, three].map(|key| claim_of(key, WhenInDoubt::Report));
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
fn an_outcome_waits_for_a_database_whose_connections_break_again_and_again() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let mut store = job(&ledger);
    let key = store.header().hash("1");
    assert!(claim(&mut *store, key, WhenInDoubt::Report).is_none());
    let mut other = cluster.hold(&url, "LOCK TABLE creates");
    let noting = thread::spawn(move || note(&mut *store, key, State::Succeeded));
    for _ in 0..3 {
        cluster.wait_for_a_lock(&url);
        let waiting =
            "SELECT pid FROM pg_locks WHERE relation = 'creates'::regclass AND NOT granted";
        let terminate =
            format!("SELECT count(pg_terminate_backend(pid)) FROM ({waiting}) AS waiting");
        cluster.sql(&url, &terminate);
    }
    drop(other.stdin.take());
    let _ = other.wait();
    noting.join().unwrap().unwrap();
    assert_eq!(ledger.summary().unwrap().succeeded, 1);
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
        let claims = keys.iter().map(|(_, key)| claim_of(*key, when));
        let claims: Vec<_> = claims.collect();
        let answers = store.write(&claims.iter().collect::<Vec<_>>()).unwrap();
        for ((number, key), _) in keys
            .into_iter()
            .zip(answers)
            .filter(|(_, no)| matches!(no, Ok(None)))
        {
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
            LedgerErrorKind::Broken,
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
            "UPDATE version SET version = 3",
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
        "postgresql://u:x@sesame@localhost/x",
        "postgresql+psycopg2://u:sesame@localhost/x",
        " postgresql://u:sesame@localhost/x",
        "psql://u:sesame@localhost/x",
        "host=localhost password=sesame",
        "postgresql:u:sesame@localhost/x",
        "Postgres:/u:sesame@localhost/x",
        "HOST = localhost dbname=sesame",
    ] {
        let error = refused.parse::<Ledger>().unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
        errors.push(error);
    }
    for error in errors {
        let text = format!("{error} {error:?}");
        assert!(
            !text.contains("sesame") && !text.contains("guest"),
            "{error}"
        );
    }
    // As the path of a file, none of them is used.
    let file = Ledger::sqlite("host=localhost password=sesame");
    assert!(!format!("{file} {file:?}").contains("sesame"));
    assert_eq!(kind(file.summary()), LedgerErrorKind::NotALedger);
    assert!(!format!("{known:?} {known}").contains("sesame"));
    assert_eq!(
        known.to_string(),
        format!(
            "postgresql://localhost:{}/postgres?schema={schema}",
            cluster.port
        )
    );
}

/// Runs on a new file and, where PostgreSQL is installed, on a new schema.
fn in_both(test: impl Fn(&Ledger)) {
    let folder = TempDir::new().unwrap();
    test(&Ledger::sqlite(folder.path().join("agents.ledger")));
    if let Some(cluster) = Cluster::shared() {
        test(&cluster.url().parse().unwrap());
    }
}

fn opened(ledger: &Ledger, keys: Option<&str>) -> Result<Box<dyn Store>, Cause> {
    ledger.open_to_send(true, SERVICE, keys, Lease::default())
}

#[test]
fn a_claim_is_rejected_once_the_ledger_has_another_header() {
    for (first, second) in [
        (Some("email"), "id"),
        (Some("id"), "email"),
        (None, "email"),
    ] {
        in_both(|ledger| {
            // Both open a ledger without rows, and neither has claimed any.
            let mut late = opened(ledger, first).unwrap();
            let mut early = opened(ledger, Some(second)).unwrap();
            let [one, two] = ["1", "2"].map(|key| early.header().hash(key));
            assert!(claim(&mut *early, one, WhenInDoubt::Report).is_none());
            let claimed = try_claim(&mut *late, two, WhenInDoubt::Report);
            assert_eq!(kind(claimed), LedgerErrorKind::OtherKeys);
            assert_eq!(
                kind(opened(ledger, first.or(Some("x"))).map(drop)),
                LedgerErrorKind::OtherKeys
            );
            // The outcome of a row that was sent is recorded all the same.
            ledger.move_to("https://new.example.com").unwrap();
            let claimed = try_claim(&mut *early, two, WhenInDoubt::Report);
            assert_eq!(kind(claimed), LedgerErrorKind::OtherService);
            note(&mut *early, one, State::Succeeded).unwrap();
            drop((early, late));
            let summary = ledger.summary().unwrap();
            assert_eq!((summary.succeeded, summary.in_flight), (1, 0));
            assert_eq!(summary.keys.as_deref(), Some(second));
        });
    }
}

#[test]
fn an_agent_becomes_the_agent_of_one_row_however_many_ask_for_it() {
    const ROWS: usize = 12;
    in_both(|ledger| {
        let mut job = job(ledger);
        let keys: Vec<_> = (0..ROWS).map(|n| n.to_string()).collect();
        for key in &keys {
            let key = job.header().hash(key);
            assert!(claim(&mut *job, key, WhenInDoubt::Report).is_none());
            note(&mut *job, key, State::Unknown).unwrap();
        }
        // Many people at the same time.
        let start = std::sync::Barrier::new(ROWS);
        let accepted = thread::scope(|scope| {
            let settle = |key| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    ledger.settle([(key, Some(AgentId::from("a_1")))]).is_ok()
                })
            };
            let settled: Vec<_> = keys.iter().map(settle).collect();
            settled
                .into_iter()
                .filter(|_| true)
                .map(|one| one.join().unwrap())
                .filter(|ok| *ok)
                .count()
        });
        assert_eq!(accepted, 1);
        // Many rows of one job in the same transaction.
        let hashes: Vec<_> = keys.iter().map(|key| job.header().hash(key)).collect();
        let claims: Vec<_> = hashes
            .iter()
            .map(|key| claim_of(*key, WhenInDoubt::Ask))
            .collect();
        let claimed = job.write(&claims.iter().collect::<Vec<_>>()).unwrap();
        let claimed: Vec<_> = hashes
            .iter()
            .zip(claimed)
            .filter(|(_, no)| matches!(no, Ok(None)))
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
        let resolved = job.write(&resolves.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(resolved.iter().filter(|one| one.is_ok()).count(), 1);
        drop(job);
        assert_eq!(ledger.summary().unwrap().settled_with_agent, 2);
        // A service may give two rows one identifier, and what the ledger has already is accepted again.
        let mut job = self::job(ledger);
        for key in ["x", "y"] {
            let key = job.header().hash(key);
            assert!(claim(&mut *job, key, WhenInDoubt::Report).is_none());
            let noted = Some(Record {
                agent_id: Some("a_3".to_owned()),
                ..Record::new(State::Succeeded)
            });
            job.write(&[&Write::Note { key, noted }]).unwrap();
        }
        let both = ["x", "y"].map(|key| (key, Some(AgentId::from("a_3"))));
        assert_eq!(ledger.settle(both).unwrap(), 0);
    });
}

#[test]
fn a_key_that_the_ledger_does_not_have_is_named_before_other_faults() {
    in_both(|ledger| {
        let mut job = job(ledger);
        let key = job.header().hash("0042");
        assert!(claim(&mut *job, key, WhenInDoubt::Report).is_none());
        let noted = Some(Record {
            agent_id: Some("a_1".to_owned()),
            ..Record::new(State::Succeeded)
        });
        job.write(&[&Write::Note { key, noted }]).unwrap();
        // A spreadsheet has removed the zeros from the key of a report.
        let error = ledger
            .settle([("42", Some(AgentId::from("a_1")))])
            .unwrap_err();
        assert!(
            error.to_string().contains("its key is not in the ledger"),
            "{error}"
        );
    });
}

/// The rows of the ledgers in `formats`: each key, and what the ledger has on it.
const FORMAT_ROWS: [(&str, &str); 9] = [
    ("sending", "unknown"),
    ("succeeded", "succeeded a_1"),
    ("succeeded without an identifier", "succeeded"),
    (
        "rejected",
        "rejected 422 Unprocessable invalid_email missing",
    ),
    ("rejected for its sender", "to send"),
    ("unknown", "unknown 503"),
    ("resolved with an agent", "succeeded a_2"),
    ("resolved without an agent", "to send"),
    ("not in the ledger", "to send"),
];

/// Writes every state to a ledger.
fn write_every_state(ledger: &Ledger) {
    let mut job = opened(ledger, Some("email")).unwrap();
    let header = job.header().clone();
    for (name, _) in &FORMAT_ROWS[..8] {
        let key = header.hash(name);
        let request = RequestInfo {
            body: Some(header.salt.hash_request(b"{\"email\":\"ada@example.com\"}")),
            email: Some(header.salt.hash_email(&format!("{name}@example.com"))),
            label: Some(format!("label of {name}")),
        };
        let claim = Write::Claim {
            key,
            when: WhenInDoubt::Report,
            request: request.clone(),
        };
        assert!(matches!(job.write(&[&claim]).unwrap()[..], [Ok(None)]));
        let (state, agent_id, status) = match *name {
            "sending" => continue,
            "succeeded" => (State::Succeeded, Some("a_1"), None),
            "succeeded without an identifier" => (State::Succeeded, None, None),
            "rejected" => (State::Rejected, None, Some(422)),
            "rejected for its sender" => (State::Rejected, None, Some(401)),
            _ => (State::Unknown, None, Some(503)),
        };
        let is_rejected = state == State::Rejected;
        let noted = Record {
            agent_id: agent_id.map(str::to_owned),
            status,
            request_id: status.map(|status| format!("r-{status}")),
            title: is_rejected.then(|| "Unprocessable".to_owned()),
            code: is_rejected.then(|| "invalid_email missing".to_owned()),
            request,
            ..Record::new(state)
        };
        let noted = Some(noted);
        job.write(&[&Write::Note { key, noted }]).unwrap();
    }
    drop(job);
    let resolved = [
        ("resolved with an agent", Some(AgentId::from("a_2"))),
        ("resolved without an agent", None),
    ];
    ledger.settle(resolved).unwrap();
}

/// Checks that a ledger written by `write_every_state` is read, and that a job continues with it.
fn check_every_state(ledger: &Ledger) {
    let keys = FORMAT_ROWS.map(|(key, _)| key);
    let found = ledger.look_up("email", keys).unwrap();
    for ((key, expected), found) in FORMAT_ROWS.into_iter().zip(found) {
        let Some(found) = found else {
            assert_eq!(expected, "to send", "{key}");
            continue;
        };
        let mut text = vec![found.outcome.to_string()];
        text.extend(found.agent_id.map(String::from));
        text.extend(found.status.map(|status| status.as_u16().to_string()));
        text.extend(found.title);
        text.extend(found.code);
        assert_eq!(text.join(" "), expected, "{key}");
        assert_eq!(found.label, Some(format!("label of {key}")));
        assert!(!found.in_flight && found.sent_at.is_some());
    }
    let emails = keys.map(|key| format!("{}@Example.com", key.to_uppercase()));
    let known = ledger.look_up_emails(&emails).unwrap();
    assert_eq!(known.iter().filter(|known| known.is_some()).count(), 6);
    let json = crate::Json::parse(r#"{ "email": "ada@example.com" }"#).unwrap();
    let other = crate::Json::parse(r#"{"email":"grace@example.com"}"#).unwrap();
    let requests = [("succeeded", json), ("unknown", other)];
    let compared = ledger.look_up_requests("email", requests).unwrap();
    let differs = compared
        .iter()
        .map(|row| row.as_ref().unwrap().request_differs);
    assert_eq!(differs.collect::<Vec<_>>(), [false, true]);
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.service.as_str(), summary.in_doubt.len()),
        (SERVICE, 2)
    );
    let mut job = opened(ledger, Some("email")).unwrap();
    for (key, expected) in FORMAT_ROWS {
        let key = job.header().hash(key);
        let claimed = claim(&mut *job, key, WhenInDoubt::Report).is_none();
        assert_eq!(claimed, expected == "to send");
    }
}

#[test]
fn every_later_version_reads_ledgers_of_this_format() {
    let formats = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/formats");
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("agents.ledger");
    std::fs::copy(formats.join("2.ledger"), &copy).unwrap();
    check_every_state(&Ledger::sqlite(copy));
    if let Some(cluster) = Cluster::shared() {
        let url = cluster.url();
        let schema = url.rsplit_once('=').unwrap().1;
        let sql = std::fs::read_to_string(formats.join("2.sql")).unwrap();
        cluster.sql(
            &url,
            &format!("CREATE SCHEMA {schema}; SET search_path TO {schema}; {sql}"),
        );
        check_every_state(&url.parse().unwrap());
    }
    in_both(|ledger| {
        write_every_state(ledger);
        check_every_state(ledger);
    });
}

/// Writes the files in `formats`. Only a new version of the format needs new files, and the old ones stay.
#[test]
#[ignore = "it writes files that later versions must be able to read"]
fn write_the_files_of_a_new_format() {
    let formats = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/formats");
    let file = formats.join(format!("{}.ledger", super::store::FORMAT));
    write_every_state(&Ledger::sqlite(&file));
    std::fs::remove_file(formats.join(format!("{}.ledger-journal", super::store::FORMAT))).unwrap();
    let cluster = Cluster::shared().unwrap();
    let url = cluster.url();
    write_every_state(&url.parse().unwrap());
    let schema = url.rsplit_once('=').unwrap().1;
    let sql = cluster.dump(schema);
    std::fs::write(formats.join(format!("{}.sql", super::store::FORMAT)), sql).unwrap();
}

#[test]
fn a_database_that_cannot_store_a_ledger_is_named_as_the_cause() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.url();
    let create = "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0";
    cluster.sql(&url, create);
    let latin: Ledger = url.replace("/postgres?", "/latin?").parse().unwrap();
    let error = latin.init().unwrap_err();
    assert!(
        error.to_string().contains("its encoding is not UTF8"),
        "{error}"
    );
    let options: Ledger = format!("{url}&options=-c%20nothing.such").parse().unwrap();
    let error = options.init().unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::Io, "{error}");
    let ledger: Ledger = url.parse().unwrap();
    let error = LedgerError::from(opened(&ledger, Some("a\0b")).map(drop).unwrap_err());
    assert!(error.to_string().contains("U+0000"), "{error}");
    let mut job = job(&ledger);
    let key = job.header().hash("a\0b");
    assert!(claim(&mut *job, key, WhenInDoubt::Report).is_none());
    note(&mut *job, key, State::Unknown).unwrap();
    let error = ledger
        .settle([("a\0b", Some(AgentId::from("a\0b")))])
        .unwrap_err();
    assert!(error.to_string().contains("U+0000"), "{error}");
}
