//! The clock to measure by.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread, which excludes what others do on a busy machine.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}
