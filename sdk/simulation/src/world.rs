//! Everything that the processes of a schedule share: the tape, the service, the database, the history, and the checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dealkit::{
    Created, Creation, ErrorKind, Outcome,
    ledger::memory::{Database, Entry},
};
use dealkit_server::{Sandbox, Service};
use tokio::time::{Instant, sleep};

use crate::{process::Process, tape::Tape};

/// The time for which people wait before they say that a row whose job was cut off has no agent.
const SENT_LONG_AGO: Duration = Duration::from_secs(120);

/// The beginning of the keys of rows that are in no ledger.
pub(crate) const UNRECORDED: &str = "unrecorded-";

pub(crate) struct World {
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
    handed_over: Vec<HandedOver>,
    /// Keys whose rows people had sent again, although their outcome was unknown.
    sent_again: BTreeSet<String>,
    /// Keys whose rows people have resolved, or corrected.
    resolved: BTreeSet<String>,
    /// The version of the key that the service accepts.
    key_version: u32,
    /// The number of times that the service has moved to another base URL.
    moves: u32,
    /// The ledger was moved away and put back.
    was_moved: bool,
    /// When leases were last ended early.
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
    /// The end of its way, once it is known.
    end: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The service has created this agent.
    Created(String),
    /// The service has not acted, and will not.
    Nothing,
}

/// A result that says that there is no agent.
struct HandedOver {
    key: String,
    /// The process that has sent the row for this result only, if at all.
    process: Option<u32>,
    outcome: Outcome,
    /// The requests of processes that had begun earlier: their number. A ledger that was read knows all of them.
    earlier: usize,
}

impl World {
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

    /// Reads a byte of the tape: zero once the faults are over.
    pub(crate) fn byte(&self) -> u8 {
        if self.state().faults_are_over {
            return 0;
        }
        self.tape().byte()
    }

    pub(crate) fn below(&self, limit: u8) -> u8 {
        self.byte() % limit
    }

    /// Reads a choice: zero is the first.
    pub(crate) fn one_of<const N: usize>(&self, choices: [u32; N]) -> u32 {
        let choice = usize::from(self.byte()) % N;
        choices.get(choice).copied().unwrap_or_default()
    }

    /// Whether the ledger has it that all rows have agents. It does not know the identifier of an agent whose response was cut off.
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
    pub(crate) fn note(&self, process: &Process, what: impl FnOnce() -> String) {
        self.note_of(|| format!("process {} {}", process.number, what()));
    }

    pub(crate) fn note_of(&self, what: impl FnOnce() -> String) {
        if self.keeps_history {
            let line = format!("{:>10.3} s  {}", self.elapsed().as_secs_f64(), what());
            self.state().history.push(line);
        }
    }

    /// Records that something has happened that must never happen.
    pub(crate) fn violate(&self, what: String) {
        self.note_of(|| format!("VIOLATION: {what}"));
        self.state().violation.get_or_insert(what);
    }

    /// Takes the history, and what was violated first.
    pub(crate) fn result(&self) -> (Vec<String>, Option<String>) {
        let mut state = self.state();
        (std::mem::take(&mut state.history), state.violation.take())
    }

    pub(crate) fn is_violated(&self) -> bool {
        self.state().violation.is_some()
    }

    /// The service key that the service accepts now.
    pub(crate) fn service_key(&self) -> String {
        format!("key-{}", self.state().key_version)
    }

    pub(crate) fn rotate_key(&self) {
        self.state().key_version += 1;
        self.note_of(|| "the service accepts another key".to_owned());
    }

    /// The base URL of the service now.
    pub(crate) fn base_url(&self) -> String {
        base_url(self.state().moves)
    }

