//! Retries: the policy and the loop, the retry quota, and the `Retry-After` header.

pub(crate) mod attempts;
pub(crate) mod quota;
pub(crate) mod retry_after;
