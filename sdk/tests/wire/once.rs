//! Creates with an idempotency key: the first call sends the request, and later calls get its recorded outcome.
#![cfg(all(feature = "blocking", feature = "ledger"))]

use std::{convert::Infallible, fs};

use dealkit::{
    Agent, AgentId, Client, CreateOnce, CreateRow, Created, Error, ErrorKind, Outcome, RawResponse,
    blocking,
    ledger::{Ledger, LedgerErrorKind, Resolution, UnresolvedRow},
};
use futures_util::FutureExt as _;
use tempfile::TempDir;

use crate::{
    peer::{AGENT, Peer, VALID_BODY, runtime, until},
    rows::{named, new_ledger, request},
};

use Outcome::{NotSent, Rejected, Succeeded, Unknown};

fn once(client: &Client, ledger: &Ledger, key: &str) -> CreateOnce {
    client.agents().create(request(0)).once(ledger, key)
}

type Made = Result<Created<Agent>, Error>;

/// Makes the call. The service responds with this status, if the request is sent. Returns whether it was sent.
async fn send_and_respond(peer: &mut Peer, call: CreateOnce, status: u16) -> (Made, bool) {
    let mut call = call.into_future();
    tokio::select! {
        made = &mut call => (made, false),
        heard = peer.next() => {
            heard.answer(status, VALID_BODY);
            (call.await, true)
        }
    }
}

fn error_facts(made: Made) -> (ErrorKind, Outcome, bool) {
    let error = made.unwrap_err();
    (error.kind(), error.outcome(), error.is_in_flight())
}

/// Returns the number of open ledgers in this folder.
fn count_open(folder: &TempDir) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("-job-")).count()
}

/// Waits until no ledger in this folder is open. The thread of a ledger closes it, and dropping a client waits for that thread for
/// a limited time only.
async fn wait_until_closed(folder: &TempDir) {
    until(|| count_open(folder) == 0).await;
}

#[tokio::test]
async fn a_key_is_sent_until_the_ledger_has_its_outcome() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    let (now, sent) = send_and_respond(&mut peer, once(&client, &ledger, "new"), 201).await;
    let now = now.unwrap();
    assert_eq!(now.agent_id().unwrap(), "x_1");
    assert!(sent && matches!(now, Created::Now(agent) if agent.id == "x_1"));
    let (before, sent) = send_and_respond(&mut peer, once(&client, &ledger, "new"), 201).await;
    let before = before.unwrap();
    assert_eq!(before.agent_id().unwrap(), "x_1");
    let Created::Already {
        agent_id, sent_at, ..
    } = before
    else {
        panic!("it was there before");
    };
    assert!(!sent && sent_at.is_some());
    assert_eq!(agent_id.unwrap(), "x_1");

    for (status, outcome, is_sent_again) in [
        (422, Rejected, false),
        (503, Unknown, false),
        (401, Rejected, true),
    ] {
        let key = status.to_string();
        let (first, sent) = send_and_respond(&mut peer, once(&client, &ledger, &key), status).await;
        assert!(sent && first.unwrap_err().outcome() == outcome);
        let (second, sent) =
            send_and_respond(&mut peer, once(&client, &ledger, &key), status).await;
        assert_eq!(sent, is_sent_again);
        if !sent {
            let error = second.unwrap_err();
            assert_eq!(
                (error.kind(), error.outcome()),
                (ErrorKind::AlreadyAttempted, outcome)
            );
            assert_eq!(error.status().unwrap(), status);
        }
        // An operator has found that there is no agent.
        ledger.resolve([(&key, None)]).unwrap();
        let (third, sent) = send_and_respond(&mut peer, once(&client, &ledger, &key), 201).await;
        assert!(sent && third.unwrap().now().is_some());
    }

    let (made, _) = send_and_respond(&mut peer, once(&client, &ledger, "doubtful"), 500).await;
    assert_eq!(made.unwrap_err().outcome(), Unknown);
    let again = once(&client, &ledger, "doubtful").resend_unknown();
    let (made, sent) = send_and_respond(&mut peer, again, 201).await;
    assert!(sent && made.unwrap().now().is_some());

    let empty = once(&client, &ledger, "").await;
    assert_eq!(error_facts(empty), (ErrorKind::Config, NotSent, false));
    let named = once(&client, &ledger, "ada@example.com").key_name("address");
    let (made, sent) = send_and_respond(&mut peer, named, 201).await;
    assert!(sent && made.is_ok());
    let others = once(&client, &ledger, "crm-4711")
        .key_name("crm")
        .await
        .unwrap_err();
    assert_eq!(
        others.ledger_error().unwrap().kind(),
        LedgerErrorKind::OtherKeys
    );
    drop(client);
    assert_eq!(ledger.summary().unwrap().succeeded, 6);
}

