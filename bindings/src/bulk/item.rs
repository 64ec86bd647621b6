//! What became of an input of many calls.

use std::sync::Arc;

use dealkit::{Created, Creation, RawResponse, Retrieved, ledger::LedgerError};

use crate::models::response::CallResult;

/// The result of a call.
pub(super) struct Item {
    pub(super) index: usize,
    /// The identifier that was requested, or the key of the row.
    pub(super) id: Option<String>,
    /// `None` for an agent that was created before.
    pub(super) result: Option<CallResult>,
    pub(super) record: Option<Record>,
}

/// What the ledger says about a row: whether it is the result of an earlier run, the agent's identifier, when it was sent,
/// in milliseconds since 1970, and why the ledger does not have it.
type Record = (bool, Option<String>, Option<i64>, Option<LedgerError>);

impl From<Retrieved<RawResponse>> for Item {
    fn from(retrieved: Retrieved<RawResponse>) -> Self {
        Self {
            index: retrieved.index,
            id: Some(retrieved.id),
            result: Some(retrieved.result.map_err(Arc::new)),
            record: None,
        }
    }
}

impl From<Creation<RawResponse>> for Item {
    fn from(creation: Creation<RawResponse>) -> Self {
        let is_earlier = creation.is_recorded();
        let has_record = is_earlier || creation.ledger_error.is_some();
        let (result, agent_id, sent_at) = match creation.result {
            Ok(Created::Before {
                agent_id, sent_at, ..
            }) => (None, agent_id, sent_at),
            Ok(Created::Now(response)) => (Some(Ok(response)), None, None),
            Err(error) => (Some(Err(Arc::new(error))), None, None),
        };
        Self {
            index: creation.index,
            id: creation.key,
            result,
            record: has_record.then(|| {
                let agent_id = agent_id.map(String::from);
                let sent_at = sent_at.map(|at| at.timestamp_millis());
                (is_earlier, agent_id, sent_at, creation.ledger_error)
            }),
        }
    }
}
