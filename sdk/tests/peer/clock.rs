//! A clock that only the test advances, for tests of old connections.

use std::{sync::mpsc, time::Duration};

use tokio::{task::spawn_blocking, time};

use super::HANG_LIMIT;

/// Freezes Tokio's clock until the test advances it, even if bytes are in flight on sockets.
///
/// A paused clock advances by itself when all tasks wait, unless a blocking task runs. This type therefore runs a blocking task.
/// It needs a single-threaded runtime.
pub(crate) struct FrozenClock {
    /// Dropping it ends the blocking task.
    _running: mpsc::Sender<()>,
}

impl FrozenClock {
    pub(crate) fn start() -> Self {
        time::pause();
        let (running, ended) = mpsc::channel();
        // The task's time limit: if the test hangs, the clock advances again, and the next deadline ends the test.
        spawn_blocking(move || ended.recv_timeout(HANG_LIMIT));
        Self { _running: running }
    }

    /// Advances the clock by this time in one step.
    pub(crate) async fn advance(&self, time: Duration) {
        time::advance(time).await;
    }
}
