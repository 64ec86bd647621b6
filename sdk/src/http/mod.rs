//! Sending a request and reading its response. Knows nothing of agents or deals.

mod backoff;
pub(crate) mod call_progress;
mod cause;
pub(crate) mod clock;
mod connect_failure;
pub(crate) mod headers;
mod pace;
pub(crate) mod path;
pub(crate) mod pools;
pub(crate) mod progress;
pub(crate) mod proxy;
pub(crate) mod queue;
mod quota;
pub(crate) mod retry;
pub(crate) mod retry_after;
pub(crate) mod send;
#[cfg(feature = "rustls-no-provider")]
pub(crate) mod tls;
#[cfg(feature = "rustls-no-provider")]
mod tls_failure;
pub(crate) mod trace;
pub(crate) mod traffic;
