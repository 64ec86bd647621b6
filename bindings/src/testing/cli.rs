//! The console command `dealkit-server`.

use std::{ffi::OsString, process::ExitCode};

use dealkit_server::cli;
use pyo3::prelude::*;

use crate::python::gil;

/// Runs the server with these arguments, the command's name first, until a signal ends it. Returns the
/// exit code.
#[pyfunction]
pub(crate) fn run_server(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let code = gil::release(py, || cli::run(arguments));
    // An ExitCode does not tell its number, but can be compared.
    (0..=u8::MAX)
        .find(|number| ExitCode::from(*number) == code)
        .unwrap_or(1)
}
