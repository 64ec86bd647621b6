//! Rate limiter that learns from responses how many calls a service accepts per second.
//!
//! The algorithm is the client-side rate limiter of the adaptive retry mode in AWS SDKs (in botocore: `retries/adaptive.py` and
//! `retries/throttling.py`; in smithy-rs: `client_rate_limiter.rs`). The limiter measures the rate of calls. The first rejection
//! enables the limit, and each rejection sets the rate to [`BETA`] times the measured rate. From then on the rate follows
//! the function of CUBIC (RFC 9438): it first approaches the rate before the rejection, and then exceeds it faster and faster.
//! [`BETA`], [`SCALE`], [`SMOOTHING`], [`WINDOW`] and [`MAX_GROWTH`] have the values of botocore. The differences:
//!
//! * All rejections of calls that were in flight together count once, and so do rejections in the following round trip, because
//!   the service needs that long to see the lower rate. Otherwise, a single overload lowers the rate to the minimum.
//! * Only accepted calls are measured, and an unfinished window counts as a complete one. botocore measures all calls in complete
//!   windows: nothing if the first rejection arrives within half a second, and too much if many calls of a burst are rejected.
//! * A rate above twice the measured rate stops growing, as RFC 9438 requires for clients that do not use their rate (section 5.8).
//!   botocore lowers it to twice the measured rate, but lets the function grow in the background: when the client becomes busy, it
//!   exceeds the limit.
//! * The lowest rate is 1 call per second instead of 0.5. At that rate, 32 creates in flight, the default of `create_many`,
//!   are all sent within the default timeout of 60 s.
//! * The bucket holds one token instead of the tokens of a second, so calls are evenly spaced.
//!
//! Unchanged, the algorithm uses 40 % of a limit of 500 calls per second. With the first change, it uses 80 to 100 %. After a quiet
//! minute, it is then rejected 8 to 21 times in 10 seconds under a limit of 100 calls per second; with the second and third
//! change, at most 10 times.

use std::time::Duration;

use crate::transport::rate::rate_limit_headers::RemainingQuota;

/// The factor by which a rejection lowers the rate.
const BETA: f64 = 0.7;

/// The factor of cubic growth, in calls per second, per cubic second.
const SCALE: f64 = 0.4;

/// The weight of the last window in the measured rate.
const SMOOTHING: f64 = 0.8;

/// The length of a window of the measured rate.
const WINDOW: Duration = Duration::from_millis(500);

/// The multiple of the measured rate above which the rate does not grow.
const MAX_GROWTH: f64 = 2.0;

/// The lowest rate, in calls per second.
const MIN_RATE: f64 = 1.0;

/// The longest pause after a response. A wrong `Retry-After` header must not stop a client for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The rate limiter of a client. All times are durations since the client was created.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    measured_rate: MeasuredRate,
    /// The limit that rejections have shown; none before the first rejection.
    limit: Option<CubicRate>,
    quota: Option<QuotaReport>,
    /// No call is sent before this time.
    pause_end: Duration,
    /// Rejections of calls that departed before this time do not lower the rate again.
    next_decrease: Duration,
}

/// The rate at which the service has accepted calls, in calls per second.
#[derive(Debug, Default)]
struct MeasuredRate {
    /// The smoothed rate of all complete windows.
    rate: f64,
    window_start: Duration,
    window_calls: f64,
}

/// A rate that grows with the cube of time, in calls per second.
#[derive(Clone, Copy, Debug)]
struct CubicRate {
    /// The rate at the last rejection.
    max_rate: f64,
    /// The time for which the rate has grown since that rejection.
    growth_time: Duration,
    updated_at: Duration,
}

/// The quota in the response to the call that departed last.
#[derive(Clone, Copy, Debug)]
struct QuotaReport {
    interval: Duration,
    departed_at: Duration,
    reset_at: Duration,
}

impl RateLimiter {
    /// Records that the service accepted a call.
    pub(crate) fn record_accepted(&mut self, now: Duration) {
        self.measured_rate.record(now);
        if let Some(limit) = &mut self.limit {
            if limit.rate() <= MAX_GROWTH * self.measured_rate.rate {
                limit.growth_time += now.saturating_sub(limit.updated_at);
            }
            limit.updated_at = limit.updated_at.max(now);
        }
    }

    /// Records that the service rejected a call that was sent at `departed_at`, and asked to wait for `retry_after`, or zero.
    /// Returns the length of the pause if one begins.
    pub(crate) fn record_rejected(
        &mut self,
        now: Duration,
        departed_at: Duration,
        retry_after: Duration,
    ) -> Option<Duration> {
        let pause = retry_after.min(LONGEST_PAUSE);
        let pause_begins = !pause.is_zero() && self.pause_end <= now;
        self.pause_end = self.pause_end.max(now.saturating_add(pause));
        if departed_at >= self.next_decrease {
            let measured_rate = self.measured_rate.with_unfinished_window();
            let (growth_time, updated_at) = (Duration::ZERO, self.pause_end);
            let max_rate = self
                .limit
                .map_or(measured_rate, |limit| limit.rate().min(measured_rate));
            self.limit = Some(CubicRate {
                max_rate,
                growth_time,
                updated_at,
            });
            let round_trip = now.saturating_sub(departed_at);
            self.next_decrease = now.saturating_add(round_trip);
        }
        if !pause.is_zero() {
            self.next_decrease = self.next_decrease.max(self.pause_end);
        }
        pause_begins.then_some(pause)
    }

    /// Records the quota that is left according to the response to a call that was sent at `departed_at`.
    pub(crate) fn record_quota(
        &mut self,
        now: Duration,
        departed_at: Duration,
        quota: RemainingQuota,
    ) {
        if self
            .quota
            .is_some_and(|report| report.departed_at > departed_at)
        {
            return;
        }
        let reset_at = now.saturating_add(quota.reset_after);
        if quota.is_used_up() {
            self.pause_end = self.pause_end.max(reset_at);
        }
        let interval = quota.interval();
        self.quota = Some(QuotaReport {
            interval,
            departed_at,
            reset_at,
        });
    }

    pub(crate) fn pause_end(&self) -> Duration {
        self.pause_end
    }

    /// Returns the interval between a call that is sent now and the next.
    pub(crate) fn interval(&self, now: Duration) -> Duration {
        let limit = self.limit.map(|limit| limit.rate().recip());
        let limit = limit.and_then(|interval| Duration::try_from_secs_f64(interval).ok());
        let quota = self.quota.filter(|report| now < report.reset_at);
        let quota = quota.map(|report| report.interval);
        limit.max(quota).unwrap_or_default()
    }
}

impl MeasuredRate {
    fn record(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.window_start);
        if elapsed >= WINDOW {
            self.rate = self.rate_after_window(elapsed);
            (self.window_start, self.window_calls) = (now, 0.0);
        }
        self.window_calls += 1.0;
    }

    /// Returns the smoothed rate that follows from the current window if it has this length.
    fn rate_after_window(&self, length: Duration) -> f64 {
        let window_rate = self.window_calls / length.as_secs_f64();
        SMOOTHING * window_rate + (1.0 - SMOOTHING) * self.rate
    }

    fn with_unfinished_window(&self) -> f64 {
        self.rate_after_window(WINDOW).max(self.rate)
    }
}

impl CubicRate {
    fn rate(&self) -> f64 {
        let plateau = (self.max_rate * (1.0 - BETA) / SCALE).cbrt();
        let since_plateau = self.growth_time.as_secs_f64() - plateau;
        (SCALE * since_plateau.powi(3) + self.max_rate).max(MIN_RATE)
    }
}
