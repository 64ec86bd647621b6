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
    let cases: &[(&[u8], (usize, usize))] = &[
        (b"", (1, 1)),
        (b" \n ", (2, 2)),
        (b"\xef\xbb\xbf{}", (1, 1)),
        (b"[1, \xff]", (1, 5)),
        ("[\"é\", x]".as_bytes(), (1, 7)),
        (b"{\"a\":1,\n \"a\":2}", (2, 2)),
        (b"{\"a\":1,\"\\u0061\":2}", (1, 8)),
        (b"{\"b\":{\"a\":1,\"a\":1}}", (1, 13)),
        (b"{} {}", (1, 4)),
        (b"[1,]", (1, 4)),
        (b"[\"\\ud800\"]", (1, 2)),
        (b"[\"\\ud800\\u0041\"]", (1, 2)),
        (b"[\"\\udc00\\ud800\"]", (1, 2)),
        (b"[\"\\u00g0\"]", (1, 8)),
        (b"[\"\\x\"]", (1, 4)),
        (b"[\"a\tb\"]", (1, 3)),
        (b"[tru]", (1, 5)),
        (b"[-]", (1, 3)),
        (b"[1.e5]", (1, 4)),
        (b"[1 2]", (1, 4)),
        (b"{\"a\" 1}", (1, 6)),
        (b"{\"a\":1,}", (1, 8)),
        (b"{a:1}", (1, 2)),
        (b"[\"a\0", (1, 3)),
        (b"[\0", (1, 2)),
        (b"[1]\0", (1, 4)),
        (b"[01]", (1, 3)),
        (b"[NaN]", (1, 2)),
        (b"{\"a\":", (1, 6)),
        (too_deep.as_bytes(), (2, 128)),
    ];
    let wrong = cases.iter().filter_map(|(text, place)| {
        let shown = String::from_utf8_lossy(text);
        let error = json::check(text).expect_err(&shown);
        let at = format!(" at line {} column {}", place.0, place.1);
        (!error.to_string().ends_with(&at)).then(|| format!("{shown}: {error}"))
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
