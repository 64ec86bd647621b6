//! Jobs with a ledger: what a second run sends, and what it reports for the rows that it does not send.
#![cfg(all(feature = "blocking", feature = "ledger-postgres"))]

use std::{
    cell::Cell,
    error::Error as _,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant, SystemTime},
};

use dealkit::{
    AgentId, AgentProfile, Client, CreateAgent, CreateRow, Created, Creation, ErrorKind, Outcome,
    StatusCode, blocking,
    chrono::{DateTime, SubsecRound as _, Utc},
    ledger::{Ledger, LedgerError, LedgerErrorKind, Resolution, RowInDoubt},
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::{
    cluster::Cluster,
    mock::{AGENT, Service, client},
    peer::{Blackhole, FINE, Peer, builder},
    rows::{email as key, number},
};

use Outcome::{NotSent, Rejected, Succeeded, Unknown};

/// What the service does with a row.
#[derive(Clone, Copy)]
enum Reply {
    Create,
    Status(u16),
    /// It creates the agent, but the response is lost.
    Lose,
    /// It says that it created the agent, and breaks off.
    Cut,
}

fn new_ledger() -> (TempDir, Ledger) {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::sqlite(folder.path().join("agents.ledger"));
    (folder, ledger)
}

/// A ledger of its own in PostgreSQL, where that is installed.
fn in_postgres(test: impl FnOnce(Ledger)) {
    if let Some(cluster) = Cluster::shared() {
        test(cluster.url().parse().unwrap());
    }
}

fn in_a_file(test: impl FnOnce(Ledger)) {
    let (_folder, ledger) = new_ledger();
    test(ledger);
}

fn run_async(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(test);
}

macro_rules! in_both {
    ($($awaited:ident)* ; $($plain:ident)*) => {
        mod in_a_file {
            $(#[test] fn $awaited() { super::in_a_file(|ledger| super::run_async(super::$awaited(ledger))) })*
            $(#[test] fn $plain() { super::in_a_file(super::$plain) })*
        }
        mod in_postgres {
            $(#[test] fn $awaited() { super::in_postgres(|ledger| super::run_async(super::$awaited(ledger))) })*
            $(#[test] fn $plain() { super::in_postgres(super::$plain) })*
        }
    };
}

in_both! {
    a_second_run_sends_what_is_new_or_was_not_sent_and_says_what_became_of_the_others
    a_row_that_may_have_been_created_stays_in_doubt_when_sending_it_again_fails
    two_rows_with_one_key_and_rows_without_are_refused
    what_is_cancelled_is_recorded_as_far_as_it_has_come
    what_is_dropped_is_recorded_as_far_as_it_has_come
    what_an_earlier_run_did_is_said_of_rows_that_are_given_up_too
    what_waits_for_a_connection_is_sent_by_the_next_run
    rows_that_were_looked_up_are_settled_and_the_next_run_goes_by_that
    a_service_that_has_another_name_keeps_its_ledger
    a_row_whose_turn_comes_too_late_leaves_nothing_in_the_ledger
    two_jobs_share_a_ledger_and_each_row_is_sent_by_one_of_them
    what_somebody_has_settled_can_be_undone_and_settled_again
    ;
    a_blocking_job_lets_go_of_its_ledger
    a_job_whose_keys_are_called_otherwise_is_refused_before_anything_is_sent
    addresses_are_the_same_in_any_case_and_other_keys_are_not
}

fn row(number: usize) -> CreateRow {
    named(number, "Ada")
}

/// The same row, with a name that breaks the rules.
fn broken_row(number: usize) -> CreateRow {
    named(number, "")
}

fn named(number: usize, first_name: &str) -> CreateRow {
    let request = CreateAgent::builder()
        .email(key(number))
        .first_name(first_name)
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build();
    (key(number), request).into()
}

/// Runs a whole job over these rows, and returns what became of them and which were sent.
async fn run(
    peer: &mut Peer,
    ledger: &Ledger,
    resends_unknown: bool,
    rows: Vec<CreateRow>,
    reply: impl Fn(usize) -> Reply,
) -> (Vec<Creation>, Vec<usize>) {
    let client = client(peer.url.as_str());
    let mut job = client.agents().create_many(rows).ledger(ledger, None);
    if resends_unknown {
        job = job.resend_unknown();
    }
    let mut creations = job.concurrency(3).stream();
    let (mut came, mut sent) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            creation = creations.next() => match creation {
                Some(creation) => came.push(creation),
                None => break,
            },
            heard = peer.next() => {
                let number = number(&heard);
                sent.push(number);
                match reply(number) {
                    Reply::Create => heard.answer(201, &FINE.replace("x_1", &format!("a_{number}"))),
                    Reply::Status(status) => heard.answer(status, ""),
                    Reply::Lose => heard.answer_and_close(""),
                    Reply::Cut => heard.answer_and_close("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"),
                }
            }
        }
    }
    sent.sort_unstable();
    (came, sent)
}

fn outcomes(creations: &[Creation]) -> Vec<(Outcome, bool)> {
    creations
        .iter()
        .map(|creation| (creation.outcome(), creation.is_recorded()))
        .collect()
}

fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

fn text(creation: &Creation) -> String {
    creation.result.as_ref().unwrap_err().to_string()
}

async fn a_second_run_sends_what_is_new_or_was_not_sent_and_says_what_became_of_the_others(
    ledger: Ledger,
) {
    let mut peer = Peer::by_hand();
    let reply = |number| match number {
        1 => Reply::Status(422),
        2 => Reply::Lose,
        // It is not about the row, and does not stop the job.
        3 => Reply::Status(404),
        4 => Reply::Status(503),
        5 => Reply::Cut,
        _ => Reply::Create,
    };
    let rows = || (0..6).map(row).chain([broken_row(6)]).collect();
    // The ledger counts milliseconds.
    let begun = now().trunc_subsecs(3);
    let (came, sent) = run(&mut peer, &ledger, false, rows(), reply).await;
    let first_run = begun..=now();
    assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
    let first = [
        Succeeded, Rejected, Unknown, Rejected, Unknown, Succeeded, NotSent,
    ];
    assert_eq!(outcomes(&came), first.map(|outcome| (outcome, false)));
    assert!(came.iter().all(|creation| creation.ledger_error.is_none()));

    // The row that broke the rules is corrected, and there is a new one.
    let rows = || (0..8).map(row).collect();
    let (came, sent) = run(&mut peer, &ledger, false, rows(), |_| Reply::Create).await;
    assert_eq!(sent, [3, 6, 7]);
    let second = [
        (Succeeded, true),
        (Rejected, true),
        (Unknown, true),
        (Succeeded, false),
        (Unknown, true),
        (Succeeded, true),
        (Succeeded, false),
        (Succeeded, false),
    ];
    assert_eq!(outcomes(&came), second);
    for (recorded, id) in [(0, Some("a_0")), (5, None)] {
        let Ok(Created::Before {
            agent_id, sent_at, ..
        }) = &came[recorded].result
        else {
            panic!("{:?}", came[recorded]);
        };
        assert_eq!(agent_id.as_ref().map(AgentId::as_str), id);
        assert!(first_run.contains(&sent_at.unwrap()));
        assert_eq!(came[recorded].agent_id(), agent_id.as_ref());
    }
    assert_eq!(came[3].agent_id().unwrap(), "a_3");
    let error = came[1].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Recorded);
    assert_eq!(error.status().unwrap(), 422);
    assert_eq!(
        text(&came[1]),
        "POST /v1/agents: the service rejected it earlier (422 Unprocessable Entity); nothing was sent"
    );
    assert!(text(&came[4]).contains("(503 Service Unavailable)"));
    for (index, creation) in came.iter().enumerate() {
        assert_eq!(
            (creation.index, creation.key.clone()),
            (index, Some(key(index)))
        );
        assert!(!format!("{creation:?}").contains("example.com"));
    }

    // The user has looked, and decides to resend the rows in doubt.
    let (came, sent) = run(&mut peer, &ledger, true, rows(), |_| Reply::Create).await;
    assert_eq!(sent, [2, 4]);
    assert_eq!(
        outcomes(&came)[1..3],
        [(Rejected, true), (Succeeded, false)]
    );
    let (_, sent) = run(&mut peer, &ledger, true, rows(), |_| Reply::Create).await;
    assert!(sent.is_empty());
}

async fn a_row_that_may_have_been_created_stays_in_doubt_when_sending_it_again_fails(
    ledger: Ledger,
) {
    let mut peer = Peer::by_hand();
    let rows = || (0..2).map(row).collect();
    run(&mut peer, &ledger, false, rows(), |_| Reply::Lose).await;
    // The first is refused, and the second does not leave.
    let (came, sent) = run(&mut peer, &ledger, true, rows(), |_| Reply::Status(422)).await;
    assert_eq!(sent, [0, 1]);
    assert_eq!(outcomes(&came), [(Unknown, false); 2]);
    let (came, sent) = run(&mut peer, &ledger, false, rows(), |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(outcomes(&came), [(Unknown, true); 2]);
    // The same for a row that breaks the rules by now.
    let (came, _) = run(&mut peer, &ledger, true, vec![broken_row(0)], |_| {
        Reply::Create
    })
    .await;
    assert_eq!(outcomes(&came), [(Unknown, false)]);
}

async fn two_rows_with_one_key_and_rows_without_are_refused(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    let unnamed = CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build();
    let rows = vec![
        row(0),
        row(1),
        row(0),
        unnamed.clone().into(),
        ("", unnamed).into(),
    ];
    let (came, sent) = run(&mut peer, &ledger, false, rows, |_| Reply::Create).await;
    assert_eq!(sent, [0, 1]);
    assert_eq!(outcomes(&came)[2..], [(NotSent, false); 3]);
    let error = came[2].result.as_ref().unwrap_err();
    assert_eq!(
        (error.kind(), error.first_index()),
        (ErrorKind::DuplicateKey, Some(0))
    );
    assert_eq!(
        text(&came[2]),
        "POST /v1/agents: not sent: the row at index 0 in this job has the same key; with a ledger, each row needs a \
         key of its own"
    );
    for creation in &came[3..] {
        assert!(
            text(creation).contains("has no key, or an empty one"),
            "{creation:?}"
        );
    }
}

#[tokio::test]
async fn a_claim_and_an_outcome_are_recorded_in_time_and_the_next_row_is_taken_meanwhile() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    let (taken, handed_over) = (Cell::new(0), Cell::new(0));
    let rows = (0..5).map(|number| {
        taken.set(taken.get() + 1);
        assert!(taken.get() <= handed_over.get() + 2);
        row(number)
    });
    let job = client.agents().create_many(rows).ledger(&ledger, None);
    let mut creations = job.concurrency(1).stream();
    for number in 0..5 {
        let heard = tokio::select! {
            _ = creations.next() => panic!("nothing was answered"),
            heard = peer.next() => heard,
        };
        let summary = ledger.summary().unwrap();
        assert_eq!((summary.in_flight, summary.succeeded), (1, number));
        // Nothing can be recorded while somebody else writes.
        let other = Connection::open(ledger.path().unwrap()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!((taken.get(), handed_over.get()), (number + 1, number));
        heard.answer(201, FINE);
        tokio::select! {
            _ = creations.next() => panic!("nothing was recorded"),
            () = until(|| taken.get() == (number + 2).min(5)) => {}
        }
        assert_eq!(ledger.summary().unwrap().in_flight, 1);
        drop(other);
        let creation = creations.next().await.unwrap();
        assert_eq!((creation.index, creation.outcome()), (number, Succeeded));
        handed_over.set(number + 1);
        assert_eq!(ledger.summary().unwrap().succeeded, number + 1);
    }
    assert!(creations.next().await.is_none());
}

async fn what_is_cancelled_is_recorded_as_far_as_it_has_come(ledger: Ledger) {
    given_up(ledger, true).await;
}

async fn what_is_dropped_is_recorded_as_far_as_it_has_come(ledger: Ledger) {
    given_up(ledger, false).await;
}

async fn given_up(ledger: Ledger, is_cancelled: bool) {
    let mut peer = Peer::by_hand();
    let limited = builder(&peer.url).rate_limit(0.001).build().unwrap();
    let waits = std::time::Duration::from_secs(100_000);
    let job = limited
        .agents()
        .create_many((0..3).map(row))
        .ledger(&ledger, None);
    let mut creations = job.timeout(waits).stream();
    let held = tokio::select! {
        _ = creations.next() => panic!("nothing was answered"),
        held = peer.next() => held,
    };
    let sent = number(&held);
    if is_cancelled {
        let left = creations.cancel();
        for creation in left {
            let expected = if creation.index == sent {
                Unknown
            } else {
                NotSent
            };
            assert_eq!(
                (creation.outcome(), creation.key),
                (expected, Some(key(creation.index)))
            );
        }
    } else {
        drop(creations);
    }
    held.gone().await;
    // Rows that waited for their turn left no trace: if the job had been killed instead of given up, they would not
    // be in doubt.
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.in_doubt.len(), summary.in_flight), (1, 0));
    assert_eq!((summary.succeeded, summary.rejected), (0, 0));
    let (came, again) = run(&mut peer, &ledger, false, (0..3).map(row).collect(), |_| {
        Reply::Create
    })
    .await;
    let others: Vec<_> = (0..3).filter(|number| *number != sent).collect();
    assert_eq!(again, others);
    assert_eq!(
        (came[sent].outcome(), came[sent].is_recorded()),
        (Unknown, true)
    );
}

async fn what_an_earlier_run_did_is_said_of_rows_that_are_given_up_too(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    run(&mut peer, &ledger, false, vec![row(0)], |_| Reply::Create).await;
    let client = client(peer.url.as_str());
    let job = client.agents().create_many(std::iter::empty::<CreateRow>());
    let (_, mut in_flight) = job.ledger(&ledger, None).into_parts();
    in_flight.push(row(0));
    in_flight.push(row(1));
    in_flight.push(broken_row(2));
    let left = in_flight.cancel();
    assert_eq!(
        outcomes(&left),
        [(Succeeded, true), (NotSent, false), (NotSent, false)]
    );
    assert_eq!(left[0].agent_id().unwrap(), "a_0");
    assert!(left[2].result.as_ref().unwrap_err().violations().len() == 1);
}

async fn what_waits_for_a_connection_is_sent_by_the_next_run(ledger: Ledger) {
    let blackhole = Blackhole::start().await;
    let client = client(blackhole.url.as_str());
    let job = |client: &Client| {
        client
            .agents()
            .create_many((0..2).map(row))
            .ledger(&ledger, None)
    };
    let mut creations = job(&client).stream();
    // Until both are claimed.
    tokio::select! {
        _ = creations.next() => panic!("nobody listens"),
        () = until(|| ledger.summary().is_ok_and(|summary| summary.in_flight == 2)) => {}
    }
    drop(creations);
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.in_flight, summary.in_doubt.len()), (0, 0));
}

