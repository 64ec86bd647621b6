//! Time and randomness, behind a trait so that tests can replace both.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

/// Time and randomness.
pub(crate) trait Clock {
    /// The time since a moment that is the same for all calls of a client.
    fn now(&self) -> Duration;
    /// The time of day, to which dates in `Retry-After` are compared.
    fn time_of_day(&self) -> SystemTime;
    /// A random number from 0 to 1.
    fn jitter(&self) -> f64;
    /// Waits.
    fn sleep(&self, wait: Duration) -> impl Future<Output = ()> + Send;
}

/// The real clock: the runtime's timer and a random number.
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
