//! openapi.json, the vectors and the models state the same facts.

use std::collections::BTreeSet;

use dealkit::{Deal, Json, Offer, Role, ViolationCode, internal::wire};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::vectors::{bytes, contract, name, vectors};

fn openapi() -> Value {
    serde_json::from_str(contract("openapi.json")).unwrap()
}

fn schema_validator(name: &str) -> Validator {
    let openapi = openapi();
    let root = json!({
        "$ref": format!("#/components/schemas/{name}"),
        "components": openapi["components"],
    });
    jsonschema::draft202012::new(&root).unwrap()
}

/// Returns the document of a case; `None` if serde_json cannot read it.
fn parse_document(case: &Value) -> Option<Value> {
    serde_json::from_slice(&bytes(case)).ok()
}

#[test]
fn requests_and_responses_match_the_schema() {
    let (request, agent) = (schema_validator("CreateAgent"), schema_validator("Agent"));
    let (mut accepted, mut rejected) = (0, 0);
    for case in vectors::<Value>("create_agent.json", 90) {
        let expect = &case["expect"];
        let Some(body) = parse_document(&case) else {
            continue;
        };
        match expect["status"].as_u64().unwrap() {
            201 => {
                assert!(request.is_valid(&body), "{}", name(&case));
                accepted += 1;
                if expect.get("exact").is_none() {
                    let mut response = expect["agent"].clone();
                    response["id"] = json!("a_1");
                    let errors: Vec<_> = agent
                        .iter_errors(&response)
                        .map(|e| e.to_string())
                        .collect();
                    assert!(errors.is_empty(), "{}: {errors:?}", name(&case));
                }
            }
            422 if schema_detects(expect) => {
                assert!(!request.is_valid(&body), "{}", name(&case));
                rejected += 1;
            }
            _ => {}
        }
    }
    assert!(
        accepted >= 30 && rejected >= 40,
        "{accepted} accepted, {rejected} rejected"
    );
}

/// Returns whether the schema detects a violation of the case. It does not detect formats, which are annotations in JSON Schema,
/// or undocumented fields, which only `--strict` rejects.
fn schema_detects(expect: &Value) -> bool {
    expect["errors"].as_array().unwrap().iter().any(|error| {
        !matches!(
            error[1].as_str().unwrap(),
            "invalid_email" | "invalid_url" | "invalid_date" | "unknown_field"
        )
    })
}

/// The schema requires only a deal's `id`, as the SDK does, so it accepts every deal that the SDK reads.
#[test]
fn deals_that_are_read_match_the_schema() {
    let schema = schema_validator("Deal");
    let mut checked = 0;
    for case in vectors::<Value>("deals.json", 45) {
        let Some(document) =
            parse_document(&case).filter(|_| case["expect"].get("error").is_none())
        else {
            continue;
        };
        let errors: Vec<_> = schema
            .iter_errors(&document)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", name(&case));
        checked += 1;
    }
    assert!(checked >= 50, "only {checked}");
}

/// `with` sets and `get` reads a field by its name, documented or not.
#[test]
fn every_field_of_the_schema_is_set_and_found_by_its_name() {
    let mut cases = vectors::<Value>("deals.json", 45).into_iter();
    let mut full_deal = cases.find(|case| name(case) == "full").unwrap()["json"].take();
    let (_, fields) = TABLE.iter().find(|(model, _)| *model == "Deal").unwrap();
    assert!(fields.iter().all(|(.., wire)| !full_deal[wire].is_null()));
    full_deal["badge"] = json!({"colour": "gold"});
    let read = Deal::from_json(full_deal.to_string()).unwrap();
    let mut made = Deal::builder().id("another").build();
    for (name, value) in full_deal.as_object().unwrap() {
        assert_eq!(read.get(name), Some(Json::from(value.clone())), "{name}");
        made = made.with(name, value.clone()).unwrap();
    }
    assert_eq!(made, read);
    assert_eq!(made.extra().keys().collect::<Vec<_>>(), ["badge"]);

    for name in ["status", "badge", "nothing"] {
        assert_eq!(
            made.clone().with(name, Value::Null).unwrap().get(name),
            None
        );
    }
    assert_eq!(
        made.clone().with("id", Value::Null).unwrap_err().path(),
        "id"
    );
    assert_eq!(
        made.with("quotes", json!([{"id": 7}])).unwrap_err().path(),
        "quotes[0].id"
    );
    let empty = Offer::default().with("id", Json::string("o_1")).unwrap();
    assert_eq!(empty.id.unwrap(), "o_1");
}

