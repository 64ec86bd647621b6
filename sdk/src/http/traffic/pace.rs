//! How fast a client continues after a service has told it to slow down.

use std::time::Duration;

/// The longest time for which a `Retry-After` delays the calls that did not receive it themselves: one wrong
/// header must not silence a client for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A pause that is longer than this than was known is another one to those who read of it.
const SAME_PAUSE: Duration = Duration::from_secs(1);

/// When the service tells a client to slow down for the first time, its rate is not held below this, in calls
/// per second, before [`SLOWED`]: a caller with few calls should not notice.
const FIRST_RATE: f64 = 10.0;

/// The lowest rate, in calls per second, before [`SLOWED`].
const LOWEST_RATE: f64 = 1.0;

/// The fraction of its rate at which the client continues after a pause.
const SLOWED: f64 = 0.7;

/// How many seconds it takes until the client is back at its rate.
const RECOVERY: f64 = 5.0;

/// After this long without being told again, the client's rate is unlimited.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The pause that a service asks for, and the pace after it.
///
/// An overloaded service responds with 429, or with 503 and `Retry-After`. Then all calls of the client wait as
/// long as it asks, and continue evenly spaced and slower than before: after a pause alone, all of them would go
/// out at once and be refused again. The rate is a cubic function of time, as in TCP's CUBIC and AWS' adaptive
/// retries: 0.7 of the last rate at first, back at it after 5 s, hardly faster for a while (1.04 times at 7.5
/// s), and then soon much faster (3.4 times at 15 s, 39 times at 30 s). So for most of the time a client stays
/// just below the limit that it has met, whatever the limit is, and still finds out when it is gone.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    departures: Meter,
    slowed: Option<Slowed>,
    /// How many times the client was slowed down.
    times: Times,
}

/// How many times a client had been slowed down when a call went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times(u64);

#[derive(Debug)]
struct Slowed {
    /// When the pause is over.
    resumes: Duration,
    /// The rate that was too high, in calls per second.
    rate: f64,
}

impl Slowed {
    /// The rate at a given time, in calls per second.
    fn rate(&self, at: Duration) -> f64 {
        let since = at.saturating_sub(self.resumes).as_secs_f64();
        let from_recovery = (since - RECOVERY) / RECOVERY;
        self.rate * (1.0 + (1.0 - SLOWED) * from_recovery.powi(3))
    }
}

impl Pace {
    /// Records that a call goes out.
    pub(crate) fn departs(&mut self, now: Duration) -> Times {
        self.departures.count(now);
        if self.slowed(now).is_none() {
            self.slowed = None;
        }
        self.times
    }

    /// Records that the service has refused a call, and the pause that it asks for, if any. `departed` is what
    /// [`departs`](Self::departs) returned when the call went out: all refusals of calls that were in flight
    /// together slow the client down once. Returns how long the pause is, if one begins, or becomes much longer.
    pub(crate) fn refused(
        &mut self,
        now: Duration,
        pause: Duration,
        departed: Times,
    ) -> Option<Duration> {
        let before = self.resumes();
        if departed == self.times {
            let seen = self.departures.rate(now);
            let rate = match self.slowed(now) {
                Some(slowed) => seen.min(slowed.rate(now)).max(LOWEST_RATE),
                None => seen.max(FIRST_RATE),
            };
            self.slowed = Some(Slowed { resumes: now, rate });
            self.times.0 += 1;
        }
        if let Some(slowed) = &mut self.slowed {
            let pause = pause.min(LONGEST_PAUSE);
            slowed.resumes = slowed.resumes.max(now.saturating_add(pause));
        }
        // Calls that were in flight together are refused one after the other, which makes one pause.
        let known = match before > now {
            true => before.saturating_add(SAME_PAUSE),
            false => now,
        };
        let resumes = self.resumes();
        (resumes > known).then(|| resumes.saturating_sub(now))
    }

    fn slowed(&self, now: Duration) -> Option<&Slowed> {
        self.slowed
            .as_ref()
            .filter(|slowed| now < slowed.resumes.saturating_add(FORGOTTEN))
    }

    /// When the pause is over.
    pub(crate) fn resumes(&self) -> Duration {
        self.slowed
            .as_ref()
            .map_or(Duration::ZERO, |slowed| slowed.resumes)
    }

    /// The interval between two calls, if one goes out at `at`.
    pub(crate) fn interval(&self, at: Duration) -> Duration {
        self.slowed(at).map_or(Duration::ZERO, |slowed| {
            Duration::try_from_secs_f64(slowed.rate(at).recip()).unwrap_or_default()
        })
    }
}

/// Counts the events in about the last second.
#[derive(Debug, Default)]
struct Meter {
    second: u64,
    /// In the current second of the clock, and in the one before.
    current: u32,
    before: u32,
}

impl Meter {
    fn count(&mut self, now: Duration) {
        let second = now.as_secs();
        if second != self.second {
            self.before = if second == self.second + 1 {
                self.current
            } else {
                0
            };
            self.current = 0;
            self.second = second;
        }
        self.current = self.current.saturating_add(1);
    }

    /// The number of events in the second that ends now: those of the current second of the clock and, of the
    /// one before, the fraction that belongs to it.
    fn rate(&self, now: Duration) -> f64 {
        let share = 1.0 - f64::from(now.subsec_nanos()) / 1e9;
        match now.as_secs().saturating_sub(self.second) {
            0 => f64::from(self.current) + share * f64::from(self.before),
            1 => share * f64::from(self.current),
            _ => 0.0,
        }
    }
}
