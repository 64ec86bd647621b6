//! What people do with a ledger between two jobs: look rows up, settle them, count them.

use dealkit::{
    AgentId,
    ledger::{Ledger, LedgerError},
};
use pyo3::{prelude::*, types::PyList};

use crate::python::{
    failure::{Failure, Outcome, Returned, entry},
    gil,
};

/// Does something with a ledger, which is a path or the URL of a database, and what is given for it. It may wait for the disk or
/// the network.
fn with_ledger<'py, G: Send, T: IntoPyObject<'py> + Send>(
    py: Python<'py>,
    name: String,
    given: Outcome<G>,
    work: impl FnOnce(Ledger, G) -> Result<T, LedgerError> + Send,
) -> Returned<'py> {
    let done = given
        .and_then(|given| gil::release(py, || work(name.parse()?, given)).map_err(Failure::Note));
    entry(py, || done)
}

fn all<'py, T>(list: &Bound<'py, PyList>) -> Outcome<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    list.iter().map(|item| Ok(item.extract::<T>()?)).collect()
}

/// Records what became of rows: `found` has a pair for each, its key and its agent's identifier or None. Returns how many
/// rows that changes; a dry run changes none.
#[pyfunction]
pub(crate) fn settle_ledger<'py>(
    name: String,
    found: &Bound<'py, PyList>,
    dry_run: bool,
) -> Returned<'py> {
    let given = all::<(String, Option<String>)>(found);
    with_ledger(found.py(), name, given, |ledger, found| {
        let found = found.into_iter();
        let pairs = found.map(|(key, agent_id)| (key, agent_id.map(AgentId::from)));
        match dry_run {
            true => ledger.check_settle(pairs),
            false => ledger.settle(pairs),
        }
    })
}

/// Looks up rows in a ledger by their keys, which have this name, and which is of this service, if they are given: for each row
/// that the next run does not send again, its outcome, its agent's identifier, its status, and whether a job is sending it; for
/// the others, None.
#[pyfunction]
pub(crate) fn look_up_in_ledger<'py>(
    name: String,
    keys: Option<String>,
    service: Option<String>,
    rows: &Bound<'py, PyList>,
) -> Returned<'py> {
    let given = all::<String>(rows);
    with_ledger(rows.py(), name, given, |ledger, rows| {
        service.map_or(Ok(()), |service| ledger.check_service(&service))?;
        let found = ledger
            .look_up(keys.as_deref(), rows)?
            .into_iter()
            .map(|recorded| {
                let recorded = recorded?;
                let agent_id = recorded.agent_id.map(String::from);
                let (outcome, status) = (recorded.outcome.as_str(), recorded.status.map(u16::from));
                Some((outcome, agent_id, status, recorded.in_flight))
            });
        Ok(found.collect::<Vec<_>>())
    })
}

/// Counts what a ledger has: its service, the name of its keys, the numbers of rows (succeeded, rejected, settled with an
/// agent, settled without, in flight), and each row in doubt (when it was sent, in milliseconds since 1970, status, id of the
/// request).
#[pyfunction]
pub(crate) fn show_ledger(py: Python<'_>, name: String) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| {
        let summary = ledger.summary()?;
        let numbers = vec![
            summary.succeeded,
            summary.rejected,
            summary.settled_with_agent,
            summary.settled_without_agent,
            summary.in_flight,
        ];
        let in_doubt = summary.in_doubt.into_iter().map(|row| {
            let sent_at = row.sent_at.unwrap_or_default().timestamp_millis();
            (sent_at, row.status.map(u16::from), row.request_id)
        });
        let in_doubt: Vec<_> = in_doubt.collect();
        Ok((summary.service, summary.keys, numbers, in_doubt))
    })
}

/// The path of a ledger that is a file. A URL that is wrong in some way is that of a database all the same.
#[pyfunction]
pub(crate) fn ledger_path(py: Python<'_>, name: String) -> Returned<'_> {
    entry(py, || {
        let ledger = name.parse::<Ledger>().ok();
        Ok(ledger.and_then(|ledger| Some(ledger.path()?.to_string_lossy().into_owned())))
    })
}

#[pyfunction]
pub(crate) fn ledgers_in_folder(py: Python<'_>, folder: String) -> Returned<'_> {
    let found = gil::release(py, || Ledger::in_folder(folder)).map_err(Failure::Note);
    entry(py, || {
        let found = found?;
        let paths = found.iter().filter_map(Ledger::path);
        let paths = paths.map(|path| path.to_string_lossy().into_owned());
        Ok(paths.collect::<Vec<_>>())
    })
}

/// Records that the service has another base URL from now on.
#[pyfunction]
pub(crate) fn move_ledger(py: Python<'_>, name: String, base_url: String) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| ledger.move_to(&base_url))
}

#[pyfunction]
pub(crate) fn init_ledger(py: Python<'_>, name: String) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| ledger.init())
}
