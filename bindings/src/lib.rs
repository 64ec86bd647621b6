//! The native half of the Python package dealkit: the Rust core, as Python objects.
//!
//! Everything here is thin. The crate `dealkit` decides what a request may hold, how a scalar is read, what is
//! retried and what an error says; the Python package around this module provides the public API. The rule in [`gil`]
//! says what native code may do with the interpreter.
//!
//! # Where things are
//!
//! `schema` says what a field is, and `model` and `models` make a class for each response type; `read`, `reader`,
//! `write`, `json`, `argument` and `builtin` convert from JSON to Python and back; `reused`, `words`, `decimals`,
//! `kept` and `ascii` make that fast. `client` holds the connection pools and `calls` says what can be called;
//! `waiting` drives calls for sync callers, `pending` for async ones, and `many` for many deals; `ledger` is for
//! notes between two jobs, and `runtime` has what they all run on. `failure` returns what Python code raises, `watch`
//! what it logs, and `texts` some texts that it asks for; `sandbox` and `cli` are the server.

use pyo3::prelude::*;

mod agent_body;
mod argument;
mod arguments;
mod ascii;
mod awaited;
mod builtin;
mod calls;
mod cli;
mod client;
mod deal_stream;
mod decimals;
mod document;
mod extra;
mod failure;
mod gil;
mod json;
mod kept;
mod ledger;
mod made_error;
mod many;
#[macro_use]
mod model;
mod models;
mod pending;
mod read;
mod reader;
mod response;
mod reused;
mod runtime;
mod sandbox;
mod schema;
mod table;
mod table_builder;
mod texts;
mod unsent_ids;
mod waiting;
mod watch;
mod words;
mod write;

/// Hands over what Python code has imported: the class Decimal, a context that fits every number in a document, the
/// members of the enum Role by their values, and the module gc.
#[pyfunction]
fn prepare(
    decimal: Bound<'_, pyo3::types::PyType>,
    context: Bound<'_, PyAny>,
    roles: Bound<'_, pyo3::types::PyDict>,
    gc: &Bound<'_, PyAny>,
) -> PyResult<()> {
    builtin::prepare(decimal, context, roles);
    gil::prepare(gc.py(), gc)
}

/// The native half of dealkit; its public names are those of the package `dealkit`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::{
        calls::{Call, Options, call_options, create_agent, raw_request, retrieve_deal},
        cli::run_server,
        client::{Engine, open_engine},
        deal_stream::DealStream,
        failure::NativeFailure,
        json::RawJson,
        ledger::{look_up_in_ledger, move_ledger, settle_ledger},
        made_error::made_error,
        many::Many,
        models::{
            Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal,
            ListingAgent, ListingContract, Offer, Quote, RoleAssignment, Side,
        },
        pending::{Mailbox, Pending, open_mailbox},
        prepare,
        response::RawResponse,
        runtime::{after_fork, end},
        sandbox::{NativeSandbox, start_sandbox},
        table::{Schema, Table, deal_schema},
        table_builder::{TableBuilder, open_table_builder},
        texts::{json_text, raw_json, violation_texts},
        waiting::Waiting,
        watch::{Watch, watch},
    };

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("READINGS", crate::sandbox::readings(module.py())?)?;
        module.add(
            "PROFILE_FIELDS",
            crate::agent_body::profile_fields(module.py())?,
        )?;
        crate::watch::install();
        Ok(())
    }
}
