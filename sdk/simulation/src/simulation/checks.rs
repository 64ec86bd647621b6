//! Checks of a schedule. Each reports a violation if it fails.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use dealkit::{AgentId, Created, Creation, ErrorKind, Outcome, ledger::memory::CommittedEntry};
use tokio::time::Instant;

use super::{NO_LEDGER_PREFIX, ResultWithoutAgent, Simulation};
use crate::process::Process;

impl Simulation {
    /// Checks that a process may send a row: it has a durable claim, and other jobs may not consider its job dead yet.
    pub(super) fn check_claim(&self, process: &Process, key: &str) {
        let entries = self.database.entries(key);
        let is_claim = |entry: &&CommittedEntry| {
            entry.state == "sending" && entry.process == Some(process.number)
        };
        let number = process.number;
        match entries.iter().rfind(is_claim) {
            _ if key.starts_with(NO_LEDGER_PREFIX) => {}
            None => self.report_violation(format!(
                "process {number} sends {key} without a durable claim: the ledger has {entries:?}"
            )),
            Some(claim) => {
                let rejected = self.database.rejected_jobs();
                if claim.job.is_some_and(|job| rejected.contains(&job)) {
                    self.report_violation(format!(
                        "process {number} sends {key} although the database has rejected its lease"
                    ));
                }
                // After leases were ended early, a job may send until it learns that its lease has ended.
                let may_have_ended = self.state().ended_leases.is_some();
                // While a row is sent again, an earlier job may record that its agent exists.
                let is_resent = self.state().sent_again.contains(key);
                let has_ended = !claim.is_alive || (entries.last() != Some(claim) && !is_resent);
                if has_ended && !may_have_ended {
                    self.report_violation(format!(
                        "process {number} sends {key} although other jobs may consider it dead: the ledger has {entries:?}"
                    ));
                }
                if !is_resent {
                    self.check_correction(process, key, &entries);
                }
            }
        }
    }

    /// Checks that a row that the service has rejected is sent again only if its request has changed and its process sends
    /// corrected rows.
    fn check_correction(&self, process: &Process, key: &str, entries: &[CommittedEntry]) {
        let number = process.number;
        let may_correct = self.state().correcting_processes.contains(&number);
        for (earlier, claim) in entries.iter().zip(entries.iter().skip(1)) {
            let is_sent_again = claim.state == "sending" && claim.process == Some(number);
            // The other statuses with which the simulated service rejects requests are not about their content.
            let is_rejected = earlier.state == "rejected" && earlier.status == Some(422);
            let is_corrected = may_correct && earlier.request != claim.request;
            if is_sent_again && is_rejected && !is_corrected {
                self.report_violation(format!(
                    "process {number} sends {key}, which was rejected and not corrected: the ledger has {entries:?}"
                ));
            }
        }
    }

    fn has_sent(&self, process: &Process, key: &str) -> bool {
        let state = self.state();
        let mut requests = state.requests.iter();
        requests.any(|request| request.process == process.number && request.key == key)
    }

    /// Checks that a process observes its rate limit and the pauses that it was asked for.
    pub(crate) fn check_traffic(&self, process: &Process, rate: Option<u32>) {
        let now = Instant::now();
        let mut state = self.state();
        let pause = state.pauses.get(&process.number).copied();
        let departures = state.departures.entry(process.number).or_default();
        departures.push(now);
        let second = now.checked_sub(Duration::from_secs(1));
        let recent = departures
            .iter()
            .filter(|at| second.is_none_or(|second| **at > second));
        let count = recent.count();
        drop(state);
        // Two more requests are allowed, for the timer's resolution of a millisecond and for the first call, which does not wait.
        if rate.is_some_and(|rate| count > rate as usize + 2) {
            self.report_violation(format!(
                "process {} sends {count} requests in a second",
                process.number
            ));
        }
        if let Some((since, until)) = pause
            && now > since
            && now < until
            && process.stopped_until().is_none_or(|end| now > end)
        {
            self.report_violation(format!(
                "process {} sends during a pause that the service asked for",
                process.number
            ));
        }
    }

    /// Checks that no two rows have the same agent.
    pub(super) fn check_agents(&self) {
        let mut seen = BTreeSet::new();
        for row in self.database.rows() {
            if let Some(agent) = row.last().and_then(|entry| entry.agent_id.clone())
                && !seen.insert(agent.clone())
            {
                self.report_violation(format!("two rows have the agent {agent}"));
            }
        }
        if self.database.misplaced_claims() > 0 {
            self.report_violation(
                "a row was claimed in a ledger that has another header".to_owned(),
            );
        }
    }

