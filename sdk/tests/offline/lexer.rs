//! Compares the lexer with serde and with the parsers of single values.

use std::fmt::Debug;

use dealkit::{
    Decimal,
    internal::{lexer::*, scalar},
};
use proptest::{prelude::*, sample::select};
use serde_json::value::RawValue;

/// Reads a whole document that consists of one value.
fn whole<'a, T>(document: &'a str, read: impl FnOnce(&mut Lexer<'a>) -> LexResult<T>) -> Option<T> {
    let mut lexer = Lexer::new(document);
    let value = read(&mut lexer).ok()?;
    lexer.expect_end().ok()?;
    Some(value)
}

fn string(document: &str) -> Option<String> {
    whole(document, |lexer| lexer.read_string()).map(|text| text.into_owned())
}

/// What serde_json reads from the same document.
fn by_serde<T: serde::de::DeserializeOwned>(document: &str) -> Option<T> {
    serde_json::from_str(document).ok()
}

#[track_caller]
fn same<T: PartialEq + Debug>(document: &str, lexed: Option<T>, expected: Option<T>) {
    assert_eq!(lexed, expected, "{document:?}");
}

#[test]
fn strings() {
    let bodies = [
        "",
        "a",
        "seven b",
        "eight by",
        "nine byte",
        "what is longer than two words of it",
        "beyond \u{e9} and \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        " !#$[]^\u{a2}\u{dc}",
        "\u{7f}\u{80}\u{e9}",
        "\u{1f600}\u{10ffff}",
        "seven bé",
        "a\nb",
        "long before a \u{1f} control",
        "\0",
        r"\n\r\t\b\f\/\\\u0041",
        r#"plain \" and \"#,
        r"long before \u00e9 and long after",
        r"\ud83d\ude00",
        r"\uD83D\uDE00",
        r"\ud83d",
        r"\ude00",
        r"\ud83d\ud83d",
        r"\ud83d\n",
        r"\ud83dA",
        r"\ude00\ud83d",
        r"\u00",
        r"\u+041",
        r"\u00é",
        r"\u00g0",
        r"\x",
        r"\",
        r"\é",
    ];
    for body in bodies {
        // At every distance from the end of the document, including where no whole word of eight bytes is left.
        for after in 0..10 {
            let document = format!("\"{body}\"{}", " ".repeat(after));
            same(&document, string(&document), by_serde(&document));
            let (open, _) = document.split_at(document.trim_end().len() - 1);
            same(open, string(open), None);
        }
    }
}

#[test]
fn every_character_at_every_place_of_a_word() {
    for c in ('\0'..='\u{ff}').chain(['\u{2022}', '\u{1f622}']) {
        for before in [" ", "!", "#", "[", "]", "a", "\u{7f}", "\u{e9}"] {
            for at in 0..8 {
                let document = format!("\"{}{c}b!]#[\" ,", before.repeat(at));
                let lexed = Lexer::new(&document).read_string().ok();
                let mut values = serde_json::Deserializer::from_str(&document).into_iter();
                let expected: Option<String> = values.next().and_then(Result::ok);
                same(&document, lexed.map(|it| it.into_owned()), expected);
                let text = format!("{}{c}", before.repeat(at));
                let written = serde_json::to_string(&text).unwrap();
                assert_eq!(is_plain(&text), written.len() == text.len() + 2, "{text:?}");
            }
        }
    }
}

#[track_caller]
fn same_numbers(document: &str) {
    let is_json = by_serde::<Box<RawValue>>(document).is_some();
    let lexed = whole(document, |lexer| lexer.read_number());
    same(
        document,
        lexed.map(|it| it.text),
        is_json.then(|| document.trim()),
    );
    let text = document.trim();
    let expected = scalar::parse_integer(text).filter(|_| is_json);
    same(
        document,
        whole(document, |lexer| lexer.read_integer()),
        expected,
    );
    // Compares the texts: `10.10` and `10.1` are equal, and so are the two zeros.
    let expected = scalar::parse_decimal(text).filter(|_| is_json);
    let lexed = whole(document, |lexer| lexer.read_decimal());
    let exact = |it: Decimal| (it.to_string(), it.into_inner().is_sign_negative());
    same(document, lexed.map(exact), expected.map(exact));
}

#[track_caller]
fn same_days_and_moments(text: &str) {
    for document in [format!("\"{text}\""), format!(" \"{text}\" ")] {
        let lexed = whole(&document, |lexer| lexer.read_date());
        same(&document, lexed, scalar::parse_date(text));
        let lexed = whole(&document, |lexer| lexer.read_timestamp());
        same(&document, lexed, scalar::parse_timestamp(text));
    }
}

proptest! {
    #[test]
    fn any_string(text: String) {
        let document = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(is_plain(&text), document.len() == text.len() + 2);
        prop_assert_eq!(string(&document), Some(text));
    }

    #[test]
    fn any_number(number in "[-+]?[0-9]{0,22}([.][0-9]{0,22})?([eE][+-]?[0-9]{0,3})?") {
        same_numbers(&number);
        same_numbers(&format!(" {number}\n"));
    }

    #[test]
    fn any_day(
        day in "[0-9]{4}-[01][0-9]-[0-3][0-9]|(0000|0001|1900|2000|2023|9999)-(02-29|12-31)|[+]?[0-9]{3,5}[-/][0-9]{1,2}-[0-9]{1,3}",
    ) {
        same_days_and_moments(&day);
    }

    #[test]
    fn any_moment(
        day in "[0-9]{4}-(0[1-9]|1[0-2])-[0-2][0-9]",
        separator in select(vec!['T', 't', ' ']),
        time in "[0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.][0-9]{0,11})?",
        zone in "Z|z||[+-][0-2][0-9]:[0-6][0-9]",
    ) {
        same_days_and_moments(&format!("{day}{separator}{time}{zone}"));
    }
}
