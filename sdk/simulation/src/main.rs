//! Runs schedules, and prints their histories.
//!
//! * `dealkit-simulation SEED` prints the history of the schedule of a seed.
//! * `dealkit-simulation FILE.tape` prints the history of the schedule of a tape.
//! * `dealkit-simulation FIRST COUNT` runs the schedules of many seeds on all processors. If one has a violation, the schedule is
//!   simplified, its tape is saved, and its history is printed. With `--find`, only the seed is printed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::{env, fs, process::ExitCode, time::Instant};

use dealkit_simulation::{
    Schedule, TAPES, find_violation, read_tape, run_seed, run_tape, simplify, write_tape,
};

const USAGE: &str = "usage: dealkit-simulation SEED | FILE.tape | [--find] FIRST COUNT";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |argument: &String| argument.replace('_', "").parse::<u64>().ok();
    let schedule = match &arguments[..] {
        [file] if file.ends_with(".tape") => match fs::read_to_string(file) {
            Ok(text) => run_tape(read_tape(&text), true),
            Err(error) => return fail(&format!("{file}: {error}")),
        },
        [seed] => match number(seed) {
            Some(seed) => run_seed(seed, true),
            None => return fail("a seed is a number"),
        },
        [option @ .., first, count] => match (option, number(first), number(count)) {
            ([], Some(first), Some(count)) => return run_many(first, count),
            ([find], Some(first), Some(count)) if find == "--find" => {
                return find_only(first, count);
            }
            _ => return fail(USAGE),
        },
        _ => return fail(USAGE),
    };
    print_schedule(&schedule)
}

fn find_only(first: u64, count: u64) -> ExitCode {
    let Some(seed) = find_violation(first, count) else {
        return ExitCode::SUCCESS;
    };
    let violation = run_seed(seed, false).violation.unwrap_or_default();
    println!("seed {seed}: {violation}");
    ExitCode::FAILURE
}

fn run_many(first: u64, count: u64) -> ExitCode {
    let began = Instant::now();
    let Some(seed) = find_violation(first, count) else {
        let time = began.elapsed();
        println!("{count} schedules from seed {first} on, in {time:.1?}: no violation");
        return ExitCode::SUCCESS;
    };
    println!(
        "seed {seed} has a violation, found after {:.1?}",
        began.elapsed()
    );
    let schedule = simplify(seed);
    let file = format!("{TAPES}/{seed}.tape");
    match fs::write(&file, write_tape(&schedule.tape)) {
        Ok(()) => println!("its simplest tape is in {file}"),
        Err(error) => eprintln!("{file}: {error}"),
    }
    print_schedule(&schedule)
}

fn print_schedule(schedule: &Schedule) -> ExitCode {
    for line in &schedule.history {
        println!("{line}");
    }
    match &schedule.violation {
        None => {
            println!("no violation");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("violation: {violation}");
            ExitCode::FAILURE
        }
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("dealkit-simulation: {message}");
    ExitCode::from(2)
}
