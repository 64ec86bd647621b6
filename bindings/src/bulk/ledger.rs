//! What people do with a ledger between two jobs: look rows up, resolve them, count them.

use std::ffi::OsString;

use dealkit::{
    AgentId, Json,
    ledger::{self, Ledger, LedgerError, LedgerRow},
};
use pyo3::{prelude::*, types::PyList};

use crate::{
    calls::call::Call,
    python::{
        arguments,
        failure::{Failure, Outcome, Returned, entry},
        gil,
    },
};

/// Does something with a ledger, which is a path or the URL of a database, and what is given for it. It may wait for the disk or
/// the network.
fn with_ledger<'py, G: Send, T: IntoPyObject<'py> + Send>(
    py: Python<'py>,
    name: OsString,
    given: Outcome<G>,
    work: impl FnOnce(Ledger, G) -> Result<T, LedgerError> + Send,
) -> Returned<'py> {
    let done = given.and_then(|given| {
        gil::release(py, || work(arguments::ledger(name)?, given)).map_err(Failure::Note)
    });
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
pub(crate) fn resolve_ledger<'py>(
    name: OsString,
    found: &Bound<'py, PyList>,
    dry_run: bool,
) -> Returned<'py> {
    let given = all::<(String, Option<String>)>(found);
    with_ledger(found.py(), name, given, |ledger, found| {
        let found = found.into_iter();
        let pairs = found.map(|(key, agent_id)| (key, agent_id.map(AgentId::from)));
        match dry_run {
            true => ledger.resolve_dry_run(pairs),
            false => ledger.resolve(pairs),
        }
    })
}

/// The fields of Python's `LedgerRow`, in its order; `sent_at` is in milliseconds since 1970.
type Found = (
    &'static str,
    Option<String>,
    Option<u16>,
    bool,
    bool,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<String>,
);

fn found(recorded: Option<LedgerRow>) -> Option<Found> {
    let recorded = recorded?;
    Some((
        recorded.outcome.as_str(),
        recorded.agent_id.map(String::from),
        recorded.status.map(u16::from),
        recorded.in_flight,
        recorded.request_differs,
        recorded.title,
        recorded.code,
        recorded.label,
        recorded.sent_at.map(|sent_at| sent_at.timestamp_millis()),
        recorded.request_id,
    ))
}

fn waiting(ledger: Ledger, waits: bool) -> Ledger {
    if waits {
        ledger
    } else {
        ledger.without_waiting()
    }
}

/// Looks up rows in a ledger by their keys, which have this name, and which is of this service, if they are given; `None` for a row
/// that the next run sends. With requests, one for each key, says whether the row has changed.
#[pyfunction]
pub(crate) fn look_up_in_ledger<'py>(
    name: OsString,
    keys: Option<String>,
    service: Option<String>,
    rows: &Bound<'py, PyList>,
    requests: Option<&Bound<'py, PyList>>,
    waits: bool,
) -> Returned<'py> {
    let given = all::<String>(rows).and_then(|rows| Ok((rows, requests.map(bodies).transpose()?)));
    with_ledger(rows.py(), name, given, |ledger, (rows, requests)| {
        let ledger = waiting(ledger, waits);
        service.map_or(Ok(()), |service| ledger.check_service(&service))?;
        let recorded = match requests {
            None => ledger.look_up(keys.as_deref(), rows)?,
            Some(requests) => {
                ledger.look_up_requests(keys.as_deref(), rows.into_iter().zip(requests))?
            }
        };
        Ok(recorded.into_iter().map(found).collect::<Vec<_>>())
    })
}

/// The bodies of creates.
fn bodies(calls: &Bound<'_, PyList>) -> Outcome<Vec<Json>> {
    let body = |call: Bound<'_, PyAny>| {
        let call = call.cast::<Call>().map_err(PyErr::from)?;
        let body = call.get().body.clone().unwrap_or_default();
        Ok(serde_json::from_slice::<Json>(&body).unwrap_or_else(|_| Json::string("")))
    };
    calls.iter().map(body).collect()
}

/// Looks up rows in a ledger by the e-mail addresses of their agents.
#[pyfunction]
pub(crate) fn look_up_emails_in_ledger<'py>(
    name: OsString,
    emails: &Bound<'py, PyList>,
    waits: bool,
) -> Returned<'py> {
    let given = all::<String>(emails);
    with_ledger(emails.py(), name, given, |ledger, emails| {
        let recorded = waiting(ledger, waits).look_up_emails(emails)?;
        Ok(recorded.into_iter().map(found).collect::<Vec<_>>())
    })
}

/// Returns the form in which ledgers compare a key.
#[pyfunction]
pub(crate) fn normalize_key(py: Python<'_>, name: Option<String>, key: String) -> Returned<'_> {
    entry(py, || Ok(ledger::normalize_key(name.as_deref(), &key)))
}

/// Copies a ledger to a new file.
#[pyfunction]
pub(crate) fn back_up_ledger(py: Python<'_>, name: OsString, to: OsString) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| ledger.backup(to))
}

/// Counts what a ledger has: its service, the name of its keys, the numbers of rows (succeeded, rejected, resolved with an
/// agent, resolved without, in flight), and each unresolved row.
#[pyfunction]
pub(crate) fn summarize_ledger(py: Python<'_>, name: OsString) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| {
        let summary = ledger.summary()?;
        let numbers = vec![
            summary.succeeded,
            summary.rejected,
            summary.resolved_with_agent,
            summary.resolved_without_agent,
            summary.in_flight,
        ];
        let unresolved = summary.unresolved.into_iter().map(Some);
        let unresolved: Vec<_> = unresolved.map(found).collect();
        Ok((summary.service, summary.key_name, numbers, unresolved))
    })
}

/// The path of a ledger that is a file. A URL that is wrong in some way is that of a database all the same.
#[pyfunction]
pub(crate) fn ledger_path(py: Python<'_>, name: OsString) -> Returned<'_> {
    entry(py, || {
        let ledger = arguments::ledger(name).ok();
        Ok(ledger.and_then(|ledger| Some(ledger.path()?.as_os_str().to_owned())))
    })
}

/// The name of a ledger as texts show it: without a user and a password.
#[pyfunction]
pub(crate) fn ledger_display_name(py: Python<'_>, name: OsString) -> Returned<'_> {
    entry(py, || {
        let ledger = arguments::ledger(name.clone()).unwrap_or_else(|_| Ledger::sqlite(name));
        Ok(ledger.to_string())
    })
}

#[pyfunction]
pub(crate) fn ledgers_in_folder(py: Python<'_>, folder: OsString) -> Returned<'_> {
    let found = gil::release(py, || Ledger::in_folder(folder)).map_err(Failure::Note);
    entry(py, || {
        let found = found?;
        let paths = found.iter().filter_map(Ledger::path);
        let paths = paths.map(|path| path.as_os_str().to_owned());
        Ok(paths.collect::<Vec<_>>())
    })
}

/// Records that the service has another base URL from now on.
#[pyfunction]
pub(crate) fn set_ledger_base_url(
    py: Python<'_>,
    name: OsString,
    base_url: String,
) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| {
        ledger.set_base_url(&base_url)
    })
}

#[pyfunction]
pub(crate) fn init_ledger(py: Python<'_>, name: OsString) -> Returned<'_> {
    with_ledger(py, name, Ok(()), |ledger, ()| ledger.init())
}
