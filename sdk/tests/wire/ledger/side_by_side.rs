use std::time::Duration;

use dealkit::{CallOptions, Created, Outcome::Unknown, ledger::Resolution};
use futures_util::StreamExt as _;
use tokio::time::sleep;

use super::*;

in_both! {
    two_jobs_share_a_ledger_and_each_row_is_sent_by_one_of_them
    ;
}

async fn two_jobs_share_a_ledger_and_each_row_is_sent_by_one_of_them(ledger: Ledger) {
    let mut peer = Peer::by_hand();
    let client = peer.client();
    let job = || {
        let many = client.agents().create_many(rows(40));
        many.ledger(&ledger, "address").concurrency(5).stream()
    };
    let (mut one, mut other) = (job(), job());
    let (mut sent, mut came) = (Vec::new(), Vec::new());
    // The service answers only once the other job has come to all rows that the first one has in flight.
    let mut held = peer.next_few_of(5, one.next()).await;
    while came.len() < 5 {
        tokio::select! {
            Some(creation) = other.next() => came.push(creation),
            heard = peer.next() => held.push(heard),
        }
    }
    assert!(came.iter().all(|creation| creation.result.is_err()));
    while came.len() < 80 {
        for heard in held.drain(..) {
            sent.push(number(&heard));
            heard.answer(201, FINE);
        }
        tokio::select! {
            Some(creation) = one.next() => came.push(creation),
            Some(creation) = other.next() => came.push(creation),
            heard = peer.next() => held.push(heard),
        }
    }
    sent.sort_unstable();
    assert_eq!(sent, (0..40).collect::<Vec<_>>());
    let created = |creation: &&Creation| matches!(creation.result, Ok(Created::Now(_)));
    assert_eq!(came.iter().filter(created).count(), 40);
    let errors = came
        .iter()
        .filter_map(|creation| creation.result.as_ref().err());
    let errors: Vec<_> = errors.collect();
    for error in errors {
        assert!(error.is_in_flight() && error.outcome() == Unknown);
        assert!(error.to_string().contains("being sent elsewhere right now"));
    }
    drop((one, other));
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.succeeded, summary.in_flight), (40, 0));
}

#[tokio::test]
async fn while_somebody_is_asked_no_other_job_asks_or_sends() {
    let (_folder, ledger, mut peer) = filled(2, |_| Reply::Lose).await;
    let before = ledger.summary().unwrap().in_doubt;
    let client = peer.client();
    let job = || {
        client
            .agents()
            .create_many(rows(2))
            .ledger(&ledger, "address")
    };
    let (asked, mut questions) = tokio::sync::mpsc::unbounded_channel();
    let asking = job().resolve(move |row| {
        let (answer, answered) = tokio::sync::oneshot::channel::<Resolution>();
        asked.send((row.key, answer)).unwrap();
        answered
    });
    let mut asking = asking.stream();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        tokio::select! {
            _ = asking.next() => panic!("nobody has answered"),
            Some(question) = questions.recv() => answers.push(question.1),
        }
    }
    let others: Vec<_> = job().resend_unknown().stream().collect().await;
    assert_eq!(others.len(), 2);
    let waits = || job().resend_unknown().wait_in_flight();
    let mut late = waits()
        .options(CallOptions::new().timeout(Duration::from_millis(50)))
        .stream();
    for creation in others.into_iter().chain(late.next().await) {
        assert!(creation.result.unwrap_err().is_in_flight());
    }
    let mut waiting = waits().stream();
    tokio::select! {
        _ = waiting.next() => panic!("nobody has answered"),
        () = sleep(Duration::from_millis(50)) => {}
    }
    let found = Resolution::Agent("found".into());
    answers.remove(0).send(found).unwrap();
    let (found, waited) = tokio::join!(asking.next(), waiting.next());
    for creation in [found, waited] {
        assert_eq!(creation.unwrap().agent_id().unwrap(), "found");
    }
    // A row whose question is given up is in doubt as before; a job that waited for it goes by its own rules.
    assert_eq!(outcomes(&asking.cancel().await), [(Unknown, false)]);
    let sent = peer.next_of(waiting.next()).await;
    assert_eq!(number(&sent), 1);
    assert_eq!(waiting.cancel().await[0].outcome(), Unknown);
    assert!(ledger.summary().unwrap().in_doubt[0].sent_at > before[1].sent_at);
}

#[tokio::test]
async fn a_job_waits_for_the_one_that_sends_a_row() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::by_hand();
    let client = peer.client();
    let job = || {
        client
            .agents()
            .create_many([row(0)])
            .ledger(&ledger, "address")
    };
    for is_answered in [true, false] {
        let mut sending = job().resend_unknown().stream();
        let heard = peer.next_of(sending.next()).await;
        // Nobody can say yet what has become of it.
        let error = ledger.settle([(key(0), None)]).unwrap_err();
        let told = (error.kind(), error.index());
        assert_eq!(told, (LedgerErrorKind::Refused, Some(0)));
        assert!(error.to_string().contains("a job is sending this row now"));
        let mut waiting = job().wait_in_flight().stream();
        tokio::select! {
            _ = waiting.next() => panic!("nothing was answered"),
            () = sleep(Duration::from_millis(30)) => {}
        }
        if is_answered {
            heard.answer_and_close("");
            assert_eq!(sending.next().await.unwrap().outcome(), Unknown);
            let waited = waiting.next().await.unwrap();
            assert_eq!((waited.outcome(), waited.is_recorded()), (Unknown, true));
            assert!(!waited.result.unwrap_err().is_in_flight());
        } else {
            assert_eq!(waiting.cancel().await[0].outcome(), Unknown);
        }
    }
}
