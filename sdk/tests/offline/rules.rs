//! Request validation finds exactly the violations that the contract's vectors list.

use chrono::NaiveDate;
use dealkit::{
    AgentProfile, AssignedRole, BrokerageId, CreateAgent, Nullable, Role, UnknownFields,
    ValidationError, ViolationCode,
};
use serde_json::{Value, json};

use crate::vectors::{bytes, name, vectors};

fn list_violations(error: &ValidationError) -> Value {
    error
        .violations()
        .iter()
        .map(|violation| json!([violation.pointer, violation.code.as_str()]))
        .collect()
}

#[test]
fn invalid_json_is_a_violation_of_the_body() {
    for body in [&b"{"[..], b"", b"{}}", b"\xff", b"{\"email\": \"\xff\"}"] {
        let error = CreateAgent::from_json(body, UnknownFields::Ignore).unwrap_err();
        let [violation] = error.violations() else {
            panic!("{error}");
        };
        assert_eq!(
            (&*violation.pointer, &violation.code),
            ("", &ViolationCode::WrongType)
        );
        assert!(violation.detail.starts_with("must be JSON, "), "{error}");
    }
}

#[test]
fn requests_have_the_violations_of_the_vectors() {
    let mut wrong = Vec::new();
    let mut run = 0;
    for case in vectors::<Value>("create_agent.json", 90) {
        let status = case["expect"]["status"].as_u64().unwrap();
        if status == 400 {
            continue; // The body is not valid JSON for the server, so it has no fields to validate.
        }
        run += 1;
        let unknown = match case.get("strict").and_then(Value::as_bool) {
            Some(true) => UnknownFields::Reject,
            _ => UnknownFields::Ignore,
        };
        let outcome = CreateAgent::from_json(bytes(&case), unknown);
        let found = outcome.as_ref().err().map(list_violations);
        let expected = case["expect"].get("errors").cloned();
        if found != expected {
            wrong.push(format!(
                "{}: found {found:?}, expected {expected:?}",
                name(&case)
            ));
        }
        if let Ok(request) = outcome {
            // The parsed request equals the request that would be sent.
            let again = CreateAgent::from_json(request.to_json(), UnknownFields::Ignore);
            assert!(again == Ok(request), "{}", name(&case));
        }
    }
    assert!(run >= 60, "only {run} cases were run");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_builder_finds_every_violation_at_once() {
    let error = CreateAgent::builder()
        .email("Ada King <king@example.org>")
        .first_name("")
        .last_name("x".repeat(256))
        .profile(
            AgentProfile::new()
                .client_metadata(json!([1]))
                .with("tier", 5),
        )
        .role("AGNT")
        .phone("99887")
        .image_url("portrait.gif")
        .date_of_birth("2023-02-29")
        .build()
        .unwrap_err();
    assert_eq!(
        list_violations(&error),
        json!([
            ["/email", "invalid_email"],
            ["/first_name", "too_short"],
            ["/last_name", "too_long"],
            ["/profile/tier", "wrong_type"],
            ["/profile/clientMetadata", "wrong_type"],
            ["/role", "unknown_value"],
            ["/phone", "invalid_phone"],
            ["/image_url", "invalid_url"],
            ["/date_of_birth", "invalid_date"],
        ])
    );
    let text = error.to_string();
    assert!(
        text.contains("/last_name: must be 1 to 255 characters, got 256 (too_long)"),
        "{text}"
    );
    for value in ["King", "AGNT", "99887", "portrait", "2023"] {
        assert!(!text.contains(value), "{text}");
    }
}

#[test]
fn a_value_null_and_a_missing_field_are_written_as_such() {
    let request = || {
        CreateAgent::builder()
            .email("ada@example.com")
            .first_name("Ada")
            .last_name("Lovelace")
            .profile(AgentProfile::new())
    };
    let absent = request().build().unwrap();
    assert_eq!(
        absent.to_json().as_str(),
        r#"{"email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{}}"#
    );
    assert_eq!(absent.role(), &AssignedRole::Agent);

    let none = request()
        .maybe_role(None::<Role>)
        .maybe_phone(None::<String>)
        .maybe_image_url(None::<&str>)
        .maybe_date_of_birth(None::<NaiveDate>)
        .maybe_brokerage_id(None::<BrokerageId>)
        .maybe_office_id(None::<&BrokerageId>.map(BrokerageId::as_str))
        .maybe_collective_id(None::<Nullable<_>>)
        .build()
        .unwrap();
    assert_eq!(none, absent);

    let null = request()
        .image_url(Nullable::Null)
        .date_of_birth(Nullable::Null)
        .brokerage_id(Nullable::Null)
        .office_id(Nullable::Null)
        .maybe_collective_id(Some(Nullable::Null))
        .build()
        .unwrap();
    let json: Value = null.to_json().deserialize().unwrap();
    for name in [
        "image_url",
        "date_of_birth",
        "brokerage_id",
        "office_id",
        "collective_id",
    ] {
        assert_eq!(json.get(name), Some(&Value::Null), "{name}");
    }
    assert_eq!(null.office_id(), None);

    let given = request()
        .date_of_birth(NaiveDate::from_ymd_opt(1990, 2, 28).unwrap())
        .brokerage_id(BrokerageId::new("b_1"))
        .maybe_office_id(Some("o_1"))
        .collective_id(String::new())
        .role(Role::BrokerAdmin)
        .build()
        .unwrap();
    assert_eq!(given.date_of_birth(), Some("1990-02-28"));
    assert_eq!(given.brokerage_id().unwrap(), "b_1");
    assert_eq!(given.office_id().unwrap(), "o_1");
    assert_eq!(given.collective_id().unwrap(), "");
}

#[test]
fn a_request_is_validated_when_serde_reads_it() {
    #[derive(Debug, serde::Deserialize)]
    struct Command {
        tenant: u32,
        agent: CreateAgent,
    }

    let body = r#"{"tenant": 7, "agent": {"email": "ada@example.com", "first_name": "Ada", "last_name": "Lovelace",
        "profile": {"tier": "A", "badge": "gold", "clientMetadata": {"rate": 10.10}}, "office_id": null, "unknown": 1}}"#;
    let command: Command = serde_json::from_str(body).unwrap();
    assert_eq!(command.tenant, 7);
    assert_eq!(
        command.agent.to_json().as_str(),
        r#"{"email":"ada@example.com","first_name":"Ada","last_name":"Lovelace","profile":{"badge":"gold","clientMetadata":{"rate": 10.10},"tier":"A"},"office_id":null,"unknown":1}"#
    );
    let value: Value = command.agent.to_json().deserialize().unwrap();
    assert_eq!(
        serde_json::from_value::<CreateAgent>(value).unwrap(),
        command.agent
    );

    let text = serde_json::from_str::<CreateAgent>("[]")
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("the body: must be an object, got an array"),
        "{text}"
    );
}