fn a_blocking_job_lets_go_of_its_ledger(ledger: Ledger) {
    let service = Service::answering_blocking(201, AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let job = || {
        client
            .agents()
            .create_many((0..20).map(row))
            .ledger(&ledger, None)
            .open_ledger()
    };
    for is_recorded in [false, true] {
        let creations = job().unwrap().concurrency(4).into_iter();
        let came: Vec<_> = creations.collect();
        assert_eq!(came.len(), 20);
        assert!(
            came.iter()
                .all(|creation| creation.is_recorded() == is_recorded)
        );
    }
    // Dropped halfway.
    let mut creations = job().unwrap().into_iter();
    creations.next().unwrap();
    drop(creations);
    drop(job().unwrap());
    assert_eq!(service.arrived().len(), 20);
}

#[test]
fn giving_up_ends_the_wait_for_a_database() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let url = cluster.url();
    let ledger: Ledger = url.parse().unwrap();
    let service = Service::answering_blocking(201, AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let job = || client.agents().create_many([row(0)]).ledger(&ledger, None);
    drop(job().open_ledger().unwrap());
    let mut held = cluster.hold(&url, "LOCK TABLE creates");
    let mut creations = job().into_iter();
    assert!(
        creations
            .next_timeout(Duration::from_millis(300))
            .is_pending()
    );
    let begun = Instant::now();
    drop(creations);
    // Otherwise it is half a minute.
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(service.arrived().is_empty());
    held.wait().unwrap();
}

#[tokio::test]
async fn a_ledger_is_bound_to_its_service() {
    let (_folder, ledger) = new_ledger();
    let job = async |url: &str| {
        client(url)
            .agents()
            .create_many([row(0)])
            .ledger(&ledger, None)
            .open_ledger()
            .await
            .map(drop)
    };
    job("https://deals.example.com/tenant").await.unwrap();
    job("https://deals.example.com/tenant/").await.unwrap();
    for other in [
        "https://deals.example.com",
        "http://127.0.0.1/tenant",
        "https://deals.example.com/other",
    ] {
        assert_eq!(
            job(other).await.unwrap_err().kind(),
            LedgerErrorKind::OtherService
        );
    }
    let error = dealkit::Error::from(job("https://other.example.com").await.unwrap_err());
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Ledger, NotSent)
    );
    assert_eq!(error.ledger_error().unwrap().path(), ledger.path());
}

