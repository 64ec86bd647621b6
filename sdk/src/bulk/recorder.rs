//! What a job with a ledger does with a row: whether it is sent, and what is recorded of it.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    panic::AssertUnwindSafe,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use tokio::time::{Instant, sleep_until};

use super::{
    many::Job,
    row::{Course, Created, Creation, id_in},
};
use crate::{
    calls::{call::Call, service::BeforeSending},
    error::{call::Error, cause::Unanswered, kind::ErrorKind},
    http::{call_progress::CallProgress, outcome::Outcome},
    ledger::{
        Found, Handle, KeyHash, LONGEST_ID, Ledger, LedgerError, LedgerErrorKind, Purpose, Record,
        Recorded, Resolution, RowInDoubt, State, WhenInDoubt, Writer,
    },
    value::Json,
};

/// Asks the program whether the agent of a row in doubt exists.
pub(crate) type Resolve =
    Arc<dyn Fn(RowInDoubt) -> BoxFuture<'static, Result<Resolution, Unanswered>> + Send + Sync>;

/// What is done with rows that cannot simply be sent.
#[derive(Clone, Default)]
pub(crate) struct Rules {
    pub(crate) in_doubt: InDoubt,
    pub(crate) waits_in_flight: bool,
}

/// What is done with a row in doubt.
#[derive(Clone, Default)]
pub(crate) enum InDoubt {
    #[default]
    Report,
    Resend,
    Ask(Resolve),
}

/// How long a row that another job is sending waits until it is looked up again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The ledger of a job.
pub(crate) struct Recorder {
    ledger: Ledger,
    /// The base URL, and the name of the keys.
    service: String,
    keys: Option<String>,
    /// `None` until the ledger is needed.
    writer: Option<Writer>,
    pub(crate) rules: Rules,
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
            rules: Rules::default(),
            seen: HashMap::new(),
            hashes: RandomState::new(),
        }
    }

    /// Begins to open the ledger.
    pub(crate) fn opening(&mut self) -> BoxFuture<'static, Result<(), LedgerError>> {
        match self.writer() {
            Ok(writer) => writer.opened().boxed(),
            Err(error) => ready(Err(error)).boxed(),
        }
    }

    fn writer(&mut self) -> Result<&Writer, LedgerError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let (service, keys) = (self.service.clone(), self.keys.clone());
                self.ledger.start(Purpose::Job, service, keys)?
            }
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
        let handle = self.writer()?.handle().clone();
        Ok(Recording::of(handle, key, self.rules.clone()))
    }

    /// Waits until everything noted so far is on disk.
    pub(crate) fn finish(&self) {
        if let Some(writer) = &self.writer {
            // What could not be written is known to the rows.
            writer.finish();
        }
    }
}

/// A row that is being looked up.
pub(crate) struct Recording {
    handle: Handle,
    found: BoxFuture<'static, Result<Found, LedgerError>>,
    key: String,
    rules: Rules,
}

impl Recording {
    pub(crate) fn of(handle: Handle, key: &str, rules: Rules) -> Self {
        Self {
            found: handle.look_up(key.to_owned()).boxed(),
            handle,
            key: key.to_owned(),
            rules,
        }
    }

