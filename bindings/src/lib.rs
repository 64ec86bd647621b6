//! The native half of the Python package dealkit: the Rust core, as Python objects.
//!
//! Everything here is thin. The crate `dealkit` decides what a request may hold, how a scalar is read, what is
//! retried and what an error says; the Python package around this module provides the public API. The rule in [`gil`]
//! says what native code may do with the interpreter.
//!
//! # Where things are
//!
//! A folder for each layer, bottom to top: [`python`], the interpreter and its own types; [`json`], JSON text to these;
//! [`models`], the response types and the request; [`calls`], one call; [`arrow`], tables; [`bulk`], many calls;
//! [`testing`], the sandbox. `client` opens connection pools and stands above them.

use pyo3::prelude::*;

mod arrow;
mod bulk;
mod calls;
mod client;
mod json;
mod models;
mod python;
mod testing;

/// Hands over what Python code has imported: the class Decimal, a context that fits every number in a document, the
/// members of the enum Role by their values, and the module gc.
#[pyfunction]
fn prepare(
    decimal: Bound<'_, pyo3::types::PyType>,
    context: Bound<'_, PyAny>,
    roles: Bound<'_, pyo3::types::PyDict>,
    gc: &Bound<'_, PyAny>,
) -> PyResult<()> {
    python::gil::prepare(gc.py(), gc)?;
    python::builtin::prepare(decimal, context, roles);
    Ok(())
}

/// The native half of dealkit; its public names are those of the package `dealkit`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::{
        arrow::{
            table::{Schema, Table, deal_schema},
            table_builder::{TableBuilder, open_table_builder},
        },
        bulk::{
            ledger::{
                back_up_ledger, init_ledger, ledger_display_name, ledger_path, ledgers_in_folder,
                look_up_emails_in_ledger, look_up_in_ledger, normalize_key, resolve_ledger,
                set_ledger_base_url, summarize_ledger,
            },
            many::Many,
            questions::Question,
        },
        calls::{
            call::{
                Call, Options, call_options, create_agent, create_once, raw_request, retrieve_deal,
            },
            key::{KeyAnswer, KeySource, key_source},
            mailbox::{Mailbox, open_mailbox},
            pending::Pending,
            runtime::end,
            waiting::Waiting,
            watch::{Watch, watch},
        },
        client::{Engine, open_engine},
        json::value::RawJson,
        models::{
            classes::{
                Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal,
                ListingAgent, ListingContract, Offer, Quote, RoleAssignment, Side,
            },
            model::Model,
            response::RawResponse,
            texts::{json_text, raw_json, violation_texts},
        },
        prepare,
        python::failure::NativeFailure,
        testing::{
            cli::run_server,
            sandbox::{NativeSandbox, start_sandbox},
        },
    };

    use pyo3::{prelude::*, types::IntoPyDict};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let effects = dealkit::internal::EFFECTS.map(|(method, template, outcome, effect)| {
            ((method, template, outcome.as_str()), effect)
        });
        module.add("EFFECTS", effects.into_py_dict(module.py())?)?;
        module.add("VARIANTS", crate::testing::sandbox::variants(module.py())?)?;
        crate::models::schema::prepare(crate::models::classes::CLASSES);
        crate::calls::watch::install();
        Ok(())
    }
}
