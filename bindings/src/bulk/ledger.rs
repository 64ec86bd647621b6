//! Operations on ledgers between jobs: look up, resolve and count rows.

use std::ffi::OsString;

use chrono::{DateTime, Utc};
use dealkit::{
    AgentId, Json,
    ledger::{self, Ledger, LedgerError, LedgerRow},
};
use pyo3::{
    prelude::*,
    types::{PyDateTime, PyList},
};

use crate::{
    calls::call::Call,
    python::{
        arguments::parse_ledger,
        builtin,
        failure::{EntryResult, Failure, Result, run_entry},
        gil,
    },
};

/// Opens a ledger and calls `work` with it and the arguments. `path` is the path of a file, or the URL of a database. Releases the
/// GIL, because the disk or the network may be slow.
fn with_ledger<'py, A: Send, T: IntoPyObject<'py> + Send>(
    py: Python<'py>,
    path: OsString,
    arguments: Result<A>,
    work: impl FnOnce(Ledger, A) -> Result<T, LedgerError> + Send,
) -> EntryResult<'py> {
    let result = arguments.and_then(|arguments| {
        gil::release(py, || work(parse_ledger(path)?, arguments)).map_err(Failure::Ledger)
    });
    run_entry(py, || result)
}

fn extract_all<'py, T>(list: &Bound<'py, PyList>) -> Result<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    list.iter().map(|item| Ok(item.extract::<T>()?)).collect()
}

/// Records the outcomes of rows. Each entry is a pair: the idempotency key of the row, and the identifier of its agent or, if the
/// agent does not exist, None. Returns the number of changed rows. With `dry_run`, only checks the entries.
#[pyfunction]
#[pyo3(signature = (path, entries, dry_run))]
pub(crate) fn resolve_ledger<'py>(
    path: OsString,
    entries: &Bound<'py, PyList>,
    dry_run: bool,
) -> EntryResult<'py> {
    let pairs = extract_all::<(String, Option<String>)>(entries);
    with_ledger(entries.py(), path, pairs, |ledger, pairs| {
        let pairs = pairs.into_iter();
        let pairs = pairs.map(|(key, agent_id)| (key, agent_id.map(AgentId::from)));
        match dry_run {
            true => ledger.resolve_dry_run(pairs),
            false => ledger.resolve(pairs),
        }
    })
}

/// Marks rows as unknown that the ledger does not know as sent. Returns the number of changed rows.
#[pyfunction]
#[pyo3(signature = (path, keys, key_name))]
pub(crate) fn mark_unknown_in_ledger<'py>(
    path: OsString,
    keys: &Bound<'py, PyList>,
    key_name: Option<String>,
) -> EntryResult<'py> {
    let names = extract_all::<String>(keys);
    with_ledger(keys.py(), path, names, |ledger, names| {
        ledger.mark_unknown(key_name.as_deref(), names)
    })
}

/// A timestamp that becomes an aware datetime.
struct Timestamp(DateTime<Utc>);

impl<'py> IntoPyObject<'py> for Timestamp {
    type Target = PyDateTime;
    type Output = Bound<'py, PyDateTime>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        builtin::make_datetime(py, self.0)
    }
}

/// A row that the next run does not send. Becomes a dict: keyword arguments of the Python class with the same fields.
#[derive(IntoPyObject)]
struct RowFields {
    outcome: &'static str,
    agent_id: Option<String>,
    status_code: Option<u16>,
    in_flight: bool,
    request_differs: bool,
    title: Option<String>,
    code: Option<String>,
    label: Option<String>,
    sent_at: Option<Timestamp>,
    request_id: Option<String>,
}

impl From<LedgerRow> for RowFields {
    fn from(row: LedgerRow) -> Self {
        Self {
            outcome: row.outcome.as_str(),
            agent_id: row.agent_id.map(String::from),
            status_code: row.status.map(u16::from),
            in_flight: row.in_flight,
            request_differs: row.request_differs,
            title: row.title,
            code: row.code,
            label: row.label,
            sent_at: row.sent_at.map(Timestamp),
            request_id: row.request_id,
        }
    }
}

fn to_row_fields(rows: Vec<Option<LedgerRow>>) -> Vec<Option<RowFields>> {
    let rows = rows.into_iter();
    rows.map(|row| row.map(RowFields::from)).collect()
}

/// Returns the ledger. Without `wait`, its operations fail quickly if another process has locked it.
fn with_waiting(ledger: Ledger, wait: bool) -> Ledger {
    match wait {
        true => ledger,
        false => ledger.without_waiting(),
    }
}

/// Looks up rows by their idempotency keys. The result is None for a row that the next run sends.
///
/// `service` is a base URL. Fails if the ledger has another `key_name` or `service`. `requests` has a call for each
/// row: the body of that call is compared with the request in the ledger.
#[pyfunction]
#[pyo3(signature = (path, keys, key_name, service, requests, wait))]
pub(crate) fn look_up_in_ledger<'py>(
    path: OsString,
    keys: &Bound<'py, PyList>,
    key_name: Option<String>,
    service: Option<String>,
    requests: Option<&Bound<'py, PyList>>,
    wait: bool,
) -> EntryResult<'py> {
    let arguments = extract_all::<String>(keys)
        .and_then(|keys| Ok((keys, requests.map(read_create_bodies).transpose()?)));
    with_ledger(keys.py(), path, arguments, |ledger, (keys, requests)| {
        let ledger = with_waiting(ledger, wait);
        service.map_or(Ok(()), |service| ledger.check_service(&service))?;
        let rows = match requests {
            None => ledger.look_up(key_name.as_deref(), keys)?,
            Some(requests) => {
                ledger.look_up_requests(key_name.as_deref(), keys.into_iter().zip(requests))?
            }
        };
        Ok(to_row_fields(rows))
    })
}

