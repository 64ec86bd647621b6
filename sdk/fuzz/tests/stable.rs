//! The fuzz bodies without a fuzzer: the contract's vectors, arbitrary bytes, and documents that are nearly right.
//! `make fuzz` goes on from here.

use std::fmt;

use dealkit_fuzz::{Body, TARGETS, corpus};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, TestRunner},
};

/// Bytes that mean something to one of the readers.
const PIECES: [&str; 32] = [
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

/// Shown as text when it fails.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[derive(Clone, Debug)]
enum Edit {
    /// Put these bytes here, in place of this many.
    Replace(Index, usize, Vec<u8>),
    /// Put a value here, in place of the one between the nearest separators.
    Swap(Index, &'static str),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let piece = || select(&PIECES[..]);
    let bytes = prop_oneof![
        vec(any::<u8>(), 0..3),
        piece().prop_map(|piece| piece.as_bytes().to_vec()),
    ];
    prop_oneof![
        3 => (at(), 0..12_usize, bytes).prop_map(|(at, length, by)| Edit::Replace(at, length, by)),
        4 => (at(), piece()).prop_map(|(at, piece)| Edit::Swap(at, piece)),
    ]
}

fn apply(edit: &Edit, input: &mut Vec<u8>) {
    let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
    match edit {
        Edit::Replace(at, length, by) => {
            let at = place(at, input);
            let end = (at + length).min(input.len());
            input.splice(at..end, by.iter().copied());
        }
        Edit::Swap(at, piece) => {
            let at = place(at, input);
            let separates = |byte: &u8| b"[]{},:\n ".contains(byte);
            let start = input[..at].iter().rposition(separates);
            let start = start.map_or(0, |found| found + 1);
            let end = input[at..].iter().position(separates);
            let end = end.map_or(input.len(), |found| at + found);
            input.splice(start..end, piece.bytes());
        }
    }
}

/// A JSON document with fields that the target knows, in any order and of any type.
fn nearly(words: Vec<String>) -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        4 => select(&PIECES[1..18]).prop_map(str::to_owned),
        2 => any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        2 => "-?(0|[1-9][0-9]{0,30})([.][0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        1 => "[0-9]{4}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]([.][0-9]{1,10})?(Z|[+-][0-2][0-9]:[0-5][0-9])?)?"
            .prop_map(|text| format!("\"{text}\"")),
    ];
    let name = select(words);
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
fn drive(target: &str, cases: u32) {
    let body: Body = TARGETS.iter().find(|(name, _)| *name == target).unwrap().1;
    let inputs: Vec<Vec<u8>> = corpus::inputs(target)
        .into_iter()
        .map(|(_, input)| input)
        .collect();
    for input in &inputs {
        body(input);
    }
    // Keeping the same failure is of no use: whatever is found becomes a vector.
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
    let nearly = nearly(corpus::words(target));
    let input = prop_oneof![1 => bytes, 1 => nearly, 3 => mutants].prop_map(Input);
    TestRunner::new(config)
        .run(&input, |input| {
            body(&input.0);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{target}: {error}"));
}

#[test]
fn any_document_by_both_readers() {
    drive("readers", 3_000);
}

#[test]
fn any_agent_to_create() {
    drive("create_agent", 800);
}

#[test]
fn any_identifier() {
    drive("identifier", 1_000);
}

#[test]
fn any_request() {
    drive("request", 1_500);
}
