//! How fast a client may send, as far as the service has let it know.

use std::time::Duration;

use crate::http::traffic::allowance::Allowance;

/// The longest time for which a `Retry-After` delays the calls that did not receive it themselves: one wrong
/// header must not silence a client for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Refusals of calls that go out this soon after one without a `Retry-After` tell nothing new: a limit may count
/// by the second of the clock, and refuse all until that is over.
const SAME_REFUSAL: Duration = Duration::from_secs(1);

/// When a service refuses a call for the first time, the client's rate is not held below this, in calls per second:
/// a caller with few calls should not notice.
const FIRST_RATE: f64 = 50.0;

/// The lowest rate, in calls per second.
const LOWEST_RATE: f64 = 1.0;

/// The rate at which a client sends: what the service says that it allows, or else what it has been seen to accept.
///
/// A service that limits its callers refuses with 429, or with 503 and `Retry-After`. All calls of the client then
/// wait as long as it asks, and go on evenly spaced, just below the rate at which it accepted calls until then. Close
/// to that rate the client stays long; then it tries more, faster and faster, until the next refusal. So it stays
/// near the limit, whatever that is, and still finds out when it is gone: the curve is a cubic function of time, as
/// in TCP's CUBIC.
///
/// What a refusal costs determines how rarely more is tried. Without `Retry-After`, a refusal costs one call; with
/// it, all calls of a second or longer.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Calls that the service has accepted since `since`.
    accepted: f64,
    since: Duration,
    /// What has been seen, if the service has refused any call.
    seen: Option<Seen>,
    /// What the service has said, by its response to the call that went out last.
    said: Option<Said>,
    /// When the pause is over.
    resumes: Duration,
    /// A refusal of a call that departed before this tells nothing new.
    heard: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The rate that the service accepts, in calls per second.
    rate: f64,
    /// The fraction of it that is left free at first.
    margin: f64,
    /// How many seconds later the client is back at the rate.
    level: f64,
    /// Whether nothing was accepted between two refusals: then a call a second is enough to see when that changes.
    is_shut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    /// In calls per second.
    rate: f64,
    departed: Duration,
    until: Duration,
}

impl Pace {
    /// Records that the service has accepted a call.
    pub(crate) fn accepted(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since).as_secs_f64();
        if self.seen.is_none() && passed > 2.0 {
            // Before the first refusal, only about the last second counts.
            self.accepted /= passed;
            self.since = now.saturating_sub(Duration::from_secs(1));
        }
        self.accepted += 1.0;
        if let Some(seen) = &mut self.seen {
            seen.is_shut = false;
        }
    }

    /// Records what the response to a call that went out at `departed` says is left.
    pub(crate) fn told(&mut self, now: Duration, allowance: Allowance, departed: Duration) {
        if self.said.is_none_or(|said| said.departed < departed) {
            self.said = Some(Said {
                rate: allowance.rate().max(LOWEST_RATE),
                departed,
                until: now.saturating_add(allowance.window),
            });
        }
    }

    /// Records that the service has refused a call that went out at `departed`, and the pause that it asks for, if
    /// any: all refusals of calls that were in flight together slow the client down once. Returns how long the pause
    /// is, if one begins.
    pub(crate) fn refused(
        &mut self,
        now: Duration,
        pause: Duration,
        departed: Duration,
    ) -> Option<Duration> {
        let pause = pause.min(LONGEST_PAUSE);
        let begins = self.resumes <= now && !pause.is_zero();
        if departed >= self.heard {
            match &mut self.seen {
                Some(seen) if self.accepted == 0.0 => seen.is_shut = true,
                _ => {
                    self.seen = Some(self.learn(now, pause, departed));
                    self.accepted = 0.0;
                    self.since = now;
                }
            }
            self.heard = now.saturating_add(SAME_REFUSAL);
            self.resumes = self.resumes.max(now);
        }
        if !pause.is_zero() {
            self.resumes = self.resumes.max(now.saturating_add(pause));
            self.heard = self.resumes;
            self.since = self.resumes;
        }
        begins.then_some(pause)
    }

    /// What a refusal shows of the rate that the service accepts.
    fn learn(&self, now: Duration, pause: Duration, departed: Duration) -> Seen {
        let passed = now.saturating_sub(self.since).as_secs_f64();
        let Some(seen) = self.seen else {
            return Seen {
                rate: (self.accepted / passed.max(1.0)).max(FIRST_RATE),
                margin: 0.1,
                level: 1.0,
                is_shut: false,
            };
        };
        let (tried, said) = (seen.rate(departed, self.resumes), self.said(departed));
        // Slightly more than was accepted, because that includes the time below the rate.
        let average = 1.03 * self.accepted / passed;
        let rate = if said < tried {
            average.min(tried)
        } else if tried > 1.5 * seen.rate {
            // The rate was far too low, and grew too fast for an average to tell.
            0.7 * tried
        } else if tried < seen.rate && !pause.is_zero() {
            // A pause before it was back at the rate, which so was too high.
            average.clamp(0.5 * tried, 0.9 * tried)
        } else {
            average.clamp(0.5 * tried, tried)
        };
        Seen {
            rate: rate.max(LOWEST_RATE),
            margin: 0.05,
            level: (30.0 * pause.as_secs_f64()).clamp(3.0, 30.0),
            is_shut: false,
        }
    }

    /// When the pause is over.
    pub(crate) fn resumes(&self) -> Duration {
        self.resumes
    }

    /// The rate that the service has said, at a given time, in calls per second.
    fn said(&self, at: Duration) -> f64 {
        let said = self.said.filter(|said| at < said.until);
        said.map_or(f64::INFINITY, |said| said.rate)
    }

    /// The interval between two calls, if one goes out at `at`.
    pub(crate) fn interval(&self, at: Duration) -> Duration {
        let seen = self
            .seen
            .map_or(f64::INFINITY, |seen| seen.rate(at, self.resumes));
        Duration::try_from_secs_f64(seen.min(self.said(at)).recip()).unwrap_or_default()
    }
}

impl Seen {
    /// The rate at a given time, in calls per second.
    fn rate(&self, at: Duration, resumed: Duration) -> f64 {
        if self.is_shut {
            return LOWEST_RATE;
        }
        let since = at.saturating_sub(resumed).as_secs_f64();
        self.rate * (1.0 + self.margin * ((since - self.level) / self.level).powi(3))
    }
}
