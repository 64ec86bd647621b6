//! What a job with a ledger does with a row: whether it is sent, and what is recorded of it.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    panic::AssertUnwindSafe,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    many::Job,
    row::{Course, CreateRow, Created, Creation, id_in},
};
use crate::{
    calls::{call::Call, service::Guard},
    error::{call::Error, cause::Unanswered, kind::ErrorKind},
    ledger::{
        KeyHash, Ledger, LedgerError, LedgerErrorKind, LedgerHandle, LedgerRow, LookUpResult,
        MAX_ID_BYTES, OpenLedger, RequestInfo, Resolution, RowEntry, Salt, State, UnresolvedRow,
        WhenUnresolved, normalize,
    },
    transport::{call_progress::CallProgress, outcome::Outcome},
    value::Json,
};

/// Asks the program whether the agent of an unresolved row exists.
pub(crate) type Resolve =
    Arc<dyn Fn(UnresolvedRow) -> BoxFuture<'static, Result<Resolution, Unanswered>> + Send + Sync>;

/// What is done with rows that cannot simply be sent. Otherwise, what the ledger has of them is reported.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    /// Whether unresolved rows are sent again.
    pub(crate) resends_unknown: bool,
    /// Who is asked about unresolved rows first.
    pub(crate) resolve: Option<Resolve>,
    pub(crate) waits_in_flight: bool,
}

impl Rules {
    /// Whether any is not the one without a ledger.
    pub(crate) fn are_set(&self) -> bool {
        self.resends_unknown || self.resolve.is_some() || self.waits_in_flight
    }
}

/// How long a row that another job is sending waits until it is looked up again.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Recorder {
    /// Opens the ledger when it is needed, or says why there is no thread for that.
    writer: Result<OpenLedger, LedgerError>,
    keys: Option<String>,
    /// The index of the first row with each key. A hash of 64 bits stands for the key: two keys that share one, which
    /// among a million happens once in forty million jobs, cost a refusal. A tree takes 30 bytes a row, and unlike a hash table
    /// never twice that while it grows.
    seen: BTreeMap<u64, usize>,
    hashes: RandomState,
}

impl Recorder {
    pub(crate) fn new(ledger: &Ledger, service: String, keys: Option<&str>) -> Self {
        let keys = keys.map(str::to_owned);
        Self {
            writer: ledger.start_worker(true, service, keys.clone()),
            keys,
            seen: BTreeMap::new(),
            hashes: RandomState::new(),
        }
    }

    /// Looks up a row with this key and index, unless it cannot be sent anyway.
    pub(crate) fn begin(
        &mut self,
        key: Option<&str>,
        label: Option<String>,
        index: usize,
        rules: &Rules,
    ) -> Result<Recording, Error> {
        let compared = key.map(|key| normalize(self.keys.as_deref(), key));
        let Some(compared) = compared.filter(|key| !key.is_empty()) else {
            return Err(Error::config(
                "not sent: the row's key is missing or empty; with a ledger, each row needs a key of its own",
            ));
        };
        let is_label =
            |label: &String| label.len() <= CreateRow::MAX_LABEL && !label.contains('\0');
        if label.as_ref().is_some_and(|label| !is_label(label)) {
            return Err(Error::config(format!(
                "not sent: the row's label is longer than {} bytes, or contains the character U+0000",
                CreateRow::MAX_LABEL
            )));
        }
        let hash = self.hashes.hash_one(&compared);
        let first = *self.seen.entry(hash).or_insert(index);
        if first != index {
            return Err(Error::duplicate_key(first));
        }
        let writer = self.writer.as_ref().map_err(LedgerError::clone)?;
        let key = key.unwrap_or_default();
        Ok(Recording::of(
            writer.handle().clone(),
            key,
            label,
            rules.clone(),
        ))
    }

    /// Waits until everything recorded so far is on disk.
    pub(crate) async fn finish(&self) {
        if let Ok(writer) = &self.writer {
            // What could not be written is known to the rows.
            writer.flush().await;
        }
    }

    /// Completes once the ledger is closed. No further rows can be recorded.
    pub(crate) fn end(&mut self) -> BoxFuture<'static, ()> {
        match &mut self.writer {
            Ok(writer) => writer.close().boxed(),
            Err(_) => ready(()).boxed(),
        }
    }
}

pub(crate) struct Recording {
    handle: LedgerHandle,
    found: BoxFuture<'static, Result<LookUpResult, LedgerError>>,
    key: String,
    label: Option<String>,
    rules: Rules,
}