#[tokio::test]
async fn a_key_that_is_reused_for_other_data_is_an_error_with_the_agent() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    let (created, _) = send_and_respond(&mut peer, once(&client, &ledger, "crm-4711"), 201).await;
    created.unwrap();
    let changed = || {
        let create = client.agents().create(named(0, "Grace"));
        create.once(&ledger, "crm-4711")
    };
    for create in [
        changed(),
        changed().resend_corrected().resend_unknown(),
        changed().wait_in_flight(),
    ] {
        let (result, sent) = send_and_respond(&mut peer, create, 201).await;
        let error = result.unwrap_err();
        assert!(!sent && error.may_have_acted() && error.request_differs());
        assert_eq!(error.kind(), ErrorKind::IdempotencyKeyReused);
        assert_eq!(error.outcome(), Outcome::Succeeded);
        assert_eq!(error.created_agent_id().unwrap(), "x_1");
        assert!(error.created_agent_sent_at().is_some());
        let message = error.to_string();
        assert!(message.starts_with("POST /v1/agents: an agent was created earlier"));
        assert!(
            !message.contains("x_1") && !message.contains("4711"),
            "{message}"
        );
    }

    // A rejected or unknown request has no agent: the difference is reported with the recorded error.
    for status in [422, 500] {
        let key = status.to_string();
        let _ = send_and_respond(&mut peer, once(&client, &ledger, &key), status).await;
        let changed = client.agents().create(named(0, "Grace"));
        let error = changed.once(&ledger, key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyAttempted);
        assert!(error.request_differs() && error.created_agent_id().is_none());
    }
}

#[tokio::test]
async fn the_known_outcome_is_recorded_when_the_call_or_the_client_is_dropped() {
    let (folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    for (key, is_answered) in [("dropped", false), ("answered", true)] {
        let client = peer.client();
        let mut call = once(&client, &ledger, key).into_future();
        drop(client);
        let held = peer.next_during(&mut call).await;
        if is_answered {
            held.answer(201, VALID_BODY);
            assert!(call.await.unwrap().now().is_some());
        } else {
            drop(call);
            held.wait_until_closed().await;
        }
        wait_until_closed(&folder).await;
    }
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.succeeded, summary.unresolved.len()), (1, 1));
}

#[tokio::test]
async fn a_detached_call_completes_without_its_caller() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    // The call was not polled before its caller is dropped.
    drop(once(&client, &ledger, "dropped").detached());
    drop(once(&client, &ledger, "raw").raw_response().detached());
    for _ in 0..2 {
        peer.next().await.answer(201, VALID_BODY);
    }
    for key in ["dropped", "raw"] {
        let before = once(&client, &ledger, key).wait_in_flight().await;
        assert!(before.unwrap().now().is_none());
    }

    let awaited = once(&client, &ledger, "awaited").detached();
    peer.next().await.answer(201, VALID_BODY);
    assert_eq!(awaited.await.unwrap().now().unwrap().id, "x_1");
    let failed = once(&client, &ledger, "failed").detached();
    peer.next().await.answer(503, VALID_BODY);
    assert_eq!(failed.await.unwrap_err().outcome(), Unknown);
    assert_eq!(ledger.summary().unwrap().succeeded, 3);
}

#[test]
fn a_detached_call_needs_a_runtime_and_ends_with_it() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(201, &[], AGENT);
    let client = service.client();
    let without = once(&client, &ledger, "one").detached();
    let error = without.now_or_never().unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Config, NotSent)
    );
    let ended = {
        let runtime = runtime();
        let _entered = runtime.enter();
        once(&client, &ledger, "one").detached()
    };
    let error = ended.now_or_never().unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Cancelled, NotSent)
    );
    assert!(service.arrived().is_empty());
}

