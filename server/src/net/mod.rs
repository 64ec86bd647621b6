//! Transport: listener, connections with limits on time and size, TLS, faults, the access log, and calls in process.

pub(crate) mod access_log;
mod apply_fault;
pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod in_process;
pub(crate) mod listener;
mod request_recorder;
mod socket;
pub(crate) mod tls;
