//! The state that a client's calls share: whose turn it is, how the service received earlier calls, and how many
//! retries are left.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::select;
use tokio::time::{Instant, sleep};

use crate::http::{
    error::TransportError,
    response::HttpResponse,
    retry::quota::RetryQuota,
    traffic::{
        allowance::Allowance,
        queue::{Queue, Ticket, TooLate, Turn},
    },
};
use crate::value::words::{Setting, Words, words};

/// The state that all calls of a client share, whatever runtime they are on.
#[derive(Debug)]
pub(crate) struct Traffic {
    began: Instant,
    queue: Mutex<Queue>,
    quota: Mutex<RetryQuota>,
}

impl Traffic {
    /// The traffic of a client with this rate limit, in calls per second.
    pub(crate) fn new(rate_limit: Option<f64>) -> Result<Self, Words> {
        let interval = rate_limit.map_or(Some(Duration::ZERO), |rate| {
            let interval = Duration::try_from_secs_f64(rate.recip()).ok();
            interval.filter(|_| rate > 0.0 && rate.is_finite())
        });
        let interval = interval.ok_or_else(|| {
            words!(
                "{} must be a number of calls a second, more than zero and finite",
                Setting::RateLimit
            )
        })?;
        Ok(Self {
            began: Instant::now(),
            queue: Mutex::new(Queue::new(interval)),
            quota: Mutex::default(),
        })
    }

    pub(crate) fn is_limited_like(&self, other: &Self) -> bool {
        let interval = self.queue().interval;
        interval == other.queue().interval
    }

    /// The time since the client was made, by which its queue, its pace and its retry quota go.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for the turn of a call that has this much time left. Waiting calls go in order of arrival; one
    /// that is dropped leaves no gap. Returns when it goes out.
    pub(crate) async fn turn(&self, left: Duration) -> Result<Duration, TooLate> {
        let now = self.now();
        let latest = now.saturating_add(left);
        let ticket = match self.queue().enter(now) {
            Ok(()) => return Ok(now),
            Err(ticket) => ticket,
        };
        let queued = Queued {
            traffic: self,
            ticket,
        };
        loop {
            let now = self.now();
            let turn = self.queue().ask(&queued.ticket, now, latest);
            match turn {
                Turn::Now => return Ok(now),
                Turn::TooLate(too_late) => return Err(too_late),
                Turn::At(at) => {
                    let wait = at.saturating_sub(now);
                    let news = queued.ticket.news.notified();
                    select(pin!(sleep(wait)), pin!(news)).await;
                }
            }
        }
    }

    /// Records how the service received an attempt that went out at `departed`. Returns how long the pause is, if one
    /// begins.
    pub(crate) fn learn(
        &self,
        departed: Duration,
        outcome: Result<&HttpResponse, &TransportError>,
    ) -> Option<Duration> {
        let response = outcome.map_or_else(TransportError::response, Some)?;
        let allowance = Allowance::read(&response.headers);
        let (now, mut queue) = (self.now(), self.queue());
        if let Some(allowance) = allowance {
            queue.pace.told(now, allowance, departed);
        }
        if outcome.is_err_and(TransportError::is_overload) {
            let pause = response.retry_after().unwrap_or_default();
            return queue.refused(now, pause, departed);
        }
        queue.pace.accepted(now, departed);
        None
    }

    pub(crate) fn quota(&self) -> MutexGuard<'_, RetryQuota> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in the queue, which leaves it on drop.
struct Queued<'a> {
    traffic: &'a Traffic,
    ticket: Ticket,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.traffic.queue().leave(&self.ticket);
    }
}
