//! The service as the transport of a client, without sockets: responses, faults and the journal.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::support::{AGENT, HANG, KEY, service};
use dealkit::{Client, ClientBuilder, ErrorKind, Json, Outcome};
use dealkit_server::{AfterCut, Cut, Fault, RecordedRequest, Service, Variant};
use futures_util::FutureExt as _;

fn builder(service: &Service) -> ClientBuilder {
    Client::builder()
        .base_url("http://localhost")
        .service_key(KEY)
        .transport(service.clone())
}

#[tokio::test]
async fn a_client_needs_no_socket() {
    let service = service(|builder| builder);
    let client = builder(&service).build().unwrap();
    let agents = client.agents();
    let agent = agents.create_json(Json::parse(AGENT).unwrap()).await;
    assert_eq!(service.agents()[0], agent.unwrap());
    let mut deals = client
        .deals()
        .retrieve_many(["d_1", "none", "d_2"])
        .stream();
    let mut found = Vec::new();
    while let Some(deal) = deals.next().await {
        found.push(deal.result.map_err(|error| error.is_not_found()).is_ok());
    }
    assert_eq!(found, [true, false, true]);
    let seen = service.requests();
    assert_eq!((seen.len(), seen[0].method.as_str()), (4, "POST"));
    assert_eq!(seen[0].headers["x-service-key"], "<redacted>");
    let wrong = builder(&service).service_key("wrong").build().unwrap();
    let error = wrong.deals().retrieve("d_1").await.unwrap_err();
    assert!(error.is_authentication() && error.request_id().is_some());
}

#[tokio::test(start_paused = true)]
async fn faults_have_the_same_effect_as_over_a_socket() {
    let cut = |at, how| Fault::cut(at).after_cut(how);
    let short = Duration::from_millis(50);
    use ErrorKind::{Interrupted, Status, Timeout};
    use Outcome::{Rejected, Succeeded, Unknown};
    for (fault, kind, outcome, agents) in [
        (Fault::status(422), Status, Rejected, 0),
        (Fault::status(500), Status, Unknown, 0),
        (Fault::delay(Duration::from_secs(60)), Timeout, Unknown, 0),
        (Fault::hold(), Timeout, Unknown, 0),
        (Fault::malformed(), Interrupted, Unknown, 0),
        (Fault::process_then_reset(), Interrupted, Unknown, 1),
        (
            cut(Cut::BeforeHead, AfterCut::Reset),
            Interrupted,
            Unknown,
            0,
        ),
        (cut(Cut::BeforeHead, AfterCut::Stall), Timeout, Unknown, 0),
        (cut(Cut::InHead, AfterCut::Eof), Interrupted, Unknown, 1),
        (cut(Cut::InHead, AfterCut::Stall), Timeout, Unknown, 1),
        (
            cut(Cut::AfterBytes(5), AfterCut::Reset),
            Interrupted,
            Succeeded,
            1,
        ),
        (
            cut(Cut::AfterBytes(5), AfterCut::Eof),
            Interrupted,
            Succeeded,
            1,
        ),
        (
            cut(Cut::AfterBytes(5), AfterCut::Stall),
            Timeout,
            Succeeded,
            1,
        ),
    ] {
        let service = service(|builder| builder);
        let name = format!("{fault:?}");
        service.fail_next(fault).unwrap();
        let client = builder(&service).timeout(short).build().unwrap();
        let create = client.agents();
        let create = create.create_json(Json::parse(AGENT).unwrap());
        let error = create.await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, outcome), "{name}");
        assert_eq!(service.agents().len(), agents, "{name}");
        let seen = service.requests();
        assert_eq!(seen.len(), 1, "{name}");
        assert!(seen[0].fault.is_some(), "{name}");
        assert_eq!(seen[0].status, error.status(), "{name}");
    }
    // A body that is shorter than the cut arrives completely.
    let service = service(|builder| builder);
    service
        .fail_next(cut(Cut::AfterBytes(1 << 20), AfterCut::Reset))
        .unwrap();
    let client = builder(&service).build().unwrap();
    assert_eq!(client.deals().retrieve("d_1").await.unwrap().id, "d_1");
    assert!(service.fail_next(Fault::status(1)).is_err());
}

#[tokio::test]
async fn a_chunked_body_can_be_read() {
    let service = service(|builder| builder.variant(Variant::Chunked));
    let client = builder(&service).build().unwrap();
    assert_eq!(client.deals().retrieve("d_1").await.unwrap().id, "d_1");
}

/// A waiting caller examines each change once, independent of the number of requests, because thousands may wait.
#[tokio::test]
async fn waiting_callers_examine_changes_only() {
    let service = service(|builder| builder);
    let client = builder(&service).build().unwrap();
    let request = || async { client.deals().retrieve("d_1").await.unwrap() };
    for _ in 0..500 {
        request().await;
    }
    let looked_at = AtomicUsize::new(0);
    let wanted = |request: &RecordedRequest| {
        looked_at.fetch_add(1, Ordering::Relaxed);
        request.number > 500
    };
    let mut waiting = pin!(service.wait_for(20, HANG, wanted));
    assert!((&mut waiting).now_or_never().is_none());
    let first = looked_at.swap(0, Ordering::Relaxed);
    assert_eq!(first, 500);
    for _ in 0..19 {
        request().await;
        assert!((&mut waiting).now_or_never().is_none());
    }
    // Each request is recorded at its arrival, and updated at its response.
    let later = looked_at.load(Ordering::Relaxed);
    assert!(later < 1_100, "{later}");
    request().await;
    assert_eq!(waiting.await.unwrap().len(), 20);
}
