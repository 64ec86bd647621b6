//! Many documents: as an array, and one per line.

use std::io::{self, BufReader, Read};

use dealkit::{Agent, Deal, LineError, document};

/// The result for each item: an id, or the text of the error.
fn read(text: impl AsRef<[u8]>) -> Vec<Result<String, String>> {
    Deal::from_json_lines(text.as_ref())
        .map(|item| match item {
            Ok(deal) => Ok(deal.id.to_string()),
            Err(error) => Err(error.to_string()),
        })
        .collect()
}

fn ids(ids: &[&str]) -> Vec<Result<String, String>> {
    ids.iter().map(|id| Ok((*id).to_owned())).collect()
}

#[test]
fn an_array_is_a_list_of_deals() {
    let deals = Deal::list_from_json(
        r#"[{"id": "d_1"}, {"id": "d_2", "sides": [{"side_percentage": 10.10}]}]"#,
    )
    .unwrap();
    assert_eq!(deals.len(), 2);
    assert_eq!(
        deals[1].sides[0].side_percentage.unwrap().to_string(),
        "10.10"
    );
    assert_eq!(Deal::list_from_json("\u{feff}[]").unwrap(), []);

    let error = Deal::list_from_json(r#"[{"id": "d_1"}, {"id": "d_2", "quotes": 1}]"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "at [1].quotes: expected an array of objects, found a number"
    );
    assert_eq!(error.pointer(), "/1/quotes");
    let error = Deal::list_from_json(r#"[{"id": "d_1"}, {}]"#).unwrap_err();
    assert_eq!(error.to_string(), "at [1].id: a required field is missing");
    assert_eq!(
        Deal::list_from_json(r#"{"id": "d_1"}"#)
            .unwrap_err()
            .found(),
        "an object"
    );
}

#[test]
fn lines_end_in_any_usual_way() {
    let expected = ids(&["d_1", "d_2"]);
    for text in [
        "{\"id\":\"d_1\"}\n{\"id\":\"d_2\"}\n",
        "{\"id\":\"d_1\"}\n{\"id\":\"d_2\"}",
        "{\"id\":\"d_1\"}\r\n{\"id\":\"d_2\"}\r\n",
        "{\"id\":\"d_1\"}\r\n{\"id\":\"d_2\"}\r",
        "\u{feff}{\"id\":\"d_1\"}\n{\"id\":\"d_2\"}",
        "\u{feff}\n\n {\"id\":\"d_1\"} \n \t \r\n\r\n{\"id\":\"d_2\"}\n\n\n",
    ] {
        assert_eq!(read(text), expected, "{text:?}");
    }
    for text in ["", "\n", "\r\n \n", "\u{feff}", "\u{feff}\n"] {
        assert_eq!(read(text), [], "{text:?}");
    }
}

#[test]
fn a_wrong_line_is_named_and_the_next_is_read() {
    let text = b"{\"id\":\"d_1\"}\n\n{\"id\":\"d_2\",\"expiry_date\":\"soon\"}\n{\"id\":\n[1]\n\xff\n{\"id\":\"d_6\"} x\n{\"id\":\"d_7\"}";
    assert_eq!(
        read(text),
        [
            Ok("d_1".to_owned()),
            Err("line 3: at expiry_date: expected a date YYYY-MM-DD, found a string".to_owned()),
            Err("line 4: at id: the document ends early, column 6".to_owned()),
            Err("line 5: expected an object, found an array".to_owned()),
            Err(
                "line 6: expected JSON, found something else (expected value at column 1)"
                    .to_owned()
            ),
            Err(
                "line 7: expected JSON, found something else (trailing characters at column 14)"
                    .to_owned()
            ),
            Ok("d_7".to_owned()),
        ]
    );
    let error = Deal::from_json_lines(&b"{\"id\": 1}"[..])
        .next()
        .unwrap()
        .unwrap_err();
    assert_eq!(error.line(), 1);
    let LineError::Decode { error, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (error.pointer(), error.body()),
        ("/id", &b"{\"id\": 1}"[..])
    );
}

#[test]
fn a_line_is_bounded_and_the_next_is_read() {
    let short = r#"{"id":"d_1"}"#;
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(100_000));
    for end in ["\n", "\r\n"] {
        for longer in [
            format!("{short} "),
            format!("{short}  "),
            format!("{short}\r\r"),
            long.clone(),
        ] {
            let text = [short, &longer, short, short].join(end);
            // A small buffer: lines are assembled from many reads.
            let lines = Deal::from_json_lines(BufReader::with_capacity(7, text.as_bytes()))
                .max_line_bytes(short.len());
            let outcomes: Vec<_> = lines
                .map(|item| item.map_err(|error| error.to_string()))
                .collect();
            assert_eq!(outcomes.len(), 4, "{longer:?}");
            for at in [0, 2, 3] {
                assert_eq!(outcomes[at].as_ref().unwrap().id, "d_1");
            }
            assert_eq!(
                outcomes[1].as_ref().unwrap_err(),
                "line 2 is longer than the limit of 12 bytes"
            );
        }
    }
    let deals = Deal::from_json_lines(long.as_bytes()).max_line_bytes(usize::MAX);
    assert_eq!(deals.filter_map(Result::ok).count(), 1);
    let none = Deal::from_json_lines(short.as_bytes()).max_line_bytes(0);
    assert_eq!(none.filter_map(Result::ok).count(), 0);
}

#[test]
fn each_line_has_the_bounds_of_a_document() {
    let many = format!(
        r#"{{"id":"d_1","more":[{}1]}}"#,
        "1,".repeat(document::MAX_VALUES)
    );
    let text = format!("{many}\n{{\"id\":\"d_2\"}}");
    let items = read(text);
    assert_eq!(
        items[0],
        Err("line 1: expected at most 1000000 values in the document, found more".to_owned())
    );
    assert_eq!(items[1], Ok("d_2".to_owned()));
}

/// Returns its bytes, then fails forever.
struct Failing(&'static [u8]);

impl Read for Failing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("the disk is gone"));
        }
        self.0.read(out)
    }
}

#[test]
fn a_reader_that_fails_is_the_last_item() {
    let reader = BufReader::new(Failing(b"{\"id\":\"d_1\"}\n{\"id\":\"d_2"));
    let mut lines = Deal::from_json_lines(reader);
    assert_eq!(lines.next().unwrap().unwrap().id, "d_1");
    let error = lines.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "line 2 cannot be read: the disk is gone");
    assert!(matches!(error, LineError::Read { line: 2, .. }));
    assert!(lines.next().is_none());
    assert!(lines.next().is_none());
}

/// An input that never ends yields its deals all the same.
#[test]
fn lines_are_read_as_they_come() {
    let endless = BufReader::new(io::repeat(b'\n')).chain(io::empty());
    let mut lines = Deal::from_json_lines(b"{\"id\":\"d_1\"}\n".chain(endless));
    assert_eq!(lines.next().unwrap().unwrap().id, "d_1");

    let agent = r#"{"id":"a_1","email":"e","first_name":"f","last_name":"l","profile":{},"role_assignments":[]}"#;
    let mut agents = Agent::from_json_lines(agent.as_bytes());
    assert_eq!(agents.next().unwrap().unwrap().id, "a_1");
    assert!(!format!("{agents:?}").contains("a_1"));
}
