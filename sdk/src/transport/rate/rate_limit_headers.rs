//! Parser of the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11).

use std::time::Duration;

use http::HeaderMap;

/// The longest window, in seconds, over which a quota is spread. A quota for a day, for example, may be used up at once.
const LONGEST_WINDOW: u32 = 60;

/// The unused part of a quota, as a response reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemainingQuota {
    /// The requests that the service accepts in each window.
    quota: u32,
    remaining: u32,
    window: Duration,
    /// The time until the service restores the quota.
    pub(crate) reset: Duration,
}

impl RemainingQuota {
    /// Parses all lines of the headers of a response. If they report several quotas, returns the one with the longest interval.
    /// Skips quotas that are malformed, count something other than requests, or have no window of up to a minute.
    pub(crate) fn parse(headers: &HeaderMap) -> Option<Self> {
        let items = list_items(headers, "ratelimit");
        if items.is_empty() {
            return None;
        }
        let policies = list_items(headers, "ratelimit-policy");
        let quotas = items.iter().filter_map(|item| {
            let policy = policies.iter().find(|policy| policy[0] == item[0])?;
            Self::from_parameters(item, policy)
        });
        quotas.max_by_key(Self::interval)
    }

    fn from_parameters(item: &[&str], policy: &[&str]) -> Option<Self> {
        let seconds = |number: u32| Duration::from_secs(number.into());
        let window = number(policy, "w").filter(|window| (1..=LONGEST_WINDOW).contains(window))?;
        let counts_requests =
            parameter(policy, "qu").is_none_or(|unit| unit.trim_matches('"') == "requests");
        let remaining = Self {
            quota: number(policy, "q").filter(|quota| *quota > 0)?,
            remaining: number(item, "r")?,
            window: seconds(window),
            reset: seconds(number(item, "t").map_or(window, |reset| reset.min(window))),
        };
        counts_requests.then_some(remaining)
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.remaining == 0
    }

    /// Returns the interval between two requests of a client. With half of the quota left, it is the interval at which the
    /// service restores the quota; with more left it is shorter, with less it is longer.
    ///
    /// All clients that share a quota receive the same numbers, so they send at the same rate. The more clients there are, the
    /// smaller is the part of the quota at which they use as much as the service restores.
    pub(crate) fn interval(&self) -> Duration {
        let used = f64::from(self.quota.saturating_sub(self.remaining));
        let of_window = used / f64::from(self.quota) / f64::from(self.remaining.max(1));
        self.window.mul_f64(of_window)
    }
}

/// Returns the items of a list (RFC 9651, section 3.1) from all lines of a header. An item is its name, without quotation marks,
/// and its parameters.
fn list_items<'a>(headers: &'a HeaderMap, header: &str) -> Vec<Vec<&'a str>> {
    let lines = headers.get_all(header).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let items = lines.flat_map(|line| split_unquoted(line, ','));
    items
        .map(|item| {
            let mut parts: Vec<_> = split_unquoted(item, ';').collect();
            parts[0] = parts[0].trim_matches('"');
            parts
        })
        .collect()
}

/// Splits at the separators that are not in a quoted string.
fn split_unquoted(line: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = line.split(move |character| {
        let is_quote = character == '"' && !is_escaped;
        is_escaped = is_quoted && character == '\\' && !is_escaped;
        is_quoted ^= is_quote;
        character == separator && !is_quoted
    });
    parts.map(str::trim)
}

fn parameter<'a>(item: &[&'a str], name: &str) -> Option<&'a str> {
    let mut parameters = item.iter().skip(1);
    parameters.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
}

fn number(item: &[&str], name: &str) -> Option<u32> {
    parameter(item, name)?.parse().ok()
}
