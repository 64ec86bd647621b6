//! Admission of calls: each waits in its client's queue, and then for a permit to be in flight.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

use crate::transport::{
    error::TransportError,
    rate::{
        queue::{Admission, LateAdmission, Queue, Ticket},
        rate_limit_headers::RemainingQuota,
    },
    response::HttpResponse,
    retry::quota::RetryQuota,
};
use crate::value::message::{Message, Setting};

/// The limits that all calls of a client share, on any runtime: the queue with its rate limiter, and the retry quota.
#[derive(Debug)]
pub(crate) struct SharedLimits {
    start: Instant,
    queue: Mutex<Queue>,
    retry_quota: Mutex<RetryQuota>,
}

impl SharedLimits {
    /// Creates the limits of a client, with its rate limit in calls per second.
    pub(crate) fn new(rate_limit: Option<f64>) -> Result<Self, Message> {
        let interval = rate_limit.map_or(Some(Duration::ZERO), |rate| {
            let interval = Duration::try_from_secs_f64(rate.recip()).ok();
            interval.filter(|_| rate > 0.0 && rate.is_finite())
        });
        let interval = interval.ok_or_else(|| {
            Message::about(
                Setting::RateLimit,
                "must be a number of calls a second, more than zero and finite",
            )
        })?;
        Ok(Self {
            start: Instant::now(),
            queue: Mutex::new(Queue::new(interval)),
            retry_quota: Mutex::default(),
        })
    }

    pub(crate) fn has_same_rate_limit(&self, other: &Self) -> bool {
        let interval = self.queue().min_interval;
        interval == other.queue().min_interval
    }

    /// Returns the time since the client was created. All times in the queue, the rate limiter and the retry quota are such
    /// durations.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Adds a call at the end of the queue.
    pub(crate) fn enqueue(&self) -> QueuedCall<'_> {
        QueuedCall {
            limits: self,
            ticket: self.queue().push(self.now()),
            has_departed: false,
        }
    }

    /// Records the service's response to an attempt that was sent at `departed_at`. Returns the length of the pause if one
    /// begins.
    pub(crate) fn record_outcome(
        &self,
        departed_at: Duration,
        outcome: Result<&HttpResponse, &TransportError>,
    ) -> Option<Duration> {
        let response = outcome.map_or_else(TransportError::response, Some)?;
        let quota = RemainingQuota::parse(&response.headers);
        let (now, mut queue) = (self.now(), self.queue());
        if let Some(quota) = quota {
            queue.limiter.record_quota(now, departed_at, quota);
        }
        if outcome.is_err_and(TransportError::is_overload) {
            let retry_after = response.retry_after().unwrap_or_default();
            return queue.record_rejected(now, departed_at, retry_after);
        }
        queue.limiter.record_accepted(now);
        None
    }

    pub(crate) fn retry_quota(&self) -> MutexGuard<'_, RetryQuota> {
        self.retry_quota
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a call cannot be sent before its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The rate does not allow the call in time.
    TooLate(LateAdmission),
    /// No permit was free in time.
    TimedOut,
}

/// A call in the queue, removed on drop.
pub(crate) struct QueuedCall<'a> {
    limits: &'a SharedLimits,
    ticket: Ticket,
    has_departed: bool,
}

impl QueuedCall<'_> {
    /// Runs the preparation of a call whose timeout ends at `deadline`, such as the claim of a row. The preparation begins
    /// shortly before the call's expected admission. However long the preparation takes, the call holds no permit meanwhile,
    /// does not delay the calls behind it, and stays ahead of them.
    pub(crate) async fn prepare<T>(
        &self,
        deadline: Duration,
        preparation: impl Future<Output = T>,
    ) -> Result<T, NotAdmitted> {
        let limits = self.limits;
        loop {
            let now = limits.now();
            let admission = limits
                .queue()
                .check_preparation(&self.ticket, now, deadline);
            match admission {
                Admission::Now => break,
                Admission::At(at) => {
                    let time_changed = pin!(self.ticket.time_changed.notified());
                    select(pin!(sleep(at.saturating_sub(now))), time_changed).await;
                }
                Admission::TooLate(late) => return Err(NotAdmitted::TooLate(late)),
                Admission::TimedOut => return Err(NotAdmitted::TimedOut),
            }
        }
        let now = limits.now();
        limits.queue().begin_preparation(&self.ticket, now);
        let output = preparation.await;
        let now = limits.now();
        limits.queue().end_preparation(&self.ticket, now);
        Ok(output)
    }

    /// Waits until a call whose timeout ends at `deadline` may be sent: until the queue admits it and a permit is free. Calls
    /// are sent in order of arrival, and a dropped call leaves no gap. Returns the time of departure.
    ///
    /// A call requests a permit only once it is first in the queue and the rate allows it, because clients with other limits
    /// share the permits. Its departure is recorded only once it has its permit: otherwise, calls that have waited for
    /// permits would be sent together, faster than the limit.
    pub(crate) async fn admit<'p>(
        mut self,
        deadline: Duration,
        permits: &'p Semaphore,
    ) -> Result<(Duration, SemaphorePermit<'p>), NotAdmitted> {
        let limits = self.limits;
        let event = Arc::clone(&self.ticket.time_changed);
        let time_changed = || event.notified();
        let mut acquire_future = pin!(None);
        let mut permit = None;
        loop {
            let now = limits.now();
            let wait = {
                let mut queue = limits.queue();
                match queue.check_admission(&self.ticket, now, deadline) {
                    Admission::Now => match permit.take().or_else(|| permits.try_acquire().ok()) {
                        Some(permit) => {
                            queue.record_departure(&self.ticket, now);
                            self.has_departed = true;
                            return Ok((now, permit));
                        }
                        None => None,
                    },
                    Admission::At(at) => {
                        permit = None;
                        Some(at.saturating_sub(now))
                    }
                    Admission::TooLate(late) => return Err(NotAdmitted::TooLate(late)),
                    Admission::TimedOut => return Err(NotAdmitted::TimedOut),
                }
            };
            if let Some(wait) = wait {
                acquire_future.set(None);
                select(pin!(sleep(wait)), pin!(time_changed())).await;
                continue;
            }
            if acquire_future.is_none() {
                acquire_future.set(Some(permits.acquire()));
            }
            let Some(permit_future) = acquire_future.as_mut().as_pin_mut() else {
                continue;
            };
            // After a notification, the call keeps its position among the waiters for permits.
            let (timeout, time_changed) = (
                pin!(sleep(deadline.saturating_sub(now))),
                pin!(time_changed()),
            );
            if let Either::Left((acquired_permit, _)) =
                select(permit_future, select(timeout, time_changed)).await
            {
                acquire_future.set(None);
                permit = acquired_permit.ok();
            }
        }
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        if self.has_departed {
            return;
        }
        let now = self.limits.now();
        self.limits.queue().remove(&self.ticket, now);
    }
}
