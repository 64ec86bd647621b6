//! Reading what a service sends.

use std::{collections::BTreeSet, sync::OnceLock};

use dealkit::{Agent, Deal, Decimal, DecodeError, document};
use serde_json::Value;

use crate::{
    json::{self, Kind},
    shape::{self, Failure, Search, Shape},
};

/// Any bytes as a deal.
pub fn deal(data: &[u8]) {
    match Deal::from_json(data) {
        Ok(deal) => {
            let written = serde_json::to_string(&deal).unwrap();
            let again = Deal::from_json(&written).unwrap();
            assert!(again == deal, "{written} reads as another deal");
            assert_eq!(serde_json::to_string(&again).unwrap(), written);
            read(&shape::DEAL, data, &written);
            if let Some(value) = tree(data) {
                deal_agrees(&deal, &value);
            }
        }
        Err(error) => refused(&shape::DEAL, data, &error),
    }
}

/// Any bytes as an agent.
pub fn agent(data: &[u8]) {
    match Agent::from_json(data) {
        Ok(agent) => {
            let written = serde_json::to_string(&agent).unwrap();
            let again = Agent::from_json(&written).unwrap();
            assert!(again == agent, "{written} reads as another agent");
            assert_eq!(serde_json::to_string(&again).unwrap(), written);
            read(&shape::AGENT, data, &written);
            if let Some(value) = tree(data) {
                agent_agrees(&agent, &value);
            }
        }
        Err(error) => refused(&shape::AGENT, data, &error),
    }
}

/// A reader may skip a byte order mark, and this one does.
fn without_mark(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
}

/// The document as serde_json's own tree, which allows no halves of surrogate pairs and no numbers beyond a binary
/// float, and gives a special meaning to names of its own.
fn tree(data: &[u8]) -> Option<Value> {
    let mark = b"$serde_json::";
    let is_marked = data.windows(mark.len()).any(|window| window == mark);
    let value = serde_json::from_slice(without_mark(data)).ok();
    value.filter(|_| !is_marked)
}

/// What was read is valid, and is written back as it came.
fn read(shape: &Shape, data: &[u8], written: &str) {
    let document = json::document(without_mark(data)).expect("only JSON is read");
    let failure = Search::default().failure(shape, document, "");
    assert_eq!(failure, None, "read in spite of it");
    shape::compare(shape, document, written, "");
}

/// What was refused is invalid, and the error says where and why, without showing a value.
fn refused(shape: &Shape, data: &[u8], error: &DecodeError) {
    assert_eq!(error.body(), data, "the error keeps the document");
    if error.found() == "too many values" {
        let marks = data.iter().filter(|byte| b"{[,".contains(byte)).count();
        assert!(marks > document::MAX_VALUES, "{marks} values");
        return;
    }
    let Some(document) = json::document(without_mark(data)) else {
        assert_eq!(error.found(), "not JSON", "{error}");
        assert!(is_syntax_text(error), "{error}");
        return;
    };
    let mut search = Search::default();
    let failure = search.failure(shape, document, "");
    let (pointer, found) = (error.pointer(), error.found());
    let expected = search
        .allowed
        .into_iter()
        .chain(failure)
        .find(|failure| failure.found == "not JSON" || failure.pointer == pointer)
        .unwrap_or_else(|| panic!("refused without a reason: {error}"));
    if json::has_odd_names(document, shape::LEVELS) {
        // The value that was refused may be one before the last of several with equal names. The error then describes
        // the last one, or nothing.
        return;
    }
    assert_eq!(found, expected.found, "{error}");
    if found == "not JSON" {
        assert!(is_syntax_text(error), "{error}");
        return;
    }

    // The place is in the document; if a value is missing, the place that it is missing from is.
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let place = if found == "nothing" { parent } else { pointer };
    let stands = json::at(document, place).expect("the place is in the document");
    if found == "nothing" {
        assert_eq!(Kind::of(stands), Kind::Object);
        assert_eq!(
            json::at(document, pointer),
            None,
            "{pointer} is not missing"
        );
    }
    assert_eq!(error.path(), path_of(pointer, document));
    let text = text_of(error.path(), &expected);
    // If a number beyond a binary float stands where something else should be, serde_json does not say what was
    // expected.
    let vague = text.replace(expected.expected, "another value");
    let shown = error.to_string();
    assert!(
        shown == text || (found == "a number" && shown == vague),
        "{shown}, not {text}"
    );
}

