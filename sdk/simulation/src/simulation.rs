//! Everything that the processes of a schedule share: the tape, the service, the database, the history, and the checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dealkit::{
    Outcome,
    ledger::memory::{Database, Entry},
};
use dealkit_server::{Sandbox, Service};
use tokio::time::{Instant, sleep};

use crate::{process::Process, tape::Tape};

mod checks;

/// The time that operators wait before they report that a row of an interrupted job has no agent.
const SENT_LONG_AGO: Duration = Duration::from_secs(120);

/// The prefix of the keys of rows that are in no ledger.
pub(crate) const UNRECORDED: &str = "unrecorded-";

pub(crate) struct Simulation {
    began: Instant,
    tape: Mutex<Tape>,
    pub(crate) database: Database,
    pub(crate) service: Service,
    keeps_history: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults_are_over: bool,
    history: Vec<String>,
    violation: Option<String>,
    requests: Vec<Request>,
    delivered: Vec<DeliveredResult>,
    /// Keys of rows with unknown outcomes that operators had sent again.
    sent_again: BTreeSet<String>,
    /// Keys of rows that operators have resolved or corrected.
    resolved: BTreeSet<String>,
    /// The version of the key that the service accepts.
    key_version: u32,
    /// The number of times that the service has moved to another base URL.
    moves: u32,
    /// Whether the ledger was moved away and back.
    was_moved: bool,
    /// The time at which leases were last ended early.
    ended_leases: Option<Instant>,
    /// The times at which each process has sent something.
    departures: BTreeMap<u32, Vec<Instant>>,
    /// The time until which each process was asked to pause, and since when.
    pauses: BTreeMap<u32, (Instant, Instant)>,
}

/// A request to create an agent.
struct Request {
    key: String,
    process: u32,
    /// The effect of the request, once known.
    end: Option<RequestEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// The service has created this agent.
    Created(String),
    /// The service has not acted, and will not.
    Nothing,
}

/// A result that reports that there is no agent.
struct DeliveredResult {
    key: String,
    /// The process that sent the row for this result alone, if any.
    process: Option<u32>,
    outcome: Outcome,
    /// The number of requests before the process started. The ledger has a claim for each of them.
    earlier: usize,
}

impl Simulation {
    pub(crate) fn new(tape: Tape, keeps_history: bool) -> Arc<Self> {
        #[expect(clippy::expect_used, reason = "nothing is configured")]
        let service = Sandbox::builder().service().expect("a sandbox");
        Arc::new(Self {
            began: Instant::now(),
            tape: Mutex::new(tape),
            database: Database::new(),
            service,
            keeps_history,
            state: Mutex::default(),
        })
    }

    /// Reads a byte of the tape, or zero after the end of the faults.
    pub(crate) fn byte(&self) -> u8 {
        if self.state().faults_are_over {
            return 0;
        }
        self.tape().byte()
    }

    pub(crate) fn below(&self, limit: u8) -> u8 {
        self.byte() % limit
    }

    /// Reads a choice; zero chooses the first.
    pub(crate) fn one_of<const N: usize>(&self, choices: [u32; N]) -> u32 {
        let choice = usize::from(self.byte()) % N;
        choices.get(choice).copied().unwrap_or_default()
    }

    /// Returns whether the ledger has agents for all rows. It lacks the identifier of an agent whose response was cut off.
    pub(crate) fn is_complete(&self, keys: &[String]) -> bool {
        keys.iter().all(|key| {
            let entries = self.database.entries(key);
            let is_created = |entry: &Entry| entry.state == "succeeded" || entry.agent_id.is_some();
            entries.last().is_some_and(is_created)
        })
    }

    /// Reads a time.
    pub(crate) fn time(&self) -> Duration {
        if self.state().faults_are_over {
            return Duration::ZERO;
        }
        self.tape().time()
    }

