//! Rows that a test tells apart by their e-mail address.

use dealkit::{AgentProfile, CreateAgent, CreateRow};
use serde_json::Value;

use crate::peer::Heard;

pub(crate) fn email(number: usize) -> String {
    format!("row{number}@example.com")
}

/// The request of this row.
pub(crate) fn request(number: usize) -> CreateAgent {
    named(number, "Ada")
}

/// A row whose request breaks the rules.
pub(crate) fn broken(number: usize) -> CreateRow {
    let request = unchecked(number);
    request.validate().map(|()| request).into()
}

/// A request that breaks the rules, and was not checked when it was built.
pub(crate) fn unchecked(number: usize) -> CreateAgent {
    named(number, "")
}

fn named(number: usize, first_name: &str) -> CreateAgent {
    CreateAgent::builder()
        .email(email(number))
        .first_name(first_name)
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build_unvalidated()
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

/// A ledger in a folder of its own.
#[cfg(feature = "ledger")]
pub(crate) fn new_ledger() -> (tempfile::TempDir, dealkit::ledger::Ledger) {
    let folder = tempfile::TempDir::new().unwrap();
    let ledger = dealkit::ledger::Ledger::sqlite(folder.path().join("agents.ledger"));
    (folder, ledger)
}