/// Returns the JSON bodies of calls that create agents.
fn read_create_bodies(calls: &Bound<'_, PyList>) -> Result<Vec<Json>> {
    let read_body = |call: Bound<'_, PyAny>| {
        let call = call.cast::<Call>().map_err(PyErr::from)?;
        let body = call.get().create_body().cloned().unwrap_or_default();
        Ok(serde_json::from_slice::<Json>(&body).unwrap_or_else(|_| Json::string("")))
    };
    calls.iter().map(read_body).collect()
}

/// Looks up rows by the e-mail addresses of their agents. The result for an unknown address is None.
#[pyfunction]
#[pyo3(signature = (path, emails, wait))]
pub(crate) fn look_up_emails_in_ledger<'py>(
    path: OsString,
    emails: &Bound<'py, PyList>,
    wait: bool,
) -> EntryResult<'py> {
    let addresses = extract_all::<String>(emails);
    with_ledger(emails.py(), path, addresses, |ledger, addresses| {
        let rows = with_waiting(ledger, wait).look_up_emails(addresses)?;
        Ok(to_row_fields(rows))
    })
}

/// Returns the normal form of an idempotency key. Ledgers compare keys in this form.
#[pyfunction]
#[pyo3(signature = (key, key_name))]
pub(crate) fn normalize_key(
    py: Python<'_>,
    key: String,
    key_name: Option<String>,
) -> EntryResult<'_> {
    run_entry(py, || Ok(ledger::normalize_key(key_name.as_deref(), &key)))
}

/// Copies a ledger to a new file.
#[pyfunction]
pub(crate) fn back_up_ledger(py: Python<'_>, path: OsString, to: OsString) -> EntryResult<'_> {
    with_ledger(py, path, Ok(()), |ledger, ()| ledger.backup(to))
}

/// The contents of a ledger. Becomes a dict: keyword arguments of the Python class with the same fields.
#[derive(IntoPyObject)]
struct SummaryFields {
    service: String,
    key_name: Option<String>,
    succeeded: usize,
    rejected: usize,
    resolved_with_agent: usize,
    resolved_without_agent: usize,
    in_flight: usize,
    unresolved: Vec<RowFields>,
}

/// Counts a ledger's rows, and lists the rows whose outcome is unknown.
#[pyfunction]
pub(crate) fn summarize_ledger(py: Python<'_>, path: OsString) -> EntryResult<'_> {
    with_ledger(py, path, Ok(()), |ledger, ()| {
        let summary = ledger.summary()?;
        let unresolved = summary.unresolved.into_iter().map(RowFields::from);
        Ok(SummaryFields {
            service: summary.service,
            key_name: summary.key_name,
            succeeded: summary.succeeded,
            rejected: summary.rejected,
            resolved_with_agent: summary.resolved_with_agent,
            resolved_without_agent: summary.resolved_without_agent,
            in_flight: summary.in_flight,
            unresolved: unresolved.collect(),
        })
    })
}

/// Returns the path of a ledger in a file. Returns None for a ledger in a database, even if its URL is invalid.
#[pyfunction]
pub(crate) fn ledger_path(py: Python<'_>, path: OsString) -> EntryResult<'_> {
    run_entry(py, || {
        let ledger = parse_ledger(path).ok();
        Ok(ledger.and_then(|ledger| Some(ledger.path()?.as_os_str().to_owned())))
    })
}

/// Returns a ledger's name for messages: a URL without its user and password.
#[pyfunction]
pub(crate) fn ledger_display_name(py: Python<'_>, path: OsString) -> EntryResult<'_> {
    run_entry(py, || {
        let ledger = parse_ledger(path.clone()).unwrap_or_else(|_| Ledger::sqlite(path));
        Ok(ledger.to_string())
    })
}

/// Returns the paths of the ledgers in a folder.
#[pyfunction]
pub(crate) fn ledgers_in_folder(py: Python<'_>, folder: OsString) -> EntryResult<'_> {
    let ledgers = gil::release(py, || Ledger::in_folder(folder)).map_err(Failure::Ledger);
    run_entry(py, || {
        let ledgers = ledgers?;
        let paths = ledgers.iter().filter_map(Ledger::path);
        let paths = paths.map(|path| path.as_os_str().to_owned());
        Ok(paths.collect::<Vec<_>>())
    })
}

/// Records that the service has a new base URL.
#[pyfunction]
pub(crate) fn set_ledger_base_url(
    py: Python<'_>,
    path: OsString,
    base_url: String,
) -> EntryResult<'_> {
    with_ledger(py, path, Ok(()), |ledger, ()| {
        ledger.set_base_url(&base_url)
    })
}

/// Creates the tables of a ledger in a database.
#[pyfunction]
pub(crate) fn init_ledger(py: Python<'_>, path: OsString) -> EntryResult<'_> {
    with_ledger(py, path, Ok(()), |ledger, ()| ledger.init())
}
