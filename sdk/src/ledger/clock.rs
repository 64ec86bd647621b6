//! Clocks of the machine that runs a job.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(feature = "__simulation")]
use std::sync::Arc;

#[cfg(feature = "__simulation")]
use super::process::Process;

/// The clocks of the system, or of a simulated process.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    #[cfg(feature = "__simulation")]
    pub(super) process: Option<Arc<dyn Process>>,
}

/// The time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// The time since an arbitrary moment, which differs between machines.
    pub(super) elapsed: Duration,
    /// Milliseconds since 1970.
    pub(super) unix_ms: i64,
}

impl Clock {
    pub(super) fn now(&self) -> Now {
        Now {
            elapsed: self.elapsed(),
            unix_ms: self.unix_ms(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        #[cfg(feature = "__simulation")]
        if let Some(process) = &self.process {
            return process.elapsed();
        }
        elapsed()
    }

    pub(super) fn unix_ms(&self) -> i64 {
        #[cfg(feature = "__simulation")]
        if let Some(process) = &self.process {
            return process.unix_ms();
        }
        let unix_time = SystemTime::now().duration_since(UNIX_EPOCH);
        unix_time.map_or(0, |unix_time| {
            i64::try_from(unix_time.as_millis()).unwrap_or(i64::MAX)
        })
    }
}

/// Reads a clock that also runs while the machine is suspended, because leases also end during that time. `std::time::Instant`
/// stops during suspension on Linux and on Apple's systems.
#[cfg(unix)]
fn elapsed() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    // The time of these clocks is never negative.
    clock_gettime(CLOCK).try_into().unwrap_or_default()
}

#[cfg(not(unix))]
fn elapsed() -> Duration {
    use std::{sync::OnceLock, time::Instant};

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
