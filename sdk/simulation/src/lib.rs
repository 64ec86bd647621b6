//! The simulator. It runs jobs with a ledger, with the SDK's own code, on a simulated clock, network and database. A tape of bytes
//! decides which faults occur.
//!
//! A *schedule* is one run of several processes over the same rows, on one thread with a paused clock, so the same tape always gives the
//! same run. A process uses the real client, job, rules and retry loop; the sandbox is the service. The tape contains each decision: when a request arrives, whether its response is lost, whether a transaction is committed, when a process is killed or
//! stopped. After the faults have ended, one last run must complete everything. Checks follow each step; see [`run`].

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

/// The time limit of a schedule, on the simulated clock.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// A pause in which requests in flight arrive, and leases end.
const QUIET: Duration = Duration::from_secs(300);

/// The result of a schedule.
#[derive(Debug)]
pub struct Schedule {
    /// The part of the tape that was read.
    pub tape: Vec<u8>,
    /// The history, one line for each event; empty unless requested.
    pub history: Vec<String>,
    /// The first violation.
    pub violation: Option<String>,
}

/// Runs the schedule of a tape.
///
/// Each of these is a violation:
///
/// * a second agent for a row, unless an operator had the row sent again
/// * a request without a durable claim, or after the job's lease has ended
/// * a result that the ledger does not have, or a result that wrongly reports that there is no agent
/// * a row that is returned twice or never, or a row without an agent after the last run
/// * a call beyond the rate limit or during a pause
///
/// # Panics
/// If the runtime cannot be created, or the code under test panics.
pub fn run(tape: Vec<u8>, keeps_history: bool) -> Schedule {
    // Seed the client's jitter.
    fastrand::seed(0);
    #[expect(clippy::expect_used, reason = "no input can cause this")]
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (history, violation) = runtime.block_on(async {
        let simulation = Simulation::new(Tape::new(tape.clone()), keeps_history);
        if timeout(LONGEST, schedule(&simulation)).await.is_err() {
            simulation.report_violation("it does not end".to_owned());
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
    run(tape::tape_from_seed(seed).current(), keeps_history)
}

/// Simplifies the violated schedule of a seed as far as it stays violated.
pub fn simplify(seed: u64) -> Schedule {
    let mut tree = tape::tape_from_seed(seed);
    let mut simplest = tree.current();
    while tree.simplify() {
        loop {
            let tape = tree.current();
            if run(tape.clone(), false).violation.is_some() {
                simplest = tape;
                break;
            }
            if !tree.complicate() {
                break;
            }
        }
    }
    run(simplest, true)
}

async fn schedule(simulation: &Arc<Simulation>) {
    let rows = simulation.one_of([2, 1, 3, 4, 5]);
    let keys: Arc<[String]> = (0..rows)
        .map(|row| format!("row-{row}@example.com"))
        .collect();
    let machines = simulation.one_of([2, 1, 3]);
    let jobs = (1..=machines).map(|machine| repeat(simulation, machine, &keys));
    let person = Process::new(simulation, 100);
    let operators = operators::act(Arc::clone(&person), Arc::clone(&keys));
    let (processes, ()) = tokio::join!(join_all(jobs), operators);
    if simulation.is_violated() {
        return;
    }
    simulation.end_faults();
    sleep(QUIET).await;
    simulation.check_left(&processes.concat(), &keys);
    for number in 1000..1004 {
        sleep(QUIET).await;
        for key in &*keys {
            operators::resolve(&person, key);
        }
        let process = Process::new(simulation, number);
        let run = run_process(Arc::clone(&process), Run::last(), Arc::clone(&keys));
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

/// Runs the job a few times on one machine, in one process after the other, and returns the processes.
async fn repeat(
    simulation: &Arc<Simulation>,
    machine: u32,
    keys: &Arc<[String]>,
) -> Vec<Arc<Process>> {
    let mut processes = Vec::new();
    for life in 0..simulation.one_of([2, 1, 3]) {
        sleep(simulation.time()).await;
        let process = Process::new(simulation, machine * 10 + life);
        let run = run_process(
            Arc::clone(&process),
            Run::read(simulation),
            Arc::clone(keys),
        );
        let _ = process.start(Box::pin(run)).await;
        processes.push(process);
    }
    processes
}

/// The folder with tapes of schedules that earlier versions violated.
pub const TAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tapes");

/// Reads a tape from its file: two hexadecimal digits for each byte.
pub fn read_tape(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.split_whitespace().flat_map(str::chars).collect();
    let byte = |digits: &[char]| u8::from_str_radix(&String::from_iter(digits), 16);
    digits
        .chunks(2)
        .map(|digits| byte(digits).unwrap_or(0))
        .collect()
}

/// Writes a tape in the format of its file.
pub fn write_tape(tape: &[u8]) -> String {
    let line = |bytes: &[u8]| {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<Vec<_>>().join(" ") + "\n"
    };
    tape.chunks(32).map(line).collect()
}

/// Runs the schedules of this many seeds on all processors, and returns the smallest seed that was found to be violated.
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
