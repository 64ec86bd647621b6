//! The people of a schedule: they answer the questions of jobs, resolve rows, also while jobs run, and change keys and addresses.

use std::{io, sync::Arc};

use dealkit::{
    AgentId, Outcome,
    ledger::{Recorded, Resolution, RowInDoubt},
};
use tokio::time::sleep;

use crate::{process::Process, world::World};

/// Answers whether a row in doubt has an agent.
pub(crate) async fn look_up(
    process: Arc<Process>,
    keys: Arc<[String]>,
    row: RowInDoubt,
) -> Result<Resolution, io::Error> {
    let world = &process.world;
    world.check_question(&process, &row.key);
    let choice = world.byte();
    let answer = match choice {
        100..110 => Err(io::Error::other("the search does not respond")),
        110..120 => Ok(Resolution::Unknown),
        200.. => match agent_of_another_row(&process, &keys, &row.key) {
            Some(agent) => Ok(Resolution::Agent(agent)),
            None => Ok(Resolution::Unknown),
        },
        _ => Ok(find(world, &row.key)),
    };
    world.note(&process, || format!("is told of {}: {answer:?}", row.key));
    if choice > 100 {
        sleep(world.time()).await;
    }
    answer
}

/// Looks for the agent as a careful person does.
fn find(world: &World, key: &str) -> Resolution {
    match world.look_for_agent(key) {
        Ok(Some(agent)) => Resolution::Agent(agent.into()),
        Ok(None) => {
            world.resolve(key);
            Resolution::NoAgent
        }
        Err(()) => Resolution::Unknown,
    }
}

fn recorded(person: &Arc<Process>, key: &str) -> Option<Recorded> {
    let found = person.ledger().look_up("email", [key]).ok()?;
    found.into_iter().next().flatten()
}

/// The agent that the ledger has for another row.
fn agent_of_another_row(person: &Arc<Process>, keys: &[String], key: &str) -> Option<AgentId> {
    let others = keys.iter().filter(|other| *other != key);
    let agent = |other: &String| recorded(person, other)?.agent_id;
    others.map(agent).find_map(|agent| agent)
}

/// Does a few things while jobs run.
pub(crate) async fn act(person: Arc<Process>, keys: Arc<[String]>) {
    let world = &person.world;
    for _ in 0..world.below(5) {
        sleep(world.time()).await;
        let key = keys.get(usize::from(world.byte()) % keys.len());
        let Some(key) = key else {
            return;
        };
        match world.below(8) {
            1 => world.rotate_key(),
            2 => world.move_service(&person),
            3 => {
                if let Some(agent) = agent_of_another_row(&person, &keys, key)
                    && person.ledger().settle([(key, Some(agent))]).is_ok()
                {
                    world.violate(format!("{key} was given the agent of another row"));
                }
            }
            _ => resolve(&person, key),
        }
    }
}

/// Records what became of a row in doubt, and has a rejected one sent again.
pub(crate) fn resolve(person: &Arc<Process>, key: &str) {
    let world = &person.world;
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
    let agent = match find(world, key) {
        Resolution::Agent(agent) => Some(agent),
        Resolution::NoAgent => None,
        Resolution::Unknown => return,
    };
    let settled = person.ledger().settle([(key, agent.clone())]);
    world.note_of(|| format!("a person resolves {key} with {agent:?}: {settled:?}"));
}
