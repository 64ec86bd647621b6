//! The clock of a client.

use std::time::Duration;

use tokio::time::Instant;

/// Tells the time since the client was made, by which its queue, its pace and its retry quota go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