async fn rows_that_were_looked_up_are_settled_and_the_next_run_goes_by_that(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    let rows = || (0..4).map(row).collect();
    let reply = |number| match number {
        0 | 1 => Reply::Lose,
        2 => Reply::Status(422),
        _ => Reply::Create,
    };
    run(&mut peer, &ledger, false, rows(), reply).await;
    // The first was created, the second was not, and the third was corrected.
    let found = [(key(0), Some("a_0".into())), (key(1), None), (key(2), None)];
    assert_eq!(ledger.check_settle(found.clone()).unwrap(), 3);
    assert_eq!(ledger.settle(found).unwrap(), 3);
    let (came, sent) = run(&mut peer, &ledger, false, rows(), |_| Reply::Create).await;
    assert_eq!(sent, [1, 2]);
    assert_eq!(
        outcomes(&came),
        [
            (Succeeded, true),
            (Succeeded, false),
            (Succeeded, false),
            (Succeeded, true)
        ]
    );
    assert_eq!(came[0].agent_id().unwrap(), "a_0");
    // It has been created in the meantime.
    let error = ledger.settle([(key(1), None)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.index()),
        (LedgerErrorKind::Refused, Some(0))
    );
}

fn a_job_whose_keys_are_called_otherwise_is_refused_before_anything_is_sent(ledger: Ledger) {
    let service = Service::answering_blocking(201, AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let job = |keys: Option<&str>| {
        let many = client.agents().create_many((0..2).map(row));
        many.ledger(&ledger, keys)
            .open_ledger()
            .map(|many| many.into_iter().count())
    };
    assert_eq!(job(Some("email")).unwrap(), 2);
    let error = job(Some("external_id")).unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherKeys);
    assert!(
        error.to_string().contains(r#""email""#) && error.to_string().contains(r#""external_id""#)
    );
    assert_eq!(job(Some("email")).unwrap(), 2);
    assert_eq!(job(None).unwrap(), 2);
    assert_eq!(service.arrived().len(), 2);
}

fn addresses_are_the_same_in_any_case_and_other_keys_are_not(ledger: Ledger) {
    let service = Service::answering_blocking(201, AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let results = |keys: Option<&str>| {
        let request = || {
            CreateAgent::builder()
                .email("ada@example.com")
                .first_name("Ada")
        };
        let request = || {
            request()
                .last_name("Lovelace")
                .profile(AgentProfile::new())
                .build()
        };
        // One job after the other, and the last row in the job of the one before.
        [
            vec!["ada@example.com"],
            vec!["Ada@Example.com", "ADA@example.com"],
        ]
        .map(|keys_of| {
            let rows = keys_of.into_iter().map(|key| (key, request()));
            let many = client.agents().create_many(rows).ledger(&ledger, keys);
            let outcomes = many
                .into_iter()
                .map(|creation| (creation.outcome(), creation.is_recorded()));
            outcomes.collect::<Vec<_>>()
        })
    };
    assert_eq!(
        results(Some("email")),
        [
            vec![(Succeeded, false)],
            vec![(Succeeded, true), (NotSent, false)]
        ]
    );
    let found = ledger
        .look_up("email", ["ADA@EXAMPLE.COM", "grace@example.com"])
        .unwrap();
    assert!(found[0].is_some() && found[1].is_none());
    assert_eq!(service.arrived().len(), 1);
}

async fn a_service_that_has_another_name_keeps_its_ledger(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    run(&mut peer, &ledger, false, vec![row(0)], |_| Reply::Create).await;
    let mut renamed = Peer::by_hand();
    let job = async |url: &str| {
        let many = client(url).agents().create_many([row(0)]);
        many.ledger(&ledger, None).open_ledger().await.map(drop)
    };
    let error = job(renamed.url.as_str()).await.unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherService);
    assert!(error.to_string().contains("dealkit ledger move"), "{error}");
    ledger.move_to(renamed.url.as_str()).unwrap();
    assert!(job(peer.url.as_str()).await.is_err());
    let rows = vec![row(0), row(1)];
    let (came, sent) = run(&mut renamed, &ledger, false, rows, |_| Reply::Create).await;
    assert_eq!(sent, [1]);
    assert_eq!(outcomes(&came), [(Succeeded, true), (Succeeded, false)]);
}

async fn a_row_whose_turn_comes_too_late_leaves_nothing_in_the_ledger(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    let limited = builder(&peer.url).rate_limit(0.001).build().unwrap();
    let job = limited.agents().create_many((0..3).map(row));
    let mut creations = job.ledger(&ledger, None).stream();
    let mut came = Vec::new();
    while came.len() < 3 {
        tokio::select! {
            creation = creations.next() => came.push(creation.unwrap()),
            heard = peer.next() => heard.answer(201, FINE),
        }
    }
    let (sent, late): (Vec<_>, Vec<_>) = came
        .iter()
        .partition(|creation| creation.outcome() == Succeeded);
    assert_eq!((sent.len(), late.len()), (1, 2));
    for creation in late {
        assert_eq!(creation.outcome(), NotSent);
        assert!(text(creation).contains("rate_limit"), "{creation:?}");
    }
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.succeeded, summary.in_flight), (1, 0));
    assert!(summary.in_doubt.is_empty());
}