#[tokio::test]
async fn a_ledger_that_cannot_be_used_sends_nothing() {
    let folder = TempDir::new().unwrap();
    let ledger = Ledger::sqlite(folder.path().join("later/agents.ledger"));
    let mut peer = Peer::manual();
    let client = peer.client();
    for _ in 0..2 {
        let error = once(&client, &ledger, "one").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Ledger, NotSent)
        );
        assert!(
            error.to_string().contains("a folder that exists"),
            "{error}"
        );
    }
    // A ledger that was never open can be used without a restart.
    let path = ledger.path().unwrap();
    fs::create_dir(path.parent().unwrap()).unwrap();
    let mut call = once(&client, &ledger, "one").into_future();
    let held = peer.next_during(&mut call).await;
    let moved = path.with_extension("moved");
    fs::rename(path, &moved).unwrap();
    held.answer(201, VALID_BODY);
    assert!(call.await.unwrap().now().is_some());
    for _ in 0..2 {
        let error = once(&client, &ledger, "two").await.unwrap_err();
        assert_eq!(error.ledger_error().unwrap().kind(), LedgerErrorKind::Moved);
        assert!(
            error
                .to_string()
                .contains("Put it back before you start the program again"),
            "{error}"
        );
    }
    assert!(!path.exists());
    // Once the ledger is back, the outcome of the first call is recorded, and this process sends nothing more.
    fs::rename(&moved, path).unwrap();
    assert_eq!(
        error_facts(once(&client, &ledger, "two").await).0,
        ErrorKind::Ledger
    );
    assert!(once(&client, &ledger, "one").await.unwrap().now().is_none());
    drop(client);
    assert_eq!(ledger.summary().unwrap().succeeded, 1);
}

#[tokio::test]
async fn an_outcome_is_recorded_although_the_ledger_has_another_service_by_now() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    let mut sent = once(&client, &ledger, "one").into_future();
    let held = peer.next_during(&mut sent).await;
    ledger
        .set_base_url("https://elsewhere.example.com")
        .unwrap();
    for key in ["two", "three"] {
        let error = once(&client, &ledger, key).await.unwrap_err();
        let kind = error.ledger_error().unwrap().kind();
        assert_eq!(kind, LedgerErrorKind::OtherService);
    }
    held.answer(201, VALID_BODY);
    assert!(sent.await.unwrap().now().is_some());
    let summary = ledger.summary().unwrap();
    assert_eq!((summary.succeeded, summary.in_flight), (1, 0));
}

#[tokio::test]
async fn a_client_keeps_16_ledgers_open() {
    let folder = TempDir::new().unwrap();
    let service = Peer::answering(201, &[], AGENT);
    let client = service.client();
    let ledgers: Vec<_> = (0..20)
        .map(|n| Ledger::sqlite(folder.path().join(n.to_string())))
        .collect();
    for is_there in [false, true] {
        for ledger in &ledgers {
            let made = once(&client, ledger, "one").await.unwrap();
            assert_eq!(made.now().is_none(), is_there);
        }
        until(|| count_open(&folder) <= 16).await;
    }
    let other = Client::builder()
        .base_url(service.url.as_str())
        .service_key("k")
        .share_connections(&client);
    let other = other.build().unwrap();
    once(&other, &ledgers[19], "two").await.unwrap();
    drop(client);
    assert_eq!(count_open(&folder), 16);
    drop(other);
    wait_until_closed(&folder).await;
}

#[test]
fn a_rejected_key_is_sent_again_with_a_corrected_request() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(422, &[], "");
    let client = service.client();
    let blocking = blocking::Client::new(client.clone()).unwrap();
    let call = |first_name| client.agents().create(named(0, first_name));
    let send = |call: CreateOnce| runtime().block_on(call.into_future());
    for (call, requests) in [
        (call("Ada").once(&ledger, "one"), 1),
        (call("Grace").once(&ledger, "one"), 1),
        (call("Ada").once(&ledger, "one").resend_corrected(), 1),
        (call("Grace").once(&ledger, "one").resend_corrected(), 2),
        (call("Grace").once(&ledger, "one").resend_corrected(), 2),
    ] {
        assert_eq!(send(call).unwrap_err().outcome(), Rejected);
        assert_eq!(service.arrived().len(), requests);
    }
    let call = blocking.agents().create(named(0, "Jean"));
    let rejected = call.once(&ledger, "one").resend_corrected().send();
    assert_eq!(rejected.unwrap_err().outcome(), Rejected);
    assert_eq!(service.arrived().len(), 3);
}

