//! Sending a request and reading its answer. Knows no agent and no deal.

mod backoff;
mod cause;
pub(crate) mod path;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod redact;
pub(crate) mod retry;
pub(crate) mod retry_after;
pub(crate) mod send;
pub(crate) mod trace;
