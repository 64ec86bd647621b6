//! What a job with a ledger does with a row: whether it is sent, and what is recorded of it.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde::Deserialize;

use super::create::{Course, Settled};
use crate::{
    calls::{call::Call, service::BeforeSending},
    error::{
        call::{Error, ErrorKind},
        outcome::Outcome,
    },
    http::call_progress::CallProgress,
    ledger::{Found, Handle, KeyHash, Ledger, LedgerError, Note, Recorded, Writer},
};

/// The ledger of a job.
pub(crate) struct Recorder {
    ledger: Ledger,
    /// The base URL, and the name of the keys.
    service: String,
    keys: Option<String>,
    /// `None` until the ledger is needed.
    writer: Option<Writer>,
    resends_unknown: bool,
    /// The index of the first row with each key. A hash of 64 bits stands for the key: two keys that share one, which
    /// among a million happens once in forty million jobs, cost a refusal.
    seen: HashMap<u64, usize>,
    hashes: RandomState,
}

impl Recorder {
    pub(crate) fn new(ledger: &Ledger, service: &str, keys: Option<&str>) -> Self {
        Self {
            ledger: ledger.clone(),
            service: service.to_owned(),
            keys: keys.map(str::to_owned),
            writer: None,
            resends_unknown: false,
            seen: HashMap::new(),
            hashes: RandomState::new(),
        }
    }

    pub(crate) fn resend_unknown(&mut self) {
        self.resends_unknown = true;
    }

    /// Opens the ledger, and waits for that.
    pub(crate) fn open(&mut self) -> Result<(), LedgerError> {
        self.writer()?.opened()
    }

