use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::SystemTime,
};

use dealkit::{
    CreateAgent,
    Outcome::{NotSent, Rejected, Succeeded, Unknown},
    blocking,
    chrono::{DateTime, Utc},
    ledger::{Resolution, UnresolvedRow},
};

use super::*;

test_both_databases! {
    the_next_run_uses_resolved_outcomes
    an_agent_belongs_to_one_row_and_placeholders_are_rejected
    unresolved_rows_have_their_labels
    rows_that_a_restored_ledger_does_not_know_can_be_marked
    ;
}

async fn the_next_run_uses_resolved_outcomes(ledger: Ledger) {
    let mut peer = Peer::manual();
    let reply = |number| match number {
        0 | 1 => Reply::Status(503),
        2 => Reply::Status(422),
        _ => Reply::Create,
    };
    run(&mut peer, &ledger, false, rows(4), reply).await;
    // The first was created, the second was not, and the third was corrected.
    let found = [(key(0), Some("a_0".into())), (key(1), None), (key(2), None)];
    assert_eq!(ledger.resolve_dry_run(found.clone()).unwrap(), 3);
    assert_eq!(ledger.resolve(found).unwrap(), 3);
    let (results, sent) = run(&mut peer, &ledger, false, rows(4), |_| Reply::Create).await;
    assert_eq!(sent, [1, 2]);
    let recorded = [true, false, false, true].map(|is_recorded| (Succeeded, is_recorded));
    assert_eq!(outcomes(&results), recorded);
    assert_eq!(results[0].agent_id().unwrap(), "a_0");
    // The second run has created this row, so it cannot be resolved as having no agent.
    let error = ledger.resolve([(key(1), None)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.index()),
        (LedgerErrorKind::Rejected, Some(0))
    );

    // A resolution can be corrected.
    ledger.resolve([(key(0), Some("a_9".into()))]).unwrap();
    let (results, _) = run(&mut peer, &ledger, false, rows(1), |_| Reply::Create).await;
    assert_eq!(results[0].agent_id().unwrap(), "a_9");
    let unknown = ledger.resolve([("unknown key", None)]).unwrap_err();
    assert_eq!(unknown.index(), Some(0));
}

async fn an_agent_belongs_to_one_row_and_placeholders_are_rejected(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(2), |_| Reply::Lose).await;
    ledger.resolve([(key(0), Some("a_2".into()))]).unwrap();
    let placeholders = "||-|--|?|…|0|n/a|N/A|NA|no|No |none|NULL|not found|Not Found|#|#N/A|#REF!|N / A|No agent|no agent|\
        (none)|'none|\u{200b}none|undefined|unknown| ";
    for placeholder in placeholders.split('|').chain(["a_2"]) {
        let error = ledger
            .resolve([(key(1), Some(placeholder.into()))])
            .unwrap_err();
        let rejection = (error.kind(), error.index());
        assert_eq!(
            rejection,
            (LedgerErrorKind::Rejected, Some(0)),
            "{placeholder}"
        );
    }
    for id in ["a_1", "00", "1", "north", "no-1", "нет", "a"] {
        assert_eq!(
            ledger.resolve_dry_run([(key(1), Some(id.into()))]).unwrap(),
            1
        );
    }
    let twice = [(key(0), Some("a_3".into())), (key(1), Some("a_3".into()))];
    assert_eq!(ledger.resolve(twice).unwrap_err().index(), Some(1));
    // An entry that is rejected leaves the others unchanged too.
    let found = ledger.look_up(None, [key(0)]).unwrap().remove(0);
    assert_eq!(found.unwrap().agent_id.unwrap(), "a_2");
}

async fn rows_that_a_restored_ledger_does_not_know_can_be_marked(ledger: Ledger) {
    let mut peer = Peer::manual();
    // The copy has these rows: created, resolved as having no agent, rejected, and unknown.
    let reply = |number| match number {
        0 => Reply::Create,
        2 => Reply::Status(422),
        _ => Reply::Lose,
    };
    run(&mut peer, &ledger, false, rows(4), reply).await;
    ledger.resolve([(key(1), None)]).unwrap();

    // All five were sent after the copy was made.
    assert_eq!(ledger.mark_unknown(None, (0..5).map(key)).unwrap(), 3);
    assert_eq!(ledger.mark_unknown(None, (0..5).map(key)).unwrap(), 0);
    ledger.resolve([(key(4), Some("a_4".into()))]).unwrap();
    let (results, sent) = run(&mut peer, &ledger, false, rows(6), |_| Reply::Create).await;
    assert_eq!(sent, [5]);
    let expected = [Succeeded, Unknown, Unknown, Unknown, Succeeded, Succeeded];
    let outcomes: Vec<_> = results.iter().map(|result| result.outcome()).collect();
    assert_eq!(outcomes, expected);
    assert_eq!(results[4].agent_id().unwrap(), "a_4");

    // A marked row that turns out to have no agent is sent.
    ledger.resolve([(key(1), None)]).unwrap();
    let (_, sent) = run(&mut peer, &ledger, false, rows(6), |_| Reply::Create).await;
    assert_eq!(sent, [1]);
}

