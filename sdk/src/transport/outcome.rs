//! Outcomes of failed calls.

use http::StatusCode;

use crate::value::named_enum;

/// The statuses of rejections that do not concern the content of a request, but its sender, its time or its target. With the
/// right service key, for example, the service may accept the same request. A job with a ledger sends such a row again.
#[cfg(feature = "ledger")]
const STATUSES_UNRELATED_TO_CONTENT: [u16; 11] =
    [307, 308, 401, 403, 404, 405, 407, 421, 425, 426, 429];

/// Returns true if a rejection with this status concerns the content of the request.
#[cfg(feature = "ledger")]
pub(crate) fn concerns_content(status: Option<u16>) -> bool {
    status.is_none_or(|status| !STATUSES_UNRELATED_TO_CONTENT.contains(&status))
}

named_enum! {
    /// The possible effect of a failed call at the service; see [`Error::outcome`](crate::Error::outcome).
    ///
    /// | outcome | meaning | sending the request again |
    /// |---|---|---|
    /// | `NotSent` | no part of the request reached the service | is safe |
    /// | `Rejected` | the service responded that it did not act: a 4xx other than 408, a 307 or 308 | is safe, and useful once the reason is gone |
    /// | `Unknown` | the service may have acted: the response is incomplete or missing, or has any other status, such as 408 or 5xx | may act twice |
    /// | `Succeeded` | the service acted: the response is a 2xx whose body could not be read, was too large, or broke off | acts twice |
    ///
    /// Earlier attempts count too: if the service may have acted on one, a call whose last attempt is `NotSent` or
    /// `Rejected` is `Unknown`.
    ///
    /// ```
    /// use dealkit::Outcome;
    ///
    /// fn next_step(outcome: Outcome) -> &'static str {
    ///     match outcome {
    ///         Outcome::NotSent | Outcome::Rejected => "send it again, once the reason is gone",
    ///         Outcome::Unknown => "look whether the agent exists before you send it again",
    ///         Outcome::Succeeded => "look the agent up: it exists",
    ///     }
    /// }
    /// ```
    #[allow(
        clippy::exhaustive_enums,
        reason = "with another outcome, every caller would have another case to decide"
    )]
    Outcome {
        /// No part of the request reached the service.
        NotSent = "not_sent",
        /// The service responded, and did not act.
        Rejected = "rejected",
        /// The service may have acted.
        Unknown = "unknown",
        /// The service acted, but its response could not be read.
        Succeeded = "succeeded",
    }
}

impl Outcome {
    /// Returns true if the service acted or may have acted: `Unknown` or `Succeeded`.
    pub const fn may_have_acted(self) -> bool {
        matches!(self, Outcome::Unknown | Outcome::Succeeded)
    }

    /// Returns the outcome that a response status indicates.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        match status.as_u16() {
            200..=299 => Outcome::Succeeded,
            // The service stopped waiting for the rest of a request, and does not report what it did with the beginning.
            408 => Outcome::Unknown,
            // A 4xx rejects the request. A 307 or 308 asks for the same request at another URL, so the service did not act.
            // Other redirects, such as a 303, may follow a request on which the service acted.
            307 | 308 | 400..=499 => Outcome::Rejected,
            _ => Outcome::Unknown,
        }
    }

    /// Returns the outcome of the call, given its last attempt's outcome and the possible effect of the attempts before.
    pub(crate) const fn after(self, may_have_acted: bool) -> Self {
        match self {
            Outcome::NotSent | Outcome::Rejected if may_have_acted => Outcome::Unknown,
            outcome => outcome,
        }
    }
}

#[cfg(all(test, feature = "ledger"))]
mod tests {
    use super::STATUSES_UNRELATED_TO_CONTENT;

    #[test]
    fn the_contract_lists_the_statuses_that_do_not_concern_the_content() {
        let statuses = STATUSES_UNRELATED_TO_CONTENT.map(|status| status.to_string());
        let [others @ .., last] = &statuses;
        let list = format!("except if the status is {} or {last}", others.join(", "));
        assert!(
            include_str!("../../contract/ledger.md").contains(&list),
            "{list}"
        );
    }
}
