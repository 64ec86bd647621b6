//! The operators of a schedule: they answer the questions of jobs, resolve rows, also while jobs run, and change keys and addresses.

use std::{io, sync::Arc};

use dealkit::{
    AgentId, Outcome,
    ledger::{LedgerRow, Resolution, UnresolvedRow},
};
use tokio::time::sleep;

use crate::{process::Process, simulation::Simulation};

/// Answers whether an unresolved row has an agent.
pub(crate) async fn look_up(
    process: Arc<Process>,
    keys: Arc<[String]>,
    row: UnresolvedRow,
) -> Result<Resolution, io::Error> {
    let simulation = &process.simulation;
    simulation.check_question(&process, &row.key);
    let choice = simulation.byte();
    let answer = match choice {
        100..110 => Err(io::Error::other("the search does not respond")),
        110..120 => Ok(Resolution::Unknown),
        200.. => match agent_of_another_row(&process, &keys, &row.key) {
            Some(agent) => Ok(Resolution::Agent(agent)),
            None => Ok(Resolution::Unknown),
        },
        _ => Ok(find(simulation, &row.key)),
    };
    simulation.log(&process, || format!("is told of {}: {answer:?}", row.key));
    if choice > 100 {
        sleep(simulation.time()).await;
    }
    answer
}

/// Looks for the agent, as a careful operator would.
fn find(simulation: &Simulation, key: &str) -> Resolution {
    match simulation.look_for_agent(key) {
        Ok(Some(agent)) => Resolution::Agent(agent.into()),
        Ok(None) => {
            simulation.resolve(key);
            Resolution::NoAgent
        }
        Err(()) => Resolution::Unknown,
    }
}

fn recorded(person: &Arc<Process>, key: &str) -> Option<LedgerRow> {
    let found = person.ledger().look_up("email", [key]).ok()?;
    found.into_iter().next().flatten()
}

/// Returns the agent that the ledger has for another row.
fn agent_of_another_row(person: &Arc<Process>, keys: &[String], key: &str) -> Option<AgentId> {
    let others = keys.iter().filter(|other| *other != key);
    let agent = |other: &String| recorded(person, other)?.agent_id;
    others.map(agent).find_map(|agent| agent)
}

/// Resolves rows, rotates the key and moves the service while jobs run.
pub(crate) async fn act(person: Arc<Process>, keys: Arc<[String]>) {
    let simulation = &person.simulation;
    for _ in 0..simulation.below(5) {
        sleep(simulation.time()).await;
        let key = keys.get(usize::from(simulation.byte()) % keys.len());
        let Some(key) = key else {
            return;
        };
        match simulation.below(8) {
            1 => simulation.rotate_key(),
            2 => simulation.move_service(&person),
            3 => {
                if let Some(agent) = agent_of_another_row(&person, &keys, key)
                    && person.ledger().resolve([(key, Some(agent))]).is_ok()
                {
                    simulation
                        .report_violation(format!("{key} was given the agent of another row"));
                }
            }
            _ => resolve(&person, key),
        }
    }
}

/// Records the outcome of an unresolved row, or has a rejected row sent again.
pub(crate) fn resolve(person: &Arc<Process>, key: &str) {
    let simulation = &person.simulation;
    let Some(recorded) = recorded(person, key) else {
        return;
    };
    let is_resolved = match recorded.outcome {
        Outcome::Unknown => !recorded.in_flight,
        outcome => outcome == Outcome::Rejected,
    };
    if !is_resolved {
        return;
    }
    let agent = match find(simulation, key) {
        Resolution::Agent(agent) => Some(agent),
        Resolution::NoAgent => None,
        Resolution::Unknown => return,
    };
    let resolved = person.ledger().resolve([(key, agent.clone())]);
    simulation.log_event(|| format!("an operator resolves {key} with {agent:?}: {resolved:?}"));
}