/// Keys of another kind would mark rows that do not exist, and the real rows would be sent.
#[tokio::test]
async fn rows_are_marked_only_by_keys_with_the_name_of_the_ledger() {
    let (_folder, ledger) = new_ledger();
    let missing = ledger.mark_unknown("crm_id", ["a"]).unwrap_err();
    assert_eq!(missing.kind(), LedgerErrorKind::Io);
    let peer = Peer::manual();
    open(&peer.client(), &ledger, Some("crm_id")).unwrap();
    ledger.mark_unknown("crm_id", ["a"]).unwrap();
    let error = ledger.mark_unknown("email", ["a"]).unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherKeys);
    assert_eq!(ledger.summary().unwrap().unresolved.len(), 1);
}

/// The callback's result for the row with this number.
fn resolution_for(number: usize) -> Result<Resolution, String> {
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

/// Checks the row that is passed to the callback, and returns its number.
fn check_row_number(row: &UnresolvedRow) -> usize {
    let agent: CreateAgent = row.request.deserialize().unwrap();
    assert_eq!(agent.email(), row.key);
    assert!(
        row.sent_at <= DateTime::<Utc>::from(SystemTime::now())
            && !format!("{row:?}").contains('@')
    );
    (0..10).find(|number| key(*number) == row.key).unwrap()
}

#[tokio::test]
async fn an_unresolved_row_is_sent_again_only_if_the_callback_finds_no_agent() {
    let (_folder, ledger, mut peer) = make_ledger(7, |_| Reply::Lose).await;
    let sent_at = ledger.summary().unwrap().unresolved[0].sent_at;
    let client = peer.client();
    let rows_again: Vec<_> = (0..8).map(row).chain([invalid_row(8)]).collect();
    let job = client.agents().create_many(rows_again);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let job = job.ledger(&ledger, "address").resolve(move |row| {
        count.fetch_add(1, SeqCst);
        async move { resolution_for(check_row_number(&row)) }
    });
    let mut creations = job.concurrency(1).stream();
    let (mut results, mut sent) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            creation = creations.next() => match creation {
                Some(creation) => results.push(creation),
                None => break,
            },
            // The callback has found no agent, so a rejection now means that the row was rejected.
            request = peer.next() => {
                sent.push(number(&request));
                request.answer(422, "");
            }
        }
    }
    assert_eq!((asked.load(SeqCst), sent), (7, vec![1, 7]));
    let mut expected = vec![(Succeeded, true), (Rejected, false)];
    expected.extend([(Unknown, true); 5]);
    expected.extend([(Rejected, false), (NotSent, false)]);
    assert_eq!(outcomes(&results), expected);
    assert_eq!(results[0].agent_id().unwrap(), "found_0");
    for (row, why) in [
        (2, None),
        (3, Some("the search is down")),
        (4, Some("it has panicked")),
        (5, Some("a placeholder")),
        (6, Some("another row of the ledger has the agent")),
    ] {
        let error = results[row].result.as_ref().unwrap_err();
        assert_eq!(
            error.to_string().contains("was called to resolve it"),
            why.is_some()
        );
        // The error of the callback is the source; all other reasons are in the message.
        let source = error.source().map(ToString::to_string);
        assert_eq!(source.is_some(), matches!(row, 3 | 4), "{source:?}");
        let message = source.unwrap_or_else(|| error.to_string());
        assert!(message.contains(why.unwrap_or_default()), "{message}");
    }
    // The callback's answers are recorded. The rows that are still unresolved have not changed.
    let (results, sent) = run(&mut peer, &ledger, false, rows(7), |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(results[0].agent_id().unwrap(), "found_0");
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.unresolved.len(), summary.resolved_with_agent),
        (5, 1)
    );
    assert_eq!(summary.rejected, 2);
    assert!(summary.unresolved.iter().all(|row| row.sent_at >= sent_at));
}

