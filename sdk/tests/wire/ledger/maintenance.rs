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

in_both! {
    what_was_looked_up_is_resolved_and_the_next_run_goes_by_that
    two_rows_cannot_have_one_agent_and_nobody_is_none
    ;
}

async fn what_was_looked_up_is_resolved_and_the_next_run_goes_by_that(ledger: Ledger) {
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
    let (came, sent) = run(&mut peer, &ledger, false, rows(4), |_| Reply::Create).await;
    assert_eq!(sent, [1, 2]);
    let recorded = [true, false, false, true].map(|is_recorded| (Succeeded, is_recorded));
    assert_eq!(outcomes(&came), recorded);
    assert_eq!(came[0].agent_id().unwrap(), "a_0");
    // It has been created in the meantime.
    let error = ledger.resolve([(key(1), None)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.index()),
        (LedgerErrorKind::Refused, Some(0))
    );

    // It can be corrected.
    ledger.resolve([(key(0), Some("a_9".into()))]).unwrap();
    let (came, _) = run(&mut peer, &ledger, false, rows(1), |_| Reply::Create).await;
    assert_eq!(came[0].agent_id().unwrap(), "a_9");
    let unknown = ledger.resolve([("nobody", None)]).unwrap_err();
    assert_eq!(unknown.index(), Some(0));
}

async fn two_rows_cannot_have_one_agent_and_nobody_is_none(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(2), |_| Reply::Lose).await;
    ledger.resolve([(key(0), Some("a_2".into()))]).unwrap();
    let nobody = "||-|--|?|…|0|n/a|N/A|NA|no|No |none|NULL|not found|Not Found|#|#N/A|#REF!|N / A|No agent|no agent|\
        (none)|'none|\u{200b}none|undefined|unknown| ";
    for refused in nobody.split('|').chain(["a_2"]) {
        let error = ledger
            .resolve([(key(1), Some(refused.into()))])
            .unwrap_err();
        let told = (error.kind(), error.index());
        assert_eq!(told, (LedgerErrorKind::Refused, Some(0)), "{refused}");
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
fn asked_number(row: &UnresolvedRow) -> usize {
    let agent: CreateAgent = row.request.deserialize().unwrap();
    assert_eq!(agent.email(), row.key);
    assert!(
        row.sent_at <= DateTime::<Utc>::from(SystemTime::now())
            && !format!("{row:?}").contains('@')
    );
    (0..10).find(|number| key(*number) == row.key).unwrap()
}

#[tokio::test]
async fn an_unresolved_row_is_sent_again_only_if_somebody_has_looked_and_there_is_no_agent() {
    let (_folder, ledger, mut peer) = filled(7, |_| Reply::Lose).await;
    let sent_at = ledger.summary().unwrap().unresolved[0].sent_at;
    let client = peer.client();
    let rows_again: Vec<_> = (0..8).map(row).chain([broken_row(8)]).collect();
    let job = client.agents().create_many(rows_again);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let job = job.ledger(&ledger, "address").resolve(move |row| {
        count.fetch_add(1, SeqCst);
        async move { resolution(asked_number(&row)) }
    });
    let mut creations = job.concurrency(1).stream();
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
    for (row, why) in [
        (2, None),
        (3, Some("the search is down")),
        (4, Some("it has panicked")),
        (5, Some("a placeholder")),
        (6, Some("another row of the ledger has the agent")),
    ] {
        let error = came[row].result.as_ref().unwrap_err();
        assert_eq!(
            error.to_string().contains("was called to resolve it"),
            why.is_some()
        );
        // Only the error of the program's own function is not in the text.
        let source = error.source().map(ToString::to_string);
        assert_eq!(source.is_some(), matches!(row, 3 | 4), "{source:?}");
        let said = source.unwrap_or_else(|| error.to_string());
        assert!(said.contains(why.unwrap_or_default()), "{said}");
    }
    // Who looked is believed from now on, and can be corrected; what is still unresolved is as it was.
    let (came, sent) = run(&mut peer, &ledger, false, rows(7), |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(came[0].agent_id().unwrap(), "found_0");
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.unresolved.len(), summary.resolved_with_agent),
        (5, 1)
    );
    assert_eq!(summary.rejected, 2);
    assert!(summary.unresolved.iter().all(|row| row.sent_at >= sent_at));
}

#[test]
fn a_blocking_job_asks_too() {
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
        .resolve(|row| match asked_number(&row) {
            1 => Ok(Resolution::Unknown),
            number => resolution(number),
        });
    let came: Vec<_> = asked.into_iter().collect();
    assert_eq!(came[0].agent_id().unwrap(), "found_0");
    assert_eq!(outcomes(&came)[1..], [(Unknown, true); 4]);
    let panicked = came[4].result.as_ref().unwrap_err().source().unwrap();
    let panicked = panicked.to_string();
    assert!(panicked.contains("a mistake of the program"), "{panicked}");
    assert_eq!(service.arrived().len(), 5);
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
