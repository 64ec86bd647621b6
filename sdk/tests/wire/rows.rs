//! Rows that a test tells apart by their e-mail address.

use serde_json::Value;

use crate::peer::Heard;

pub(crate) fn email(number: usize) -> String {
    format!("row{number}@example.com")
}

/// The number of the row in a request.
pub(crate) fn number(heard: &Heard) -> usize {
    let body: Value = serde_json::from_slice(&heard.body).unwrap();
    let email = body["email"].as_str().unwrap();
    let number = email.strip_prefix("row").unwrap();
    number
        .strip_suffix("@example.com")
        .unwrap()
        .parse()
        .unwrap()
}
