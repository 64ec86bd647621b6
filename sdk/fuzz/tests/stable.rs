//! Runs the fuzz targets without a fuzzer: on the contract's vectors, on arbitrary bytes, and on nearly valid documents. `make fuzz`
//! runs them for longer.

use std::fmt;

use dealkit_fuzz::{TARGETS, Target, corpus};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, TestRunner},
};

/// Fragments with a meaning in the input of some target.
const FRAGMENTS: [&str; 32] = [
    "",
    "null",
    "true",
    "0",
    "-0",
    "-0.0",
    "1e400",
    "10.10",
    "1.50e1",
    "450000.0",
    "9223372036854775808",
    "\"\"",
    "\"\\ud800\"",
    "\"\\u0041\"",
    "\"\u{1f600}\"",
    "[]",
    "{}",
    "[{}]",
    "{\"\":null}",
    ",",
    ":",
    "\"",
    "\n",
    " ",
    "%2F",
    "%zz",
    "/",
    "..",
    "\u{feff}",
    "2024-02-29",
    "2024-01-01T00:00:00Z",
    "+15550100",
];

/// An input of a target, which a failure shows as text.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[derive(Clone, Debug)]
enum Edit {
    /// Replaces this many bytes at this position.
    Replace(Index, usize, Vec<u8>),
    /// Replaces the value between the nearest separators around this position.
    Swap(Index, &'static str),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let fragment = || select(&FRAGMENTS[..]);
    let bytes = prop_oneof![
        vec(any::<u8>(), 0..3),
        fragment().prop_map(|fragment| fragment.as_bytes().to_vec()),
    ];
    prop_oneof![
        3 => (at(), 0..12_usize, bytes).prop_map(|(at, length, by)| Edit::Replace(at, length, by)),
        4 => (at(), fragment()).prop_map(|(at, fragment)| Edit::Swap(at, fragment)),
    ]
}

fn apply(edit: &Edit, input: &mut Vec<u8>) {
    let position = |at: &Index, input: &[u8]| at.index(input.len() + 1);
    match edit {
        Edit::Replace(at, length, by) => {
            let at = position(at, input);
            let end = (at + length).min(input.len());
            input.splice(at..end, by.iter().copied());
        }
        Edit::Swap(at, fragment) => {
            let at = position(at, input);
            let separates = |byte: &u8| b"[]{},:\n ".contains(byte);
            let start = input[..at].iter().rposition(separates);
            let start = start.map_or(0, |found| found + 1);
            let end = input[at..].iter().position(separates);
            let end = end.map_or(input.len(), |found| at + found);
            input.splice(start..end, fragment.bytes());
        }
    }
}

/// Generates JSON documents with fields that the target knows, in any order and of any type.
fn nearly_valid(names: Vec<String>) -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        4 => select(&FRAGMENTS[1..18]).prop_map(str::to_owned),
        2 => any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        2 => "-?(0|[1-9][0-9]{0,30})([.][0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        1 => "[0-9]{4}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]([.][0-9]{1,10})?(Z|[+-][0-2][0-9]:[0-5][0-9])?)?"
            .prop_map(|text| format!("\"{text}\"")),
    ];
    let name = select(names);
    value
        .prop_recursive(4, 40, 8, move |inner| {
            prop_oneof![
                3 => vec((name.clone(), inner.clone()), 0..8).prop_map(|fields| {
                    let fields: Vec<String> = fields
                        .into_iter()
                        .map(|(name, value)| format!("{}: {value}", serde_json::Value::from(name)))
                        .collect();
                    format!("{{{}}}", fields.join(", "))
                }),
                1 => vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
            ]
        })
        .prop_map(String::into_bytes)
}

/// Runs a target on its vectors, then on `cases` inputs of each kind.
fn run_target(target: &str, cases: u32) {
    let run: Target = TARGETS.iter().find(|(name, _)| *name == target).unwrap().1;
    let inputs: Vec<Vec<u8>> = corpus::inputs(target)
        .into_iter()
        .map(|(_, input)| input)
        .collect();
    for input in &inputs {
        run(input);
    }
    // Do not store failures: a failing input becomes a vector.
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let bytes = vec(any::<u8>(), 0..200);
    let mutants = (any::<Index>(), vec(edit(), 1..5)).prop_map(|(input, edits)| {
        let mut input = input.get(&inputs).clone();
        for edit in &edits {
            apply(edit, &mut input);
        }
        input
    });
    let nearly_valid = nearly_valid(corpus::tokens(target));
    let input = prop_oneof![1 => bytes, 1 => nearly_valid, 3 => mutants].prop_map(Input);
    TestRunner::new(config)
        .run(&input, |input| {
            run(&input.0);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{target}: {error}"));
}

#[test]
fn any_document_by_both_readers() {
    run_target("readers", 3_000);
}

#[test]
fn any_agent_to_create() {
    run_target("create_agent", 800);
}

#[test]
fn any_identifier() {
    run_target("identifier", 1_000);
}

#[test]
fn any_request() {
    run_target("request", 1_500);
}
