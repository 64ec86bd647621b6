//! How long a connection has made no progress.
//!
//! One clock covers everything that a caller can be slow at, apart from a request body: sending a head (including the
//! next one, so this is also the idle limit) and reading its response. It starts with the connection, and again with
//! each response and each piece of a response that is taken. hyper's own `header_read_timeout` would leave HTTP/2, and
//! responses that nobody reads, without any limit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The clock of one connection.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    start: Instant,
    /// Milliseconds from the start to the last response, or the last piece of one that was taken.
    progressed: AtomicU64,
    /// Requests whose bodies are being read. They have their own timeout.
    receiving: AtomicUsize,
    /// Requests whose responses have not been handed over in full yet.
    in_flight: AtomicUsize,
}

impl IdleTimer {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            progressed: AtomicU64::new(0),
            receiving: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
        }
    }

    /// Counts a request as in flight until the guard is dropped, which is when its response has been handed over.
    pub(crate) fn request(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// How long no request has been in flight; `None` while one is.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let is_idle = self.in_flight.load(Ordering::Relaxed) == 0;
        let progressed = Duration::from_millis(self.progressed.load(Ordering::Relaxed));
        is_idle.then(|| self.start.elapsed().saturating_sub(progressed))
    }

    /// Notes that a response, or a piece of one, was handed over.
    pub(crate) fn progress(&self) {
        let since_start = self.start.elapsed().as_millis();
        let since_start = u64::try_from(since_start).unwrap_or(u64::MAX);
        self.progressed.store(since_start, Ordering::Relaxed);
    }

    /// Stops the clock until the guard is dropped: a request body is being read.
    pub(crate) fn receive(self: &Arc<Self>) -> Receiving {
        self.receiving.fetch_add(1, Ordering::Relaxed);
        Receiving(Arc::clone(self))
    }

    /// Resolves after `limit` without progress.
    pub(crate) async fn expired(&self, limit: Duration) {
        loop {
            let progressed = Duration::from_millis(self.progressed.load(Ordering::Relaxed));
            let end = self.start + progressed + limit;
            let now = Instant::now();
            let receives = self.receiving.load(Ordering::Relaxed) > 0;
            if !receives && now >= end {
                return;
            }
            // While a body is received, the clock is stopped; look again after the limit.
            sleep_until(if receives { now + limit } else { end }).await;
        }
    }
}

/// Stands for a request whose body is being read.
#[derive(Debug)]
pub(crate) struct Receiving(Arc<IdleTimer>);

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::Relaxed);
        self.0.progress();
    }
}

/// Stands for a request in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<IdleTimer>);

impl InFlight {
    /// Notes that a piece of its response was handed over.
    pub(crate) fn progress(&self) {
        self.0.progress();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.progress();
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_body_and_each_response_begin_the_limit_again() {
        let timer = Arc::new(IdleTimer::start());
        let receiving = timer.receive();
        let is_expired = tokio::time::timeout(LIMIT * 2, timer.expired(LIMIT)).await;
        assert!(is_expired.is_err(), "expired while a body was received");

        drop(receiving);
        let ended = Instant::now();
        timer.expired(LIMIT).await;
        // The timer counts whole milliseconds.
        assert!(ended.elapsed() >= LIMIT - Duration::from_millis(2));
    }
}
