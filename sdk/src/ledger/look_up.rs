//! Queries what a ledger has on rows, before a job runs.

use std::path::Path;

use super::{entries::State, error::LedgerError, file::LedgerFile, key_hash::Hasher};
use crate::{error::outcome::Outcome, value::AgentId};

/// What the ledger of a job has on a row that the next run does not send again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Whether its agent was created, the service rejected it, or nobody knows.
    pub outcome: Outcome,
    /// The identifier of its agent, if it was created and the ledger has the identifier.
    pub agent_id: Option<AgentId>,
    /// The status of the response, if there was one and the row was rejected or its outcome is unknown.
    pub status: Option<u16>,
    /// The service's id for the request, if it gave one.
    pub request_id: Option<String>,
}

/// Returns what the ledger of a job has on each of these keys, in their order: `None` for a row that the next run
/// sends.
///
/// `keys` is the name of the keys, as in [`CreateMany::ledger`](crate::CreateMany::ledger). Nothing is written, and a
/// job may have the ledger open at the same time. If the file does not exist yet, every item is `None`.
///
/// ```
/// # fn example() -> Result<(), dealkit::LedgerError> {
/// let rows = ["ada@example.com", "grace@example.com"];
/// for (row, recorded) in rows.iter().zip(dealkit::ledger::look_up("agents.ndjson", "email", rows)?) {
///     match recorded {
///         Some(recorded) => println!("{row}: {} {:?}", recorded.outcome, recorded.agent_id),
///         None => println!("{row}: is sent"),
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the file cannot be read, is not a ledger, or its keys have another name.
pub fn look_up<'a, K: AsRef<str>>(
    path: impl AsRef<Path>,
    keys: impl Into<Option<&'a str>>,
    rows: impl IntoIterator<Item = K>,
) -> Result<Vec<Option<Recorded>>, LedgerError> {
    let found = LedgerFile::read(path.as_ref(), keys.into())?;
    let found = found.map(|(header, contents)| (Hasher::new(&header.salt), contents.entries));
    let recorded = rows.into_iter().map(|key| {
        let (hasher, entries) = found.as_ref()?;
        let entry = entries.get(&hasher.hash(key.as_ref()))?;
        entry.state()?.clone().recorded()
    });
    Ok(recorded.collect())
}

impl State {
    /// What is reported for the row instead of sending it; `None` if it is sent.
    pub(crate) fn recorded(self) -> Option<Recorded> {
        let (outcome, agent_id, status, request_id) = match self {
            State::NotSent => return None,
            State::Rejected { status, .. } if !is_about_the_row(status) => return None,
            State::Created { id } => (Outcome::Succeeded, id, None, None),
            State::Rejected { status, request_id } => (Outcome::Rejected, None, status, request_id),
            State::Unknown { status, request_id } => (Outcome::Unknown, None, status, request_id),
        };
        Some(Recorded {
            outcome,
            agent_id: agent_id.map(AgentId::from),
            status,
            request_id,
        })
    }
}

/// Whether a rejection with this status is about the content of the row. Others are about who sent it, when, or
/// where to: with the right service key, for example, the row may be fine.
fn is_about_the_row(status: Option<u16>) -> bool {
    !matches!(
        status,
        Some(307 | 308 | 401 | 403 | 404 | 405 | 407 | 421 | 425 | 426 | 429)
    )
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, fs, path::PathBuf, time::SystemTime};

    use tempfile::TempDir;

    use super::*;
    use crate::ledger::{
        LedgerErrorKind,
        format::{Header, Line},
        settle,
    };

    /// A ledger whose keys are e-mail addresses, with an intent for each key, and the outcome.
    fn ledger(rows: &[(&str, Option<State>)]) -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("agents.ndjson");
        let header = Header::new("https://deals.example.com", Some("email")).unwrap();
        let hasher = Hasher::new(&header.salt);
        let mut text = header.to_line();
        for (key, state) in rows {
            let hash = hasher.hash(key);
            text += &Line::Intent(hash).to_text(SystemTime::now());
            if let Some(state) = state {
                text += &Line::Outcome(hash, Cow::Borrowed(state)).to_text(SystemTime::now());
            }
        }
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn rejected(status: u16) -> Option<State> {
        let (status, request_id) = (Some(status), Some("r-1".to_owned()));
        Some(State::Rejected { status, request_id })
    }

    #[test]
    fn it_has_what_the_next_run_does_not_send() {
        let id = Some("a_1".to_owned());
        let (_folder, path) = ledger(&[
            ("created", Some(State::Created { id })),
            ("rejected", rejected(422)),
            ("the key was wrong", rejected(401)),
            ("unknown", None),
            ("not sent", Some(State::NotSent)),
        ]);
        let before = fs::read(&path).unwrap();
        let rows = [
            "unknown",
            "created",
            "new",
            "rejected",
            "the key was wrong",
            "not sent",
            "created",
        ];
        let found = look_up(&path, "email", rows).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|recorded| {
                let recorded = recorded.as_ref()?;
                Some((
                    recorded.outcome,
                    recorded.agent_id.as_ref().map(AgentId::as_str),
                    recorded.status,
                ))
            })
            .collect();
        let created = Some((Outcome::Succeeded, Some("a_1"), None));
        assert_eq!(
            shown,
            [
                Some((Outcome::Unknown, None, None)),
                created,
                None,
                Some((Outcome::Rejected, None, Some(422))),
                None,
                None,
                created,
            ]
        );
        assert_eq!(fs::read(&path).unwrap(), before);

        settle(
            &path,
            [("unknown", Some(AgentId::from("a_2"))), ("rejected", None)],
        )
        .unwrap();
        let found = look_up(&path, None, ["unknown", "rejected"]).unwrap();
        let ids = found
            .iter()
            .map(|recorded| Some(recorded.as_ref()?.agent_id.as_ref().map(AgentId::as_str)));
        assert_eq!(ids.collect::<Vec<_>>(), [Some(Some("a_2")), None]);
    }

    #[test]
    fn where_a_job_would_begin_a_ledger_it_has_nothing() {
        let (folder, path) = ledger(&[]);
        for length in [0, 1, 40] {
            let text = fs::read_to_string(&path).unwrap();
            let cut = folder.path().join("cut.ndjson");
            fs::write(&cut, &text[..length]).unwrap();
            assert_eq!(look_up(&cut, "email", ["a"]).unwrap(), [None]);
            assert_eq!(fs::read_to_string(&cut).unwrap(), text[..length]);
        }
        let none = folder.path().join("none/agents.ndjson");
        assert_eq!(look_up(&none, None, ["a", "b"]).unwrap(), [None, None]);
        assert!(!none.exists());
    }

    #[test]
    fn what_no_job_could_use_is_refused() {
        let (folder, path) = ledger(&[("a", None)]);
        let kind = |path: &Path, keys: &str| look_up(path, keys, ["a"]).unwrap_err().kind();
        assert_eq!(kind(&path, "phone"), LedgerErrorKind::OtherKeys);
        assert_eq!(kind(folder.path(), "email"), LedgerErrorKind::NotALedger);
        fs::write(&path, "mine\n").unwrap();
        assert_eq!(kind(&path, "email"), LedgerErrorKind::NotALedger);
    }
}