impl Recording {
    pub(crate) fn of(handle: LedgerHandle, key: &str, label: Option<String>, rules: Rules) -> Self {
        Self {
            found: handle.look_up(key.to_owned()).boxed(),
            handle,
            key: key.to_owned(),
            label,
            rules,
        }
    }

    /// Makes the call if the row may be sent, and records its outcome before it is handed over. If this future is
    /// dropped before it completes, the outcome so far is recorded.
    pub(crate) async fn run<T, F>(
        self,
        index: usize,
        call: Result<Call<T>, Error>,
        send: impl FnOnce(Call<T>) -> F + Send,
        agent_id: fn(&T) -> Option<String>,
        course: Arc<Course>,
        job: Job,
    ) -> Creation<T>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let found = match self.found.await {
            Ok(found) => found,
            Err(error) => return Creation::not_sent(index, error.into()),
        };
        let (key, mut recorded) = (found.key, found.existing);
        let body = call.as_ref().ok().and_then(Call::body).cloned();
        let request = request_info(&found.salt, body.as_ref(), self.label);
        let of_record =
            |recorded: LedgerRow| Creation::of_record(index, recorded.compared_with(&request));
        let limit = call.as_ref().ok().filter(|_| self.rules.waits_in_flight);
        let mut claim = Claim {
            handle: self.handle,
            text: self.key,
            key,
            request: request.clone(),
            when: WhenUnresolved::Ask,
            patience: limit.and_then(|call| Instant::now().checked_add(call.time_limit())),
            progress: Arc::default(),
            course: Arc::clone(&course),
            is_open: AtomicBool::new(false),
            term: AtomicU64::new(0),
            refused: OnceLock::new(),
        };
        let is_unresolved = loop {
            course
                .is_unresolved
                .store(recorded.is_some(), Ordering::Relaxed);
            let known = match claim.wait(recorded).await {
                Ok(Some(known)) => known,
                Ok(None) => break false,
                Err(error) => return Creation::not_sent(index, error.into()),
            };
            match (&self.rules.resolve, &call) {
                _ if !known.is_unresolved() => return of_record(known),
                (None, _) if self.rules.resends_unknown => break true,
                (Some(resolve), Ok(call)) => {
                    let _place = job.place().await;
                    if course.is_given_up.load(Ordering::Relaxed) {
                        return of_record(known);
                    }
                    // Nothing is sent, but what is not ours must not be polled when it is given up.
                    course.may_send.store(true, Ordering::Relaxed);
                    let answer = resolve(claim.row(&known, call.json_body()));
                    let answer = claim.ask(index, known, answer).await;
                    course.may_send.store(false, Ordering::Relaxed);
                    match answer {
                        Ok(None) => break false,
                        Ok(faster) => recorded = faster,
                        Err(creation) => return creation,
                    }
                }
                _ => return of_record(known),
            }
        };
        course.is_unresolved.store(is_unresolved, Ordering::Relaxed);
        let place = job.place().await;
        // What the ledger knows of the row is not forgotten, and its own error takes precedence.
        let call = call.and_then(|call| match job.refusal() {
            Some(error) => Err(error),
            None if course.is_given_up.load(Ordering::Relaxed) => {
                Err(Error::cancelled(Outcome::NotSent, 0))
            }
            None => Ok(call),
        });
        let call = match call {
            Ok(call) => call,
            Err(error) => {
                return Creation::not_sent(
                    index,
                    error.with_earlier_unknown_outcome(is_unresolved),
                );
            }
        };
        course.may_send.store(true, Ordering::Relaxed);
        let resends_unknown = self.rules.resends_unknown && self.rules.resolve.is_none();
        claim.when = match resends_unknown {
            true => WhenUnresolved::Resend,
            false => WhenUnresolved::Report,
        };
        claim.progress = call.progress();
        let claim = Arc::new(claim);
        let guard = Arc::clone(&claim) as Arc<dyn Guard>;
        let result = send(call.guarded_by(guard)).await;
        // Another row is sent while this one is recorded.
        drop(place);
        if let Some(recorded) = claim.refused.get() {
            return of_record(recorded.clone());
        }
        // If the ledger has failed, it was not claimed, or nobody knows whether it was: as if it were given up.
        let has_failed = |error: &Error| error.kind() == ErrorKind::Ledger;
        let mut ledger_error = None;
        if !result.as_ref().is_err_and(has_failed) && claim.is_open.swap(false, Ordering::Relaxed) {
            course.may_send.store(false, Ordering::Relaxed);
            let noted = claim
                .handle
                .record_outcome(claim.key, note(&result, agent_id, request, body.as_ref()));
            ledger_error = noted.await.err();
        }
        Creation {
            ledger_error,
            ..Creation::of(
                index,
                result.map_err(|error| error.with_earlier_unknown_outcome(is_unresolved)),
            )
        }
    }
}

