//! Which call may be sent next, and when.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::http::traffic::pace::{Pace, Times};

/// A call may go out this much later than it could have without delaying those behind it: the runtime's timer
/// counts in milliseconds.
const GRAIN: Duration = Duration::from_millis(2);

/// How long a call that is due is waited for before the next may go instead. A waiting call is a future, and its
/// program may be doing something else, even waiting for a call behind this one.
const PATIENCE: Duration = Duration::from_millis(20);

/// The calls of a client that wait to be sent, in order of arrival, and the interval between two of them.
///
/// A call that is due takes its turn itself: no turn is assigned in advance. So no more calls go out than
/// allowed, however late their programs poll them, and one that is cancelled leaves no gap.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Ticket>,
    /// The number of the next ticket.
    next: u64,
    /// When the limit allows the next call.
    opens: Duration,
    /// The interval between two calls that the client's rate limit requires.
    interval: Duration,
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
    Now(Times),
    /// The call should ask again at this time, or when it is notified.
    At(Duration),
    TooLate(TooLate),
}

/// A turn that comes after the call's time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate {
    /// How long it is until that turn.
    pub(crate) wait: Duration,
    /// Whether the service asked for this, rather than the client's rate limit.
    pub(crate) is_asked: bool,
    /// How many calls are ahead in the queue.
    pub(crate) ahead: usize,
}

