use dealkit::{
    ErrorKind,
    Outcome::{NotSent, Succeeded},
    blocking,
};

use super::*;
use crate::peer::AGENT;

test_both_databases! {
    a_service_with_a_new_base_url_keeps_its_ledger
    ;
    a_job_with_another_key_name_is_rejected_before_anything_is_sent
    email_keys_ignore_case_and_other_keys_do_not
}

#[test]
fn a_ledger_is_bound_to_its_service() {
    let (_folder, ledger) = new_ledger();
    for same in [
        "https://deals.example.com/tenant",
        "https://deals.example.com/tenant/",
    ] {
        open(&client(same), &ledger, None).unwrap();
    }
    for other in [
        "https://deals.example.com",
        "http://127.0.0.1/tenant",
        "https://deals.example.com/other",
        "https://other.example.com/tenant",
    ] {
        let error = dealkit::Error::from(open(&client(other), &ledger, None).unwrap_err());
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::Ledger, NotSent)
        );
        let why = error.ledger_error().unwrap();
        assert_eq!(why.kind(), LedgerErrorKind::OtherService);
        assert_eq!(why.path(), ledger.path());
    }
}

async fn a_service_with_a_new_base_url_keeps_its_ledger(ledger: Ledger) {
    let mut peer = Peer::manual();
    run(&mut peer, &ledger, false, rows(1), |_| Reply::Create).await;
    let mut renamed = Peer::manual();
    let at = |peer: &Peer| {
        let client = peer.client();
        let ledger = ledger.clone();
        tokio::task::spawn_blocking(move || open(&client, &ledger, None))
    };
    let error = at(&renamed).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::OtherService);
    assert!(
        error
            .to_string()
            .contains("record the new base URL in the ledger"),
        "{error}"
    );
    ledger.set_base_url(&renamed.url).unwrap();
    assert!(at(&peer).await.unwrap().is_err());
    let (results, sent) = run(&mut renamed, &ledger, false, rows(2), |_| Reply::Create).await;
    assert_eq!(sent, [1]);
    assert_eq!(outcomes(&results), [(Succeeded, true), (Succeeded, false)]);
}

fn a_job_with_another_key_name_is_rejected_before_anything_is_sent(ledger: Ledger) {
    let service = Peer::answering(201, &[], AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    for (keys, is_accepted) in [
        (None, true),
        // E-mail addresses are compared in another way than keys without a name.
        (Some("email"), false),
        // The first job that names the keys decides their name.
        (Some("external_id"), true),
        (Some("number"), false),
        (Some("external_id"), true),
        (None, true),
    ] {
        let job = client.agents().create_many(rows(2)).ledger(&ledger, keys);
        let results: Vec<_> = job.into_iter().collect();
        assert_eq!(results.len(), 2);
        for creation in results {
            assert_eq!(creation.result.is_ok(), is_accepted);
            if let Err(error) = creation.result {
                let error = error.ledger_error().unwrap();
                assert_eq!(error.kind(), LedgerErrorKind::OtherKeys);
                let text = error.to_string();
                assert!(text.contains(&format!("{:?}", keys.unwrap())), "{text}");
                let is_named = text.contains(r#""external_id""#);
                assert_eq!(is_named, keys == Some("number"), "{text}");
            }
        }
    }
    assert_eq!(service.arrived().len(), 2);
    let known = ledger.summary().unwrap().key_name;
    assert_eq!(known.as_deref(), Some("external_id"));
}

fn email_keys_ignore_case_and_other_keys_do_not(ledger: Ledger) {
    let service = Peer::answering(201, &[], AGENT);
    let client = blocking::Client::new(service.client()).unwrap();
    for (keys, expected) in [
        (&["ada@example.com"][..], &[(Succeeded, false)][..]),
        (
            &["Ada@Example.com", "ADA@example.com"],
            &[(Succeeded, true), (NotSent, false)],
        ),
    ] {
        let rows = keys.iter().map(|key| (*key, rows::request(0)));
        let job = client.agents().create_many(rows).ledger(&ledger, "email");
        let results: Vec<_> = job.into_iter().collect();
        assert_eq!(outcomes(&results), expected);
    }
    let keys = ["ADA@EXAMPLE.COM", "grace@example.com"];
    let found = ledger.look_up("email", keys).unwrap();
    assert!(found[0].is_some() && found[1].is_none());
    assert_eq!(service.arrived().len(), 1);
}
