//! Notes entries in the ledger of a job between two runs, and looks entries up.

use dealkit::{AgentId, ledger};
use pyo3::{prelude::*, types::PyList};

use crate::python::{
    failure::{Failure, Outcome, entry},
    gil,
};

/// Notes what became of rows: `found` has a pair for each, its key and its agent's identifier or None.
#[pyfunction]
pub(crate) fn settle_ledger<'py>(
    path: String,
    found: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = found.py();
    let pairs = found.iter().map(|pair| {
        let (key, agent_id) = pair.extract::<(String, Option<String>)>()?;
        Ok((key, agent_id.map(AgentId::from)))
    });
    let pairs: Outcome<Vec<_>> = pairs.collect();
    // A long ledger takes time to read.
    let settled = pairs.and_then(|pairs| {
        let settled = gil::release(py, || ledger::settle(path, pairs));
        settled.map_err(Failure::Note)
    });
    entry(py, || settled)
}

/// Looks up rows in a ledger by their keys, which may have a name: for each row that the next run does not send
/// again, its outcome, its agent's identifier and its status; for the others, None.
#[pyfunction]
pub(crate) fn look_up_in_ledger<'py>(
    path: String,
    keys: Option<String>,
    rows: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = rows.py();
    let rows = rows.iter().map(|row| Ok(row.extract::<String>()?));
    let rows: Outcome<Vec<_>> = rows.collect();
    let found = rows.and_then(|rows| {
        let found = gil::release(py, || ledger::look_up(path, keys.as_deref(), rows));
        found.map_err(Failure::Note)
    });
    entry(py, || {
        let told = found?.into_iter().map(|recorded| {
            let recorded = recorded?;
            let agent_id = recorded.agent_id.map(String::from);
            Some((recorded.outcome.as_str(), agent_id, recorded.status))
        });
        Ok(told.collect::<Vec<_>>())
    })
}

/// Notes that the service has another base URL from now on.
#[pyfunction]
pub(crate) fn move_ledger(
    py: Python<'_>,
    path: String,
    base_url: String,
) -> PyResult<Bound<'_, PyAny>> {
    let moved = gil::release(py, || ledger::move_to(path, &base_url));
    entry(py, || moved.map_err(Failure::Note))
}