impl Queue {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            waiting: VecDeque::new(),
            next: 0,
            opens: Duration::ZERO,
            interval,
            pace: Pace::default(),
        }
    }

    /// If no call is waiting and none has to, returns the turn; otherwise a place in the queue.
    pub(crate) fn enter(&mut self, now: Duration) -> Result<Times, Ticket> {
        if self.waiting.is_empty() && self.earliest() <= now {
            return Ok(self.depart(now, now));
        }
        let ticket = Ticket {
            number: self.next,
            news: Arc::default(),
        };
        self.next += 1;
        self.waiting.push_back(ticket.clone());
        Err(ticket)
    }

    /// Asks for the turn of a call that must go out before `latest`.
    pub(crate) fn ask(&mut self, ticket: &Ticket, now: Duration, latest: Duration) -> Turn {
        // The ticket is in the queue until it has its turn.
        let ahead = self.place(ticket).unwrap_or(0);
        let times = u32::try_from(ahead).unwrap_or(u32::MAX);
        let expected = self.interval(now).saturating_mul(times);
        let expected = self.earliest().saturating_add(expected);
        if expected.max(now) >= latest {
            return Turn::TooLate(TooLate {
                wait: expected.saturating_sub(now),
                is_asked: self.interval(now) > self.interval || self.pace.resumes() > now,
                ahead,
            });
        }
        let due = self
            .earliest()
            .saturating_add(PATIENCE.saturating_mul(times));
        if due > now {
            return Turn::At(due.min(latest));
        }
        // If the timer was only a little late, the next call is not delayed by that.
        let since = self.earliest().max(now.saturating_sub(GRAIN));
        let departed = self.depart(now, since);
        self.leave(ticket);
        Turn::Now(departed)
    }

    /// Gives up a place. Has no effect on a call that has had its turn.
    pub(crate) fn leave(&mut self, ticket: &Ticket) {
        if let Some(place) = self.place(ticket) {
            self.waiting.remove(place);
            if let Some(first) = self.waiting.front().filter(|_| place == 0) {
                first.news.notify_one();
            }
        }
    }

    /// Records that the service has refused a call; see [`Pace::refused`].
    pub(crate) fn refused(
        &mut self,
        now: Duration,
        pause: Duration,
        departed: Times,
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

    /// Lets a call go, and the next one an interval after `since`.
    fn depart(&mut self, now: Duration, since: Duration) -> Times {
        self.opens = since.saturating_add(self.interval(now));
        self.pace.departs(now)
    }

    /// When the first call may go.
    fn earliest(&self) -> Duration {
        self.opens.max(self.pace.resumes())
    }

    /// The interval between a call that goes now and the next.
    fn interval(&self, now: Duration) -> Duration {
        self.interval.max(self.pace.interval(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEVER: Duration = Duration::MAX;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Enter,
        /// The ticket at this place asks, as a program does when its timer has expired.
        Ask(usize),
        Leave(usize),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Enter),
            4 => (0..40_usize).prop_map(Step::Ask),
            1 => (0..40_usize).prop_map(Step::Leave),
            3 => (0..300_u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// In whatever order calls ask, and whichever are never polled: no more go than allowed, and those
        /// that are polled get their turn.
        #[test]
        fn the_limit_is_kept_and_nobody_starves(
            interval in 1..200_u64,
            steps in proptest::collection::vec(step(), 0..300),
        ) {
            let mut queue = Queue::new(millis(interval));
            let mut now = Duration::ZERO;
            let mut tickets: Vec<Ticket> = Vec::new();
            let mut departures = Vec::new();
            for step in steps {
                match step {
                    Step::Enter => match queue.enter(now) {
                        Ok(_) => departures.push(now),
                        Err(ticket) => tickets.push(ticket),
                    },
                    Step::Ask(place) if place < tickets.len() => {
                        match queue.ask(&tickets[place], now, NEVER) {
                            Turn::Now(_) => {
                                tickets.remove(place);
                                departures.push(now);
                            }
                            Turn::At(at) => prop_assert!(at > now),
                            Turn::TooLate(late) => prop_assert!(false, "{late:?}"),
                        }
                    }
                    Step::Leave(place) if place < tickets.len() => {
                        queue.leave(&tickets.remove(place));
                    }
                    Step::Pass(time) => now += millis(time),
                    _ => {}
                }
                prop_assert_eq!(queue.waiting.len(), tickets.len());
            }
            // The last is the only one that is polled.
            if let Some(last) = tickets.last() {
                let patience = PATIENCE * u32::try_from(tickets.len()).unwrap();
                let by = now + millis(interval) + patience;
                let mut has_gone = false;
                while now <= by && !has_gone {
                    now = match queue.ask(last, now, NEVER) {
                        Turn::At(at) => at,
                        _ => {
                            has_gone = true;
                            now
                        }
                    };
                }
                prop_assert!(has_gone);
                departures.push(now);
            }
            for (first, from) in departures.iter().enumerate() {
                for (count, at) in (0_u32..).zip(&departures[first..]) {
                    prop_assert!(*at + GRAIN >= *from + millis(interval) * count, "{departures:?}");
                }
            }
        }

        /// A service that lets this many calls through per second, and as many at once after a while without any, is
        /// called by a caller that always has one more: few of its calls are refused, whatever the limit.
        #[test]
        fn few_calls_are_refused_whatever_the_limit(
            limit in 20.0..500.0_f64,
            burst in 1.0..500.0_f64,
            pause in prop::sample::select(vec![0, 1, 3]),
        ) {
            let mut queue = Queue::new(Duration::ZERO);
            let mut now = Duration::ZERO;
            let (mut tokens, mut last) = (burst, now);
            let (mut calls, mut refusals) = (0_u32, 0_u32);
            while now < Duration::from_secs(120) {
                match queue.enter(now) {
                    Err(ticket) => {
                        if let Turn::At(at) = queue.ask(&ticket, now, NEVER) {
                            now = at;
                        }
                        queue.leave(&ticket);
                    }
                    Ok(departed) => {
                        calls += 1;
                        tokens = burst.min(tokens + limit * (now - last).as_secs_f64());
                        last = now;
                        if tokens < 1.0 {
                            refusals += 1;
                            queue.refused(now, Duration::from_secs(pause), departed);
                        } else {
                            tokens -= 1.0;
                        }
                    }
                }
            }
            let share = f64::from(refusals) / f64::from(calls);
            prop_assert!(share < 0.02, "{refusals} of {calls}");
            prop_assert!(f64::from(calls) > 0.4 * limit * 120.0, "{calls}");
        }
    }
}
