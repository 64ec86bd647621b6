//! Simulator of jobs with a ledger: the SDK's own code runs on a simulated clock, network and database, and a *tape* of bytes
//! decides every fault.
//!
//! A *schedule* is one run of several processes over the same rows, on one thread and a paused clock, so the same tape always
//! gives the same run. A process has the real client, job, rules and retry loop; the sandbox is the service. Each decision is
//! read from the tape: when a request arrives, whether its response is lost, whether a transaction is committed, when a process
//! is killed or stopped. After the faults have ended, one last run must complete all rows. Checks follow each step; see
//! [`run_tape`].

mod job;
mod network;
mod operators;
mod process;
mod simulation;
mod tape;

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use proptest::strategy::ValueTree as _;
use tokio::{
    runtime::Builder,
    time::{sleep, timeout},
};

use crate::{
    job::{Run, run_process},
    process::Process,
    simulation::Simulation,
    tape::Tape,
};

/// The longest time of a schedule, on its own clock.
const MAX_SCHEDULE_TIME: Duration = Duration::from_secs(4 * 3600);

/// A pause after which all requests in transit have arrived, and the leases of ended processes have expired.
const QUIET_PERIOD: Duration = Duration::from_secs(300);

/// The result of a schedule.
#[derive(Debug)]
pub struct Schedule {
    /// The part of the tape that was read.
    pub tape: Vec<u8>,
    /// The events, one line each; empty unless the caller asked for the history.
    pub history: Vec<String>,
    /// The first violation that a check has found.
    pub violation: Option<String>,
}

/// Runs the schedule of a tape.
///
/// Violations are:
///
/// * a second agent for a row, unless an operator had the row sent again
/// * a request without a durable claim, or after other jobs may consider the job dead
/// * a request for a rejected row, unless it was corrected and its job sends corrected rows
/// * a result that the ledger does not have
/// * a row that is handed over twice or never
/// * a result that says that a row has no agent, although it has one
/// * a call above the rate limit, or during a pause
/// * a row without an agent after the last run.
///
/// # Panics
/// If the runtime cannot be built, or the code under test panics.
pub fn run_tape(tape: Vec<u8>, keeps_history: bool) -> Schedule {
    // The seed of the client's jitter.
    fastrand::seed(0);
    #[expect(clippy::expect_used, reason = "no input can cause this")]
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (history, violation) = runtime.block_on(async {
        let simulation = Simulation::new(Tape::new(tape.clone()), keeps_history);
        if timeout(MAX_SCHEDULE_TIME, run_schedule(&simulation))
            .await
            .is_err()
        {
            simulation.report_violation("the schedule does not end".to_owned());
        }
        simulation.result()
    });
    Schedule {
        tape,
        history,
        violation,
    }
}

/// Runs the schedule of a seed.
pub fn run_seed(seed: u64, keeps_history: bool) -> Schedule {
    run_tape(tape::from_seed(seed).current(), keeps_history)
}

/// Simplifies the schedule of a seed as long as it still has a violation.
pub fn simplify(seed: u64) -> Schedule {
    let mut tree = tape::from_seed(seed);
    let mut simplest = tree.current();
    while tree.simplify() {
        loop {
            let tape = tree.current();
            if run_tape(tape.clone(), false).violation.is_some() {
                simplest = tape;
                break;
            }
            if !tree.complicate() {
                break;
            }
        }
    }
    run_tape(simplest, true)
}

async fn run_schedule(simulation: &Arc<Simulation>) {
    let rows = simulation.choose([2, 1, 3, 4, 5]);
    let keys: Arc<[String]> = (0..rows)
        .map(|row| format!("row-{row}@example.com"))
        .collect();
    let machines = simulation.choose([2, 1, 3]);
    let jobs = (1..=machines).map(|machine| run_machine(simulation, machine, &keys));
    let operator = Process::new(simulation, 100);
    let operators = operators::run_operators(Arc::clone(&operator), Arc::clone(&keys));
    let (processes, ()) = tokio::join!(join_all(jobs), operators);
    if simulation.is_violated() {
        return;
    }
    simulation.end_faults();
    sleep(QUIET_PERIOD).await;
    simulation.check_unfinished_rows(&processes.concat(), &keys);
    for number in 1000..1004 {
        sleep(QUIET_PERIOD).await;
        for key in &*keys {
            operators::resolve(&operator, key);
        }
        let process = Process::new(simulation, number);
        let run = run_process(Arc::clone(&process), Run::final_run(), Arc::clone(&keys));
        let _ = process.start(Box::pin(run)).await;
        if simulation.is_complete(&keys) {
            break;
        }
    }
    simulation.check_end();
    for key in &*keys {
        simulation.check_row(key);
    }
}

/// Runs several processes on one machine, one after the other, and returns them.
async fn run_machine(
    simulation: &Arc<Simulation>,
    machine: u32,
    keys: &Arc<[String]>,
) -> Vec<Arc<Process>> {
    let mut processes = Vec::new();
    for life in 0..simulation.choose([2, 1, 3]) {
        sleep(simulation.read_time()).await;
        let process = Process::new(simulation, machine * 10 + life);
        let run = run_process(
            Arc::clone(&process),
            Run::from_tape(simulation),
            Arc::clone(keys),
        );
        let _ = process.start(Box::pin(run)).await;
        processes.push(process);
    }
    processes
}

/// The folder with the tapes of schedules that once had a violation.
pub const TAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tapes");

/// Parses the content of a tape file: two hexadecimal digits for each byte.
pub fn read_tape(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.split_whitespace().flat_map(str::chars).collect();
    let byte = |digits: &[char]| u8::from_str_radix(&String::from_iter(digits), 16);
    digits
        .chunks(2)
        .map(|digits| byte(digits).unwrap_or(0))
        .collect()
}

/// Formats a tape as the content of a tape file.
pub fn write_tape(tape: &[u8]) -> String {
    let line = |bytes: &[u8]| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<Vec<_>>().join(" ") + "\n"
    };
    tape.chunks(32).map(line).collect()
}

/// Runs the schedules of `count` seeds on all processors, until one has a violation. Returns the smallest seed with a violation
/// that was found.
pub fn find_violation(first: u64, count: u64) -> Option<u64> {
    let next = AtomicU64::new(first);
    let found = AtomicU64::new(u64::MAX);
    let end = first.saturating_add(count);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || found.load(Ordering::Relaxed) != u64::MAX {
                return;
            }
            if run_seed(seed, false).violation.is_some() {
                found.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let found = found.into_inner();
    (found != u64::MAX).then_some(found)
}
