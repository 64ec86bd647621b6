//! The headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11): what a service allows.

use std::time::Duration;

use http::HeaderMap;

/// A quota of a longer window is one to be used up when it suits the caller, rather than a rate.
const LONGEST_WINDOW: u32 = 60;

/// How much of a quota is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// In calls per window.
    quota: u32,
    remaining: u32,
    pub(crate) window: Duration,
}

impl Allowance {
    /// What the headers of a response say, of the quota that allows the least. What cannot be read is no limit.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let left = headers.get("ratelimit")?.to_str().ok()?;
        let policies = headers.get("ratelimit-policy")?.to_str().ok()?;
        left.split(',')
            .filter_map(|left| {
                let name = name(left);
                let policy = policies
                    .split(',')
                    .find(|policy| self::name(policy) == name)?;
                let counts_requests = text(policy, "qu").is_none_or(|unit| unit == "\"requests\"");
                let window =
                    number(policy, "w").filter(|window| (1..=LONGEST_WINDOW).contains(window))?;
                let allowance = Self {
                    quota: number(policy, "q").filter(|quota| *quota > 0)?,
                    remaining: number(left, "r")?,
                    window: Duration::from_secs(window.into()),
                };
                counts_requests.then_some(allowance)
            })
            .min_by(|one, other| one.rate().total_cmp(&other.rate()))
    }

    /// The rate of one client, in calls per second. All clients that share the quota see the same of it, and so have
    /// the same rate, whatever their number; the more they are, the less is left when all together use as much as
    /// is added. While nothing is used, the rate is unlimited. However little is left, a twentieth of the whole rate
    /// remains, with which a client notices that there is more.
    pub(crate) fn rate(&self) -> f64 {
        let all = f64::from(self.quota) / self.window.as_secs_f64();
        let used = f64::from(self.quota.saturating_sub(self.remaining));
        (2.3 * all * f64::from(self.remaining) / used).max(all / 20.0)
    }
}

/// The name of an item.
fn name(item: &str) -> &str {
    item.split(';').next().unwrap_or_default().trim()
}

/// The value of an item's parameter.
fn text<'a>(item: &'a str, parameter: &str) -> Option<&'a str> {
    let mut parameters = item.split(';').skip(1).map(str::trim);
    parameters.find_map(|text| text.strip_prefix(parameter)?.strip_prefix('='))
}

fn number(item: &str, parameter: &str) -> Option<u32> {
    text(item, parameter)?.parse().ok()
}
