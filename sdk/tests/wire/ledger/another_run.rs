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

in_both! {
    what_is_new_or_was_not_sent_is_sent
    the_agent_of_a_response_that_cannot_be_read_is_known
    a_row_that_may_have_been_created_stays_unresolved_when_sending_it_again_fails
    two_rows_with_one_key_and_rows_without_are_refused
    ;
}

fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

async fn what_is_new_or_was_not_sent_is_sent(ledger: Ledger) {
    let mut peer = Peer::manual();
    let reply = |number| match number {
        1 => Reply::Status(422),
        2 => Reply::Lose,
        // It is not about the row, and does not stop the job.
        3 => Reply::Status(404),
        4 => Reply::Status(503),
        5 => Reply::Cut,
        _ => Reply::Create,
    };
    // The ledger counts milliseconds.
    let begun = now().trunc_subsecs(3);
    let first = (0..6).map(row).chain([broken_row(6)]).collect();
    let (came, sent) = run(&mut peer, &ledger, false, first, reply).await;
    let first_run = begun..=now();
    assert_eq!(sent, [0, 1, 2, 3, 4, 5]);
    let first = [
        Succeeded, Rejected, Unknown, Rejected, Unknown, Succeeded, NotSent,
    ];
    assert_eq!(outcomes(&came), first.map(|outcome| (outcome, false)));
    assert!(came.iter().all(|creation| creation.ledger_error.is_none()));

    // The row that broke the rules is corrected, and there is a new one.
    let (came, sent) = run(&mut peer, &ledger, false, rows(8), |_| Reply::Create).await;
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
        let Ok(Created::Already {
            agent_id, sent_at, ..
        }) = &came[recorded].result
        else {
            panic!("{:?}", came[recorded]);
        };
        assert_eq!(agent_id.as_ref().map(AgentId::as_str), id);
        assert!(first_run.contains(&sent_at.unwrap()));
        assert_eq!(came[recorded].agent_id(), agent_id.as_ref());
    }
    let error = came[1].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyAttempted);
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

    // The user has looked, and decides to resend the unresolved rows.
    for resent in [&[2, 4][..], &[]] {
        let (_, sent) = run(&mut peer, &ledger, true, rows(8), |_| Reply::Create).await;
        assert_eq!(sent, resent);
    }
}

async fn the_agent_of_a_response_that_cannot_be_read_is_known(ledger: Ledger) {
    let mut peer = Peer::manual();
    let (came, _) = run(&mut peer, &ledger, false, rows(1), |_| Reply::Unreadable).await;
    assert_eq!(outcomes(&came), [(Succeeded, false)]);
    let error = came[0].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    let (came, sent) = run(&mut peer, &ledger, false, rows(1), |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(outcomes(&came), [(Succeeded, true)]);
    assert_eq!(came[0].agent_id().unwrap(), "a_0");
}

async fn a_row_that_may_have_been_created_stays_unresolved_when_sending_it_again_fails(
    ledger: Ledger,
) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(2), |_| Reply::Lose).await;
    for (resends, row, reply, sent, is_recorded) in [
        (true, row(0), Reply::Status(422), 1, false),
        (false, row(0), Reply::Create, 0, true),
        // The same for a row that breaks the rules by now.
        (true, broken_row(1), Reply::Create, 0, false),
        (false, row(1), Reply::Create, 0, true),
    ] {
        let (came, were_sent) = run(&mut peer, &ledger, resends, vec![row], |_| reply).await;
        assert_eq!(were_sent.len(), sent);
        assert_eq!(outcomes(&came), [(Unknown, is_recorded)]);
    }
}

async fn two_rows_with_one_key_and_rows_without_are_refused(ledger: Ledger) {
    let mut peer = Peer::manual();
    let unnamed = || rows::request(2);
    let rows = vec![row(0), row(1), row(0), ("", unnamed()).into()];
    let (came, sent) = run(&mut peer, &ledger, false, rows, |_| Reply::Create).await;
    assert_eq!(sent, [0, 1]);
    assert_eq!(outcomes(&came)[2..], [(NotSent, false); 2]);
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
    for creation in [&came[3], &pushed] {
        let message = text(creation);
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
        let heard = peer.next_during(creations.next()).await;
        let summary = ledger.summary().unwrap();
        assert_eq!((summary.in_flight, summary.succeeded), (1, number));
        // Nothing can be recorded while somebody else writes.
        let other = Connection::open(ledger.path().unwrap()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // The next row waits for its place.
        let expected = ((number + 2).min(5), number);
        assert_eq!((taken.get(), handed_over.get()), expected);
        heard.answer(201, VALID_BODY);
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
