//! Simulated processes: each can be killed or stopped at any await, and has its own clocks.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use dealkit::ledger::{self, Access, Ledger, TransactionEnd};
use futures_util::future::BoxFuture;
use tokio::{
    task::JoinHandle,
    time::{Instant, Sleep, sleep, sleep_until},
};

use crate::simulation::Simulation;

/// The initial wall-clock time of a process without skew, in milliseconds since 1970.
const EPOCH: i64 = 1_800_000_000_000;

/// A simulated process.
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) simulation: Arc<Simulation>,
    /// The value of the process's monotonic clock at the start of the schedule.
    offset: Duration,
    /// The error of the process's wall clock, in milliseconds.
    skew: i64,
    state: Mutex<ProcessState>,
}

#[derive(Default)]
struct ProcessState {
    was_killed: bool,
    /// The program has returned by itself.
    has_returned: bool,
    /// A transaction of the process's ledger has failed.
    has_met_fault: bool,
    /// The end of the last stop, until which no task of the process runs.
    stopped_until: Option<Instant>,
    /// The end of an outage of the process's connection to the database.
    cut_off_until: Option<Instant>,
    tasks: BTreeMap<usize, Waker>,
    last_task: usize,
}

impl Process {
    pub(crate) fn new(simulation: &Arc<Simulation>, number: u32) -> Arc<Self> {
        Arc::new(Self {
            number,
            offset: Duration::from_secs(1000 * u64::from(simulation.read_byte())),
            skew: 60_000
                * (i64::from(simulation.read_byte()) % 120
                    - i64::from(simulation.read_byte()) % 120),
            simulation: Arc::clone(simulation),
            state: Mutex::default(),
        })
    }

    /// Returns the ledger, as this process uses it.
    pub(crate) fn ledger(self: &Arc<Self>) -> Ledger {
        let process = Arc::clone(self);
        Ledger::in_memory(&self.simulation.database, process)
    }

    /// Kills the process: none of its tasks runs again.
    pub(crate) fn kill(&self) {
        self.simulation.log(self, || "is killed".to_owned());
        let mut state = self.state();
        state.was_killed = true;
        for waker in std::mem::take(&mut state.tasks).into_values() {
            waker.wake();
        }
    }

    /// Stops the process for this long.
    pub(crate) fn stop_for(&self, time: Duration) {
        self.simulation
            .log(self, || format!("is stopped for {time:?}"));
        self.state().stopped_until = Some(Instant::now() + time);
    }

    /// Records that the program has returned by itself.
    pub(crate) fn end(&self) {
        self.state().has_returned = true;
    }

    /// Returns whether the program has returned by itself, and no transaction of its ledger has failed. Such a process must
    /// leave no row in flight.
    pub(crate) fn ended_properly(&self) -> bool {
        let state = self.state();
        state.has_returned && !state.was_killed && !state.has_met_fault
    }

    /// Returns the end of the process's last stop.
    pub(crate) fn stopped_until(&self) -> Option<Instant> {
        self.state().stopped_until
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.state().was_killed
    }

    /// Starts a task, which ends with the process.
    pub(crate) fn start(self: &Arc<Self>, task: BoxFuture<'static, ()>) -> JoinHandle<()> {
        let mut state = self.state();
        state.last_task += 1;
        tokio::spawn(Task {
            process: Arc::clone(self),
            number: state.last_task,
            sleep: None,
            task,
        })
    }

    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.number)
    }
}

/// A task of a process. It ends when the process is killed, and waits while the process is stopped.
struct Task {
    process: Arc<Process>,
    number: usize,
    /// The wait for the end of a stop.
    sleep: Option<Pin<Box<Sleep>>>,
    task: BoxFuture<'static, ()>,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let stopped_until = {
            let mut state = this.process.state();
            if state.was_killed {
                return Poll::Ready(());
            }
            state.tasks.insert(this.number, context.waker().clone());
            state.stopped_until
        };
        if let Some(until) = stopped_until.filter(|until| *until > Instant::now()) {
            let sleep = this.sleep.insert(Box::pin(sleep_until(until)));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        if this.task.as_mut().poll(context).is_ready() || this.process.is_killed() {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl ledger::Process for Process {
    fn number(&self) -> u32 {
        self.number
    }

    fn has_ended(&self) -> bool {
        self.is_killed()
    }

    fn elapsed(&self) -> Duration {
        self.offset + self.simulation.elapsed()
    }

    fn unix_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.simulation.elapsed().as_millis());
        EPOCH + self.skew + elapsed.unwrap_or_default()
    }

    fn spawn(self: Arc<Self>, task: BoxFuture<'static, ()>) {
        self.start(task);
    }

    fn wait(&self) -> BoxFuture<'static, ()> {
        let wait = match self.simulation.read_byte() {
            0 => return Box::pin(async {}),
            1..128 => self.simulation.read_time() / 10,
            128..200 => self.simulation.read_time(),
            200..220 => {
                self.stop_for(self.simulation.read_time());
                Duration::ZERO
            }
            220..235 => {
                self.kill();
                Duration::ZERO
            }
            _ => Duration::ZERO,
        };
        Box::pin(sleep(wait))
    }

    fn transaction_end(&self, access: Access) -> TransactionEnd {
        let cut_off_until = self.state().cut_off_until;
        if cut_off_until.is_some_and(|until| until > Instant::now()) {
            return self.log_transaction_end(access, TransactionEnd::Unreachable);
        }
        let transaction_end = match self.simulation.read_byte() {
            1..16 => TransactionEnd::Unreachable,
            16..40 => TransactionEnd::Unanswered { commits: true },
            40..64 => TransactionEnd::Unanswered { commits: false },
            64..76 => TransactionEnd::DiskFull,
            76..90 => {
                let time = self.simulation.read_time();
                self.state().cut_off_until = Some(Instant::now() + time);
                TransactionEnd::Unreachable
            }
            90..96 => {
                self.simulation.log(self, || {
                    "finds a database that has failed over to a clock ahead".to_owned()
                });
                self.simulation.end_leases();
                TransactionEnd::Committed
            }
            96..98 => {
                self.simulation
                    .log(self, || "finds its ledger moved".to_owned());
                self.simulation.replace_ledger_for_a_while();
                TransactionEnd::Committed
            }
            _ => TransactionEnd::Committed,
        };
        self.log_transaction_end(access, transaction_end)
    }
}

impl Process {
    fn log_transaction_end(
        &self,
        access: Access,
        transaction_end: TransactionEnd,
    ) -> TransactionEnd {
        self.simulation.log(self, || {
            format!("ledger: {access:?} is {transaction_end:?}")
        });
        self.state().has_met_fault |= transaction_end != TransactionEnd::Committed;
        transaction_end
    }
}
