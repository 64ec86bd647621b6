//! How fast a client may send, as far as the service has let it know.

use std::time::Duration;

use crate::transport::traffic::allowance::Allowance;

/// The longest time for which a `Retry-After` delays the calls that did not receive it themselves: one wrong
/// header must not silence a client for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a client that is refused without a `Retry-After` sends nothing. It is [`LONGER`] times as long each time until
/// a call is accepted, and at most a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(30);

/// A service that counts by the second of the clock refuses until that is over. A client that doubles its pauses learns
/// it late, uses only part of the next second, and takes that for the rate.
const LONGER: f64 = 1.3;

/// How long after a refusal another one tells little that is new of the rate: a limit may count by the second of the clock,
/// and refuse all until that is over.
const SAME_REFUSAL: Duration = Duration::from_secs(1);

/// The first rate, in calls per second.
const FIRST_RATE: f64 = 50.0;

/// How long a first rate may grow without a refusal until it is forgotten.
const FIRST_RATE_LASTS: Duration = Duration::from_secs(60);

/// The shortest time over which accepted calls are averaged.
const SHORTEST_AVERAGE: Duration = Duration::from_millis(500);

/// The time constant of the measured sending rate: a call counts half after 0.7 of this.
const SENDING_MEMORY: Duration = Duration::from_secs(1);

/// The bound on a growing rate, as a multiple of the measured sending rate. Growth that no call makes use of is a guess, and the next busy
/// minute would pay for that guess with 429 responses.
const MOST_GROWTH: f64 = 2.0;

/// What a refusal leaves of the rate that was refused.
const LESS: f64 = 0.94;

/// The lowest rate, in calls per second.
const LOWEST_RATE: f64 = 1.0;

/// The rate at which a client sends: what the service says that it allows, or else what it has been seen to accept.
///
/// A service that limits its callers refuses with 429, or with 503 and `Retry-After`. All calls of the client then
/// wait as long as it asks, and go on evenly spaced at a lower rate, which grows until the next refusal. As in TCP, it is
/// lowered by a fraction, but grows relatively faster where it is low, so that the clients of one service become alike.
///
/// That takes them minutes, as few of their calls may be refused. So it helps if they begin alike. They are all refused when
/// the first of them has grown too fast, and then begin with the same low rate, which grows faster and faster until the next
/// refusal: a client alone is soon at the limit. Where each refusal costs a pause, it grows less fast, so as not to go far
/// beyond the limit.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Calls that the service has accepted since `since`.
    accepted: f64,
    since: Duration,
    /// What refusals have shown.
    found: Option<Found>,
    /// What the service has said, by its response to the call that went out last.
    said: Option<Said>,
    /// When the pause is over.
    resumes: Duration,
    /// A refusal of a call that departed before this tells nothing new.
    heard: Duration,
    /// The last pause after a refusal without `Retry-After`; none once a call has been accepted since.
    pause: Duration,
    sending: SendingRate,
}

/// The rate at which calls departed: a moving average with exponentially decreasing weights, as of the last departure.
#[derive(Debug, Default)]
struct SendingRate {
    /// In calls per second.
    rate: f64,
    at: Duration,
}

impl SendingRate {
    fn record(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        let remaining = (-passed.div_duration_f64(SENDING_MEMORY)).exp();
        self.rate = self.rate * remaining + SENDING_MEMORY.as_secs_f64().recip();
        self.at = now;
    }
}

#[derive(Clone, Copy, Debug)]
struct Found {
    /// In calls per second.
    rate: f64,
    /// Since when it is known.
    since: Duration,
    /// Since when it has grown.
    at: Duration,
    is_first: bool,
    /// The pause that the last refusal cost: the longer, the more slowly the rate grows.
    cost: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    /// In calls per second.
    rate: f64,
    departed: Duration,
    until: Duration,
}

impl Pace {
    /// Records that a call departs.
    pub(crate) fn record_departure(&mut self, now: Duration) {
        self.sending.record(now);
    }

