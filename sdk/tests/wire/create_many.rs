//! Jobs that create many agents: every row is returned once, however its call ends and wherever the job is interrupted.
#![cfg(feature = "blocking")]

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use dealkit::{
    AgentProfile, CallOptions, CreateAgent, Creation, Error, ErrorKind, Json, Outcome, RetryPolicy,
    ValidationError, blocking,
};
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;

use crate::{
    peer::{
        Blackhole, Http1, Peer, PendingRequest, Requests, Step, VALID_BODY, assert_pending,
        builder, client, runtime, unreachable_url, until, wait_until_idle,
    },
    rows::{self, broken, number, request as row},
};

fn rows(range: std::ops::Range<usize>) -> Vec<CreateAgent> {
    range.map(row).collect()
}

fn agent(number: usize) -> String {
    VALID_BODY.replace("x_1", &format!("a_{number}"))
}

fn create(heard: PendingRequest) {
    let agent = agent(number(&heard));
    heard.answer(201, &agent);
}

/// Receives the next `count` requests, and returns them in the order of the rows.
async fn hear(requests: &mut Requests, count: usize) -> Vec<PendingRequest> {
    let mut heard = Vec::new();
    for _ in 0..count {
        heard.push(requests.next().await);
    }
    heard.sort_by_key(number);
    heard
}

fn outcomes(creations: &[Creation]) -> Vec<(usize, Outcome)> {
    let outcomes = creations.iter();
    outcomes
        .map(|creation| (creation.index, creation.outcome()))
        .collect()
}

/// Returns the identifiers of the created agents. Every creation must have succeeded.
fn ids(creations: Vec<Creation>) -> Vec<String> {
    let agents = creations.into_iter().map(|creation| creation.result);
    agents
        .map(|created| created.unwrap().now().unwrap().id.to_string())
        .collect()
}

#[test]
fn a_row_with_a_key_is_not_sent_without_a_ledger() {
    let service = Peer::answering(201, &[], VALID_BODY);
    let blocking_client = blocking::Client::new(service.client()).unwrap();
    let rows = || -> [dealkit::CreateRow; 3] {
        let broken = ("c", broken(2)).into();
        [("a", row(0)).into(), row(1).into(), broken]
    };
    let job = service.client().agents().create_many(rows());
    let streamed: Vec<Creation> = runtime().block_on(job.stream().collect());
    let job = blocking_client.agents().create_many(rows());
    let iterated: Vec<Creation> = job.into_iter().collect();
    for creations in [streamed, iterated] {
        use Outcome::{NotSent, Succeeded};
        let expected = [(0, NotSent), (1, Succeeded), (2, NotSent)];
        assert_eq!(outcomes(&creations), expected);
        for (index, key) in [(0, "a"), (2, "c")] {
            let error = creations[index].result.as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let message = "POST /v1/agents: not sent: this row has an idempotency key, but the job has no ledger: ";
            assert!(error.to_string().starts_with(message), "{error}");
            assert_eq!(creations[index].key.as_deref(), Some(key));
        }
    }
    assert_eq!(service.arrived().len(), 2);
}