async fn two_jobs_share_a_ledger_and_each_row_is_sent_by_one_of_them(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    let job = || {
        let many = client.agents().create_many((0..40).map(row));
        many.ledger(&ledger, "address").concurrency(5).stream()
    };
    let (mut one, mut other) = (job(), job());
    let (mut sent, mut held) = (Vec::new(), Vec::new());
    let mut came = [Vec::new(), Vec::new()];
    while came.iter().flatten().count() < 80 {
        tokio::select! {
            Some(creation) = one.next() => came[0].push(creation),
            Some(creation) = other.next() => came[1].push(creation),
            heard = peer.next() => {
                sent.push(number(&heard));
                // Answered late, so that both jobs come to rows that the other has in flight.
                held.push(heard);
                if held.len() == 3 {
                    held.drain(..).for_each(|heard| heard.answer(201, FINE));
                }
            }
            () = tokio::time::sleep(std::time::Duration::from_millis(20)), if !held.is_empty() => {
                held.drain(..).for_each(|heard| heard.answer(201, FINE));
            }
        }
    }
    sent.sort_unstable();
    assert_eq!(sent, (0..40).collect::<Vec<_>>());
    let created = |creation: &&Creation| matches!(creation.result, Ok(Created::Now(_)));
    assert_eq!(came.iter().flatten().filter(created).count(), 40);
    let mut in_flight = 0;
    for creation in came.iter().flatten() {
        if let Err(error) = &creation.result {
            assert!(creation.is_recorded() && error.is_in_flight());
            in_flight += 1;
            assert_eq!(error.outcome(), Unknown);
            assert!(error.to_string().contains("being sent elsewhere right now"));
        }
    }
    assert!(in_flight > 0);
    drop((one, other));
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.succeeded, summary.in_flight), (40, 0));
}

