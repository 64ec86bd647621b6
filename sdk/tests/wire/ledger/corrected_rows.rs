use std::pin::pin;

use dealkit::{
    CreateStream, ErrorKind,
    Outcome::{NotSent, Rejected, Succeeded, Unknown},
    ledger::Resolution,
};

use super::*;
use crate::{
    peer::{PendingRequest, until, wait_until_idle},
    rows::named,
};

test_both_databases! {
    only_rejected_rows_whose_requests_have_changed_are_sent_again
    every_correction_of_a_row_is_sent_until_the_service_accepts_one
    two_jobs_with_the_same_correction_send_it_once
    a_job_sends_its_own_correction_once_another_one_is_rejected
    a_correction_whose_job_was_dropped_is_unresolved
    a_correction_that_breaks_the_rules_is_the_error_of_its_row
    ;
}

fn named_row(number: usize, first_name: &str) -> KeyedRow {
    (key(number), named(number, first_name)).into()
}

/// Makes a job that sends corrected rows.
fn correcting_job(
    peer: &Peer,
    ledger: &Ledger,
    rows: Vec<KeyedRow>,
) -> CreateMany<IntoIter<KeyedRow>> {
    let client = peer.client();
    let job = client.agents().create_many(rows).ledger(ledger, None);
    job.resend_corrected()
}

async fn only_rejected_rows_whose_requests_have_changed_are_sent_again(ledger: Ledger) {
    let mut peer = Peer::manual();
    let reply = |number| match number {
        0..3 => Reply::Status(422),
        3 => Reply::Lose,
        4 => Reply::Create,
        // This status says nothing about the row's content.
        5 => Reply::Status(404),
        _ => unreachable!(),
    };
    run(&mut peer, &ledger, false, rows(6), reply).await;
    // An operator has resolved the row.
    ledger.resolve([(key(2), Some("a_2".into()))]).unwrap();
    let first_name = |number| if number == 1 { "Ada" } else { "Grace" };
    let corrected = || {
        (0..6)
            .map(|number| named_row(number, first_name(number)))
            .collect()
    };
    let requests = [0, 1].map(|number| {
        let request = named(number, first_name(number));
        (key(number), request.to_json())
    });
    let found = ledger.look_up_requests(None, requests).unwrap();
    let differs = found
        .iter()
        .map(|row| row.as_ref().unwrap().request_differs);
    assert_eq!(differs.collect::<Vec<_>>(), [true, false]);

    let (results, sent) = run(&mut peer, &ledger, false, corrected(), reply).await;
    assert_eq!(sent, [5]);
    assert_eq!(outcomes(&results)[..2], [(Rejected, true); 2]);
    let job = correcting_job(&peer, &ledger, corrected());
    let (results, sent) = run_job(&mut peer, job, |_| Reply::Create).await;
    assert_eq!(sent, [0, 5]);
    let expected = [
        (Succeeded, false),
        (Rejected, true),
        (Succeeded, true),
        (Unknown, true),
        (Succeeded, true),
        (Succeeded, false),
    ];
    assert_eq!(outcomes(&results), expected);
    let error = results[1].result.as_ref().unwrap_err();
    assert_eq!(error.status().unwrap(), 422);

    // The ledger has the corrected request, and a callback is not asked about rejected rows.
    let look = async |row: dealkit::ledger::UnresolvedRow| {
        assert_eq!(row.key, key(3));
        Ok::<_, String>(Resolution::Unknown)
    };
    let job = correcting_job(&peer, &ledger, corrected()).resolve(look);
    let (results, sent) = run_job(&mut peer, job, |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(results[0].agent_id().unwrap(), "a_0");
    assert!(!results[0].request_differs());
    let summary = ledger.summary().unwrap();
    let counts = (
        summary.succeeded,
        summary.rejected,
        summary.unresolved.len(),
    );
    assert_eq!(counts, (3, 1, 1));
}

async fn every_correction_of_a_row_is_sent_until_the_service_accepts_one(ledger: Ledger) {
    let mut peer = Peer::manual();
    for (first_name, reply, is_sent, outcome) in [
        ("Ada", Reply::Status(422), true, Rejected),
        ("Ada", Reply::Create, false, Rejected),
        ("Grace", Reply::Status(409), true, Rejected),
        ("Grace", Reply::Create, false, Rejected),
        ("Jean", Reply::Create, true, Succeeded),
        ("Ada", Reply::Create, false, Succeeded),
    ] {
        let job = correcting_job(&peer, &ledger, vec![named_row(0, first_name)]);
        let (results, sent) = run_job(&mut peer, job, |_| reply).await;
        assert_eq!(sent.len(), usize::from(is_sent), "{first_name}");
        assert_eq!(outcomes(&results), [(outcome, !is_sent)]);
    }
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.succeeded, summary.rejected), (1, 0));
}