    fn writer(&mut self) -> Result<&Writer, LedgerError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.ledger.start(self.service.clone(), self.keys.clone())?,
        };
        Ok(self.writer.insert(writer))
    }

    /// Looks up a row with this key and index, unless it cannot be sent anyway.
    pub(crate) fn begin(&mut self, key: Option<&str>, index: usize) -> Result<Recording, Error> {
        let Some(key) = key.filter(|key| !key.is_empty()) else {
            return Err(Error::config(
                "not sent: the row has no key, or an empty one; with a ledger, each row needs a key of its own",
            ));
        };
        let first = *self.seen.entry(self.hashes.hash_one(key)).or_insert(index);
        if first != index {
            return Err(Error::duplicate_key(first));
        }
        let resends_unknown = self.resends_unknown;
        let handle = self.writer()?.handle().clone();
        Ok(Recording {
            found: handle.look_up(key.to_owned()).boxed(),
            handle,
            resends_unknown,
        })
    }

    /// Waits until everything noted so far is on disk.
    pub(crate) fn finish(&self) {
        if let Some(writer) = &self.writer {
            writer.finish();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// A row that is being looked up.
pub(crate) struct Recording {
    handle: Handle,
    found: BoxFuture<'static, Result<Found, LedgerError>>,
    resends_unknown: bool,
}

impl Recording {
    /// Makes the call if the row may be sent, and records its outcome before it is handed over. If this future is
    /// dropped before it completes, the outcome so far is recorded.
    pub(crate) async fn run<T, F>(
        self,
        call: Result<Call<T>, Error>,
        refuse: impl FnOnce() -> Option<Error> + Send,
        send: impl FnOnce(Call<T>) -> F + Send,
        agent_id: fn(&T) -> Option<String>,
        course: Arc<Course>,
    ) -> Settled<T>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let found = match self.found.await {
            Ok(found) => found,
            Err(error) => return Settled::not_sent(error.into()),
        };
        let is_in_doubt = match found.recorded {
            Some(recorded) if self.resends_unknown && recorded.is_in_doubt() => true,
            Some(recorded) => return recorded.into(),
            None => false,
        };
        course.is_in_doubt.store(is_in_doubt, Ordering::Relaxed);
        // What the ledger knows of the row is not forgotten, and its own error takes precedence.
        let call = call.and_then(|call| match refuse() {
            Some(error) => Err(error),
            None if course.is_given_up() => Err(Error::cancelled(Outcome::NotSent, 0)),
            None => Ok(call),
        });
        let call = match call {
            Ok(call) => call,
            Err(error) => return Settled::not_sent(error.after_doubt(is_in_doubt)),
        };
        course.waits_for_ledger(false);
        let progress = call.progress();
        let claim = Claim {
            handle: self.handle,
            key: found.key,
            resends_unknown: self.resends_unknown,
            is_asked_for: AtomicBool::new(false),
            refused: OnceLock::new(),
        };
        let claim = Arc::new(claim);
        let mut given_up = GivenUp {
            claim: &claim,
            progress: &progress,
            is_over: false,
        };
        let result = send(call.before_sending(claim.before_sending())).await;
        if let Some(recorded) = claim.refused.get() {
            given_up.is_over = true;
            return recorded.clone().into();
        }
        let noted = match &result {
            // It was not claimed, or nobody knows whether it was: that is noted as for a row that is given up.
            Err(error) if error.kind() == ErrorKind::Ledger => None,
            _ if !claim.is_asked_for.load(Ordering::Relaxed) => None,
            result => Some(claim.handle.note(claim.key, note(result, agent_id))),
        };
        let mut ledger_error = None;
        if let Some(noted) = noted {
            given_up.is_over = true;
            course.waits_for_ledger(true);
            ledger_error = noted.await.err();
        }
        Settled {
            result: result.map_err(|error| error.after_doubt(is_in_doubt)),
            ledger_error,
            is_recorded: false,
            recorded_id: None,
        }
    }
}

/// The claim of a row that is sent.
struct Claim {
    handle: Handle,
    key: KeyHash,
    resends_unknown: bool,
    /// Whether the claim may be in the ledger: before that there is nothing to note about the row.
    is_asked_for: AtomicBool,
    /// What another job has recorded of the row, if it was faster.
    refused: OnceLock<Recorded>,
}

impl Claim {
    /// Claims the row once it is its turn, and waits until that is on disk.
    fn before_sending(self: &Arc<Self>) -> BeforeSending {
        let this = Arc::clone(self);
        Arc::new(move || {
            let this = Arc::clone(&this);
            Box::pin(async move {
                this.is_asked_for.store(true, Ordering::Relaxed);
                match this.handle.claim(this.key, this.resends_unknown).await? {
                    None => Ok(()),
                    Some(recorded) => {
                        let error = Error::recorded(&recorded);
                        let _ = this.refused.set(recorded);
                        Err(error)
                    }
                }
            })
        })
    }
}

/// A row that counts as given up unless it completes first.
struct GivenUp<'a> {
    claim: &'a Claim,
    progress: &'a CallProgress,
    is_over: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.is_over || !self.claim.is_asked_for.load(Ordering::Relaxed) {
            return;
        }
        let note = match self.progress.outcome() {
            // A row that was only rejected so far would have been retried.
            Outcome::NotSent | Outcome::Rejected => Note::NotSent,
            Outcome::Succeeded => Note::Succeeded { id: None },
            Outcome::Unknown => Note::Unknown {
                status: None,
                request_id: None,
            },
        };
        // If this cannot be written, the claim stands alone and the row is in doubt, which is cautious but not wrong.
        drop(self.claim.handle.note(self.claim.key, note));
    }
}

impl<T> From<Recorded> for Settled<T> {
    fn from(recorded: Recorded) -> Self {
        Self {
            is_recorded: true,
            recorded_id: recorded.agent_id.clone(),
            ..Self::not_sent(Error::recorded(&recorded))
        }
    }
}

/// What is noted of a result.
fn note<T>(result: &Result<T, Error>, agent_id: fn(&T) -> Option<String>) -> Note {
    let error = match result {
        Ok(agent) => {
            return Note::Succeeded {
                id: agent_id(agent).filter(|id| id.len() <= LONGEST_ID),
            };
        }
        Err(error) => error,
    };
    let status = error.status().map(|status| status.as_u16());
    let request_id = error.shown_request_id();
    match error.outcome() {
        Outcome::Succeeded => Note::Succeeded {
            id: error
                .body()
                .and_then(id_in)
                .filter(|id| id.len() <= LONGEST_ID),
        },
        Outcome::Rejected => Note::Rejected { status, request_id },
        Outcome::NotSent => Note::NotSent,
        Outcome::Unknown => Note::Unknown { status, request_id },
    }
}

/// The longest identifier of an agent that is noted, in bytes: a ledger keeps none that nobody would copy.
const LONGEST_ID: usize = 1024;

/// The identifier in the body of a response, whatever else it contains.
pub(crate) fn id_in(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        id: String,
    }
    serde_json::from_slice(body).ok().map(|Created { id }| id)
}
