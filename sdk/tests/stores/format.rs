//! The format of a ledger: the files in `formats` were written by earlier versions, and every later version reads them.

use tempfile::TempDir;

use super::{
    Cluster, Ledger, NOW, RequestInfo, RowEntry, SERVICE, State, WhenUnresolved, Write, claim,
    for_each_database, open_with_keys,
};
use crate::{ledger::store, value::AgentId};

/// The rows of the ledgers in `formats`: each key, and the expected result of looking it up.
const FORMAT_ROWS: [(&str, &str); 9] = [
    ("sending", "unknown"),
    ("succeeded", "succeeded a_1"),
    ("succeeded without an identifier", "succeeded"),
    (
        "rejected",
        "rejected 422 Unprocessable invalid_email missing",
    ),
    ("rejected for its sender", "to send"),
    ("unknown", "unknown 503"),
    ("resolved with an agent", "succeeded a_2"),
    ("resolved without an agent", "to send"),
    ("not in the ledger", "to send"),
];

/// Writes a row in every state to a ledger.
fn write_every_state(ledger: &Ledger) {
    let mut job = open_with_keys(ledger, Some("email")).unwrap();
    let header = job.header().clone();
    for (name, _) in &FORMAT_ROWS[..8] {
        let key = header.hash(name);
        let request = RequestInfo {
            body_hash: Some(header.salt.hash_request(b"{\"email\":\"ada@example.com\"}")),
            email_hash: Some(header.salt.hash_email(&format!("{name}@example.com"))),
            label: Some(format!("label of {name}")),
        };
        let claim = Write::Claim {
            key,
            when_unresolved: WhenUnresolved::Report,
            resends_corrected: false,
            request: request.clone(),
        };
        assert!(matches!(
            job.write(&[&claim], &[], NOW).unwrap()[..],
            [Ok(None)]
        ));
        let (state, agent_id, status) = match *name {
            "sending" => continue,
            "succeeded" => (State::Succeeded, Some("a_1"), None),
            "succeeded without an identifier" => (State::Succeeded, None, None),
            "rejected" => (State::Rejected, None, Some(422)),
            "rejected for its sender" => (State::Rejected, None, Some(401)),
            _ => (State::Unknown, None, Some(503)),
        };
        let is_rejected = state == State::Rejected;
        let outcome = RowEntry {
            agent_id: agent_id.map(str::to_owned),
            status,
            request_id: status.map(|status| format!("r-{status}")),
            title: is_rejected.then(|| "Unprocessable".to_owned()),
            code: is_rejected.then(|| "invalid_email missing".to_owned()),
            request,
            ..RowEntry::new(state)
        };
        let outcome = Some(outcome);
        job.write(&[&Write::RecordOutcome { key, outcome }], &[], NOW)
            .unwrap();
    }
    drop(job);
    let resolved = [
        ("resolved with an agent", Some(AgentId::from("a_2"))),
        ("resolved without an agent", None),
    ];
    ledger.resolve(resolved).unwrap();
}

/// Checks that a ledger written by `write_every_state` can be read, and that a job can continue with it.
fn check_every_state(ledger: &Ledger) {
    let keys = FORMAT_ROWS.map(|(key, _)| key);
    let found = ledger.look_up("email", keys).unwrap();
    for ((key, expected), found) in FORMAT_ROWS.into_iter().zip(found) {
        let Some(found) = found else {
            assert_eq!(expected, "to send", "{key}");
            continue;
        };
        let mut text = vec![found.outcome.to_string()];
        text.extend(found.agent_id.map(String::from));
        text.extend(found.status.map(|status| status.as_u16().to_string()));
        text.extend(found.title);
        text.extend(found.code);
        assert_eq!(text.join(" "), expected, "{key}");
        assert_eq!(found.label, Some(format!("label of {key}")));
        assert!(!found.in_flight && found.sent_at.is_some());
    }
    let emails = keys.map(|key| format!("{}@Example.com", key.to_uppercase()));
    let known = ledger.look_up_emails(&emails).unwrap();
    assert_eq!(known.iter().filter(|known| known.is_some()).count(), 6);
    let json = crate::Json::parse(r#"{ "email": "ada@example.com" }"#).unwrap();
    let other = crate::Json::parse(r#"{"email":"grace@example.com"}"#).unwrap();
    let requests = [("succeeded", json), ("unknown", other)];
    let compared = ledger.look_up_requests("email", requests).unwrap();
    let differs = compared
        .iter()
        .map(|row| row.as_ref().unwrap().request_differs);
    assert_eq!(differs.collect::<Vec<_>>(), [false, true]);
    let summary = ledger.summary().unwrap();
    assert_eq!(
        (summary.service.as_str(), summary.unresolved.len()),
        (SERVICE, 2)
    );
    let mut job = open_with_keys(ledger, Some("email")).unwrap();
    for (key, expected) in FORMAT_ROWS {
        let key = job.header().hash(key);
        let claimed = claim(&mut *job, key, WhenUnresolved::Report).is_none();
        assert_eq!(claimed, expected == "to send");
    }
}

#[test]
fn ledgers_of_this_format_are_read() {
    let formats = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/formats");
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("agents.ledger");
    std::fs::copy(formats.join("2.ledger"), &copy).unwrap();
    check_every_state(&Ledger::sqlite(copy));
    if let Some(cluster) = Cluster::shared() {
        let url = cluster.new_url();
        let schema = url.rsplit_once('=').unwrap().1;
        let sql = std::fs::read_to_string(formats.join("2.sql")).unwrap();
        cluster.run_sql(
            &url,
            &format!("CREATE SCHEMA {schema}; SET search_path TO {schema}; {sql}"),
        );
        check_every_state(&url.parse().unwrap());
    }
    for_each_database(|ledger| {
        write_every_state(ledger);
        check_every_state(ledger);
    });
}

/// Writes the files in `formats`. Only a new version of the format needs new files, and the old ones stay.
#[test]
#[ignore = "it writes files that later versions must be able to read"]
fn write_the_files_of_a_new_format() {
    let formats = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/formats");
    let file = formats.join(format!("{}.ledger", store::FORMAT));
    write_every_state(&Ledger::sqlite(&file));
    std::fs::remove_file(formats.join(format!("{}.ledger-journal", store::FORMAT))).unwrap();
    let cluster = Cluster::shared().unwrap();
    let url = cluster.new_url();
    write_every_state(&url.parse().unwrap());
    let schema = url.rsplit_once('=').unwrap().1;
    let sql = cluster.dump(schema);
    std::fs::write(formats.join(format!("{}.sql", store::FORMAT)), sql).unwrap();
}
