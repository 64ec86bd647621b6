//! Operators of a schedule: they answer the callbacks of jobs, resolve rows while jobs run, rotate the service key and change
//! the service's base URL.

use std::{io, sync::Arc};

use dealkit::{
    AgentId, Outcome,
    ledger::{LedgerRow, Resolution, UnresolvedRow},
};
use tokio::time::sleep;

use crate::{process::Process, simulation::Simulation};

/// Callback of a job: looks up whether an unresolved row has an agent.
pub(crate) async fn look_up(
    process: Arc<Process>,
    keys: Arc<[String]>,
    row: UnresolvedRow,
) -> Result<Resolution, io::Error> {
    let simulation = &process.simulation;
    simulation.check_asking_process(&process, &row.key);
    let choice = simulation.read_byte();
    let answer = match choice {
        100..110 => Err(io::Error::other("the search does not respond")),
        110..120 => Ok(Resolution::Unknown),
        200.. => match agent_of_another_row(&process, &keys, &row.key) {
            Some(agent) => Ok(Resolution::Agent(agent)),
            None => Ok(Resolution::Unknown),
        },
        _ => Ok(find_agent(simulation, &row.key)),
    };
    simulation.log(&process, || {
        format!("gets the answer for {}: {answer:?}", row.key)
    });
    if choice > 100 {
        sleep(simulation.read_time()).await;
    }
    answer
}

/// Looks for the agent of a row, as a careful operator does.
fn find_agent(simulation: &Simulation, key: &str) -> Resolution {
    match simulation.look_for_agent(key) {
        Ok(Some(agent)) => Resolution::Agent(agent.into()),
        Ok(None) => {
            simulation.record_resolution(key);
            Resolution::NoAgent
        }
        Err(()) => Resolution::Unknown,
    }
}

fn look_up_row(operator: &Arc<Process>, key: &str) -> Option<LedgerRow> {
    let found = operator.ledger().look_up("email", [key]).ok()?;
    found.into_iter().next().flatten()
}

/// Returns the agent that the ledger has for another row.
fn agent_of_another_row(operator: &Arc<Process>, keys: &[String], key: &str) -> Option<AgentId> {
    let others = keys.iter().filter(|other| *other != key);
    let agent = |other: &String| look_up_row(operator, other)?.agent_id;
    others.map(agent).find_map(|agent| agent)
}

/// Performs up to four manual operations while jobs run.
pub(crate) async fn run_operators(operator: Arc<Process>, keys: Arc<[String]>) {
    let simulation = &operator.simulation;
    for _ in 0..simulation.read_below(5) {
        sleep(simulation.read_time()).await;
        let key = keys.get(usize::from(simulation.read_byte()) % keys.len());
        let Some(key) = key else {
            return;
        };
        match simulation.read_below(8) {
            1 => simulation.rotate_key(),
            2 => simulation.move_service(&operator),
            3 => {
                if let Some(agent) = agent_of_another_row(&operator, &keys, key)
                    && operator.ledger().resolve([(key, Some(agent))]).is_ok()
                {
                    simulation.report_violation(format!(
                        "{key} was resolved with the agent of another row"
                    ));
                }
            }
            _ => resolve(&operator, key),
        }
    }
}

/// Resolves an unresolved row, or resolves a rejected row as having no agent, so that the next run sends it again.
pub(crate) fn resolve(operator: &Arc<Process>, key: &str) {
    let simulation = &operator.simulation;
    let Some(row) = look_up_row(operator, key) else {
        return;
    };
    let needs_resolution = match row.outcome {
        Outcome::Unknown => !row.in_flight,
        outcome => outcome == Outcome::Rejected,
    };
    if !needs_resolution {
        return;
    }
    let agent = match find_agent(simulation, key) {
        Resolution::Agent(agent) => Some(agent),
        Resolution::NoAgent => None,
        Resolution::Unknown => return,
    };
    let resolved = operator.ledger().resolve([(key, agent.clone())]);
    simulation.log_event(|| format!("an operator resolves {key} with {agent:?}: {resolved:?}"));
}
