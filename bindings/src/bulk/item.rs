//! What became of an input of many calls.

use std::sync::Arc;

use dealkit::{Creation, RawResponse, Retrieved, ledger::LedgerError};

use crate::models::response::CallResult;

/// The result of a call.
pub(super) struct Item {
    pub(super) index: usize,
    /// The identifier that was requested, or the key of the row.
    pub(super) id: Option<String>,
    pub(super) result: CallResult,
    /// What the ledger says about it: whether it is the result of an earlier run, the agent's identifier, and why the
    /// ledger does not have it.
    pub(super) record: Option<(bool, Option<String>, Option<LedgerError>)>,
}

impl From<Retrieved<RawResponse>> for Item {
    fn from(retrieved: Retrieved<RawResponse>) -> Self {
        Self {
            index: retrieved.index,
            id: Some(retrieved.id),
            result: retrieved.result.map_err(Arc::new),
            record: None,
        }
    }
}

impl From<Creation<RawResponse>> for Item {
    fn from(creation: Creation<RawResponse>) -> Self {
        let agent_id = creation.recorded_agent_id().map(ToString::to_string);
        let has_record = creation.recorded || creation.ledger_error.is_some();
        Self {
            index: creation.index,
            id: creation.key,
            result: creation.result.map_err(Arc::new),
            record: has_record.then_some((creation.recorded, agent_id, creation.ledger_error)),
        }
    }
}
