//! The rules of one row, walked through exhaustively: every order of up to eight events of two jobs and a person.

use std::collections::HashSet;

use super::super::state::{Job, Record, RequestInfo, Row, State, WhenUnresolved};
use crate::{transport::outcome::Outcome, value::AgentId};

const DEPTH: usize = 8;

/// Adds the model after a change.
type Happens<'a> = dyn FnMut(&dyn Fn(&mut Model)) + 'a;

/// A row, and the events outside the ledger.
#[derive(Clone, Debug)]
struct Model {
    row: Row,
    jobs: [Running; 2],
    /// The number of agents that the service has created.
    agents: u32,
    /// The number of requests on the way whose jobs no longer wait for them.
    abandoned: u32,
    /// True if a job was told to send the row again although it was unresolved.
    was_resent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    number: i64,
    /// True if other jobs see it alive. A job whose lease has ended sends nothing, but notes what it knows.
    is_alive: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// It asks whether there is an agent.
    Asking,
    /// It has been told.
    Told {
        has_agent: bool,
    },
    /// It may send the row.
    Claimed,
    /// Its request is on the way.
    Sent,
    /// The service has acted on its request, or rejected it.
    Answered {
        has_created: bool,
    },
}

impl Model {
    fn new() -> Self {
        let job = |number| Running {
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

    /// Everything that can happen next.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut happens = |change: &dyn Fn(&mut Self)| {
            let mut model = self.clone();
            change(&mut model);
            model.see_who_is_alive();
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
            self.events_of_job(job, &mut happens);
        }
        if self.abandoned > 0 {
            happens(&|model| {
                model.abandoned -= 1;
                model.agents += 1;
            });
            happens(&|model| model.abandoned -= 1);
        }
        if let Some(has_agent) = self.truth() {
            happens(&|model| {
                let _ = model.row.resolve(0, agent(has_agent).as_ref());
            });
        }
        next
    }

    fn events_of_job(&self, index: usize, happens: &mut Happens<'_>) {
        let job = self.jobs[index];
        let mut notes = |noted: Option<Record>| {
            happens(&|model| {
                model.row.note(&[job.number], 0, noted.clone());
                model.jobs[index].stage = Stage::Idle;
            });
        };
        match job.stage {
            Stage::Idle => {}
            Stage::Asking => notes(None),
            Stage::Told { has_agent } => {
                let resolved = self.row.resolved(agent(has_agent).as_ref());
                let mut row = self.row.clone();
                row.note(&[job.number], 0, Some(resolved.clone()));
                // Another job that sends or asks about the row by now will find the agent itself.
                let current = row.current();
                let is_kept = |row: &Record| row.agent_id.is_some() || row.is_in_flight();
                assert!(
                    !has_agent || current.is_some_and(is_kept),
                    "the answer is lost: {row:#?}"
                );
                notes(Some(resolved));
            }
            Stage::Claimed => notes(None),
            Stage::Sent => notes(Some(Record::new(State::Unknown))),
            Stage::Answered { has_created: true } => {
                let agent_id = Some("a_1".to_owned());
                let created = Record::new(State::Succeeded);
                // The response may have been cut off.
                notes(Some(created.clone()));
                notes(Some(Record {
                    agent_id,
                    ..created
                }));
                notes(Some(Record::new(State::Unknown)));
            }
            Stage::Answered { has_created: false } => {
                for status in [422, 401] {
                    let status = Some(status);
                    let rejected = Record::new(State::Rejected);
                    notes(Some(Record { status, ..rejected }));
                }
                notes(Some(Record::new(State::Unknown)));
            }
        }
        let mut becomes = |stage| happens(&|model| model.jobs[index].stage = stage);
        match job.stage {
            Stage::Asking => {
                if let Some(has_agent) = self.truth() {
                    becomes(Stage::Told { has_agent });
                }
            }
            Stage::Claimed if job.is_alive => becomes(Stage::Sent),
            Stage::Sent => {
                becomes(Stage::Answered { has_created: false });
                happens(&|model| {
                    model.agents += 1;
                    model.jobs[index].stage = Stage::Answered { has_created: true };
                });
            }
            _ => {}
        }
        if job.stage == Stage::Idle && job.is_alive {
            for when in [
                WhenUnresolved::Report,
                WhenUnresolved::Resend,
                WhenUnresolved::Ask,
            ] {
                happens(&|model| model.claim(index, when));
            }
        }
        if job.is_alive && job.stage != Stage::Idle {
            happens(&|model| model.jobs[index].is_alive = false);
        }
        // The process is killed, and started again.
        if job.stage != Stage::Idle || !job.is_alive {
            happens(&|model| {
                model.abandoned += u32::from(job.stage == Stage::Sent);
                model.jobs[index] = Running {
                    number: job.number + 2,
                    is_alive: true,
                    stage: Stage::Idle,
                };
            });
        }
    }

    fn claim(&mut self, index: usize, when: WhenUnresolved) {
        let known = self.row.current().and_then(Record::recorded);
        let is_unresolved = known.is_some_and(|known| known.is_unresolved());
        let request = RequestInfo::default();
        let number = self.jobs[index].number;
        if self.row.claim(number, 0, when, &request).is_none() {
            let asks = when == WhenUnresolved::Ask;
            self.jobs[index].stage = if asks { Stage::Asking } else { Stage::Claimed };
            self.was_resent |= is_unresolved && !asks;
        }
    }

    /// Returns whether the row has an agent, if that is certain.
    fn truth(&self) -> Option<bool> {
        match self.agents {
            0 => (!self.is_on_the_way()).then_some(false),
            _ => Some(true),
        }
    }

    fn is_on_the_way(&self) -> bool {
        self.abandoned > 0 || self.jobs.iter().any(|job| job.stage == Stage::Sent)
    }

    fn see_who_is_alive(&mut self) {
        let alive = self.jobs.map(|job| (job.number, job.is_alive));
        for record in &mut self.row.0 {
            record.job = record.job.map(|job| Job {
                is_alive: alive.contains(&(job.number, true)),
                ..job
            });
        }
    }

    fn check(&self) {
        let known = self.row.current().and_then(Record::recorded);
        let outcome = known.map(|known| known.outcome);
        let has_agent = self.agents > 0;
        let is_right = match outcome {
            None => !has_agent && !self.is_on_the_way(),
            Some(Outcome::Succeeded) => has_agent,
            Some(Outcome::Rejected) => !has_agent,
            _ => true,
        };
        assert!(is_right || self.was_resent, "{self:#?}");
        assert!(self.agents <= 1 || self.was_resent, "{self:#?}");
    }
}

fn agent(has_agent: bool) -> Option<AgentId> {
    has_agent.then(|| AgentId::from("a_1"))
}

#[test]
fn in_every_order_of_events_a_row_is_sent_only_if_it_has_no_agent() {
    let mut seen = HashSet::new();
    let mut models = vec![Model::new()];
    for _ in 0..DEPTH {
        let next = models.iter().flat_map(Model::next);
        let next: Vec<_> = next
            .filter(|model| seen.insert(format!("{model:?}")))
            .collect();
        next.iter().for_each(Model::check);
        models = next;
    }
    assert!(seen.len() > 5_000, "{} models are too few", seen.len());
}