    /// Makes the call if the row may be sent, and records its outcome before it is handed over. If this future is
    /// dropped before it completes, the outcome so far is recorded.
    pub(crate) async fn run<T, F>(
        mut self,
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
        let limit = call.as_ref().ok().filter(|_| self.rules.waits_in_flight);
        let mut patience = Patience::new(limit.map(Call::time_limit));
        let (key, is_in_doubt) = loop {
            let found = match self.found.as_mut().await {
                Ok(found) => found,
                Err(error) => return Creation::not_sent(index, error.into()),
            };
            let Some(recorded) = found.recorded else {
                break (found.key, false);
            };
            let is_given_up = course.is_given_up.load(Ordering::Relaxed);
            course.is_in_doubt.store(true, Ordering::Relaxed);
            let known = match (&self.rules.in_doubt, &call) {
                (InDoubt::Resend, _) if recorded.is_in_doubt() => break (found.key, true),
                (InDoubt::Ask(resolve), Ok(call)) if recorded.is_in_doubt() && !is_given_up => {
                    // Nothing is sent, but what is not ours must not be polled when it is given up.
                    course.may_send.store(true, Ordering::Relaxed);
                    let row = self.row(&recorded, call.json_body());
                    let answer = ask(&self.handle, index, found.key, recorded, resolve(row)).await;
                    course.may_send.store(false, Ordering::Relaxed);
                    match answer {
                        None => break (found.key, false),
                        Some(known) => known,
                    }
                }
                _ => Creation::of_record(index, recorded),
            };
            let is_in_flight = known.result.as_ref().is_err_and(Error::is_in_flight);
            if !is_in_flight || is_given_up || !patience.wait().await {
                return known;
            }
            self.found = self.handle.look_up(self.key.clone()).boxed();
        };
        course.is_in_doubt.store(is_in_doubt, Ordering::Relaxed);
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
            Err(error) => return Creation::not_sent(index, error.with_earlier_doubt(is_in_doubt)),
        };
        course.may_send.store(true, Ordering::Relaxed);
        let claim = Arc::new(Claim {
            handle: self.handle,
            text: self.key,
            key,
            when: match self.rules.in_doubt {
                InDoubt::Resend => WhenInDoubt::Resend,
                _ => WhenInDoubt::Report,
            },
            patience,
            progress: call.progress(),
            is_open: AtomicBool::new(false),
            term: AtomicU64::new(0),
            refused: OnceLock::new(),
        });
        let result = send(call.before_sending(claim.before_sending())).await;
        if let Some(recorded) = claim.refused.get() {
            return Creation::of_record(index, recorded.clone());
        }
        // If the ledger has failed, it was not claimed, or nobody knows whether it was: as if it were given up.
        let has_failed = |error: &Error| error.kind() == ErrorKind::Ledger;
        let mut ledger_error = None;
        if !result.as_ref().is_err_and(has_failed) && claim.is_open.swap(false, Ordering::Relaxed) {
            course.may_send.store(false, Ordering::Relaxed);
            let is_recording = job.record();
            let noted = claim.handle.note(claim.key, note(&result, agent_id));
            ledger_error = noted.await.err();
            drop(is_recording);
        }
        Creation {
            ledger_error,
            ..Creation::of(
                index,
                result.map_err(|error| error.with_earlier_doubt(is_in_doubt)),
            )
        }
    }
}

impl Recording {
    /// The row as somebody is asked about it.
    fn row(&self, recorded: &Recorded, request: Option<Json>) -> RowInDoubt {
        RowInDoubt {
            status: recorded.status,
            request_id: recorded.request_id.clone(),
            ..RowInDoubt::new(
                self.key.clone(),
                request.unwrap_or_else(|| Json::written(())),
                recorded.sent_at.unwrap_or_default(),
            )
        }
    }
}

/// Learns whether the agent of a row in doubt exists. Meanwhile, no other job asks about it or sends it. Returns what
/// is known of the row, or `None` if there is no agent.
async fn ask<T>(
    handle: &Handle,
    index: usize,
    key: KeyHash,
    recorded: Recorded,
    answer: impl Future<Output = Result<Resolution, Unanswered>> + Send,
) -> Option<Creation<T>> {
    let in_doubt =
        |error: LedgerError| Creation::not_sent(index, Error::from(error).with_earlier_doubt(true));
    let mut asked = Asked {
        handle,
        key,
        is_open: true,
    };
    match handle.claim(key, WhenInDoubt::Ask).await {
        Ok(None) => {}
        Ok(Some(faster)) => {
            asked.is_open = false;
            return Some(Creation::of_record(index, faster));
        }
        Err(error) => return Some(in_doubt(error)),
    }
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    let answer = answer.unwrap_or_else(|_| Err("it has panicked".into()));
    let why = match answer {
        Ok(Resolution::NoAgent) => match handle.settle(key, index, None).await {
            Ok(()) => {
                asked.is_open = false;
                return None;
            }
            Err(error) => return Some(in_doubt(error)),
        },
        Ok(Resolution::Agent(id)) => {
            let settled = handle.settle(key, index, Some(id.clone())).await;
            match settled.err() {
                Some(error) if error.kind() == LedgerErrorKind::Refused => Some(error.into()),
                ledger_error => {
                    asked.is_open = ledger_error.is_some();
                    let known = Recorded {
                        outcome: Outcome::Succeeded,
                        agent_id: Some(id),
                        ..recorded
                    };
                    return Some(Creation {
                        ledger_error,
                        ..Creation::of_record(index, known)
                    });
                }
            }
        }
        Ok(Resolution::Unknown) => None,
        Err(error) => Some(error),
    };
    asked.is_open = false;
    // If this cannot be written, the row is in doubt all the same.
    let _ = handle.note(key, None).await;
    Some(match why {
        None => Creation::of_record(index, recorded),
        Some(why) => Creation::not_sent(index, Error::unanswered(&recorded, why)),
    })
}