/// The pointer as programmers write it, `application.offers[2].id`, with a position in place of a name that the
/// specification does not have.
fn path_of(pointer: &str, document: &str) -> String {
    let mut path = String::new();
    let mut above = String::new();
    for token in pointer.split('/').skip(1) {
        let name = token.replace("~1", "/").replace("~0", "~");
        let parent = json::at(document, &above).expect("the place is in the document");
        above.push('/');
        above.push_str(token);
        if Kind::of(parent) == Kind::Array {
            path.push_str(&format!("[{name}]"));
        } else if names_of_the_specification().contains(&name) {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(&name);
        } else {
            let fields = json::fields(parent);
            let before = fields
                .iter()
                .rposition(|(found, _)| found.as_ref() == Some(&name))
                .expect("what is missing has a name of the specification");
            path.push_str(&format!("[entry {}]", before + 1));
        }
    }
    path
}

/// The fields of every request and of every response that is not an error.
fn names_of_the_specification() -> &'static BTreeSet<String> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let openapi = include_str!("../../contract/openapi.json");
        let openapi: Value = serde_json::from_str(openapi).unwrap();
        let schemas = openapi["components"]["schemas"].as_object().unwrap();
        schemas
            .iter()
            .filter(|(name, _)| !["Problem", "Violation"].contains(&&***name))
            .filter_map(|(_, schema)| schema["properties"].as_object())
            .flat_map(|properties| properties.keys().cloned())
            .collect()
    })
}

/// The whole text of an error, which leaves no room for a value.
fn text_of(path: &str, failure: &Failure) -> String {
    let at = if path.is_empty() {
        String::new()
    } else {
        format!("at {path}: ")
    };
    match failure {
        Failure {
            found: "nothing", ..
        } => format!("{at}a required field is missing"),
        Failure {
            expected, found, ..
        } => format!("{at}expected {expected}, found {found}"),
    }
}

/// The text of a syntax error is serde_json's, which repeats nothing but its own words and backquoted
/// punctuation.
fn is_syntax_text(error: &DecodeError) -> bool {
    let text = error.to_string();
    let text = text
        .strip_prefix(&format!("at {}: ", error.path()))
        .unwrap_or(&text);
    if error.body().is_empty() {
        return text == "expected JSON, found an empty body";
    }
    let is_position = |text: &str| {
        text.split_once(" column ").is_some_and(|(line, column)| {
            line.parse::<usize>().is_ok() && column.parse::<usize>().is_ok()
        })
    };
    if let Some(position) = text.strip_prefix("the document ends early, line ") {
        return is_position(position);
    }
    let Some((reason, position)) = text
        .strip_prefix("expected JSON, found something else (")
        .and_then(|text| text.strip_suffix(')'))
        .and_then(|text| text.rsplit_once(" at line "))
    else {
        return false;
    };
    let known = [
        "expected `:`",
        "expected `,` or `]`",
        "expected `,` or `}`",
        "expected ident",
        "expected value",
        "invalid escape",
        "invalid number",
        "invalid unicode code point",
        "control character (\\u0000-\\u001F) found while parsing a string",
        "key must be a string",
        "lone leading surrogate in hex escape",
        "trailing comma",
        "trailing characters",
        "unexpected end of hex escape",
    ];
    known.contains(&reason) && is_position(position)
}

/// A field as text; `None` when it is missing or null.
fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

fn length(value: &Value, name: &str) -> usize {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(0, Vec::len)
}