    /// Checks a result when a process hands it over. `has_another` is true if the process may have another call with the same
    /// key; `earlier` is the number of requests when the process began.
    pub(crate) fn check(
        &self,
        process: &Process,
        has_another: bool,
        earlier: usize,
        creation: &Creation,
    ) {
        let Some(key) = creation.key.clone() else {
            return self.report_violation(format!(
                "row {} is handed over without its key",
                creation.index
            ));
        };
        self.log(process, || {
            let result = match &creation.result {
                Ok(Created::Now(agent)) => format!("created {}", agent.id),
                Ok(Created::Already { agent_id, .. }) => format!("had {agent_id:?}"),
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
        // Another job may have claimed the row to ask about it since then.
        let is_recorded_agent = |agent_id: Option<&AgentId>| {
            agent_id.is_none()
                || was_resent && agent.is_some()
                || state == "sending"
                || agent.as_deref() == agent_id.map(|id| id.as_str())
        };
        let is_recorded = match &creation.result {
            _ if key.starts_with(NO_LEDGER_PREFIX) => true,
            _ if creation.ledger_error.is_some() => true,
            // A row that was sent again may have several agents, and the ledger has one of them.
            Ok(_) if was_resent && agent.is_some() => true,
            Ok(Created::Now(now)) => agent.as_deref() == Some(now.id.as_str()),
            Ok(Created::Already { agent_id, .. }) => is_recorded_agent(agent_id.as_ref()),
            Err(error) if error.kind() == ErrorKind::IdempotencyKeyReused => {
                is_recorded_agent(error.created_agent_id())
            }
            // These errors report an earlier state of the ledger.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Ledger | ErrorKind::AlreadyAttempted
                ) =>
            {
                true
            }
            // The process sent no request for the row, so its outcome is about an earlier request.
            Err(_) if !self.has_sent(process, &key) => true,
            Err(error) => match error.outcome() {
                Outcome::Unknown => {
                    let by = entries.last().and_then(|entry| entry.process);
                    // If another job has claimed the row to send it again, the older claim may stay below it.
                    let is_alone = !has_another && !was_resent;
                    let is_own = is_alone && by == Some(process.number);
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
            self.report_violation(format!(
                "{key} is handed over, and the ledger has {state}: {:?}",
                creation.result
            ));
        }
        if let Err(error) = &creation.result
            && matches!(error.outcome(), Outcome::NotSent | Outcome::Rejected)
        {
            let has_read = error.kind() != ErrorKind::Ledger;
            self.state().results_without_agent.push(ResultWithoutAgent {
                key,
                process: (!has_another).then_some(process.number),
                outcome: error.outcome(),
                earlier: if has_read { earlier } else { 0 },
            });
        }
        self.check_agents();
    }

    /// Checks, once every request has had its effect, that no row has an agent although a result says that there is none.
    pub(crate) fn check_end(&self) {
        self.check_agents();
        let state = self.state();
        let mut wrong = None;
        for result in &state.results_without_agent {
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
            self.report_violation(wrong);
        }
    }

    /// Checks, after a quiet period, that no process that ended properly has left a row in flight, and that no row is
    /// unresolved that was never sent.
    pub(crate) fn check_unfinished_rows(&self, processes: &[Arc<Process>], keys: &[String]) {
        if self.state().ended_leases.is_some() || self.state().ledger_was_replaced {
            return;
        }
        for key in keys {
            let entries = self.database.entries(key);
            let Some(entry) = entries.last() else {
                continue;
            };
            let by = |process: &&Arc<Process>| Some(process.number) == entry.process;
            let process = processes.iter().find(by);
            if entry.state == "sending" && process.is_some_and(|process| process.ended_properly()) {
                self.report_violation(format!(
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
                self.report_violation(format!("{key} is unresolved, and was never sent"));
            }
        }
    }

    /// Checks that a process that asks about a row has claimed it, so that no other process asks about or sends it.
    pub(crate) fn check_asking_process(&self, process: &Process, key: &str) {
        let entries = self.database.entries(key);
        let is_claim = |entry: &&CommittedEntry| {
            entry.state == "sending" && entry.process == Some(process.number)
        };
        // The job that sent the row may record in the meantime that the agent was created.
        let last = entries.iter().rfind(|entry| entry.state != "succeeded");
        let is_asked = |claim: &CommittedEntry| !claim.is_alive || last == Some(claim);
        if !entries.iter().rfind(is_claim).is_some_and(is_asked) {
            self.report_violation(format!(
                "process {} asks about {key} without a claim: the ledger has {entries:?}",
                process.number
            ));
        }
    }

    /// Checks, after the last run, that a row has an agent, and that the ledger has this agent.
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
            self.report_violation(format!(
                "after the last run, {key} has the agents {agents:?}, and the ledger has {entries:?}"
            ));
        }
    }
}