/// A row that somebody is asked about. Once this is dropped, another job may ask.
struct Asked<'a> {
    handle: &'a Handle,
    key: KeyHash,
    /// Whether it may be claimed, and nothing was noted since.
    is_open: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.is_open {
            drop(self.handle.note(self.key, None));
        }
    }
}

/// How long to wait for another job.
#[derive(Clone, Copy)]
struct Patience {
    /// `None` if there is no waiting.
    end: Option<Instant>,
    pause: Duration,
}

impl Patience {
    fn new(limit: Option<Duration>) -> Self {
        Self {
            end: limit.and_then(|limit| Instant::now().checked_add(limit)),
            pause: PAUSES.0,
        }
    }

    /// Waits a little; false if the time is over.
    async fn wait(&mut self) -> bool {
        let now = Instant::now();
        let Some(end) = self.end.filter(|end| now < *end) else {
            return false;
        };
        sleep_until(end.min(now + self.pause)).await;
        self.pause = PAUSES.1.min(self.pause * 2);
        true
    }
}

/// The claim of a row that is sent. If it is still open when it is dropped, the row was given up.
struct Claim {
    handle: Handle,
    /// The key, and its hash.
    text: String,
    key: KeyHash,
    when: WhenInDoubt,
    patience: Patience,
    progress: Arc<CallProgress>,
    /// Whether it may be in the ledger, and nothing was noted since.
    is_open: AtomicBool,
    /// The lease with which it was claimed.
    term: AtomicU64,
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
                // A row that is sent again after an attempt is claimed already.
                if this.is_open.load(Ordering::Relaxed) {
                    return Ok(this.handle.may_send(this.term.load(Ordering::Relaxed))?);
                }
                let mut patience = this.patience;
                let recorded = loop {
                    this.is_open.store(true, Ordering::Relaxed);
                    this.term.store(this.handle.term(), Ordering::Relaxed);
                    let claimed = this.handle.claim(this.key, this.when).await?;
                    let Some(recorded) = claimed else {
                        return Ok(this.handle.may_send(this.term.load(Ordering::Relaxed))?);
                    };
                    this.is_open.store(false, Ordering::Relaxed);
                    if !recorded.in_flight || !patience.wait().await {
                        break recorded;
                    }
                    // Those that wait look first: their claims would keep each other waiting.
                    let found = this.handle.look_up(this.text.clone()).await?;
                    if let Some(recorded) = found.recorded.filter(Recorded::is_known) {
                        break recorded;
                    }
                };
                let error = Error::recorded(&recorded);
                let _ = this.refused.set(recorded);
                Err(error)
            })
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            // A row that was only rejected so far would have been retried.
            let noted = noted(self.progress.outcome());
            let noted = noted.filter(|noted| noted.state != State::Rejected);
            // If this cannot be written, the claim stands alone and the row is in doubt, which is cautious but not wrong.
            drop(self.handle.note(self.key, noted));
        }
    }
}

impl<T> Creation<T> {
    /// What the ledger has of a row, which is not sent.
    pub(crate) fn of_record(index: usize, recorded: Recorded) -> Self {
        if recorded.outcome != Outcome::Succeeded {
            return Self::not_sent(index, Error::recorded(&recorded));
        }
        let before = Created::Before {
            agent_id: recorded.agent_id,
            sent_at: recorded.sent_at,
        };
        Self {
            index,
            result: Ok(before),
            key: None,
            ledger_error: None,
        }
    }
}

/// What is noted of a row with this outcome.
fn noted(outcome: Outcome) -> Option<Record> {
    let state = match outcome {
        Outcome::NotSent => return None,
        Outcome::Succeeded => State::Succeeded,
        Outcome::Rejected => State::Rejected,
        Outcome::Unknown => State::Unknown,
    };
    Some(Record::new(state))
}

/// What is noted of a result.
fn note<T>(result: &Result<T, Error>, agent_id: fn(&T) -> Option<String>) -> Option<Record> {
    // A ledger keeps no identifier that nobody would copy.
    let of_agent = |id: Option<String>| {
        Some(Record {
            agent_id: id.filter(|id| id.len() <= LONGEST_ID),
            ..Record::new(State::Succeeded)
        })
    };
    match result {
        Ok(agent) => of_agent(agent_id(agent)),
        Err(error) if error.outcome() == Outcome::Succeeded => {
            of_agent(error.body().and_then(id_in))
        }
        Err(error) => noted(error.outcome()).map(|noted| Record {
            status: error.status().map(|status| status.as_u16()),
            request_id: error.shown_request_id(),
            ..noted
        }),
    }
}