#[tokio::test]
async fn a_failed_row_is_one_item_and_an_invalid_row_is_not_sent() {
    let mut peer = Peer::manual();
    let client = peer.client();
    let built: Result<CreateAgent, ValidationError> = CreateAgent::builder()
        .email("CANARY")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build();
    let unchecked = Json::parse(r#"{"email":"row4@example.com"}"#).unwrap();
    for unordered in [false, true] {
        let rows: Vec<Result<dealkit::CreateRow, Error>> = vec![
            Ok(row(0).into()),
            Ok(built.clone().into()),
            Ok(row(2).into()),
            Ok(broken(3)),
            Ok(unchecked.clone().into()), // It is sent as it is.
            Ok(row(5).into()),
            Ok(row(6).into()),
            Ok(rows::unchecked(7).into()), // So is this, as by `create`.
        ];
        let mut many = client.agents().create_many(rows).concurrency(3);
        if unordered {
            many = many.unordered();
        }
        let creations = many.stream();
        let serve = async {
            loop {
                let heard = peer.next().await;
                match number(&heard) {
                    2 => heard.answer(422, r#"{"errors":[{"pointer":"/email","code":"taken"}]}"#),
                    5 => drop(heard),
                    6 => heard.answer(201, "[]"),
                    _ => create(heard),
                }
            }
        };
        let read = creations.collect::<Vec<_>>();
        let mut completed = tokio::select! {
            completed = read => completed,
            () = serve => unreachable!("it serves for ever"),
        };
        completed.sort_by_key(|creation| creation.index);
        use Outcome::{NotSent, Rejected, Succeeded, Unknown};
        let expected = [
            Succeeded, NotSent, Rejected, NotSent, Succeeded, Unknown, Succeeded, Succeeded,
        ];
        assert_eq!(
            outcomes(&completed),
            Vec::from_iter(expected.into_iter().enumerate())
        );
        let broken = completed[3].result.as_ref().unwrap_err();
        assert_eq!(broken.violations().len(), 1);
        assert!(
            broken.to_string().starts_with("POST /v1/agents: "),
            "{broken}"
        );
        assert!(!format!("{completed:?}").contains("CANARY"));
        assert!(!format!("{completed:?}").contains("Lovelace"));
    }
}

#[tokio::test]
async fn a_401_or_403_stops_the_job_and_the_first_row_not_sent_reports_it() {
    use Outcome::{NotSent, Rejected, Succeeded};
    for (status, unordered) in [(401, false), (401, true), (403, false), (403, true)] {
        let mut peer = Peer::in_memory();
        let client = peer.client();
        let taken = Cell::new(0);
        let many = (0..6).map(|number| {
            taken.set(number + 1);
            row(number)
        });
        let mut many = client.agents().create_many(many).concurrency(3);
        if unordered {
            many = many.unordered();
        }
        let creations = many.stream();
        // All three rows are in flight when the second one is rejected, and the other two complete.
        let serve = async {
            let mut held = hear(&mut peer, 3).await;
            held.remove(1).answer(status, "");
            wait_until_idle().await;
            held.into_iter().for_each(create);
            wait_until_idle().await;
        };
        let read = creations.collect::<Vec<_>>();
        let ((), mut completed) = tokio::join!(serve, read);
        completed.sort_by_key(|creation| creation.index);
        let expected = [(0, Succeeded), (1, Rejected), (2, Succeeded), (3, NotSent)];
        assert_eq!(outcomes(&completed), expected);
        assert_eq!(taken.get(), 4, "it takes no row that it does not hand over");
        let error = completed.pop().unwrap().result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stopped);
        assert_eq!((error.first_index(), error.attempts()), (Some(1), 0));
        assert_eq!(error.status().unwrap().as_u16(), status);
        assert!(!error.is_authentication() && !error.may_have_acted());
        assert!(peer.try_next().is_none(), "more was sent");
    }
}

/// A service that is down stops no job: each row is tried.
#[tokio::test]
async fn without_a_connection_every_row_is_taken_and_not_sent() {
    let client = builder(&unreachable_url()).retry(RetryPolicy::never());
    let job = client.build().unwrap().agents().create_many(rows(0..3));
    let completed = job.concurrency(1).stream().collect::<Vec<_>>().await;
    assert_eq!(
        outcomes(&completed),
        [0, 1, 2].map(|index| (index, Outcome::NotSent))
    );
    for creation in completed {
        let error = creation.result.unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::Connect, 1));
    }
}

#[tokio::test]
async fn cancelling_returns_every_row_with_its_known_outcome() {
    let mut peer = Peer::in_memory();
    let client = peer.client();
    let mut creations = client
        .agents()
        .create_many(rows(0..9))
        .concurrency(5)
        .stream();
    // Dropping the future of `next` loses no result.
    let mut held = peer.next_many_during(5, creations.next()).await;
    held.sort_by_key(number);
    let mut held = held.into_iter();
    let slow = held.next().unwrap();
    create(held.next().unwrap());
    // This response arrives before the responses to earlier rows.
    assert_pending(creations.next()).await;
    // These responses arrive while the stream is not read.
    create(held.next().unwrap());
    held.next().unwrap().answer(422, "");
    held.next()
        .unwrap()
        .answer_and_close("HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{");
    wait_until_idle().await;
    let left = creations.cancel().await;
    use Outcome::{Rejected, Succeeded, Unknown};
    let expected = [
        (0, Unknown),
        (1, Succeeded),
        (2, Succeeded),
        (3, Rejected),
        (4, Succeeded),
    ];
    assert_eq!(outcomes(&left), expected);
    let [unknown, early, completed, rejected, cut]: [Creation; 5] = left.try_into().unwrap();
    let unknown = unknown.result.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Cancelled);
    assert_eq!(unknown.attempts(), 1);
    assert_eq!(
        unknown.to_string(),
        "POST /v1/agents: cancelled after it was sent, before the whole response had arrived; the agent may exist"
    );
    assert_eq!(ids(vec![early, completed]), ["a_1", "a_2"]);
    assert!(rejected.result.unwrap_err().is_unprocessable_entity());
    assert!(cut.result.is_err());
    slow.wait_until_closed().await;
    wait_until_idle().await;
    assert!(peer.try_next().is_none(), "more was sent");
}

