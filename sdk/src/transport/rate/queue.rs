//! Queue of the calls that wait to be sent: their order, and the earliest time for each.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use crate::transport::rate::rate_limiter::RateLimiter;

/// A call that is sent late by no more than this does not delay the next: the runtime's timer has a resolution of a millisecond.
const TIMER_TOLERANCE: Duration = Duration::from_millis(2);

/// The tolerance for a call that has been waiting for its time, in place of [`TIMER_TOLERANCE`]: on a busy machine, timers are
/// late by several milliseconds.
const WAKE_UP_TOLERANCE: Duration = Duration::from_millis(20);

/// The time after which a call may overtake the call ahead of it, if the rate allows that call but it is not polled. A call is
/// a future. Its caller may do something else before polling it, or even await a call further back in the queue.
const UNPOLLED_WAIT_LIMIT: Duration = Duration::from_millis(20);

/// The time between the beginning of a call's preparation and its expected admission, so that the call is usually ready in time.
const PREPARATION_TIME: Duration = Duration::from_millis(20);

/// The calls of a client that wait to be sent, in order of arrival, and the interval between two calls.
///
/// No call gets a time slot in advance: a call admits itself when it is polled at its time or later. So late polls never
/// send more calls than allowed, and a cancelled call leaves no gap.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting_calls: VecDeque<Ticket>,
    /// The numbers of the calls that are being prepared. The calls behind them may be sent meanwhile.
    preparing_numbers: BTreeSet<u64>,
    next_number: u64,
    /// When the first of the waiting calls became the first.
    first_since: Duration,
    /// When the interval after the last call ends.
    interval_end: Duration,
    /// The interval between two calls that the client's rate limit requires.
    pub(crate) min_interval: Duration,
    pub(crate) limiter: RateLimiter,
}

/// The position of a call in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    number: u64,
    entered_at: Duration,
    /// Notified when the time at which this call may be sent has changed.
    pub(crate) time_changed: Arc<Notify>,
}

/// The queue's decision about a call.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The call may be [sent](Queue::record_departure).
    Now,
    /// The call should ask again at this time, or when its ticket is notified.
    At(Duration),
    TooLate(LateAdmission),
    /// The call's timeout has passed, although the rate would have allowed the call.
    TimedOut,
}

/// An admission that would come after the call's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateAdmission {
    /// The time until the admission.
    pub(crate) wait: Duration,
    /// True if the service has asked for the wait, false if the client's own rate limit causes it.
    pub(crate) is_due_to_service: bool,
}

impl Queue {
    pub(crate) fn new(min_interval: Duration) -> Self {
        Self {
            waiting_calls: VecDeque::new(),
            preparing_numbers: BTreeSet::new(),
            next_number: 0,
            first_since: Duration::ZERO,
            interval_end: Duration::ZERO,
            min_interval,
            limiter: RateLimiter::default(),
        }
    }

    /// Adds a call at the end.
    pub(crate) fn push(&mut self, now: Duration) -> Ticket {
        if self.waiting_calls.is_empty() {
            self.first_since = now;
        }
        let ticket = Ticket {
            number: self.next_number,
            entered_at: now,
            time_changed: Arc::default(),
        };
        self.next_number += 1;
        self.waiting_calls.push_back(ticket.clone());
        ticket
    }

    /// Decides whether a call whose timeout ends at `deadline` may be sent.
    pub(crate) fn check_admission(
        &self,
        ticket: &Ticket,
        now: Duration,
        deadline: Duration,
    ) -> Admission {
        // The ticket is in the queue until its call is sent.
        let calls_ahead = self.position(ticket).unwrap_or(0);
        // The limiter's rate may grow while the call waits, but the client's own rate limit does not.
        let rate_limit_wait = self.min_interval.saturating_mul(to_u32(calls_ahead));
        let earliest_admission = self.next_admission().saturating_add(rate_limit_wait);
        if earliest_admission.max(now) >= deadline {
            let wait = self
                .expected_admission(calls_ahead, now)
                .saturating_sub(now);
            return if wait.is_zero() {
                Admission::TimedOut
            } else {
                Admission::TooLate(LateAdmission {
                    wait,
                    is_due_to_service: self.interval(now) > self.min_interval
                        || self.limiter.pause_end() > now,
                })
            };
        }
        let due_time = if calls_ahead == 0 {
            self.next_admission()
        } else {
            // The first call may have been waiting for a permit since its time came.
            let first_due = self.next_admission().max(self.first_since);
            first_due.saturating_add(UNPOLLED_WAIT_LIMIT.saturating_mul(to_u32(calls_ahead)))
        };
        if due_time > now {
            return Admission::At(due_time.min(deadline));
        }
        Admission::Now
    }