/// Rows that a job has sent, all of whose responses were lost.
async fn lost(peer: &mut Peer, ledger: &Ledger, rows: usize) {
    let rows = (0..rows).map(row).collect();
    run(peer, ledger, false, rows, |_| Reply::Lose).await;
}

/// What somebody says who is asked about this row.
fn resolution(number: usize) -> Result<Resolution, String> {
    match number {
        0 => Ok(Resolution::Agent("found_0".into())),
        1 => Ok(Resolution::NoAgent),
        2 => Ok(Resolution::Unknown),
        3 => Err("the search is down".to_owned()),
        4 => panic!("a mistake of the program"),
        5 => Ok(Resolution::Agent("n/a".into())),
        _ => Ok(Resolution::Agent("found_0".into())),
    }
}

/// The number of the row that is asked about.
fn asked_number(row: &RowInDoubt) -> usize {
    let agent: CreateAgent = row.request.deserialize().unwrap();
    assert_eq!(agent.email(), row.key);
    (0..10).find(|number| key(*number) == row.key).unwrap()
}

#[tokio::test]
async fn a_row_in_doubt_is_sent_again_only_if_somebody_has_looked_and_there_is_no_agent() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::by_hand();
    lost(&mut peer, &ledger, 7).await;
    let sent_at = ledger.summary().unwrap().in_doubt[0].sent_at;
    let client = client(peer.url.as_str());
    let rows: Vec<_> = (0..8).map(row).chain([broken_row(8)]).collect();
    let job = client.agents().create_many(rows).ledger(&ledger, "address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let job = job.concurrency(1).resolve(move |row| {
        count.fetch_add(1, SeqCst);
        async move {
            assert!(row.sent_at <= now() && !format!("{row:?}").contains('@'));
            resolution(asked_number(&row))
        }
    });
    let mut creations = job.stream();
    let (mut came, mut sent) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            creation = creations.next() => match creation {
                Some(creation) => came.push(creation),
                None => break,
            },
            // Once somebody has said that there is no agent, a rejection is one.
            heard = peer.next() => {
                sent.push(number(&heard));
                heard.answer(422, "");
            }
        }
    }
    assert_eq!((asked.load(SeqCst), sent), (7, vec![1, 7]));
    let mut expected = vec![(Succeeded, true), (Rejected, false)];
    expected.extend([(Unknown, true); 5]);
    expected.extend([(Rejected, false), (NotSent, false)]);
    assert_eq!(outcomes(&came), expected);
    assert_eq!(came[0].agent_id().unwrap(), "found_0");
    let source = |row: usize| {
        let error = came[row].result.as_ref().unwrap_err();
        assert_eq!(text(&came[row]).contains("was asked about it"), row != 2);
        error.source().map(ToString::to_string)
    };
    assert_eq!(source(2), None);
    assert_eq!(source(3).unwrap(), "the search is down");
    assert_eq!(source(4).unwrap(), "it has panicked");
    assert!(source(5).unwrap().contains("a word for nobody"));
    assert!(
        source(6)
            .unwrap()
            .contains("another row of the ledger has the agent")
    );
    // Who looked is believed from now on, and can be corrected; what is still in doubt is as it was.
    let (came, sent) = run(&mut peer, &ledger, false, (0..7).map(row).collect(), |_| {
        Reply::Create
    })
    .await;
    assert!(sent.is_empty());
    assert_eq!(came[0].agent_id().unwrap(), "found_0");
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (
            summary.in_doubt.len(),
            summary.settled_with_agent,
            summary.rejected
        ),
        (5, 1, 2)
    );
    assert!(summary.in_doubt.iter().all(|row| row.sent_at >= sent_at));
    assert_eq!(ledger.unsettle([key(0)]).unwrap(), 1);
    assert_eq!(ledger.summary().unwrap().in_doubt[0].sent_at, sent_at);
}

