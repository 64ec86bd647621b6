//! Connections: accepted, bounded in time and size, served, and ended.

pub(crate) mod access_log;
pub(crate) mod body;
mod break_off;
pub(crate) mod conn;
pub(crate) mod crowd;
mod idle_timer;
pub(crate) mod listener;
mod preface;
mod recording;
mod turns;
pub(crate) mod worker;