/// The claim of a row that is asked about or sent. If it is still open when it is dropped, the row was given up.
struct Claim {
    handle: LedgerHandle,
    /// The key, and its hash.
    text: String,
    key: KeyHash,
    request: RequestInfo,
    when: WhenUnresolved,
    /// Until when to wait for another job; `None` if it is not waited for.
    patience: Option<Instant>,
    /// That of the call, once there is one.
    progress: Arc<CallProgress>,
    course: Arc<Course>,
    /// Whether it may be in the ledger, and nothing was noted since.
    is_open: AtomicBool,
    /// The lease with which it was claimed.
    term: AtomicU64,
    /// What another job has recorded of the row, if it was faster.
    refused: OnceLock<LedgerRow>,
}

impl Claim {
    /// Waits for a row that another job is sending, if it is to be waited for, and returns what there is of it then.
    async fn wait(
        &self,
        mut recorded: Option<LedgerRow>,
    ) -> Result<Option<LedgerRow>, LedgerError> {
        let is_waited_for = |row: &LedgerRow| row.in_flight && self.patience > Some(Instant::now());
        while recorded.as_ref().is_some_and(is_waited_for) {
            sleep(PAUSE).await;
            recorded = self.handle.look_up(self.text.clone()).await?.existing;
        }
        Ok(recorded)
    }

    /// Claims the row, and waits until that is on disk; or returns what another job has recorded, if that was faster.
    async fn claim(&self) -> Result<Option<LedgerRow>, LedgerError> {
        self.is_open.store(true, Ordering::Relaxed);
        self.term
            .store(self.handle.lease_number(), Ordering::Relaxed);
        let refused = self
            .handle
            .claim(self.key, self.when, self.request.clone())
            .await?;
        self.is_open.store(refused.is_none(), Ordering::Relaxed);
        Ok(refused)
    }

    /// The row as somebody is asked about it.
    fn row(&self, recorded: &LedgerRow, request: Option<Json>) -> UnresolvedRow {
        UnresolvedRow {
            status: recorded.status,
            request_id: recorded.request_id.clone(),
            ..UnresolvedRow::new(
                self.text.clone(),
                request.unwrap_or_else(|| Json::written(())),
                recorded.sent_at.unwrap_or_default(),
            )
        }
    }

    /// Learns whether the agent of an unresolved row exists. Meanwhile, no other job asks about it or sends it. Returns
    /// `None` if there is no agent, what another job has recorded if that was faster, or else, as the error, what is known.
    async fn ask<T>(
        &self,
        index: usize,
        recorded: LedgerRow,
        answer: impl Future<Output = Result<Resolution, Unanswered>> + Send,
    ) -> Result<Option<LedgerRow>, Creation<T>> {
        let unresolved = |error: LedgerError| {
            Creation::not_sent(index, Error::from(error).with_earlier_unknown_outcome(true))
        };
        if let Some(faster) = self.claim().await.map_err(unresolved)? {
            return Ok(Some(faster));
        }
        let answer = AssertUnwindSafe(answer).catch_unwind().await;
        let found = match answer.unwrap_or_else(|_| Err("it has panicked".into())) {
            Ok(Resolution::Agent(id)) => Ok(Some(id)),
            Ok(Resolution::NoAgent) => Ok(None),
            Ok(Resolution::Unknown) => Err(None),
            Err(error) => Err(Some(error)),
        };
        let why = match found {
            Err(why) => why,
            Ok(agent_id) => match self.handle.resolve(self.key, index, agent_id.clone()).await {
                Err(error) if error.kind() == LedgerErrorKind::Rejected => Some(error.into()),
                Err(error) if agent_id.is_none() => return Err(unresolved(error)),
                resolved => {
                    self.is_open.store(resolved.is_err(), Ordering::Relaxed);
                    if agent_id.is_none() {
                        return Ok(None);
                    }
                    let known = LedgerRow {
                        outcome: Outcome::Succeeded,
                        agent_id,
                        ..recorded
                    };
                    return Err(Creation {
                        ledger_error: resolved.err(),
                        ..Creation::of_record(index, known)
                    });
                }
            },
        };
        self.is_open.store(false, Ordering::Relaxed);
        // If this cannot be written, the row is unresolved all the same.
        let _ = self.handle.record_outcome(self.key, None).await;
        Err(Creation::not_sent(index, Error::recorded(&recorded, why)))
    }
}

