//! What people do with a ledger between two jobs: look rows up, settle them, count them.

use dealkit::{
    AgentId,
    ledger::{Ledger, LedgerError},
};
use pyo3::{prelude::*, types::PyList};

use crate::python::{
    failure::{Failure, Outcome, entry},
    gil,
};

/// A ledger: its path, or the URL of its database, and if that has several, the service and the name of the keys.
type Named = (String, Option<String>, Option<String>);

fn opened((name, service, keys): &Named) -> Result<Ledger, LedgerError> {
    let ledger: Ledger = name.parse()?;
    Ok(ledger.of(service.as_deref(), keys.as_deref()))
}

/// Does something with a ledger, which may wait for the disk or the network.
fn with_ledger<T: Send>(
    py: Python<'_>,
    named: &Named,
    work: impl FnOnce(Ledger) -> Result<T, LedgerError> + Send,
) -> Outcome<T> {
    gil::release(py, || work(opened(named)?)).map_err(Failure::Note)
}

fn texts(list: &Bound<'_, PyList>) -> Outcome<Vec<String>> {
    list.iter()
        .map(|text| Ok(text.extract::<String>()?))
        .collect()
}

/// Records what became of rows: `found` has a pair for each, its key and its agent's identifier or None. Returns how many
/// rows that changes; a dry run changes none.
#[pyfunction]
pub(crate) fn settle_ledger<'py>(
    named: Named,
    found: &Bound<'py, PyList>,
    dry_run: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = found.py();
    let pairs = found.iter().map(|pair| {
        let (key, agent_id) = pair.extract::<(String, Option<String>)>()?;
        Ok((key, agent_id.map(AgentId::from)))
    });
    let pairs: Outcome<Vec<_>> = pairs.collect();
    let settled = pairs.and_then(|pairs| {
        with_ledger(py, &named, |ledger| {
            if dry_run {
                ledger.check_settle(pairs)
            } else {
                ledger.settle(pairs)
            }
        })
    });
    entry(py, || settled)
}

/// Undoes what was settled of the rows with these keys, and returns their number.
#[pyfunction]
pub(crate) fn unsettle_ledger<'py>(
    named: Named,
    rows: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = rows.py();
    let undone =
        texts(rows).and_then(|keys| with_ledger(py, &named, |ledger| ledger.unsettle(keys)));
    entry(py, || undone)
}

/// Looks up rows in a ledger by their keys: for each row that the next run does not send again,
/// its outcome, its agent's identifier, its status, and whether a job is sending it; for the others, None.
#[pyfunction]
pub(crate) fn look_up_in_ledger<'py>(
    named: Named,
    rows: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = rows.py();
    let found =
        texts(rows).and_then(|rows| with_ledger(py, &named, |ledger| ledger.look_up(None, rows)));
    entry(py, || {
        let told = found?.into_iter().map(|recorded| {
            let recorded = recorded?;
            let agent_id = recorded.agent_id.map(String::from);
            let outcome = recorded.outcome.as_str();
            Some((
                outcome,
                agent_id,
                recorded.status.map(u16::from),
                recorded.in_flight,
            ))
        });
        Ok(told.collect::<Vec<_>>())
    })
}

/// Counts what a ledger has: its service, the name of its keys, the numbers of rows (succeeded, rejected, settled with an
/// agent, settled without, in flight), and each row in doubt (when it was sent, in milliseconds since 1970, status, id of the
/// request).
#[pyfunction]
pub(crate) fn show_ledger(py: Python<'_>, named: Named) -> PyResult<Bound<'_, PyAny>> {
    let summary = with_ledger(py, &named, |ledger| ledger.summary());
    entry(py, || {
        let summary = summary?;
        let numbers = [
            summary.succeeded,
            summary.rejected,
            summary.settled_with_agent,
            summary.settled_without_agent,
            summary.in_flight,
        ];
        let in_doubt = summary.in_doubt.into_iter();
        let in_doubt = in_doubt.map(|row| {
            (
                row.sent_at.timestamp_millis(),
                row.status.map(u16::from),
                row.request_id,
            )
        });
        let in_doubt: Vec<_> = in_doubt.collect();
        Ok((summary.service, summary.keys, numbers.to_vec(), in_doubt))
    })
}

/// The path of a ledger that is a file. A URL that is wrong in some way is that of a database all the same.
#[pyfunction]
pub(crate) fn ledger_path(py: Python<'_>, name: String) -> PyResult<Bound<'_, PyAny>> {
    entry(py, || {
        let ledger = name.parse::<Ledger>().ok();
        Ok(ledger.and_then(|ledger| Some(ledger.path()?.to_string_lossy().into_owned())))
    })
}

/// The paths of the ledgers in a folder.
#[pyfunction]
pub(crate) fn ledgers_in_folder(py: Python<'_>, folder: String) -> PyResult<Bound<'_, PyAny>> {
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
pub(crate) fn move_ledger(
    py: Python<'_>,
    named: Named,
    base_url: String,
) -> PyResult<Bound<'_, PyAny>> {
    let moved = with_ledger(py, &named, |ledger| ledger.move_to(&base_url));
    entry(py, || moved)
}

/// Makes the tables of a database, and a ledger, if it is said of which service.
#[pyfunction]
pub(crate) fn init_ledger(py: Python<'_>, named: Named) -> PyResult<Bound<'_, PyAny>> {
    let made = with_ledger(py, &named, |ledger| ledger.init());
    entry(py, || made)
}

/// Copies all rows of a ledger into another, and returns their number.
#[pyfunction]
pub(crate) fn copy_ledger(
    py: Python<'_>,
    named: Named,
    target: String,
) -> PyResult<Bound<'_, PyAny>> {
    let copied = with_ledger(py, &named, |ledger| ledger.copy_to(&target.parse()?));
    entry(py, || copied)
}
