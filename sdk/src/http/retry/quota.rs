//! How many retries a client may spend.

use std::time::Duration;

/// The tokens of a client that has not spent any.
const FULL: f64 = 500.0;

/// The cost of a retry, which is returned when the call succeeds.
const RETRY: f64 = 14.0;

/// What a call earns that succeeds without a retry.
const SUCCESS: f64 = 1.0;

/// Tokens that retries spend and successes earn, so that a busy client does not send everything three times
/// to a service that is down.
///
/// The numbers are those of AWS' SDKs. In addition, a token is returned every second, so that a client with few
/// calls is not left without retries long after an outage. The retry of a call that the service refused because
/// there were too many is free: [`Pace`](super::pace::Pace) delays such retries, and a bulk job that hits a
/// limit with hundreds of calls in flight loses none of them.
#[derive(Debug)]
pub(crate) struct RetryQuota {
    tokens: f64,
    /// When `tokens` was last updated.
    at: Duration,
}

impl Default for RetryQuota {
    fn default() -> Self {
        Self {
            tokens: FULL,
            at: Duration::ZERO,
        }
    }
}

impl RetryQuota {
    /// Spends the tokens of a retry, if there are enough.
    pub(crate) fn spend(&mut self, now: Duration) -> bool {
        self.earn(now, 0.0);
        let is_enough = self.tokens >= RETRY;
        if is_enough {
            self.tokens -= RETRY;
        }
        is_enough
    }

    /// Records that the service responded as it should, and whether the call's last attempt was a retry that
    /// spent tokens.
    pub(crate) fn succeeded(&mut self, now: Duration, after_spending: bool) {
        self.earn(now, if after_spending { RETRY } else { SUCCESS });
    }

    fn earn(&mut self, now: Duration, tokens: f64) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed + tokens).min(FULL);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many retries are possible until one is refused.
    fn retries(quota: &mut RetryQuota, now: Duration) -> usize {
        (0..).take_while(|_| quota.spend(now)).count()
    }

    #[test]
    fn a_full_quota_is_35_retries() {
        assert_eq!(retries(&mut RetryQuota::default(), Duration::ZERO), 35);
        let mut quota = RetryQuota::default();
        for _ in 0..1000 {
            quota.succeeded(Duration::ZERO, false);
        }
        assert_eq!(retries(&mut quota, Duration::from_secs(1000)), 35);
    }

    #[test]
    fn it_comes_back_with_time_and_with_successes() {
        let mut quota = RetryQuota::default();
        let at = Duration::from_secs;
        assert_eq!(retries(&mut quota, at(0)), 35);
        // Ten tokens are left.
        assert_eq!(retries(&mut quota, at(3)), 0);
        assert_eq!(retries(&mut quota, at(4)), 1);
        for _ in 0..28 {
            quota.succeeded(at(4), false);
        }
        assert_eq!(retries(&mut quota, at(4)), 2);
        assert_eq!(retries(&mut quota, at(10_000)), 35);
    }

    #[test]
    fn a_retry_that_succeeds_is_free() {
        let mut quota = RetryQuota::default();
        for _ in 0..1000 {
            assert!(quota.spend(Duration::ZERO));
            quota.succeeded(Duration::ZERO, true);
        }
        assert_eq!(retries(&mut quota, Duration::ZERO), 35);
    }

    #[test]
    fn one_caller_with_few_calls_never_notices() {
        // A call a minute to a service that is down for a day.
        let mut quota = RetryQuota::default();
        for minute in 0..1440 {
            let now = Duration::from_secs(60 * minute);
            assert!(quota.spend(now) && quota.spend(now));
        }
    }

    proptest! {
        #[test]
        fn no_more_than_was_earned_is_spent(
            steps in proptest::collection::vec((any::<bool>(), 0..5_000_u64), 0..400),
        ) {
            let mut quota = RetryQuota::default();
            let mut now = Duration::ZERO;
            let (mut spent, mut successes) = (0.0, 0.0);
            for (succeeds, millis) in steps {
                now += Duration::from_millis(millis);
                if succeeds {
                    quota.succeeded(now, false);
                    successes += SUCCESS;
                } else if quota.spend(now) {
                    spent += RETRY;
                }
                prop_assert!((0.0..=FULL).contains(&quota.tokens));
                prop_assert!(spent <= FULL + successes + now.as_secs_f64() + 0.001);
            }
        }
    }
}
