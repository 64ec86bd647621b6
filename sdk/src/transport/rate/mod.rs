//! Admission of requests: the queue of waiting calls, and the rate at which they may be sent.

pub(crate) mod admission;
pub(crate) mod queue;
pub(crate) mod rate_limit_headers;
pub(crate) mod rate_limiter;