impl Guard for Claim {
    fn prepare(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            // A row that is sent again after an attempt is claimed already.
            while !self.is_open.load(Ordering::Relaxed) {
                let Some(refused) = self.claim().await? else {
                    break;
                };
                // Rows that wait are looked up first: their claims would keep each other waiting.
                let waited = refused.in_flight;
                let recorded = self.wait(Some(refused)).await?;
                let is_free = |row: &LedgerRow| waited && row.is_unresolved();
                if let Some(recorded) = recorded.filter(|row| !is_free(row)) {
                    let error = Error::recorded(&recorded, None);
                    let _ = self.refused.set(recorded);
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    fn check(&self) -> Result<(), Error> {
        Ok(self.handle.check_lease(self.term.load(Ordering::Relaxed))?)
    }

    fn expired(&self) -> BoxFuture<'_, ()> {
        Box::pin(
            self.handle
                .wait_until_lease_ends(self.term.load(Ordering::Relaxed)),
        )
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            // A row that was only rejected so far would have been retried.
            let noted = noted(self.progress.outcome(), &self.request);
            let noted = noted.filter(|noted| noted.state != State::Rejected);
            // If this cannot be written, the claim stands alone and the row is unresolved, which is cautious but not wrong.
            let note = self.handle.record_outcome(self.key, noted).boxed();
            self.course.set_last_note(note);
        }
    }
}

impl<T> Creation<T> {
    /// What the ledger has of a row, which is not sent.
    pub(crate) fn of_record(index: usize, recorded: LedgerRow) -> Self {
        if recorded.outcome != Outcome::Succeeded {
            return Self::not_sent(index, Error::recorded(&recorded, None));
        }
        let before = Created::Already {
            agent_id: recorded.agent_id,
            sent_at: recorded.sent_at,
            request_differs: recorded.request_differs,
        };
        Self {
            index,
            result: Ok(before),
            key: None,
            ledger_error: None,
        }
    }
}

/// The request with this body and label, without its data.
fn request_info(salt: &Salt, body: Option<&Bytes>, label: Option<String>) -> RequestInfo {
    #[derive(Deserialize)]
    struct Agent<'a> {
        #[serde(borrow)]
        email: Cow<'a, str>,
    }
    let email = |body| serde_json::from_slice::<Agent<'_>>(body).ok();
    RequestInfo {
        body_hash: body.map(|body| salt.hash_request(body)),
        email_hash: body
            .and_then(|body| email(body))
            .map(|agent| salt.hash_email(&agent.email)),
        label,
    }
}

/// What is noted of a row with this outcome.
fn noted(outcome: Outcome, request: &RequestInfo) -> Option<RowEntry> {
    let state = match outcome {
        Outcome::NotSent => return None,
        Outcome::Succeeded => State::Succeeded,
        Outcome::Rejected => State::Rejected,
        Outcome::Unknown => State::Unknown,
    };
    Some(RowEntry {
        request: request.clone(),
        ..RowEntry::new(state)
    })
}

fn note<T>(
    result: &Result<T, Error>,
    agent_id: fn(&T) -> Option<String>,
    request: RequestInfo,
    body: Option<&Bytes>,
) -> Option<RowEntry> {
    // A ledger keeps no identifier that nobody would copy.
    let of_agent = |id: Option<String>| {
        Some(RowEntry {
            agent_id: id.filter(|id| id.len() <= MAX_ID_BYTES),
            request: request.clone(),
            ..RowEntry::new(State::Succeeded)
        })
    };
    match result {
        Ok(agent) => of_agent(agent_id(agent)),
        Err(error) if error.outcome() == Outcome::Succeeded => {
            of_agent(error.body().and_then(id_in))
        }
        Err(error) => noted(error.outcome(), &request).map(|noted| {
            let (title, code) = match noted.state {
                State::Rejected => {
                    let title = error.shown_title();
                    let title = title.filter(|title| {
                        !title.contains('\0') && !body.is_some_and(|body| repeats(title, body))
                    });
                    (title, error.shown_codes())
                }
                _ => (None, None),
            };
            RowEntry {
                status: error.status().map(|status| status.as_u16()),
                request_id: error.shown_request_id(),
                title,
                code,
                ..noted
            }
        }),
    }
}

/// Whether a text repeats a string of a request, which may be personal data.
fn repeats(text: &str, request: &[u8]) -> bool {
    fn contains(text: &str, value: &Value) -> bool {
        match value {
            Value::String(string) => string.len() > 2 && text.contains(string.as_str()),
            Value::Array(items) => items.iter().any(|item| contains(text, item)),
            Value::Object(members) => members.values().any(|member| contains(text, member)),
            _ => false,
        }
    }
    serde_json::from_slice(request).is_ok_and(|request| contains(text, &request))
}
