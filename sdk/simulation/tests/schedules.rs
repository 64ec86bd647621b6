//! Schedules that earlier versions violated, and a thousand random ones.

use std::{fs, panic};

use dealkit_simulation::{Schedule, TAPES, find_violation, read_tape, run, simplify};

fn assert_holds(name: &str, schedule: &Schedule) {
    if let Some(violation) = &schedule.violation {
        panic!("{name}: {violation}\n{}", schedule.history.join("\n"));
    }
}

#[test]
fn what_was_violated_once_holds() {
    for entry in fs::read_dir(TAPES).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "tape")
        {
            let tape = read_tape(&fs::read_to_string(&path).unwrap());
            assert_holds(&path.display().to_string(), &run(tape, true));
        }
    }
}

#[test]
fn a_thousand_schedules_hold() {
    if let Some(seed) = find_violation(0, 1000) {
        assert_holds(&format!("seed {seed}"), &simplify(seed));
    }
}

#[test]
fn a_schedule_is_the_same_whenever_it_is_run() {
    for seed in 0..20 {
        let [first, second] = [0, 1].map(|_| dealkit_simulation::run_seed(seed, true));
        assert_eq!(first.history, second.history);
    }
}
