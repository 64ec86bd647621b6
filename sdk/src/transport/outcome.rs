//! What a failed call may have done at the service.

use http::StatusCode;

use crate::value::named_enum;

named_enum! {
    /// What a failed call may have done at the service; see [`Error::outcome`](crate::Error::outcome).
    ///
    /// | outcome | when | sending it again |
    /// |---|---|---|
    /// | `NotSent` | nothing reached the service | is safe |
    /// | `Rejected` | it responded that it did not act: a 4xx other than 408, a 307 or 308 | is safe, and useful once the reason is gone |
    /// | `Unknown` | it may have acted: no whole response came, or a 408, a 5xx, or another status | may do it twice |
    /// | `Succeeded` | it acted: a 2xx whose body could not be read, was too large, or broke off | does it twice |
    ///
    /// Earlier attempts count too: if the service may have acted on one, a call whose last attempt would be `NotSent` or
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
        reason = "another outcome would be another decision for every caller, who is to be told"
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
    /// Whether the service acted, or may have: `Unknown` or `Succeeded`.
    pub const fn may_have_acted(self) -> bool {
        matches!(self, Outcome::Unknown | Outcome::Succeeded)
    }

    /// The outcome that this status indicates.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            200..=299 => Outcome::Succeeded,
            // The service gave up on a request that it had begun to read, and does not say what it did.
            408 => Outcome::Unknown,
            // The request has to be sent again elsewhere. Other redirects may come after the service acted on it.
            307 | 308 | 400..=499 => Outcome::Rejected,
            _ => Outcome::Unknown,
        }
    }

    /// The outcome of the call, given whether an attempt before the last one may have acted.
    pub(crate) const fn after(self, may_have_acted: bool) -> Self {
        match self {
            Outcome::NotSent | Outcome::Rejected if may_have_acted => Outcome::Unknown,
            outcome => outcome,
        }
    }
}
