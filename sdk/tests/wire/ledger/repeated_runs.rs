use std::{
    cell::Cell,
    time::{Duration, SystemTime},
};

use dealkit::{
    AgentId, Created, ErrorKind,
    Outcome::{NotSent, Rejected, Succeeded, Unknown},
    chrono::{DateTime, SubsecRound as _, Utc},
};
use rusqlite::Connection;

use super::*;

test_both_databases! {
    new_rows_and_unsent_rows_are_sent
    the_agent_of_an_unreadable_response_is_recorded
    a_row_that_may_have_been_created_stays_unresolved_when_sending_it_again_fails
    duplicate_and_missing_keys_are_rejected
    a_rejected_service_key_stops_every_row_that_was_taken
    ;
}

fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

async fn new_rows_and_unsent_rows_are_sent(ledger: Ledger) {
    let mut peer = Peer::manual();
    let reply = |number| match number {
        1 => Reply::Status(422),
        2 => Reply::Lose,
        // This status says nothing about the row, and does not stop the job.
        3 => Reply::Status(404),
        4 => Reply::Status(503),
        5 => Reply::Cut,
        _ => Reply::Create,
    };
    // The ledger stores times in milliseconds.
    let begun = now().trunc_subsecs(3);
    let first = (0..6).map(row).chain([invalid_row(6)]).collect();
    let (results, sent) = run(&mut peer, &ledger, false, first, reply).await;
    let first_run = begun..=now();
    assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
    let first = [
        Succeeded, Rejected, Unknown, Rejected, Unknown, Succeeded, NotSent,
    ];
    assert_eq!(outcomes(&results), first.map(|outcome| (outcome, false)));
    assert!(
        results
            .iter()
            .all(|creation| creation.ledger_error.is_none())
    );

    // The invalid row is corrected, and there is a new row.
    let (results, sent) = run(&mut peer, &ledger, false, rows(8), |_| Reply::Create).await;
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
    assert_eq!(outcomes(&results), second);
    for (recorded, id) in [(0, Some("a_0")), (5, None)] {
        let Ok(Created::Already {
            agent_id, sent_at, ..
        }) = &results[recorded].result
        else {
            panic!("{:?}", results[recorded]);
        };
        assert_eq!(agent_id.as_ref().map(AgentId::as_str), id);
        assert!(first_run.contains(&sent_at.unwrap()));
        assert_eq!(results[recorded].agent_id(), agent_id.as_ref());
    }
    let error = results[1].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyAttempted);
    assert_eq!(error.status().unwrap(), 422);
    assert_eq!(
        error_message(&results[1]),
        "POST /v1/agents: the service rejected it earlier (422 Unprocessable Entity); nothing was sent now"
    );
    assert!(error_message(&results[4]).contains("(503 Service Unavailable; sent at "));
    for (index, creation) in results.iter().enumerate() {
        assert_eq!(
            (creation.index, creation.key.clone()),
            (index, Some(key(index)))
        );
        assert!(!format!("{creation:?}").contains("example.com"));
    }

    // The user decides to resend the unresolved rows.
    for resent in [&[2, 4][..], &[]] {
        let (_, sent) = run(&mut peer, &ledger, true, rows(8), |_| Reply::Create).await;
        assert_eq!(sent, resent);
    }
}

