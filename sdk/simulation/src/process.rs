//! Simulated processes: they can be killed and stopped at any await, and each has clocks of its own.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use dealkit::ledger::{self, Access, Fate, Ledger};
use futures_util::future::BoxFuture;
use tokio::{
    task::JoinHandle,
    time::{Instant, Sleep, sleep, sleep_until},
};

use crate::world::World;

/// Where the wall clock of a process without skew begins, in milliseconds since 1970.
const EPOCH: i64 = 1_800_000_000_000;

pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) world: Arc<World>,
    /// The reading of its monotonic clock when the schedule begins.
    offset: Duration,
    /// The error of its wall clock, in milliseconds.
    skew: i64,
    life: Mutex<Life>,
}

#[derive(Default)]
struct Life {
    /// It was killed.
    has_ended: bool,
    has_returned: bool,
    /// A transaction of its ledger has failed.
    has_met_fault: bool,
    /// The end of a stop: nothing of the process runs before.
    stopped_until: Option<Instant>,
    /// The end of a time in which it does not reach its database.
    cut_off_until: Option<Instant>,
    tasks: BTreeMap<usize, Waker>,
    last_task: usize,
}

impl Process {
    pub(crate) fn new(world: &Arc<World>, number: u32) -> Arc<Self> {
        Arc::new(Self {
            number,
            offset: Duration::from_secs(1000 * u64::from(world.byte())),
            skew: 60_000 * (i64::from(world.byte()) % 120 - i64::from(world.byte()) % 120),
            world: Arc::clone(world),
            life: Mutex::default(),
        })
    }

    /// The ledger, as this process uses it.
    pub(crate) fn ledger(self: &Arc<Self>) -> Ledger {
        let process = Arc::clone(self);
        Ledger::in_memory(&self.world.database, process)
    }

    /// Ends the process, as a signal that cannot be handled does.
    pub(crate) fn kill(&self) {
        self.world.note(self, || "is killed".to_owned());
        let mut life = self.life();
        life.has_ended = true;
        for waker in std::mem::take(&mut life.tasks).into_values() {
            waker.wake();
        }
    }

    /// Stops the process for this long.
    pub(crate) fn stop_for(&self, time: Duration) {
        self.world.note(self, || format!("is stopped for {time:?}"));
        self.life().stopped_until = Some(Instant::now() + time);
    }

    /// Records that the program has ended by itself.
    pub(crate) fn end(&self) {
        self.life().has_returned = true;
    }

    /// Returns whether the program has ended by itself and its ledger was always there: then it leaves no row in flight.
    pub(crate) fn leaves_nothing(&self) -> bool {
        let life = self.life();
        life.has_returned && !life.has_ended && !life.has_met_fault
    }

    /// When the process last began to run after a stop.
    pub(crate) fn stopped_until(&self) -> Option<Instant> {
        self.life().stopped_until
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.life().has_ended
    }

    /// Starts a task, which ends with the process.
    pub(crate) fn start(self: &Arc<Self>, task: BoxFuture<'static, ()>) -> JoinHandle<()> {
        let mut life = self.life();
        life.last_task += 1;
        tokio::spawn(Task {
            process: Arc::clone(self),
            number: life.last_task,
            sleep: None,
            task,
        })
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.number)
    }
}

/// A task of a process.
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
            let mut life = this.process.life();
            if life.has_ended {
                return Poll::Ready(());
            }
            life.tasks.insert(this.number, context.waker().clone());
            life.stopped_until
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
        self.offset + self.world.elapsed()
    }

    fn unix_ms(&self) -> i64 {
        let elapsed = i64::try_from(self.world.elapsed().as_millis());
        EPOCH + self.skew + elapsed.unwrap_or_default()
    }

    fn spawn(self: Arc<Self>, task: BoxFuture<'static, ()>) {
        self.start(task);
    }

    fn wait(&self) -> BoxFuture<'static, ()> {
        let wait = match self.world.byte() {
            0 => return Box::pin(async {}),
            1..128 => self.world.time() / 10,
            128..200 => self.world.time(),
            200..220 => {
                self.stop_for(self.world.time());
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

    fn fate(&self, access: Access) -> Fate {
        let cut_off_until = self.life().cut_off_until;
        if cut_off_until.is_some_and(|until| until > Instant::now()) {
            return self.meets(access, Fate::Unreachable);
        }
        let fate = match self.world.byte() {
            1..16 => Fate::Unreachable,
            16..40 => Fate::Unanswered { commits: true },
            40..64 => Fate::Unanswered { commits: false },
            64..76 => Fate::Full,
            76..90 => {
                let time = self.world.time();
                self.life().cut_off_until = Some(Instant::now() + time);
                Fate::Unreachable
            }
            90..96 => {
                self.world.note(self, || {
                    "finds a database that has failed over to a clock ahead".to_owned()
                });
                self.world.end_leases();
                Fate::Committed
            }
            96..98 => {
                self.world
                    .note(self, || "finds its ledger moved".to_owned());
                self.world.move_away();
                Fate::Committed
            }
            _ => Fate::Committed,
        };
        self.meets(access, fate)
    }
}

impl Process {
    fn meets(&self, access: Access, fate: Fate) -> Fate {
        self.world
            .note(self, || format!("ledger: {access:?} is {fate:?}"));
        self.life().has_met_fault |= fate != Fate::Committed;
        fate
    }
}
