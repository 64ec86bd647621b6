//! Time and chance, so that a test can stand in for both.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

/// Time and chance.
pub(crate) trait Clock {
    /// Time that has passed since a moment which is the same for all calls of a client.
    fn now(&self) -> Duration;
    /// The time of day, which `Retry-After` dates are counted from.
    fn time_of_day(&self) -> SystemTime;
    /// A random number from 0 to 1.
    fn jitter(&self) -> f64;
    /// Waits.
    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send;
}

/// The real ones: the runtime's timer and a random number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn jitter(&self) -> f64 {
        fastrand::f64()
    }

    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(wait)
    }
}
