//! What is sent again, when, and how often.

pub(crate) mod attempts;
pub(crate) mod quota;
pub(crate) mod retry_after;
