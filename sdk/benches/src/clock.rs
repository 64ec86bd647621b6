//! Clocks to measure by.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Time since some moment.
pub type Clock = fn() -> Duration;

/// The time that a clock on the wall would show.
pub fn wall_clock() -> Duration {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed()
}

/// CPU time of this thread, which excludes what others do on a busy machine.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}
