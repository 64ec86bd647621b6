//! Undocumented fields of a request and of its profile.

use dealkit::{AgentProfile, CreateAgent, Json, UnknownFields};
use serde_json::json;

fn ada() -> CreateAgent {
    CreateAgent::builder()
        .email("ada@example.com")
        .first_name("Ada")
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build()
        .unwrap()
}

#[test]
fn a_request_keeps_its_undocumented_fields() {
    let request = ada().with("referral", json!({"rate": 5})).unwrap();
    let request = request.with("zone", Json::string("north")).unwrap();
    assert_eq!(
        request.extra().keys().collect::<Vec<_>>(),
        ["referral", "zone"]
    );
    assert_eq!(request.get("zone"), Some(Json::string("north")));
    assert_eq!(request.get("email"), Some(Json::string("ada@example.com")));
    assert_eq!(request.get("phone"), None);

    let body = request.to_json();
    let again = CreateAgent::from_json(&body, UnknownFields::Ignore).unwrap();
    assert_eq!(again.to_json().as_str(), body.as_str());
    assert!(
        again == request && serde_json::from_str::<CreateAgent>(body.as_str()).unwrap() == request
    );
    let error = CreateAgent::from_json(&body, UnknownFields::Reject).unwrap_err();
    let pointers = error.violations().iter().map(|found| &*found.pointer);
    assert_eq!(pointers.collect::<Vec<_>>(), ["/referral", "/zone"]);
}

#[test]
fn a_documented_field_is_replaced_and_checked() {
    let request = ada().with("phone", Json::string("+15550100")).unwrap();
    assert_eq!(
        (request.phone(), request.extra().len()),
        (Some("+15550100"), 0)
    );
    let changed = request.with("phone", Json::string("+15550199")).unwrap();
    assert_eq!(changed.to_json().as_str().matches("phone").count(), 1);
    let error = changed.with("phone", Json::string("no")).unwrap_err();
    assert_eq!(error.violations()[0].pointer, "/phone");
}

#[test]
fn a_profile_sends_each_field_once_sorted_by_name() {
    let profile = AgentProfile::new()
        .tier("A")
        .with("badge", Json::string("gold"))
        .with("tier", Json::string("B"))
        .with("zone", 1);
    assert_eq!(
        profile.extra().keys().collect::<Vec<_>>(),
        ["badge", "zone"]
    );
    assert_eq!(
        serde_json::to_string(&profile).unwrap(),
        r#"{"badge":"gold","tier":"B","zone":1}"#
    );
}