#[tokio::test]
async fn a_201_whose_body_is_incomplete_is_a_success() {
    let peer = Peer::start(
        Http1,
        vec![vec![
            Step::ReadRequest,
            Step::Head(201, vec![("Content-Length", "500".to_owned())]),
            Step::Silence,
        ]],
    );
    let client = peer.client();
    let mut creations = client.agents().create_many(rows(0..1)).stream();
    let mut requests = 0;
    let error = loop {
        // The service has received the request, and may have sent the head of the response.
        tokio::select! {
            _ = creations.next() => panic!("nothing was answered"),
            () = until(|| peer.counts().requests > requests) => requests += 1,
        }
        assert_pending(creations.next()).await;
        // If the head has not arrived yet, the outcome is unknown, but never that there is no agent.
        let left = creations.cancel().await;
        assert!(left[0].outcome().may_have_acted());
        if left[0].outcome() == Outcome::Succeeded {
            break left.into_iter().next().unwrap().result.unwrap_err();
        }
        assert!(requests < 1_000, "the head never arrives in time");
        creations = client.agents().create_many(rows(0..1)).stream();
    };
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(error.to_string().ends_with(
        "cancelled after it succeeded, while the response was arriving; the agent exists"
    ));
}

#[tokio::test]
async fn cancelled_rows_that_were_not_sent_have_that_outcome() {
    // The row is waiting for a connection.
    let blackhole = Blackhole::start().await;
    let connecting = client(blackhole.url.as_str());
    let mut creations = connecting.agents().create_many(rows(0..2)).stream();
    assert_pending(creations.next()).await;
    let left = creations.cancel().await;
    assert_eq!(
        outcomes(&left),
        [(0, Outcome::NotSent), (1, Outcome::NotSent)]
    );
    let error = left.into_iter().next().unwrap().result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "POST /v1/agents: cancelled before it was sent"
    );
    assert_eq!(error.attempts(), 1);

    // The row is waiting to be sent again. For rows that wait for their admission, see `ledger::given_up`.
    let mut peer = Peer::in_memory();
    let waits = CallOptions::new().timeout(Duration::from_secs(100_000));
    let patient = peer.builder().build().unwrap();
    let mut creations = patient
        .agents()
        .create_many(rows(0..1))
        .options(waits)
        .stream();
    tokio::select! {
        _ = creations.next() => panic!("it is asked to wait"),
        () = async {
            let asks = [("retry-after", "50".to_owned())];
            peer.next().await.try_answer(429, &asks, "");
            wait_until_idle().await;
        } => {}
    }
    let left = creations.cancel().await;
    assert_eq!(outcomes(&left), [(0, Outcome::Rejected)]);
    let error = left.into_iter().next().unwrap().result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "POST /v1/agents: cancelled before it was sent again"
    );

    // The rows were never polled.
    let (rows, mut in_flight) = patient.agents().create_many(rows(0..2)).into_parts();
    rows.for_each(|row| in_flight.push(row));
    assert_eq!(in_flight.len(), 2);
    assert_eq!(
        outcomes(&in_flight.cancel().await),
        [(0, Outcome::NotSent), (1, Outcome::NotSent)]
    );
    assert!(in_flight.is_empty() && in_flight.cancel().await.is_empty());
    // The stream continues with the next index.
    in_flight.push(broken(3));
    assert_eq!(in_flight.next().await.unwrap().index, 2);
    assert!(peer.try_next().is_none());
}