    pub(crate) fn end_faults(&self) {
        self.state().faults_are_over = true;
        self.database.set_moved(false);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Adds a line to the history, if it is kept.
    pub(crate) fn log(&self, process: &Process, what: impl FnOnce() -> String) {
        self.log_event(|| format!("process {} {}", process.number, what()));
    }

    pub(crate) fn log_event(&self, what: impl FnOnce() -> String) {
        if self.keeps_history {
            let line = format!("{:>10.3} s  {}", self.elapsed().as_secs_f64(), what());
            self.state().history.push(line);
        }
    }

    /// Records a violation, if it is the first.
    pub(crate) fn report_violation(&self, what: String) {
        self.log_event(|| format!("VIOLATION: {what}"));
        self.state().violation.get_or_insert(what);
    }

    /// Takes the history and the first violation.
    pub(crate) fn result(&self) -> (Vec<String>, Option<String>) {
        let mut state = self.state();
        (std::mem::take(&mut state.history), state.violation.take())
    }

    pub(crate) fn is_violated(&self) -> bool {
        self.state().violation.is_some()
    }

    /// Returns the service key that the service accepts now.
    pub(crate) fn service_key(&self) -> String {
        format!("key-{}", self.state().key_version)
    }

    pub(crate) fn rotate_key(&self) {
        self.state().key_version += 1;
        self.log_event(|| "the service accepts another key".to_owned());
    }

    /// Returns the current base URL of the service.
    pub(crate) fn base_url(&self) -> String {
        base_url(self.state().moves)
    }

    /// Gives the service another base URL, and records it in the ledger.
    pub(crate) fn move_service(&self, person: &Arc<Process>) {
        let url = base_url(self.state().moves + 1);
        if person.ledger().set_base_url(&url).is_ok() {
            self.state().moves += 1;
            self.log_event(|| format!("an operator records that the service is now {url}"));
        }
    }

    pub(crate) fn end_leases(&self) {
        self.database.end_leases();
        self.state().ended_leases = Some(Instant::now());
    }

    /// Moves the ledger away for a while.
    pub(crate) fn move_away(self: &Arc<Self>) {
        let (this, time) = (Arc::clone(self), self.time());
        self.database.set_moved(true);
        self.state().was_moved = true;
        tokio::spawn(async move {
            sleep(time).await;
            this.database.set_moved(false);
        });
    }

    /// Returns the agent of a row, as a careful operator would find it: `Ok(None)` if there is none and no request is in flight, `Err`
    /// if that is not certain yet.
    pub(crate) fn look_for_agent(&self, key: &str) -> Result<Option<String>, ()> {
        let state = self.state();
        let of_key = |request: &&Request| request.key == key;
        let mut requests = state.requests.iter().filter(of_key);
        if let Some(agent) = requests.clone().find_map(|request| request.agent()) {
            return Ok(Some(agent.to_owned()));
        }
        let early = state.ended_leases;
        let is_too_early = early.is_some_and(|ended| ended.elapsed() < SENT_LONG_AGO);
        match is_too_early || requests.any(|request| request.end.is_none()) {
            true => Err(()),
            false => Ok(None),
        }
    }

    /// Records that an operator has a row sent again although it may have an agent.
    pub(crate) fn allow_again(&self, key: &str) {
        self.state().sent_again.insert(key.to_owned());
    }

    /// Records that an operator has resolved a row.
    pub(crate) fn resolve(&self, key: &str) {
        self.state().resolved.insert(key.to_owned());
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.state().requests.len()
    }

    /// Records a request that is about to be sent, checks that it may be sent, and returns its number.
    pub(crate) fn send(&self, process: &Process, key: &str) -> usize {
        self.check_claim(process, key);
        self.check_agents();
        let mut state = self.state();
        state.requests.push(Request {
            key: key.to_owned(),
            process: process.number,
            end: None,
        });
        state.requests.len() - 1
    }

    /// Records that a response asks a process to pause for this long.
    pub(crate) fn pause(&self, process: &Process, time: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        let pause = state.pauses.entry(process.number).or_insert((now, now));
        if now + time > pause.1 {
            *pause = (now, now + time);
        }
    }

    /// Records the end of a request.
    pub(crate) fn end(&self, number: usize, end: RequestEnd) {
        let mut state = self.state();
        if let Some(request) = state.requests.get_mut(number) {
            request.end = Some(end);
            let key = request.key.clone();
            let agents = state.requests.iter();
            let agents = agents.filter(|request| request.key == key && request.agent().is_some());
            let count = agents.count();
            let may_be_more = state.sent_again.contains(&key);
            drop(state);
            if count > 1 && !may_be_more {
                self.report_violation(format!("{key} has {count} agents"));
            }
        }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    /// Returns the agent that the request has created.
    fn agent(&self) -> Option<&str> {
        match &self.end {
            Some(RequestEnd::Created(agent)) => Some(agent),
            _ => None,
        }
    }
}

fn base_url(moves: u32) -> String {
    format!("https://deals-{moves}.example.com")
}