async fn the_agent_of_an_unreadable_response_is_recorded(ledger: Ledger) {
    let mut peer = Peer::manual();
    let (results, _) = run(&mut peer, &ledger, false, rows(1), |_| Reply::Unreadable).await;
    assert_eq!(outcomes(&results), [(Succeeded, false)]);
    let error = results[0].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    let (results, sent) = run(&mut peer, &ledger, false, rows(1), |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(outcomes(&results), [(Succeeded, true)]);
    assert_eq!(results[0].agent_id().unwrap(), "a_0");
}

async fn a_rejected_service_key_stops_every_row_that_was_taken(ledger: Ledger) {
    let mut peer = Peer::manual();
    let reject = |_| Reply::Status(401);
    let (results, sent) = run(&mut peer, &ledger, false, rows(20), reject).await;
    let indexes: Vec<_> = results.iter().map(|creation| creation.index).collect();
    assert!(indexes.iter().copied().eq(0..results.len()), "{indexes:?}");
    assert!(results.len() < 20, "rows were taken after the rejection");
    let stopped = results.iter().skip(sent.len());
    let kinds: Vec<_> = stopped
        .map(|creation| creation.result.as_ref().unwrap_err().kind())
        .collect();
    // A job with a ledger has taken more rows than are in flight.
    assert!(kinds.len() > 1, "{kinds:?}");
    assert!(
        kinds.iter().all(|kind| *kind == ErrorKind::Stopped),
        "{kinds:?}"
    );
}

async fn a_row_that_may_have_been_created_stays_unresolved_when_sending_it_again_fails(
    ledger: Ledger,
) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(2), |_| Reply::Lose).await;
    for (resends, row, reply, sent, is_recorded) in [
        (true, row(0), Reply::Status(422), 1, false),
        (false, row(0), Reply::Create, 0, true),
        // A row whose request has become invalid stays unresolved, too.
        (true, invalid_row(1), Reply::Create, 0, false),
        (false, row(1), Reply::Create, 0, true),
    ] {
        let (results, were_sent) = run(&mut peer, &ledger, resends, vec![row], |_| reply).await;
        assert_eq!(were_sent.len(), sent);
        assert_eq!(outcomes(&results), [(Unknown, is_recorded)]);
    }
}

async fn duplicate_and_missing_keys_are_rejected(ledger: Ledger) {
    let mut peer = Peer::manual();
    let unnamed = || rows::request(2);
    let rows = vec![row(0), row(1), row(0), ("", unnamed()).into()];
    let (results, sent) = run(&mut peer, &ledger, false, rows, |_| Reply::Create).await;
    assert_eq!(sent, [0, 1]);
    assert_eq!(outcomes(&results)[2..], [(NotSent, false); 2]);
    let error = results[2].result.as_ref().unwrap_err();
    assert_eq!(
        (error.kind(), error.first_index()),
        (ErrorKind::DuplicateKey, Some(0))
    );
    assert_eq!(
        error_message(&results[2]),
        "POST /v1/agents: not sent: the row at index 0 in this job has the same key; with a ledger, each row needs a \
         key of its own"
    );
    // The rows of an iterator have keys; a row that is pushed may have none.
    let none = std::iter::empty::<KeyedRow>();
    let job = peer
        .client()
        .agents()
        .create_many(none)
        .ledger(&ledger, None);
    let (_, mut in_flight) = job.into_parts();
    in_flight.push(unnamed());
    let pushed = in_flight.next().await.unwrap();
    for creation in [&results[3], &pushed] {
        let message = error_message(creation);
        assert!(message.contains("key is missing or empty"), "{message}");
    }
}

#[tokio::test]
async fn a_claim_and_an_outcome_are_recorded_in_time_and_the_next_row_is_taken_meanwhile() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    let (taken, handed_over) = (Cell::new(0), Cell::new(0));
    let rows = (0..5).map(|number| {
        taken.set(taken.get() + 1);
        assert!(taken.get() <= handed_over.get() + 2);
        row(number)
    });
    let job = client.agents().create_many(rows).ledger(&ledger, None);
    let mut creations = job.concurrency(1).stream();
    for number in 0..5 {
        let request = peer.next_during(creations.next()).await;
        let summary = ledger.summary().unwrap();
        assert_eq!((summary.in_flight, summary.succeeded), (1, number));
        // Nothing can be recorded while another program writes.
        let other = Connection::open(ledger.path().unwrap()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // The next row is taken, and waits until it is admitted.
        let expected = ((number + 2).min(5), number);
        assert_eq!((taken.get(), handed_over.get()), expected);
        request.answer(201, VALID_BODY);
        tokio::select! {
            _ = creations.next() => panic!("nothing was recorded"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
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
