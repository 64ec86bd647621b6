//! The contract's data is consistent: openapi.json with the vectors, and the models with both.

use std::collections::BTreeSet;

use dealkit::{Deal, Json, Offer, Role, ViolationCode, internal::wire};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::vectors::{bytes, contract, name, vectors};

fn openapi() -> Value {
    serde_json::from_str(contract("openapi.json")).unwrap()
}

fn schema(of: &str) -> Validator {
    let openapi = openapi();
    let root = json!({
        "$ref": format!("#/components/schemas/{of}"),
        "components": openapi["components"],
    });
    jsonschema::draft202012::new(&root).unwrap()
}

/// The document of a case, if a plain JSON parser can read it.
fn document(case: &Value) -> Option<Value> {
    serde_json::from_slice(&bytes(case)).ok()
}

#[test]
fn requests_and_responses_match_the_schema() {
    let (request, agent) = (schema("CreateAgent"), schema("Agent"));
    let (mut accepted, mut refused) = (0, 0);
    for case in vectors::<Value>("create_agent.json", 90) {
        let expect = &case["expect"];
        let Some(body) = document(&case) else {
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
            422 if schema_can_judge(expect) => {
                assert!(!request.is_valid(&body), "{}", name(&case));
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(
        accepted >= 30 && refused >= 40,
        "{accepted} accepted, {refused} refused"
    );
}

/// Formats are only annotations in JSON Schema, and closed sets of fields come only with `--strict`.
fn schema_can_judge(expect: &Value) -> bool {
    expect["errors"].as_array().unwrap().iter().any(|error| {
        !matches!(
            error[1].as_str().unwrap(),
            "invalid_email" | "invalid_url" | "invalid_date" | "unknown_field"
        )
    })
}

/// Of a deal, the schema requires nothing but its `id`, so whatever the SDK reads matches the schema.
#[test]
fn deals_that_are_read_match_the_schema() {
    let schema = schema("Deal");
    let mut checked = 0;
    for case in vectors::<Value>("deals.json", 45) {
        let Some(document) = document(&case).filter(|_| case["expect"].get("error").is_none())
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

/// A field is set and found by its name, whether this version knows it or not.
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

/// The types and wire names of the table, as another crate reads it.
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

/// Every type in the table is a schema with the same fields, and whatever the table requires, the schema requires too.
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

/// Things that client generators trip over, in schemas at any depth.
#[test]
fn generated_clients_come_out_right() {
    let openapi = openapi();
    let (mut objects, mut moments) = (0, 0);
    let mut left: Vec<(String, &Value)> = openapi["components"]["schemas"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, schema)| (name.clone(), schema))
        .collect();
    while let Some((place, schema)) = left.pop() {
        // openapi-typescript treats a field with a default as always present.
        assert!(schema.get("default").is_none(), "{place}");
        // The server accepts addresses that are not ASCII, which `email` rejects.
        assert_ne!(schema["format"], "email", "{place}");
        let types = &schema["type"];
        if types == "object" || types[0] == "object" {
            // With both, typescript-fetch sends each field under two names; with neither, the object of
            // openapi-typescript can have no fields at all.
            let stated = schema.get("properties").is_some();
            let open = schema.get("additionalProperties").is_some();
            assert!(stated != open, "{place}");
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
            assert!(valid("0001-01-01") && valid("9999-12-31"), "{place}");
            assert!(!valid("0000-12-31"), "{place}");
            moments += 1;
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            left.push((format!("{place}.{name}"), field));
        }
        if let Some(items) = schema.get("items") {
            left.push((format!("{place}[]"), items));
        }
    }
    assert!(
        objects >= 19 && moments >= 9,
        "{objects} objects, {moments} dates and timestamps"
    );
}

/// Facts that are both in the code and in openapi.json are the same in both.
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
