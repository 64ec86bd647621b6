//! Connections: accepted, bounded in time and size, served, and ended; and the service without any.

pub(crate) mod access_log;
pub(crate) mod body;
mod break_off;
pub(crate) mod conn;
pub(crate) mod in_process;
pub(crate) mod listener;
mod reporter;
mod stream;
pub(crate) mod tls;
