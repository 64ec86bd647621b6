//! Which call may be sent next, and when.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use crate::transport::traffic::pace::Pace;

/// A call may go out this much later than it could have without delaying those behind it: the runtime's timer
/// counts in milliseconds.
const GRAIN: Duration = Duration::from_millis(2);

/// How long a call that is due is waited for before the next may go instead. A waiting call is a future, and its
/// program may be doing something else, even waiting for a call behind this one.
const PATIENCE: Duration = Duration::from_millis(20);

/// The time before a call's turn at which its preparation begins, if it needs one, so that it is usually ready by then.
const LEAD: Duration = Duration::from_millis(20);

/// The calls of a client that wait to be sent, in order of arrival, and the interval between two of them.
///
/// A call that is due takes its turn itself: no turn is assigned in advance. So no more calls go out than
/// allowed, however late their programs poll them, and one that is cancelled leaves no gap.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Ticket>,
    /// The numbers of the calls that are being prepared. Meanwhile, those behind them may go.
    preparing: BTreeSet<u64>,
    next: u64,
    /// Since when the first of the waiting calls is the first.
    first_since: Duration,
    /// When the limit allows the next call.
    opens: Duration,
    /// The interval between two calls that the client's rate limit requires.
    pub(crate) interval: Duration,
    pub(crate) pace: Pace,
}

/// A place in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    number: u64,
    /// Notified when something has changed for the call that waits here.
    pub(crate) news: Arc<Notify>,
}

/// The answer to a call that asks for its turn.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The call may [depart](Queue::depart).
    Now,
    /// The call should ask again at this time, or when it is notified.
    At(Duration),
    TooLate(TooLate),
    /// The call's time is over, although the rate would have allowed the call.
    TimedOut,
}

/// A turn that comes after the call's time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate {
    /// How long it is until that turn.
    pub(crate) wait: Duration,
    /// Whether the service asked for this, rather than the client's rate limit.
    pub(crate) is_asked: bool,
}

impl Queue {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            waiting: VecDeque::new(),
            preparing: BTreeSet::new(),
            next: 0,
            first_since: Duration::ZERO,
            opens: Duration::ZERO,
            interval,
            pace: Pace::default(),
        }
    }

    /// Puts a call at the end of the queue.
    pub(crate) fn enter(&mut self, now: Duration) -> Ticket {
        if self.waiting.is_empty() {
            self.first_since = now;
        }
        let ticket = Ticket {
            number: self.next,
            news: Arc::default(),
        };
        self.next += 1;
        self.waiting.push_back(ticket.clone());
        ticket
    }

    /// Asks for the turn of a call that must go out before `latest`.
    pub(crate) fn ask(&self, ticket: &Ticket, now: Duration, latest: Duration) -> Turn {
        // The ticket is in the queue until it has its turn.
        let ahead = self.place(ticket).unwrap_or(0);
        let times = u32::try_from(ahead).unwrap_or(u32::MAX);
        let expected = self.interval(now).saturating_mul(times);
        let expected = self.earliest().saturating_add(expected);
        if expected.max(now) >= latest {
            let wait = expected.saturating_sub(now);
            return if wait.is_zero() {
                Turn::TimedOut
            } else {
                Turn::TooLate(TooLate {
                    wait,
                    is_asked: self.interval(now) > self.interval || self.pace.resumes() > now,
                })
            };
        }
        // The first call may be waiting for a permit since the rate allows it.
        let first_due = self.earliest().max(self.first_since);
        let due = match times {
            0 => self.earliest(),
            _ => first_due.saturating_add(PATIENCE.saturating_mul(times)),
        };
        if due > now {
            return Turn::At(due.min(latest));
        }
        Turn::Now
    }

    /// Asks whether to begin to prepare a call that must go out before `latest`. One begins shortly before each turn, whether
    /// or not the calls ahead are ready.
    pub(crate) fn ask_to_prepare(&self, ticket: &Ticket, now: Duration, latest: Duration) -> Turn {
        let turn = self.ask(ticket, now, latest);
        if matches!(turn, Turn::TooLate(_) | Turn::TimedOut) {
            return turn;
        }
        let ahead = self.place(ticket).unwrap_or(0);
        let ahead = ahead + self.preparing.range(..ticket.number).count();
        let times = u32::try_from(ahead).unwrap_or(u32::MAX);
        let expected = self.interval(now).saturating_mul(times);
        let expected = self.earliest().saturating_add(expected);
        match expected.saturating_sub(LEAD) {
            begins if begins <= now => Turn::Now,
            begins => Turn::At(begins.min(latest)),
        }
    }

    /// Records that a call is being prepared.
    pub(crate) fn begin_preparing(&mut self, ticket: &Ticket, now: Duration) {
        self.leave(ticket, now);
        self.preparing.insert(ticket.number);
    }

    /// Puts a call that is prepared back into its place.
    pub(crate) fn end_preparing(&mut self, ticket: &Ticket, now: Duration) {
        self.preparing.remove(&ticket.number);
        let place = self
            .waiting
            .partition_point(|other| other.number < ticket.number);
        if place == 0 {
            self.first_since = now;
        }
        self.waiting.insert(place, ticket.clone());
    }

    /// Lets a call go that has its turn, and the next one an interval later.
    pub(crate) fn depart(&mut self, ticket: &Ticket, now: Duration) {
        self.pace.record_departure(now);
        // If the timer was only a little late, the next call is not delayed by that.
        let since = self.earliest().max(now.saturating_sub(GRAIN));
        self.opens = since.saturating_add(self.interval(now));
        self.leave(ticket, now);
    }

    /// Gives up a place. Has no effect on a call that has had its turn.
    pub(crate) fn leave(&mut self, ticket: &Ticket, now: Duration) {
        self.preparing.remove(&ticket.number);
        if let Some(place) = self.place(ticket) {
            self.waiting.remove(place);
            if let Some(first) = self.waiting.front().filter(|_| place == 0) {
                self.first_since = now;
                first.news.notify_one();
            }
        }
    }

    /// Records that the service has refused a call; see [`Pace::refused`].
    pub(crate) fn refused(
        &mut self,
        now: Duration,
        pause: Duration,
        departed: Duration,
    ) -> Option<Duration> {
        let begun = self.pace.refused(now, pause, departed);
        // For some calls it may now be too late.
        for ticket in &self.waiting {
            ticket.news.notify_one();
        }
        begun
    }

    fn place(&self, ticket: &Ticket) -> Option<usize> {
        let by_number = |other: &Ticket| other.number;
        self.waiting
            .binary_search_by_key(&ticket.number, by_number)
            .ok()
    }

    fn earliest(&self) -> Duration {
        self.opens.max(self.pace.resumes())
    }

    /// The interval between a call that goes now and the next.
    fn interval(&self, now: Duration) -> Duration {
        self.interval.max(self.pace.interval(now))
    }
}
