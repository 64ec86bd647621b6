//! Exhaustive check of the rules of one row: every order of up to eight events of two jobs and an operator.

use std::collections::HashSet;

use super::super::row::{Job, LedgerRow, RequestInfo, Row, RowEntry, State, WhenUnresolved};
use crate::{ledger::key_hash::ValueHash, transport::outcome::Outcome, value::AgentId};

const DEPTH: usize = 8;

/// Adds the model that results from a change.
type AddModel<'a> = dyn FnMut(&dyn Fn(&mut Model)) + 'a;

/// A row, the jobs that use it, and the service.
#[derive(Clone, Debug)]
struct Model {
    row: Row,
    jobs: [JobModel; 2],
    /// The number of agents that the service has created.
    agents: u32,
    /// The number of requests in transit whose jobs no longer wait for a response.
    abandoned: u32,
    /// True if a job was configured to send the row again although it was unresolved.
    was_resent: bool,
}

#[derive(Clone, Copy, Debug)]
struct JobModel {
    number: i64,
    /// True if other jobs consider this one alive. A job whose lease has ended sends nothing, but still records outcomes.
    is_alive: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// The job asks whether the agent exists.
    Asking,
    /// The job knows whether the agent exists.
    LookedUp {
        has_agent: bool,
    },
    /// The job may send the row.
    Claimed,
    /// The job's request is in transit.
    Sent,
    /// The service has created the agent, or rejected the request.
    Responded {
        has_created: bool,
    },
}

impl Model {
    fn new() -> Self {
        let job = |number| JobModel {
            number,
            is_alive: true,
            stage: Stage::Idle,
        };
        Self {
            row: Row::default(),
            jobs: [job(1), job(2)],
            agents: 0,
            abandoned: 0,
            was_resent: false,
        }
    }

    /// Returns the models after each event that is possible next.
    fn next_models(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut add_model = |change: &dyn Fn(&mut Self)| {
            let mut model = self.clone();
            change(&mut model);
            model.update_liveness();
            let has_id = |model: &Self| {
                model
                    .row
                    .current()
                    .is_some_and(|row| row.agent_id.is_some())
            };
            assert!(
                has_id(&model) || !has_id(self),
                "the identifier of {self:#?} is lost: {model:#?}"
            );
            next.push(model);
        };
        for job in 0..2 {
            self.add_job_events(job, &mut add_model);
        }
        if self.abandoned > 0 {
            add_model(&|model| {
                model.abandoned -= 1;
                model.agents += 1;
            });
            add_model(&|model| model.abandoned -= 1);
        }
        if let Some(has_agent) = self.agent_exists() {
            add_model(&|model| {
                let _ = model.row.resolve(0, agent_if(has_agent).as_ref());
            });
        }
        add_model(&|model| {
            let _ = model.row.mark_unknown(0);
        });
        next
    }

    fn add_job_events(&self, index: usize, add_model: &mut AddModel<'_>) {
        let job = self.jobs[index];
        let mut record_outcome = |outcome: Option<RowEntry>| {
            add_model(&|model| {
                model.row.record_outcome(&[job.number], 0, outcome.clone());
                model.jobs[index].stage = Stage::Idle;
            });
        };
        match job.stage {
            Stage::Idle => {}
            Stage::Asking => record_outcome(None),
            Stage::LookedUp { has_agent } => {
                let resolved = self.row.new_resolution(agent_if(has_agent).as_ref());
                let mut row = self.row.clone();
                row.record_outcome(&[job.number], 0, Some(resolved.clone()));
                // A job that has claimed the row since then will find the agent itself.
                let current = row.current();
                let knows_agent = |row: &RowEntry| row.agent_id.is_some() || row.is_in_flight();
                assert!(
                    !has_agent || current.is_some_and(knows_agent),
                    "the agent that was found is lost: {row:#?}"
                );
                record_outcome(Some(resolved));
            }
            Stage::Claimed => record_outcome(None),
            Stage::Sent => record_outcome(Some(RowEntry::new(State::Unknown))),
            Stage::Responded { has_created: true } => {
                let agent_id = Some("a_1".to_owned());
                let created = RowEntry::new(State::Succeeded);
                // The response may have been cut off.
                record_outcome(Some(created.clone()));
                record_outcome(Some(RowEntry {
                    agent_id,
                    ..created
                }));
                record_outcome(Some(RowEntry::new(State::Unknown)));
            }
            Stage::Responded { has_created: false } => {
                for status in [422, 401] {
                    record_outcome(Some(RowEntry {
                        status: Some(status),
                        request: request_of(index),
                        ..RowEntry::new(State::Rejected)
                    }));
                }
                record_outcome(Some(RowEntry::new(State::Unknown)));
            }
        }
        let mut enter_stage = |stage| add_model(&|model| model.jobs[index].stage = stage);
        match job.stage {
            Stage::Asking => {
                if let Some(has_agent) = self.agent_exists() {
                    enter_stage(Stage::LookedUp { has_agent });
                }
            }
            Stage::Claimed if job.is_alive => enter_stage(Stage::Sent),
            Stage::Sent => {
                enter_stage(Stage::Responded { has_created: false });
                add_model(&|model| {
                    model.agents += 1;
                    model.jobs[index].stage = Stage::Responded { has_created: true };
                });
            }
            _ => {}
        }
        if job.stage == Stage::Idle && job.is_alive {
            for when_unresolved in [
                WhenUnresolved::Report,
                WhenUnresolved::Resend,
                WhenUnresolved::Ask,
            ] {
                for resends_corrected in [false, true] {
                    add_model(&|model| model.claim(index, when_unresolved, resends_corrected));
                }
            }
        }
        if job.is_alive && job.stage != Stage::Idle {
            add_model(&|model| model.jobs[index].is_alive = false);
        }
        // The process is killed, and restarted as another job.
        if job.stage != Stage::Idle || !job.is_alive {
            add_model(&|model| {
                model.abandoned += u32::from(job.stage == Stage::Sent);
                model.jobs[index] = JobModel {
                    number: job.number + 2,
                    is_alive: true,
                    stage: Stage::Idle,
                };
            });
        }
    }

