//! Initial deals: files in both formats, generated deals, and the positions in error messages.

use std::{collections::BTreeSet, fs};

use crate::support::{KEY, build_request, handle, process::Running, retrieve_deal, send};
use bytes::Bytes;
use dealkit::{
    Deal,
    internal::schema::{FieldKind, Model},
};
use dealkit_server::{Sandbox, SeedDeal, Service, generate};
use tempfile::NamedTempFile;

/// Creates a temporary file.
fn file(content: impl AsRef<[u8]>) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, content).unwrap();
    file
}

fn served_json(service: &Service, id: &str) -> Option<Bytes> {
    let request = build_request("GET", &format!("/v1/deals/{id}"), KEY);
    let response = handle(service, request, "");
    (response.status == 200).then_some(response.body)
}

/// Returns the error message for a file with this content.
fn error_message(content: impl AsRef<[u8]>) -> String {
    let file = file(content);
    let error = Sandbox::builder()
        .deals_file(file.path())
        .start()
        .unwrap_err()
        .to_string();
    let path = file.path().display().to_string();
    error
        .strip_prefix(&path)
        .unwrap_or_else(|| panic!("the file is not named first: {error}"))
        .to_owned()
}

#[test]
fn both_file_formats_are_served_byte_for_byte() {
    let first = r#"{"id":"x","application":{"requested_amount":10.10,  "later":1.0e2}}"#;
    let second = r#"{ "id" : "y" }"#;
    for content in [
        format!("\n[{first} , {second}]\n"),
        format!("{first}\r\n\n{second}"),
        format!("\u{feff}[{first}, {second}]"),
        format!("\u{feff}{first}\n{second}"),
    ] {
        let file = file(content);
        let sandbox = Sandbox::builder().deals_file(file.path()).start().unwrap();
        for (id, text) in [("x", first), ("y", second)] {
            assert_eq!(retrieve_deal(&sandbox, id).body, text);
        }
        assert_eq!(
            retrieve_deal(&sandbox, "d_1").status,
            404,
            "the samples are replaced"
        );
    }
}

#[test]
fn errors_contain_the_position() {
    let good = r#"{"id":"x"}"#;
    let bad = r#"{"id":"y","application":{"offers":[{},{"expiry_date_time":"soon"}]}}"#;
    for (content, expected) in [
        (
            format!("[{good},{bad}]"),
            ": index 1: /application/offers/1/expiry_date_time: expected",
        ),
        (
            format!("{good}\n\n{bad}"),
            ": line 3: /application/offers/1/expiry_date_time: expected",
        ),
        (
            format!("[{good},{good}]"),
            ": index 1: /id: another deal already has this id",
        ),
        (
            format!("{good}\n{good}"),
            ": line 2: /id: another deal already has this id",
        ),
        (
            "[{\"id\":\"x\"},\n {\"id\":]".to_owned(),
            ": is not strict JSON: expected a value at line 2 column 8",
        ),
        (
            format!("{good}\n{{\"id\":\"y\",\"id\":\"z\"}}"),
            ": line 2: is not strict JSON: a key that this object already has at line 1 column 11",
        ),
        (
            "[{}]".to_owned(),
            ": index 0: /id: a required field is missing",
        ),
        ("[3]".to_owned(), ": index 0: expected"),
        ("{\n  \"id\": 1\n}\n".to_owned(), ": line 1: /id: expected"),
        (" \n".to_owned(), ": is empty"),
        (
            // The first byte order mark is skipped, because editors on Windows write it.
            "\u{feff}\u{feff}[]".to_owned(),
            ": line 1: is not strict JSON: a byte order mark",
        ),
    ] {
        let message = error_message(content);
        assert!(message.starts_with(expected), "{expected}{message}");
        assert!(!message.contains("soon"), "{message}");
    }
    assert!(
        error_message(b"{\"id\":\"x\"}\n{\"id\":\"\xff\"}")
            .starts_with(": line 2: is not strict JSON: a byte")
    );
    let missing = Sandbox::builder()
        .deals_file("/no/such/file")
        .start()
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("/no/such/file: cannot be read: "),
        "{missing}"
    );
}