async fn two_jobs_with_the_same_correction_send_it_once(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(1), |_| Reply::Status(422)).await;
    let [mut first, mut same] = waiting_jobs(&peer, &ledger, ["Grace", "Grace"]);
    let request = peer.next_during(first.next()).await;
    let job = correcting_job(&peer, &ledger, vec![named_row(0, "Grace")]);
    let (results, sent) = run_job(&mut peer, job, |_| Reply::Create).await;
    assert!(sent.is_empty() && results[0].result.as_ref().unwrap_err().is_in_flight());

    let (first, same, ()) = tokio::join!(first.next(), same.next(), reject_when_idle(request));
    let results = [first, same].map(Option::unwrap);
    assert_eq!(outcomes(&results), [(Rejected, false), (Rejected, true)]);
    assert!(peer.try_next().is_none());
}

async fn a_job_sends_its_own_correction_once_another_one_is_rejected(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(1), |_| Reply::Status(422)).await;
    let [mut first, mut other] = waiting_jobs(&peer, &ledger, ["Grace", "Jean"]);
    let request = peer.next_during(first.next()).await;
    let mut send_other = pin!(other.next());
    let (first, request, ()) = tokio::join!(
        first.next(),
        peer.next_during(&mut send_other),
        reject_when_idle(request)
    );
    request.answer(201, VALID_BODY);
    let results = [first, send_other.await].map(Option::unwrap);
    assert_eq!(outcomes(&results), [(Rejected, false), (Succeeded, false)]);
}

/// Starts two jobs that correct the same row, and wait while the other job sends it.
fn waiting_jobs(
    peer: &Peer,
    ledger: &Ledger,
    first_names: [&str; 2],
) -> [CreateStream<IntoIter<KeyedRow>>; 2] {
    first_names.map(|first_name| {
        let job = correcting_job(peer, ledger, vec![named_row(0, first_name)]);
        job.wait_in_flight().stream()
    })
}

/// Responds with a 422 when the other jobs wait.
async fn reject_when_idle(request: PendingRequest) {
    wait_until_idle().await;
    request.answer(422, "");
}

async fn a_correction_whose_job_was_dropped_is_unresolved(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(1), |_| Reply::Status(422)).await;
    let mut creations = correcting_job(&peer, &ledger, vec![named_row(0, "Grace")]).stream();
    let _request = peer.next_during(creations.next()).await;
    assert_eq!(ledger.summary().unwrap().in_flight, 1);
    drop(creations);
    until(|| ledger.summary().unwrap().unresolved.len() == 1).await;
    for first_name in ["Grace", "Jean", "Ada"] {
        let job = correcting_job(&peer, &ledger, vec![named_row(0, first_name)]);
        let (results, sent) = run_job(&mut peer, job, |_| Reply::Create).await;
        assert!(sent.is_empty());
        assert_eq!(outcomes(&results), [(Unknown, true)]);
    }
}

async fn a_correction_that_breaks_the_rules_is_the_error_of_its_row(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(1), |_| Reply::Status(422)).await;
    let job = correcting_job(&peer, &ledger, vec![invalid_row(0)]);
    let (results, sent) = run_job(&mut peer, job, |_| Reply::Create).await;
    assert!(sent.is_empty());
    assert_eq!(outcomes(&results), [(NotSent, false)]);
    let error = results[0].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Validation);
    assert_eq!(ledger.summary().unwrap().rejected, 1);
}

#[test]
fn a_blocking_job_sends_corrected_rows_too() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(422, &[], "");
    let client = blocking::Client::new(service.client()).unwrap();
    for (first_name, requests) in [("Ada", 1), ("Ada", 1), ("Grace", 2)] {
        let rows = [named_row(0, first_name)];
        let job = client.agents().create_many(rows).ledger(&ledger, None);
        let results: Vec<_> = job.resend_corrected().into_iter().collect();
        assert_eq!(results[0].outcome(), Rejected);
        assert_eq!(service.arrived().len(), requests);
    }
}
