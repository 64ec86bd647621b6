//! The native half of the Python package dealkit: the Rust core, as Python objects.
//!
//! Everything here is thin. What a request may hold, how a scalar is read, what is tried again and what
//! an error says is decided in the crate `dealkit`; the Python package around this module gives it its
//! face.
//!
//! # Where things are
//!
//! `models` states the fields of every response type, and `model` makes a class of each; `read`, `write`
//! and `convert` are how one gets from JSON to Python and back. `client` holds the connection pools,
//! `calls` says what can be called, `runtime` drives it for callers that wait, `pending` for those that
//! await, `many` for many deals. `errors` raises, `logs` logs, `sandbox` and `cli` are the server.

use pyo3::prelude::*;

mod calls;
mod cli;
mod client;
mod convert;
mod errors;
mod logs;
mod many;
#[macro_use]
mod model;
mod models;
mod pending;
mod read;
mod response;
mod runtime;
mod sandbox;
mod write;

/// The native half of dealkit; its public names are those of the package `dealkit`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::{
        calls::{Call, create_agent, other, retrieve_deal},
        cli::run_server,
        client::{Engine, check_options},
        logs::note_log,
        many::Many,
        models::{
            Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal,
            ListingAgent, ListingContract, Offer, Quote, RoleAssignment, Side,
        },
        pending::{Mailbox, Parcel, Pending},
        response::RawResponse,
        sandbox::NativeSandbox,
    };

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::logs::install();
        Ok(())
    }
}