#[tokio::test]
async fn while_somebody_is_asked_no_other_job_asks_or_sends() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::by_hand();
    lost(&mut peer, &ledger, 2).await;
    let before = ledger.summary().unwrap().in_doubt;
    let client = client(peer.url.as_str());
    let job = |rows: Vec<CreateRow>| client.agents().create_many(rows).ledger(&ledger, "address");
    let rows = || vec![row(0), row(1)];
    let (asked, mut questions) = tokio::sync::mpsc::unbounded_channel();
    let mut asking = job(rows())
        .resolve(move |row| {
            let (answer, answered) = tokio::sync::oneshot::channel::<Resolution>();
            asked.send((row.key, answer)).unwrap();
            answered
        })
        .stream();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        tokio::select! {
            _ = asking.next() => panic!("nobody has answered"),
            Some(question) = questions.recv() => answers.push(question.1),
        }
    }
    let other = |waits| {
        let other = job(rows()).resend_unknown();
        if waits { other.wait_in_flight() } else { other }
    };
    let mut others = other(false).stream();
    for _ in 0..2 {
        let creation = others.next().await.unwrap();
        assert!(creation.result.unwrap_err().is_in_flight());
    }
    let mut waiting = other(true).timeout(Duration::from_millis(50)).stream();
    let late = waiting.next().await.unwrap();
    assert!(late.result.unwrap_err().is_in_flight());
    let mut waiting = other(true).stream();
    tokio::select! {
        _ = waiting.next() => panic!("nobody has answered"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    answers
        .remove(0)
        .send(Resolution::Agent("found".into()))
        .unwrap();
    let (found, waited) = tokio::join!(asking.next(), waiting.next());
    for creation in [found, waited] {
        assert_eq!(creation.unwrap().agent_id().unwrap(), "found");
    }
    // A row whose question is given up is in doubt as before; a job that waited for it goes by its own rules.
    let left = asking.cancel();
    assert_eq!(outcomes(&left), [(Unknown, false)]);
    let sent = tokio::select! {
        _ = waiting.next() => panic!("nothing was answered"),
        heard = peer.next() => heard,
    };
    assert_eq!(number(&sent), 1);
    assert_eq!(waiting.cancel()[0].outcome(), Unknown);
    assert!(ledger.summary().unwrap().in_doubt[0].sent_at > before[1].sent_at);
}

#[tokio::test]
async fn a_job_waits_for_the_one_that_sends_a_row() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::by_hand();
    let client = client(peer.url.as_str());
    let job = || client.agents().create_many([row(0)]);
    for is_answered in [true, false] {
        let sending = job().resend_unknown().ledger(&ledger, "address");
        let mut sending = sending.stream();
        let heard = tokio::select! {
            creation = sending.next() => panic!("nothing was answered: {creation:?}"),
            heard = peer.next() => heard,
        };
        let waiting = job().wait_in_flight().ledger(&ledger, "address");
        let mut waiting = waiting.stream();
        tokio::select! {
            _ = waiting.next() => panic!("nothing was answered"),
            () = tokio::time::sleep(Duration::from_millis(30)) => {}
        }
        if is_answered {
            heard.answer_and_close("");
            assert_eq!(sending.next().await.unwrap().outcome(), Unknown);
            let waited = waiting.next().await.unwrap();
            assert_eq!((waited.outcome(), waited.is_recorded()), (Unknown, true));
            assert!(!waited.result.unwrap_err().is_in_flight());
        } else {
            assert_eq!(waiting.cancel()[0].outcome(), Unknown);
        }
    }
}

#[tokio::test]
async fn what_needs_a_ledger_sends_nothing_without_one() {
    let client = client("http://127.0.0.1:9");
    let job = || client.agents().create_many([row(0)]);
    let look = async |_| Ok::<_, String>(Resolution::NoAgent);
    for job in [
        job().resend_unknown(),
        job().wait_in_flight(),
        job().resolve(look),
    ] {
        let creation = job.stream().next().await.unwrap();
        assert_eq!(creation.outcome(), NotSent);
        assert!(text(&creation).contains("need a ledger"), "{creation:?}");
    }
}

