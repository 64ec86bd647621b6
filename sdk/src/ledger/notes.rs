//! What people record in a ledger between two runs.

use std::{collections::HashMap, path::Path};

use super::{
    error::{Cause, LedgerError},
    file::{Contents, LedgerFile},
    format::{LONGEST_ID, Line},
    key_hash::Hasher,
};
use crate::{http::base_url, value::AgentId};

/// Records in a ledger what became of rows, each named by the key that the job gave it: the agent that was found, or
/// `None` if there is none.
///
/// This is for rows whose outcome is unknown: the next run reports a row with an agent as created, and sends a row
/// without one. It is also for rows that the service rejected and that were corrected since: `None` makes the next run
/// send such a row.
///
/// Whatever the ledger already says is skipped, so the same entries can be settled twice. When this returns, all of it
/// is on disk.
///
/// ```
/// # fn example() -> Result<(), dealkit::LedgerError> {
/// use dealkit::{AgentId, ledger};
///
/// let found = [
///     ("ada@example.com", Some(AgentId::from("a_1"))), // looked up: there she is
///     ("grace@example.com", None),                     // nobody there: the next run creates her
/// ];
/// ledger::settle("agents.ndjson", found)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the ledger does not have a key, or has its agent as created with another identifier; if a key is given twice, or
/// an identifier is empty: then nothing is written, and [`LedgerError::index`] says which entry it is. No error shows a
/// key. Also if the file cannot be read or written, is not a ledger, or is open in a job.
pub fn settle<K: AsRef<str>>(
    path: impl AsRef<Path>,
    found: impl IntoIterator<Item = (K, Option<AgentId>)>,
) -> Result<(), LedgerError> {
    let (file, header, mut contents) = LedgerFile::open_to_note(path.as_ref())?;
    let hasher = Hasher::new(&header.salt);
    let mut indices = HashMap::new();
    let mut lines = Vec::new();
    for (index, (key, agent_id)) in found.into_iter().enumerate() {
        let refused = |what: String| {
            file.error(Cause::Refused {
                index: Some(index),
                what,
            })
        };
        let hash = hasher.hash(key.as_ref());
        if let Some(first) = indices.insert(hash, index) {
            return Err(refused(format!(
                "the one at index {first} has the same key"
            )));
        }
        let agent_id = agent_id.as_ref().map(AgentId::as_str);
        if agent_id.is_some_and(|id| id.is_empty() || id.len() > LONGEST_ID) {
            return Err(refused(format!(
                "its agent's identifier is empty, or longer than {LONGEST_ID} bytes; if there is no agent, pass None"
            )));
        }
        let entry = contents.entries.get(&hash).ok_or(
            "its key is not in the ledger: pass exactly the key that the row had in the job",
        );
        let is_news = entry.and_then(|entry| entry.is_news(agent_id));
        if is_news.map_err(|what| refused(what.to_owned()))? {
            lines.push(Line::Settled(hash, agent_id.map(|id| id.to_owned().into())));
        }
    }
    write(&file, &mut contents, &lines)
}

/// Records in a ledger that its service has another base URL from now on, because its host was renamed, for example.
/// Jobs for the new URL are then accepted, and jobs for the old one are not.
///
/// Only do this if it is the same service, with the same agents: agents that the ledger has as created are not
/// created there.
///
/// ```
/// # fn example() -> Result<(), dealkit::LedgerError> {
/// dealkit::ledger::move_to("agents.ndjson", "https://new.example.com")?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// If `base_url` is not a base URL, if the file cannot be read or written or is not a ledger, or if a job has it open.
pub fn move_to(path: impl AsRef<Path>, base_url: &str) -> Result<(), LedgerError> {
    let (file, header, mut contents) = LedgerFile::open_to_note(path.as_ref())?;
    let url = base_url::parse(base_url)
        .map_err(|what| file.error(Cause::Refused { index: None, what }))?;
    let service = base_url::normal(&url);
    let is_news = !base_url::is_same(&header.service, &service);
    let line = is_news.then(|| Line::Service(service.into()));
    write(&file, &mut contents, line.as_slice())
}

/// Appends lines, all or none of them, and syncs them to disk together with those that were there before.
fn write(
    file: &LedgerFile,
    contents: &mut Contents,
    lines: &[Line<'_>],
) -> Result<(), LedgerError> {
    if !lines.is_empty() {
        file.mend(contents)?;
        file.append(contents.end, lines)?;
    }
    file.sync()
}
