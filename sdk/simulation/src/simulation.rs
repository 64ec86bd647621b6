//! State that the processes of a schedule share: the tape, the service, the database, the history, and the checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dealkit::{
    Outcome,
    ledger::memory::{CommittedEntry, Database},
};
use dealkit_server::{Sandbox, Service};
use tokio::time::{Instant, sleep};

use crate::{process::Process, tape::Tape};

mod checks;

/// The time that must have passed since leases were ended early before an operator concludes that a row has no agent.
const OPERATOR_WAIT: Duration = Duration::from_secs(120);

/// The prefix of the keys of rows that are created without a ledger.
pub(crate) const NO_LEDGER_PREFIX: &str = "no-ledger-";

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
    results_without_agent: Vec<ResultWithoutAgent>,
    /// Keys of rows that operators had sent again, although their outcome was unknown.
    sent_again: BTreeSet<String>,
    /// The numbers of the processes that send corrected rows again.
    correcting_processes: BTreeSet<u32>,
    /// Keys of rows that operators have resolved.
    resolved: BTreeSet<String>,
    /// The version of the service key that the service accepts.
    key_version: u32,
    /// The number of times that the service's base URL has changed.
    moves: u32,
    /// True if the ledger was replaced and restored.
    ledger_was_replaced: bool,
    /// The time at which leases were last ended early.
    ended_leases: Option<Instant>,
    /// The times at which each process has sent requests.
    departures: BTreeMap<u32, Vec<Instant>>,
    /// The start and the end of the last pause that each process was asked for.
    pauses: BTreeMap<u32, (Instant, Instant)>,
}

/// A request to create an agent.
struct Request {
    key: String,
    process: u32,
    /// The effect of the request, once it is known.
    effect: Option<RequestEffect>,
}

/// The effect of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestEffect {
    /// The service has created this agent.
    Created(String),
    /// The service has not acted, and will not act any more.
    Nothing,
}

/// A reported result that implies that a row has no agent.
struct ResultWithoutAgent {
    key: String,
    /// The process whose requests for the row all belong to this result; `None` if it has another call for the row.
    process: Option<u32>,
    outcome: Outcome,
    /// The number of requests that were sent before the process began. The process could know them from the ledger.
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

    /// Reads a byte of the tape. Returns zero once the faults have ended.
    pub(crate) fn read_byte(&self) -> u8 {
        if self.state().faults_are_over {
            return 0;
        }
        self.tape().read_byte()
    }

    pub(crate) fn read_below(&self, limit: u8) -> u8 {
        self.read_byte() % limit
    }

    /// Reads a choice. The byte zero chooses the first option.
    pub(crate) fn choose<const N: usize>(&self, choices: [u32; N]) -> u32 {
        let choice = usize::from(self.read_byte()) % N;
        choices.get(choice).copied().unwrap_or_default()
    }

    /// Returns whether the ledger has an agent for each row. It lacks the identifier of an agent whose response was cut off.
    pub(crate) fn is_complete(&self, keys: &[String]) -> bool {
        keys.iter().all(|key| {
            let entries = self.database.entries(key);
            let is_created =
                |entry: &CommittedEntry| entry.state == "succeeded" || entry.agent_id.is_some();
            entries.last().is_some_and(is_created)
        })
    }

    /// Reads a time from the tape. Returns zero once the faults have ended.
    pub(crate) fn read_time(&self) -> Duration {
        if self.state().faults_are_over {
            return Duration::ZERO;
        }
        self.tape().read_time()
    }