    fn claim(&mut self, index: usize, when_unresolved: WhenUnresolved, resends_corrected: bool) {
        let ledger_row = self.row.current().and_then(RowEntry::to_ledger_row);
        let is_unresolved = ledger_row.as_ref().is_some_and(LedgerRow::is_unresolved);
        let rejected = ledger_row.filter(|ledger_row| ledger_row.outcome == Outcome::Rejected);
        let request = request_of(index);
        let number = self.jobs[index].number;
        let blocking = self
            .row
            .claim(number, 0, when_unresolved, resends_corrected, &request);
        if let Some(rejected) = rejected {
            let is_corrected = rejected.request_hash != request.body_hash;
            assert_eq!(
                blocking.is_none(),
                resends_corrected && is_corrected,
                "{self:#?}"
            );
        }
        if blocking.is_none() {
            let asks = when_unresolved == WhenUnresolved::Ask;
            self.jobs[index].stage = if asks { Stage::Asking } else { Stage::Claimed };
            self.was_resent |= is_unresolved && !asks;
        }
    }

    /// Returns whether the row has an agent; `None` while a request is in transit and the agent may still be created.
    fn agent_exists(&self) -> Option<bool> {
        match self.agents {
            0 => (!self.has_request_in_transit()).then_some(false),
            _ => Some(true),
        }
    }

    fn has_request_in_transit(&self) -> bool {
        self.abandoned > 0 || self.jobs.iter().any(|job| job.stage == Stage::Sent)
    }

    fn update_liveness(&mut self) {
        let alive = self.jobs.map(|job| (job.number, job.is_alive));
        for entry in &mut self.row.0 {
            entry.job = entry.job.map(|job| Job {
                is_alive: alive.contains(&(job.number, true)),
                ..job
            });
        }
    }

    fn check(&self) {
        let ledger_row = self.row.current().and_then(RowEntry::to_ledger_row);
        let outcome = ledger_row.map(|ledger_row| ledger_row.outcome);
        let has_agent = self.agents > 0;
        let is_consistent = match outcome {
            None => !has_agent && !self.has_request_in_transit(),
            Some(Outcome::Succeeded) => has_agent,
            Some(Outcome::Rejected) => !has_agent,
            _ => true,
        };
        assert!(is_consistent || self.was_resent, "{self:#?}");
        assert!(self.agents <= 1 || self.was_resent, "{self:#?}");
    }
}

/// Returns the request of a job. The two jobs have different requests.
fn request_of(job: usize) -> RequestInfo {
    RequestInfo {
        body_hash: Some(ValueHash([u8::from(job > 0); 16])),
        ..RequestInfo::default()
    }
}

fn agent_if(has_agent: bool) -> Option<AgentId> {
    has_agent.then(|| AgentId::from("a_1"))
}

#[test]
fn in_every_order_of_events_a_row_is_sent_only_if_it_has_no_agent() {
    let mut seen = HashSet::new();
    let mut models = vec![Model::new()];
    for _ in 0..DEPTH {
        let next = models.iter().flat_map(Model::next_models);
        let next: Vec<_> = next
            .filter(|model| seen.insert(format!("{model:?}")))
            .collect();
        next.iter().for_each(Model::check);
        models = next;
    }
    assert!(seen.len() > 5_000, "{} models are too few", seen.len());
}
