//! What a job with a ledger does with a row: whether it is sent, and what is recorded of it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Deserialize;

use crate::{
    calls::service::BeforeSending,
    error::{
        call::{Error, ErrorKind},
        outcome::Outcome,
    },
    http::call_progress::CallProgress,
    ledger::{Claim, KeyHash, Ledger, LedgerError, LedgerWriter, Recorded, State},
    value::AgentId,
};

/// The ledger of a job, and how to act on its contents.
#[derive(Debug)]
pub(crate) struct Recorder {
    ledger: Ledger,
    resends_unknown: bool,
}

/// What to do with a row.
pub(crate) enum Decision {
    /// Send it and, if there is a ledger, record its outcome.
    Send(Option<Recording>),
    /// An earlier run has its outcome, and nothing is sent.
    Recorded(Error, Option<AgentId>),
    /// It cannot be sent.
    Refused(Error),
}

impl Recorder {
    pub(crate) fn open(
        path: &Path,
        service: &str,
        keys: Option<&str>,
    ) -> Result<Self, LedgerError> {
        Ok(Self {
            ledger: Ledger::open(path, service, keys)?,
            resends_unknown: false,
        })
    }

    pub(crate) fn resend_unknown(&mut self) {
        self.resends_unknown = true;
    }

    /// Decides on the row with this key and index.
    pub(crate) fn decide(&mut self, key: Option<&str>, index: usize) -> Decision {
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            return Decision::Refused(Error::config(
                "not sent: the row has no key, or an empty one; with a ledger, each row needs a key of its own",
            ));
        };
        let (hash, is_in_doubt) = match self.ledger.claim(key, index) {
            Claim::Duplicate(first) => {
                return Decision::Refused(Error::duplicate_key(first));
            }
            Claim::New(hash) => (hash, false),
            Claim::Known(hash, state) => match state.recorded() {
                None => (hash, false),
                Some(recorded) if self.resends_unknown && recorded.outcome == Outcome::Unknown => {
                    (hash, true)
                }
                Some(recorded) => {
                    let Recorded {
                        outcome,
                        agent_id,
                        status,
                        request_id,
                    } = recorded;
                    return Decision::Recorded(
                        Error::recorded(outcome, status, request_id),
                        agent_id,
                    );
                }
            },
        };
        Decision::Send(Some(Recording {
            writer: self.ledger.writer(),
            key: hash,
            is_in_doubt,
            is_intended: Arc::default(),
        }))
    }
}

/// Records the outcome of one row.
pub(crate) struct Recording {
    writer: LedgerWriter,
    key: KeyHash,
    /// Whether an earlier run may have created the agent.
    pub(crate) is_in_doubt: bool,
    /// Whether its intent was recorded, or is about to be: before that there is nothing to record about the row.
    is_intended: Arc<AtomicBool>,
}

/// The result of a row and, if it could not be written to the ledger, the reason.
pub(crate) type Settled<T> = (Result<T, Error>, Option<LedgerError>);

impl Recording {
    /// Writes the row's intent, and waits until it is on disk.
    pub(crate) fn intend(&self) -> BeforeSending {
        let (writer, key) = (self.writer.clone(), self.key);
        let is_intended = Arc::clone(&self.is_intended);
        Arc::new(move || {
            let (writer, is_intended) = (writer.clone(), Arc::clone(&is_intended));
            Box::pin(async move {
                is_intended.store(true, Ordering::Relaxed);
                Ok(writer.intend(key).await?)
            })
        })
    }

    /// Makes the call, after [`intend`](Self::intend) has completed and before the first byte leaves, and records its
    /// outcome. If this future is dropped before it completes, the outcome so far is recorded.
    pub(crate) async fn call<T>(
        self,
        progress: Arc<CallProgress>,
        agent_id: fn(&T) -> Option<String>,
        sent: impl Future<Output = Result<T, Error>>,
    ) -> Settled<T> {
        let mut given_up = GivenUp {
            recording: &self,
            progress: &progress,
            is_over: false,
        };
        let result = sent.await;
        let recorded = match &result {
            // The next run sends this row, as it sends one that is given up.
            Err(error) if error.kind() == ErrorKind::Ledger => Ok(()),
            result => {
                given_up.is_over = true;
                self.record(&state(result, agent_id))
            }
        };
        let result = result.map_err(|error| error.after_doubt(self.is_in_doubt));
        (result, recorded.err())
    }

    fn record(&self, state: &State) -> Result<(), LedgerError> {
        if !self.is_intended.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.writer.record(self.key, state)
    }
}

/// A row that counts as given up unless it completes first.
struct GivenUp<'a> {
    recording: &'a Recording,
    progress: &'a CallProgress,
    is_over: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let state = match self.progress.outcome() {
            _ if self.is_over => return,
            // A row that was only rejected so far would have been retried.
            Outcome::NotSent | Outcome::Rejected => State::NotSent,
            Outcome::Succeeded => State::Created { id: None },
            // The intent already says so.
            Outcome::Unknown => return,
        };
        // If this cannot be written, the intent stands alone and the row is in doubt, which is cautious but not wrong.
        let _ = self.recording.record(&state);
    }
}

/// The state that is recorded for a result.
fn state<T>(result: &Result<T, Error>, agent_id: fn(&T) -> Option<String>) -> State {
    let error = match result {
        Ok(agent) => {
            return State::Created {
                id: agent_id(agent),
            };
        }
        Err(error) => error,
    };
    let status = error.status().map(|status| status.as_u16());
    let request_id = error.shown_request_id();
    match error.outcome() {
        Outcome::Succeeded => State::Created {
            id: error.body().and_then(id_in),
        },
        Outcome::Rejected => State::Rejected { status, request_id },
        Outcome::NotSent => State::NotSent,
        Outcome::Unknown => State::Unknown { status, request_id },
    }
}

/// The identifier in the body of a response, whatever else it contains.
pub(crate) fn id_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        id: String,
    }
    serde_json::from_slice(body).ok().map(|Created { id }| id)
}