    pub(crate) fn end_faults(&self) {
        self.state().faults_are_over = true;
        self.database.set_moved(false);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Adds an event of a process to the history.
    pub(crate) fn log(&self, process: &Process, event: impl FnOnce() -> String) {
        self.log_event(|| format!("process {} {}", process.number, event()));
    }

    /// Adds an event to the history, if the caller of the schedule asked for the history.
    pub(crate) fn log_event(&self, event: impl FnOnce() -> String) {
        if self.keeps_history {
            let line = format!("{:>10.3} s  {}", self.elapsed().as_secs_f64(), event());
            self.state().history.push(line);
        }
    }

    /// Records a violation, if it is the first.
    pub(crate) fn report_violation(&self, violation: String) {
        self.log_event(|| format!("VIOLATION: {violation}"));
        self.state().violation.get_or_insert(violation);
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

    /// Changes the base URL of the service, and records it in the ledger.
    pub(crate) fn move_service(&self, operator: &Arc<Process>) {
        let url = base_url(self.state().moves + 1);
        if operator.ledger().set_base_url(&url).is_ok() {
            self.state().moves += 1;
            self.log_event(|| format!("an operator records that the service is now {url}"));
        }
    }

    pub(crate) fn end_leases(&self) {
        self.database.end_leases();
        self.state().ended_leases = Some(Instant::now());
    }

    /// Replaces the ledger by another one for a while.
    pub(crate) fn replace_ledger_for_a_while(self: &Arc<Self>) {
        let (this, time) = (Arc::clone(self), self.read_time());
        self.database.set_moved(true);
        self.state().ledger_was_replaced = true;
        tokio::spawn(async move {
            sleep(time).await;
            this.database.set_moved(false);
        });
    }

    /// Returns the agent of a row, as a careful operator finds it: `Ok(None)` if there is no agent and no request in transit,
    /// `Err` if that is not certain yet.
    pub(crate) fn look_for_agent(&self, key: &str) -> Result<Option<String>, ()> {
        let state = self.state();
        let of_key = |request: &&Request| request.key == key;
        let mut requests = state.requests.iter().filter(of_key);
        if let Some(agent) = requests.clone().find_map(|request| request.agent()) {
            return Ok(Some(agent.to_owned()));
        }
        let early = state.ended_leases;
        let is_too_early = early.is_some_and(|ended| ended.elapsed() < OPERATOR_WAIT);
        match is_too_early || requests.any(|request| request.effect.is_none()) {
            true => Err(()),
            false => Ok(None),
        }
    }

    /// Records that an operator has a row sent again although it may have an agent.
    pub(crate) fn allow_resend(&self, key: &str) {
        self.state().sent_again.insert(key.to_owned());
    }

    /// Records that a process sends rejected rows again if their requests have changed.
    pub(crate) fn allow_corrections(&self, process: &Process) {
        self.state().correcting_processes.insert(process.number);
    }

    /// Records that an operator has resolved a row.
    pub(crate) fn record_resolution(&self, key: &str) {
        self.state().resolved.insert(key.to_owned());
    }

    /// Returns the number of requests that were sent so far.
    pub(crate) fn request_count(&self) -> usize {
        self.state().requests.len()
    }

    /// Records a request that is about to be sent, checks that it may be sent, and returns its number.
    pub(crate) fn record_request(&self, process: &Process, key: &str) -> usize {
        self.check_claim(process, key);
        self.check_agents();
        let mut state = self.state();
        state.requests.push(Request {
            key: key.to_owned(),
            process: process.number,
            effect: None,
        });
        state.requests.len() - 1
    }

    /// Records that a response asks a process to pause for this long.
    pub(crate) fn record_pause(&self, process: &Process, time: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        let pause = state.pauses.entry(process.number).or_insert((now, now));
        if now + time > pause.1 {
            *pause = (now, now + time);
        }
    }

    /// Records the effect of a request.
    pub(crate) fn record_effect(&self, number: usize, effect: RequestEffect) {
        let mut state = self.state();
        if let Some(request) = state.requests.get_mut(number) {
            request.effect = Some(effect);
            let key = request.key.clone();
            let agents = state.requests.iter();
            let agents = agents.filter(|request| request.key == key && request.agent().is_some());
            let count = agents.count();
            let may_have_several = state.sent_again.contains(&key);
            drop(state);
            if count > 1 && !may_have_several {
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
        match &self.effect {
            Some(RequestEffect::Created(agent)) => Some(agent),
            _ => None,
        }
    }
}

fn base_url(moves: u32) -> String {
    format!("https://deals-{moves}.example.com")
}
