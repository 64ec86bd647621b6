//! Rows of jobs, which tests distinguish by their e-mail addresses.

use dealkit::{AgentProfile, CreateAgent, CreateRow};
use serde_json::Value;

use crate::peer::PendingRequest;

pub(crate) fn email(number: usize) -> String {
    format!("row{number}@example.com")
}

/// Returns the valid request of a row.
pub(crate) fn request(number: usize) -> CreateAgent {
    named(number, "Ada")
}

/// Returns a row whose request breaks the rules.
pub(crate) fn broken(number: usize) -> CreateRow {
    let request = unchecked(number);
    request.validate().map(|()| request).into()
}

/// Returns a request that breaks the rules, built without validation.
pub(crate) fn unchecked(number: usize) -> CreateAgent {
    named(number, "")
}

/// Returns the request of a row with another first name.
pub(crate) fn named(number: usize, first_name: &str) -> CreateAgent {
    CreateAgent::builder()
        .email(email(number))
        .first_name(first_name)
        .last_name("Lovelace")
        .profile(AgentProfile::new())
        .build_unvalidated()
}

/// Returns the row number in a received request.
pub(crate) fn number(heard: &PendingRequest) -> usize {
    let body: Value = serde_json::from_slice(&heard.body).unwrap();
    let email = body["email"].as_str().unwrap();
    let number = email.strip_prefix("row").unwrap();
    number
        .strip_suffix("@example.com")
        .unwrap()
        .parse()
        .unwrap()
}

/// Returns a ledger in a new temporary folder, and the folder.
#[cfg(feature = "ledger")]
pub(crate) fn new_ledger() -> (tempfile::TempDir, dealkit::ledger::Ledger) {
    let folder = tempfile::TempDir::new().unwrap();
    let ledger = dealkit::ledger::Ledger::sqlite(folder.path().join("agents.ledger"));
    (folder, ledger)
}
