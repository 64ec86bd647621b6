//! Strict JSON: the rejected texts with their positions, and agreement with serde_json on all others.

use std::sync::LazyLock;

use crate::support::{agent_cases, vectors::bytes};
use dealkit_server::json;
use proptest::prelude::*;
use serde_json::value::RawValue;

#[test]
fn rejected_texts_have_reasons_and_positions() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let too_deep = format!("{{\"a\":\n{}}}", nested(128));
    let cases: &[(&[u8], (usize, usize), &str)] = &[
        (b"", (1, 1), "the text ends early"),
        (b" \n ", (2, 2), "the text ends early"),
        (b"\xef\xbb\xbf{}", (1, 1), "a byte order mark"),
        (b"[1, \xff]", (1, 5), "a byte that is not UTF-8"),
        ("[\"é\", x]".as_bytes(), (1, 7), "expected a value"),
        (
            b"{\"a\":1,\n \"a\":2}",
            (2, 2),
            "a key that this object already has",
        ),
        (
            b"{\"a\":1,\"\\u0061\":2}",
            (1, 8),
            "a key that this object already has",
        ),
        (
            b"{\"b\":{\"a\":1,\"a\":1}}",
            (1, 13),
            "a key that this object already has",
        ),
        (b"{} {}", (1, 4), "more text after the value"),
        (b"[1,]", (1, 4), "a comma before the closing bracket"),
        (b"[\"\\ud800\"]", (1, 2), "an unpaired surrogate"),
        (b"[\"\\ud800\\u0041\"]", (1, 2), "an unpaired surrogate"),
        (b"[\"\\udc00\\ud800\"]", (1, 2), "an unpaired surrogate"),
        (b"[\"\\u00g0\"]", (1, 8), "an invalid escape in a string"),
        (b"[\"\\x\"]", (1, 4), "an invalid escape in a string"),
        (
            b"[\"a\tb\"]",
            (1, 3),
            "a control character in a string: write it as an escape, such as \\n",
        ),
        (b"[tru]", (1, 5), "expected true or false"),
        (b"[-]", (1, 3), "an invalid number"),
        (b"[1.e5]", (1, 4), "an invalid number"),
        (b"[1 2]", (1, 4), "expected a comma or the closing bracket"),
        (b"{\"a\" 1}", (1, 6), "expected a colon after the name"),
        (b"{\"a\":1,}", (1, 8), "a comma before the closing brace"),
        (b"{a:1}", (1, 2), "expected a name in double quotes"),
        (
            b"[\"a\0",
            (1, 3),
            "a control character in a string: write it as an escape, such as \\n",
        ),
        (b"[\0", (1, 2), "expected a value"),
        (b"[1]\0", (1, 4), "more text after the value"),
        (b"[01]", (1, 3), "an invalid number"),
        (b"[NaN]", (1, 2), "expected a value"),
        (b"{\"a\":", (1, 6), "the text ends early"),
        (
            too_deep.as_bytes(),
            (2, 128),
            "more than 128 levels of arrays and objects",
        ),
    ];
    let wrong = cases.iter().filter_map(|(text, position, reason)| {
        let shown = String::from_utf8_lossy(text);
        let error = json::check(text).expect_err(&shown);
        let expected = format!("{reason} at line {} column {}", position.0, position.1);
        (error.to_string() != expected).then(|| format!("{shown}: {error}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
    assert!(json::check(nested(128).as_bytes()).is_ok());
    assert!(json::check(b" {\"a\":[{\"a\":1},{\"a\":1}],\"b\":\"\\ud83d\\ude00\"}\n").is_ok());
}

#[test]
fn many_keys_take_linear_time_and_are_all_compared() {
    let keys: Vec<String> = (0..100_000).map(|key| format!("\"k{key}\":0")).collect();
    assert!(json::check(format!("{{{}}}", keys.join(",")).as_bytes()).is_ok());
    for twice in [0, 31, 32, 33, 99_999] {
        let text = format!("{{{},\"k{twice}\":1}}", keys.join(","));
        assert!(json::check(text.as_bytes()).is_err(), "{twice}");
    }
}

/// The reasons for which strict validation rejects JSON that serde_json accepts.
const STRICTER: [&str; 3] = [
    "a key that this object already has",
    "an unpaired surrogate",
    "more than 128 levels of arrays and objects",
];

fn agrees(text: &[u8]) -> Result<(), TestCaseError> {
    let lenient = serde_json::from_slice::<&RawValue>(text).is_ok();
    match json::check(text) {
        Ok(_) => prop_assert!(
            lenient,
            "only the strict reader takes {:?}",
            String::from_utf8_lossy(text)
        ),
        Err(error) => prop_assert!(
            !lenient
                || STRICTER
                    .iter()
                    .any(|reason| error.to_string().starts_with(reason)),
            "refused for {error}: {:?}",
            String::from_utf8_lossy(text)
        ),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn agrees_on_damaged_json(case in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        static BODIES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| agent_cases().iter().map(bytes).collect());
        let mut bytes = BODIES[case.index(BODIES.len())].clone();
        agrees(&bytes)?;
        let at = at.index(bytes.len().max(1));
        if cut { bytes.truncate(at) } else if let Some(damaged) = bytes.get_mut(at) { *damaged = byte }
        agrees(&bytes)?;
    }

    #[test]
    fn agrees_on_soup(text in r#"[\[\]{},: \\"0-9a-fnrtu.+\-eE]{0,24}"#) {
        agrees(text.as_bytes())?;
    }
}