#[test]
fn a_blocking_job_asks_too() {
    let (_folder, ledger) = new_ledger();
    let service = Service::answering_blocking(503, "");
    let client = blocking::Client::new(service.client()).unwrap();
    let job = || {
        client
            .agents()
            .create_many((0..5).map(row))
            .ledger(&ledger, None)
    };
    assert!(
        job()
            .into_iter()
            .all(|creation| creation.outcome() == Unknown)
    );
    let sent = service.arrived().len();
    let asked = job()
        .concurrency(2)
        .resolve(|row| match asked_number(&row) {
            1 => Ok(Resolution::Unknown),
            number => resolution(number),
        });
    let came: Vec<_> = asked.into_iter().collect();
    assert_eq!(came[0].agent_id().unwrap(), "found_0");
    assert!(
        came[1..]
            .iter()
            .all(|creation| creation.is_recorded() && creation.outcome() == Unknown)
    );
    let panicked = came[4]
        .result
        .as_ref()
        .unwrap_err()
        .source()
        .unwrap()
        .to_string();
    assert!(panicked.contains("a mistake of the program"), "{panicked}");
    assert_eq!(service.arrived().len(), sent);
}

async fn what_somebody_has_settled_can_be_undone_and_settled_again(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    run(&mut peer, &ledger, false, vec![row(0), row(1)], |_| {
        Reply::Status(503)
    })
    .await;
    let id = |creation: &Creation| creation.agent_id().map(ToString::to_string);
    for found in ["a_1", "a_2"] {
        ledger.settle([(key(0), Some(found.into()))]).unwrap();
        let (came, sent) = run(&mut peer, &ledger, false, vec![row(0)], |_| Reply::Create).await;
        assert!(sent.is_empty());
        assert_eq!(id(&came[0]).as_deref(), Some(found));
    }
    // Two rows cannot have one agent, and nobody is not an agent.
    let nobody = [
        "",
        " ",
        "-",
        "--",
        "?",
        "…",
        "0",
        "n/a",
        "N/A",
        "NA",
        "no",
        "No ",
        "none",
        "NULL",
        "not found",
        "Not Found",
        "#",
        "#N/A",
        "#REF!",
        "N / A",
        "No agent",
        "does not exist",
        "(none)",
        "'none",
        "\u{200b}none",
        "undefined",
        "unknown",
    ];
    for refused in nobody.into_iter().chain(["a_2"]) {
        let error = ledger.settle([(key(1), Some(refused.into()))]).unwrap_err();
        assert_eq!(
            (error.kind(), error.index()),
            (LedgerErrorKind::Refused, Some(0))
        );
    }
    for id in ["a_1", "00", "1", "north", "no-1", "нет", "a"] {
        assert_eq!(ledger.check_settle([(key(1), Some(id.into()))]).unwrap(), 1);
    }
    let twice = [(key(0), Some("a_3".into())), (key(1), Some("a_3".into()))];
    assert_eq!(ledger.settle(twice).unwrap_err().index(), Some(1));

    assert_eq!(ledger.unsettle([key(0)]).unwrap(), 1);
    assert_eq!(ledger.unsettle([key(0)]).unwrap(), 0);
    assert_eq!(ledger.unsettle(["nobody"]).unwrap_err().index(), Some(0));
    let recorded = ledger.look_up(None, [key(0)]).unwrap().remove(0).unwrap();
    assert_eq!(
        (recorded.outcome, recorded.status),
        (Unknown, StatusCode::from_u16(503).ok())
    );
    ledger.settle([(key(0), None)]).unwrap();
    let (_, sent) = run(&mut peer, &ledger, false, vec![row(0)], |_| Reply::Create).await;
    assert_eq!(sent, [0]);
}

fn kind<T>(result: Result<T, LedgerError>) -> LedgerErrorKind {
    result.map(drop).unwrap_err().kind()
}

#[tokio::test]
async fn what_is_no_ledger_is_refused_and_left_as_it_was() {
    let (folder, ledger) = new_ledger();
    let client = client("https://deals.example.com");
    let open = async |ledger: &Ledger| {
        let job = client.agents().create_many([row(0)]);
        job.ledger(ledger, None).open_ledger().await.map(drop)
    };
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
        fs::write(ledger.path().unwrap(), &content).unwrap();
        assert_eq!(kind(open(&ledger).await), LedgerErrorKind::NotALedger);
        assert_eq!(kind(ledger.summary()), LedgerErrorKind::NotALedger);
        assert_eq!(fs::read(ledger.path().unwrap()).unwrap(), content);
    }
    assert_eq!(
        kind(open(&Ledger::sqlite(folder.path())).await),
        LedgerErrorKind::NotALedger
    );
    // The password may be anywhere in a URL that nobody reads.
    let url = Ledger::sqlite("PostgreSQL://ada:sesame@localhost/x");
    let error = open(&url).await.unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::NotALedger);
    assert!(error.to_string().contains("Ledger::postgres"));
    assert!(!format!("{error} {error:?} {url} {url:?}").contains("sesame"));
    let missing = Ledger::sqlite(folder.path().join("none/agents.ledger"));
    assert_eq!(kind(open(&missing).await), LedgerErrorKind::Io);
    assert_eq!(missing.look_up(None, ["a"]).unwrap(), [None]);
    assert_eq!(kind(missing.summary()), LedgerErrorKind::Io);
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert_eq!(
            kind(open(&Ledger::sqlite(link)).await),
            LedgerErrorKind::NotALedger
        );
    }
    assert!(Ledger::in_folder(folder.path()).unwrap().is_empty());
}

#[test]
fn the_traces_of_a_job_that_was_killed_are_removed_by_the_next() {
    let (folder, ledger) = new_ledger();
    let (traces, others) = (
        [
            "agents.ledger-job-00000000000000aa",
            "agents.ledger-job-00000000000000ab-new",
        ],
        ["agents.ledger-job-", "other-job-00000000000000aa"],
    );
    for name in traces.iter().chain(&others) {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let client = blocking::Client::new(client("http://127.0.0.1:9")).unwrap();
    let job = client.agents().create_many([row(0)]).ledger(&ledger, None);
    drop(job.open_ledger().unwrap());
    let left = fs::read_dir(&folder).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| name != "agents.ledger" && name != "agents.ledger-journal");
    left.sort();
    assert_eq!(left, others);
}

