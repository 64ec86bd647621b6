//! The state that a client's calls share: whose turn it is, how the service received earlier calls, and how many
//! retries are left.

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

    /// Puts a call at the end of the queue.
    pub(crate) fn enter(&self) -> Queued<'_> {
        Queued {
            traffic: self,
            ticket: self.queue().enter(self.now()),
            has_departed: false,
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

/// The reason for which a call may not go out within its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The rate would let it go too late.
    TooLate(TooLate),
    /// No permit was free in time.
    TimedOut,
}

/// A call in the queue, which leaves it on drop.
pub(crate) struct Queued<'a> {
    traffic: &'a Traffic,
    ticket: Ticket,
    has_departed: bool,
}

impl Queued<'_> {
    /// Prepares a call that ends at `latest`, shortly before its turn. However long that takes, the call holds no permit
    /// meanwhile, does not delay the calls behind it, and stays ahead of them.
    pub(crate) async fn prepare<T>(
        &self,
        latest: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, NotAdmitted> {
        let traffic = self.traffic;
        loop {
            let now = traffic.now();
            let turn = traffic.queue().ask_to_prepare(&self.ticket, now, latest);
            match turn {
                Turn::Now => break,
                Turn::At(at) => {
                    let news = pin!(self.ticket.news.notified());
                    select(pin!(sleep(at.saturating_sub(now))), news).await;
                }
                Turn::TooLate(late) => return Err(NotAdmitted::TooLate(late)),
                Turn::TimedOut => return Err(NotAdmitted::TimedOut),
            }
        }
        let now = traffic.now();
        traffic.queue().begin_preparing(&self.ticket, now);
        let output = work.await;
        let now = traffic.now();
        traffic.queue().end_preparing(&self.ticket, now);
        Ok(output)
    }

    /// Waits until a call that ends at `latest` may go out: until it is its turn and one of the permits is free.
    /// Waiting calls go in order of arrival; one that is dropped leaves no gap. Returns when the call goes out.
    ///
    /// A call asks for a permit only once it is first in the queue and due, because clients with other limits share the
    /// permits. The turn is counted only once the call has its permit: calls that have waited for permits would otherwise
    /// go out together, faster than the limit.
    pub(crate) async fn admit<'p>(
        mut self,
        latest: Duration,
        permits: &'p Semaphore,
    ) -> Result<(Duration, SemaphorePermit<'p>), NotAdmitted> {
        let traffic = self.traffic;
        let event = Arc::clone(&self.ticket.news);
        let news = || event.notified();
        let mut acquiring = pin!(None);
        let mut permit = None;
        loop {
            let now = traffic.now();
            let wait = {
                let mut queue = traffic.queue();
                match queue.ask(&self.ticket, now, latest) {
                    Turn::Now => match permit.take().or_else(|| permits.try_acquire().ok()) {
                        Some(permit) => {
                            queue.depart(&self.ticket, now);
                            self.has_departed = true;
                            return Ok((now, permit));
                        }
                        None => None,
                    },
                    Turn::At(at) => {
                        permit = None;
                        Some(at.saturating_sub(now))
                    }
                    Turn::TooLate(late) => return Err(NotAdmitted::TooLate(late)),
                    Turn::TimedOut => return Err(NotAdmitted::TimedOut),
                }
            };
            if let Some(wait) = wait {
                acquiring.set(None);
                select(pin!(sleep(wait)), pin!(news())).await;
                continue;
            }
            if acquiring.is_none() {
                acquiring.set(Some(permits.acquire()));
            }
            let Some(acquired) = acquiring.as_mut().as_pin_mut() else {
                continue;
            };
            // The place among those that wait for a permit is not given up for a notification.
            let (late, news) = (pin!(sleep(latest.saturating_sub(now))), pin!(news()));
            if let Either::Left((acquired, _)) = select(acquired, select(late, news)).await {
                acquiring.set(None);
                permit = acquired.ok();
            }
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if self.has_departed {
            return;
        }
        let now = self.traffic.now();
        self.traffic.queue().leave(&self.ticket, now);
    }
}
