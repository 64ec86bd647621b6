//! The native module of the Python package dealkit: the crate `dealkit` as Python classes and functions.
//!
//! This crate is thin. The crate `dealkit` has the rules of requests, the parsers, the retry policy and the error messages, and
//! the Python code of the package has the public API. [`gil`] states the rule for what native code may do with the interpreter.
//!
//! # Layers
//!
//! Each folder is a layer, from bottom to top:
//!
//! * [`python`][]: the interpreter and Python's built-in types
//! * [`json`][]: JSON text to built-in types
//! * [`models`][]: response models, the create request, and results of calls
//! * [`calls`][]: single calls
//! * [`arrow`][]: tables
//! * [`bulk`][]: bulk jobs and ledgers
//! * [`testing`][]: the sandbox
//! * [`client`][]: the client, which sends all calls

use pyo3::prelude::*;

mod arrow;
mod bulk;
mod calls;
mod client;
mod json;
mod models;
mod python;
mod testing;

/// Stores objects that Python code has imported: the class Decimal, a decimal context that is precise enough for every number in
/// a document, the members of the enum Role by their values, and the module gc. Called once, before all other functions.
#[pyfunction]
fn prepare(
    decimal: Bound<'_, pyo3::types::PyType>,
    context: Bound<'_, PyAny>,
    roles: Bound<'_, pyo3::types::PyDict>,
    gc: &Bound<'_, PyAny>,
) -> PyResult<()> {
    python::gil::prepare(gc.py(), gc)?;
    python::builtin::store_imports(decimal, context, roles);
    Ok(())
}

/// The native module of dealkit. Import its public names from the package `dealkit`.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::{
        arrow::{
            table::{Schema, Table, deal_schema},
            table_builder::{TableBuilder, open_table_builder},
        },
        bulk::{
            CreateRow,
            bulk_calls::BulkCalls,
            create_row,
            ledger::{
                back_up_ledger, init_ledger, ledger_display_name, ledger_path, ledgers_in_folder,
                look_up_emails_in_ledger, look_up_in_ledger, mark_unknown_in_ledger, normalize_key,
                resolve_ledger, set_ledger_base_url, summarize_ledger,
            },
        },
        calls::{
            background_call::BackgroundCall,
            blocking_call::BlockingCall,
            call::{
                Call, CreateOnce, Options, call_options, create_agent, create_once, raw_request,
                retrieve_deal,
            },
            key_source::{KeyRequest, KeySource, key_source},
            ledger_options::{LedgerOptions, ledger_options},
            mailbox::{Mailbox, open_mailbox},
            observer::{CallTrace, TraceEvent, start_trace},
            resolve_requests::ResolveRequest,
            runtime::shut_down,
        },
        client::{NativeClient, open_client},
        json::value::RawJson,
        models::{
            call_result::{BulkResult, LedgerRecord},
            classes::{
                Address, Agent, AgentProfileResponse, Application, Contact, ContactField, Deal,
                ListingAgent, ListingContract, Offer, Quote, RoleAssignment, Side,
            },
            json_functions::{json_text, raw_json, violation_texts},
            model::Model,
            response::RawResponse,
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
        crate::models::schema::register_classes(crate::models::classes::CLASSES);
        crate::calls::observer::install_subscriber();
        Ok(())
    }
}
