//! The thread of a job that reads and writes its ledger, and commits together whatever several rows are waiting for.

use std::{
    io, mem, process,
    sync::mpsc::{self, Receiver},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use super::{
    error::{Cause, LedgerError, Place, Purpose},
    key_hash::KeyHash,
    people,
    state::{Record, Recorded, State, WhenInDoubt},
    store::{Store, Write},
};
use crate::value::AgentId;

/// The thread that has the ledger of a job open. Dropping it makes sure that everything noted is on disk.
pub(crate) struct Writer {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Asks the thread for something. What is asked for is done even if nobody waits for it.
#[derive(Clone)]
pub(crate) struct Handle {
    place: Place,
    process: u32,
    thread: mpsc::Sender<Ask>,
}

/// What a ledger has on a key.
pub(crate) struct Found {
    pub(crate) key: KeyHash,
    /// `None` if the row may be sent.
    pub(crate) recorded: Option<Recorded>,
}

type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What the thread is asked for. It is done in this order, but look-ups do not wait for the disk.
enum Ask {
    LookUp(String, Answer<Found>),
    /// Whether this can be the agent of the row, which has this index in the job.
    CheckAgent(KeyHash, AgentId, usize, Answer<()>),
    Write(Write, Answer<Option<Recorded>>),
    /// Says whether the ledger could be opened, once everything before this is done.
    Idle(mpsc::Sender<Result<(), LedgerError>>),
    Close,
}

impl Writer {
    /// Starts the thread, which opens the ledger first.
    pub(super) fn start(
        place: Place,
        open: impl FnOnce() -> Result<Box<dyn Store>, LedgerError> + Send + 'static,
    ) -> Result<Self, LedgerError> {
        let (sender, asked) = mpsc::channel();
        let handle = Handle {
            place,
            process: process::id(),
            thread: sender,
        };
        let thread = thread::Builder::new()
            .name("dealkit-ledger".to_owned())
            .spawn(move || {
                let mut work = Work {
                    store: open(),
                    is_verified: false,
                    failure: None,
                };
                while work.goes_on(&asked) {}
            })
            .map_err(|error| handle.error(Cause::Io(error)))?;
        Ok(Self {
            handle,
            thread: Some(thread),
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until everything that was asked for is done; an error if the ledger could not be opened.
    pub(crate) fn idle(&self) -> Result<(), LedgerError> {
        let (answer, answered) = mpsc::channel();
        self.handle.ask(Ask::Idle(answer))?;
        answered
            .recv()
            .unwrap_or_else(|_| Err(self.handle.closed()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.handle.ask(Ask::Close).is_ok() {
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        } else {
            // In a forked child, where the thread does not exist, it may have left the channel locked.
            mem::forget(self.handle.clone());
        }
    }
}

impl Handle {
    /// Looks up what the ledger has on a key.
    pub(crate) fn look_up(
        &self,
        key: String,
    ) -> impl Future<Output = Result<Found, LedgerError>> + Send + use<> {
        self.answer_to(|answer| Ask::LookUp(key, answer))
    }

    /// Claims a row, which may be sent or asked about once this has completed: the claim is then on disk. If the row is
    /// not this job's, because another one was faster, returns what that has recorded.
    pub(crate) fn claim(
        &self,
        key: KeyHash,
        when: WhenInDoubt,
    ) -> impl Future<Output = Result<Option<Recorded>, LedgerError>> + Send + use<> {
        let claim = Write::Claim { key, when };
        self.answer_to(|answer| Ask::Write(claim, answer))
    }

    /// Records what somebody has found out about a row that was claimed, which has this index in the job: its agent, or
    /// that there is none. Once this has completed, that is on disk.
    pub(crate) async fn settle(
        &self,
        key: KeyHash,
        index: usize,
        agent_id: Option<AgentId>,
    ) -> Result<(), LedgerError> {
        if let Some(id) = agent_id.clone() {
            self.answer_to(|answer| Ask::CheckAgent(key, id, index, answer))
                .await?;
        }
        let settled = Record {
            agent_id: agent_id.map(String::from),
            ..Record::new(State::Settled)
        };
        self.note(key, Some(settled)).await.map(drop)
    }

    /// Notes what became of a row that was claimed, or that no part of it reached the service. Once this has completed,
    /// the note is on disk.
    pub(crate) fn note(
        &self,
        key: KeyHash,
        noted: Option<Record>,
    ) -> impl Future<Output = Result<Option<Recorded>, LedgerError>> + Send + use<> {
        let note = Write::Note { key, noted };
        self.answer_to(|answer| Ask::Write(note, answer))
    }

    fn answer_to<T: Send, A: FnOnce(Answer<T>) -> Ask>(
        &self,
        ask: A,
    ) -> impl Future<Output = Result<T, LedgerError>> + Send + use<T, A> {
        let (answer, wait) = oneshot::channel();
        let asked = self.ask(ask(answer));
        let this = self.clone();
        async move {
            asked?;
            wait.await.unwrap_or_else(|_| Err(this.closed()))
        }
    }

    fn ask(&self, ask: Ask) -> Result<(), LedgerError> {
        // A forked child has neither the thread nor its locks.
        if self.process != process::id() {
            return Err(self.error(Cause::Forked));
        }
        self.thread.send(ask).map_err(|_| self.closed())
    }

    fn closed(&self) -> LedgerError {
        self.error(Cause::Io(io::Error::other("it has been closed")))
    }

    fn error(&self, cause: Cause) -> LedgerError {
        LedgerError::new(self.place.clone(), Purpose::Job, cause)
    }
}

/// The work of the thread.
struct Work {
    store: Result<Box<dyn Store>, LedgerError>,
    is_verified: bool,
    /// The first failure to write.
    failure: Option<LedgerError>,
}

impl Work {
    /// Does whatever has been asked for by now, once there is something; returns whether more may come.
    fn goes_on(&mut self, asked: &Receiver<Ask>) -> bool {
        let Ok(first) = asked.recv() else {
            return false;
        };
        let (mut look_ups, mut writes) = (Vec::new(), Vec::new());
        let (mut waiting, mut goes_on) = (Vec::new(), true);
        for ask in [first].into_iter().chain(asked.try_iter()) {
            match ask {
                Ask::LookUp(key, answer) => look_ups.push((key, answer)),
                Ask::CheckAgent(key, id, index, answer) => {
                    let _ = answer.send(match &self.store {
                        Ok(store) => people::check_agent(&**store, key, &id, index),
                        Err(error) => Err(error.clone()),
                    });
                }
                Ask::Write(write, answer) => writes.push((write, answer)),
                Ask::Idle(answer) => waiting.push(answer),
                Ask::Close => goes_on = false,
            }
        }
        let is_needed = !look_ups.is_empty() || !writes.is_empty();
        if is_needed && !self.is_verified {
            // Not before it is needed: this reads the whole ledger.
            self.is_verified = true;
            let damage = self.store.as_ref().ok().and_then(|store| {
                let verified = store.verify();
                verified.map_err(|cause| store.error(cause)).err()
            });
            if let Some(error) = damage {
                self.store = Err(error);
            }
        }
        self.look_up(look_ups);
        self.write(writes);
        for answer in waiting {
            let _ = answer.send(self.store.as_ref().map(drop).map_err(Clone::clone));
        }
        goes_on
    }

    fn look_up(&self, asked: Vec<(String, Answer<Found>)>) {
        let found = self.store.as_ref().map_err(Clone::clone).and_then(|store| {
            let keys: Vec<_> = asked
                .iter()
                .map(|(key, _)| store.header().hash(key))
                .collect();
            let found = store.look_up(&keys)?;
            Ok(keys.into_iter().zip(found))
        });
        match found {
            Ok(found) => {
                for ((key, recorded), (_, answer)) in found.zip(asked) {
                    let _ = answer.send(Ok(Found { key, recorded }));
                }
            }
            Err(error) => refuse(asked, &error),
        }
    }

    /// Commits claims and notes together. After the first failure nothing is claimed any more, but what became of rows
    /// that were sent may still fit.
    fn write(&mut self, mut asked: Vec<(Write, Answer<Option<Recorded>>)>) {
        let store = match &mut self.store {
            Ok(store) => store,
            Err(error) => return refuse(asked, error),
        };
        if let Some(error) = &self.failure {
            asked = without_claims(asked, error);
        }
        let store = &mut **store;
        let mut written = write(store, &asked);
        if let Err(error) = &written
            && self.failure.is_none()
        {
            asked = without_claims(asked, self.failure.insert(error.clone()));
            written = write(store, &asked);
        }
        match written {
            // Nobody waits for the answer if the row was given up meanwhile.
            Ok(recorded) => {
                for ((_, answer), recorded) in asked.into_iter().zip(recorded) {
                    let _ = answer.send(Ok(recorded));
                }
            }
            Err(error) => refuse(asked, &error),
        }
    }
}

fn write<T>(
    store: &mut dyn Store,
    asked: &[(Write, T)],
) -> Result<Vec<Option<Recorded>>, LedgerError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let writes: Vec<_> = asked.iter().map(|(write, _)| write).collect();
    store.write(&writes)
}

/// Refuses the claims, and returns the notes.
fn without_claims<T>(
    asked: Vec<(Write, Answer<T>)>,
    error: &LedgerError,
) -> Vec<(Write, Answer<T>)> {
    let is_claim = |(write, _): &(Write, _)| matches!(write, Write::Claim { .. });
    let (claims, notes) = asked.into_iter().partition(is_claim);
    refuse(claims, error);
    notes
}

fn refuse<W, T>(asked: Vec<(W, Answer<T>)>, error: &LedgerError) {
    for (_, answer) in asked {
        let _ = answer.send(Err(error.clone()));
    }
}