#[test]
fn a_blocking_job_calls_the_callback_too() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(503, &[], "");
    let client = blocking::Client::new(service.client()).unwrap();
    let job = || client.agents().create_many(rows(5)).ledger(&ledger, None);
    assert!(
        job()
            .into_iter()
            .all(|creation| creation.outcome() == Unknown)
    );
    let asked = job()
        .concurrency(2)
        .resolve(|row| match check_row_number(&row) {
            1 => Ok(Resolution::Unknown),
            number => resolution_for(number),
        });
    let results: Vec<_> = asked.into_iter().collect();
    assert_eq!(results[0].agent_id().unwrap(), "found_0");
    assert_eq!(outcomes(&results)[1..], [(Unknown, true); 4]);
    let panicked = results[4].result.as_ref().unwrap_err().source().unwrap();
    let panicked = panicked.to_string();
    assert!(panicked.contains("a mistake of the program"), "{panicked}");
    assert_eq!(service.arrived().len(), 5);
}

#[tokio::test]
async fn options_that_need_a_ledger_send_nothing_without_one() {
    let client = client("http://127.0.0.1:9");
    let job = || client.agents().create_many([row(0)]);
    let look = async |_| Ok::<_, String>(Resolution::NoAgent);
    for job in [
        job().resend_unknown(),
        job().resend_corrected(),
        job().wait_in_flight(),
        job().resolve(look),
    ] {
        let creation = job.stream().next().await.unwrap();
        assert_eq!(creation.outcome(), NotSent);
        assert!(
            error_message(&creation).contains("need a ledger"),
            "{creation:?}"
        );
    }
}

async fn unresolved_rows_have_their_labels(ledger: Ledger) {
    let mut peer = Peer::manual();
    let client = peer.client();
    // The second row has a label of its own, the third has none, and the fourth one that is too long.
    let rows = [row(0), row(1).label("mine"), row(2), row(3)];
    let labels = [Some("crm-0".to_owned()), None, None, Some("x".repeat(257))];
    let mut next_label = labels.into_iter();
    let job = client.agents().create_many(rows);
    let job = job.label(move |_| next_label.next().flatten());
    let mut creations = job.ledger(&ledger, None).concurrency(1).stream();
    let mut results = Vec::new();
    loop {
        tokio::select! {
            creation = creations.next() => match creation {
                Some(creation) => results.push(creation.outcome()),
                None => break,
            },
            request = peer.next() => request.answer(503, ""),
        }
    }
    assert_eq!(results, [Unknown, Unknown, Unknown, NotSent]);
    let unresolved = ledger.summary().unwrap().unresolved;
    let labels: Vec<_> = unresolved.iter().map(|row| row.label.as_deref()).collect();
    assert_eq!(labels, [Some("crm-0"), Some("mine"), None]);
    // Each hash is one line.
    let debug = format!("{:#?}", unresolved[0]);
    let is_hash = |line: &&str| line.len() == 32 && line.chars().all(|c| c.is_ascii_hexdigit());
    let values = debug.lines().map(|line| line.trim().trim_end_matches(','));
    assert_eq!(values.clone().filter(is_hash).count(), 1, "{debug}");
    assert!(
        !values.clone().any(|value| value.parse::<u8>().is_ok()),
        "{debug}"
    );

    // A pair of a key and a request has its label from the function, too, and the next run resolves the rows by their labels.
    let pairs = (0..3).map(|number| (key(number), rows::request(number)));
    let job = client.agents().create_many(pairs).ledger(&ledger, None);
    let job = job.label(|(key, _)| Some(format!("label of {key}")));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let labels = Arc::clone(&seen);
    let job = job.resolve(move |row: UnresolvedRow| {
        labels.lock().unwrap().push(row.label);
        std::future::ready(Ok::<_, std::convert::Infallible>(Resolution::Unknown))
    });
    let mut creations = job.concurrency(1).stream();
    for row in &unresolved {
        let creation = creations.next().await.unwrap();
        assert_eq!(creation.outcome(), Unknown);
        let sent_at = row.sent_at.unwrap().format("%Y-%m-%dT%H:%M:%SZ");
        let label = row.label.as_deref();
        let label = label.map_or_else(String::new, |label| format!("; label {label}"));
        let message = format!(
            "POST /v1/agents: it was sent earlier, and its outcome is unknown (503 Service Unavailable; sent at \
             {sent_at}{label}); nothing was sent now. "
        );
        let error = error_message(&creation);
        assert!(error.starts_with(&message), "{error}");
    }
    assert!(creations.next().await.is_none());
    // The ledger has the labels with which the rows were sent.
    let mut labels = seen.lock().unwrap().clone();
    labels.sort();
    assert_eq!(labels, [None, Some("crm-0".into()), Some("mine".into())]);
}
