//! Jobs that retrieve many deals: the order of results, the number of calls in flight, and failed calls.

use std::collections::VecDeque;

use dealkit::{ErrorKind, Outcome};
use futures_util::StreamExt as _;

use crate::peer::{Peer, PendingRequest, wait_until_idle};

fn ids(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("d_{number}")).collect()
}

#[tokio::test]
async fn deals_are_returned_in_the_order_of_the_identifiers() {
    let mut peer = Peer::in_memory();
    let client = peer.client();
    let mut deals = client
        .deals()
        .retrieve_many(ids(0..6))
        .concurrency(6)
        .stream();
    let serve = async {
        let mut heard = Vec::new();
        for _ in 0..6 {
            heard.push(peer.next().await);
        }
        // The service responds to the last request first.
        heard.sort_by(|one, other| other.segment().cmp(one.segment()));
        for heard in heard {
            heard.answer_deal();
            wait_until_idle().await;
        }
    };
    let read = async {
        let mut read_ids = Vec::new();
        while let Some(item) = deals.next().await {
            assert_eq!(item.index, read_ids.len());
            assert_eq!(item.result.unwrap().id, item.id.as_str());
            read_ids.push(item.id);
        }
        read_ids
    };
    let ((), read_ids) = tokio::join!(serve, read);
    assert_eq!(read_ids, ids(0..6));
    assert!(deals.next().await.is_none());
}

/// Returns the largest number of the `total` retrievals that were in flight together. The service responds to none before the
/// expected number has arrived: `concurrency`, or 16.
async fn most_in_flight(total: usize, concurrency: Option<usize>, unordered: bool) -> usize {
    let mut peer = Peer::in_memory();
    let client = peer.client();
    let expected = concurrency.unwrap_or(16);
    let mut many = client.deals().retrieve_many(ids(0..total));
    if let Some(concurrency) = concurrency {
        many = many.concurrency(concurrency);
    }
    if unordered {
        many = many.unordered();
    }
    let deals = many.stream();
    let read = deals.map(|item| item.result.unwrap()).count();
    let serve = async {
        let (mut held, mut answered, mut most) = (VecDeque::<PendingRequest>::new(), 0, 0);
        while answered < total {
            let possible = expected.max(1).min(total - answered);
            while held.len() < possible {
                held.push_back(peer.next().await);
            }
            // If one call too many were in flight, it would have arrived by now.
            wait_until_idle().await;
            while let Some(heard) = peer.try_next() {
                held.push_back(heard);
            }
            most = most.max(held.len());
            held.pop_front().unwrap().answer_deal();
            answered += 1;
        }
        most
    };
    let (ids, most) = tokio::join!(read, serve);
    assert_eq!(ids, total);
    most
}

#[tokio::test]
async fn the_number_of_calls_in_flight_is_the_concurrency() {
    for (total, concurrency, most) in [
        (12, Some(4), 4),
        (4, Some(1), 1),
        // Zero at a time means one at a time.
        (3, Some(0), 1),
        // More than the number of deals.
        (3, Some(1000), 3),
        (20, None, 16),
    ] {
        for unordered in [false, true] {
            assert_eq!(most_in_flight(total, concurrency, unordered).await, most);
        }
    }
}

#[tokio::test]
async fn a_failed_call_is_one_item() {
    let mut peer = Peer::manual();
    let client = peer.client();
    let asked = ["d_0", "missing", "..", "broken", "odd", "", "d_6", "d_6"];
    for unordered in [false, true] {
        let mut many = client.deals().retrieve_many(asked).concurrency(3);
        if unordered {
            many = many.unordered();
        }
        let deals = many.stream();
        let serve = async {
            loop {
                let heard = peer.next().await;
                match heard.segment() {
                    "missing" => heard.answer(404, r#"{"title":"Not found"}"#),
                    "broken" => drop(heard),
                    "odd" => heard.answer(200, "[]"),
                    _ => heard.answer_deal(),
                }
            }
        };
        let read = deals.collect::<Vec<_>>();
        let mut items: Vec<dealkit::Retrieved<_>> = tokio::select! {
            items = read => items,
            () = serve => unreachable!("it serves for ever"),
        };
        items.sort_by_key(|item| item.index);
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, asked);
        let kinds: Vec<Option<ErrorKind>> = items
            .iter()
            .map(|item| item.result.as_ref().err().map(dealkit::Error::kind))
            .collect();
        assert_eq!(
            kinds,
            [
                None,
                Some(ErrorKind::Status),
                Some(ErrorKind::Validation),
                Some(ErrorKind::Interrupted),
                Some(ErrorKind::Decode),
                Some(ErrorKind::Validation),
                None,
                None,
            ]
        );
        let rejected = items[2].result.as_ref().unwrap_err();
        assert_eq!(rejected.outcome(), Outcome::NotSent);
        assert_eq!(rejected.violations()[0].code.as_str(), "invalid_id");
        assert!(items[1].result.as_ref().unwrap_err().is_not_found());
        assert!(peer.try_next().is_none());
    }
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_calls_in_flight() {
    let mut peer = Peer::in_memory();
    let client = peer.client();
    let mut deals = client
        .deals()
        .retrieve_many(ids(0..10))
        .concurrency(3)
        .stream();
    let held = peer.next_many_during(3, deals.next()).await;
    drop(deals);
    for heard in held {
        heard.wait_until_closed().await;
    }
    wait_until_idle().await;
    assert!(peer.try_next().is_none(), "more was asked for");
}
