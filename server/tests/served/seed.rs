//! Initial deals: files in both formats, generated deals, and the positions in error messages.

use std::{collections::BTreeSet, fs};

use crate::support::{
    AGENT, KEY, build_request, create, handle, process::Running, retrieve_deal, send,
};
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
fn all_invalid_deals_are_reported_together() {
    let deals_file = file("{}\n".repeat(23) + r#"{"id":"x"}"#);
    let sandbox = Sandbox::builder()
        .deals_file(deals_file.path())
        .deals_file("/no/such/file")
        .start();
    let message = sandbox.unwrap_err().to_string();
    let lines: Vec<_> = message.lines().collect();
    let path = deals_file.path().display();
    assert_eq!(lines.len(), 22);
    assert_eq!(lines[0], "24 errors in the deals:");
    assert_eq!(
        lines[20],
        format!("  {path}: line 20: /id: a required field is missing")
    );
    assert_eq!(lines[21], "  4 more");
}

#[test]
fn deals_can_be_saved_and_reloaded() {
    let first = r#"{"id":"x","application":{"requested_amount":10.10,  "later":1.0e2}}"#;
    let deals_file = file(format!("[{first}]"));
    let sandbox = Sandbox::builder()
        .deals_file(deals_file.path())
        .generate(1_001, 7)
        .start()
        .unwrap();
    let second = "{ \"id\" :\n\"y\" }";
    sandbox.insert_deal(second).unwrap();
    create(&sandbox, AGENT);
    // An exact copy, which the server can load.
    let copy = NamedTempFile::new().unwrap();
    sandbox.save_deals(copy.path()).unwrap();
    let copied = Sandbox::builder().deals_file(copy.path()).start().unwrap();
    for (id, text) in [
        ("x", first),
        ("y", second),
        ("g_1000", &*generate::deal(1_000, 7)),
    ] {
        assert_eq!(retrieve_deal(&copied, id).body, text);
    }
    let saved = fs::read_to_string(&copy).unwrap();
    assert!(saved.contains(&format!(",\n{first},\n{second}\n]\n")));

    // A reload replaces all deals, and nothing else.
    let third = r#"{"id":"x","status":"NEW","n":1.50}"#;
    fs::write(&deals_file, third).unwrap();
    sandbox.reload_deals().unwrap();
    let statuses = ["x", "y", "g_1000"].map(|id| retrieve_deal(&sandbox, id).status);
    assert_eq!(statuses, [200, 404, 200]);
    assert_eq!(retrieve_deal(&sandbox, "x").body, third);
    assert_eq!(sandbox.agents().len(), 1);
    sandbox.insert_deal(r#"{"id":"x"}"#).unwrap();
    sandbox.reset();
    assert_eq!(retrieve_deal(&sandbox, "x").body, third);

    // An invalid file changes nothing.
    fs::write(
        &deals_file,
        r#"[{"id":"z"}, {"id":"y","sides":[{"side_percentage":"x"}]}, {}]"#,
    )
    .unwrap();
    let message = sandbox.reload_deals().unwrap_err().to_string();
    let path = deals_file.path().display();
    assert_eq!(
        message,
        format!(
            "2 errors in the deals:\n  {path}: index 1: /sides/0/side_percentage: expected a decimal number of at most 28 digits, found a string\n  \
             {path}: index 2: /id: a required field is missing"
        )
    );
    assert_eq!(retrieve_deal(&sandbox, "x").body, third);
    assert_eq!(retrieve_deal(&sandbox, "z").status, 404);

    let error = Sandbox::builder()
        .start()
        .unwrap()
        .reload_deals()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no file of deals to reload: start the sandbox with one"
    );
    let error = sandbox
        .save_deals("/no/such/folder/deals.json")
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

/// A reload applies to the caller's namespace. A reload with the service key also determines the deals of later namespaces.
#[test]
fn a_reload_applies_to_a_namespace() {
    let deals_file = file(r#"{"id":"old"}"#);
    let builder = Sandbox::builder().deals_file(deals_file.path());
    let builder = builder.namespaces("test-*").max_store_bytes(1_000);
    let service = builder.service().unwrap();
    let ask = |key: &str, method: &str, path: &str| {
        let request = build_request(method, &format!("http://localhost{path}"), key);
        handle(&service, request, "")
    };
    let has = |key: &str, id: &str| ask(key, "GET", &format!("/v1/deals/{id}")).status == 200;
    let reload = |key: &str| ask(key, "POST", "/__sandbox/reload");
    assert!(has("test-1", "old") && has("test-2", "old"));
    fs::write(&deals_file, r#"{"id":"new"}"#).unwrap();
    assert_eq!(reload("test-1").status, 204);
    assert!(has("test-1", "new") && !has("test-1", "old"));
    assert!(has("test-2", "old") && has("test-3", "old") && has(KEY, "old"));
    assert_eq!(reload(KEY).status, 204);
    assert!(has(KEY, "new") && has("test-4", "new") && has("test-2", "old"));
    // Reloaded deals count towards the memory limit of the stores, except for the service key.
    fs::write(
        &deals_file,
        format!(r#"{{"id":"large","status":"{}"}}"#, "x".repeat(1_000)),
    )
    .unwrap();
    assert_eq!(reload("test-1").status, 507);
    assert!(has("test-1", "new"));
    assert_eq!(reload(KEY).status, 204);
    fs::write(&deals_file, "{}").unwrap();
    let rejected = reload(KEY);
    let problem = rejected.value();
    let detail = problem["detail"].as_str().unwrap();
    let expected = format!(
        "{}: line 1: /id: a required field is missing",
        deals_file.path().display()
    );
    assert_eq!((rejected.status, detail), (409, &*expected));
    assert!(has(KEY, "large"));
}

#[test]
fn deals_can_be_downloaded_as_a_file() {
    let deals = [
        r#"{"id": "b", "x": 1.10}"#,
        r#"{"id":"a"}"#,
        r#"{"id":"c"}"#,
    ];
    let service = Sandbox::builder().deals(deals).service().unwrap();
    let get = |query: &str| {
        let path = format!("http://localhost/__sandbox/deals.json{query}");
        handle(&service, build_request("GET", &path, KEY), "")
    };
    for (query, expected) in [
        (
            "",
            "[\n{\"id\":\"a\"},\n{\"id\": \"b\", \"x\": 1.10},\n{\"id\":\"c\"}\n]\n",
        ),
        ("?limit=1", "[\n{\"id\":\"a\"}\n]\n"),
        ("?limit=2&after=b", "[\n{\"id\":\"c\"}\n]\n"),
        ("?after=c", "[]\n"),
    ] {
        let response = get(query);
        response.check_invariants(query, false);
        assert_eq!(
            (response.status, response.body),
            (200, expected.into()),
            "{query}"
        );
    }
    for id in 0..70 {
        let deal = format!(r#"{{"id":"e_{id}","status":"{}"}}"#, "x".repeat(1 << 20));
        service.insert_deal(deal).unwrap();
    }
    let rejected = get("");
    assert_eq!(rejected.status, 400);
    assert!(
        rejected.value()["detail"]
            .as_str()
            .unwrap()
            .contains("?after=ID")
    );
    assert_eq!(
        get("?limit=1000&after=c").value().as_array().unwrap().len(),
        1
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
