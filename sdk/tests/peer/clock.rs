//! A clock that stands still, for connections that a test lets grow old.

use std::{sync::mpsc, time::Duration};

use tokio::{task::spawn_blocking, time};

use super::PATIENCE;

/// Tokio's clock, which advances only where the test says so, although bytes are in flight on sockets: a paused clock advances
/// by itself as soon as all tasks wait, unless a blocking task runs. It needs a runtime with one thread.
pub(crate) struct FrozenClock {
    /// Ends the blocking task when it is dropped.
    _running: mpsc::Sender<()>,
}

impl FrozenClock {
    pub(crate) fn start() -> Self {
        time::pause();
        let (running, ended) = mpsc::channel();
        // If the test hangs, the clock advances again, and the next deadline ends it.
        spawn_blocking(move || ended.recv_timeout(PATIENCE));
        Self { _running: running }
    }

    /// Lets this much time pass for the client, all at once.
    pub(crate) async fn advance(&self, time: Duration) {
        time::advance(time).await;
    }
}