#[test]
fn blocking_and_raw_calls_have_keys_too() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(201, &[], AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    let call = || {
        client
            .agents()
            .create(request(0))
            .once(&ledger, "one")
            .raw_response()
    };
    let now: RawResponse = call().send().unwrap().now().unwrap();
    let agent: Agent = now.json().unwrap();
    let Created::Already { agent_id, .. } = call().send().unwrap() else {
        panic!("it was there before");
    };
    assert_eq!(agent_id.unwrap(), agent.id);
    assert_eq!(service.arrived().len(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_is_resolved_by_the_callers_function() {
    let (_folder, ledger) = new_ledger();
    let mut peer = Peer::manual();
    let client = peer.client();
    for key in ["found", "none", "unclear"] {
        let call = once(&client, &ledger, key).label(format!("crm {key}"));
        let (made, _) = send_and_respond(&mut peer, call, 503).await;
        assert_eq!(made.unwrap_err().outcome(), Unknown);
    }
    let labels = ledger.summary().unwrap().unresolved;
    let labels: Vec<_> = labels.into_iter().map(|row| row.label.unwrap()).collect();
    assert_eq!(labels, ["crm found", "crm none", "crm unclear"]);

    // The function uses a variable, so it clones the variable for each future.
    let agent = AgentId::from("a_9");
    let look_up = move |row: UnresolvedRow| {
        let agent = agent.clone();
        async move {
            assert_eq!(row.label.unwrap(), format!("crm {}", row.key));
            Ok::<_, Infallible>(match &*row.key {
                "found" => Resolution::Agent(agent),
                "none" => Resolution::NoAgent,
                _ => Resolution::Unknown,
            })
        }
    };
    for (key, is_sent, outcome) in [
        ("found", false, Succeeded),
        ("none", true, Succeeded),
        ("unclear", false, Unknown),
    ] {
        let call = once(&client, &ledger, key).resolve(look_up.clone());
        let (made, sent) = send_and_respond(&mut peer, call, 201).await;
        assert_eq!(sent, is_sent);
        let actual = made.as_ref().map_or_else(Error::outcome, |_| Succeeded);
        assert_eq!(actual, outcome);
        if key == "found" {
            let Created::Already { agent_id, .. } = made.unwrap() else {
                panic!("it was resolved");
            };
            assert_eq!(agent_id.unwrap(), "a_9");
        }
    }
    // Also if the create is detached.
    let failing = async |_| Err::<Resolution, _>("CANARY");
    let detached = once(&client, &ledger, "unclear")
        .resolve(failing)
        .detached();
    let error = detached.await.unwrap_err();
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "CANARY"
    );
    assert!(!error.to_string().contains("CANARY"));
}

#[test]
fn the_blocking_clients_function_may_block() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(503, &[], "");
    let client = blocking::Client::new(service.client()).unwrap();
    let call = || {
        let call = client.agents().create(request(0));
        call.once(&ledger, "one").label("crm-1")
    };
    assert_eq!(call().send().unwrap_err().outcome(), Unknown);
    let resolve = |row: UnresolvedRow| {
        assert_eq!(row.label.as_deref(), Some("crm-1"));
        Ok::<_, Infallible>(Resolution::Agent("a_9".into()))
    };
    let created = call().resolve(resolve).send().unwrap();
    assert_eq!(created.now(), None);
    assert_eq!(service.arrived().len(), 1);
}

#[tokio::test]
async fn a_label_that_is_too_long_sends_nothing() {
    let (_folder, ledger) = new_ledger();
    let service = Peer::answering(201, &[], AGENT);
    for label in ["x".repeat(CreateRow::MAX_LABEL + 1), "\0".to_owned()] {
        let call = once(&service.client(), &ledger, "one").label(label);
        assert_eq!(error_facts(call.await), (ErrorKind::Config, NotSent, false));
    }
    assert!(service.arrived().is_empty());
}