    /// Records that the service has accepted a call that went out at `departed`.
    pub(crate) fn accepted(&mut self, now: Duration, departed: Duration) {
        let passed = now.saturating_sub(self.since);
        if passed > 2 * SHORTEST_AVERAGE && self.found.is_none_or(|found| found.cost.is_zero()) {
            // Where refusals cost little, there are so many that only about the last second counts.
            self.accepted *= SHORTEST_AVERAGE.div_duration_f64(passed);
            self.since = now.saturating_sub(SHORTEST_AVERAGE);
        }
        self.accepted += 1.0;
        if departed >= self.heard {
            self.pause = Duration::ZERO;
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
            match &mut self.found {
                // It does not grow while nothing is accepted.
                Some(found) if !self.pause.is_zero() => found.at = now,
                _ => self.learn(now, pause, departed),
            }
            let longer = self.pause.mul_f64(LONGER);
            self.pause = longer.clamp(SHORTEST_PAUSE, Duration::from_secs(1));
            self.heard = now;
            self.resumes = self.resumes.max(now.saturating_add(self.pause));
        }
        if !pause.is_zero() {
            self.resumes = self.resumes.max(now.saturating_add(pause));
            self.heard = self.resumes;
        }
        begins.then_some(pause)
    }

    /// Finds a rate, or a lower one, after a refusal.
    fn learn(&mut self, now: Duration, pause: Duration, departed: Duration) {
        let costs_little = pause.is_zero();
        let shortest = SHORTEST_AVERAGE * if costs_little { 1 } else { 2 };
        let passed = now.saturating_sub(self.since).max(shortest);
        let average = self.accepted / passed.as_secs_f64();
        let tried = |found: &Found| self.grown(found, departed);
        // Without the bound on its growth, a rate that would have grown so far, or for so long, is too old to count.
        let is_new =
            |found: &Found| found.is_first && now.saturating_sub(found.at) < FIRST_RATE_LASTS;
        let unbounded = |found: &Found| found.rate(departed, self.resumes);
        let is_valid = |found: &Found| is_new(found) || unbounded(found) < 8.0 * found.rate;
        let found = self.found.filter(is_valid);
        let rate = match found {
            None => FIRST_RATE,
            Some(found) if now.saturating_sub(found.since) < SAME_REFUSAL => {
                let less = (LESS * tried(&found)).max(LOWEST_RATE);
                // If another client has only just begun, all begin again.
                let rate = if found.is_first { FIRST_RATE } else { less };
                let at = now;
                self.found = Some(Found { rate, at, ..found });
                return;
            }
            // If that is too much, the next refusal comes soon, and tells more.
            Some(found) if costs_little => (1.05 * average).min(LESS * tried(&found)),
            Some(found) => {
                // With pauses, each refusal costs much: few must be enough.
                let is_far = found.is_first || now.saturating_sub(found.since) < 3 * SAME_REFUSAL;
                let tried = tried(&found);
                average.clamp(tried * if is_far { 0.7 } else { LESS }, tried)
            }
        };
        self.found = Some(Found {
            rate: rate.max(LOWEST_RATE),
            since: now,
            at: now,
            is_first: found.is_none(),
            cost: pause,
        });
        (self.accepted, self.since) = (0.0, now);
    }

    pub(crate) fn resumes(&self) -> Duration {
        self.resumes
    }

    /// The found rate at `at`: it grows while refusals are absent, up to a multiple of the measured sending rate.
    fn grown(&self, found: &Found, at: Duration) -> f64 {
        let most = found.rate.max(MOST_GROWTH * self.sending.rate);
        found.rate(at, self.resumes).min(most)
    }

    /// The interval between two calls, if one goes out at `at`.
    pub(crate) fn interval(&self, at: Duration) -> Duration {
        // If the service has accepted nothing since it refused a call again, few are sent, to see when that changes.
        if self.pause > SHORTEST_PAUSE {
            return self.pause;
        }
        let found = self.found.map(|found| self.grown(&found, at));
        let said = self.said.filter(|said| at < said.until);
        let rates = found.into_iter().chain(said.map(|said| said.rate));
        Duration::try_from_secs_f64(rates.fold(f64::INFINITY, f64::min).recip()).unwrap_or_default()
    }
}

impl Found {
    fn rate(&self, at: Duration, resumed: Duration) -> f64 {
        let grown = at.saturating_sub(self.at.max(resumed)).as_secs_f64();
        if self.is_first {
            let faster = 0.44 * (1.0 + (grown / 2.1).powi(2));
            let growth = if self.cost.is_zero() { faster } else { 0.6 };
            return self.rate * (growth * grown).exp();
        }
        let grown = grown / (1.0 + 4.0 * self.cost.as_secs_f64());
        // Slowly at first, and faster and faster, to find out when the limit is gone.
        self.rate + 0.12 * self.rate.sqrt() * grown * (1.0 + (grown / 5.0).powi(2))
    }
}