    /// Decides whether a call whose timeout ends at `deadline` begins its preparation. Shortly before each expected admission,
    /// one call begins its preparation, even if the calls ahead are not ready.
    pub(crate) fn check_preparation(
        &self,
        ticket: &Ticket,
        now: Duration,
        deadline: Duration,
    ) -> Admission {
        let admission = self.check_admission(ticket, now, deadline);
        if matches!(admission, Admission::TooLate(_) | Admission::TimedOut) {
            return admission;
        }
        let calls_ahead = self.position(ticket).unwrap_or(0);
        let calls_ahead = calls_ahead + self.preparing_numbers.range(..ticket.number).count();
        let expected_time = self.expected_admission(calls_ahead, now);
        match expected_time.saturating_sub(PREPARATION_TIME) {
            begin_time if begin_time <= now => Admission::Now,
            begin_time => Admission::At(begin_time.min(deadline)),
        }
    }

    /// Takes a call out of the queue while it is being prepared.
    pub(crate) fn begin_preparation(&mut self, ticket: &Ticket, now: Duration) {
        self.remove(ticket, now);
        self.preparing_numbers.insert(ticket.number);
    }

    /// Returns a prepared call to its position.
    pub(crate) fn end_preparation(&mut self, ticket: &Ticket, now: Duration) {
        self.preparing_numbers.remove(&ticket.number);
        let position = self
            .waiting_calls
            .partition_point(|other| other.number < ticket.number);
        if position == 0 {
            self.first_since = now;
        }
        self.waiting_calls.insert(position, ticket.clone());
    }

    /// Records that an admitted call is sent. The next call may follow after the interval.
    pub(crate) fn record_departure(&mut self, ticket: &Ticket, now: Duration) {
        let due_time = self.next_admission();
        let has_waited = self.position(ticket) == Some(0) && ticket.entered_at <= due_time;
        let departed_at = if has_waited && now.saturating_sub(due_time) <= WAKE_UP_TOLERANCE {
            due_time
        } else {
            due_time.max(now.saturating_sub(TIMER_TOLERANCE))
        };
        self.interval_end = departed_at.saturating_add(self.interval(now));
        self.remove(ticket, now);
    }

    /// Removes a call, unless it has already been sent.
    pub(crate) fn remove(&mut self, ticket: &Ticket, now: Duration) {
        self.preparing_numbers.remove(&ticket.number);
        if let Some(position) = self.position(ticket) {
            self.waiting_calls.remove(position);
            if let Some(first) = self.waiting_calls.front().filter(|_| position == 0) {
                self.first_since = now;
                first.time_changed.notify_one();
            }
        }
    }

    /// Records a rejection as in [`RateLimiter::record_rejected`].
    pub(crate) fn record_rejected(
        &mut self,
        now: Duration,
        departed_at: Duration,
        retry_after: Duration,
    ) -> Option<Duration> {
        let pause = self.limiter.record_rejected(now, departed_at, retry_after);
        // Some calls may now be too late for their timeouts, so all waiting calls check.
        for ticket in &self.waiting_calls {
            ticket.time_changed.notify_one();
        }
        pause
    }

    fn position(&self, ticket: &Ticket) -> Option<usize> {
        let by_number = |other: &Ticket| other.number;
        self.waiting_calls
            .binary_search_by_key(&ticket.number, by_number)
            .ok()
    }

    /// Returns the expected admission of a call with this many calls ahead of it.
    fn expected_admission(&self, calls_ahead: usize, now: Duration) -> Duration {
        let wait = self.interval(now).saturating_mul(to_u32(calls_ahead));
        self.next_admission().saturating_add(wait)
    }

    /// Returns the earliest time at which the rate allows a call.
    fn next_admission(&self) -> Duration {
        self.interval_end.max(self.limiter.pause_end())
    }

    /// Returns the interval between a call that is sent now and the next.
    fn interval(&self, now: Duration) -> Duration {
        self.min_interval.max(self.limiter.interval(now))
    }
}

fn to_u32(calls: usize) -> u32 {
    u32::try_from(calls).unwrap_or(u32::MAX)
}
