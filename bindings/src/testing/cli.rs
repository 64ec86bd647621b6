//! The console command `dealkit-server`.

use std::ffi::OsString;

use dealkit_server::cli;
use pyo3::prelude::*;

use crate::python::gil;

/// Runs the server until a signal. The first argument is the command's name. Returns the exit code.
#[pyfunction]
pub(crate) fn run_server(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    gil::release(py, || cli::run(arguments))
}
