//! Schedules that once had a violation, and a thousand others.

use std::{fs, panic};

use dealkit_simulation::{Schedule, TAPES, find_violation, read_tape, run_tape, simplify};

fn assert_no_violation(name: &str, schedule: &Schedule) {
    if let Some(violation) = &schedule.violation {
        panic!("{name}: {violation}\n{}", schedule.history.join("\n"));
    }
}

#[test]
fn schedules_that_once_failed_pass() {
    for entry in fs::read_dir(TAPES).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "tape")
        {
            let tape = read_tape(&fs::read_to_string(&path).unwrap());
            assert_no_violation(&path.display().to_string(), &run_tape(tape, true));
        }
    }
}

#[test]
fn a_thousand_schedules_pass() {
    if let Some(seed) = find_violation(0, 1000) {
        assert_no_violation(&format!("seed {seed}"), &simplify(seed));
    }
}

#[test]
fn the_same_tape_gives_the_same_history() {
    for seed in 0..20 {
        let [first, second] = [0, 1].map(|_| dealkit_simulation::run_seed(seed, true));
        assert_eq!(first.history, second.history);
    }
}