#[test]
fn a_stream_is_cancelled_after_the_end_of_its_runtime() {
    let first = runtime();
    let (creations, held) = first.block_on(async {
        let mut peer = Peer::manual();
        let client = peer.client();
        let mut creations = client.agents().create_many(rows(0..2)).stream();
        let held = peer.next_many_during(2, creations.next()).await;
        (creations, held)
    });
    drop(first);
    let left = creations.cancel().now_or_never().unwrap();
    assert_eq!(
        outcomes(&left),
        [(0, Outcome::Unknown), (1, Outcome::Unknown)]
    );
    drop(held);
}

#[test]
fn the_blocking_iterator_returns_every_row_when_it_is_cancelled() {
    let client = |peer: &Peer| blocking::Client::new(peer.client()).unwrap();
    let fine = || {
        vec![
            Step::ReadRequest,
            Step::Answer(201, Vec::new(), VALID_BODY.into()),
        ]
    };
    let silent = vec![Step::ReadRequest, Step::Silence];
    let peer = Peer::start(Http1, vec![fine()]);
    let many = client(&peer).agents().create_many((0..).map(row));
    let mut creations = many.concurrency(1).into_iter();
    assert_eq!(creations.next().unwrap().outcome(), Outcome::Succeeded);
    creations.stop();
    assert!(creations.next().is_none());
    assert!(creations.cancel().is_empty());

    let peer = Peer::start(Http1, vec![fine(), silent]);
    let many = client(&peer).agents().create_many(rows(0..2));
    let mut creations = many.unordered().concurrency(2).into_iter();
    let first = creations.next().unwrap();
    let left = creations.cancel();
    let indexes = BTreeSet::from([first.index, left[0].index]);
    assert_eq!((left.len(), indexes), (1, BTreeSet::from([0, 1])));
    // The row may not have been sent yet.
    assert_ne!(left[0].outcome(), Outcome::Succeeded);
    let error = left[0].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// A handle stops the job, which leaves no outcome unknown, and then cancels it, while the task reads the stream.
#[tokio::test]
async fn a_handle_stops_and_cancels_a_stream() {
    let mut peer = Peer::manual();
    let client = peer.client();
    let many = client.agents().create_many((0..).map(row));
    let mut creations = many.concurrency(2).stream();
    let handle = creations.cancel_handle();
    let reading = tokio::spawn(async move {
        let mut read = Vec::new();
        while let Some(creation) = creations.next().await {
            read.push(creation);
        }
        read
    });
    let mut heard = hear(&mut peer, 2).await;
    assert!(!handle.is_stopped());
    handle.stop();
    assert!(handle.is_stopped());
    create(heard.remove(0));
    until(|| peer.counts().answered == 1).await;
    assert!(!reading.is_finished());
    handle.cancel();
    let read = reading.await.unwrap();
    assert_eq!(
        outcomes(&read),
        [(0, Outcome::Succeeded), (1, Outcome::Unknown)]
    );
    let error = read[1].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(peer.counts().requests, 2);

    // Before the first row is taken, and after the end.
    let mut creations = client.agents().create_many(rows(0..2)).stream();
    let handle = creations.cancel_handle();
    handle.cancel();
    assert!(creations.next().await.is_none() && creations.next().await.is_none());
    handle.cancel();
    assert!(creations.cancel().await.is_empty());
}

/// A stopped job completes the rows in flight, and then ends.
#[tokio::test]
async fn a_stopped_stream_completes_the_rows_in_flight() {
    let mut peer = Peer::manual();
    let many = peer.client().agents().create_many((0..).map(row));
    let creations = many.concurrency(2).stream();
    let handle = creations.cancel_handle();
    let reading = tokio::spawn(creations.collect::<Vec<_>>());
    let heard = hear(&mut peer, 2).await;
    handle.stop();
    heard.into_iter().for_each(create);
    assert_eq!(ids(reading.await.unwrap()), ["a_0", "a_1"]);
}

/// A deal that had arrived is returned, and the others are not.
#[tokio::test]
async fn a_handle_cancels_a_stream_of_deals() {
    let mut peer = Peer::manual();
    let many = peer.client().deals().retrieve_many(["d_1", "d_2"]);
    let mut deals = many.stream();
    let handle = deals.cancel_handle();
    let reading = tokio::spawn(async move {
        let mut read = Vec::new();
        while let Some(item) = deals.next().await {
            read.push(item.id);
        }
        read
    });
    let held = [peer.next().await, peer.next().await];
    handle.cancel();
    assert!(reading.await.unwrap().is_empty());
    drop(held);
}
