//! Connections: accepted, bounded in time and size, served, and ended.

pub(crate) mod access_log;
pub(crate) mod body;
mod break_off;
pub(crate) mod conn;
pub(crate) mod listener;
mod reporter;
mod stream;