/// The fields of the type are what serde_json's own tree holds.
fn deal_agrees(deal: &Deal, value: &Value) {
    assert_eq!(Some(deal.id.as_str()), text(value, "id"));
    assert_eq!(
        deal.status.as_ref().map(|s| s.as_str()),
        text(value, "status")
    );
    assert_eq!(
        deal.phase.as_ref().map(|s| s.as_str()),
        text(value, "phase")
    );
    assert_eq!(deal.external_id.as_deref(), text(value, "external_id"));
    let date = deal.expiry_date.map(|date| date.to_string());
    assert_eq!(date.as_deref(), text(value, "expiry_date"));
    assert_eq!(deal.quotes.len(), length(value, "quotes"));
    assert_eq!(deal.contacts.len(), length(value, "contacts"));
    assert_eq!(deal.sides.len(), length(value, "sides"));
    for (quote, value) in deal.quotes.iter().zip(items(value, "quotes")) {
        assert_eq!(quote.id.as_ref().map(|id| id.as_str()), text(value, "id"));
        let least = value.get("estimated_amount_min");
        // serde_json distinguishes an integer from `1.0` and `1e0`, which are integers too.
        if let Some(least) = least.and_then(Value::as_i64) {
            assert_eq!(quote.estimated_amount_min, Some(least));
        }
    }
    for (contact, value) in deal.contacts.iter().zip(items(value, "contacts")) {
        assert_eq!(
            contact.r#type.as_ref().map(|t| t.as_str()),
            text(value, "type")
        );
        assert_eq!(contact.fields.len(), length(value, "fields"));
    }
    for (side, value) in deal.sides.iter().zip(items(value, "sides")) {
        close(side.side_percentage, value.get("side_percentage"));
    }
    let metadata = value.get("metadata").and_then(Value::as_object);
    assert_eq!(
        deal.metadata.len(),
        metadata.map_or(0, serde_json::Map::len)
    );
    for (name, text) in &deal.metadata {
        assert_eq!(metadata.unwrap()[name], **text);
    }
    match (&deal.listing_contract, value.get("listing_contract")) {
        (Some(contract), Some(value)) => {
            if let Some(price) = value.get("sale_price").and_then(Value::as_i64) {
                assert_eq!(contract.sale_price, Some(price));
            }
            let city = contract.address.as_ref().and_then(|it| it.city.as_deref());
            assert_eq!(city, value.get("address").and_then(|it| text(it, "city")));
        }
        (contract, value) => {
            assert!(contract.is_none() && value.is_none_or(Value::is_null));
        }
    }
    match (&deal.application, value.get("application")) {
        (Some(application), Some(value)) => {
            assert_eq!(application.created_at.as_deref(), text(value, "created_at"));
            assert_eq!(application.offers.len(), length(value, "offers"));
            close(application.requested_amount, value.get("requested_amount"));
        }
        (application, value) => {
            assert!(application.is_none() && value.is_none_or(Value::is_null));
        }
    }
}

fn agent_agrees(agent: &Agent, value: &Value) {
    assert_eq!(Some(agent.id.as_str()), text(value, "id"));
    assert_eq!(Some(&*agent.email), text(value, "email"));
    assert_eq!(Some(&*agent.first_name), text(value, "first_name"));
    assert_eq!(Some(&*agent.last_name), text(value, "last_name"));
    let date = agent.date_of_birth.map(|date| date.to_string());
    assert_eq!(date.as_deref(), text(value, "date_of_birth"));
    let brokerage = agent.current_brokerage_id.as_ref().map(|id| id.as_str());
    assert_eq!(brokerage, text(value, "current_brokerage_id"));
    let (profile, sent) = (&agent.profile, &value["profile"]);
    assert_eq!(
        profile.onboarding_complete,
        sent.get("onboarding_complete").and_then(Value::as_bool)
    );
    assert_eq!(profile.external_id.as_deref(), text(sent, "external_id"));
    let metadata = profile
        .client_metadata
        .as_ref()
        .map(|it| it.deserialize().unwrap());
    assert_eq!(
        metadata.unwrap_or(Value::Null),
        sent.get("client_metadata").cloned().unwrap_or(Value::Null)
    );
    assert_eq!(
        agent.role_assignments.len(),
        length(value, "role_assignments")
    );
    for (role, value) in agent
        .role_assignments
        .iter()
        .zip(items(value, "role_assignments"))
    {
        assert_eq!(Some(role.role.as_str()), text(value, "role"));
        let office = role.office_id.as_ref().map(|id| id.as_str());
        assert_eq!(office, text(value, "office_id"));
    }
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// serde_json's tree holds a binary float, so the value can only be close. The exact digits are compared elsewhere.
fn close(decimal: Option<Decimal>, value: Option<&Value>) {
    let float = value.and_then(Value::as_f64);
    assert_eq!(decimal.is_some(), float.is_some());
    if let (Some(decimal), Some(float)) = (decimal, float) {
        let decimal: f64 = decimal.to_string().parse().unwrap();
        assert!(
            (decimal - float).abs() <= float.abs() * 1e-12,
            "{decimal} {float}"
        );
    }
}
