//! `Json`: no depth of nesting ends the process.

use std::cell::Cell;

use dealkit::{Agent, AgentProfile, CreateAgent, Deal, Json, UnknownFields, Unreadable};
use serde_json::Value;

/// The deepest nesting of a document that has some fields next to it.
const DEEPEST: usize = dealkit::internal::document_limits::MAX_VALUES - 100;

/// Far deeper than the stack of a thread, for code that reads by recursion.
const DEEP: usize = 100_000;

fn json(text: impl Into<String>) -> Json {
    Json::parse(text).unwrap()
}

fn arrays(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn objects(depth: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

/// A document of which every 64 KB could be the last.
#[test]
fn reading_a_large_document_can_be_stopped() {
    let fields: String = (0..100_000).map(|n| format!(r#","k{n}":1"#)).collect();
    let document = format!(r#"{{"id":"d_1"{fields}}}"#);
    let asked = Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        true
    };
    let deal = Deal::from_json_cancellable(&document, Unreadable::Error, Some(&go_on)).unwrap();
    assert_eq!(deal.extra().len(), 100_000);
    let steps = document.len() / (64 * 1024);
    assert!((steps - 2..=steps).contains(&asked.get()), "{asked:?}");

    let stops = || {
        asked.set(asked.get() - 1);
        asked.get() > 10
    };
    let error =
        Deal::from_json_cancellable(&document, Unreadable::Error, Some(&stops)).unwrap_err();
    assert!(error.was_cancelled());
    assert_eq!(error.to_string(), "it could not be read to the end in time");
    assert_eq!(
        (error.path(), error.expected(), error.line()),
        ("", None, None)
    );
}

#[test]
fn the_same_value_in_other_words_is_equal() {
    for (left, right) in [
        (r#"{"a":1,"b":[2.5]}"#, r#"{ "b" : [ 2.5 ], "\u0061" : 1 }"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#""\ud83d\ude00""#, r#""\uD83D\uDE00""#),
        (r#""\ud800""#, r#""\ud800""#),
        ("1e400", "1e400"),
    ] {
        assert_eq!(json(left), json(right), "{left} {right}");
    }
    for (left, right) in [
        (
            "12345678901234567890123456789",
            "12345678901234567890123456788",
        ),
        ("0.30000000000000001", "0.3"),
        (r#"{"a":0.30000000000000001}"#, r#"{ "a":0.3}"#),
        (r#""\ud800""#, r#""\ud801""#),
        ("[1]", "[1,1]"),
        (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
        ("1", r#""1""#),
    ] {
        assert_ne!(json(left), json(right), "{left} {right}");
    }
}

/// The limit is serde_json's own.
#[test]
fn what_is_too_deep_for_a_tree_is_an_error() {
    for nested in [arrays, objects] {
        json(nested(Json::MAX_DEPTH))
            .deserialize::<Value>()
            .unwrap();
        for depth in [Json::MAX_DEPTH + 1, DEEP] {
            let error = json(nested(depth)).deserialize::<Value>().unwrap_err();
            assert!(error.to_string().contains("recursion limit"), "{error}");
        }
    }
}

#[test]
fn fields_of_any_depth_are_kept_exactly() {
    for nested in [arrays(DEEPEST), objects(DEEPEST)] {
        let body = format!(r#"{{"id":"d","quotes":[{{"more":{nested}}}]}}"#);
        let deal = Deal::from_json(&body).unwrap();
        assert_eq!(deal.quotes[0].extra()["more"].as_str(), nested);
        let copy = deal.clone();
        assert!(copy == deal);
        let written = serde_json::to_string(&copy).unwrap();
        assert!(Deal::from_json(&written).unwrap() == deal);
        drop((deal, copy));

        let object = format!(r#"{{"a":{nested}}}"#);
        let body = format!(
            r#"{{"id":"a","email":"e","first_name":"f","last_name":"l","profile":{{"client_metadata":{object}}},"role_assignments":[]}}"#
        );
        let agent = Agent::from_json(&body).unwrap();
        let metadata = agent.profile.client_metadata.as_ref().unwrap();
        assert_eq!(metadata.as_str(), object);
        assert!(serde_json::to_string(&agent).unwrap().contains(&object));

        let request = CreateAgent::builder()
            .email("ada@example.com")
            .first_name("Ada")
            .last_name("Lovelace")
            .profile(AgentProfile::new().client_metadata(json(object.clone())))
            .build()
            .unwrap();
        let sent = request.to_json();
        assert!(sent.as_str().contains(&object));
        let again = CreateAgent::from_json(&sent, UnknownFields::Reject).unwrap();
        assert!(again == request);
        let wrong = json(format!(r#"{{"email":{nested}}}"#));
        CreateAgent::from_json(&wrong, UnknownFields::Ignore).unwrap_err();
    }
}

/// Deep nesting where a deal has another shape, and where the text breaks at the bottom.
#[test]
fn nesting_in_the_place_of_a_field_is_an_error() {
    for nested in [arrays(DEEP), objects(DEEP)] {
        for field in ["status", "expiry_date", "sides", "metadata", "application"] {
            let body = format!(r#"{{"{field}":{nested},"id":"d"}}"#);
            let error = Deal::from_json(&body).err();
            let found = error.as_ref().map(|error| error.found());
            assert!(
                matches!(found, None | Some("an array" | "an object")),
                "{field}: {error:?}"
            );
        }
        let cut = format!(r#"{{"id":"d","more":{}"#, &nested[..nested.len() / 2]);
        assert_eq!(Deal::from_json(cut).unwrap_err().found(), "not JSON");
    }
}