/// A ledger with this many rows, created and in doubt in turn.
async fn filled(rows: usize) -> (TempDir, Ledger) {
    let (folder, ledger) = new_ledger();
    let mut peer = Peer::by_hand();
    let reply = |number: usize| match number % 2 {
        0 => Reply::Create,
        _ => Reply::Status(503),
    };
    run(
        &mut peer,
        &ledger,
        false,
        (0..rows).map(row).collect(),
        reply,
    )
    .await;
    (folder, ledger)
}

#[tokio::test]
async fn a_change_by_anything_else_is_noticed() {
    let (folder, whole) = filled(10).await;
    let ledger = Ledger::sqlite(folder.path().join("changed"));
    for change in [
        "UPDATE ledger SET salt = zeroblob(32)",
        "UPDATE creates SET state = 'rejected' WHERE state = 'unknown'",
        "UPDATE creates SET state = 'elsewhere' WHERE state = 'unknown'",
        "UPDATE creates SET status = NULL WHERE state = 'unknown'",
        "UPDATE creates SET agent_id = 'a_9' WHERE agent_id = 'a_0'",
        "DELETE FROM creates WHERE agent_id = 'a_0'",
        "DELETE FROM creates",
        "DROP TABLE creates",
        "UPDATE creates SET key = zeroblob(16) WHERE agent_id = 'a_0'",
        "PRAGMA journal_mode = WAL; UPDATE ledger SET sum = sum + 1",
    ] {
        fs::copy(whole.path().unwrap(), ledger.path().unwrap()).unwrap();
        let database = Connection::open(ledger.path().unwrap()).unwrap();
        database.execute_batch(change).unwrap();
        drop(database);
        assert_eq!(kind(ledger.summary()), LedgerErrorKind::Broken, "{change}");
    }
    // Damaged ones are found, too, and so are those of a later version.
    let database = Connection::open(whole.path().unwrap()).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    drop(database);
    assert_eq!(kind(whole.summary()), LedgerErrorKind::NewerFormat);
    assert_eq!(Ledger::in_folder(folder.path()).unwrap(), [whole, ledger]);
}

#[tokio::test]
async fn no_flipped_bit_and_no_missing_end_makes_a_row_be_sent() {
    const ROWS: usize = 300;
    let (folder, ledger) = filled(ROWS).await;
    // What a job would find on these rows, if it could be run.
    let found = |ledger: &Ledger| {
        ledger.summary()?;
        ledger.look_up(None, (0..ROWS).map(key))
    };
    let bytes = fs::read(ledger.path().unwrap()).unwrap();
    let expected = found(&ledger).unwrap();
    let damaged = Ledger::sqlite(folder.path().join("damaged"));
    let mut noticed = 0;
    // A prime, so that every part of a page is hit.
    for at in (0..bytes.len() * 8).step_by(1009) {
        let mut bytes = bytes.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        fs::write(damaged.path().unwrap(), bytes).unwrap();
        match found(&damaged) {
            Ok(found) => assert_eq!(found, expected, "bit {at}"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 100, "{noticed}");
    for length in (1..bytes.len()).step_by(1500) {
        fs::write(damaged.path().unwrap(), &bytes[..length]).unwrap();
        found(&damaged).unwrap_err();
    }
}

#[tokio::test]
async fn a_file_that_is_overwritten_under_a_job_stops_it() {
    for (content, expected) in [
        ("another ledger", LedgerErrorKind::Moved),
        ("another ledger of as many changes", LedgerErrorKind::Moved),
        ("an older copy", LedgerErrorKind::Moved),
        ("nothing", LedgerErrorKind::Broken),
    ] {
        let (_folder, ledger) = filled(3).await;
        let mut other = match content {
            "another ledger" | "another ledger of as many changes" => {
                fs::read(filled(3).await.1.path().unwrap()).unwrap()
            }
            "an older copy" => fs::read(ledger.path().unwrap()).unwrap(),
            _ => Vec::new(),
        };
        let mut peer = Peer::by_hand();
        ledger.move_to(peer.url.as_str()).unwrap();
        let client = client(peer.url.as_str());
        let job = client.agents().create_many((3..9).map(row));
        let mut creations = job.ledger(&ledger, None).concurrency(1).stream();
        let heard = tokio::select! {
            _ = creations.next() => panic!("nothing was answered"),
            heard = peer.next() => heard,
        };
        if content == "another ledger of as many changes" {
            // By these numbers in its header SQLite tells whether a file has changed.
            let ours = fs::read(ledger.path().unwrap()).unwrap();
            other[24..40].copy_from_slice(&ours[24..40]);
            other[92..96].copy_from_slice(&ours[92..96]);
        }
        fs::write(ledger.path().unwrap(), other).unwrap();
        heard.answer(201, FINE);
        let sent = creations.next().await.unwrap();
        assert_eq!(sent.outcome(), Succeeded);
        assert_eq!(sent.ledger_error.unwrap().kind(), expected, "{content}");
        while let Some(creation) = creations.next().await {
            let error = creation.result.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome()),
                (ErrorKind::Ledger, NotSent)
            );
            assert_eq!(error.ledger_error().unwrap().kind(), expected, "{content}");
        }
    }
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}