#[test]
fn deals_can_be_strings_values_and_deals() {
    let deal = Deal::from_json(br#"{"id":"c"}"#).unwrap();
    let seeds: [SeedDeal; 3] = [
        r#"{"id":"a"}"#.into(),
        serde_json::json!({"id": "b"}).into(),
        deal.into(),
    ];
    let service = Sandbox::builder().deals(seeds).service().unwrap();
    for id in ["a", "b", "c"] {
        assert!(served_json(&service, id).is_some(), "{id}");
    }
    let error = Sandbox::builder()
        .deals(["{}"])
        .service()
        .unwrap_err()
        .to_string();
    assert_eq!(error, "index 0: /id: a required field is missing");
    assert!(service.insert_deal("[]").is_err());
    service.insert_deal(r#"{"id":"a","status":"NEW"}"#).unwrap();
    assert_eq!(
        served_json(&service, "a").unwrap(),
        r#"{"id":"a","status":"NEW"}"#
    );
}

#[test]
fn samples_have_every_field_or_few() {
    let samples = SeedDeal::samples();
    assert_eq!(samples.len(), 3);
    let service = Sandbox::builder().deals(samples).service().unwrap();
    assert_complete(&served_json(&service, "d_1").unwrap());
    assert!(served_json(&service, "d_2").is_some() && served_json(&service, "d_3").is_some());
    let showpiece = String::from_utf8(served_json(&service, "d_1").unwrap().to_vec()).unwrap();
    assert!(showpiece.contains("\"percent_of_commission\": 10.10,"));
    let deal = Deal::from_json(showpiece.as_bytes()).unwrap();
    assert!(deal.quotes.len() == 2 && deal.application.unwrap().offers.len() == 2);
}

/// Returns true if the value has exactly the model's fields, and none is null.
fn is_complete(value: &serde_json::Value, model: &Model) {
    let object = value.as_object().unwrap();
    let names = BTreeSet::from_iter(object.keys().map(String::as_str));
    let expected = model.fields.iter().map(|field| field.wire);
    assert_eq!(names, expected.collect(), "{}", model.name);
    for field in model.fields {
        let value = &object[field.wire];
        match field.kind {
            FieldKind::Model(model) => is_complete(value, model),
            FieldKind::ModelList(model) => {
                let items = value.as_array().unwrap();
                assert!(!items.is_empty(), "{}", field.wire);
                items.iter().for_each(|item| is_complete(item, model));
            }
            _ => assert!(!value.is_null(), "{}", field.wire),
        }
    }
}

fn assert_complete(deal: &[u8]) {
    is_complete(&serde_json::from_slice(deal).unwrap(), Deal::SCHEMA);
}

#[test]
fn generated_deals_are_valid() {
    let seeds = (0..500).map(|index| SeedDeal::from(generate::deal(index, 7)));
    let service = Sandbox::builder().deals(seeds).service().unwrap();
    for index in 0..500 {
        let text = served_json(&service, &generate::id(index)).unwrap();
        assert_eq!(text, generate::deal(index, 7));
        assert_complete(&text);
        Deal::from_json(&text).unwrap();
    }
}

/// Generated deals must never change, because users' tests may contain their values.
#[test]
fn generated_deals_never_change() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for index in 0..100 {
        for byte in generate::deal(index, 42).bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    assert_eq!(
        hash, HASH_OF_THE_FIRST_100,
        "FNV-1a of the deals of seed 42"
    );
}

const HASH_OF_THE_FIRST_100: u64 = 18_102_182_122_274_351_732;

#[test]
fn generated_deals_can_be_combined_with_a_file() {
    let deals_file = file(r#"[{"id":"x"}]"#);
    let sandbox = Sandbox::builder()
        .deals_file(deals_file.path())
        .generate(2, 1)
        .start()
        .unwrap();
    for (id, status) in [
        ("x", 200),
        ("g_0", 200),
        ("g_1", 200),
        ("g_2", 404),
        ("d_1", 404),
    ] {
        assert_eq!(retrieve_deal(&sandbox, id).status, status, "{id}");
    }
    let clash = file(r#"[{"id":"g_1"}]"#);
    let error = Sandbox::builder()
        .deals_file(clash.path())
        .generate(2, 1)
        .start()
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "generated deal 1: /id: another deal already has this id"
    );
    let error = Sandbox::builder().generate(usize::MAX, 0).start();
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "generate: expected at most 1000000 deals");
}

/// The server stores the ids of generated deals, but not the JSON of most, which would use five gigabytes for a million.
#[cfg(target_os = "linux")]
#[test]
fn many_generated_deals_take_little_memory() {
    let server = Running::quiet(&["--generate", "200000", "--seed", "7"]);
    for index in [0, 999, 1_000, 199_999] {
        let expected = generate::deal(index, 7);
        assert_eq!(retrieve_deal(&server, &generate::id(index)).body, expected);
    }
    assert_eq!(retrieve_deal(&server, "g_200000").status, 404);
    let page = "GET /__sandbox/deals?limit=3&after=g_199998 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let page = send(&server, page).value();
    let ids = page["deals"].as_array().unwrap().iter();
    let ids: Vec<_> = ids.map(|deal| deal["id"].as_str().unwrap()).collect();
    // In byte order.
    assert_eq!(ids, ["g_199999", "g_2", "g_20"]);
    let taken = server.memory("VmHWM");
    assert!(taken < 256 << 20, "{} MiB", taken >> 20);
}
