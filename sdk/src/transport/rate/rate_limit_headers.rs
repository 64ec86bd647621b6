//! Parser of the headers `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-11).

use std::time::Duration;

use http::HeaderMap;

/// The longest window, in seconds, over which a quota is spread. A quota for a day, for example, is not spread out.
const LONGEST_WINDOW: u32 = 60;

/// The number of items that are read of each header. Without this limit, the headers of a hostile service could take seconds to
/// parse.
const MAX_ITEMS: usize = 20;

/// The unused part of a quota, as a response reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemainingQuota {
    /// The requests that the service accepts in each window.
    quota: u32,
    remaining_requests: u32,
    window: Duration,
    /// The time until the service restores the quota.
    pub(crate) reset_after: Duration,
}

impl RemainingQuota {
    /// Parses all lines of the headers of a response. Of several quotas, returns the one with the longest interval
    /// between requests. Skips quotas that are malformed, count something other than requests, or whose window is missing or longer
    /// than a minute.
    pub(crate) fn parse(headers: &HeaderMap) -> Option<Self> {
        let limits = Item::parse_list(headers, "ratelimit");
        if limits.is_empty() {
            return None;
        }
        let policies = Item::parse_list(headers, "ratelimit-policy");
        let quotas = limits.iter().filter_map(|limit| {
            let policy = policies.iter().find(|policy| policy.name == limit.name)?;
            Self::from_items(limit, policy)
        });
        quotas.max_by_key(Self::interval)
    }

    fn from_items(limit: &Item<'_>, policy: &Item<'_>) -> Option<Self> {
        let unit = policy.parameter("qu").unwrap_or("requests");
        if unit.trim_matches('"') != "requests" {
            return None;
        }
        let window = policy.parse_number("w");
        let window = window.filter(|window| (1..=LONGEST_WINDOW).contains(window))?;
        let reset = limit
            .parse_number("t")
            .map_or(window, |reset| reset.min(window));
        Some(Self {
            quota: policy.parse_number("q").filter(|quota| *quota > 0)?,
            remaining_requests: limit.parse_number("r")?,
            window: Duration::from_secs(window.into()),
            reset_after: Duration::from_secs(reset.into()),
        })
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.remaining_requests == 0
    }

    /// Returns the interval between two requests of a client. With half of the quota left, it is the interval at which the
    /// service restores the quota; with more left it is shorter, with less it is longer.
    ///
    /// All clients that share a quota receive the same numbers, so they send at the same rate. The more clients there are, the
    /// smaller is the part of the quota at which they use as much as the service restores.
    pub(crate) fn interval(&self) -> Duration {
        let used_requests = f64::from(self.quota.saturating_sub(self.remaining_requests));
        let window_fraction =
            used_requests / f64::from(self.quota) / f64::from(self.remaining_requests.max(1));
        self.window.mul_f64(window_fraction)
    }
}

/// An item of a list (RFC 9651, section 3.1).
struct Item<'a> {
    /// The name of a policy, without quotation marks.
    name: &'a str,
    parameters: Vec<&'a str>,
}

impl<'a> Item<'a> {
    /// Parses the list in all lines of a header, up to [`MAX_ITEMS`] items.
    fn parse_list(headers: &'a HeaderMap, header: &str) -> Vec<Self> {
        let lines = headers.get_all(header).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let items = lines.flat_map(|line| split_unquoted(line, ','));
        items.take(MAX_ITEMS).map(Self::parse).collect()
    }

    fn parse(item: &'a str) -> Self {
        let mut parts = split_unquoted(item, ';');
        Self {
            name: parts.next().unwrap_or_default().trim_matches('"'),
            parameters: parts.collect(),
        }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut parameters = self.parameters.iter();
        parameters.find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
    }

    fn parse_number(&self, name: &str) -> Option<u32> {
        self.parameter(name)?.parse().ok()
    }
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
