//! Sending of requests and reading of responses. This code does not depend on the models of agents and deals.

pub(crate) mod base_url;
#[cfg(feature = "metrics")]
pub(crate) mod call_metrics;
#[cfg(not(feature = "metrics"))]
#[path = "no_call_metrics.rs"]
pub(crate) mod call_metrics;
pub(crate) mod call_progress;
pub(crate) mod connect;
pub(crate) mod environment;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod key;
pub(crate) mod operation;
pub(crate) mod outcome;
pub(crate) mod path;
pub(crate) mod rate;
pub(crate) mod redact;
pub(crate) mod response;
pub(crate) mod retry;
pub(crate) mod send;
