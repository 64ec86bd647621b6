//! Options of creates whose outcomes a ledger records.

use std::ffi::OsString;

use dealkit::ledger::Ledger;
use pyo3::prelude::*;

use crate::python::{
    arguments::parse_ledger,
    failure::{EntryResult, run_entry},
};

/// The ledger of `create_many` or `create_once`, and the options that concern it.
#[pyclass(frozen, module = "dealkit._native")]
#[derive(Clone)]
pub(crate) struct LedgerOptions {
    pub(crate) ledger: Ledger,
    /// The meaning of the idempotency keys, such as `email`.
    pub(crate) key_name: Option<String>,
    /// True if a row whose outcome is unknown is sent again.
    pub(crate) resend_unknown: bool,
    /// True if a rejected row whose request has changed is sent again.
    pub(crate) resend_corrected: bool,
    /// True if Python code resolves rows whose outcome is unknown.
    pub(crate) resolve: bool,
    /// True if the job waits for the outcome of a row that another job is sending.
    pub(crate) wait_in_flight: bool,
}

/// Makes ledger options. `ledger` is the path of a file, or the URL of a database.
#[pyfunction]
#[pyo3(signature = (ledger, key_name, resend_unknown, resend_corrected, resolve, wait_in_flight))]
pub(crate) fn ledger_options(
    py: Python<'_>,
    ledger: OsString,
    key_name: Option<String>,
    resend_unknown: bool,
    resend_corrected: bool,
    resolve: bool,
    wait_in_flight: bool,
) -> EntryResult<'_> {
    run_entry(py, || {
        Ok(LedgerOptions {
            ledger: parse_ledger(ledger)?,
            key_name,
            resend_unknown,
            resend_corrected,
            resolve,
            wait_in_flight,
        })
    })
}