    /// Gives the service another base URL, and records it in the ledger.
    pub(crate) fn move_service(&self, person: &Arc<Process>) {
        let url = base_url(self.state().moves + 1);
        if person.ledger().move_to(&url).is_ok() {
            self.state().moves += 1;
            self.note_of(|| format!("a person records that the service is now {url}"));
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

    /// Returns the agent of a row as a careful person finds it: `Ok(None)` if there is none and none is on its way, `Err` if that
    /// is not certain yet.
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

    /// Records that a person has a row sent again that may have an agent.
    pub(crate) fn allow_again(&self, key: &str) {
        self.state().sent_again.insert(key.to_owned());
    }

    /// Records that a person has resolved a row.
    pub(crate) fn resolve(&self, key: &str) {
        self.state().resolved.insert(key.to_owned());
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.state().requests.len()
    }

    fn has_sent(&self, process: &Process, key: &str) -> bool {
        let state = self.state();
        let mut requests = state.requests.iter();
        requests.any(|request| request.process == process.number && request.key == key)
    }

    /// Records a request that is about to be sent, checks that it may be sent, and returns its number.
    pub(crate) fn send(&self, process: &Process, key: &str) -> usize {
        let entries = self.database.entries(key);
        let is_claim =
            |entry: &&Entry| entry.state == "sending" && entry.process == Some(process.number);
        let number = process.number;
        match entries.iter().rfind(is_claim) {
            _ if key.starts_with(UNRECORDED) => {}
            None => self.violate(format!(
                "process {number} sends {key} without a durable claim: the ledger has {entries:?}"
            )),
            Some(claim) => {
                let rejected = self.database.rejected_jobs();
                if claim.job.is_some_and(|job| rejected.contains(&job)) {
                    self.violate(format!(
                        "process {number} sends {key} although the database has rejected its lease"
                    ));
                }
                // A lease that ended early is over once the job learns of it.
                let may_be_over = self.state().ended_leases.is_some();
                // A row that is sent again may learn meanwhile that its agent exists.
                let is_resent = self.state().sent_again.contains(key);
                let is_over = !claim.is_alive || (entries.last() != Some(claim) && !is_resent);
                if is_over && !may_be_over {
                    self.violate(format!(
                        "process {number} sends {key} although others may take it for dead: the ledger has {entries:?}"
                    ));
                }
            }
        }
        self.check_agents();
        let mut state = self.state();
        state.requests.push(Request {
            key: key.to_owned(),
            process: process.number,
            end: None,
        });
        state.requests.len() - 1
    }

    /// Checks that a process keeps to its rate limit and to the pauses that it was asked for.
    pub(crate) fn check_traffic(&self, process: &Process, rate: Option<u32>) {
        let now = Instant::now();
        let mut state = self.state();
        let pause = state.pauses.get(&process.number).copied();
        let departures = state.departures.entry(process.number).or_default();
        departures.push(now);
        let second = now.checked_sub(Duration::from_secs(1));
        let lately = departures
            .iter()
            .filter(|at| second.is_none_or(|second| **at > second));
        let count = lately.count();
        drop(state);
        // The timer counts in milliseconds, and the first call does not wait.
        if rate.is_some_and(|rate| count > rate as usize + 2) {
            self.violate(format!(
                "process {} sends {count} in a second",
                process.number
            ));
        }
        if let Some((since, until)) = pause
            && now > since
            && now < until
            && process.stopped_until().is_none_or(|end| now > end)
        {
            self.violate(format!(
                "process {} sends during a pause that the service asked for",
                process.number
            ));
        }
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
    pub(crate) fn end(&self, number: usize, end: End) {
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
                self.violate(format!("{key} has {count} agents"));
            }
        }
    }

    /// Checks that no two rows have one agent.
    fn check_agents(&self) {
        let mut seen = BTreeSet::new();
        for row in self.database.rows() {
            if let Some(agent) = row.last().and_then(|entry| entry.agent_id.clone())
                && !seen.insert(agent.clone())
            {
                self.violate(format!("two rows have the agent {agent}"));
            }
        }
        if self.database.misplaced_claims() > 0 {
            self.violate("a row was claimed in a ledger that has another header".to_owned());
        }
    }

    /// Checks a result at the moment at which it is handed over by a process, which may have another call with the same key.
    /// `earlier` is the number of requests when the process began.
    pub(crate) fn check(
        &self,
        process: &Process,
        has_another: bool,
        earlier: usize,
        creation: &Creation,
    ) {
        let Some(key) = creation.key.clone() else {
            return self.violate(format!("row {} came back without its key", creation.index));
        };
        self.note(process, || {
            let result = match &creation.result {
                Ok(Created::Now(agent)) => format!("created {}", agent.id),
                Ok(Created::Before { agent_id, .. }) => format!("had {agent_id:?}"),
                Err(error) => format!("{}, {:?}: {error}", error.outcome(), error.kind()),
            };
            format!("hands over {key}: {result}")
        });
        let entries = self.database.entries(&key);
        let (state, agent) = match entries.last() {
            Some(entry) => (entry.state, entry.agent_id.clone()),
            None => ("nothing", None),
        };
        let was_resolved = self.state().resolved.contains(&key);
        let was_resent = self.state().sent_again.contains(&key);
        let is_recorded = match &creation.result {
            _ if key.starts_with(UNRECORDED) => true,
            _ if creation.ledger_error.is_some() => true,
            // Of the agents of a row that was sent again, the ledger has one.
            Ok(_) if was_resent && agent.is_some() => true,
            Ok(Created::Now(now)) => agent.as_deref() == Some(now.id.as_str()),
            // Another job may be asking about it by now.
            Ok(Created::Before { agent_id, .. }) => {
                agent_id.is_none()
                    || state == "sending"
                    || agent.as_deref() == agent_id.as_ref().map(|id| id.as_str())
            }
            // What the ledger had is told as it was when it was read.
            Err(error) if matches!(error.kind(), ErrorKind::Ledger | ErrorKind::Recorded) => true,
            // It is only an earlier request that may have created the agent.
            Err(_) if !self.has_sent(process, &key) => true,
            Err(error) => match error.outcome() {
                Outcome::Unknown => {
                    let by = entries.last().and_then(|entry| entry.process);
                    let is_own = !has_another && by == Some(process.number);
                    was_resolved
                        || agent.is_some()
                        || matches!(state, "unknown" | "succeeded" | "rejected")
                        || (state == "sending" && !is_own)
                }
                Outcome::Succeeded => was_resolved || agent.is_some() || state == "succeeded",
                _ => true,
            },
        };
        if !is_recorded {
            self.violate(format!(
                "{key} is handed over, and the ledger has {state}: {:?}",
                creation.result
            ));
        }
        if let Err(error) = &creation.result
            && matches!(error.outcome(), Outcome::NotSent | Outcome::Rejected)
        {
            let has_read = error.kind() != ErrorKind::Ledger;
            self.state().handed_over.push(HandedOver {
                key,
                process: (!has_another).then_some(process.number),
                outcome: error.outcome(),
                earlier: if has_read { earlier } else { 0 },
            });
        }
        self.check_agents();
    }

    /// Checks, once every request has ended, that no row has an agent of which a result says that there is none.
    pub(crate) fn check_end(&self) {
        self.check_agents();
        let state = self.state();
        let mut wrong = None;
        for result in &state.handed_over {
            let requests = state.requests.iter().enumerate();
            let agent = requests
                .filter(|(number, request)| {
                    request.key == result.key
                        && (Some(request.process) == result.process || *number < result.earlier)
                })
                .find_map(|(_, request)| request.agent());
            if let Some(agent) = agent {
                wrong.get_or_insert(format!(
                    "{} is handed over as {}, and it has the agent {agent}",
                    result.key, result.outcome
                ));
            }
        }
        drop(state);
        if let Some(wrong) = wrong {
            self.violate(wrong);
        }
    }

    /// Checks, after a while, that no process has left a row in flight that could have said what became of it, and that no row is in
    /// doubt that was never sent.
    pub(crate) fn check_left(&self, processes: &[Arc<Process>], keys: &[String]) {
        if self.state().ended_leases.is_some() || self.state().was_moved {
            return;
        }
        for key in keys {
            let entries = self.database.entries(key);
            let Some(entry) = entries.last() else {
                continue;
            };
            let by = |process: &&Arc<Process>| Some(process.number) == entry.process;
            let process = processes.iter().find(by);
            if entry.state == "sending" && process.is_some_and(|process| process.leaves_nothing()) {
                self.violate(format!(
                    "process {:?} leaves {key} in flight",
                    entry.process
                ));
            }
            let was_sent = self
                .state()
                .requests
                .iter()
                .any(|request| request.key == *key);
            if entry.state == "unknown" && !was_sent {
                self.violate(format!("{key} is in doubt, and was never sent"));
            }
        }
    }

    /// Checks that a process that asks about a row has claimed it, so that no other asks or sends until its lease ends.
    pub(crate) fn check_question(&self, process: &Process, key: &str) {
        let entries = self.database.entries(key);
        let is_claim =
            |entry: &&Entry| entry.state == "sending" && entry.process == Some(process.number);
        // The job that sent the row may note meanwhile that its agent was created.
        let last = entries.iter().rfind(|entry| entry.state != "succeeded");
        let is_asked = |claim: &Entry| !claim.is_alive || last == Some(claim);
        if !entries.iter().rfind(is_claim).is_some_and(is_asked) {
            self.violate(format!(
                "process {} asks about {key} without a claim: the ledger has {entries:?}",
                process.number
            ));
        }
    }

    /// Checks, after the last run, that a row has its agent, and that the ledger knows it.
    pub(crate) fn check_row(&self, key: &str) {
        let entries = self.database.entries(key);
        let agents: Vec<_> = {
            let state = self.state();
            let of_key = state.requests.iter().filter(|request| request.key == key);
            of_key
                .filter_map(|request| request.agent().map(str::to_owned))
                .collect()
        };
        let is_known = entries.last().is_some_and(|entry| match &entry.agent_id {
            Some(known) => agents.contains(known),
            None => entry.state == "succeeded" && !agents.is_empty(),
        });
        if !is_known {
            self.violate(format!(
                "after the last run, {key} has the agents {agents:?}, and the ledger has {entries:?}"
            ));
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
    /// The agent that it has created.
    fn agent(&self) -> Option<&str> {
        match &self.end {
            Some(End::Created(agent)) => Some(agent),
            _ => None,
        }
    }
}

fn base_url(moves: u32) -> String {
    format!("https://deals-{moves}.example.com")
}
