//! Room for connections: who waits for it, and who could make some.
//!
//! While others wait, an idle connection is of no use to anybody, so the one that has been idle the longest is closed.
//! Closing it can cross a request that its caller is just sending. Therefore, while somebody waits, responses end their
//! connections, which no request can cross, and a connection that has been idle only for a moment is left alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::net::idle_timer::IdleTimer;

/// A connection that has been idle for less may be about to get its next request.
pub(crate) const MIN_IDLE: Duration = Duration::from_millis(100);

/// Whether a connection waits for another to end.
#[derive(Debug, Default)]
pub(crate) struct Crowd(AtomicBool);

impl Crowd {
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        self.0.store(is_waiting, Ordering::Relaxed);
    }
}

/// The place that one connection takes.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) idle: Arc<IdleTimer>,
    leave: Notify,
    was_asked: AtomicBool,
}

impl Place {
    pub(crate) fn take() -> Arc<Self> {
        Arc::new(Self {
            idle: Arc::new(IdleTimer::start()),
            leave: Notify::new(),
            was_asked: AtomicBool::new(false),
        })
    }

    /// For how long the connection could have been closed; `None` while a request is in flight, and once it has been
    /// asked to leave.
    fn idle_for(&self) -> Option<Duration> {
        let is_asked = self.was_asked.load(Ordering::Relaxed);
        self.idle.idle_for().filter(|_| !is_asked)
    }

    /// Asks the connection to leave.
    fn ask(&self) {
        self.was_asked.store(true, Ordering::Relaxed);
        self.leave.notify_one();
    }

    /// Resolves when the connection is asked to leave.
    pub(crate) async fn is_asked_to_leave(&self) {
        self.leave.notified().await;
    }
}

/// Asks the connection that has been idle the longest to leave. If none has been idle for [`MIN_IDLE`], returns the
/// least time until one has.
pub(crate) fn ask_longest_idle<'p>(
    places: impl IntoIterator<Item = &'p Arc<Place>>,
) -> Result<(), Duration> {
    let idle = places
        .into_iter()
        .filter_map(|place| Some((place.idle_for()?, place)));
    match idle.max_by_key(|(idle_for, _)| *idle_for) {
        Some((idle_for, place)) if idle_for >= MIN_IDLE => {
            place.ask();
            Ok(())
        }
        Some((idle_for, _)) => Err(MIN_IDLE - idle_for),
        None => Err(MIN_IDLE),
    }
}