/// The types and JSON names of the table, as another crate sees them.
macro_rules! table {
    ($(
        $(#[doc = $doc:literal])+
        $model:ident {
            $( $(#[doc = $field_doc:literal])+ $presence:ident $show:ident $field:ident: $type:ty = $wire:literal, )+
        }
    )+) => {
        const TABLE: &[(&str, &[(&str, &str, &str, &str)])] = &[$(
            (stringify!($model), &[$( (stringify!($presence), stringify!($show), stringify!($field), $wire) ),+]),
        )+];
    };
}
dealkit::__response_models!(table);

/// Every type in the table has a schema with the same fields, and the schema requires all fields that the table requires.
#[test]
fn the_table_states_the_fields_of_the_schemas() {
    let openapi = openapi();
    let schemas = &openapi["components"]["schemas"];
    for (model, fields) in TABLE {
        let schema = &schemas[model];
        let known: BTreeSet<&str> = fields.iter().map(|(.., wire)| *wire).collect();
        let properties = schema["properties"].as_object().unwrap();
        let properties: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(known, properties, "{model}");
        assert_eq!(known.len(), fields.len(), "{model}");
        for (presence, show, field, wire) in *fields {
            assert_eq!(field.trim_start_matches("r#"), snake_case(wire), "{model}");
            assert!(matches!(*presence, "required" | "optional" | "nullable"));
            assert!(matches!(*show, "brief" | "shown" | "hidden"));
            let required = schema["required"].as_array();
            let required = required.is_some_and(|names| names.contains(&json!(wire)));
            assert!(required || *presence != "required", "{model} {wire}");
        }
    }
    assert_eq!(TABLE.len(), 13);
}

fn snake_case(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        'A'..='Z' => format!("_{}", letter.to_ascii_lowercase()),
        _ => letter.to_string(),
    });
    letters.collect()
}

/// Checks schemas at any depth for constructs that client generators handle wrongly.
#[test]
fn schemas_suit_client_generators() {
    let openapi = openapi();
    let (mut objects, mut moments) = (0, 0);
    let mut remaining: Vec<(String, &Value)> = openapi["components"]["schemas"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, schema)| (name.clone(), schema))
        .collect();
    while let Some((path, schema)) = remaining.pop() {
        // openapi-typescript treats a field with a default as always present.
        assert!(schema.get("default").is_none(), "{path}");
        // The server accepts addresses that are not ASCII, which `email` rejects.
        assert_ne!(schema["format"], "email", "{path}");
        let types = &schema["type"];
        if types == "object" || types[0] == "object" {
            // With both, typescript-fetch sends each field under two names. With neither, openapi-typescript generates an
            // object that cannot have fields.
            let has_properties = schema.get("properties").is_some();
            let has_additional = schema.get("additionalProperties").is_some();
            assert!(has_properties != has_additional, "{path}");
            objects += 1;
        }
        if matches!(schema["format"].as_str(), Some("date" | "date-time")) {
            let time = if schema["format"] == "date" {
                ""
            } else {
                "T00:00:00Z"
            };
            let check = jsonschema::draft202012::new(schema).unwrap();
            let valid = |day: &str| check.is_valid(&json!(format!("{day}{time}")));
            assert!(valid("0001-01-01") && valid("9999-12-31"), "{path}");
            assert!(!valid("0000-12-31"), "{path}");
            moments += 1;
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            remaining.push((format!("{path}.{name}"), field));
        }
        if let Some(items) = schema.get("items") {
            remaining.push((format!("{path}[]"), items));
        }
    }
    assert!(
        objects >= 19 && moments >= 9,
        "{objects} objects, {moments} dates and timestamps"
    );
}

/// Paths, headers, roles, codes and limits are the same in the code and in openapi.json.
#[test]
fn the_code_and_openapi_state_the_same_facts() {
    let openapi = openapi();
    let paths: BTreeSet<String> = openapi["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(|path| format!("{}{path}", wire::API_PREFIX))
        .collect();
    assert_eq!(
        paths,
        BTreeSet::from([wire::AGENTS_PATH.to_owned(), wire::DEAL_PATH.to_owned()])
    );

    let schemes = openapi["components"]["securitySchemes"]
        .as_object()
        .unwrap();
    let scheme = schemes.values().next().unwrap();
    assert_eq!(scheme["name"], wire::SERVICE_KEY_HEADER);
    assert_eq!(scheme["in"], "header");

    let schemas = &openapi["components"]["schemas"];
    let roles = schemas["Role"]["enum"].as_array().unwrap();
    let known: Vec<_> = Role::ALL.iter().map(|role| json!(role)).collect();
    assert_eq!(roles, &known);

    let codes = &schemas["Violation"]["properties"]["code"]["enum"];
    let codes: BTreeSet<&str> = codes
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let known: BTreeSet<&str> = ViolationCode::ALL
        .iter()
        .map(ViolationCode::as_str)
        .filter(|code| *code != "invalid_id") // Only in the SDK.
        .collect();
    assert_eq!(codes, known);

    let name = &schemas["CreateAgent"]["properties"]["first_name"];
    assert_eq!(name["minLength"], dealkit::internal::validate::NAME_MIN);
    assert_eq!(name["maxLength"], dealkit::internal::validate::NAME_MAX);
}
